//! Group commit: many threads share one gate, and one flush commits the requests of all that wait.
//!
//! Requests wait in a batch. The thread with the first request of a batch becomes its leader. When the previous batch
//! is committed, the leader passes the requests to the gate one after the other, also those that arrive meanwhile, has
//! the gate append them all with one flush, and wakes the other threads with one call. There is no background thread.
//! Clients often send their next request right after a result, so a leader waits a moment for as many requests as last
//! time while they keep arriving; a single client is served at once. A result must only ever go to the thread that sent
//! the request, and no thread may wait forever.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::yield_now;
use std::time::{Duration, Instant};

use sage_kernel::{ChargeOutcome, Gate, GateError, Head, Log, Request};

use super::heads::{Heads, HeadsError, SoundGate};

/// How long a leader waits for the next request. It is about the time that a client needs to wake up and send one. It
/// is too short to sleep, so the leader yields and polls.
const ARRIVAL_TIMEOUT: Duration = Duration::from_micros(50);

/// A gate that many threads share. Concurrent charges are committed in groups.
pub struct GroupCommit<L> {
    /// `None` after a panic left the state of the gate in doubt and the log could not be read again.
    gate: Mutex<Option<Gate<L>>>,
    queue: Mutex<Queue>,
    exports: Mutex<Exports>,
    clock: Box<dyn Fn() -> u64 + Send + Sync>,
}

/// The requests that wait for the gate.
#[derive(Default)]
struct Queue {
    /// The requests that the leader has not taken yet.
    requests: VecDeque<Request>,
    /// The batch of these requests, which will hold their results by index.
    batch: Arc<Batch>,
    /// The number of requests in the batch, taken or not.
    count: usize,
    /// Whether a leader is using the gate.
    busy: bool,
    /// The number of requests that the next batch is expected to have.
    expected: usize,
}

impl Queue {
    /// Closes the batch. Later requests join the next one.
    fn close_batch(&mut self) -> Arc<Batch> {
        self.requests.clear();
        self.count = 0;
        std::mem::take(&mut self.batch)
    }
}

/// An iterator over the requests of a batch, also those that arrive during the iteration. It ends when it closes the
/// batch.
struct BatchRequests<'queue> {
    queue: &'queue Mutex<Queue>,
    taken: VecDeque<Request>,
    served: usize,
    closed: Option<Arc<Batch>>,
}

impl BatchRequests<'_> {
    /// Closes the batch if it is still open.
    fn close(&mut self) -> Arc<Batch> {
        self.closed.get_or_insert_with(|| lock(self.queue).close_batch()).clone()
    }
}

impl Iterator for BatchRequests<'_> {
    type Item = Request;

    fn next(&mut self) -> Option<Request> {
        let mut idle_since: Option<Instant> = None;
        while self.closed.is_none() && self.taken.is_empty() {
            let mut queue = lock(self.queue);
            if !queue.requests.is_empty() {
                std::mem::swap(&mut self.taken, &mut queue.requests);
            } else if self.served >= queue.expected
                || idle_since.is_some_and(|since| since.elapsed() >= ARRIVAL_TIMEOUT)
            {
                self.closed = Some(queue.close_batch());
            } else {
                drop(queue);
                idle_since.get_or_insert_with(Instant::now);
                yield_now();
            }
        }
        let next = self.taken.pop_front();
        self.served += usize::from(next.is_some());
        next
    }
}

/// The export of heads, and why the last export failed, if it did.
struct Exports {
    heads: Heads,
    failure: Option<HeadsError>,
}

/// The results of a batch. One call wakes all its threads, and each takes its own result without waiting for others.
#[derive(Default)]
struct Batch {
    /// Wakes the leader of the batch when the gate is free.
    gate_free: Condvar,
    results: OnceLock<Result<Vec<Mutex<Option<ChargeOutcome>>>, GateError>>,
}

impl Batch {
    /// Publishes the results and wakes all threads of the batch.
    fn complete(&self, results: Result<Vec<ChargeOutcome>, GateError>) {
        let results = results.map(|results| results.into_iter().map(|result| Mutex::new(Some(result))).collect());
        // A batch is completed once, so this cannot fail.
        let _ = self.results.set(results);
    }

    /// Waits for the batch and takes the result of the request with this index.
    fn wait(&self, index: usize) -> Result<ChargeOutcome, GateError> {
        match self.results.wait() {
            Err(error) => Err(error.clone()),
            // The gate returns a result for every request. If one were missing, the caller would have to retry.
            Ok(results) => results.get(index).and_then(|result| lock(result).take()).ok_or(GateError::Closed),
        }
    }
}

/// Locks a mutex and ignores poisoning: the guarded state is consistent at every instruction that could panic. The gate
/// is the exception, and [`GroupCommit::use_gate`] handles it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl<L: Log> GroupCommit<L> {
    /// Shares a gate that may grant. The clock returns milliseconds since 1970 and only determines the recorded times
    /// of events.
    pub fn new(sound: SoundGate<L>, clock: impl Fn() -> u64 + Send + Sync + 'static) -> Self {
        Self {
            gate: Mutex::new(Some(sound.gate)),
            queue: Mutex::default(),
            exports: Mutex::new(Exports { heads: sound.heads, failure: None }),
            clock: Box::new(clock),
        }
    }

    /// The time by the clock, in milliseconds since 1970.
    pub fn now(&self) -> u64 {
        (self.clock)()
    }

    /// Charges a request, in one commit with all others that wait.
    ///
    /// # Errors
    /// When the log fails. It is then unknown whether the charge was written; retry with the same key after the log was
    /// reopened.
    pub fn charge(&self, request: Request) -> Result<ChargeOutcome, GateError> {
        let mut queue = lock(&self.queue);
        let (batch, index) = (Arc::clone(&queue.batch), queue.count);
        queue.requests.push_back(request);
        queue.count += 1;
        if index == 0 {
            while queue.busy {
                queue = batch.gate_free.wait(queue).unwrap_or_else(PoisonError::into_inner);
            }
            queue.busy = true;
            drop(queue);
            self.lead();
        } else {
            drop(queue);
        }
        batch.wait(index)
    }

    /// Commits a batch as its leader, and releases the gate to the next leader.
    fn lead(&self) {
        let mut requests = BatchRequests { queue: &self.queue, taken: VecDeque::new(), served: 0, closed: None };
        // A panic in the gate is a bug, but the waiting threads did not cause it: they get `GateError::Closed`.
        let charged = catch_unwind(AssertUnwindSafe(|| {
            let time = self.now();
            self.use_gate(|gate| gate.charge(time, &mut requests))
        }));
        let (results, after) = match charged {
            Ok(Ok((results, head))) => (results, Ok(Some(head))),
            Ok(Err(error)) => (Err(error), Ok(None)),
            Err(panic) => (Err(GateError::Closed), Err(panic)),
        };
        let batch = requests.close();
        self.release_gate(requests.served);
        batch.complete(results);
        match after {
            Ok(Some(head)) => self.export(head),
            Ok(None) => {}
            Err(panic) => resume_unwind(panic),
        }
    }

    /// Releases the gate to the leader of the next batch. This happens before the results are published, so that the
    /// next flush starts early.
    fn release_gate(&self, served: usize) {
        let mut queue = lock(&self.queue);
        queue.expected = served + queue.count;
        queue.busy = false;
        if queue.count > 0 {
            queue.batch.gate_free.notify_one();
        }
    }

    /// Runs `work` with exclusive access to the gate, and exports the head if it is due.
    ///
    /// If `work` panics, the state of the gate in memory is discarded and folded from the log again.
    ///
    /// # Errors
    /// [`GateError::Closed`] when the log could not be read again after a panic.
    pub fn with<T>(&self, work: impl FnOnce(&mut Gate<L>) -> T) -> Result<T, GateError> {
        let (value, head) = self.use_gate(work)?;
        self.export(head);
        Ok(value)
    }

    fn use_gate<T>(&self, work: impl FnOnce(&mut Gate<L>) -> T) -> Result<(T, Head), GateError> {
        let mut slot = lock(&self.gate);
        let mut gate = slot.take().ok_or(GateError::Closed)?;
        match catch_unwind(AssertUnwindSafe(|| work(&mut gate))) {
            Ok(value) => {
                let head = gate.head();
                *slot = Some(gate);
                Ok((value, head))
            }
            Err(panic) => {
                let seen = gate.head();
                *slot = Gate::open(gate.into_log()).ok().filter(|again| again.head().length >= seen.length);
                drop(slot);
                resume_unwind(panic)
            }
        }
    }

    /// Exports the head if it is due and no other thread is exporting. A failure does not affect the charge, which is
    /// durable. It is reported by [`GroupCommit::export_failure`], and the next batch tries again.
    fn export(&self, head: Head) {
        if let Ok(mut exports) = self.exports.try_lock() {
            let exported = exports.heads.export_if_due(head, self.now());
            exports.failure = exported.err();
        }
    }

    /// Exports the current head, whether it is due or not.
    ///
    /// # Errors
    /// When it cannot be exported. The next batch that is due tries again.
    pub fn export_head(&self) -> Result<(), HeadsError> {
        let ((), head) = self.use_gate(|_| ()).map_err(HeadsError::Gate)?;
        lock(&self.exports).heads.export(head, self.now())
    }

    /// Why the last export failed, or `None` if it succeeded.
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
