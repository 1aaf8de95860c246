//! Backups: a directory is copied while in use, and restored behind a rollback fence.
//!
//! The log is copied first, as a snapshot; then every file that it names, verified against its digest; the manifest is
//! last. So everything in the manifest is complete, and a copy without a manifest is not a backup. A restored directory
//! grants nothing until an officer acknowledges it: its log lacks everything that was spent after the copy.

mod bundle;
mod list;
mod restore;
mod save;

pub use bundle::export;
pub use list::{BackupError, BackupManifest};
pub use restore::{RestoredTokens, restore};
pub use save::save;
