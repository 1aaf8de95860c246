//! Backups: a directory copied while it is used, and made again from the copy behind a fence.
//!
//! The log is copied first, as it is at one moment; then every file that it names, each held against its digest; the
//! list of all files is last. So whatever is in the list is whole, and a copy without a list is none. What is restored
//! grants nothing until an officer has answered for it: the log forgets what was spent after it was copied.

mod bundle;
mod list;
mod restore;
mod save;

pub use bundle::export;
pub use list::{BackupError, Saved};
pub use restore::{RestoredTokens, restore};
pub use save::save;
