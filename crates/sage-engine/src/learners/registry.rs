//! The list of learners: those of this crate, and those that other crates register.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::{Learner, TrainKeys, logistic, network, ridge};
use crate::pipeline::PipelineFileError;

/// The learners of this crate. A new one gets its line here.
const BUILT_IN: &[LearnerKind] = &[ridge::KIND, logistic::KIND, network::KIND];

/// The learners that other crates have registered in this process.
static REGISTERED: RwLock<Vec<LearnerKind>> = RwLock::new(Vec::new());

/// Values of `kind` that are not learners.
pub(crate) const NOT_LEARNERS: [&str; 3] = ["statistic", "release", "command"];

/// A kind of learner, as `kind` in `[train]` selects it.
#[derive(Clone, Copy)]
pub struct LearnerKind {
    /// The value of `kind`.
    pub name: &'static str,
    /// The keys of `[train]` that it reads, besides `kind`. Other keys are errors.
    pub keys: &'static [&'static str],
    /// Parses its keys.
    pub parse: fn(&TrainKeys<'_>) -> Result<Arc<dyn Learner>, PipelineFileError>,
}

/// The name of a learner is already in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindTaken(pub &'static str);

impl fmt::Display for KindTaken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a learner `{}` exists already; choose another name", self.0)
    }
}

impl std::error::Error for KindTaken {}

/// Adds a learner to this process.
///
/// The log contains pipeline files, and opening a directory parses them. So every program that opens a directory must
/// first register the learners that its runs use.
///
/// # Errors
/// If the name is in use.
pub fn register(kind: LearnerKind) -> Result<(), KindTaken> {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    let mut known = BUILT_IN.iter().chain(registered.iter()).map(|known| known.name).chain(NOT_LEARNERS);
    if known.any(|name| name == kind.name) {
        return Err(KindTaken(kind.name));
    }
    registered.push(kind);
    Ok(())
}

/// All learners, those of this crate first.
pub(crate) fn kinds() -> Vec<LearnerKind> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    BUILT_IN.iter().chain(registered.iter()).copied().collect()
}

/// The names of all learners, those of this crate first.
pub fn kind_names() -> Vec<&'static str> {
    kinds().into_iter().map(|kind| kind.name).collect()
}
