//! Disclosure intervals: what users without a role on a stream see of it, and when.
//!
//! When an attempt ends depends on rows, if only by a millisecond. So users without a role see what an attempt causes, a
//! release and its event, only once the disclosure interval in which it happened is over; a client that polls learns the
//! interval and nothing finer. What people do themselves, such as naming or withdrawing a version, is shown at once.
//! Users with a role on the stream see everything as it happens.
//!
//! A stream's file may ask for a longer interval than its server has, and never for a shorter one. The disclosed state
//! is kept for each interval: a stream with a long one delays no other.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use sage_engine::{Engine, EngineError, ReleaseView};

use crate::handlers::log::newest_first;

/// What users without a role on a stream may see, per interval. The engine decides the length of the intervals, because
/// it delays results by the same ones.
#[derive(Default)]
pub(crate) struct DisclosureIntervals {
    /// The disclosed state by the length of the interval.
    shown: Mutex<BTreeMap<u64, DisclosedState>>,
}

/// The disclosed state of streams with one interval.
#[derive(Clone, Default)]
struct DisclosedState {
    /// The start of the interval of this state; later events are not in it.
    boundary: u64,
    /// The number of disclosed events of the log.
    length: u64,
    /// The newest version of each release.
    newest: Arc<BTreeMap<String, u32>>,
}

/// What users without a role may see at one moment.
pub(crate) struct PublicView {
    least: u64,
    /// The disclosure interval of each stream.
    intervals: BTreeMap<String, u64>,
    shown: BTreeMap<u64, DisclosedState>,
}

/// Events read at a time.
const AT_A_TIME: usize = 512;

/// The start of the interval that a time is in.
const fn boundary(time: u64, interval: u64) -> u64 {
    time - time % interval
}

impl DisclosureIntervals {
    /// The disclosed state at this time, in milliseconds since 1970. If the log cannot be read, the previous state.
    pub(crate) fn outside(&self, engine: &Engine, now: u64) -> PublicView {
        let (least, intervals) = (engine.least_interval(), engine.disclosure_intervals());
        let lengths: BTreeSet<u64> = intervals.values().copied().chain([least]).collect();
        let mut known = self.shown.lock().unwrap_or_else(PoisonError::into_inner);
        let mut shown = BTreeMap::new();
        for interval in lengths {
            let boundary = boundary(now, interval);
            let next = match known.get(&interval) {
                None => found(engine, boundary).ok(),
                Some(before) if before.boundary < boundary => advanced(before, engine, boundary).ok(),
                Some(_) => None,
            };
            if let Some(next) = next {
                known.insert(interval, next);
            }
            shown.insert(interval, known.get(&interval).cloned().unwrap_or_default());
        }
        PublicView { least, intervals, shown }
    }
}

impl PublicView {
    /// The interval of an event: that of its stream.
    pub(crate) fn interval(&self, stream: Option<&str>) -> u64 {
        stream.and_then(|name| self.intervals.get(name)).copied().unwrap_or(self.least)
    }

    /// For each interval, how many events of the log are disclosed for streams with that interval.
    pub(crate) fn lengths(&self) -> impl Iterator<Item = (u64, u64)> {
        self.shown.iter().map(|(interval, shown)| (*interval, shown.length))
    }

    /// How many events of the log are disclosed for every stream.
    pub(crate) fn length(&self) -> u64 {
        self.lengths().map(|(_, length)| length).min().unwrap_or(0)
    }

    /// The number of events that are disclosed to a user without a role on these streams.
    pub(crate) fn length_without(&self, streams: &[String]) -> u64 {
        let length = |stream: &String| self.shown.get(&self.interval(Some(stream))).map_or(0, |shown| shown.length);
        streams.iter().map(length).min().unwrap_or_else(|| self.length())
    }

    /// Whether a release is disclosed.
    pub(crate) fn has(&self, release: &ReleaseView) -> bool {
        let shown = self.shown.get(&self.interval(Some(&release.stream)));
        let newest = shown.and_then(|shown| shown.newest.get(&release.name));
        newest.is_some_and(|version| release.version <= *version)
    }
}

/// The state before a boundary, computed from a log with later events.
fn found(engine: &Engine, boundary: u64) -> Result<DisclosedState, EngineError> {
    // The releases are read before the log, so that the log contains the event of each of them.
    let releases = engine.releases();
    let mut later = BTreeSet::new();
    // The events after the boundary are found from the end, so that the length of the log does not matter.
    let mut length = engine.log_length()?;
    for event in newest_first(engine, length) {
        let event = event?;
        if event.time < boundary {
            break;
        }
        length = event.number;
        later.extend(event.run.filter(|_| event.kind == "released"));
    }
    let mut newest = BTreeMap::<String, u32>::new();
    for release in releases.into_iter().filter(|release| !later.contains(&release.run)) {
        let known = newest.entry(release.name).or_insert(0);
        *known = release.version.max(*known);
    }
    Ok(DisclosedState { boundary, length, newest: Arc::new(newest) })
}

/// Advances a state to a later boundary.
fn advanced(shown: &DisclosedState, engine: &Engine, boundary: u64) -> Result<DisclosedState, EngineError> {
    let mut next = DisclosedState { boundary, ..shown.clone() };
    loop {
        let events = engine.events(next.length, AT_A_TIME)?;
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

/// A span of time widened to whole intervals.
pub(crate) fn widened(began: u64, ended: u64, interval: u64) -> (u64, u64) {
    (boundary(began, interval), boundary(ended, interval) + interval)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A fixed sequence of numbers.
    fn next(state: &mut u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        *state >> 33
    }

    /// When jobs are seen to end, in the unit of the last argument, counted from the interval in which they began. A row
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

    /// Welch's t of two samples; zero if both are constant and equal.
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
    fn a_slow_row_shows_in_microseconds_and_not_in_intervals() {
        for (seed, other) in [(1, 2), (3, 4), (5, 6)] {
            let interval = |microseconds: u64| boundary(microseconds / 1000, 60_000) / 60_000;
            let t = welch(&seen(seed, 1, interval), &seen(other, 1000, interval));
            assert!(t.abs() < 4.5, "seeds {seed} and {other}: t is {t} in intervals");
            let t = welch(&seen(seed, 1, |time| time), &seen(other, 1000, |time| time));
            assert!(t.abs() > 4.5, "seeds {seed} and {other}: the test sees nothing even without intervals: {t}");
        }
    }

    #[test]
    fn a_duration_is_reported_in_whole_intervals() {
        for (began, ended, shown) in [(61_000, 61_001, (60_000, 120_000)), (59_999, 120_000, (0, 180_000))] {
            assert_eq!(widened(began, ended, 60_000), shown);
        }
    }
}
