//! Releases: what an accepted attempt made, as files that never change.
//!
//! The files of a release lie in a folder named by their digest, so that what the log vouches for and what is
//! served cannot differ. They are written before the release is an event; a crash between leaves a folder that no
//! event names, which the doctor finds. A release becomes visible by its event alone.

mod artefact;
mod receipt;
mod store;

pub use artefact::Kind;
pub use receipt::Receipt;
pub use store::ArtifactStoreError;

pub(crate) use artefact::{Artefact, digest, model, statistic};
pub(crate) use store::ArtifactStore;
