//! Delays results to the end of the disclosure interval, on streams whose file requests it.
//!
//! The duration of a computation depends on rows, and a caller could measure it. If the stream file sets `answers =
//! "at-interval"`, the result of a query or an attempt, success or failure alike, is neither released, logged nor
//! returned before the interval in which it was computed has ended. The caller then learns the number of intervals and
//! nothing finer.

use std::collections::BTreeMap;
use std::time::Duration;

use crate::api::{Engine, now};
use crate::stream::{Disclosure, StreamFile};

/// The interval if neither the operator nor the stream file sets a longer one.
const INTERVAL: Duration = Duration::from_secs(60);

impl Engine {
    /// The shortest disclosure interval of this directory, in milliseconds.
    pub fn least_interval(&self) -> u64 {
        u64::try_from(self.options.interval.unwrap_or(INTERVAL).as_millis()).unwrap_or(u64::MAX).max(1)
    }

    /// The disclosure intervals of all streams in milliseconds: as the stream file sets them, and at least
    /// [`Engine::least_interval`].
    pub fn disclosure_intervals(&self) -> BTreeMap<String, u64> {
        let (catalog, least) = (self.catalog(), self.least_interval());
        catalog.streams().map(|(name, known)| (name.to_owned(), interval_of(&known.file, least))).collect()
    }

    /// The disclosure interval of a stream in milliseconds; `None` if its results are returned at once.
    pub(crate) fn answer_interval(&self, stream: &str) -> Option<u64> {
        let catalog = self.catalog();
        let file = &catalog.stream(stream)?.file;
        (file.answers == Disclosure::AtInterval).then(|| interval_of(file, self.least_interval()))
    }

    /// Waits for the end of the stream's disclosure interval, if its results are delayed.
    pub(crate) fn wait_for_disclosure(&self, stream: &str) {
        let Some(interval) = self.answer_interval(stream) else { return };
        let end = (now() / interval + 1).saturating_mul(interval);
        // If the clock is set back, the wait is still at most one interval.
        std::thread::sleep(Duration::from_millis(end.saturating_sub(now()).min(interval)));
    }
}

/// The disclosure interval of a stream, in milliseconds.
fn interval_of(file: &StreamFile, least: u64) -> u64 {
    let own = file.disclosure_interval.and_then(|interval| u64::try_from(interval.microseconds() / 1000).ok());
    own.unwrap_or(0).max(least)
}
