//! The desk: many threads, one gate, one flush for all who wait.
//!
//! Whoever comes first leads: it takes everyone who waits, has the gate decide and append them together, names
//! the next leader and hands out the answers. There is no thread of its own. Those who were just answered often
//! come right back, so a leader waits a moment for as many as there were last time, as long as they keep coming;
//! a client who is always alone is served at once. It must never hand an answer to anybody but the one who
//! asked, and never leave anybody waiting.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sage_kernel::{Answer, Gate, GateError, Head, Log, Request};

use super::heads::{Heads, HeadsError, Sound};

/// How many requests are decided and appended together at most.
pub const BATCH_LIMIT: usize = 1024;

/// How long a leader waits for the next one to come. About what it takes to wake a client and to be asked again.
const PATIENCE: Duration = Duration::from_micros(50);

/// A gate that many threads share.
pub struct Desk<L> {
    /// Empty once a panic has left the state of the gate in doubt and the log could not be read again.
    gate: Mutex<Option<Gate<L>>>,
    line: Mutex<Line>,
    /// Tells a leader that as many wait as were expected.
    gathered: Condvar,
    exports: Mutex<Exports>,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// Those who wait. Somebody leads whenever anybody waits.
#[derive(Default)]
struct Line {
    waiting: VecDeque<(Request, Arc<Slot>)>,
    led: bool,
    /// How many there were last time: served, or waiting for the next.
    expected: usize,
}

/// Heads, and why the last export failed, if it did.
struct Exports {
    heads: Heads,
    failure: Option<HeadsError>,
}

/// Where one who waits finds what happened.
#[derive(Default)]
struct Slot {
    news: Mutex<Option<News>>,
    arrived: Condvar,
}

enum News {
    Answer(Result<Answer, GateError>),
    /// The one before has gone; lead.
    Lead,
}

impl Slot {
    fn tell(&self, news: News) {
        *lock(&self.news) = Some(news);
        self.arrived.notify_one();
    }

    fn wait(&self) -> News {
        let mut news = lock(&self.news);
        loop {
            if let Some(news) = news.take() {
                return news;
            }
            news = self.arrived.wait(news).unwrap_or_else(PoisonError::into_inner);
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
            gathered: Condvar::new(),
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
        let slot = Arc::new(Slot::default());
        let leads = {
            let mut line = lock(&self.line);
            line.waiting.push_back((request, Arc::clone(&slot)));
            if line.led && line.waiting.len() == line.expected {
                self.gathered.notify_one();
            }
            !std::mem::replace(&mut line.led, true)
        };
        if !leads {
            match slot.wait() {
                News::Answer(answer) => return answer,
                News::Lead => {}
            }
        }
        self.lead();
        match slot.wait() {
            News::Answer(answer) => answer,
            // Only the first of the line is made its leader, and the leader answers the first of the line.
            News::Lead => Err(GateError::Closed),
        }
    }

    /// The first of the line, which are the leader and those behind it, once no more are to be expected.
    fn gather(&self) -> (Vec<Request>, Vec<Arc<Slot>>) {
        let mut line = lock(&self.line);
        let mut seen = 0;
        while seen < line.waiting.len() && line.waiting.len() < line.expected {
            seen = line.waiting.len();
            line = self.gathered.wait_timeout(line, PATIENCE).unwrap_or_else(PoisonError::into_inner).0;
        }
        let count = line.waiting.len().min(BATCH_LIMIT);
        line.waiting.drain(..count).unzip()
    }

    /// Serves the first of the line, and names the next leader.
    fn lead(&self) {
        let (requests, slots) = self.gather();
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
        self.hand_over(slots.len());
        match answers {
            Ok(answers) => {
                slots.iter().zip(answers).for_each(|(slot, answer)| slot.tell(News::Answer(Ok(answer))));
            }
            Err(error) => slots.iter().for_each(|slot| slot.tell(News::Answer(Err(error.clone())))),
        }
        match after {
            Ok(Some(head)) => self.export(head),
            Ok(None) => {}
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Names the next leader, if anybody waits. Before the answers are handed out, so that their flush begins.
    fn hand_over(&self, served: usize) {
        let mut line = lock(&self.line);
        line.expected = (served + line.waiting.len()).min(BATCH_LIMIT);
        match line.waiting.front() {
            Some((_, next)) => next.tell(News::Lead),
            None => line.led = false,
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
