//! Releases: the immutable files of accepted attempts.
//!
//! The files of a release are in a folder named by their digest, so that the served files are those that the log names.
//! They are written before the release is recorded; a crash in between leaves a folder that no event names, which the
//! doctor finds. Only its event makes a release visible.

mod artefact;
mod receipt;
mod store;

pub use artefact::Kind;
pub use receipt::Receipt;
pub use store::ArtifactStoreError;

pub(crate) use artefact::{Artefact, digest, model, statistic};
pub(crate) use store::ArtifactStore;
