//! The desk: many threads, one gate, one flush for all who wait.
//!
//! Whoever comes waits in a batch, and the first of a batch leads it: when the batch before has been served, it
//! has the gate decide and append all of its own together, and wakes them with one call. There is no thread of
//! its own. Those who were just answered often come right back, so a leader waits a moment for as many as there
//! were last time, as long as they keep coming; a client who is always alone is served at once. It must never
//! hand an answer to anybody but the one who asked, and never leave anybody waiting.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sage_kernel::{Answer, Gate, GateError, Head, Log, Request};

use super::heads::{Heads, HeadsError, Sound};

/// How long a leader waits for the next one to come. About what it takes to wake a client and to be asked again.
const PATIENCE: Duration = Duration::from_micros(50);

/// A gate that many threads share.
pub struct Desk<L> {
    /// Empty once a panic has left the state of the gate in doubt and the log could not be read again.
    gate: Mutex<Option<Gate<L>>>,
    line: Mutex<Line>,
    /// Tells the leader of the next batch that the gate is free, or that as many wait as were expected.
    turn: Condvar,
    exports: Mutex<Exports>,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// Those who wait for the gate.
#[derive(Default)]
struct Line {
    requests: Vec<Request>,
    /// Where they will find their answers, each by its place in the line.
    batch: Arc<Batch>,
    /// Whether a batch is being served.
    busy: bool,
    /// How many there were last time: served, or waiting for the next.
    expected: usize,
}

/// Heads, and why the last export failed, if it did.
struct Exports {
    heads: Heads,
    failure: Option<HeadsError>,
}

/// The answers of those who were served together.
#[derive(Default)]
struct Batch {
    answers: Mutex<Option<Result<Vec<Option<Answer>>, GateError>>>,
    served: Condvar,
}

impl Batch {
    fn tell(&self, answers: Result<Vec<Option<Answer>>, GateError>) {
        *lock(&self.answers) = Some(answers);
        self.served.notify_all();
    }

    fn wait(&self, place: usize) -> Result<Answer, GateError> {
        let mut answers = lock(&self.answers);
        loop {
            match answers.as_mut() {
                None => answers = self.served.wait(answers).unwrap_or_else(PoisonError::into_inner),
                Some(Err(error)) => return Err(error.clone()),
                // The gate answers all or none; who finds nothing is told to ask again.
                Some(Ok(all)) => return all.get_mut(place).and_then(Option::take).ok_or(GateError::Closed),
            }
        }
    }
}

/// What these mutexes guard is whole at every instruction that could panic; the gate is the exception, and
/// [`Desk::alone`] sees to it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<L: Log> Desk<L> {
    /// Opens a desk on a gate that may grant, with a clock that gives milliseconds since 1970. Nothing but
    /// what is written beside each event depends on the clock.
    pub fn new(sound: Sound<L>, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self {
            gate: Mutex::new(Some(sound.gate)),
            line: Mutex::default(),
            turn: Condvar::new(),
            exports: Mutex::new(Exports { heads: sound.heads, failure: None }),
            clock: Box::new(clock),
        }
    }

    /// The time by the desk's clock.
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Charges a request, together with whoever else waits.
    ///
    /// # Errors
    /// When the log fails. Whether the charge was written is then open; ask again with the same key once the
    /// log is opened anew.
    pub fn charge(&self, request: Request) -> Result<Answer, GateError> {
        let (batch, place) = {
            let mut line = lock(&self.line);
            line.requests.push(request);
            if !line.busy && line.requests.len() == line.expected {
                self.turn.notify_one();
            }
            (Arc::clone(&line.batch), line.requests.len() - 1)
        };
        if place == 0 {
            self.lead();
        }
        batch.wait(place)
    }

    /// Waits for the gate, and then for those who are still to be expected: the whole line.
    fn gather(&self) -> (Vec<Request>, Arc<Batch>) {
        let mut line = lock(&self.line);
        while line.busy {
            line = self.turn.wait(line).unwrap_or_else(PoisonError::into_inner);
        }
        let mut seen = 0;
        while seen < line.requests.len() && line.requests.len() < line.expected {
            seen = line.requests.len();
            line = self.turn.wait_timeout(line, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
        line.busy = true;
        (std::mem::take(&mut line.requests), std::mem::take(&mut line.batch))
    }

    /// Serves a batch, and frees the gate for the next.
    fn lead(&self) {
        let (requests, batch) = self.gather();
        let count = requests.len();
        // A panic in the gate is a bug, but not one of those who wait: they are told that it is closed.
        let served = catch_unwind(AssertUnwindSafe(|| {
            let time = self.now();
            self.alone(|gate| gate.charge(time, requests))
        }));
        let (answers, after) = match served {
            Ok(Ok((answers, head))) => (answers, Ok(Some(head))),
            Ok(Err(error)) => (Err(error), Ok(None)),
            Err(panic) => (Err(GateError::Closed), Err(panic)),
        };
        self.hand_over(count);
        batch.tell(answers.map(|answers| answers.into_iter().map(Some).collect()));
        match after {
            Ok(Some(head)) => self.export(head),
            Ok(None) => {}
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Frees the gate. Before the answers are handed out, so that the flush of the next begins.
    fn hand_over(&self, served: usize) {
        let mut line = lock(&self.line);
        line.expected = served + line.requests.len();
        line.busy = false;
        if !line.requests.is_empty() {
            self.turn.notify_one();
        }
    }

    /// Does something with the gate while nobody else does.
    ///
    /// If it panics, what the gate holds in memory is believed no more: it is folded from the log anew before
    /// anybody uses it again.
    ///
    /// # Errors
    /// [`GateError::Closed`] when the log could not be read again after a panic.
    pub fn with<T>(&self, work: impl FnOnce(&mut Gate<L>) -> T) -> Result<T, GateError> {
        let (value, head) = self.alone(work)?;
        self.export(head);
        Ok(value)
    }

    fn alone<T>(&self, work: impl FnOnce(&mut Gate<L>) -> T) -> Result<(T, Head), GateError> {
        let mut place = lock(&self.gate);
        let mut gate = place.take().ok_or(GateError::Closed)?;
        match catch_unwind(AssertUnwindSafe(|| work(&mut gate))) {
            Ok(value) => {
                let head = gate.head();
                *place = Some(gate);
                Ok((value, head))
            }
            Err(panic) => {
                let seen = gate.head();
                *place = Gate::open(gate.into_log()).ok().filter(|again| again.head().length >= seen.length);
                drop(place);
                resume_unwind(panic)
            }
        }
    }

    /// Exports the head if it is due and nobody else is about it. A failure takes no answer back: the charge
    /// is durable. It is kept for [`Desk::export_failure`], and the next batch tries again.
    fn export(&self, head: Head) {
        if let Ok(mut exports) = self.exports.try_lock() {
            let exported = exports.heads.export_if_due(head, self.now());
            exports.failure = exported.err();
        }
    }

    /// Why the newest head is not where it should have been exported to, if it is not.
    pub fn export_failure(&self) -> Option<String> {
        lock(&self.exports).failure.as_ref().map(ToString::to_string)
    }

    /// Exports the head and closes the log.
    ///
    /// # Errors
    /// When the head cannot be exported.
    pub fn close(self) -> Result<(), HeadsError> {
        let time = self.now();
        let gate = self.gate.into_inner().unwrap_or_else(PoisonError::into_inner);
        let mut exports = self.exports.into_inner().unwrap_or_else(PoisonError::into_inner);
        match gate {
            Some(gate) => exports.heads.export(gate.head(), time),
            None => Ok(()),
        }
    }
}
