//! The engine from end to end: rows go in, are charged, read, released, retired and deleted, and the log
//! knows of all of it.

mod authority;
mod bucket;
mod doctor;
mod learn;
mod life;
mod members;
mod order;
mod policy;
mod quarantine;
mod taxi;
mod users;
mod world;
