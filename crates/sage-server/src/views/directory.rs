//! The results of commands on a directory that have no route: `doctor`, `backup`, `restore`, `migrate`, `logs`, `work`,
//! `generate` and `login`.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The result of `sage doctor`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Diagnosis {
    /// The number of events that were verified.
    pub events_verified: u64,
    /// Whether a log head was ever exported.
    pub head_exported: bool,
    /// The differences between the directory and its log.
    pub findings: Vec<String>,
}

/// The result of `sage backup`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BackupResult {
    /// The folder of the backup.
    pub folder: PathBuf,
    /// The number of events in it.
    pub events: u64,
    /// The hash of the last event.
    pub head: String,
    /// The number of files.
    pub files: u64,
}

/// The result of `sage restore`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestoreResult {
    /// The restored directory.
    pub directory: PathBuf,
    /// The number of events in it.
    pub events: u64,
    /// The number of files.
    pub files: u64,
    /// Always `true`: the directory grants nothing until an officer has acknowledged it.
    pub fenced: bool,
    /// Whether the tokens of the backup stay valid.
    pub tokens_kept: bool,
}

/// The result of `sage restore --acknowledge`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Acknowledgement {
    /// What was done, in words.
    pub said: String,
}

/// The result of `sage migrate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FormatReport {
    /// The format of the directory.
    pub format: i32,
    /// The format that this release reads and writes.
    pub format_of_this_release: i32,
    /// Whether this release can use the directory.
    pub usable: bool,
}

/// The result of `sage logs`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunLog {
    /// The number of the run.
    pub run: u64,
    /// The events of the run, oldest first.
    pub steps: Vec<RunStep>,
    /// The output of the user's program, for the user who submitted it alone.
    pub printed: Vec<ProgramOutput>,
}

/// An event of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RunStep {
    /// Its number in the log.
    pub number: u64,
    /// When it happened.
    pub time: String,
    /// What kind of event it is.
    pub kind: String,
    /// Its details.
    pub detail: Option<String>,
}

/// What a user's program printed in one attempt.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ProgramOutput {
    /// The number of the attempt.
    pub attempt: u64,
    /// The end of its output.
    pub text: String,
}

/// The result of `sage work`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WorkResult {
    /// The number of attempts that this process performed.
    pub attempts_performed: u64,
    /// The number of runs that wait.
    pub runs_waiting: u64,
}

/// The result of `sage generate`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct GeneratedFiles {
    /// The number of rows.
    pub rows: u64,
    /// The seed.
    pub seed: u64,
    /// The size of all files.
    pub bytes: u64,
    /// The files.
    pub files: Vec<String>,
}

/// The result of `sage login`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LoginResult {
    /// The address of the server.
    pub server: String,
}

/// A setting, as `sage settings` lists it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SettingValue {
    /// Its name.
    pub setting: String,
    /// Its value.
    pub value: String,
    /// Where the value comes from.
    pub origin: String,
}
