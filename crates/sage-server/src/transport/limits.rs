//! Rate limits per token, for requests and for changes, by the generic cell rate algorithm.
//!
//! A meter is one number: the time at which all requests so far would have been due at the allowed rate. A caller that
//! is ahead of the clock by more than the burst has to wait. Counting takes no lock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::transport::admission::Usage;

/// A number per second, and a burst of so many seconds' worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Rate {
    each_second: u32,
    burst_seconds: u32,
}

impl Rate {
    /// A rate of at least one per second.
    pub(crate) fn new(each_second: u32, burst_seconds: u32) -> Self {
        Self { each_second: each_second.max(1), burst_seconds: burst_seconds.max(1) }
    }

    pub(crate) const fn each_second(self) -> u32 {
        self.each_second
    }
}

/// The rates of each token.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rates {
    pub(crate) requests: Rate,
    pub(crate) changes: Rate,
}

/// The meters of one token.
#[derive(Debug, Default)]
pub(crate) struct Meters {
    pub(crate) requests: Meter,
    pub(crate) changes: Meter,
    /// What its requests currently use.
    pub(crate) usage: Usage,
}

/// A lock-free rate limiter.
#[derive(Debug, Default)]
pub(crate) struct Meter {
    /// In nanoseconds since the start.
    due: AtomicU64,
}

impl Meter {
    /// Counts one request, or returns how long the caller has to wait.
    pub(crate) fn count(&self, rate: Rate, now: u64) -> Result<(), Duration> {
        let each = 1_000_000_000 / u64::from(rate.each_second);
        let burst = 1_000_000_000 * u64::from(rate.burst_seconds);
        let next = |due: u64| {
            let due = due.max(now) + each;
            (due - now <= burst).then_some(due)
        };
        match self.due.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next) {
            Ok(_) => Ok(()),
            Err(due) => Err(Duration::from_nanos(due.max(now) + each - now - burst)),
        }
    }
}

/// Nanoseconds since a moment.
pub(crate) fn since(start: Instant) -> u64 {
    u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_is_taken_and_then_the_rate() {
        let (meter, rate) = (Meter::default(), Rate::new(10, 2));
        let taken = (0..100).take_while(|_| meter.count(rate, 1).is_ok()).count();
        assert_eq!(taken, 20);
        let wait = meter.count(rate, 1).expect_err("the burst is used up");
        assert!(wait > Duration::ZERO && wait <= Duration::from_millis(100), "{wait:?}");
        let later = 1 + u64::try_from(wait.as_nanos()).expect("a short time");
        assert!(meter.count(rate, later).is_ok() && meter.count(rate, later).is_err());
        let rested = later + 3_600_000_000_000;
        assert_eq!((0..100).take_while(|_| meter.count(rate, rested).is_ok()).count(), 20);
    }
}
