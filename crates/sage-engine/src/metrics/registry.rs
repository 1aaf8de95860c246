//! The list of metrics: those of this crate, and those that other crates register.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use super::{Measured, Metric, MetricKeys, absolute, accuracy, auc, log_loss, mse, precision};
use crate::pipeline::PipelineFileError;

/// The metrics of this crate. A new one gets its line here.
const BUILT_IN: &[MetricKind] =
    &[mse::KIND, log_loss::KIND, absolute::KIND, accuracy::KIND, auc::KIND, precision::KIND];

/// The metrics that other crates have registered in this process.
static REGISTERED: RwLock<Vec<MetricKind>> = RwLock::new(Vec::new());

/// A kind of metric, as `metric` in `[validate]` selects it.
#[derive(Clone, Copy)]
pub struct MetricKind {
    /// The value of `metric`.
    pub name: &'static str,
    /// Its name on the receipt of a release.
    pub title: &'static str,
    /// Its name where the target of a run is shown.
    pub heading: &'static str,
    /// What it measures.
    pub measured: Measured,
    /// The keys of `[validate]` that only some metrics have and that it reads. A metric that is a mean loss also has the
    /// key `test`.
    pub keys: &'static [&'static str],
    /// Parses its keys.
    pub parse: fn(&MetricKeys<'_>) -> Result<Arc<dyn Metric>, PipelineFileError>,
}

/// The name of a metric is already in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricTaken(pub &'static str);

impl fmt::Display for MetricTaken {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "a metric `{}` exists already; choose another name", self.0)
    }
}

impl std::error::Error for MetricTaken {}

impl fmt::Debug for MetricKind {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("MetricKind").field("name", &self.name).field("keys", &self.keys).finish_non_exhaustive()
    }
}

/// Adds a metric to this process.
///
/// The log contains pipeline files, and opening a directory parses them. So every program that opens a directory must
/// first register the metrics that its runs use.
///
/// # Errors
/// If the name is in use.
pub fn register(kind: MetricKind) -> Result<(), MetricTaken> {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    if BUILT_IN.iter().chain(registered.iter()).any(|known| known.name == kind.name) {
        return Err(MetricTaken(kind.name));
    }
    registered.push(kind);
    Ok(())
}

/// All metrics, those of this crate first.
pub(crate) fn kinds() -> Vec<MetricKind> {
    let registered = REGISTERED.read().unwrap_or_else(PoisonError::into_inner);
    BUILT_IN.iter().chain(registered.iter()).copied().collect()
}

/// The names of all metrics, those of this crate first.
pub fn kind_names() -> Vec<&'static str> {
    kinds().into_iter().map(|kind| kind.name).collect()
}
