//! Planning on a thread of its own, with a stack of known size and a deadline.
//!
//! Texts of users are parsed and planned here: pipelines and queries. Limits of `sage-sql` and of the files bound that
//! work already. This is the second line, so that a text that found a gap in them costs its request an error, and
//! neither the stack of a thread that serves others nor an answer that never comes.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::Duration;

use super::{PlanRefusal, Table, Tables};
use crate::pipeline::{Feature, Pipeline};

/// The stack of a planning thread.
const STACK_BYTES: usize = 8 << 20;
/// How long planning may take.
const DEADLINE: Duration = Duration::from_secs(20);
/// How many planning threads there may be, those included whose request was answered at the deadline.
const MOST_THREADS: usize = 64;

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Plans on a thread of its own.
///
/// # Errors
/// When it takes too long, or too many plans are under way. The thread is left to end by itself.
pub(crate) fn plan_apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, PlanRefusal> {
    within(STACK_BYTES, DEADLINE, work)
}

fn within<T: Send + 'static>(
    stack_bytes: usize, deadline: Duration, work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PlanRefusal> {
    let slot = Slot::take().ok_or_else(|| refused("too many plans are under way; try again in a minute".to_owned()))?;
    let (sender, receiver) = sync_channel(1);
    let planning = move || {
        let outcome = catch_unwind(AssertUnwindSafe(work));
        drop(slot);
        // Nobody listens after the deadline.
        drop(sender.send(outcome));
    };
    let spawned = Builder::new().name("sage-planner".to_owned()).stack_size(stack_bytes).spawn(planning);
    spawned.map_err(|error| refused(format!("no thread can be started for it ({error}); try again in a minute")))?;
    match receiver.recv_timeout(deadline) {
        Ok(Ok(planned)) => Ok(planned),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(refused(format!(
            "planning took longer than {} seconds; shorten the expressions, or split them",
            deadline.as_secs()
        ))),
    }
}

fn refused(why: String) -> PlanRefusal {
    PlanRefusal::part("plan", why)
}

/// One of the planning threads.
struct Slot;

impl Slot {
    fn take() -> Option<Self> {
        let more = |threads: usize| (threads < MOST_THREADS).then_some(threads + 1);
        THREADS.fetch_update(Ordering::AcqRel, Ordering::Acquire, more).is_ok().then_some(Self)
    }
}

impl Drop for Slot {
    fn drop(&mut self) {
        THREADS.fetch_sub(1, Ordering::AcqRel);
    }
}

/// The released tables that a pipeline names, read before it is planned apart.
pub(crate) struct NamedTables(BTreeMap<String, Table>);

impl NamedTables {
    pub(crate) fn new(pipeline: &Pipeline, tables: &dyn Tables) -> Self {
        let named = pipeline.features.0.iter().filter_map(|(_, feature)| match feature {
            Feature::Released(table) => Some((table.release.clone(), tables.table(&table.release)?)),
            _ => None,
        });
        Self(named.collect())
    }
}

impl Tables for NamedTables {
    fn table(&self, release: &str) -> Option<Table> {
        self.0.get(release).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;
    use crate::generate::TAXI;
    use crate::query::Question;
    use crate::stream::StreamFile;

    #[test]
    fn a_plan_that_takes_too_long_is_answered_at_the_deadline() {
        let (sender, receiver) = channel::<()>();
        let endless = within(STACK_BYTES, Duration::from_millis(50), move || receiver.recv());
        let why = endless.expect_err("nobody sends").to_string();
        assert!(why.starts_with("plan: planning took longer than"), "{why}");
        drop(sender);
        assert_eq!(plan_apart(|| 7), Ok(7));
    }

    /// The hostile shapes that are deepest within the limits, and far beyond them, on a stack of a sixteenth.
    #[test]
    fn hostile_texts_fit_into_a_small_stack() {
        let nested = |open: &str, inner: &str, close: &str, depth: usize| {
            format!("{}{inner}{}", open.repeat(depth), close.repeat(depth))
        };
        let mut texts = Vec::new();
        for depth in [50, 59, 60, 61, 300, 1900] {
            texts.push(nested("(", "distance", ")", depth));
            texts.push(nested("abs(", "distance", ")", depth));
            texts.push(nested("NOT ", "distance > 0", "", depth));
            texts.push(nested("- ", "distance", "", depth));
            texts.push(nested("CASE WHEN distance > 0 THEN ", "1", " ELSE 0 END", depth));
            texts.push(nested("distance + ", "1", "", depth));
            texts.push(nested("distance > 0 AND ", "distance < 1", "", depth));
            texts.push(nested("distance IN (", "1", ")", depth));
        }
        let file = StreamFile::parse(TAXI).expect("a file");
        for text in texts {
            for sql in [format!("SELECT sum({text})"), format!("SELECT count(*) WHERE {text}")] {
                let file = file.clone();
                let planned = within(STACK_BYTES / 16, DEADLINE, move || Question::new(&sql, &file).map(drop));
                drop(planned.expect("in time"));
            }
        }
        let deep = nested("[", "1", "]", 100_000);
        let text = format!("[pipeline]\nname = {deep}\n");
        let parsed = within(STACK_BYTES / 16, DEADLINE, move || Pipeline::parse(&text).map(drop));
        assert!(parsed.expect("in time").is_err());
    }
}
