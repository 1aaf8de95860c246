//! The loop under a simulated clock: a form with a few numbers, pictures and their table.
//!
//! Nothing of a stream is used. A simulation takes a moment of a processor, so one is made at a time.

use std::sync::{Mutex, TryLockError};

use clap::Parser;

use super::html::{Life, escaped, page, table};
use crate::server::call::{Answer, Call};
use crate::server::problem::Problem;
use crate::simulate::{SimulateArgs, lived, picture, sentence, table as told};

/// The fields of the form: name, what it is, what stands in it at first.
const FIELDS: [(&str, &str, &str); 5] = [
    ("blocks", "Blocks, one at each tick", "168"),
    ("rate", "New pipelines a block", "0.3"),
    ("epsilon", "Epsilon of each block", "1"),
    ("rows", "Rows of a block", "10000"),
    ("patience", "Blocks until a pipeline gives up (empty: never)", ""),
];

/// What may be asked for in a page, where others wait: blocks, and pipelines in all.
const MOST: (f64, f64) = (400.0, 400.0);

static ALONE: Mutex<()> = Mutex::new(());

/// The flags as a form gives them.
#[derive(Parser)]
#[command(no_binary_name = true, disable_help_flag = true)]
struct Form {
    #[command(flatten)]
    asked: SimulateArgs,
}

pub(in crate::server) fn show(call: &Call<'_>) -> Result<Answer, Problem> {
    let given = |name: &str, default: &str| call.asked(name).unwrap_or(default).trim().to_owned();
    let mut flags = Vec::new();
    for (name, _, default) in FIELDS {
        let value = given(name, default);
        if !value.is_empty() {
            flags.push(format!("--{name}={value}"));
        }
    }
    let form = form(&given);
    let content = match made(&flags, &given("blocks", "168"), &given("rate", "0.3"))? {
        Ok(content) => content,
        Err(why) => format!("<p role=\"status\">{}</p>", escaped(&why)),
    };
    Ok(page(call, Life::Still, "Simulate", &format!("{form}{content}")))
}

fn form(given: &dyn Fn(&str, &str) -> String) -> String {
    let field = |(name, says, default): (&str, &str, &str)| {
        format!(
            "<label>{says}<br><input name=\"{name}\" value=\"{}\" inputmode=\"decimal\"></label>",
            escaped(&given(name, default))
        )
    };
    format!(
        "<p>What if there were more pipelines, a smaller budget, another scheduler? Ledger, scheduler and adaptation are the \
         real ones; rows, noise and time are made up.</p><form method=\"get\" action=\"/simulate\">{}<button>simulate\
         </button></form>",
        FIELDS.map(field).concat()
    )
}

/// The pictures and the table, or what is wrong with the fields.
fn made(flags: &[String], blocks: &str, rate: &str) -> Result<Result<String, String>, Problem> {
    let number = |text: &str| text.parse::<f64>().unwrap_or(0.0);
    if number(blocks) > MOST.0 || number(blocks) * number(rate) > MOST.1 {
        let why = format!(
            "A page takes at most {} blocks and {} pipelines in all; sage simulate takes more.",
            MOST.0, MOST.1
        );
        return Ok(Err(why));
    }
    let Ok(Form { asked }) = Form::try_parse_from(flags) else {
        return Ok(Err("Every field is a number; this one is not.".to_owned()));
    };
    let _alone = match ALONE.try_lock() {
        Ok(alone) => alone,
        // It guards nothing but the processor.
        Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
        Err(TryLockError::WouldBlock) => {
            return Err(Problem::busy("another simulation is under way; try again in a moment"));
        }
    };
    let found = match lived(&asked) {
        Ok(found) => found,
        Err(failure) => return Ok(Err(Problem::from(failure).detail)),
    };
    let (heads, rows) = told(&found);
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| escaped(cell)).collect()).collect();
    Ok(Ok(format!(
        "<p role=\"status\">{}</p><div class=\"simulated\">{}</div><h2>The same as a table</h2>{}<p \
         class=\"hint\">Waiting: at the end, starved or come too late. Used up: blocks with too little left for \
         any attempt. Times are in blocks. The same and more: sage simulate</p>",
        escaped(&sentence(&asked, &found)),
        picture(&found),
        table(&heads, &rows)
    )))
}
