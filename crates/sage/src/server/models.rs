//! Models that were asked a moment ago, so that the next question needs neither the catalog nor a thread of its own.
//!
//! What is kept is kept for each token by itself, because not everybody may know of a release at the same time, and
//! only for a moment, because releases are named anew and withdrawn.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Instant;

use sage_engine::ReleaseView;
use sage_engine::serve::Predictor;

use super::limits::since;

/// How long a model is known, in nanoseconds.
const FRESH: u64 = 50_000_000;
/// How many are known at a time.
const MOST: usize = 10_000;

/// In which words a model is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Protocol {
    /// The Open Inference Protocol's.
    Inference,
    /// MLflow's.
    Invocations,
}

/// A model that is ready to be asked.
pub(super) struct Asked {
    pub(super) release: ReleaseView,
    pub(super) predictor: Arc<Predictor>,
}

/// Models by token and name.
pub(super) struct Models {
    start: Instant,
    known: RwLock<BTreeMap<String, (u64, Arc<Asked>)>>,
}

impl Models {
    pub(super) fn new() -> Self {
        Self { start: Instant::now(), known: RwLock::default() }
    }

    /// The model, if it was found a moment ago.
    pub(super) fn fresh(&self, key: &str) -> Option<Arc<Asked>> {
        let known = self.known.read().unwrap_or_else(PoisonError::into_inner);
        let (until, asked) = known.get(key)?;
        (since(self.start) < *until).then(|| Arc::clone(asked))
    }

    pub(super) fn keep(&self, key: String, asked: Arc<Asked>) {
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        if known.len() >= MOST {
            known.clear();
        }
        known.insert(key, (since(self.start) + FRESH, asked));
    }

    /// Forgets them, because a name has moved or a version was withdrawn.
    pub(super) fn forget(&self) {
        self.known.write().unwrap_or_else(PoisonError::into_inner).clear();
    }
}
