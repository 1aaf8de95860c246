//! The flags of every command on a directory, and of commands that need a user.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use sage_engine::blocks::MasterKeySource;
use sage_engine::{Engine, EngineOptions, Principal};
use sage_server::directory::Directory;

use crate::failure::Failure;
use crate::operator::OperatorArgs;

/// The directory and its parts.
#[derive(Args, Clone, Debug)]
pub(crate) struct DirectoryArgs {
    /// The directory that holds the log and the blocks
    #[arg(long, value_name = "DIR", env = "SAGE_DIR", default_value = "sage-data")]
    pub(crate) dir: PathBuf,

    /// A file, best on another machine, that detects a rollback of the directory to an old copy; can be repeated
    #[arg(long = "heads", value_name = "FILE", env = "SAGE_HEADS", value_delimiter = ',')]
    pub(crate) heads: Vec<PathBuf>,

    /// Where blocks are stored, if not in the directory: another directory, or s3://bucket/folder
    #[arg(long, value_name = "ADDRESS", env = "SAGE_BLOCKS")]
    pub(crate) blocks: Option<String>,

    /// Encrypt blocks, summaries and quarantined rows under the master key in this file: 32 bytes, or 64 hexadecimal
    /// digits
    #[arg(long, value_name = "FILE", env = "SAGE_KEY_FILE")]
    key_file: Option<PathBuf>,

    /// The same, with the master key that this shell command prints
    #[arg(long, value_name = "COMMAND", env = "SAGE_KEY_COMMAND", conflicts_with = "key_file")]
    key_command: Option<String>,

    /// The operator's limits, for commands that perform attempts.
    #[arg(skip)]
    operator: OperatorArgs,

    /// The shortest disclosure interval, for the server.
    #[arg(skip)]
    interval: Option<Duration>,
}

/// The user.
#[derive(Args, Clone, Debug, Default)]
pub(crate) struct UserArgs {
    /// Your name, as in the stream files
    #[arg(long = "as", value_name = "NAME", env = "SAGE_PRINCIPAL")]
    pub(crate) name: Option<String>,
}

impl DirectoryArgs {
    pub(crate) fn options(&self) -> EngineOptions {
        let file = self.key_file.clone().map(MasterKeySource::File);
        let master_key = file.or_else(|| self.key_command.clone().map(MasterKeySource::Command));
        let (heads, blocks) = (self.heads.clone(), self.blocks.clone());
        self.operator.apply(EngineOptions {
            heads,
            blocks,
            master_key,
            interval: self.interval,
            ..EngineOptions::default()
        })
    }

    /// The same directory with the limits of the operator.
    pub(crate) fn under(&self, operator: &OperatorArgs) -> Self {
        Self { operator: operator.clone(), ..self.clone() }
    }

    /// The same directory with this shortest disclosure interval.
    pub(crate) fn with_interval(self, interval: Duration) -> Self {
        Self { interval: Some(interval), ..self }
    }

    /// The directory with its options.
    pub(crate) fn directory(&self) -> Directory {
        Directory { path: self.dir.clone(), options: self.options() }
    }

    /// Opens an existing directory.
    pub(crate) fn open(&self) -> Result<Engine, Failure> {
        Ok(self.directory().open()?)
    }

    /// Opens an existing directory; `None` while another process has it open.
    pub(crate) fn open_if_free(&self) -> Result<Option<Engine>, Failure> {
        Ok(self.directory().open_if_free()?)
    }

    /// Refuses a path without a log.
    pub(crate) fn check_exists(&self) -> Result<(), Failure> {
        Ok(self.directory().check_exists()?)
    }

    /// Opens the directory and creates it if it is new.
    pub(crate) fn open_or_create(&self) -> Result<Engine, Failure> {
        Ok(self.directory().open_or_create()?)
    }
}

impl UserArgs {
    /// The principal: as given, or the user of the machine.
    pub(crate) fn principal(&self) -> Result<Principal, Failure> {
        let user = || std::env::var("USER").ok();
        let name = self.name.clone().or_else(user).unwrap_or_default();
        Principal::named(&name)
            .ok_or_else(|| Failure::usage("this command needs a user, and none is set", "name one with --as NAME"))
    }
}
