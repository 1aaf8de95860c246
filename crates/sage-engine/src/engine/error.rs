//! Why the engine did not do what it was asked, and who asked.

use std::fmt::{self, Display as _};

use sage_kernel::noise::NoiseError;
use sage_kernel::{BlocksError, CostError, GateError, GrantState, Refusal, SessionError};
use sage_learn::bundle::PredictError;

use crate::backup::BackupError;
use crate::blocks::{KeyError, StoreError};
use crate::ingest::IngestError;
use crate::log::{HeadsError, OpenError};
use crate::pipeline::PipelineFileError;
use crate::plan::PlanRefusal;
use crate::query::PrivateQueryRefusal;
use crate::read::{QueryRefusal, ReadError};
use crate::release::ShelfError;
use crate::stream::{MemberRefusal, Refused, Role, StreamFileError};

/// Who asks, by the name that stream files use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Principal(String);

impl Principal {
    /// Somebody with this name; nothing if it is empty.
    pub fn named(name: &str) -> Option<Self> {
        (!name.trim().is_empty()).then(|| Self(name.trim().to_owned()))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// Why the engine did not do what it was asked. Nothing was granted or changed then, unless it says so.
#[derive(Debug)]
#[non_exhaustive]
pub enum EngineError {
    /// The directory cannot be opened.
    Open(OpenError),
    /// The heads of the log could not be compared or exported.
    Heads(HeadsError),
    /// The log failed, or is not what was written.
    Gate(GateError),
    /// A note of the log breaks the rules.
    Catalog {
        /// Its number.
        number: u64,
    },
    /// The directory was restored, and its fence stands.
    Fenced,
    /// A backup cannot be made or is not what was made.
    Backup(BackupError),
    /// The stream's file cannot be meant.
    StreamFile(StreamFileError),
    /// A stream's file may not change like this.
    Change(Refused),
    /// There is no such stream.
    NoStream(String),
    /// There is such a stream already, and its file says something else.
    StreamExists(String),
    /// The stream's file does not give this principal the role.
    NotInRole {
        /// Who asked.
        principal: String,
        /// What they would have to be.
        role: Role,
        /// To which stream.
        stream: String,
    },
    /// The policy has other contexts or other rules than the one in force.
    OtherPolicy(String),
    /// Nobody has proposed another policy, or the one who did is the one who agrees.
    NothingToApprove(String),
    /// The digest that was approved is not that of the proposal that waits.
    ProposalChanged(String),
    /// The roles of this principal are suspended.
    Suspended {
        /// Who asked.
        principal: String,
        /// On which stream.
        stream: String,
    },
    /// A member cannot be suspended or reinstated.
    Suspension {
        /// Who.
        member: String,
        /// Why not.
        why: &'static str,
    },
    /// The stream has no such file of quarantined rows.
    NoQuarantine(String),
    /// The name of the pipeline belongs to another stream.
    NameTaken(String),
    /// The stream has no such block.
    NoBlock(String),
    /// No block is named.
    Blocks(BlocksError),
    /// The block is not in the stage that this needs.
    Stage {
        /// The block.
        block: String,
        /// What it would have to be.
        needed: &'static str,
    },
    /// Somebody may not spend in a context, or contexts may not have these members.
    Members(MemberRefusal),
    /// The master key of encrypted blocks cannot be used.
    Key(KeyError),
    /// The block store failed.
    Store(StoreError),
    /// A batch could not be taken in; none of it was.
    Ingest(IngestError),
    /// The ledger said no.
    Refused(Refusal),
    /// The same request has been served before: it has gone this far and cannot be run again.
    Served(GrantState),
    /// The query is not row by row.
    Query(QueryRefusal),
    /// A question cannot be answered privately.
    Question(PrivateQueryRefusal),
    /// A question went wrong on the way; its charge stands.
    Unanswered(String),
    /// A query failed after it was charged, or was charged before and never answered. The charge stands.
    ChargedButFailed {
        /// The number of the charge in the log.
        charge: u64,
        /// What went wrong.
        cause: Box<EngineError>,
    },
    /// The key was used for another question.
    OtherQuestion(String),
    /// Granted blocks could not be read. The charge stands.
    Read(ReadError),
    /// A cost cannot be meant.
    Cost(CostError),
    /// A mechanism did not run. The charge stands.
    Session(SessionError),
    /// There is no randomness to be had.
    Noise(NoiseError),
    /// The secret of a stream of users is gone, or is another one.
    Secret(String),
    /// A file of the directory that is not the log could not be used.
    File(String, std::io::Error),
    /// The file of a pipeline cannot be meant.
    PipelineFile(PipelineFileError),
    /// A pipeline does not fit its stream.
    Plan(PlanRefusal),
    /// The stream admits what the kernel does itself, and nothing else.
    Door(String),
    /// There is no such run.
    NoRun(u64),
    /// The run is over.
    RunOver(u64),
    /// There is no such release.
    NoRelease(String),
    /// The release to be beaten predicts something else, or learned from another stream.
    OtherLabel(String),
    /// The release is no longer offered.
    Withdrawn(String, String),
    /// This cannot be the name of a version.
    Alias(String),
    /// A release cannot be read.
    Shelf(ShelfError),
    /// A model does not run.
    Predict(PredictError),
}

/// Why a key is refused that was used before.
const OTHER_QUESTION: &str = "was used for another question: in other words, at another cost, of other blocks or on \
                              another account; use a new key for a new question";

impl fmt::Display for EngineError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Open(error) => error.fmt(out),
            Self::Heads(error) => error.fmt(out),
            Self::Gate(error) => error.fmt(out),
            Self::Catalog { number } => write!(
                out,
                "note {number} of the log breaks the rules of the catalog; use the release that wrote it, or compare \
                 the log with a copy"
            ),
            Self::Fenced => write!(
                out,
                "the directory was restored from a backup; an officer answers for it with: sage restore --acknowledge"
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
                "this request was served before, and a second run would be a second query; ask anew with another key"
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
                "{file} is not the secret by which this stream's users were sent to lanes; put it back from a copy: with \
                 another, users would fall into both lanes"
            ),
            Self::File(name, error) => write!(out, "{name}: {error}"),
            _ => self.fmt_of_streams(out),
        }
    }
}

impl EngineError {
    /// What went wrong with a stream or the people of one.
    fn fmt_of_streams(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoStream(name) => {
                write!(out, "there is no stream \"{name}\"; create it from its file with: sage stream create FILE")
            }
            Self::StreamExists(name) => write!(
                out,
                "there is a stream \"{name}\" already and its file says something else; to change it use: sage stream \
                 change FILE"
            ),
            Self::NotInRole { principal, role, stream } => write!(
                out,
                "\"{principal}\" is no {role} of stream \"{stream}\"; the [access] section of the stream's file says \
                 who is"
            ),
            Self::OtherPolicy(stream) => write!(
                out,
                "only the ceilings and doors of stream \"{stream}\" can change; contexts and filters stay, because what \
                 was spent is counted by them; create a new stream for others"
            ),
            Self::NothingToApprove(stream) => write!(
                out,
                "no policy of stream \"{stream}\" waits for this principal's agreement; another officer has to propose \
                 one first with: sage stream change FILE"
            ),
            Self::ProposalChanged(stream) => write!(
                out,
                "the proposal for stream \"{stream}\" that waits has another digest than the one approved; read it \
                 again with: sage stream approve {stream}"
            ),
            Self::Suspended { principal, stream } => write!(
                out,
                "the roles of \"{principal}\" on stream \"{stream}\" are suspended; an officer can give them back with: \
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

    /// What went wrong with a pipeline, a run or a release.
    fn fmt_of_runs(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::PipelineFile(error) => error.fmt(out),
            Self::Plan(refusal) => refusal.fmt(out),
            Self::Door(stream) => write!(
                out,
                "stream \"{stream}\" admits no programs of its users; two officers can open that door with: doors = \
                 [\"enforced\", \"declared\"] in its file, and: sage stream change FILE"
            ),
            Self::NameTaken(name) => write!(
                out,
                "the name \"{name}\" belongs to a pipeline of another stream, and so do its releases; give this pipeline \
                 another `name`"
            ),
            Self::NoRun(run) => write!(out, "there is no run {run}; list them with: sage runs"),
            Self::RunOver(run) => write!(out, "run {run} is over; see how it ended with: sage explain {run}"),
            Self::NoRelease(name) => write!(out, "there is no release \"{name}\"; list them with: sage models list"),
            Self::OtherLabel(name) => write!(
                out,
                "release \"{name}\" cannot be compared with: it predicts another label, or learned from another stream"
            ),
            Self::Withdrawn(name, reason) => {
                write!(out, "release \"{name}\" was withdrawn: {reason}; other versions: sage models list")
            }
            Self::Alias(alias) => write!(
                out,
                "\"{alias}\" cannot name a version: use letters, digits and -, at most 64 of them, no number alone and \
                 not \"latest\""
            ),
            Self::Shelf(error) => error.fmt(out),
            Self::Predict(error) => error.fmt(out),
            _ => out.write_str("this did not work"),
        }
    }
}

/// The message of a query that failed after its charge.
fn fmt_charged(out: &mut fmt::Formatter<'_>, charge: u64, cause: &EngineError) -> fmt::Result {
    let cause = cause.to_string();
    let cause = cause.strip_suffix("; the charge stands").unwrap_or(&cause);
    write!(
        out,
        "{cause}; the charge stands (event {charge} of the log), and asking again is charged again: find the cause \
         first, for example with: sage doctor"
    )
}

impl std::error::Error for EngineError {}

/// Errors of the parts become errors of the whole.
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
    Refused => Change,
    MemberRefusal => Members,
    StoreError => Store,
    IngestError => Ingest,
    QueryRefusal => Query,
    PrivateQueryRefusal => Question,
    ReadError => Read,
    NoiseError => Noise,
    ShelfError => Shelf,
    PredictError => Predict,
}
