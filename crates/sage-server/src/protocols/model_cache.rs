//! Recently used models, cached by token and name, so that the next request needs neither the catalog nor a thread.
//!
//! Entries are per token, because users learn of a release at different times, and short-lived, because aliases move
//! and releases are withdrawn.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use sage_engine::ReleaseView;
use sage_engine::serve::Predictor;

use crate::transport::limits::since;

/// The lifetime of an entry, in nanoseconds.
const FRESH: u64 = 50_000_000;
/// The most entries.
const MOST: usize = 10_000;

/// The protocol of a prediction request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The Open Inference Protocol.
    Inference,
    /// MLflow's `/invocations`.
    Invocations,
}

/// A release and its predictor.
pub(crate) struct LoadedModel {
    pub(crate) release: ReleaseView,
    pub(crate) predictor: Arc<Predictor>,
}

/// Models by token and name.
pub(crate) struct ModelCache {
    start: Instant,
    known: RwLock<BTreeMap<String, (u64, Arc<LoadedModel>)>>,
}

impl ModelCache {
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), known: RwLock::default() }
    }

    /// The model, if it was used recently.
    pub(crate) fn fresh(&self, key: &str) -> Option<Arc<LoadedModel>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let (until, model) = known.get(key)?;
        (since(self.start) < *until).then(|| Arc::clone(model))
    }

    pub(crate) fn keep(&self, key: String, model: Arc<LoadedModel>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, (since(self.start) + FRESH, model));
    }

    /// Removes all entries, after an alias has moved or a version was withdrawn.
    pub(crate) fn clear(&self) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
