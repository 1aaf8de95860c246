//! The engine end to end: rows are ingested, charged, read, released, retired and deleted, and the log records it all.

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
