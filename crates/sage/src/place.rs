//! Which directory a command works on, and for whom.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use sage_engine::backup::BackupError;
use sage_engine::log::OpenError;
use sage_engine::plan::PlanRefusal;
use sage_engine::stream::MemberRefusal;
use sage_engine::{Engine, EngineError, MasterKeySource, Opened, Places, Principal};

use crate::failure::Failure;
use crate::operator::OperatorArgs;

/// Where everything is.
#[derive(Args, Clone, Debug)]
pub(crate) struct PlaceArgs {
    /// The directory that holds the log and the blocks
    #[arg(long, value_name = "DIR", env = "SAGE_DIR", default_value = "sage-data")]
    pub(crate) dir: PathBuf,

    /// A file, best on another machine, that shows whether the directory was put back from an old copy; repeats
    #[arg(long = "heads", value_name = "FILE", env = "SAGE_HEADS", value_delimiter = ',')]
    pub(crate) heads: Vec<PathBuf>,

    /// Where blocks are kept, if not in the directory: another one, or s3://bucket/folder
    #[arg(long, value_name = "ADDRESS", env = "SAGE_BLOCKS")]
    pub(crate) blocks: Option<String>,

    /// Encrypt blocks, summaries and quarantined rows under the master key in this file: 32 bytes, or 64 hexadecimal
    /// digits
    #[arg(long, value_name = "FILE", env = "SAGE_KEY_FILE")]
    key_file: Option<PathBuf>,

    /// The same, with the master key that this shell command prints
    #[arg(long, value_name = "COMMAND", env = "SAGE_KEY_COMMAND", conflicts_with = "key_file")]
    key_command: Option<String>,

    /// What the operator says, at commands that perform attempts.
    #[arg(skip)]
    operator: OperatorArgs,

    /// The least disclosure interval, at the server.
    #[arg(skip)]
    interval: Option<Duration>,
}

/// Who asks.
#[derive(Args, Debug)]
pub(crate) struct WhoArgs {
    /// The name under which stream files know you
    #[arg(long = "as", value_name = "NAME", env = "SAGE_PRINCIPAL")]
    pub(crate) name: Option<String>,
}

impl PlaceArgs {
    pub(crate) fn places(&self) -> Places {
        let file = self.key_file.clone().map(MasterKeySource::File);
        let master_key = file.or_else(|| self.key_command.clone().map(MasterKeySource::Command));
        let (heads, blocks) = (self.heads.clone(), self.blocks.clone());
        self.operator.over(Places { heads, blocks, master_key, interval: self.interval, ..Places::default() })
    }

    /// The same directory, for a command at which the operator has a say.
    pub(crate) fn under(&self, operator: &OperatorArgs) -> Self {
        Self { operator: operator.clone(), ..self.clone() }
    }

    /// The same directory with this least disclosure interval.
    pub(crate) fn with_interval(self, interval: Duration) -> Self {
        Self { interval: Some(interval), ..self }
    }

    /// Opens a directory that is there.
    pub(crate) fn open(&self) -> Result<Engine, Failure> {
        self.is_there()?;
        self.open_or_make()
    }

    /// Opens a directory that is there; nothing while another process has it.
    pub(crate) fn open_if_free(&self) -> Result<Option<Engine>, Failure> {
        self.is_there()?;
        match Engine::open(&self.dir, &self.places()) {
            Err(EngineError::Open(OpenError::InUse(_))) => Ok(None),
            opened => ready(opened?).map(Some),
        }
    }

    /// Refuses where there is no directory of sage.
    pub(crate) fn is_there(&self) -> Result<(), Failure> {
        if !self.dir.join("log.db").exists() {
            return Err(Failure::Engine {
                message: format!(
                    "{} is no directory of sage; name it with --dir, or make it by creating a stream: sage stream create FILE",
                    self.dir.display()
                ),
                code: 14,
            });
        }
        Ok(())
    }

    /// Opens the directory, making it if it is new. Whoever has it may be about to give it back.
    pub(crate) fn open_or_make(&self) -> Result<Engine, Failure> {
        let began = Instant::now();
        loop {
            match Engine::open(&self.dir, &self.places()) {
                Err(EngineError::Open(OpenError::InUse(_))) if began.elapsed() < PATIENCE => {
                    sleep(Duration::from_millis(50));
                }
                opened => return ready(opened?),
            }
        }
    }
}

/// How long a command waits for a directory that another process has.
const PATIENCE: Duration = Duration::from_secs(3);

fn ready(opened: Opened) -> Result<Engine, Failure> {
    match opened {
        Opened::Ready(engine) => Ok(*engine),
        Opened::Fenced(log) => {
            let (present, known) = log.heads();
            if log.is_restored() {
                return Err(Failure::no_answer(
                    format!(
                        "the directory was restored from a backup, whose log ends at event {}, and what was spent since \
                         is forgotten; nothing is granted",
                        present.length
                    ),
                    "let an officer say that the original is out of service: sage restore --acknowledge --nothing-since \
                     --as NAME",
                ));
            }
            let gone = known.map_or(present.length, |known| known.head.length);
            Err(Failure::no_answer(
                format!(
                    "the log ends at event {} and an exported head shows that it had gone to event {gone}: the directory \
                     was put back from a copy, and what was spent since is forgotten; nothing is granted",
                    present.length
                ),
                "put the newest log back, or let an officer answer for it: sage doctor --acknowledge --as NAME",
            ))
        }
    }
}

impl WhoArgs {
    /// The principal: as given, or the user of the machine.
    pub(crate) fn principal(&self) -> Result<Principal, Failure> {
        let user = || std::env::var("USER").ok();
        let name = self.name.clone().or_else(user).unwrap_or_default();
        Principal::named(&name).ok_or_else(|| Failure::usage("it is not known who asks", "say so with --as NAME"))
    }
}

impl From<EngineError> for Failure {
    fn from(error: EngineError) -> Self {
        let code = match &error {
            EngineError::Refused(_) => 12,
            EngineError::NotInRole { .. } | EngineError::Suspended { .. } | EngineError::Door(_) => 13,
            EngineError::Backup(BackupError::NotEmpty(_)) => 2,
            EngineError::Backup(BackupError::NoBackup(_)) => 14,
            EngineError::NoStream(_) | EngineError::NoBlock(_) | EngineError::NoQuarantine(_) => 14,
            EngineError::Members(refusal) => match refusal {
                MemberRefusal::UnknownContext(_) => 14,
                MemberRefusal::Ambiguous { .. } => 2,
                MemberRefusal::NotMember { .. } => 13,
                _ => 1,
            },
            EngineError::NoRun(_) | EngineError::NoRelease(_) | EngineError::Withdrawn(..) => 14,
            EngineError::ChargedButFailed { .. } => 15,
            EngineError::Alias(_) | EngineError::OtherQuestion(_) => 2,
            EngineError::Plan(PlanRefusal::Part { part, .. }) if part == "budget" => 12,
            _ => 1,
        };
        Self::Engine { message: error.to_string(), code }
    }
}
