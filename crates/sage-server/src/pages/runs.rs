//! Runs with their attempts, and one run against its target.

use sage_engine::adapt::{Outcome, Phase};
use sage_engine::pipeline::{Goal, Pipeline, Train};
use sage_engine::{AttemptOutcome, AttemptView, Epsilon, RunView};

use super::html::{Head, Life, badge, facts, folded, named_table, page, short, time};
use super::picture::{Bar, Line, Track, intervals, tracks};
use crate::call::{Call, Reply};
use crate::conclusion::conclusion;
use crate::format::{escape_html, loss, url_segment};
use crate::problem::Problem;
use crate::views::releases::full_name;
use crate::views::runs::{attempt_text, verdict_text, verdict_word};

/// The symbol and the CSS class of an attempt's outcome.
fn sign(attempt: &AttemptView) -> (&'static str, &'static str) {
    match attempt.outcome.as_ref().map(verdict_word) {
        None => ("…", "busy"),
        Some("accept") => ("✓", "good"),
        Some("retry") => ("↻", "wait"),
        Some("reject") => ("✕", "bad"),
        Some("lost") => ("–", "bad"),
        Some(_) => ("–", "off"),
    }
}

/// The badge of an attempt's outcome.
pub(super) fn ended(attempt: &AttemptView) -> String {
    let (sign, kind) = sign(attempt);
    badge(kind, sign, attempt.outcome.as_ref().map_or("in progress", verdict_word))
}

/// The badge of a run's status.
fn status(run: &RunView) -> String {
    let (sign, kind) = match run.phase {
        Phase::Idle => ("○", "wait"),
        Phase::Chosen(_) | Phase::Running(_) => ("…", "busy"),
        Phase::Over(Outcome::Accepted) => ("✓", "good"),
        Phase::Over(Outcome::Rejected) => ("✕", "bad"),
        Phase::Over(Outcome::Stopped(_)) => ("–", "off"),
    };
    badge(kind, sign, run.status())
}

fn number(epsilon: Epsilon) -> f64 {
    epsilon.units() as f64 / 1e12
}

fn track(run: &RunView, losses: &[Option<Epsilon>]) -> Track {
    let bar = |(one, lost): (&AttemptView, &Option<Epsilon>)| {
        let (sign, kind) = sign(one);
        Bar { sign, kind, loss: lost.map(number), blocks: one.attempt.window }
    };
    let ends = match run.phase {
        Phase::Over(Outcome::Accepted | Outcome::Rejected) => "",
        _ => run.status(),
    };
    Track {
        run: run.number,
        name: run.pipeline.clone(),
        bars: run.attempts.iter().zip(losses).map(bar).collect(),
        ends,
    }
}

/// How many runs are drawn, and how many are listed.
const DRAWN: usize = 12;
const LISTED: usize = 200;

pub(crate) fn list(call: &Call<'_>) -> Result<Reply, Problem> {
    let (mut rows, mut drawn) = (Vec::new(), Vec::new());
    let runs = call.engine().runs();
    let seen: Vec<&RunView> = runs.iter().rev().filter(|run| call.sees(&run.stream)).collect();
    for run in seen.iter().take(LISTED) {
        let losses = call.engine().attempt_losses(run.number)?;
        if drawn.len() < DRAWN {
            drawn.push(track(run, &losses));
        }
        let attempts = run.attempts.iter().zip(losses).map(|(one, lost)| {
            let (sign, _) = sign(one);
            let (word, lost) =
                (one.outcome.as_ref().map_or("in progress", verdict_word), lost.map(loss).unwrap_or_default());
            format!("<li>{sign} {word}: ε {lost} on {}</li>", crate::format::blocks(one.attempt.window))
        });
        rows.push(vec![
            format!("<a href=\"/runs/{0}\">{0}</a>", run.number),
            escape_html(&run.pipeline),
            format!("<a href=\"/streams/{}\">{}</a>", url_segment(&run.stream), escape_html(&run.stream)),
            status(run),
            folded(&format!("{}", run.attempts.len()), &format!("<ol>{}</ol>", attempts.collect::<String>())),
            format!("{} by {}", time(run.submitted), escape_html(&run.by)),
        ]);
    }
    if rows.is_empty() {
        return Ok(page(
            call,
            Life::Live,
            "Runs",
            "<p class=\"lead\">There are no runs on streams that you have a role in.</p>",
        ));
    }
    let heads = ["run", "pipeline", "stream", "status", "attempts", "submitted (UTC)"].map(Head::Text);
    let hidden = match seen.len().saturating_sub(LISTED) {
        0 => String::new(),
        more => format!("<p>{more} older runs are not listed. Each has its own page, /runs/NUMBER.</p>"),
    };
    let content = format!(
        "<p class=\"lead\">A run makes attempts until a test shows that its target is met. Each \
         attempt is charged.</p>{}<h2>All runs</h2>{}{hidden}",
        tracks(&drawn),
        named_table("All runs", &heads, &rows)
    );
    Ok(page(call, Life::Live, "Runs", &content))
}

/// The target of a run; `None` if its estimates cannot be compared with a number.
fn target(run: &RunView) -> Option<f64> {
    let pipeline = Pipeline::parse(&run.text).ok()?;
    // The target of a statistic is the width of its intervals, not a value.
    match (pipeline.train, pipeline.validate?.goal) {
        (Train::Statistic(_), _) | (_, Goal::BetterThan { .. }) => None,
        (_, Goal::Target(target)) => Some(target),
    }
}

pub(crate) fn show(call: &Call<'_>) -> Result<Reply, Problem> {
    let run = call.run()?;
    let engine = call.engine();
    let waiting = engine.waiting(run.number)?;
    let (why, help) = conclusion(engine, &run, waiting.as_ref());
    let mut about = vec![
        ("Status", status(&run)),
        ("Pipeline", escape_html(&run.pipeline)),
        ("Stream", format!("<a href=\"/streams/{}\">{}</a>", url_segment(&run.stream), escape_html(&run.stream))),
        ("Submitted", format!("{} by {}", time(run.submitted), escape_html(&run.by))),
    ];
    if let Some(release) = engine.releases().into_iter().find(|release| release.run == run.number) {
        let name = escape_html(&full_name(&release));
        about.push(match &release.withdrawn {
            Some(reason) => ("Released as", format!("{name}, withdrawn: {}", escape_html(reason))),
            None => {
                let address = format!("/releases/{}/{}", url_segment(&release.name), release.version);
                ("Released as", format!("<a href=\"{address}\">{name}</a>"))
            }
        });
    }
    let losses = engine.attempt_losses(run.number)?;
    let content = format!(
        "<p class=\"lead\">{}</p><p class=\"hint\">Next: {}</p>{}{}{}",
        escape_html(&why),
        escape_html(&help),
        facts(&about),
        attempts(&run, &losses),
        folded("The pipeline file", &format!("<pre>{}</pre>", escape_html(&run.text)))
    );
    Ok(page(call, Life::Live, &format!("Run {}", run.number), &content))
}

/// All attempts: their estimates against the target, and the reasons of their outcomes.
fn attempts(run: &RunView, losses: &[Option<Epsilon>]) -> String {
    if run.attempts.is_empty() {
        return "<h2>Attempts</h2><p>None yet.</p>".to_owned();
    }
    let (mut lines, mut rows) = (Vec::new(), Vec::new());
    for (one, lost) in run.attempts.iter().zip(losses) {
        let found = match &one.outcome {
            Some(AttemptOutcome::Judged(report)) => report.estimates.first().copied(),
            _ => None,
        };
        let (sign, kind) = sign(one);
        if let Some(found) = found {
            lines.push(Line { name: format!("{sign} attempt {}", one.attempt.index), kind, found });
        }
        let number = |number: Option<f64>| number.map_or_else(|| "–".to_owned(), short);
        let constant = match &one.outcome {
            Some(AttemptOutcome::Judged(report)) => report.best_constant,
            _ => None,
        };
        rows.push(vec![
            one.attempt.index.to_string(),
            ended(one),
            lost.map(loss).unwrap_or_default(),
            one.attempt.window.to_string(),
            number(found.and_then(|found| found.low)),
            number(found.and_then(|found| found.value)),
            number(found.and_then(|found| found.high)),
            constant.map_or_else(|| "–".to_owned(), |constant| constant.to_string()),
        ]);
    }
    let target = target(run);
    let picture = match target {
        Some(_) => intervals("Estimates against the target", &lines, target),
        None => String::new(),
    };
    let reasons = run.attempts.iter().zip(losses).map(|(one, lost)| {
        format!(
            "<li><strong>{}</strong><br>{}</li>",
            escape_html(&attempt_text(one, *lost)),
            escape_html(&verdict_text(one))
        )
    });
    let heads = [
        Head::Number("attempt"),
        Head::Text("ended"),
        Head::Number("ε on each block"),
        Head::Number("blocks"),
        Head::Number("at least"),
        Head::Number("estimate"),
        Head::Number("at most"),
        Head::Number("best constant"),
    ];
    format!(
        "<h2>Attempts</h2>{picture}{}<h2>Reasons</h2><ol class=\"reasons\">{}</ol>",
        named_table("Attempts", &heads, &rows),
        reasons.collect::<String>()
    )
}
