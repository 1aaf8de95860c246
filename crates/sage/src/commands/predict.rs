//! `sage predict`: predictions of a released model for the user's rows.
//!
//! Predictions are post-processing of a release: they cost nothing and read no stream.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sage_engine::serve::{Column, RowFormat, allowed};
use sage_server::views::releases::{
    ClassPrediction, ColumnDomain, ModelColumns, ModelPredictions, Prediction, full_name,
};

use crate::client::{self, LocalClient, PredictRequest, Target};
use crate::directory::DirectoryArgs;
use crate::failure::Failure;
use crate::output::{print, print_json};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage predict taxi-duration rides.csv
  sage predict taxi-duration@champion rides.ndjson --json
  echo '{\"distance\": 2.5, \"pickup\": \"2026-11-01T08:15:00\"}' | sage predict taxi-duration
  sage predict taxi-duration --columns

Rows are a CSV with a header, or a JSON object on each line; columns go by their names, in any order, and those
that the model does not use are passed over. A time is ISO text (UTC) or seconds from 1970. One line is printed
for each row; of a model that predicts classes the most probable class, then the probability of each. It costs
nothing: the model is public.";

/// The format of rows.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum FormatName {
    Csv,
    Ndjson,
}

#[derive(Args, Debug)]
pub(crate) struct PredictArgs {
    /// The model
    #[arg(value_name = "NAME[@VERSION]")]
    model: String,

    /// The rows; `-` for standard input
    #[arg(value_name = "FILE", default_value = "-")]
    file: PathBuf,

    /// The format of the rows [default: by the first character]
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatName>,

    /// List the columns that the model needs, and predict nothing
    #[arg(long)]
    columns: bool,

    #[command(flatten)]
    directory: DirectoryArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

impl PredictArgs {
    /// Whether only a directory can do this.
    pub(crate) const fn is_local(&self) -> bool {
        self.columns
    }

    pub(crate) fn request(&self) -> PredictRequest {
        let format = self.format.map(|name| match name {
            FormatName::Csv => RowFormat::Csv,
            FormatName::Ndjson => RowFormat::Ndjson,
        });
        let file = (self.file.as_os_str() != "-").then(|| self.file.clone());
        PredictRequest { model: self.model.clone(), file, format }
    }
}

pub(crate) fn run(args: &PredictArgs, target: Option<&Target>) -> Result<(), Failure> {
    if args.columns {
        return columns(args);
    }
    let client = client::open(target, &args.directory, None)?;
    if args.json {
        let mut predictions = Vec::new();
        let model = client.predict(&args.request(), &mut |more| {
            predictions.extend(more);
            Ok(())
        })?;
        return print_json(&ModelPredictions { model, predictions });
    }
    client.predict(&args.request(), &mut |more| print(&more.iter().map(line).collect::<String>()))?;
    Ok(())
}

/// A prediction as a line of text.
fn line(prediction: &Prediction) -> String {
    let number = |number: &Option<f64>| number.map_or_else(|| "NaN".to_owned(), |number| number.to_string());
    match prediction {
        Prediction::One(one) => format!("{}\n", number(one)),
        Prediction::Class(ClassPrediction { label, probabilities }) => {
            let part = |(class, chance): (&String, &Option<f64>)| format!(",{class}={}", number(chance));
            let label = label.as_deref().unwrap_or("NaN");
            format!("{label}{}\n", probabilities.iter().map(part).collect::<String>())
        }
        Prediction::Several(several) => format!("{}\n", several.iter().map(number).collect::<Vec<_>>().join(",")),
    }
}

/// Prints the columns that the model needs.
fn columns(args: &PredictArgs) -> Result<(), Failure> {
    let client = LocalClient::open(&args.directory, None)?;
    let release = client.release_view(&args.model)?;
    let predictor = client.engine().predictor(&release)?;
    let columns = predictor.columns().iter();
    if args.json {
        let domain = |column: &Column| ColumnDomain { column: column.name.clone(), allowed: allowed(column) };
        return print_json(&ModelColumns { model: full_name(&release), columns: columns.map(domain).collect() });
    }
    print(&columns.map(|column| format!("{}: {}\n", column.name, allowed(column))).collect::<String>())
}
