//! From a charge request to a session: request, charge, start, read.
//!
//! The order is the kernel's: everything that can be refused is refused before the charge, the charge is durable before
//! the start, and the start before the first byte is read. Blocks must never be opened in any other way.

use sage_kernel::noise::SecureNoise;
use sage_kernel::{
    AccessMode, ChargeOutcome, ContextId, Cost, FinishedSession, Gate, Grant, GrantId, Head, Lane, Permit, Policy,
    Request, RequestKey, Rows, Session,
};
use sage_learn::encode::{Encoded, Encoding};

use crate::api::blocks::{folded, numbers, set};
use crate::api::policy::{found, paying_context};
use crate::api::{Engine, EngineError, Principal, Store, lock, now};
use crate::catalog::{Catalog, Stage};
use crate::read::{
    self, Batch, PreparedQuery, Query, ReadError, Source, SummaryCacheAccess, SummaryPlan, SummaryRetention, Unit,
};
use crate::scheduler::wakeups::Change;
use crate::stream::{self, MemberRefusal};

/// A request to charge blocks of a stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChargeRequest {
    /// The caller's key for this request. Repeating the same request under the same key has no further effect.
    pub key: String,
    /// The name of the stream.
    pub stream: String,
    /// The context that pays; `None` for the one that the caller is a member of.
    pub context: Option<String>,
    /// The keys of the blocks.
    pub blocks: Vec<String>,
    /// The cost on the train lane and on the test lane.
    pub costs: [Option<Cost>; 2],
    /// The access mode in which rows will be read.
    pub access: AccessMode,
    /// The purpose, as recorded in the log.
    pub purpose: String,
}

/// A charge that was granted and can be used once.
#[must_use = "a charge that is neither used nor cancelled stays"]
pub struct Granted {
    grant: Grant,
    stream: String,
    blocks: Vec<String>,
}

impl Granted {
    /// The number of the grant.
    pub const fn id(&self) -> GrantId {
        self.grant.id()
    }
}

impl Engine {
    /// Charges a request, in one batch with concurrent requests.
    ///
    /// # Errors
    /// When the ledger refuses, a block is not sealed, or the principal is not an ML engineer of the stream, not a
    /// member of the context, or a member of several contexts and names none.
    pub fn charge(&self, by: &Principal, request: ChargeRequest) -> Result<Granted, EngineError> {
        let context = self.with(|gate, catalog| {
            let (_, known) = found(gate, catalog, &request.stream)?;
            paying_context(known, by, request.context.as_deref())
        })?;
        // The prefix keeps callers' keys apart from those of the engine's own charges.
        self.charge_for_engine(ChargeRequest { key: format!("asked: {}", request.key), context, ..request })
    }

    /// Charges a request that the engine makes on its own behalf.
    pub(crate) fn charge_for_engine(&self, request: ChargeRequest) -> Result<Granted, EngineError> {
        let charge = self.with(|gate, catalog| kernel_request(gate, catalog, &request))?;
        self.charge_request(charge, request.stream, request.blocks)
    }

    /// Charges a request of the kernel on the blocks with these keys.
    pub(crate) fn charge_request(
        &self, request: Request, stream: String, blocks: Vec<String>,
    ) -> Result<Granted, EngineError> {
        match self.group_commit.charge(request)? {
            ChargeOutcome::Granted(grant) | ChargeOutcome::Repeated(_, _, Some(grant)) => {
                // A block that is named twice is charged once, and therefore read once.
                Ok(Granted { grant, stream, blocks: folded(&blocks) })
            }
            ChargeOutcome::Repeated(_, state, None) => Err(EngineError::Served(state)),
            ChargeOutcome::Refused(refusal) => Err(EngineError::Refused(refusal)),
        }
    }

    /// Cancels a charge that was not used.
    ///
    /// # Errors
    /// When the log fails.
    pub fn cancel(&self, granted: Granted) -> Result<(), EngineError> {
        self.with(|gate, _| Ok(gate.cancel(now(), granted.grant)?))?;
        // The freed budget may unblock a waiting run.
        lock(&self.wakeups).wake(&granted.stream, Change::Budget);
        Ok(())
    }

    /// Reads the granted blocks into a session of the kernel. From here on the charge is final.
    ///
    /// # Errors
    /// Before anything is read: when the query is not evaluated row by row. Afterwards: when a block cannot be read.
    pub fn open_session(&self, granted: Granted, query: &Query) -> Result<Session<Batch>, EngineError> {
        self.started(granted, query, read::open)
    }

    /// As [`Engine::open_session`], with the given lanes summarised while they are read; the summaries are cached for
    /// later sessions. `what` identifies the encoding of the columns, and which sums with which bounds are computed.
    pub(crate) fn open_summed<B: Rows + Send>(
        &self, granted: Granted, query: &Query, what: &str, shape: &(dyn Fn(Batch) -> B + Sync),
        (lanes, sum): (&[Lane], &read::SummaryFunction<'_, B>),
    ) -> Result<Session<B>, EngineError> {
        let stream = granted.stream.clone();
        let deleted = |key: &str| self.catalog().stream(&stream).is_none_or(|known| known.stage(key) == Stage::Deleted);
        self.started(granted, query, |permit, noise, source, prepared, unit| {
            let tag = read::tag(prepared, query, unit, what);
            let keeping = SummaryCacheAccess { sums: &self.sums, key: &self.summary_key, tag, gone: &deleted };
            let sums = SummaryPlan { lanes, sum, keep: SummaryRetention::Cache(&keeping) };
            read::open_summed(permit, noise, source, prepared, unit, shape, &sums)
        })
    }

    /// As [`Engine::open_session`], with rows encoded for the learners. The encoding's columns are those of the query.
    ///
    /// # Errors
    /// As [`Engine::open_session`].
    pub fn open_encoded(
        &self, granted: Granted, query: &Query, encoding: &Encoding,
    ) -> Result<Session<Encoded>, EngineError> {
        self.open_by(granted, query, &|batch| read::encode_batch(&batch, encoding))
    }

    /// As [`Engine::open_encoded`], with a function that encodes row by row.
    pub(crate) fn open_by(
        &self, granted: Granted, query: &Query, encode: &(dyn Fn(Batch) -> Encoded + Sync),
    ) -> Result<Session<Encoded>, EngineError> {
        self.started(granted, query, |permit, noise, source, prepared, unit| {
            read::open_encoded(permit, noise, source, prepared, unit, encode)
        })
    }

    /// Checks the query, starts the grant and passes the permit to the reader.
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
            // The charge stands. The log records, if it can, that nothing will be released under it.
            drop(self.burn(id));
            EngineError::Read(error)
        })
    }

    /// Releases the result of a session under its digest.
    ///
    /// # Errors
    /// When the log fails; the result must not be published then.
    pub fn release(&self, finished: FinishedSession, digest: [u8; 32]) -> Result<Head, EngineError> {
        self.with(|gate, _| Ok(gate.release(now(), finished, digest)?))
    }

    /// Records that nothing will be released under a started grant. Its charge stands.
    ///
    /// # Errors
    /// When the grant is not running, or the log fails.
    pub fn burn(&self, grant: GrantId) -> Result<(), EngineError> {
        self.with(|gate, _| Ok(gate.burn(now(), grant)?))
    }
}

/// The kernel's form of a charge request.
pub(crate) fn kernel_request(
    gate: &Gate<Store>, catalog: &Catalog, request: &ChargeRequest,
) -> Result<Request, EngineError> {
    let (id, known) = found(gate, catalog, &request.stream)?;
    // An open block can still grow. A deleted block is retired, which the kernel checks.
    let blocks = set(gate, id, &request.blocks)?;
    if let Some(key) = request.blocks.iter().find(|key| known.stage(key) == Stage::Open) {
        return Err(EngineError::Stage { block: key.clone(), needed: "sealed yet: wait for it, or seal it" });
    }
    let policy = gate.ledger().stream(id).map(|stream| stream.policy());
    Ok(Request {
        key: RequestKey::from_text(&request.key),
        stream: id,
        context: policy.map_or(Ok(ContextId(0)), |policy| context(policy, request.context.as_deref()))?,
        blocks,
        costs: request.costs.clone(),
        access: request.access.clone(),
        purpose: request.purpose.clone(),
    })
}

/// The context with this name, or the first one if `name` is `None`.
pub(crate) fn context(policy: &Policy, name: Option<&str>) -> Result<ContextId, EngineError> {
    let index = match name {
        None => Some(0),
        Some(name) => policy.contexts().iter().position(|context| context.name == name),
    };
    let index = index.and_then(|index| u32::try_from(index).ok());
    let missing = || MemberRefusal::UnknownContext(name.unwrap_or_default().to_owned());
    Ok(index.map(ContextId).ok_or_else(missing)?)
}

/// The privacy unit of one record in a session.
fn unit_of(file: &stream::StreamFile) -> Unit {
    match (&file.unit, &file.user) {
        (unit @ stream::Unit::User { .. }, Some(column)) => {
            let most = unit.contribution().records() as usize;
            let most = std::num::NonZeroUsize::new(most).unwrap_or(std::num::NonZeroUsize::MIN);
            Unit::User { column: column.clone(), most }
        }
        _ => Unit::Row,
    }
}
