//! The training loop under a simulated clock: a form, plots and a table.
//!
//! No stream is read. A simulation needs a processor for a moment, so only one runs at a time.

use std::sync::{Mutex, TryLockError};

use super::html::{Life, page, table};
use crate::call::{Call, Reply};
use crate::format::escape_html;
use crate::problem::Problem;
use crate::views::simulation::{self, SimulationRequest, picture, sentence, simulate};

/// The fields of the form: name, label, default.
const FIELDS: [(&str, &str, &str); 5] = [
    ("blocks", "Blocks, one per step", "168"),
    ("rate", "New pipelines per block", "0.3"),
    ("epsilon", "Epsilon of each block", "1"),
    ("rows", "Rows per block", "10000"),
    ("patience", "Blocks until a pipeline gives up (empty: never)", ""),
];

/// The most blocks and pipelines of a simulation that the server runs.
const MOST: (f64, f64) = (400.0, 400.0);

static ALONE: Mutex<()> = Mutex::new(());

pub(crate) fn show(call: &Call<'_>) -> Result<Reply, Problem> {
    let given = |name: &str, default: &str| call.query_value(name).unwrap_or(default).trim().to_owned();
    let form = form(&given);
    let content = match result(&given)? {
        Ok(content) => content,
        Err(why) => format!("<p role=\"status\">{}</p>", escape_html(&why)),
    };
    Ok(page(call, Life::Still, "Simulate", &format!("{form}{content}")))
}

fn form(given: &dyn Fn(&str, &str) -> String) -> String {
    let field = |(name, label, default): (&str, &str, &str)| {
        format!(
            "<label>{label}<br><input name=\"{name}\" value=\"{}\" inputmode=\"decimal\"></label>",
            escape_html(&given(name, default))
        )
    };
    format!(
        "<p>What if there were more pipelines, a smaller budget, another scheduler? Ledger, scheduler and adaptation are the \
         real ones; rows, noise and time are simulated.</p><form method=\"get\" action=\"/simulate\">{}<button>Simulate\
         </button></form>",
        FIELDS.map(field).concat()
    )
}

/// The request in the form; `None` if a field is not a number.
fn request(given: &dyn Fn(&str, &str) -> String) -> Option<SimulationRequest> {
    let patience = given("patience", "");
    Some(SimulationRequest {
        blocks: given("blocks", "168").parse().ok()?,
        rate: given("rate", "0.3").parse().ok()?,
        epsilon: given("epsilon", "1"),
        rows: given("rows", "10000").parse().ok()?,
        patience: if patience.is_empty() { None } else { Some(patience.parse().ok()?) },
        ..SimulationRequest::default()
    })
}

/// The plots and the table, or what is wrong with the fields.
fn result(given: &dyn Fn(&str, &str) -> String) -> Result<Result<String, String>, Problem> {
    let Some(request) = request(given) else {
        return Ok(Err("Every field must be a number.".to_owned()));
    };
    let blocks = f64::from(request.blocks);
    if blocks > MOST.0 || blocks * request.rate > MOST.1 {
        let why = format!(
            "This page simulates at most {} blocks and {} pipelines in total; the command sage simulate takes more.",
            MOST.0, MOST.1
        );
        return Ok(Err(why));
    }
    let _alone = match ALONE.try_lock() {
        Ok(alone) => alone,
        // The lock protects no data.
        Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
        Err(TryLockError::WouldBlock) => {
            return Err(Problem::busy("another simulation is running; try again in a moment"));
        }
    };
    let found = match simulate(&request) {
        Ok(found) => found,
        Err(error) => return Ok(Err(error.to_string())),
    };
    let (headings, rows) = simulation::table(&found);
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| escape_html(cell)).collect()).collect();
    Ok(Ok(format!(
        "<p role=\"status\">{}</p><div class=\"simulated\">{}</div><h2>The same as a table</h2>{}<p \
         class=\"hint\">Waiting: pipelines without a release at the end. Used up: blocks with too little budget left \
         for any attempt. Times are in blocks. The command sage simulate has more options.</p>",
        escape_html(&sentence(&request, &found)),
        picture(&found),
        table(&headings, &rows)
    )))
}
