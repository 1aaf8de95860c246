//! `sage plan`: what would happen to a pipeline if it were submitted now. It costs nothing.

use std::io::Read;
use std::path::{Path, PathBuf};

use clap::Args;
use sage_server::format::{blocks, rounded_up};
use sage_server::views::plan::{ForecastLine, Plan};

use crate::client::{self, PipelineRequest, Target};
use crate::directory::{DirectoryArgs, UserArgs};
use crate::failure::Failure;
use crate::operator::OperatorArgs;
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage plan duration.toml --as mia
  sage plan duration.toml --json

The file is checked against its stream as if it were submitted. Nothing is charged and no row is read.";

#[derive(Args, Debug)]
pub(crate) struct PlanArgs {
    /// The pipeline's file; `-` for standard input
    file: PathBuf,
    #[command(flatten)]
    user: UserArgs,
    #[command(flatten)]
    operator: OperatorArgs,
    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &PlanArgs, target: Option<&Target>) -> Result<(), Failure> {
    let request = pipeline_request(&args.file)?;
    let plan = client::open(target, &args.directory.under(&args.operator), Some(&args.user))?.plan(&request)?;
    if args.json { print_json(&plan) } else { print(&described(&plan)) }
}

/// The pipeline of a file, or of standard input.
pub(crate) fn pipeline_request(file: &Path) -> Result<PipelineRequest, Failure> {
    Ok(PipelineRequest { file: file.to_owned(), text: text_of(file)? })
}

/// The text of a pipeline's file.
fn text_of(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    let read = match file.as_os_str() == "-" {
        true => std::io::stdin().read_to_string(&mut text).map(|_| text),
        false => std::fs::read_to_string(file),
    };
    read.map_err(|error| {
        let message = format!("{}: {error}", file.display());
        Failure::usage(message, "give a pipeline's TOML file; docs/reference/pipeline-file.md describes it")
    })
}

fn described(plan: &Plan) -> String {
    let (window, eligible) = (plan.first_attempt.blocks, plan.blocks_that_admit_it);
    let now = match plan.starts_now {
        true => format!("now: {} of the stream admit it", blocks(eligible)),
        false => format!(
            "not yet: it waits until {} admit it, and {eligible} {} now",
            blocks(window),
            if eligible == 1 { "does" } else { "do" }
        ),
    };
    let forecast: String = plan.forecast.iter().map(forecast_line).collect();
    let warnings: String = plan.warnings.iter().map(|warning| format!("  warning   {warning}\n")).collect();
    format!(
        "{} on stream {}; nothing is charged by looking\n  \
         first     reads {} and loses at most epsilon {} on each of them\n  \
         worst     an attempt loses at most epsilon {} on each block it reads\n  \
         starts    {now}\n  \
         left      {} more such first attempts fit on the newest {}\n{forecast}{warnings}",
        plan.pipeline,
        plan.stream,
        blocks(window),
        rounded_up(plan.first_attempt.epsilon.to_f64()),
        rounded_up(plan.costliest_attempt.epsilon.to_f64()),
        plan.runs_left,
        blocks(window),
    )
}

fn forecast_line(line: &ForecastLine) -> String {
    let epsilon = rounded_up(line.epsilon.to_f64());
    match line.blocks {
        Some(enough) => format!("  forecast  at epsilon {epsilon} about {} are likely to be enough\n", blocks(enough)),
        None => {
            format!("  forecast  at epsilon {epsilon} no number of blocks within its limits is likely to be enough\n")
        }
    }
}
