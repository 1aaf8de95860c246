//! Where the log lives: a directory with one owner, one SQLite file in it, and heads that leave the machine.
//!
//! The way in is fixed by types. A [`Directory`] is held by one process and opens its log, a [`BoxedLog`]; the
//! kernel's gate is a verified fold of it; [`Heads::check`] compares the gate with every head that was
//! exported before, and only what passes, or what an officer has acknowledged, is a [`Sound`] gate. A
//! [`GroupCommit`] serves many threads and takes nothing but a sound gate. Nothing here decides about a budget, and
//! nothing here is trusted with history: the kernel verifies the chain whatever this module gives it.

mod copy;
mod directory;
pub mod durable;
mod group_commit;
mod heads;
mod sign;
mod sqlite;
mod store;

pub use copy::{LogCopy, copy_log, format_of};
pub use directory::{Directory, OpenError};
pub use group_commit::GroupCommit;
pub use heads::{
    Acknowledgement, Checked, Heads, HeadsError, KnownHead, RESTORE_NOTE, ROLLBACK_NOTE, RestoreAcknowledgement,
    RolledBack, Since, Sound, from_hexadecimal, hexadecimal,
};
pub use sign::has_head_key;
pub use sqlite::FORMAT;
pub use store::{BoxedLog, LogStore};
