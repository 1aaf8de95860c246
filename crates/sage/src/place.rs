//! Which directory a command works on, and for whom.

use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use clap::Args;
use sage_engine::backup::BackupError;
use sage_engine::log::OpenError;
use sage_engine::plan::PlanRefusal;
use sage_engine::{Engine, EngineError, Opened, Places, Principal};

use crate::failure::Failure;

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

    /// A folder that programs of pipelines are shown, read-only; repeats
    #[arg(long = "show", value_name = "FOLDER", env = "SAGE_SHOW", value_delimiter = ',', hide = true)]
    pub(crate) shown: Vec<PathBuf>,
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
        let (heads, blocks, shown) = (self.heads.clone(), self.blocks.clone(), self.shown.clone());
        Places { heads, blocks, shown, ..Places::default() }
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
            Err(EngineError::Open(OpenError::Held(_))) => Ok(None),
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
                Err(EngineError::Open(OpenError::Held(_))) if began.elapsed() < PATIENCE => {
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
        Opened::PutBack(log) => {
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
            EngineError::NotInRole { .. } | EngineError::Door(_) => 13,
            EngineError::Backup(BackupError::NotEmpty(_)) => 2,
            EngineError::Backup(BackupError::NoBackup(_)) => 14,
            EngineError::NoStream(_) | EngineError::NoBlock(_) | EngineError::NoContext(_) => 14,
            EngineError::NoRun(_) | EngineError::NoRelease(_) | EngineError::Withdrawn(..) => 14,
            EngineError::Alias(_) | EngineError::OtherQuestion(_) => 2,
            EngineError::Plan(PlanRefusal::Part { part, .. }) if part == "budget" => 12,
            _ => 1,
        };
        Self::Engine { message: error.to_string(), code }
    }
}
