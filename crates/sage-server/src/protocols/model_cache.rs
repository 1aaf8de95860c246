//! Recently used models, cached by token and name, so that the next request needs neither the catalog nor a thread.
//!
//! What is kept is kept for each token by itself, because not everybody may know of a release at the same time, and
//! only for a moment, because releases are renamed and withdrawn.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use sage_engine::ReleaseView;
use sage_engine::serve::Predictor;

use crate::transport::limits::since;

/// How long a model is known, in nanoseconds.
const FRESH: u64 = 50_000_000;
/// How many are known at a time.
const MOST: usize = 10_000;

/// In which words a model is model.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Protocol {
    /// The Open Inference Protocol's.
    Inference,
    /// MLflow's.
    Invocations,
}

/// A model that is ready to be model.
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

    /// Forgets them, because a name has moved or a version was withdrawn.
    pub(crate) fn clear(&self) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
