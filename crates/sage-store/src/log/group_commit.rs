//! Group commit: many threads, one gate, one flush for all who wait.
//!
//! Whoever comes waits in a batch, and the first of a batch leads it: when the batch before has been served, it
//! has the gate decide its own, one after the other and while more of them come, append all together, and wakes
//! them with one call. There is no thread of its own. Those who were just answered often come right back, so a
//! leader waits a moment for as many as there were last time, as long as they keep coming; a client who is always
//! alone is served at once. It must never hand an answer to anybody but the one who asked, and never leave anybody
//! waiting.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use sage_kernel::{ChargeOutcome, Gate, GateError, Head, Log, Request};

use super::heads::{Heads, HeadsError, Sound};

/// How long a leader waits for the next one to come. About what it takes to wake a client and to be asked again;
/// too short to sleep, so the leader lets others run meanwhile and looks again.
const PATIENCE: Duration = Duration::from_micros(50);

/// A gate that many threads share.
pub struct GroupCommit<L> {
    /// Empty once a panic has left the state of the gate in doubt and the log could not be read again.
    gate: Mutex<Option<Gate<L>>>,
    line: Mutex<Line>,
    exports: Mutex<Exports>,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// Those who wait for the gate.
#[derive(Default)]
struct Line {
    /// What the gate has not been given yet.
    requests: VecDeque<Request>,
    /// Where they will find their answers, each by its place in the batch.
    batch: Arc<Batch>,
    /// How many have come to the batch.
    count: usize,
    /// Whether a batch is being served.
    busy: bool,
    /// How many there were last time: served, or waiting for the next.
    expected: usize,
}

impl Line {
    /// Whoever comes from now on comes to another batch.
    fn close(&mut self) -> Arc<Batch> {
        self.requests.clear();
        self.count = 0;
        std::mem::take(&mut self.batch)
    }
}

/// The requests of a batch, given to the gate while more of them come.
struct Comers<'commit> {
    line: &'commit Mutex<Line>,
    here: VecDeque<Request>,
    served: usize,
    batch: Option<Arc<Batch>>,
}

impl Comers<'_> {
    /// Ends the batch, if that was not done yet.
    fn close(&mut self) -> Arc<Batch> {
        self.batch.get_or_insert_with(|| lock(self.line).close()).clone()
    }
}

impl Iterator for Comers<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let mut since: Option<Instant> = None;
        while self.batch.is_none() && self.here.is_empty() {
            let mut line = lock(self.line);
            if !line.requests.is_empty() {
                std::mem::swap(&mut self.here, &mut line.requests);
            } else if self.served >= line.expected || since.is_some_and(|since| since.elapsed() >= PATIENCE) {
                self.batch = Some(line.close());
            } else {
                drop(line);
                since.get_or_insert_with(Instant::now);
                yield_now();
            }
        }
        let next = self.here.pop_front();
        self.served += usize::from(next.is_some());
        next
    }
}

/// Heads, and why the last export failed, if it did.
struct Exports {
    heads: Heads,
    failure: Option<HeadsError>,
}

/// The answers of those who were served together. All of them are woken by one call, and none has to wait for
/// another to take its own.
#[derive(Default)]
struct Batch {
    /// Tells the first of the batch, who waits with the line locked, that the gate is free.
    turn: Condvar,
    answers: OnceLock<Result<Vec<Mutex<Option<ChargeOutcome>>>, GateError>>,
}

impl Batch {
    fn tell(&self, answers: Result<Vec<ChargeOutcome>, GateError>) {
        let each = answers.map(|answers| answers.into_iter().map(|answer| Mutex::new(Some(answer))).collect());
        // A batch is served once, so nothing was told before.
        let _ = self.answers.set(each);
    }

    fn wait(&self, place: usize) -> Result<ChargeOutcome, GateError> {
        match self.answers.wait() {
            Err(error) => Err(error.clone()),
            // The gate answers all or none; who finds nothing is told to ask again.
            Ok(all) => all.get(place).and_then(|answer| lock(answer).take()).ok_or(GateError::Closed),
        }
    }
}

/// What these mutexes guard is whole at every instruction that could panic; the gate is the exception, and
/// [`GroupCommit::alone`] sees to it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<L: Log> GroupCommit<L> {
    /// Starts group commit on a gate that may grant, with a clock that gives milliseconds since 1970. Nothing but
    /// what is written beside each event depends on the clock.
    pub fn new(sound: Sound<L>, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self {
            gate: Mutex::new(Some(sound.gate)),
            line: Mutex::default(),
            exports: Mutex::new(Exports { heads: sound.heads, failure: None }),
            clock: Box::new(clock),
        }
    }

    /// The time by its clock.
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Charges a request, together with whoever else waits.
    ///
    /// # Errors
    /// When the log fails. Whether the charge was written is then open; ask again with the same key once the
    /// log is opened anew.
    pub fn charge(&self, request: Request) -> Result<ChargeOutcome, GateError> {
        let mut line = lock(&self.line);
        let (batch, place) = (Arc::clone(&line.batch), line.count);
        line.requests.push_back(request);
        line.count += 1;
        if place == 0 {
            while line.busy {
                line = batch.turn.wait(line).unwrap_or_else(PoisonError::into_inner);
            }
            line.busy = true;
            drop(line);
            self.lead();
        } else {
            drop(line);
        }
        batch.wait(place)
    }

    /// Serves a batch, and frees the gate for the next.
    fn lead(&self) {
        let mut comers = Comers { line: &self.line, here: VecDeque::new(), served: 0, batch: None };
        // A panic in the gate is a bug, but not one of those who wait: they are told that it is closed.
        let served = catch_unwind(AssertUnwindSafe(|| {
            let time = self.now();
            self.alone(|gate| gate.charge(time, &mut comers))
        }));
        let (answers, after) = match served {
            Ok(Ok((answers, head))) => (answers, Ok(Some(head))),
            Ok(Err(error)) => (Err(error), Ok(None)),
            Err(panic) => (Err(GateError::Closed), Err(panic)),
        };
        let batch = comers.close();
        self.hand_over(comers.served);
        batch.tell(answers);
        match after {
            Ok(Some(head)) => self.export(head),
            Ok(None) => {}
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Frees the gate. Before the answers are handed out, so that the flush of the next begins.
    fn hand_over(&self, served: usize) {
        let mut line = lock(&self.line);
        line.expected = served + line.count;
        line.busy = false;
        if line.count > 0 {
            line.batch.turn.notify_one();
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
    /// is durable. It is kept for [`GroupCommit::export_failure`], and the next batch tries again.
    fn export(&self, head: Head) {
        if let Ok(mut exports) = self.exports.try_lock() {
            let exported = exports.heads.export_if_due(head, self.now());
            exports.failure = exported.err();
        }
    }

    /// Exports the head as it is, whether it is due or not.
    ///
    /// # Errors
    /// When it cannot be exported; the next batch that is due tries again.
    pub fn export_head(&self) -> Result<(), HeadsError> {
        let ((), head) = self.alone(|_| ()).map_err(HeadsError::Gate)?;
        lock(&self.exports).heads.export(head, self.now())
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
