//! The gate: decides requests, makes charges durable, and hands out grants and permits in that order.
//!
//! A [`Grant`] exists only after the append of its charge returned, a [`Permit`] only after the append of its start
//! returned, and block files are opened only with a permit. Each is consumed by the next step. When the state of the log
//! is uncertain, the gate grants nothing until it is opened again. It must never hand out a grant or a permit before the
//! append has returned.

use sha2::{Digest, Sha256};

use crate::block::{BlockId, Blocks, Lane, StreamId};
use crate::decide::Decision;
use crate::event::{AccessMode, Charge, Event, GrantId, Request};
use crate::ledger::{GrantState, InconsistentLog, Ledger};
use crate::log::{BrokenChain, Head, Log, LogError, Record};
use crate::message::display;
use crate::plan::Plan;
use crate::policy::Policy;
use crate::refusal::Refusal;

/// The number of records read at a time.
const PAGE: usize = 4096;

/// Why an operation of the gate failed.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GateError {
    /// The store failed; the operation did not happen, or it is not known whether it did.
    Log(LogError),
    /// A record does not continue the hash chain.
    Chain(BrokenChain),
    /// The log breaks the rules of the ledger.
    Ledger(InconsistentLog),
    /// After an earlier failure the outcome of an append is unknown; the log must be opened again.
    Closed,
    /// The log does not commit to the snapshot; the log itself can be intact.
    Snapshot,
    /// The rules do not allow the operation: the grant is in another state, or the stream or block is unknown.
    NotAllowed,
}

display!(error GateError {
    Self::Log(error) => error.to_string(),
    Self::Chain(error) => error.to_string(),
    Self::Ledger(error) => error.to_string(),
    Self::Closed => "an earlier write to the log failed, so nothing is granted; open the log again to continue",
    Self::Snapshot => "the log does not contain the hash of this snapshot; open the log from its first record instead",
    Self::NotAllowed => "the grant, stream or block is not in a state that allows this",
});

/// The right to start once, created when a charge is durable and consumed by starting or cancelling.
#[derive(Debug, PartialEq, Eq)]
#[must_use = "a grant that is neither started nor cancelled keeps its charge"]
pub struct Grant {
    id: GrantId,
}

impl Grant {
    /// The grant's number.
    pub const fn id(&self) -> GrantId {
        self.id
    }
}

/// The right to read rows, created when the start of a grant is durable and consumed by opening a session.
pub struct Permit {
    pub(crate) grant: GrantId,
    pub(crate) stream: StreamId,
    pub(crate) blocks: Blocks,
    pub(crate) plans: [Option<Plan>; 2],
    pub(crate) access: AccessMode,
    /// The hash of the log's first record, which identifies the log.
    pub(crate) origin: [u8; 32],
}

impl Permit {
    /// Whether the permit covers the lane of the block.
    pub fn covers(&self, stream: StreamId, block: BlockId, lane: Lane) -> bool {
        self.stream == stream && self.plans[lane.index()].is_some() && self.blocks.contains(block)
    }

    /// The stream.
    pub const fn stream(&self) -> StreamId {
        self.stream
    }

    /// The blocks.
    pub const fn blocks(&self) -> &Blocks {
        &self.blocks
    }

    /// The grant's number.
    pub const fn grant(&self) -> GrantId {
        self.grant
    }
}

/// Proof that a session has ended, needed to release its result.
#[derive(Debug)]
#[must_use = "nothing is released without it"]
pub struct FinishedSession {
    pub(crate) grant: GrantId,
}

/// The outcome of charging a request.
#[derive(Debug, PartialEq, Eq)]
pub enum ChargeOutcome {
    /// The request was charged.
    Granted(Grant),
    /// The same request was charged before, and its grant is in this state. The grant is returned while it has not
    /// started.
    Repeated(GrantId, GrantState, Option<Grant>),
    /// The request was refused and nothing was charged.
    Refused(Refusal),
}

/// The ledger together with its log: the only way to charge, start and release.
///
/// # Guarantee
/// Every charge and every start is durable before its grant or permit exists.
pub struct Gate<L> {
    log: L,
    ledger: Ledger,
    head: Head,
    closed: bool,
}

impl<L: Log> Gate<L> {
    /// Opens a log: reads and verifies all records.
    ///
    /// # Errors
    /// When the log cannot be read, its hash chain is broken, or it breaks the rules of the ledger.
    pub fn open(log: L) -> Result<Self, GateError> {
        let mut gate = Self { log, ledger: Ledger::default(), head: Head::EMPTY, closed: false };
        gate.refresh()?;
        Ok(gate)
    }

    /// Opens a log from a snapshot: reads and verifies the records after it.
    ///
    /// # Guarantee
    /// A record of this log commits to the snapshot's bytes, and the state includes all later records. It equals the
    /// state of [`Gate::open`], unless that record was forged too, which an exported log head detects
    /// (`docs/reference/log-format.md`).
    ///
    /// # Errors
    /// [`GateError::Snapshot`] when the log does not commit to exactly these bytes; otherwise as [`Gate::open`].
    pub fn open_from(log: L, snapshot: &[u8]) -> Result<Self, GateError> {
        let (ledger, head) = Ledger::from_snapshot(snapshot).map_err(|_| GateError::Snapshot)?;
        let next = log.read(head.length, 1).map_err(GateError::Log)?;
        let verified = next.first().and_then(|record| record.verify(head).ok());
        let (event, head) = verified.ok_or(GateError::Snapshot)?;
        if event != (Event::Snapshot { digest: Sha256::digest(snapshot).into() }) {
            return Err(GateError::Snapshot);
        }
        let mut gate = Self { log, ledger, head, closed: false };
        gate.refresh()?;
        Ok(gate)
    }

    /// The current state of the ledger.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// The log head up to which records were applied.
    pub const fn head(&self) -> Head {
        self.head
    }

    /// The store.
    pub const fn log(&self) -> &L {
        &self.log
    }

    /// Returns the store.
    pub fn into_log(self) -> L {
        self.log
    }

    /// Reads, verifies and applies records that other writers have appended.
    ///
    /// # Errors
    /// As [`Gate::open`]; the gate is then closed.
    pub fn refresh(&mut self) -> Result<(), GateError> {
        self.check_open()?;
        self.read_new_records().inspect_err(|_| self.closed = true)
    }

    fn read_new_records(&mut self) -> Result<(), GateError> {
        loop {
            let records = self.log.read(self.head.length, PAGE).map_err(GateError::Log)?;
            for record in &records {
                let (event, head) = record.verify(self.head).map_err(GateError::Chain)?;
                self.ledger.apply(record.number, event).map_err(GateError::Ledger)?;
                self.head = head;
            }
            if records.len() < PAGE {
                return Ok(());
            }
        }
    }

    /// Whether other writers have appended records that are not applied yet.
    fn has_new_records(&mut self) -> Result<bool, GateError> {
        let next = self.log.read(self.head.length, 1).map_err(|error| self.close(GateError::Log(error)))?;
        Ok(!next.is_empty())
    }

    /// Charges those requests that fit, in one append. Each is decided when the iterator yields it, so that more can
    /// arrive meanwhile.
    ///
    /// # Guarantee
    /// The outcomes are those of deciding the requests in order, and refusals are decided on the newest state of the
    /// log. No grant is created before the append with its charge has returned.
    ///
    /// # Errors
    /// When the log fails; the gate is then closed and none of the requests has an outcome.
    pub fn charge(
        &mut self, time: u64, requests: impl IntoIterator<Item = Request>,
    ) -> Result<Vec<ChargeOutcome>, GateError> {
        self.check_open()?;
        let (mut records, mut outcomes) = self.enter(time, requests)?;
        loop {
            // A refusal is final only on the newest state: another writer can have added what is missing.
            let refused = outcomes.iter().any(|outcome| matches!(outcome, PendingOutcome::Refused(..)));
            let outdated = refused && self.has_new_records()?;
            match if outdated { Err(LogError::Conflict) } else { self.append(records) } {
                Ok(()) => return Ok(outcomes.into_iter().map(|outcome| self.settle(outcome)).collect()),
                Err(LogError::Conflict) => {
                    let requests = self.withdraw(outcomes);
                    self.refresh()?;
                    (records, outcomes) = self.enter(time, requests)?;
                }
                Err(error) => return Err(self.close(GateError::Log(error))),
            }
        }
    }

    /// Decides the requests in order and enters those that fit into the ledger. They are not durable yet, so nothing may
    /// be returned to the caller.
    fn enter(
        &mut self, time: u64, requests: impl IntoIterator<Item = Request>,
    ) -> Result<(Vec<Record>, Vec<PendingOutcome>), GateError> {
        let (mut records, mut outcomes) = (Vec::new(), Vec::new());
        for request in requests {
            let outcome = match self.ledger.decide(&request) {
                Decision::Admitted(amounts) => {
                    let event = Event::Charged(Box::new(Charge { request, amounts }));
                    let record = Record::after(records.last().map_or(self.head, Record::head), time, &event);
                    let id = GrantId(record.number);
                    records.push(record);
                    self.ledger.enter(id, event);
                    PendingOutcome::Entered(id)
                }
                Decision::Repeated(grant) => PendingOutcome::Repeated(grant, Box::new(request)),
                Decision::Known(grant) if self.was_charged(grant, &request)? => {
                    PendingOutcome::Repeated(grant, Box::new(request))
                }
                Decision::Known(grant) => PendingOutcome::Refused(Refusal::KeyReused(grant), Box::new(request)),
                Decision::Refused(refusal) => PendingOutcome::Refused(refusal, Box::new(request)),
            };
            outcomes.push(outcome);
        }
        Ok((records, outcomes))
    }

    /// Whether the record of a grant that is no longer pending contains this request.
    ///
    /// The record is not verified against the hash chain. A dishonest store can turn "repeated" into "refused" or back;
    /// either way nothing is handed out, because the grant is not pending, and nothing is spent.
    fn was_charged(&mut self, grant: GrantId, request: &Request) -> Result<bool, GateError> {
        let records = self.log.read(grant.0, 1).map_err(|error| self.close(GateError::Log(error)))?;
        let event = records.first().map(|record| Event::from_bytes(&record.body));
        Ok(matches!(event, Some(Ok(Event::Charged(charge))) if charge.request == *request))
    }

    /// Withdraws a batch that was not appended, and returns its requests to be decided again.
    fn withdraw(&mut self, outcomes: Vec<PendingOutcome>) -> Vec<Request> {
        // Newest first, so that each is the ledger's newest charge when it is withdrawn.
        let mut requests: Vec<Request> = outcomes
            .into_iter()
            .rev()
            .filter_map(|outcome| match outcome {
                PendingOutcome::Entered(_) => self.ledger.withdraw_last(),
                PendingOutcome::Repeated(_, request) | PendingOutcome::Refused(_, request) => Some(*request),
            })
            .collect();
        requests.reverse();
        requests
    }

    fn settle(&self, outcome: PendingOutcome) -> ChargeOutcome {
        match outcome {
            PendingOutcome::Entered(id) => ChargeOutcome::Granted(Grant { id }),
            PendingOutcome::Refused(refusal, _) => ChargeOutcome::Refused(refusal),
            PendingOutcome::Repeated(id, _) => {
                // The grant was found before, so its state is known; if not, nothing is handed out.
                let state = self.ledger.grant_state(id).unwrap_or(GrantState::Burnt);
                ChargeOutcome::Repeated(id, state, (state == GrantState::Charged).then_some(Grant { id }))
            }
        }
    }

    /// Starts a grant. From here on its charge is final.
    ///
    /// # Guarantee
    /// At most one permit is ever created for a grant, among all processes that share the log.
    ///
    /// # Errors
    /// When the grant was started or cancelled before, a block of it is retired, its access mode is no longer admitted,
    /// or the log fails.
    pub fn start(&mut self, time: u64, grant: Grant) -> Result<Permit, GateError> {
        let grant = grant.id;
        let first = self.log.read(0, 1).map_err(|error| self.close(GateError::Log(error)))?;
        let origin = first.first().ok_or(GateError::NotAllowed)?.hash;
        let charge = self.append_and_apply(time, Event::Started { grant })?.ok_or(GateError::NotAllowed)?;
        let Request { stream, blocks, costs, access, .. } = charge.request;
        Ok(Permit { grant, stream, blocks, plans: costs.map(|cost| cost.map(Plan::new)), access, origin })
    }

    /// Cancels a grant that has not started, which undoes its charge.
    ///
    /// # Errors
    /// When the grant was started or cancelled before, or the log fails.
    pub fn cancel(&mut self, time: u64, grant: Grant) -> Result<(), GateError> {
        self.append_and_apply(time, Event::Cancelled { grant: grant.id }).map(drop)
    }

    /// Records the release of a session's result with this digest, and returns the new log head.
    ///
    /// # Errors
    /// When the grant was burnt or released before, or the log fails.
    pub fn release(&mut self, time: u64, finished: FinishedSession, digest: [u8; 32]) -> Result<Head, GateError> {
        self.append_and_apply(time, Event::Released { grant: finished.grant, digest })?;
        Ok(self.head)
    }

    /// Ends a started grant without a release. Its charge stands.
    ///
    /// # Errors
    /// When the grant is not running, or the log fails.
    pub fn burn(&mut self, time: u64, grant: GrantId) -> Result<(), GateError> {
        self.append_and_apply(time, Event::Burnt { grant }).map(drop)
    }

    /// Creates a stream.
    ///
    /// # Errors
    /// When the name is taken, or the log fails.
    pub fn create_stream(&mut self, time: u64, name: &str, policy: Policy) -> Result<StreamId, GateError> {
        self.append_and_apply(time, Event::StreamCreated { name: name.to_owned(), policy })?;
        self.ledger.stream_named(name).ok_or(GateError::NotAllowed)
    }

    /// Adds unspent blocks to a stream.
    ///
    /// # Errors
    /// When there is no such stream, it has a block with such a key, or the log fails.
    pub fn add_blocks(&mut self, time: u64, stream: StreamId, keys: Vec<String>) -> Result<(), GateError> {
        self.append_and_apply(time, Event::BlocksAdded { stream, keys }).map(drop)
    }

    /// Retires blocks for ever.
    ///
    /// # Errors
    /// When there is no such stream or block, or the log fails.
    pub fn retire(&mut self, time: u64, stream: StreamId, blocks: Blocks) -> Result<(), GateError> {
        self.append_and_apply(time, Event::Retired { stream, blocks }).map(drop)
    }

    /// Replaces the policy of a stream, approved by one officer, or by two different ones if it allows more than before.
    ///
    /// # Guarantee
    /// Everything released stays within the loosest policy that the stream ever had: `proofs/block.md`.
    ///
    /// # Errors
    /// When there is no such stream, the policy cannot replace the one in force ([`Policy::approvals_to_become`]),
    /// approvals are missing, or the log fails.
    pub fn change_policy(
        &mut self, time: u64, stream: StreamId, policy: Policy, approvals: Vec<String>,
    ) -> Result<(), GateError> {
        self.append_and_apply(time, Event::PolicyChanged { stream, policy, approvals }).map(drop)
    }

    /// Records an event that does not affect budgets.
    ///
    /// # Errors
    /// When the log fails.
    pub fn note(&mut self, time: u64, kind: &str, body: Vec<u8>) -> Result<(), GateError> {
        self.append_and_apply(time, Event::Note { kind: kind.to_owned(), body }).map(drop)
    }

    /// Returns the state as bytes for [`Gate::open_from`], after appending a record that commits to them.
    ///
    /// Retries while other writers append in between.
    ///
    /// # Errors
    /// When the log fails.
    pub fn snapshot(&mut self, time: u64) -> Result<Vec<u8>, GateError> {
        self.check_open()?;
        loop {
            let bytes = self.ledger.to_snapshot(self.head);
            if self.append_one(time, &Event::Snapshot { digest: Sha256::digest(&bytes).into() })? {
                return Ok(bytes);
            }
        }
    }

    /// Appends one event that the ledger allows, applies it and returns the result of applying it.
    fn append_and_apply(&mut self, time: u64, event: Event) -> Result<Option<Box<Charge>>, GateError> {
        self.check_open()?;
        loop {
            if !self.ledger.allows(&event) {
                if self.has_new_records()? {
                    self.refresh()?;
                    continue;
                }
                return Err(GateError::NotAllowed);
            }
            let number = self.head.length;
            if self.append_one(time, &event)? {
                return self.ledger.apply(number, event).map_err(|error| self.close(GateError::Ledger(error)));
            }
        }
    }

    /// Appends one event and returns true. If another writer appended first, applies its records and returns false.
    fn append_one(&mut self, time: u64, event: &Event) -> Result<bool, GateError> {
        let record = Record::after(self.head, time, event);
        match self.append(vec![record]) {
            Ok(()) => Ok(true),
            Err(LogError::Conflict) => self.refresh().map(|()| false),
            Err(error) => Err(self.close(GateError::Log(error))),
        }
    }

    /// Appends consecutive records, and checks the log head that the store reports.
    fn append(&mut self, records: Vec<Record>) -> Result<(), LogError> {
        let Some(head) = records.last().map(Record::head) else { return Ok(()) };
        if self.log.append(self.head, records)? != head {
            return Err(LogError::Unknown("the store reports another log head than the one written".to_owned()));
        }
        self.head = head;
        Ok(())
    }

    fn check_open(&self) -> Result<(), GateError> {
        if self.closed { Err(GateError::Closed) } else { Ok(()) }
    }

    /// Closes the gate: nothing more is granted until the log is opened again.
    fn close(&mut self, error: GateError) -> GateError {
        self.closed = true;
        error
    }
}

/// The outcome of a request before its charge is durable.
enum PendingOutcome {
    Entered(GrantId),
    Repeated(GrantId, Box<Request>),
    Refused(Refusal, Box<Request>),
}
