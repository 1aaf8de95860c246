//! The gate: the order that matters.
//!
//! Decide, make durable, and only then hand out. A [`Grant`] exists only after the append of its charge
//! returned, a [`Permit`] only after the append of its start returned, and block files open only with a
//! permit. Each is used up by the next step. After any doubt about the log the gate grants nothing until
//! it is opened anew. It must never hand out a grant or a permit before the store has answered.

use sha2::{Digest, Sha256};

use crate::block::{BlockId, Blocks, Lane, StreamId};
use crate::decide::Decision;
use crate::event::{Charge, Door, Event, GrantId, Request};
use crate::ledger::{GrantState, Inconsistent, Ledger};
use crate::log::{BrokenChain, Head, Log, LogError, Record};
use crate::message::says;
use crate::plan::Plan;
use crate::policy::Policy;
use crate::refusal::Refusal;

/// How many records are read at a time.
const PAGE: usize = 4096;

/// Why the gate could not act.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum GateError {
    /// The store failed; what was asked did not happen, or is not known to have happened.
    Log(LogError),
    /// A record is not the one that was written.
    Chain(BrokenChain),
    /// The log breaks the rules of the ledger.
    Ledger(Inconsistent),
    /// An earlier failure left the outcome of an append open; open the log anew.
    Closed,
    /// The snapshot is not one that the log commits to; the log itself may be sound.
    Snapshot,
    /// The step is not allowed: the grant has gone another way, or the stream or block is unknown.
    NotAllowed,
}

says!(error GateError {
    Self::Log(error) => error.to_string(),
    Self::Chain(error) => error.to_string(),
    Self::Ledger(error) => error.to_string(),
    Self::Closed => "an earlier write to the log failed, so nothing is granted; open the log again to go on",
    Self::Snapshot => "the snapshot is not the one this log vouches for; open the log from its first record instead",
    Self::NotAllowed => "the grant, stream or block is not in a state that allows this",
});

/// Leave to start, once: minted when a charge is durable, used up by starting or cancelling.
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

/// Leave to read: minted when the start of a grant is durable, used up by opening a session.
pub struct Permit {
    pub(crate) grant: GrantId,
    pub(crate) stream: StreamId,
    pub(crate) blocks: Blocks,
    pub(crate) plans: [Option<Plan>; 2],
    pub(crate) door: Door,
    /// The hash of the log's first record: which log this is.
    pub(crate) origin: [u8; 32],
}

impl Permit {
    /// Whether the lane of the block may be read.
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

/// Proof that a session has ended: needed to release what it computed.
#[derive(Debug)]
#[must_use = "nothing leaves without a release"]
pub struct Finished {
    pub(crate) grant: GrantId,
}

/// What the gate answers to a request.
#[derive(Debug, PartialEq, Eq)]
pub enum Answer {
    /// Charged; here is the grant.
    Granted(Grant),
    /// The same request was charged before; this is how far it has come. While it has not started,
    /// the grant comes with it.
    Repeated(GrantId, GrantState, Option<Grant>),
    /// Refused; nothing happened.
    Refused(Refusal),
}

/// The ledger with the log it is a fold of.
pub struct Gate<L> {
    log: L,
    ledger: Ledger,
    head: Head,
    closed: bool,
}

impl<L: Log> Gate<L> {
    /// Reads and verifies the whole log.
    ///
    /// # Errors
    /// When it cannot be read, is not a chain, or breaks the rules.
    pub fn open(log: L) -> Result<Self, GateError> {
        let mut gate = Self { log, ledger: Ledger::default(), head: Head::EMPTY, closed: false };
        gate.refresh()?;
        Ok(gate)
    }

    /// Starts from a snapshot and reads and verifies the log from there on.
    ///
    /// # Guarantee
    /// The state is the one whose bytes a record of this log commits to, with everything after it: what
    /// [`Gate::open`] gives, unless that record was forged too, which an exported head shows
    /// (`docs/reference/log-format.md`).
    ///
    /// # Errors
    /// [`GateError::Snapshot`] when the log does not vouch for exactly these bytes; [`Gate::open`] needs
    /// none. Otherwise as there.
    pub fn open_from(log: L, snapshot: &[u8]) -> Result<Self, GateError> {
        let (ledger, head) = Ledger::from_snapshot(snapshot).map_err(|_| GateError::Snapshot)?;
        let next = log.read(head.length, 1).map_err(GateError::Log)?;
        let vouched = next.first().and_then(|record| record.verify(head).ok());
        let (event, head) = vouched.ok_or(GateError::Snapshot)?;
        if event != (Event::Snapshot { digest: Sha256::digest(snapshot).into() }) {
            return Err(GateError::Snapshot);
        }
        let mut gate = Self { log, ledger, head, closed: false };
        gate.refresh()?;
        Ok(gate)
    }

    /// The state so far.
    pub const fn ledger(&self) -> &Ledger {
        &self.ledger
    }

    /// Where the log ends.
    pub const fn head(&self) -> Head {
        self.head
    }

    /// The store.
    pub const fn log(&self) -> &L {
        &self.log
    }

    /// Gives the store back.
    pub fn into_log(self) -> L {
        self.log
    }

    /// Takes in what others have appended.
    ///
    /// # Errors
    /// When it cannot be read, does not follow, or breaks the rules; the gate is then closed.
    pub fn refresh(&mut self) -> Result<(), GateError> {
        self.open_or_closed()?;
        self.read_on().inspect_err(|_| self.closed = true)
    }

    fn read_on(&mut self) -> Result<(), GateError> {
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

    /// Whether others have appended something that was not taken in yet.
    fn has_news(&mut self) -> Result<bool, GateError> {
        let next = self.log.read(self.head.length, 1).map_err(|error| self.close(GateError::Log(error)))?;
        Ok(!next.is_empty())
    }

    /// Charges the requests, as many as fit, in one append. Each is decided when it is given, so that more may
    /// still be on their way.
    ///
    /// # Guarantee
    /// The answers are those of deciding the requests one after the other, refusals on the newest state
    /// of the log. No grant is minted before the
    /// append that holds its charge has returned.
    ///
    /// # Errors
    /// When the log fails; the gate is then closed and none of the requests has an answer.
    pub fn charge(&mut self, time: u64, requests: impl IntoIterator<Item = Request>) -> Result<Vec<Answer>, GateError> {
        self.open_or_closed()?;
        let (mut records, mut outcomes) = self.enter(time, requests)?;
        loop {
            // A no is given on the newest state only: what is missing here others may have added.
            let refused = outcomes.iter().any(|outcome| matches!(outcome, Outcome::Refused(..)));
            let late = refused && self.has_news()?;
            match if late { Err(LogError::Conflict) } else { self.append(records) } {
                Ok(()) => return Ok(outcomes.into_iter().map(|outcome| self.answer(outcome)).collect()),
                Err(LogError::Conflict) => {
                    let requests = self.withdraw(outcomes);
                    self.refresh()?;
                    (records, outcomes) = self.enter(time, requests)?;
                }
                Err(error) => return Err(self.close(GateError::Log(error))),
            }
        }
    }

    /// Decides the requests in order and enters those that fit, before they are durable: nothing may
    /// leave the gate until they are.
    fn enter(
        &mut self, time: u64, requests: impl IntoIterator<Item = Request>,
    ) -> Result<(Vec<Record>, Vec<Outcome>), GateError> {
        let (mut records, mut outcomes) = (Vec::new(), Vec::new());
        for request in requests {
            let outcome = match self.ledger.decide(&request) {
                Decision::Admitted(amounts) => {
                    let event = Event::Charged(Box::new(Charge { request, amounts }));
                    let record = Record::after(records.last().map_or(self.head, Record::head), time, &event);
                    let id = GrantId(record.number);
                    records.push(record);
                    self.ledger.enter(id, event);
                    Outcome::Entered(id)
                }
                Decision::Repeated(grant) => Outcome::Repeated(grant, Box::new(request)),
                Decision::Known(grant) if self.was_charged(grant, &request)? => {
                    Outcome::Repeated(grant, Box::new(request))
                }
                Decision::Known(grant) => Outcome::Refused(Refusal::KeyReused(grant), Box::new(request)),
                Decision::Refused(refusal) => Outcome::Refused(refusal, Box::new(request)),
            };
            outcomes.push(outcome);
        }
        Ok((records, outcomes))
    }

    /// Whether the record of a grant that waits no longer holds this request.
    ///
    /// The record is taken as the store gives it, without the chain. A store that lies here turns "repeated"
    /// into "refused" or back; either way nothing is handed out, because the grant is not waiting, and
    /// nothing is spent.
    fn was_charged(&mut self, grant: GrantId, request: &Request) -> Result<bool, GateError> {
        let records = self.log.read(grant.0, 1).map_err(|error| self.close(GateError::Log(error)))?;
        let event = records.first().map(|record| Event::from_bytes(&record.body));
        Ok(matches!(event, Some(Ok(Event::Charged(charge))) if charge.request == *request))
    }

    /// Takes back a batch that was not appended, and gives the requests to be decided again.
    fn withdraw(&mut self, outcomes: Vec<Outcome>) -> Vec<Request> {
        // Newest first, so that each is the last one of the ledger in its turn.
        let mut requests: Vec<Request> = outcomes
            .into_iter()
            .rev()
            .filter_map(|outcome| match outcome {
                Outcome::Entered(_) => self.ledger.withdraw_last(),
                Outcome::Repeated(_, request) | Outcome::Refused(_, request) => Some(*request),
            })
            .collect();
        requests.reverse();
        requests
    }

    fn answer(&self, outcome: Outcome) -> Answer {
        match outcome {
            Outcome::Entered(id) => Answer::Granted(Grant { id }),
            Outcome::Refused(refusal, _) => Answer::Refused(refusal),
            Outcome::Repeated(id, _) => {
                // A grant that was found a moment ago is still there; if not, nothing is handed out.
                let state = self.ledger.grant_state(id).unwrap_or(GrantState::Burnt);
                Answer::Repeated(id, state, (state == GrantState::Charged).then_some(Grant { id }))
            }
        }
    }

    /// Starts a grant: from here on its charge is final, whatever happens.
    ///
    /// # Guarantee
    /// At most one permit is ever minted for a grant, in any process that shares the log.
    ///
    /// # Errors
    /// When the grant has been started or cancelled before, or the log fails.
    pub fn start(&mut self, time: u64, grant: Grant) -> Result<Permit, GateError> {
        let grant = grant.id;
        let first = self.log.read(0, 1).map_err(|error| self.close(GateError::Log(error)))?;
        let origin = first.first().ok_or(GateError::NotAllowed)?.hash;
        let charge = self.record(time, Event::Started { grant })?.ok_or(GateError::NotAllowed)?;
        let Request { stream, blocks, costs, door, .. } = charge.request;
        Ok(Permit { grant, stream, blocks, plans: costs.map(|cost| cost.map(Plan::new)), door, origin })
    }

    /// Takes a charge back before it started.
    ///
    /// # Errors
    /// When the grant has been started or cancelled before, or the log fails.
    pub fn cancel(&mut self, time: u64, grant: Grant) -> Result<(), GateError> {
        self.record(time, Event::Cancelled { grant: grant.id }).map(drop)
    }

    /// Records that what a session computed leaves, under this digest.
    ///
    /// # Errors
    /// When the grant has been burnt or released before, or the log fails.
    pub fn release(&mut self, time: u64, finished: Finished, digest: [u8; 32]) -> Result<Head, GateError> {
        self.record(time, Event::Released { grant: finished.grant, digest })?;
        Ok(self.head)
    }

    /// Records that nothing will leave under a started grant. The charge stands.
    ///
    /// # Errors
    /// When the grant is not running, or the log fails.
    pub fn burn(&mut self, time: u64, grant: GrantId) -> Result<(), GateError> {
        self.record(time, Event::Burnt { grant }).map(drop)
    }

    /// Creates a stream.
    ///
    /// # Errors
    /// When the name is taken, or the log fails.
    pub fn create_stream(&mut self, time: u64, name: &str, policy: Policy) -> Result<StreamId, GateError> {
        self.record(time, Event::StreamCreated { name: name.to_owned(), policy })?;
        self.ledger.stream_named(name).ok_or(GateError::NotAllowed)
    }

    /// Adds unspent blocks to a stream.
    ///
    /// # Errors
    /// When there is no such stream, it has a block with such a key, or the log fails.
    pub fn add_blocks(&mut self, time: u64, stream: StreamId, keys: Vec<String>) -> Result<(), GateError> {
        self.record(time, Event::BlocksAdded { stream, keys }).map(drop)
    }

    /// Retires blocks for ever.
    ///
    /// # Errors
    /// When there is no such stream or block, or the log fails.
    pub fn retire(&mut self, time: u64, stream: StreamId, blocks: Blocks) -> Result<(), GateError> {
        self.record(time, Event::Retired { stream, blocks }).map(drop)
    }

    /// Gives a stream another policy from now on, approved by these people: at least one, and two different
    /// ones where it allows more than before.
    ///
    /// # Guarantee
    /// What leaves stays within the loosest policy the stream ever had: `proofs/block.md`.
    ///
    /// # Errors
    /// When there is no such stream, the policy may not follow the one in force
    /// ([`Policy::approvals_to_become`]), approvals are missing, or the log fails.
    pub fn change_policy(
        &mut self, time: u64, stream: StreamId, policy: Policy, approvals: Vec<String>,
    ) -> Result<(), GateError> {
        self.record(time, Event::PolicyChanged { stream, policy, approvals }).map(drop)
    }

    /// Records something that touches no budget.
    ///
    /// # Errors
    /// When the log fails.
    pub fn note(&mut self, time: u64, kind: &str, body: Vec<u8>) -> Result<(), GateError> {
        self.record(time, Event::Note { kind: kind.to_owned(), body }).map(drop)
    }

    /// The state at the end of the log as bytes, for [`Gate::open_from`], and a record that vouches for them.
    ///
    /// Begins anew for as long as others append in between.
    ///
    /// # Errors
    /// When the log fails.
    pub fn snapshot(&mut self, time: u64) -> Result<Vec<u8>, GateError> {
        self.open_or_closed()?;
        loop {
            let bytes = self.ledger.to_snapshot(self.head);
            if self.append_one(time, &Event::Snapshot { digest: Sha256::digest(&bytes).into() })? {
                return Ok(bytes);
            }
        }
    }

    /// Appends one event that the ledger allows, then applies it: gives what applying it gave.
    fn record(&mut self, time: u64, event: Event) -> Result<Option<Box<Charge>>, GateError> {
        self.open_or_closed()?;
        loop {
            if !self.ledger.allows(&event) {
                if self.has_news()? {
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

    /// Appends one event, unless others were faster: then takes in what they appended.
    fn append_one(&mut self, time: u64, event: &Event) -> Result<bool, GateError> {
        let record = Record::after(self.head, time, event);
        match self.append(vec![record]) {
            Ok(()) => Ok(true),
            Err(LogError::Conflict) => self.refresh().map(|()| false),
            Err(error) => Err(self.close(GateError::Log(error))),
        }
    }

    /// Appends records that follow each other, and holds the store to where they lead.
    fn append(&mut self, records: Vec<Record>) -> Result<(), LogError> {
        let Some(head) = records.last().map(Record::head) else { return Ok(()) };
        if self.log.append(self.head, records)? != head {
            return Err(LogError::Unknown("the store reports another head than the one written".to_owned()));
        }
        self.head = head;
        Ok(())
    }

    fn open_or_closed(&self) -> Result<(), GateError> {
        if self.closed { Err(GateError::Closed) } else { Ok(()) }
    }

    /// Fail-stop: nothing more until the log is opened anew.
    fn close(&mut self, error: GateError) -> GateError {
        self.closed = true;
        error
    }
}

/// What became of a request that was decided and, if it fits, entered, before it is durable.
enum Outcome {
    Entered(GrantId),
    Repeated(GrantId, Box<Request>),
    Refused(Refusal, Box<Request>),
}
