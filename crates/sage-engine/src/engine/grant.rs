//! From a question to a session: asked, charged, started, read.
//!
//! The order is the kernel's: what can be refused is refused before anything is charged, the charge is durable
//! before the start, the start before the first byte. It must never open a block by another way.

use sage_kernel::noise::SecureNoise;
use sage_kernel::{
    Answer, ContextId, Cost, Door, Finished, Gate, Grant, GrantId, Head, Lane, Permit, Policy, Request, RequestKey,
    Rows, Session,
};
use sage_learn::encode::{Encoded, Encoding};

use super::agenda::News;
use super::blocks::{folded, numbers, set};
use super::policy::{found, paid_by};
use super::{Engine, EngineError, Principal, Store, lock, now};
use crate::catalog::{Catalog, Stage};
use crate::read::{
    self, Batch, PreparedQuery, Query, ReadError, Source, SummaryCacheAccess, SummaryPlan, SummaryRetention, Unit,
};
use crate::stream::{self, MemberRefusal};

/// A question to the ledger, in the user's words.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ask {
    /// The asker's own name for this question. The same key with the same question has one effect for ever.
    pub key: String,
    /// The stream.
    pub stream: String,
    /// On whose account; nothing for the one that the asker is a member of.
    pub context: Option<String>,
    /// The keys of the blocks.
    pub blocks: Vec<String>,
    /// What is spent on the train lane and on the test lane.
    pub costs: [Option<Cost>; 2],
    /// How rows will be read.
    pub door: Door,
    /// What for.
    pub purpose: String,
}

/// A charge that may be used once.
#[must_use = "a charge that is neither used nor cancelled stays"]
pub struct Granted {
    grant: Grant,
    stream: String,
    blocks: Vec<String>,
}

impl Granted {
    /// The grant's number.
    pub const fn id(&self) -> GrantId {
        self.grant.id()
    }
}

impl Engine {
    /// Charges a question, together with whoever else asks at this moment.
    ///
    /// # Errors
    /// When the ledger refuses, a block is not sealed, or the principal is no ML engineer of the stream, no member of
    /// the context, or of several and names none.
    pub fn charge(&self, by: &Principal, ask: Ask) -> Result<Granted, EngineError> {
        let context = self.with(|gate, catalog| {
            let (_, known) = found(gate, catalog, &ask.stream)?;
            paid_by(known, by, ask.context.as_deref())
        })?;
        // The engine's own questions have keys that nobody else can take.
        self.charge_for_engine(Ask { key: format!("asked: {}", ask.key), context, ..ask })
    }

    /// Charges a question that the stream's own file asks.
    pub(super) fn charge_for_engine(&self, ask: Ask) -> Result<Granted, EngineError> {
        let request = self.with(|gate, catalog| request(gate, catalog, &ask))?;
        self.charge_request(request, ask.stream, ask.blocks)
    }

    /// Charges a question as the kernel takes it, on this stream and the blocks of these keys.
    pub(super) fn charge_request(
        &self, request: Request, stream: String, blocks: Vec<String>,
    ) -> Result<Granted, EngineError> {
        match self.desk.charge(request)? {
            Answer::Granted(grant) | Answer::Repeated(_, _, Some(grant)) => {
                // The ledger charges a block that is named twice once, and so it is read once.
                Ok(Granted { grant, stream, blocks: folded(&blocks) })
            }
            Answer::Repeated(_, state, None) => Err(EngineError::Served(state)),
            Answer::Refused(refusal) => Err(EngineError::Refused(refusal)),
        }
    }

    /// Takes back a charge that was not used.
    ///
    /// # Errors
    /// When the log fails.
    pub fn cancel(&self, granted: Granted) -> Result<(), EngineError> {
        self.with(|gate, _| Ok(gate.cancel(now(), granted.grant)?))?;
        // What comes back may be what somebody waits for.
        lock(&self.agenda).stir(&granted.stream, News::Budget);
        Ok(())
    }

    /// Reads the granted blocks into a session of the kernel. From here on the charge is final.
    ///
    /// # Errors
    /// Before anything is read: when the query is not row by row. After: when a block cannot be read.
    pub fn open_session(&self, granted: Granted, query: &Query) -> Result<Session<Batch>, EngineError> {
        self.started(granted, query, read::open)
    }

    /// As [`Engine::open_session`], where these lanes of blocks are summed as they are read and the sums are kept for
    /// the next time. `what` says how the query's columns are shaped, and which sums with which bounds are made of them.
    pub(super) fn open_summed<B: Rows + Send>(
        &self, granted: Granted, query: &Query, what: &str, shape: &(dyn Fn(Batch) -> B + Sync),
        (lanes, sum): (&[Lane], &read::SummaryFunction<'_, B>),
    ) -> Result<Session<B>, EngineError> {
        let stream = granted.stream.clone();
        let gone = |key: &str| self.catalog().stream(&stream).is_none_or(|known| known.stage(key) == Stage::Deleted);
        self.started(granted, query, |permit, noise, source, prepared, unit| {
            let tag = read::tag(prepared, query, unit, what);
            let keeping = SummaryCacheAccess { sums: &self.sums, key: &self.summary_key, tag, gone: &gone };
            let sums = SummaryPlan { lanes, sum, keep: SummaryRetention::Cache(&keeping) };
            read::open_summed(permit, noise, source, prepared, unit, shape, &sums)
        })
    }

    /// As [`Engine::open_session`], with rows as learners read them. The encoding's columns are the query's.
    ///
    /// # Errors
    /// As [`Engine::open_session`].
    pub fn open_encoded(
        &self, granted: Granted, query: &Query, encoding: &Encoding,
    ) -> Result<Session<Encoded>, EngineError> {
        self.open_by(granted, query, &|batch| read::encode_batch(&batch, encoding))
    }

    /// As [`Engine::open_encoded`], by a function that goes row by row.
    pub(super) fn open_by(
        &self, granted: Granted, query: &Query, encode: &(dyn Fn(Batch) -> Encoded + Sync),
    ) -> Result<Session<Encoded>, EngineError> {
        self.started(granted, query, |permit, noise, source, prepared, unit| {
            read::open_encoded(permit, noise, source, prepared, unit, encode)
        })
    }

    /// Checks the query, starts the grant and lets the reader use the permit.
    fn started<R>(
        &self, granted: Granted, query: &Query,
        open: impl FnOnce(Permit, SecureNoise, &Source, &PreparedQuery, &Unit) -> Result<Session<R>, ReadError>,
    ) -> Result<Session<R>, EngineError> {
        let noise = SecureNoise::new()?;
        let Granted { grant, stream, blocks } = granted;
        let catalog = self.catalog();
        let known = catalog.stream(&stream).ok_or_else(|| EngineError::NoStream(stream.clone()))?;
        let prepared = read::prepare(&known.file.row_schema(), query)?;
        let unit = unit_of(&known.file);
        let (permit, source) = self.with(|gate, _| {
            let (id, _) = found(gate, &catalog, &stream)?;
            let parts = numbers(gate, id, &blocks)?.into_iter().zip(&blocks).flat_map(|(number, key)| {
                let parts = known.blocks.get(key).map_or(&[][..], |block| &block.parts);
                parts.iter().map(move |part| (number, part.clone()))
            });
            let source = Source::new(gate.ledger(), &stream, parts, self.blocks.objects())?;
            let source = source.with_keys(self.blocks.keys().cloned());
            Ok((gate.start(now(), grant)?, source))
        })?;
        let id = permit.grant();
        open(permit, noise, &source, &prepared, &unit).map_err(|error| {
            // The charge stands; that nothing will leave under it is worth a line in the log, if it takes one.
            drop(self.burn(id));
            EngineError::Read(error)
        })
    }

    /// Lets what a session computed leave, under the digest of what leaves.
    ///
    /// # Errors
    /// When the log fails; nothing may leave then.
    pub fn release(&self, finished: Finished, digest: [u8; 32]) -> Result<Head, EngineError> {
        self.with(|gate, _| Ok(gate.release(now(), finished, digest)?))
    }

    /// Says that nothing will leave under a started grant. Its charge stands.
    ///
    /// # Errors
    /// When the grant is not running, or the log fails.
    pub fn burn(&self, grant: GrantId) -> Result<(), EngineError> {
        self.with(|gate, _| Ok(gate.burn(now(), grant)?))
    }
}

/// The question as the kernel takes it.
pub(super) fn request(gate: &Gate<Store>, catalog: &Catalog, ask: &Ask) -> Result<Request, EngineError> {
    let (id, known) = found(gate, catalog, &ask.stream)?;
    // A block that is open grows; one that is deleted is retired, and the kernel says so.
    let blocks = set(gate, id, &ask.blocks)?;
    if let Some(key) = ask.blocks.iter().find(|key| known.stage(key) == Stage::Open) {
        return Err(EngineError::Stage { block: key.clone(), needed: "sealed yet: wait for it, or seal it" });
    }
    let policy = gate.ledger().stream(id).map(|stream| stream.policy());
    Ok(Request {
        key: RequestKey::from_text(&ask.key),
        stream: id,
        context: policy.map_or(Ok(ContextId(0)), |policy| context(policy, ask.context.as_deref()))?,
        blocks,
        costs: ask.costs.clone(),
        door: ask.door.clone(),
        purpose: ask.purpose.clone(),
    })
}

/// The context of this name; the first where none is named.
pub(super) fn context(policy: &Policy, name: Option<&str>) -> Result<ContextId, EngineError> {
    let place = match name {
        None => Some(0),
        Some(name) => policy.contexts().iter().position(|context| context.name == name),
    };
    let place = place.and_then(|place| u32::try_from(place).ok());
    let missing = || MemberRefusal::NoContext(name.unwrap_or_default().to_owned());
    Ok(place.map(ContextId).ok_or_else(missing)?)
}

/// What one row of a session is.
fn unit_of(file: &stream::StreamFile) -> Unit {
    match (&file.unit, &file.user) {
        (stream::Unit::User { contribution }, Some(column)) => {
            let most = std::num::NonZeroUsize::new(*contribution as usize).unwrap_or(std::num::NonZeroUsize::MIN);
            Unit::User { column: column.clone(), most }
        }
        _ => Unit::Row,
    }
}
