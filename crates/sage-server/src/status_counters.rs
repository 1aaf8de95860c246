//! Lock-free counters of responses by status.

use std::sync::atomic::{AtomicU64, Ordering};

/// The number of possible statuses.
const FIRST: u16 = 100;
const COUNT: usize = 500;

/// The number of responses by status.
pub(crate) struct StatusCounters(Vec<AtomicU64>);

impl StatusCounters {
    pub(crate) fn new() -> Self {
        Self((0..COUNT).map(|_| AtomicU64::new(0)).collect())
    }

    pub(crate) fn count(&self, status: u16) {
        if let Some(counter) = self.0.get(usize::from(status.saturating_sub(FIRST))) {
            counter.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// All statuses that occurred, with their counts.
    pub(crate) fn counted(&self) -> Vec<(u16, u64)> {
        let all = (FIRST..).zip(&self.0).map(|(status, counter)| (status, counter.load(Ordering::Relaxed)));
        all.filter(|(_, count)| *count > 0).collect()
    }
}
