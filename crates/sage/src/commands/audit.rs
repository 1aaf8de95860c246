//! `sage audit`: reading and verifying the log, and attacks on the learners with synthetic rows.

use clap::{Args, Subcommand, ValueEnum};
use sage_engine::Ceiling;
use sage_engine::audit::{self, AuditError, OneRunReport, Verdict};
use sage_server::format::quoted;
use sage_server::views::audit::{CanaryAudit, OneRunAudit};

use crate::commands::audit_log::{self, ExportArgs, LogArgs, VerifyArgs};
use crate::failure::Failure;
use crate::fields::{LOSS_CEILING, STATED_DELTA};
use crate::output::{print, print_json};

/// The audits.
#[derive(Debug, Subcommand)]
pub(crate) enum AuditCommand {
    /// Many runs with and without a planted row, seen by an attacker who sees everything released
    Canary(CanaryArgs),
    /// One training with many planted rows, each included at random: quick, and a weaker bound
    OneRun(OneRunArgs),
    /// Print the events of the log
    Log(LogArgs),
    /// Verify the chain, the exported heads and every stored file; changes nothing
    Verify(VerifyArgs),
    /// Write what an auditor can check without this program: the log, releases, stream files and heads, but no rows
    Export(ExportArgs),
}

/// A built-in learner.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum Learner {
    /// A network by DP-SGD, every row in every step: the tightest
    Network,
    /// The same with sampled rows
    Sampled,
    /// Linear regression from noisy moments
    Linear,
}

#[derive(Args, Debug)]
pub(crate) struct CanaryArgs {
    /// The learner to attack
    #[arg(long, value_enum, value_name = "LEARNER")]
    learner: Learner,

    #[command(flatten)]
    claim: ClaimArgs,

    /// How many runs with the planted row, and as many without it
    #[arg(long, value_name = "NUMBER", default_value = "10000", allow_hyphen_values = true)]
    runs: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct OneRunArgs {
    #[command(flatten)]
    claim: ClaimArgs,

    /// How many planted rows
    #[arg(long, value_name = "NUMBER", default_value = "1000", allow_hyphen_values = true)]
    canaries: String,

    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The guarantee that the learner is configured for and checked against.
#[derive(Args, Debug)]
struct ClaimArgs {
    /// The epsilon that is claimed
    #[arg(long, value_name = "EPSILON", allow_hyphen_values = true)]
    epsilon: String,

    /// The delta that is claimed
    #[arg(long, value_name = "DELTA", allow_hyphen_values = true)]
    delta: String,
}

impl ClaimArgs {
    fn read(&self) -> Result<Ceiling, Failure> {
        Ok(Ceiling {
            epsilon: LOSS_CEILING.read_flag("--epsilon", "1", &self.epsilon)?,
            delta: STATED_DELTA.read_flag("--delta", "1e-6", &self.delta)?,
        })
    }
}

/// Runs the audit and prints what it found. A violation is a failure.
pub(crate) fn run(command: &AuditCommand) -> Result<(), Failure> {
    match command {
        AuditCommand::Canary(args) => canary(args),
        AuditCommand::OneRun(args) => one_run(args),
        AuditCommand::Log(args) => audit_log::log(args),
        AuditCommand::Verify(args) => audit_log::check(args),
        AuditCommand::Export(args) => audit_log::export(args),
    }
}

fn canary(args: &CanaryArgs) -> Result<(), Failure> {
    let learner = match args.learner {
        Learner::Network => audit::Learner::Network,
        Learner::Sampled => audit::Learner::SampledNetwork,
        Learner::Linear => audit::Learner::Linear,
    };
    let (claimed, runs) = (args.claim.read()?, whole("--runs", "10000", &args.runs)?);
    let report = audit::canary(learner, claimed, runs).map_err(not_run)?;
    if args.json {
        print_json(&CanaryAudit::from(&report))?;
    } else {
        print(&format!("{}\n", report.sentence))?;
    }
    match report.verdict {
        Verdict::Fine => Ok(()),
        Verdict::Violated => Err(Failure::no_answer(
            "the learner loses more than is claimed",
            "release nothing more from it; this is a fault of sage: please report it",
        )),
    }
}

fn one_run(args: &OneRunArgs) -> Result<(), Failure> {
    let (claimed, canaries) = (args.claim.read()?, whole("--canaries", "1000", &args.canaries)?);
    let report = audit::one_run(claimed, canaries).map_err(not_run)?;
    if args.json { print_json(&OneRunAudit::from(&report)) } else { print(&one_run_text(&report)) }
}

fn one_run_text(report: &OneRunReport) -> String {
    let OneRunReport { claimed, epsilon_lower, confidence, canaries, guesses, correct } = *report;
    format!(
        "Of {canaries} planted rows, each included in one training with probability 1/2, {guesses} were guessed and {correct} guesses \
         were right:\nepsilon is at least {epsilon_lower:.4} (confidence {:.0} %), where {} at delta {} is claimed.\n",
        100.0 * confidence,
        claimed.epsilon,
        claimed.delta
    )
}

fn whole(flag: &'static str, example: &str, text: &str) -> Result<u32, Failure> {
    text.replace('_', "").parse().map_err(|_| {
        Failure::usage(format!("{flag} must be a whole number, got {}", quoted(text)), format!("{flag} {example}"))
    })
}

fn not_run(error: AuditError) -> Failure {
    const EXAMPLE: &str = "sage audit canary --learner network --epsilon 1 --delta 1e-6 --runs 10000";
    match error {
        AuditError::Parameter(text) => Failure::usage(text, EXAMPLE),
        other => Failure::no_answer(format!("the audit stopped: {other}"), EXAMPLE),
    }
}
