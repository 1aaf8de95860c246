//! `sage predict`: a released model is asked about rows of one's own.
//!
//! Predictions are further computation on what was released: they cost nothing and touch no stream.

use std::fs::File;
use std::io::Read;
use std::path::PathBuf;

use clap::{Args, ValueEnum};
use sage_engine::EngineError;
use sage_engine::serve::{RowError, RowFormat, RowReader, allowed};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::models::{full, named};
use crate::output::{print, print_json};
use crate::place::PlaceArgs;

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage predict taxi-duration rides.csv
  sage predict taxi-duration@champion rides.ndjson --json
  echo '{\"distance\": 2.5, \"pickup\": \"2026-11-01T08:15:00\"}' | sage predict taxi-duration
  sage predict taxi-duration --columns

Rows are a CSV with a header, or a JSON object on each line; columns go by their names, in any order, and those
that the model does not use are passed over. A time is ISO text (UTC) or seconds from 1970. One line is printed
for each row. It costs nothing: the model is public.";

/// How rows are written.
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

    /// How the rows are written [default: as the first character tells]
    #[arg(long, value_name = "FORMAT")]
    format: Option<FormatName>,

    /// List the columns that the model needs, and ask nothing
    #[arg(long)]
    columns: bool,

    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// How many rows are asked about at a time.
const AT_ONCE: usize = 4096;

pub(crate) fn run(asked: &PredictArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    let release = named(&engine, &asked.model)?;
    let predictor = engine.predictor(&release)?;
    let name = full(&release);
    // What is public needs no owner: others may have the directory while rows come in.
    engine.close()?;
    if asked.columns {
        let columns = predictor.columns().iter();
        if asked.json {
            let columns = columns.map(|column| json!({"column": column.name, "allowed": allowed(column)}));
            return print_json(&json!({"model": name, "columns": columns.collect::<Vec<_>>()}));
        }
        return print(&columns.map(|column| format!("{}: {}\n", column.name, allowed(column))).collect::<String>());
    }
    let mut reader =
        RowReader::new(predictor.columns(), asked.input()?, asked.format()).map_err(|why| wrong(&name, &why))?;
    let mut all: Vec<Value> = Vec::new();
    loop {
        let rows = reader.take_rows(AT_ONCE).map_err(|why| wrong(&name, &why))?;
        if rows.is_empty() {
            break;
        }
        let found = predictor.rows(&rows).map_err(EngineError::from)?;
        let predictions = found.chunks(predictor.outputs().max(1));
        if asked.json {
            all.extend(predictions.map(|numbers| match numbers {
                [one] => number(*one),
                several => several.iter().map(|one| number(*one)).collect(),
            }));
            continue;
        }
        let line = |numbers: &[f32]| numbers.iter().map(f32::to_string).collect::<Vec<_>>().join(",");
        print(&predictions.map(|numbers| format!("{}\n", line(numbers))).collect::<String>())?;
    }
    if asked.json { print_json(&json!({"model": name, "predictions": all})) } else { Ok(()) }
}

impl PredictArgs {
    fn input(&self) -> Result<Box<dyn Read + Send>, Failure> {
        if self.file.as_os_str() == "-" {
            return Ok(Box::new(std::io::stdin()));
        }
        let file = File::open(&self.file).map_err(|error| {
            Failure::usage(format!("{}: {error}", self.file.display()), "name a file of rows, or - for standard input")
        })?;
        Ok(Box::new(file))
    }

    fn format(&self) -> Option<RowFormat> {
        self.format.map(|name| match name {
            FormatName::Csv => RowFormat::Csv,
            FormatName::Ndjson => RowFormat::Ndjson,
        })
    }
}

/// The shortest number that says the same: widened as it is, it would show digits that mean nothing.
pub(crate) fn number(prediction: f32) -> Value {
    prediction.to_string().parse::<f64>().map_or(Value::Null, |number| json!(number))
}

fn wrong(name: &str, why: &RowError) -> Failure {
    Failure::no_answer(why.to_string(), format!("what the model needs: sage predict {name} --columns"))
}
