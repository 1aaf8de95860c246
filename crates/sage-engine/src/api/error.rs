//! Errors of the engine, and the principal who makes a request.

use std::fmt::{self, Display as _};

use sage_kernel::noise::NoiseError;
use sage_kernel::{BlocksError, CostError, GateError, GrantState, Refusal, SessionError};
use sage_model::bundle::PredictError;

use crate::backup::BackupError;
use crate::blocks::{KeyError, StoreError};
use crate::ingest::IngestError;
use crate::log::{HeadsError, OpenError};
use crate::pipeline::PipelineFileError;
use crate::plan::PlanRefusal;
use crate::query::PrivateQueryRefusal;
use crate::read::{QueryRefusal, ReadError};
use crate::release::ArtifactStoreError;
use crate::stream::{ForbiddenChange, MemberRefusal, Role, StreamFileError};

/// The principal who makes a request, by the name that stream files use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal(String);

impl Principal {
    /// A principal with this name; `None` if it is empty.
    pub fn named(name: &str) -> Option<Self> {
        (!name.trim().is_empty()).then(|| Self(name.trim().to_owned()))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// Why a request failed. Nothing was granted or changed, unless the error says so.
#[derive(Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// The directory cannot be opened.
    Open(OpenError),
    /// The heads of the log could not be compared or exported.
    Heads(HeadsError),
    /// The log failed, or failed verification.
    Gate(GateError),
    /// A note of the log is invalid.
    Catalog {
        /// Its number.
        number: u64,
    },
    /// The directory was restored from a backup and is still fenced.
    Fenced,
    /// A backup cannot be made, or failed verification.
    Backup(BackupError),
    /// The stream file is invalid.
    StreamFile(StreamFileError),
    /// This change of a stream file is not allowed.
    Change(ForbiddenChange),
    /// There is no such stream.
    NoStream(String),
    /// The stream exists with another definition.
    StreamExists(String),
    /// The stream file does not give this principal the role.
    NotInRole {
        /// The principal.
        principal: String,
        /// The required role.
        role: Role,
        /// The stream.
        stream: String,
    },
    /// The policy has other contexts or other rules than the one in force.
    OtherPolicy(String),
    /// No change is proposed, or its proposer tried to approve it.
    NothingToApprove(String),
    /// The approved digest is not that of the waiting proposal.
    ProposalChanged(String),
    /// The roles of this principal are suspended.
    Suspended {
        /// The principal.
        principal: String,
        /// The stream.
        stream: String,
    },
    /// A member cannot be suspended or reinstated.
    Suspension {
        /// The member.
        member: String,
        /// The reason.
        why: &'static str,
    },
    /// The stream has no such file of quarantined rows.
    NoQuarantine(String),
    /// The name of the pipeline belongs to another stream.
    NameTaken(String),
    /// The stream has no such block.
    NoBlock(String),
    /// The request names no block.
    Blocks(BlocksError),
    /// The block is in another stage.
    Stage {
        /// The block.
        block: String,
        /// The required stage.
        needed: &'static str,
    },
    /// A principal may not spend in a context, or contexts may not have these members.
    Members(MemberRefusal),
    /// The master key of encrypted blocks cannot be used.
    Key(KeyError),
    /// The block store failed.
    Store(StoreError),
    /// A batch could not be ingested; nothing of it was stored.
    Ingest(IngestError),
    /// The ledger refused the charge.
    Refused(Refusal),
    /// The same request was already charged: it is in this state and cannot run again.
    Served(GrantState),
    /// The query is not evaluated row by row.
    Query(QueryRefusal),
    /// The query cannot be answered privately.
    Question(PrivateQueryRefusal),
    /// A query failed; its charge stands.
    Unanswered(String),
    /// A query failed after it was charged, or was charged earlier without a result. The charge stands.
    ChargedButFailed {
        /// The number of the charge in the log.
        charge: u64,
        /// The cause.
        cause: Box<EngineError>,
    },
    /// The key was used for another query.
    OtherQuestion(String),
    /// Granted blocks could not be read. The charge stands.
    Read(ReadError),
    /// A cost is invalid.
    Cost(CostError),
    /// A mechanism failed. The charge stands.
    Session(SessionError),
    /// The system's source of randomness failed.
    Noise(NoiseError),
    /// The secret of a stream of users is missing or has changed.
    Secret(String),
    /// A file of the directory other than the log could not be used.
    File(String, std::io::Error),
    /// The pipeline file is invalid.
    PipelineFile(PipelineFileError),
    /// A pipeline does not fit its stream.
    Plan(PlanRefusal),
    /// The stream does not allow the attested access mode.
    AttestedNotAllowed(String),
    /// There is no such run.
    NoRun(u64),
    /// The run has ended.
    RunOver(u64),
    /// There is no such release.
    NoRelease(String),
    /// The baseline predicts another label, or was trained on another stream.
    OtherLabel(String),
    /// The release was withdrawn.
    Withdrawn(String, String),
    /// This alias is not allowed.
    Alias(String),
    /// A release cannot be read.
    ArtifactStore(ArtifactStoreError),
    /// A model cannot be evaluated.
    Predict(PredictError),
}

/// Why a key that was used before is refused.
const OTHER_QUESTION: &str = "was used for another query: other SQL, another cost, other blocks or another context; \
                              use a new key for a new query";

impl fmt::Display for EngineError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(out),
            Self::Heads(error) => error.fmt(out),
            Self::Gate(error) => error.fmt(out),
            Self::Catalog { number } => write!(
                out,
                "note {number} of the log is invalid; use the release that wrote it, or compare \
                 the log with a copy"
            ),
            Self::Fenced => write!(
                out,
                "the directory was restored from a backup; an officer must acknowledge it with: sage restore --acknowledge"
            ),
            Self::Backup(error) => error.fmt(out),
            Self::StreamFile(error) => error.fmt(out),
            Self::Change(error) => error.fmt(out),
            Self::NoBlock(key) => write!(out, "the stream has no block \"{key}\"; list them with: sage blocks STREAM"),
            Self::Blocks(error) => error.fmt(out),
            Self::Stage { block, needed } => write!(out, "block \"{block}\" is not {needed}"),
            Self::Members(refusal) => refusal.fmt(out),
            Self::Key(error) => error.fmt(out),
            Self::Store(error) => error.fmt(out),
            Self::Ingest(error) => error.fmt(out),
            Self::Refused(refusal) => refusal.fmt(out),
            Self::Served(_) => write!(
                out,
                "this request was already served, and a second run would be a second query; use another key"
            ),
            Self::Query(refusal) => refusal.fmt(out),
            Self::Question(refusal) => write!(out, "{refusal}; nothing was charged"),
            Self::Unanswered(reason) => write!(out, "{reason}; the charge stands"),
            Self::ChargedButFailed { charge, cause } => fmt_charged(out, *charge, cause),
            Self::OtherQuestion(key) => write!(out, "the key \"{key}\" {OTHER_QUESTION}"),
            Self::Read(error) => write!(out, "{error}; the charge stands"),
            Self::Cost(error) => error.fmt(out),
            Self::Session(error) => write!(out, "{error}; the charge stands"),
            Self::Noise(error) => error.fmt(out),
            Self::Secret(file) => write!(
                out,
                "{file} is not the secret that assigned this stream's users to lanes; restore it from a copy: with \
                 another secret, users would be in both lanes"
            ),
            Self::File(name, error) => write!(out, "{name}: {error}"),
            _ => self.fmt_of_streams(out),
        }
    }
}

impl EngineError {
    /// Messages about streams and their members.
    fn fmt_of_streams(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStream(name) => {
                write!(out, "there is no stream \"{name}\"; create it from its file with: sage stream create FILE")
            }
            Self::StreamExists(name) => write!(
                out,
                "stream \"{name}\" already exists with another definition; to change it use: sage stream change FILE"
            ),
            Self::NotInRole { principal, role, stream } => write!(
                out,
                "\"{principal}\" is no {role} of stream \"{stream}\"; the [access] section of the stream's file says \
                 who is"
            ),
            Self::OtherPolicy(stream) => write!(
                out,
                "only the ceilings and access modes of stream \"{stream}\" can change; contexts and filters stay, because spent \
                 budget is counted by them; create a new stream for others"
            ),
            Self::NothingToApprove(stream) => write!(
                out,
                "no change of stream \"{stream}\" waits for this principal's approval; another officer must propose \
                 one first with: sage stream change FILE"
            ),
            Self::ProposalChanged(stream) => write!(
                out,
                "the waiting proposal for stream \"{stream}\" has another digest than the one approved; read it \
                 again with: sage stream approve {stream}"
            ),
            Self::Suspended { principal, stream } => write!(
                out,
                "the roles of \"{principal}\" on stream \"{stream}\" are suspended; an officer can reinstate them with: \
                 sage stream reinstate {stream} {principal}"
            ),
            Self::NoQuarantine(file) => write!(
                out,
                "the stream has no file \"{file}\" of quarantined rows; list them with: sage quarantine STREAM"
            ),
            Self::Suspension { member, why } => write!(out, "\"{member}\" {why}; nothing changed"),
            _ => self.fmt_of_runs(out),
        }
    }

    /// Messages about pipelines, runs and releases.
    fn fmt_of_runs(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PipelineFile(error) => error.fmt(out),
            Self::Plan(refusal) => refusal.fmt(out),
            Self::AttestedNotAllowed(stream) => write!(
                out,
                "stream \"{stream}\" admits no programs of its users; two officers can allow them with: access_modes = \
                 [\"enforced\", \"attested\"] in its file, and: sage stream change FILE"
            ),
            Self::NameTaken(name) => write!(
                out,
                "the name \"{name}\" belongs to a pipeline of another stream, and so do its releases; give this pipeline \
                 another `name`"
            ),
            Self::NoRun(run) => write!(out, "there is no run {run}; list them with: sage runs"),
            Self::RunOver(run) => write!(out, "run {run} has ended; see how with: sage explain {run}"),
            Self::NoRelease(name) => write!(out, "there is no release \"{name}\"; list them with: sage models list"),
            Self::OtherLabel(name) => write!(
                out,
                "release \"{name}\" cannot be the baseline: it predicts another label, or was trained on another stream"
            ),
            Self::Withdrawn(name, reason) => {
                write!(out, "release \"{name}\" was withdrawn: {reason}; other versions: sage models list")
            }
            Self::Alias(alias) => write!(
                out,
                "\"{alias}\" cannot name a version: use letters, digits and -, at most 64 of them, no number alone and \
                 not \"latest\""
            ),
            Self::ArtifactStore(error) => error.fmt(out),
            Self::Predict(error) => error.fmt(out),
            _ => out.write_str("the request failed"),
        }
    }
}

/// The message of a query that failed after its charge.
fn fmt_charged(out: &mut fmt::Formatter<'_>, charge: u64, cause: &EngineError) -> fmt::Result {
    let cause = cause.to_string();
    let cause = cause.strip_suffix("; the charge stands").unwrap_or(&cause);
    write!(
        out,
        "{cause}; the charge stands (event {charge} of the log), and repeating the query is charged again: find the cause \
         first, for example with: sage doctor"
    )
}

impl std::error::Error for EngineError {}

/// Conversions from the errors of the parts.
macro_rules! from {
    ($($error:ty => $kind:ident),* $(,)?) => {
        $(impl From<$error> for EngineError {
            fn from(error: $error) -> Self {
                Self::$kind(error)
            }
        })*
    };
}

from! {
    BackupError => Backup,
    OpenError => Open,
    HeadsError => Heads,
    GateError => Gate,
    StreamFileError => StreamFile,
    ForbiddenChange => Change,
    MemberRefusal => Members,
    StoreError => Store,
    IngestError => Ingest,
    QueryRefusal => Query,
    PrivateQueryRefusal => Question,
    ReadError => Read,
    NoiseError => Noise,
    ArtifactStoreError => ArtifactStore,
    PredictError => Predict,
}
