//! Planning on a separate thread, with a stack of known size and a deadline.
//!
//! User texts (pipelines and queries) are parsed and planned here. The limits of `sage-sql` and of the files already
//! bound that work. This is the second line of defence: a text that gets past those limits fails its own request,
//! without overflowing the stack of a server thread or blocking forever.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::Builder;
use std::time::Duration;

use super::{PlanRefusal, Table, Tables};
use crate::pipeline::{Feature, Pipeline};

/// The stack size of a planning thread.
const STACK_BYTES: usize = 8 << 20;
/// The time limit of planning.
const DEADLINE: Duration = Duration::from_secs(20);
/// The maximum number of planning threads, including those whose request already got an error at the deadline.
const MOST_THREADS: usize = 64;

static THREADS: AtomicUsize = AtomicUsize::new(0);

/// Runs the planning work on a separate thread and waits for it.
///
/// # Errors
/// When the work exceeds the deadline, or too many planning threads are busy. An overdue thread is left to finish.
pub(crate) fn plan_on_thread<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, PlanRefusal> {
    run_with_deadline(STACK_BYTES, DEADLINE, work)
}

fn run_with_deadline<T: Send + 'static>(
    stack_bytes: usize, deadline: Duration, work: impl FnOnce() -> T + Send + 'static,
) -> Result<T, PlanRefusal> {
    let slot =
        Slot::take().ok_or_else(|| refusal("too many plans are in progress; try again in a minute".to_owned()))?;
    let (sender, receiver) = sync_channel(1);
    let planning = move || {
        let outcome = catch_unwind(AssertUnwindSafe(work));
        drop(slot);
        // After the deadline the receiver is gone.
        drop(sender.send(outcome));
    };
    let spawned = Builder::new().name("sage-planner".to_owned()).stack_size(stack_bytes).spawn(planning);
    spawned.map_err(|error| refusal(format!("no planning thread can be started ({error}); try again in a minute")))?;
    match receiver.recv_timeout(deadline) {
        Ok(Ok(planned)) => Ok(planned),
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => Err(refusal(format!(
            "planning took longer than {} seconds; shorten or split the expressions",
            deadline.as_secs()
        ))),
    }
}

fn refusal(why: String) -> PlanRefusal {
    PlanRefusal::part("plan", why)
}

/// A permit for one planning thread, returned on drop.
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

/// The released tables that a pipeline names, loaded before it is planned on another thread.
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
    use crate::query::PrivateQuery;
    use crate::stream::StreamFile;

    #[test]
    fn a_plan_that_takes_too_long_fails_at_the_deadline() {
        let (sender, receiver) = channel::<()>();
        let endless = run_with_deadline(STACK_BYTES, Duration::from_millis(50), move || receiver.recv());
        let why = endless.expect_err("no result is sent").to_string();
        assert!(why.starts_with("plan: planning took longer than"), "{why}");
        drop(sender);
        assert_eq!(plan_on_thread(|| 7), Ok(7));
    }

    /// Hostile nesting just within the limits and far beyond them fits into a sixteenth of the stack.
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
                let planned =
                    run_with_deadline(STACK_BYTES / 16, DEADLINE, move || PrivateQuery::new(&sql, &file).map(drop));
                drop(planned.expect("in time"));
            }
        }
        let deep = nested("[", "1", "]", 100_000);
        let text = format!("[pipeline]\nname = {deep}\n");
        let parsed = run_with_deadline(STACK_BYTES / 16, DEADLINE, move || Pipeline::parse(&text).map(drop));
        assert!(parsed.expect("in time").is_err());
    }
}
