//! What somebody without a role in a stream sees of it, they see in ticks.
//!
//! When an attempt ends depends on rows, if only by a millisecond. So to those outside nothing that an attempt brings
//! about, a release and the event that tells of it, is there before the tick in which it happened is over; whoever
//! asks every instant learns the tick and nothing finer. What people do themselves, such as naming or withdrawing a
//! version, is shown at once. Those who have a role in the stream see everything as it happens.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use sage_engine::{Engine, EngineError, ReleaseView};

/// The ticks of a server.
pub(super) struct Ticks {
    /// In milliseconds.
    tick: u64,
    shown: Mutex<Shown>,
}

/// What those outside may see.
#[derive(Clone, Default)]
struct Shown {
    /// The start of the tick that this was worked out in; what happened from then on is not in it.
    boundary: u64,
    /// How many events of the log.
    length: u64,
    /// The newest version of each release.
    newest: Arc<BTreeMap<String, u32>>,
}

/// Events looked at together.
const AT_A_TIME: u64 = 512;

/// The start of the tick that a time is in.
const fn boundary(time: u64, tick: u64) -> u64 {
    time - time % tick
}

impl Ticks {
    /// Of so many seconds, for an engine as it is found at this time, in milliseconds since 1970.
    pub(super) fn new(seconds: u64, engine: &Engine, now: u64) -> Result<Self, EngineError> {
        let tick = seconds.max(1).saturating_mul(1000);
        let boundary = boundary(now, tick);
        let mut newest = BTreeMap::<String, u32>::new();
        for release in engine.releases() {
            let known = newest.entry(release.name).or_insert(0);
            *known = release.version.max(*known);
        }
        // What came after the boundary is found from the end, so that a long log costs nothing.
        let mut length = engine.log_length()?;
        'back: while length > 0 {
            let from = length.saturating_sub(AT_A_TIME);
            let events = engine.events(from, (length - from) as usize)?;
            for event in events.iter().rev() {
                if event.time < boundary {
                    break 'back;
                }
                length = event.number;
                let released = event.release.as_ref().filter(|_| event.kind == "released");
                if let Some(version) = released.and_then(|name| newest.get_mut(name)) {
                    *version = version.saturating_sub(1);
                }
            }
            if events.is_empty() {
                break;
            }
        }
        Ok(Self { tick, shown: Mutex::new(Shown { boundary, length, newest: Arc::new(newest) }) })
    }

    /// How long a tick is, in milliseconds.
    pub(super) const fn length(&self) -> u64 {
        self.tick
    }

    /// What is shown at this time. Where the log cannot be read, what was shown before.
    fn shown(&self, engine: &Engine, now: u64) -> Shown {
        let mut shown = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let boundary = boundary(now, self.tick);
        if shown.boundary < boundary
            && let Ok(next) = advanced(&shown, engine, boundary)
        {
            *shown = next;
        }
        shown.clone()
    }

    /// How many events of the log those outside may know of.
    pub(super) fn events(&self, engine: &Engine, now: u64) -> u64 {
        self.shown(engine, now).length
    }

    /// The newest version of each release that those outside may know of.
    pub(super) fn newest(&self, engine: &Engine, now: u64) -> Arc<BTreeMap<String, u32>> {
        self.shown(engine, now).newest
    }
}

/// With what happened before a later boundary.
fn advanced(shown: &Shown, engine: &Engine, boundary: u64) -> Result<Shown, EngineError> {
    let mut next = Shown { boundary, ..shown.clone() };
    loop {
        let events = engine.events(next.length, AT_A_TIME as usize)?;
        let over = events.iter().take_while(|event| event.time < boundary);
        let mut passed = 0;
        for event in over {
            passed += 1;
            next.length = event.number + 1;
            if let Some(name) = event.release.as_ref().filter(|_| event.kind == "released") {
                *Arc::make_mut(&mut next.newest).entry(name.clone()).or_insert(0) += 1;
            }
        }
        if passed == 0 || passed < events.len() {
            return Ok(next);
        }
    }
}

/// Whether a release is there for those who know of these newest versions.
pub(super) fn is_out(newest: &BTreeMap<String, u32>, release: &ReleaseView) -> bool {
    newest.get(&release.name).is_some_and(|version| release.version <= *version)
}

/// A span of time as it is told to others: from the start of its first tick to the end of its last.
pub(super) fn widened(began: u64, ended: u64, tick: u64) -> (u64, u64) {
    (boundary(began, tick), boundary(ended, tick) + tick)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fixed sequence of numbers.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    /// When jobs are seen to end, in the unit of the last argument, counted from the tick in which they began. A row
    /// takes a microsecond, and one of the neighbours has a row that takes a thousand times as long.
    fn seen(seed: u64, slow_microseconds: u64, seen: impl Fn(u64) -> u64) -> Vec<f64> {
        let mut state = seed;
        let job = |_| {
            let began = 1_800_000_000_000_000 + next(&mut state) % 86_400_000_000;
            let took = 200_000 + next(&mut state) % 2_000 + slow_microseconds;
            (seen(began + took) as f64) - (seen(began) as f64)
        };
        (0..10_000).map(job).collect()
    }

    /// Welch's t of two samples; nothing where both are constant and alike.
    fn welch(one: &[f64], other: &[f64]) -> f64 {
        let mean = |list: &[f64]| list.iter().sum::<f64>() / list.len() as f64;
        let spread = |list: &[f64]| {
            let middle = mean(list);
            list.iter().map(|x| (x - middle).powi(2)).sum::<f64>() / (list.len() - 1) as f64 / list.len() as f64
        };
        let error = (spread(one) + spread(other)).sqrt();
        let apart = mean(one) - mean(other);
        if error == 0.0 { if apart == 0.0 { 0.0 } else { f64::INFINITY } } else { apart / error }
    }

    #[test]
    fn a_slow_row_shows_in_microseconds_and_not_in_ticks() {
        for (seed, other) in [(1, 2), (3, 4), (5, 6)] {
            let tick = |microseconds: u64| boundary(microseconds / 1000, 60_000) / 60_000;
            let t = welch(&seen(seed, 1, tick), &seen(other, 1000, tick));
            assert!(t.abs() < 4.5, "seeds {seed} and {other}: t is {t} in ticks");
            let t = welch(&seen(seed, 1, |time| time), &seen(other, 1000, |time| time));
            assert!(t.abs() > 4.5, "seeds {seed} and {other}: the test sees nothing even without ticks: {t}");
        }
    }

    #[test]
    fn a_span_is_told_in_whole_ticks() {
        for (began, ended, told) in [(61_000, 61_001, (60_000, 120_000)), (59_999, 120_000, (0, 180_000))] {
            assert_eq!(widened(began, ended, 60_000), told);
        }
    }
}
