//! `sage explain`: why a run ended as it did, or what it waits for, and what would help.
//!
//! Everything said here was released or is public: verdicts, private estimates, keys of blocks, costs.

use clap::Args;
use sage_engine::adapt::{End, Limit, Outcome, Phase, Verdict};
use sage_engine::pipeline::{Goal, Metric, Pipeline, Train};
use sage_engine::run::{Interval, Report};
use sage_engine::{AttemptOutcome, AttemptView, Engine, EngineError, Epsilon, Hint, RunView, Waiting};
use serde_json::{Value, json};

use crate::failure::Failure;
use crate::output::{blocks, loss, print, print_json};
use crate::place::PlaceArgs;
use crate::runs::{instant, released, summary};

pub(crate) const EXAMPLES: &str = "\
Examples:
  sage explain 3
  sage explain 3 --json";

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// The run's number
    run: u64,
    #[command(flatten)]
    place: PlaceArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(asked: &ExplainArgs) -> Result<(), Failure> {
    let engine = asked.place.open()?;
    if asked.json { print_json(&object(&engine, asked.run)?) } else { print(&text(&engine, asked.run)?) }
}

/// Everything about a run as one object.
pub(crate) fn object(engine: &Engine, number: u64) -> Result<Value, Failure> {
    let run = engine.run(number).ok_or(EngineError::NoRun(number))?;
    let losses = engine.attempt_losses(number)?;
    let attempts = run.attempts.iter().zip(losses).map(|(one, lost)| attempt_object(one, lost));
    let waiting = engine.waiting(number)?;
    let mut object = summary(engine, &run);
    object["attempts"] = attempts.collect();
    object["target"] = json!(target(&run));
    object["waits_for"] = waiting.as_ref().map_or(Value::Null, |waiting| {
        json!({
            "blocks": waiting.blocks,
            "epsilon_on_each": waiting.epsilon.to_string(),
            "blocks_that_admit_it": waiting.admit,
            "blocks_free_now": waiting.free,
            "sealed_blocks": waiting.sealed,
            "until": waiting.deadline.map(instant),
        })
    });
    object["options"] = engine.hints(number)?.iter().map(option_object).collect();
    let (why, help) = conclusion(engine, &run, waiting.as_ref());
    object["why"] = json!(why);
    object["help"] = json!(help);
    Ok(object)
}

fn attempt_object(one: &AttemptView, lost: Option<Epsilon>) -> Value {
    let report = report(one);
    let interval = |found: &Interval| json!({"value": found.value, "low": found.low, "high": found.high});
    json!({
        "attempt": one.attempt.index,
        "epsilon": lost.map(|lost| lost.to_string()),
        "blocks": one.attempt.window,
        "block_ranges": one.blocks.iter().map(|(first, last)| json!([first, last])).collect::<Vec<_>>(),
        "verdict": one.outcome.as_ref().map(word),
        "estimates": report.map(|report| report.estimates.iter().map(interval).collect::<Vec<_>>()),
        "confidence": report.map(|report| report.confidence),
        "reason": reason(one),
    })
}

fn text(engine: &Engine, number: u64) -> Result<String, Failure> {
    let run = engine.run(number).ok_or(EngineError::NoRun(number))?;
    let losses = engine.attempt_losses(number)?;
    let mut text = format!(
        "run {number}: {} on stream {}, submitted by {} at {}: {}\n",
        run.pipeline,
        run.stream,
        run.by,
        instant(run.submitted),
        run.status()
    );
    let target = target(&run);
    let of_statistic = Pipeline::parse(&run.text).is_ok_and(|own| matches!(own.train, Train::Statistic(_)));
    for (attempt, lost) in run.attempts.iter().zip(losses) {
        text += &format!("\n{}\n  {}\n", attempt_text(attempt, lost), verdict_text(attempt));
        // The lines of a table are told by the reason; a model's loss is the first estimate.
        let judged = report(attempt).filter(|report| report.estimates.len() == 1 || !of_statistic);
        let first = judged.and_then(|report| Some((report.estimates.first()?, report.confidence)));
        if let (Some((found, confidence)), Some(target)) = (first, &target) {
            text += &format!("  {} against a target of {target}\n", interval_text(found, confidence));
        }
    }
    let waiting = engine.waiting(number)?;
    let (why, help) = conclusion(engine, &run, waiting.as_ref());
    let others = engine.hints(number)?.iter().filter_map(option_text).collect::<Vec<_>>();
    let others = others.iter().map(|other| format!("  or    {other}\n")).collect::<String>();
    Ok(format!("{text}\n{why}\n  help  {help}\n{others}"))
}

/// One thing that would help, for programs.
fn option_object(hint: &Hint) -> Value {
    match *hint {
        Hint::Blocks(more) => json!({"kind": "wait_for_blocks", "more": more}),
        Hint::Share => json!({"kind": "larger_share"}),
        Hint::Window(most) => json!({"kind": "larger_window", "now_at_most": most}),
        Hint::Doublings(most) => json!({"kind": "more_data_doublings", "now_at_most": most}),
        Hint::Budget => json!({"kind": "more_budget"}),
        Hint::Attempts(most) => json!({"kind": "more_attempts", "now_at_most": most}),
        Hint::Target(target) => json!({"kind": "looser_target", "met_by_the_last_test": target}),
        _ => json!({"kind": "other"}),
    }
}

/// The same in words.
fn option_text(hint: &Hint) -> Option<String> {
    Some(match *hint {
        Hint::Blocks(more) => format!("wait for {} more that admit the attempt", blocks(more)),
        Hint::Share => {
            "wait until runs that came earlier have made their next attempts or end, or cancel one that is yours"
                .to_owned()
        }
        Hint::Window(most) => format!("a larger window: raise window.max in [pipeline], now {}", blocks(most)),
        Hint::Doublings(most) => format!("a larger window: raise data_doublings in [adapt], now {most}"),
        Hint::Budget => "a larger share of the budget: raise epsilon_max in [budget]".to_owned(),
        Hint::Attempts(most) => format!("more tries: raise attempts in [adapt], now {most}"),
        Hint::Target(target) => format!("a looser target: the last test would have met {target:.6}"),
        _ => return None,
    })
}

/// What an attempt reads and costs.
pub(crate) fn attempt_text(one: &AttemptView, lost: Option<Epsilon>) -> String {
    /// How many stretches of blocks one reads at a glance.
    const SHOWN: usize = 3;
    let stretch = |(first, last): &(String, String)| match first == last {
        true => first.clone(),
        false => format!("{first} to {last}"),
    };
    let mut stretches: Vec<String> = one.blocks.iter().take(SHOWN).map(stretch).collect();
    if one.blocks.len() > SHOWN {
        stretches.push("and others".to_owned());
    }
    let cost = lost.map_or_else(String::new, |lost| format!("epsilon {} on each of ", loss(lost)));
    format!("attempt {}: {cost}{}: {}", one.attempt.index, blocks(one.attempt.window), stretches.join(", "))
}

/// How an attempt ended and why.
pub(crate) fn verdict_text(one: &AttemptView) -> String {
    match (&one.outcome, reason(one)) {
        (Some(outcome), Some(reason)) => format!("{}: {reason}", word(outcome)),
        (Some(outcome), None) => word(outcome).to_owned(),
        (None, _) => "not over".to_owned(),
    }
}

/// How an attempt ended, in a word.
pub(crate) const fn word(outcome: &AttemptOutcome) -> &'static str {
    match outcome {
        AttemptOutcome::Refused => "refused",
        AttemptOutcome::Withdrawn => "withdrawn",
        AttemptOutcome::Lost(_) => "lost",
        AttemptOutcome::Judged(Report { verdict: Verdict::Accept, .. }) => "accept",
        AttemptOutcome::Judged(Report { verdict: Verdict::Reject, .. }) => "reject",
        AttemptOutcome::Judged(Report { verdict: Verdict::Retry, .. }) => "retry",
    }
}

fn reason(one: &AttemptView) -> Option<&str> {
    match one.outcome.as_ref()? {
        AttemptOutcome::Refused => Some("the ledger refused it; nothing was spent"),
        AttemptOutcome::Withdrawn => Some("its charge was taken back; nothing was spent"),
        AttemptOutcome::Lost(reason) => Some(reason),
        AttemptOutcome::Judged(report) => Some(&report.explanation),
    }
}

const fn report(one: &AttemptView) -> Option<&Report> {
    match &one.outcome {
        Some(AttemptOutcome::Judged(report)) => Some(report),
        _ => None,
    }
}

fn interval_text(found: &Interval, confidence: f64) -> String {
    let short = |number: f64| format!("{number:.6}").trim_end_matches('0').trim_end_matches('.').to_owned();
    let number = |number: Option<f64>, none: &str| number.map_or_else(|| none.to_owned(), short);
    format!(
        "{} (from {} to {}, confidence {} %)",
        number(found.value, "nothing that stands out from the noise"),
        number(found.low, "no limit"),
        number(found.high, "no limit"),
        short(100.0 * confidence),
    )
}

/// What the pipeline has to reach.
fn target(run: &RunView) -> Option<String> {
    let validate = Pipeline::parse(&run.text).ok()?.validate?;
    let metric = match validate.metric {
        Metric::SquaredError { .. } => "mean squared error",
        Metric::LogLoss { .. } => "logarithmic loss",
        Metric::AbsoluteError { .. } => "mean absolute error",
        Metric::Accuracy => "accuracy",
        Metric::Precision => "distance from the truth",
    };
    Some(match (validate.goal, validate.metric) {
        (Goal::Target(target), Metric::Accuracy) => format!("{metric} of at least {target}"),
        (Goal::Target(target), _) => format!("{metric} of at most {target}"),
        (Goal::BetterThan { alias, margin }, _) => format!("{metric} better by {margin} than that of {alias}"),
    })
}

/// Why a run stands as it does, and what would help.
pub(crate) fn conclusion(engine: &Engine, run: &RunView, waiting: Option<&Waiting>) -> (String, String) {
    let (number, stream) = (run.number, &run.stream);
    let told = |why: &str, help: String| (why.to_owned(), help);
    match run.phase {
        Phase::Over(Outcome::Accepted) => {
            let name = released(engine, run).unwrap_or_else(|| run.pipeline.clone());
            told("It was accepted and released.", format!("sage models show {name}"))
        }
        Phase::Over(Outcome::Rejected) => told(
            "It was rejected: the best model of this kind misses the target on these blocks, noise aside.",
            "choose other features, another kind in [train], or a target that can be met".to_owned(),
        ),
        Phase::Over(Outcome::Stopped(end)) => stopped(end, run),
        Phase::Chosen(_) | Phase::Running(_) => {
            told("An attempt is under way.", "sage work brings it to its end".to_owned())
        }
        Phase::Idle => match waiting {
            Some(waiting) => (waits(waiting, stream), format!("{}; or: sage cancel {number}", hint(waiting, stream))),
            None => told("It has something to do.", "sage work".to_owned()),
        },
    }
}

fn waits(waiting: &Waiting, stream: &str) -> String {
    let Waiting { blocks: needed, epsilon, admit, free, sealed, deadline } = waiting;
    let until = deadline.map_or_else(String::new, |deadline| format!(" It gives up at {}.", instant(deadline)));
    let now = if admit < needed {
        format!("Of the {} of stream {stream} that are sealed, {admit} admit it.", blocks(*sealed))
    } else if free < needed {
        format!(
            "{} admit it, but it may spend that much on {free} of them now: the rest is promised to runs that came \
             earlier, for their next attempts, or is not unlocked yet.",
            blocks(*admit)
        )
    } else {
        "There are such blocks: it runs when sage work comes to it.".to_owned()
    };
    format!("It waits for {} that each admit an attempt of epsilon {}. {now}{until}", blocks(*needed), loss(*epsilon))
}

fn hint(waiting: &Waiting, stream: &str) -> String {
    if waiting.free >= waiting.blocks {
        return "sage work".to_owned();
    }
    if waiting.admit >= waiting.blocks {
        return format!(
            "take in and seal new blocks, of which it has an even share, then sage work (sage budget {stream})"
        );
    }
    format!("take in and seal new blocks, then sage work (what is left now: sage budget {stream})")
}

fn stopped(end: End, run: &RunView) -> (String, String) {
    let (why, help) = match end {
        End::TimedOut => (
            "It timed out before an attempt met its target.",
            "raise timeout in [adapt], seal blocks sooner, or let it spend more: epsilon_max in [budget]",
        ),
        End::Cancelled => ("Somebody cancelled it.", "sage submit FILE starts it anew"),
        End::Limit(Limit::Attempts) => (
            "It used up the attempts that its file allows, and none met its target.",
            "raise attempts in [adapt], or start with more: epsilon0 in [budget], window in [pipeline]",
        ),
        End::Limit(Limit::Growth) => (
            "Neither its cost nor its window may grow any further, and no attempt met its target.",
            "raise epsilon_max in [budget], window.max in [pipeline] or data_doublings in [adapt]; or lower the target",
        ),
        End::Limit(Limit::Time) => (
            "By the public sizes of its window the next attempt would take longer than one may, and was not \
             begun.",
            "raise time in [limits], and the operator --attempt-time, or make it smaller: fewer epochs in [train], narrower \
             layers, a shorter window",
        ),
        End::Limit(Limit::Memory) => (
            "The next attempt would need more memory than one may have, and was not begun. It was charged nothing.",
            "raise memory_megabytes in [limits], and the operator --attempt-memory, or lower window.max in [pipeline] and \
             raise epsilon_max in [budget]",
        ),
        End::Failing if run.attempts.iter().any(|one| matches!(one.outcome, Some(AttemptOutcome::Lost(_)))) => (
            "Attempt after attempt was lost, and each stays charged.",
            "mend what the reasons above name, then submit it again",
        ),
        End::NotMember => (
            "The person who submitted it may no longer spend on the stream: they are no longer an ML engineer, no longer \
             a member of the context that paid, or suspended. Nothing more was charged.",
            "let an ML engineer submit it; [access] and [[policy.contexts]] of the stream's file say who may",
        ),
        End::NameTaken => (
            "The name of its pipeline belongs to another stream.",
            "give the pipeline another name and submit it again",
        ),
        End::Crashed => (
            "The program crashed three times in a row while it worked on this run, so it is not tried again. Attempts \
             that had read rows stay charged.",
            "simplify its expressions or make it smaller, check it with: sage plan FILE, then submit it again; the \
             operator finds the crash in the output of the program",
        ),
        End::Failing => ("Its pipeline no longer fits its stream.", "sage plan FILE says what does not fit"),
    };
    (why.to_owned(), help.to_owned())
}
