//! The loop under a simulated clock: a form with a few numbers, pictures and their table.
//!
//! Nothing of a stream is used. A simulation takes a moment of a processor, so one is made at a time.

use std::sync::{Mutex, TryLockError};

use super::html::{Life, page, table};
use crate::call::{Call, Reply};
use crate::format::escape_html;
use crate::problem::Problem;
use crate::views::simulation::{self, SimulationRequest, picture, sentence, simulate};

/// The fields of the form: name, what it is, what stands in it at first.
const FIELDS: [(&str, &str, &str); 5] = [
    ("blocks", "Blocks, one at each step", "168"),
    ("rate", "New pipelines a block", "0.3"),
    ("epsilon", "Epsilon of each block", "1"),
    ("rows", "Rows of a block", "10000"),
    ("patience", "Blocks until a pipeline gives up (empty: never)", ""),
];

/// What may be asked for in a page, where others wait: blocks, and pipelines in all.
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
    let field = |(name, says, default): (&str, &str, &str)| {
        format!(
            "<label>{says}<br><input name=\"{name}\" value=\"{}\" inputmode=\"decimal\"></label>",
            escape_html(&given(name, default))
        )
    };
    format!(
        "<p>What if there were more pipelines, a smaller budget, another scheduler? Ledger, scheduler and adaptation are the \
         real ones; rows, noise and time are simulated.</p><form method=\"get\" action=\"/simulate\">{}<button>simulate\
         </button></form>",
        FIELDS.map(field).concat()
    )
}

/// The request of the form; `None` where a field is not a number.
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
        return Ok(Err("Every field is a number; this one is not.".to_owned()));
    };
    let blocks = f64::from(request.blocks);
    if blocks > MOST.0 || blocks * request.rate > MOST.1 {
        let why = format!(
            "A page takes at most {} blocks and {} pipelines in all; sage simulate takes more.",
            MOST.0, MOST.1
        );
        return Ok(Err(why));
    }
    let _alone = match ALONE.try_lock() {
        Ok(alone) => alone,
        // It guards nothing but the processor.
        Err(TryLockError::Poisoned(alone)) => alone.into_inner(),
        Err(TryLockError::WouldBlock) => {
            return Err(Problem::busy("another simulation is under way; try again in a moment"));
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
         class=\"hint\">Waiting: at the end, starved or come too late. Used up: blocks with too little left for \
         any attempt. Times are in blocks. The same and more: sage simulate</p>",
        escape_html(&sentence(&request, &found)),
        picture(&found),
        table(&headings, &rows)
    )))
}
