//! The commands and their flags, with examples first.

use clap::{Args, Parser, Subcommand};

use crate::commands::audit::AuditCommand;
use crate::commands::backup::{self, BackupArgs, RestoreArgs};
use crate::commands::blocks::BlocksArgs;
use crate::commands::budget::{self, BudgetArgs};
use crate::commands::census::{self, CensusArgs};
use crate::commands::demo::{self, DemoArgs};
use crate::commands::doctor::DoctorArgs;
use crate::commands::explain::{self, ExplainArgs};
use crate::commands::ingest::IngestArgs;
use crate::commands::init::{self, InitArgs};
use crate::commands::login::{self, LoginArgs};
use crate::commands::logs::{self, LogsArgs};
use crate::commands::migrate::{self, MigrateArgs};
use crate::commands::models::{self, FeaturesCommand, ModelsCommand};
use crate::commands::plan::{self, PlanArgs};
use crate::commands::predict::{self, PredictArgs};
use crate::commands::quarantine::{self, QuarantineArgs};
use crate::commands::query::{self, QueryArgs};
use crate::commands::runs::{self, RunsArgs};
use crate::commands::serve::{self, ServeArgs};
use crate::commands::simulate::{self, SimulateArgs};
use crate::commands::stream::StreamCommand;
use crate::commands::submit::{self, CancelArgs, SubmitArgs};
use crate::commands::token::{self, TokenCommand};
use crate::commands::watch::{self, WatchArgs};
use crate::commands::work::{self, WorkArgs};
use crate::operator::ThreadArgs;
use crate::settings::{self, ConfigCommand};

const ROOT_EXAMPLES: &str = "\
Examples:
  sage demo
  sage init --from rides.csv
  sage plan taxi.toml
  sage submit taxi.toml --wait
  sage account --sampled-gaussian q=0.01,sigma=1,steps=1000 --delta 1e-6
  sage help exit-codes";

const ACCOUNT_EXAMPLES: &str = "\
Examples:
  What does a training run together with ten Gaussian and three Laplace releases cost?
    sage account --sampled-gaussian q=0.01,sigma=1,steps=1000 --gaussian sigma=50,count=10 \\
                 --laplace scale=10,count=3 --delta 1e-6

  How much noise does a training run need for epsilon 1?
    sage account --sampled-gaussian q=0.01,sigma=?,steps=1000 --delta 1e-6 --target-epsilon 1

  How many such queries fit on a block with a ceiling of epsilon 1, delta 1e-6?
    sage account --black-box epsilon=0.1,delta=1e-9 --policy 1,1e-6

The answers:
  epsilon_pld    by the distribution of the privacy loss: the tightest, for a list fixed beforehand.
                 Not available with --zcdp, which says nothing about that distribution.
  epsilon_rdp    by Renyi orders: each mechanism's curve is added up and the best order taken.
  epsilon_basic  by basic composition: each release is stated alone and the statements are added.
                 Laplace, pure and black-box releases count as they are; every other release takes an
                 even share of the delta that black boxes leave and counts with its own smallest
                 epsilon there. The steps of one --sampled-gaussian are one release.

All of them hold for adding or removing one row, and are rounded up. Noise is measured in
sensitivities: sigma=2 is a standard deviation of twice what one row can change. Sampled steps take
every row independently with probability q (Poisson sampling), not shuffled batches.";

const AUDIT_EXAMPLES: &str = "\
Examples:
  sage audit canary --learner network --epsilon 1 --delta 1e-6
  sage audit canary --learner linear --epsilon 4 --delta 1e-6 --runs 2000 --json
  sage audit one-run --epsilon 4 --delta 1e-6
  sage audit log --stream taxi --kind charged --since 2026-11-01
  sage audit verify --heads /elsewhere/head
  sage audit export for-the-auditor

canary and one-run attack a learner on synthetic rows and measure a lower bound of its loss. No stream is read. A
small bound proves nothing; a bound above the claimed epsilon proves a fault: exit code 1. log, verify and export read the
directory, also while a server works on it, and change nothing.";

const STREAM_EXAMPLES: &str = "\
Examples:
  sage stream create taxi.toml --as ada
  sage stream show taxi
  sage stream change taxi.toml --as ada
  sage stream approve taxi --as bob
  sage stream approve taxi --digest 7d3f... --as bob
  sage stream suspend taxi mia --reason \"left the team\" --as ada
  sage stream reinstate taxi mia --as ada

A stream file declares the columns with their bounds, how rows fall into blocks, the policy and the
roles. Loosening a policy and changing the officers take two officers; tightening takes one.";

const INGEST_EXAMPLES: &str = "\
Examples:
  sage ingest taxi rides.parquet --as dan
  sage ingest taxi ./month=11/ --batch-id 2026-11 --as dan
  cat rides.csv | sage ingest taxi - --format csv --batch-id today --as dan

A batch is ingested completely or not at all, and the same batch id again has no effect.";

const BLOCKS_EXAMPLES: &str = "\
Examples:
  sage blocks taxi
  sage blocks taxi --do seal --before 2026-11-01 --as dan
  sage blocks taxi --do retire --block day=2026-10-01 --as ada
  sage blocks taxi --do delete --before 2026-01-01 --as ada

A block can be charged once it is sealed. A retired block stays retired; only new blocks bring new budget.";

const DOCTOR_EXAMPLES: &str = "\
Examples:
  sage doctor
  sage doctor --repair
  sage doctor --acknowledge --as ada

Without --repair nothing is changed. --repair removes files that no event names and ends grants that no process uses.";

const COMPLETION_EXAMPLES: &str = "\
Examples:
  sage completion bash > ~/.local/share/bash-completion/completions/sage
  sage completion fish > ~/.config/fish/completions/sage.fish";

const GENERATE_EXAMPLES: &str = "\
Examples:
  A month of taxi rides, about 4,200 an hour:
    sage generate taxi --rows 3_000_000 --start 2026-01-01 --out rides

  A year of them:
    sage generate taxi --rows 37_000_000 --start 2026-01-01 --end 2027-01-01 --out rides

The same seed gives the same rows, whatever the number of files. About one ride in a thousand each has
no time, no passengers and payment, a negative duration, an absurd distance, or no price.";

/// Train models on streams of sensitive data under one lasting privacy ceiling.
#[derive(Debug, Parser)]
#[command(
    name = "sage",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = ROOT_EXAMPLES
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,

    /// Send the command to this server instead of opening a directory, where the command supports it
    #[arg(long, value_name = "ADDRESS", env = "SAGE_SERVER", global = true)]
    pub(crate) server: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// What a set of mechanisms costs, how much noise meets a target, how many fit
    #[command(after_help = ACCOUNT_EXAMPLES)]
    Account(Box<AccountArgs>),
    /// Read and verify the log; attack the learners with synthetic rows
    #[command(after_help = AUDIT_EXAMPLES)]
    Audit {
        #[command(subcommand)]
        command: AuditCommand,
    },
    /// A year of synthetic rides, five pipelines and a dashboard: what Sage does, in a minute
    #[command(after_help = demo::EXAMPLES)]
    Demo(DemoArgs),
    /// Create a directory with a stream file and a pipeline file to edit
    #[command(after_help = init::EXAMPLES)]
    Init(InitArgs),
    /// Streams and their policies: create, change, approve, suspend, show
    #[command(after_help = STREAM_EXAMPLES)]
    Stream {
        #[command(subcommand)]
        command: StreamCommand,
    },
    /// Ingest rows into a stream
    #[command(after_help = INGEST_EXAMPLES)]
    Ingest(IngestArgs),
    /// The blocks of a stream: list, seal, retire, delete
    #[command(after_help = BLOCKS_EXAMPLES)]
    Blocks(BlocksArgs),
    /// What a stream has lost, what is left, and how many more runs fit
    #[command(after_help = budget::EXAMPLES)]
    Budget(BudgetArgs),
    /// Quarantined rows: list, release, erase
    #[command(after_help = quarantine::EXAMPLES)]
    Quarantine(QuarantineArgs),
    /// The private counts of a stream's units, if its file declares a census
    #[command(after_help = census::EXAMPLES)]
    Census(CensusArgs),
    /// What would happen to a pipeline if it were submitted now; costs nothing
    #[command(after_help = plan::EXAMPLES)]
    Plan(PlanArgs),
    /// Submit a pipeline: attempts are made until it is accepted, rejected or at its limits
    #[command(after_help = submit::EXAMPLES)]
    Submit(SubmitArgs),
    /// Perform attempts until every run waits or has ended
    #[command(after_help = work::EXAMPLES)]
    Work(WorkArgs),
    /// Follow a run, or all of them, until the end
    #[command(after_help = watch::EXAMPLES)]
    Watch(WatchArgs),
    /// List runs and their status
    #[command(after_help = runs::EXAMPLES)]
    Runs(RunsArgs),
    /// Why a run ended as it did, or what it waits for, and what would help
    #[command(after_help = explain::EXAMPLES)]
    Explain(ExplainArgs),
    /// What a run did, step by step, and the output of its own code
    #[command(after_help = logs::EXAMPLES)]
    Logs(LogsArgs),
    /// Stop a run, or the recurrence of one that has ended; what it was charged stays charged
    Cancel(CancelArgs),
    /// Releases: list, show, pull, alias, withdraw
    #[command(after_help = models::EXAMPLES)]
    Models {
        #[command(subcommand)]
        command: ModelsCommand,
    },
    /// Released statistics, line by line
    #[command(after_help = models::FEATURE_EXAMPLES)]
    Features {
        #[command(subcommand)]
        command: FeaturesCommand,
    },
    /// Predict with a released model for rows of your own
    #[command(after_help = predict::EXAMPLES)]
    Predict(PredictArgs),
    /// Query the rows of a stream in private SQL
    #[command(after_help = query::EXAMPLES)]
    Query(Box<QueryArgs>),
    /// Serve the directory over HTTP and perform what is submitted
    #[command(after_help = serve::EXAMPLES)]
    Serve(ServeArgs),
    /// Tokens of the server: create, list, revoke
    #[command(after_help = token::EXAMPLES)]
    Token {
        #[command(subcommand)]
        command: TokenCommand,
    },
    /// The training loop under a simulated clock: release times, starvation, used-up blocks
    #[command(after_help = simulate::EXAMPLES)]
    Simulate(Box<SimulateArgs>),
    /// Verify the log and check the stored files against it
    #[command(after_help = DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// Copy everything, also while a server works on it
    #[command(after_help = backup::BACKUP_EXAMPLES)]
    Backup(BackupArgs),
    /// Create a directory from a backup; it grants nothing until an officer acknowledges it
    #[command(after_help = backup::RESTORE_EXAMPLES)]
    Restore(RestoreArgs),
    /// The format of the directory, and whether this release can use it
    #[command(after_help = migrate::EXAMPLES)]
    Migrate(MigrateArgs),
    /// Store a token for a server
    #[command(after_help = login::EXAMPLES)]
    Login(LoginArgs),
    /// Settings and where they come from
    #[command(after_help = settings::EXAMPLES)]
    Config {
        #[command(subcommand)]
        command: ConfigCommand,
    },
    /// A script that completes commands and flags: bash, zsh, fish, elvish, powershell
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completion(CompletionArgs),
    /// Synthetic rows as Parquet files, for trials without real data
    #[command(subcommand, after_help = GENERATE_EXAMPLES)]
    Generate(GenerateArgs),
    /// Help on a command, or on exit-codes
    Help {
        /// a command, or exit-codes
        topic: Option<String>,
    },
}

#[derive(Args, Debug)]
pub(crate) struct CompletionArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub(crate) struct AccountArgs {
    /// Poisson-sampled Gaussian steps (DP-SGD): q=0.01,sigma=1,steps=1000
    #[arg(long, value_name = "FIELDS", help_heading = "Mechanisms (repeat and combine)", allow_hyphen_values = true)]
    pub(crate) sampled_gaussian: Vec<String>,

    /// Gaussian releases: sigma=50[,count=10]
    #[arg(long, value_name = "FIELDS", help_heading = "Mechanisms (repeat and combine)", allow_hyphen_values = true)]
    pub(crate) gaussian: Vec<String>,

    /// Laplace releases, each losing epsilon = 1/scale: scale=10[,count=3]
    #[arg(long, value_name = "FIELDS", help_heading = "Mechanisms (repeat and combine)", allow_hyphen_values = true)]
    pub(crate) laplace: Vec<String>,

    /// Anything epsilon-differentially private: epsilon=0.1[,count=2]
    #[arg(long, value_name = "FIELDS", help_heading = "Mechanisms (repeat and combine)", allow_hyphen_values = true)]
    pub(crate) pure: Vec<String>,

    /// Anything (epsilon, delta)-differentially private: epsilon=0.1,delta=1e-9[,count=5]
    #[arg(long, value_name = "FIELDS", help_heading = "Mechanisms (repeat and combine)", allow_hyphen_values = true)]
    pub(crate) black_box: Vec<String>,

    /// Anything rho-zero-concentrated differentially private: rho=0.01[,count=2]
    #[arg(long, value_name = "FIELDS", help_heading = "Mechanisms (repeat and combine)", allow_hyphen_values = true)]
    pub(crate) zcdp: Vec<String>,

    /// The delta at which epsilon is stated [default with --policy: the policy's]
    #[arg(long, value_name = "DELTA", allow_hyphen_values = true)]
    pub(crate) delta: Option<String>,

    /// Find the noise of the one mechanism with sigma=? or scale=? that meets this epsilon
    #[arg(long, value_name = "EPSILON", allow_hyphen_values = true)]
    pub(crate) target_epsilon: Option<String>,

    /// Count how many of the whole set each filter admits under this ceiling
    #[arg(long, value_name = "EPSILON,DELTA", allow_hyphen_values = true)]
    pub(crate) policy: Option<String>,

    /// With --policy: where a filter counts (epsilon, delta), state the set at this delta [default: 1e-9]
    #[arg(long, value_name = "DELTA", allow_hyphen_values = true)]
    pub(crate) at_delta: Option<String>,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

/// What can be generated.
#[derive(Debug, Subcommand)]
pub(crate) enum GenerateArgs {
    /// Taxi rides: when, where, how far, how long, for how much, and the circumstances
    #[command(after_help = GENERATE_EXAMPLES)]
    Taxi(TaxiArgs),
}

#[derive(Args, Debug)]
pub(crate) struct TaxiArgs {
    /// How many rides
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub(crate) rows: String,

    /// The first day
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    pub(crate) start: String,

    /// The day after the last [default: so that there are about 4,200 rides an hour]
    #[arg(long, value_name = "DATE", allow_hyphen_values = true)]
    pub(crate) end: Option<String>,

    /// A folder, new or empty
    #[arg(long, value_name = "DIR")]
    pub(crate) out: String,

    /// The same seed gives the same rows
    #[arg(long, value_name = "NUMBER", default_value = "1", allow_hyphen_values = true)]
    pub(crate) seed: String,

    /// How many files [default: one for every 8 million rides, and two at least]
    #[arg(long, value_name = "NUMBER", allow_hyphen_values = true)]
    pub(crate) files: Option<String>,

    #[command(flatten)]
    pub(crate) threads: ThreadArgs,

    /// Print one JSON object
    #[arg(long)]
    pub(crate) json: bool,
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    #[test]
    fn no_two_flags_of_a_command_are_called_the_same() {
        super::Cli::command().debug_assert();
    }
}
