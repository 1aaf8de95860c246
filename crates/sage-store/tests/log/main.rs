//! The log on disk: what every store must do, ownership of the directory, group commit, exported heads, damaged bytes.

mod conformance;
mod damage;
mod directory;
mod group_commit;
mod heads;
mod world;
