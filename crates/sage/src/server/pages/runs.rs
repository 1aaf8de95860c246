//! Runs with their attempts, and one run against its target.

use sage_engine::pipeline::{Goal, Pipeline};
use sage_engine::{AttemptOutcome, AttemptView, RunView};

use super::html::{Life, escaped, page, part, table};
use super::picture::interval;
use crate::explain::{attempt_text, conclusion, verdict_text, word};
use crate::output::loss;
use crate::runs::{instant, released};
use crate::server::call::{Answer, Call};
use crate::server::problem::Problem;

/// The sign of how an attempt ended.
fn sign(attempt: &AttemptView) -> &'static str {
    match attempt.outcome.as_ref().map(word) {
        None => "…",
        Some("accept") => "✓",
        Some("retry") => "↻",
        Some("reject") => "✕",
        Some(_) => "–",
    }
}

pub(in crate::server) fn list(call: &Call<'_>) -> Result<Answer, Problem> {
    let mut rows = Vec::new();
    for run in call.engine().runs().iter().rev().filter(|run| call.sees(&run.stream)) {
        let losses = call.engine().attempt_losses(run.number)?;
        let bars = run.attempts.iter().zip(losses).map(|(one, lost)| {
            let (sign, word) = (sign(one), one.outcome.as_ref().map_or("under way", word));
            let lost = lost.map_or_else(String::new, |lost| format!("ε {} ", loss(lost)));
            format!("<span class=\"attempt\">{sign} {lost}on {} blocks: {word}</span>", one.attempt.window)
        });
        rows.push(vec![
            format!("<a href=\"/runs/{0}\">{0}</a>", run.number),
            escaped(&run.pipeline),
            escaped(&run.stream),
            run.status().to_owned(),
            bars.collect(),
            format!("{} by {}", instant(run.submitted), escaped(&run.by)),
        ]);
    }
    let content = match rows.is_empty() {
        true => "<p>There is no run that you may see.</p>".to_owned(),
        false => table(&["run", "pipeline", "stream", "status", "attempts", "submitted"], &rows),
    };
    Ok(page(call, Life::Live, "Runs", &content))
}

/// The number that an estimate has to reach.
fn target(run: &RunView) -> Option<f64> {
    match Pipeline::parse(&run.text).ok()?.validate?.goal {
        Goal::Target(target) => Some(target),
        Goal::BetterThan { .. } => None,
    }
}

pub(in crate::server) fn show(call: &Call<'_>) -> Result<Answer, Problem> {
    let run = call.run()?;
    let engine = call.engine();
    let waiting = engine.waiting(run.number)?;
    let (why, help) = conclusion(engine, &run, waiting.as_ref());
    let mut content = format!(
        "<p>Pipeline {} on stream <a href=\"/streams/{}\">{}</a>, submitted {} by {}: <strong>{}</strong>.</p><p>{}</p>\
         <p class=\"hint\">{}</p>",
        escaped(&run.pipeline),
        part(&run.stream),
        escaped(&run.stream),
        instant(run.submitted),
        escaped(&run.by),
        run.status(),
        escaped(&why),
        escaped(&help)
    );
    if let Some(name) = released(engine, &run) {
        let (name, version) = name.split_once('@').unwrap_or((&name, "latest"));
        content += &format!("<p>Released as <a href=\"/releases/{}/{version}\">{}</a></p>", part(name), escaped(name));
    }
    let losses = engine.attempt_losses(run.number)?;
    for (one, lost) in run.attempts.iter().zip(losses) {
        let (text, verdict) = (attempt_text(one, lost), verdict_text(one));
        content += &format!("<h2>{} {}</h2><p>{}</p>", sign(one), escaped(&text), escaped(&verdict));
        content += &estimates(one, target(&run));
    }
    content += &format!("<h2>Its file</h2><pre>{}</pre>", escaped(&run.text));
    Ok(page(call, Life::Live, &format!("Run {}", run.number), &content))
}

fn estimates(one: &AttemptView, target: Option<f64>) -> String {
    let Some(AttemptOutcome::Judged(report)) = &one.outcome else { return String::new() };
    let picture = match (report.estimates.first(), target) {
        (Some(found), Some(target)) if report.estimates.len() == 1 => interval(found, target),
        _ => String::new(),
    };
    let number = |number: Option<f64>| number.map_or_else(|| "no limit".to_owned(), |number| number.to_string());
    let rows: Vec<Vec<String>> =
        report.estimates.iter().map(|found| vec![number(found.low), number(found.value), number(found.high)]).collect();
    format!("{picture}{}", table(&["at least", "estimate", "at most"], &rows))
}
