//! The log on disk: a directory with one owner, a SQLite file in it, and exported log heads.
//!
//! The *log head* is the end of the log: its length and the hash of its last record. Since every record contains the
//! hash of the one before, a head identifies the whole log up to it. Heads are exported to other machines, so that a
//! log that was rolled back to an older copy is detected.
//!
//! Types enforce the order of opening. One process owns a [`Directory`], which opens the [log](BoxedLog). The kernel's
//! gate verifies the log and folds it. [`Heads::check`] compares the gate with every exported head. Only a gate that
//! passes, or that an officer has acknowledged, becomes a [`SoundGate`], and [`GroupCommit`], which many threads share,
//! accepts only that. This module decides nothing about budgets and is not trusted with history: the kernel verifies
//! the hash chain itself.

mod copy;
mod directory;
pub mod durable;
mod group_commit;
mod heads;
mod sign;
mod sqlite;
mod sqlite_copy;
mod store;

pub use copy::{LogCopy, copy_log, read_format};
pub use directory::{Directory, OpenError};
pub use group_commit::GroupCommit;
pub use heads::{
    Acknowledgement, ExportedHead, HeadCheck, Heads, HeadsError, RESTORE_NOTE, ROLLBACK_NOTE, RestoreAcknowledgement,
    RolledBackGate, SinceBackup, SoundGate, from_hexadecimal, hexadecimal,
};
pub use sign::has_head_key;
pub use sqlite::FORMAT;
pub use store::{BoxedLog, LogStore};
