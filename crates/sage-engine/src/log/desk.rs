//! The desk: many threads, one gate, one flush for all who wait.
//!
//! Whoever comes waits in a batch, and the first of a batch leads it: when the batch before has been served, it
//! has the gate decide its own, one after the other and while more of them come, and append all together. There is
//! no thread of its own. A leader wakes one of those who wait, and each of them two more: waking is work, and a leader
//! who did all of it would be late with its next request, which leads the batch after. Those who were just answered
//! often come right back, so a leader waits a moment for as many as there were last time, as long as they keep coming;
//! a client who is always alone is served at once. It must never hand an answer to anybody but the one who asked, and
//! never leave anybody waiting.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{Thread, current, park, yield_now};
use std::time::{Duration, Instant};

use sage_kernel::{Answer, Gate, GateError, Head, Log, Request};

use super::heads::{Heads, HeadsError, Sound};

/// How long a leader waits for the next one to come. About what it takes to wake a client and to be asked again;
/// too short to sleep, so the leader lets others run meanwhile and looks again.
const PATIENCE: Duration = Duration::from_micros(50);

/// A gate that many threads share.
pub struct Desk<L> {
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
    requests: Vec<Request>,
    /// Where they will find their answers, each by its place in the batch.
    batch: Arc<Batch>,
    /// Those who have come to the batch, in the order of their places.
    waiting: Vec<Thread>,
    /// Whether a batch is being served.
    busy: bool,
    /// How many there were last time: served, or waiting for the next.
    expected: usize,
}

impl Line {
    /// Whoever comes from now on comes to another batch.
    fn close(&mut self) -> Closed {
        self.requests.clear();
        Closed { batch: std::mem::take(&mut self.batch), waiting: std::mem::take(&mut self.waiting) }
    }
}

/// A batch that nobody comes to any more, and those who wait for it.
struct Closed {
    batch: Arc<Batch>,
    waiting: Vec<Thread>,
}

/// The requests of a batch, given to the gate while more of them come.
struct Comers<'desk> {
    line: &'desk Mutex<Line>,
    here: std::vec::IntoIter<Request>,
    served: usize,
    closed: Option<Closed>,
}

impl Iterator for Comers<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let mut since: Option<Instant> = None;
        while self.closed.is_none() && self.here.as_slice().is_empty() {
            let mut line = lock(self.line);
            if !line.requests.is_empty() {
                self.here = std::mem::take(&mut line.requests).into_iter();
            } else if self.served >= line.expected || since.is_some_and(|since| since.elapsed() >= PATIENCE) {
                self.closed = Some(line.close());
            } else {
                drop(line);
                since.get_or_insert_with(Instant::now);
                yield_now();
            }
        }
        let next = self.here.next();
        self.served += usize::from(next.is_some());
        next
    }
}

/// Heads, and why the last export failed, if it did.
struct Exports {
    heads: Heads,
    failure: Option<HeadsError>,
}

/// What those who were served together wait for.
#[derive(Default)]
struct Batch {
    /// Tells the first of the batch, who waits with the line locked, that the gate is free.
    turn: Condvar,
    told: OnceLock<Told>,
}

/// The answers of a batch. None has to wait for another to take its own.
struct Told {
    answers: Result<Vec<Mutex<Option<Answer>>>, GateError>,
    waiting: Vec<Thread>,
}

impl Closed {
    /// Hands out the answers.
    fn tell(self, answers: Result<Vec<Answer>, GateError>) {
        let answers = answers.map(|answers| answers.into_iter().map(|answer| Mutex::new(Some(answer))).collect());
        // A batch is served once, so nothing was told before.
        self.batch.told.get_or_init(|| Told { answers, waiting: self.waiting }).pass_on(0);
    }
}

impl Told {
    /// Wakes the next. Everybody has one before them who does, and does so before anything else; to wake somebody who
    /// is awake changes nothing.
    fn pass_on(&self, place: usize) {
        let next = (2 * place).max(1)..=2 * place + 1;
        self.waiting.iter().take(next.end() + 1).skip(*next.start()).for_each(Thread::unpark);
    }
}

impl Batch {
    fn wait(&self, place: usize) -> Result<Answer, GateError> {
        let told = loop {
            match self.told.get() {
                Some(told) => break told,
                None => park(),
            }
        };
        if place > 0 {
            told.pass_on(place);
        }
        match &told.answers {
            Err(error) => Err(error.clone()),
            // The gate answers all or none; who finds nothing is told to ask again.
            Ok(all) => all.get(place).and_then(|answer| lock(answer).take()).ok_or(GateError::Closed),
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
        let mut line = lock(&self.line);
        let (batch, place) = (Arc::clone(&line.batch), line.waiting.len());
        line.requests.push(request);
        line.waiting.push(current());
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
        let mut comers = Comers { line: &self.line, here: Vec::new().into_iter(), served: 0, closed: None };
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
        let closed = comers.closed.unwrap_or_else(|| lock(&self.line).close());
        self.hand_over(comers.served);
        closed.tell(answers);
        match after {
            Ok(Some(head)) => self.export(head),
            Ok(None) => {}
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Frees the gate. Before the answers are handed out, so that the flush of the next begins.
    fn hand_over(&self, served: usize) {
        let mut line = lock(&self.line);
        line.expected = served + line.waiting.len();
        line.busy = false;
        if !line.waiting.is_empty() {
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
    /// is durable. It is kept for [`Desk::export_failure`], and the next batch tries again.
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
