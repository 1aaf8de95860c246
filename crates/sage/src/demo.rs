//! `sage demo`: a stream's life in a few seconds, printed week by week.
//!
//! The engine simulates; this file only draws. A block's state is told by its glyph, colour only repeats
//! it.

use sage_engine::Refusal;
use sage_engine::simulate::{BlockView, Refused, Simulation, SimulationError, Summary, Week};
use serde_json::{Value, json};

use crate::cli::DemoArgs;
use crate::failure::Failure;
use crate::output::{colour_wanted, parameter, print, print_json, rounded_up};

/// How many weeks the story has.
const WEEKS: u32 = 7;
/// From untouched to full, in eighths of what a block can take.
const FILL: [char; 9] = ['.', '▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
const RETIRED: char = '×';

/// Runs the simulation and prints it as it goes.
pub(crate) fn run(flags: &DemoArgs) -> Result<(), Failure> {
    let mut simulation = Simulation::taxi().map_err(broken)?;
    if flags.json {
        let weeks = (0..WEEKS).map(|_| simulation.advance_week());
        let weeks = weeks.collect::<Result<Vec<Week>, _>>().map_err(broken)?;
        return print_json(&json(&weeks, &simulation.finish().map_err(broken)?));
    }
    let colour = colour_wanted() && !flags.no_color;
    print(&opening(&simulation))?;
    for _ in 0..WEEKS {
        let week = simulation.advance_week().map_err(broken)?;
        print(&week_line(&week, colour))?;
    }
    print(&closing(&simulation.finish().map_err(broken)?))
}

fn broken(error: SimulationError) -> Failure {
    Failure::no_answer(
        format!("the simulation stopped: {error}"),
        "this is a fault of sage: please report it",
    )
}

fn opening(simulation: &Simulation) -> String {
    let ceiling = simulation.ceiling();
    let mut text = format!(
        "A stream \"taxi\" gets one block of rows a day. No block may ever lose more than epsilon {}\n\
         at delta {}, whoever asks. The pipelines:\n\n",
        ceiling.epsilon,
        delta_text(ceiling.delta)
    );
    for pipeline in simulation.pipelines() {
        text += &format!(
            "  {:<14} {:<32} the newest {:>2} blocks, every {} on average\n",
            pipeline.name,
            pipeline.does,
            pipeline.window,
            if pipeline.every_days == 1 { "day".to_owned() } else { format!("{} days", pipeline.every_days) }
        );
    }
    let width = WEEKS as usize * 7;
    text += &format!(
        "\nOne mark a block, oldest first: {} untouched, {} to {} spent, {RETIRED} retired for ever.\n\n\
         week  {:width$}  admitted  refused  retired so far\n",
        FILL[0], FILL[1], FILL[8], "blocks"
    );
    text
}

fn delta_text(delta: sage_engine::Delta) -> String {
    parameter(delta.units() as f64 / 1e18)
}

fn glyph(block: &BlockView) -> char {
    if block.retired {
        return RETIRED;
    }
    if block.spent_share <= 0.0 {
        return FILL[0];
    }
    FILL[((block.spent_share * 8.0).ceil() as usize).clamp(1, 8)]
}

fn week_line(week: &Week, colour: bool) -> String {
    let mut strip = String::new();
    for block in &week.blocks {
        let code = match (block.retired, block.spent_share) {
            (true, _) => "2",
            (false, share) if share < 0.5 => "32",
            (false, share) if share < 0.85 => "33",
            _ => "31",
        };
        let mark = glyph(block);
        if colour {
            strip += &format!("\u{1b}[{code}m{mark}\u{1b}[0m");
        } else {
            strip.push(mark);
        }
    }
    let width = (WEEKS as usize * 7).saturating_sub(week.blocks.len());
    format!(
        "{:>4}  {strip}{:width$}  {:>8}  {:>7}  {:>14}\n",
        week.number,
        "",
        week.admitted,
        week.refused,
        retired(week),
    )
}

fn retired(week: &Week) -> usize {
    week.blocks.iter().filter(|block| block.retired).count()
}

fn closing(summary: &Summary) -> String {
    let held = if summary.loss <= summary.ceiling.epsilon { "The ceiling held" } else { "THE CEILING BROKE" };
    let mut text = format!(
        "\n{held}: after {} charges the stream has lost at most epsilon {} of {}, delta {}.\n\
         {} requests were refused, {} charges taken back before they started, and {} of {} blocks\n\
         retired. The log was read back and verified: {} records, head {}.\n",
        summary.admitted,
        rounded_up(summary.loss.units() as f64 / 1e12),
        summary.ceiling.epsilon,
        delta_text(summary.ceiling.delta),
        summary.refused,
        summary.cancelled,
        summary.retired,
        summary.blocks,
        summary.verified_records,
        hexadecimal(&summary.head[..8]),
    );
    if let Some(refused) = &summary.refusal {
        text += &refusal_text(refused);
    }
    text += "\nNew blocks are the refresh: a retired block stays retired. Next: sage help account\n";
    text
}

fn refusal_text(refused: &Refused) -> String {
    let then = match &refused.granted_instead {
        Some(blocks) => format!("it asked again for newer blocks alone, {blocks}, and was granted"),
        None => "it waits for new blocks".to_owned(),
    };
    let why = match &refused.refusal {
        Refusal::Ceiling(short) => format!(
            "not enough left on block {} (\"{}\"), {} lane, {}, rule {}\n  \
             asked    {} ({})\n  spent    {}\n  reserved {}\n  left     {}",
            short.block.0,
            short.key,
            short.lane,
            short.book,
            short.rule,
            short.decimal(short.asked),
            short.component,
            short.decimal(short.spent),
            short.decimal(short.reserved),
            short.decimal(short.left),
        ),
        other => other.to_string(),
    };
    format!(
        "\nA refusal in full. On day {}, {} asked for blocks {}:\n  {why}\n  then     {then}\n",
        refused.day, refused.pipeline, refused.blocks
    )
}

fn hexadecimal(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

fn json(weeks: &[Week], summary: &Summary) -> Value {
    let block = |block: &BlockView| json!({"spent_share": block.spent_share, "retired": block.retired});
    let week = |week: &Week| {
        json!({
            "week": week.number,
            "admitted": week.admitted,
            "refused": week.refused,
            "cancelled": week.cancelled,
            "retired": retired(week),
            "blocks": week.blocks.iter().map(block).collect::<Vec<Value>>(),
        })
    };
    let refusal = summary.refusal.as_ref().map(|refused| {
        json!({
            "day": refused.day,
            "pipeline": refused.pipeline,
            "blocks": refused.blocks.to_string(),
            "reason": refused.refusal.to_string(),
            "granted_instead": refused.granted_instead.as_ref().map(ToString::to_string),
        })
    });
    json!({
        "weeks": weeks.iter().map(week).collect::<Vec<Value>>(),
        "summary": {
            "blocks": summary.blocks,
            "retired": summary.retired,
            "admitted": summary.admitted,
            "refused": summary.refused,
            "cancelled": summary.cancelled,
            "loss": summary.loss.units() as f64 / 1e12,
            "ceiling": {
                "epsilon": summary.ceiling.epsilon.units() as f64 / 1e12,
                "delta": summary.ceiling.delta.units() as f64 / 1e18,
            },
            "ceiling_held": summary.loss <= summary.ceiling.epsilon,
            "log": {"records": summary.verified_records, "verified": true, "head": hexadecimal(&summary.head)},
            "refusal": refusal,
        },
    })
}
