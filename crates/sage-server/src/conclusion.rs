//! The reason of a run's status, and what the user can do next.

use sage_engine::adapt::{End, Limit, Outcome, Phase};
use sage_engine::{AttemptOutcome, Engine, RunView, Waiting};

use crate::format::{blocks, loss, timestamp};
use crate::views::runs::released_by;

/// The reason of a run's status, and what the user can do next.
pub(crate) fn conclusion(engine: &Engine, run: &RunView, waiting: Option<&Waiting>) -> (String, String) {
    let (number, stream) = (run.number, &run.stream);
    let pair = |why: &str, help: String| (why.to_owned(), help);
    match run.phase {
        Phase::Over(Outcome::Accepted) => {
            let name = released_by(engine, run).unwrap_or_else(|| run.pipeline.clone());
            pair("It was accepted and released.", format!("sage models show {name}"))
        }
        Phase::Over(Outcome::Rejected) => pair(
            "It was rejected: even without noise, the best model of this kind misses the target on these blocks.",
            "choose other features, another kind in [train], or a target that can be met".to_owned(),
        ),
        Phase::Over(Outcome::Stopped(end)) => stop_reason(end, run),
        Phase::Chosen(_) | Phase::Running(_) => pair("An attempt is in progress.", "sage work completes it".to_owned()),
        Phase::Idle => match waiting {
            Some(waiting) => {
                (waiting_reason(waiting, stream), format!("{}; or: sage cancel {number}", next_step(waiting, stream)))
            }
            None => pair("It is ready to continue.", "sage work".to_owned()),
        },
    }
}

fn waiting_reason(waiting: &Waiting, stream: &str) -> String {
    let Waiting { blocks: needed, epsilon, admit, free, sealed, deadline } = waiting;
    let until = deadline.map_or_else(String::new, |deadline| format!(" It gives up at {}.", timestamp(deadline)));
    let now = if admit < needed {
        format!("Of the {} of stream {stream} that are sealed, {admit} admit it.", blocks(*sealed))
    } else if free < needed {
        format!(
            "{} admit it, but it may spend that much on {free} of them now: the rest is promised to runs that came \
             earlier, for their next attempts, or is not unlocked yet.",
            blocks(*admit)
        )
    } else {
        "There are enough such blocks: it runs when sage work reaches it.".to_owned()
    };
    format!("It waits for {} that each admit an attempt of epsilon {}. {now}{until}", blocks(*needed), loss(*epsilon))
}

fn next_step(waiting: &Waiting, stream: &str) -> String {
    if waiting.free >= waiting.blocks {
        return "sage work".to_owned();
    }
    if waiting.admit >= waiting.blocks {
        return format!(
            "ingest rows and seal new blocks, of which it gets an even share, then sage work (sage budget {stream})"
        );
    }
    format!("ingest rows and seal new blocks, then sage work (what is left now: sage budget {stream})")
}

fn stop_reason(end: End, run: &RunView) -> (String, String) {
    let (why, help) = match end {
        End::TimedOut => (
            "It timed out before an attempt met its target.",
            "raise timeout in [adapt], seal blocks sooner, or let it spend more: epsilon_max in [budget]",
        ),
        End::Cancelled => ("It was cancelled.", "sage submit FILE starts it again"),
        End::Limit(Limit::Attempts) => (
            "It used up the attempts that its file allows, and none met its target.",
            "raise attempts in [adapt], or start with more: epsilon0 in [budget], window in [pipeline]",
        ),
        End::Limit(Limit::Growth) => (
            "Neither its cost nor its window may grow any further, and no attempt met its target.",
            "raise epsilon_max in [budget], window.max in [pipeline] or data_doublings in [adapt]; or lower the target",
        ),
        End::Limit(Limit::Time) => (
            "By the public sizes of its window the next attempt would take longer than allowed, and was not \
             started.",
            "raise time in [limits], and the operator --attempt-time, or make it smaller: fewer epochs in [train], narrower \
             layers, a shorter window",
        ),
        End::Limit(Limit::Memory) => (
            "The next attempt would need more memory than allowed, and was not started. Nothing was charged for it.",
            "raise memory_megabytes in [limits], and the operator --attempt-memory, or lower window.max in [pipeline] and \
             raise epsilon_max in [budget]",
        ),
        End::Failing if run.attempts.iter().any(|one| matches!(one.outcome, Some(AttemptOutcome::Lost(_)))) => (
            match run.attempts.iter().filter(|one| matches!(one.outcome, Some(AttemptOutcome::Lost(_)))).count() {
                1 => "An attempt was lost, and another one would be lost for the same reason. It stays charged.",
                _ => "Several attempts in a row were lost, and each stays charged.",
            },
            "fix the reasons above, then submit it again",
        ),
        End::NotMember => (
            "The person who submitted it may no longer spend on the stream: they are no longer an ML engineer, no longer \
             a member of the context that paid, or suspended. Nothing more was charged.",
            "let an ML engineer submit it; [access] and [[policy.contexts]] of the stream file list who may",
        ),
        End::OutOfReach => (
            "Its released estimates show that no attempt within its limits is likely to meet its target, so no more budget \
             was spent.",
            "loosen the target in [validate]; raise epsilon_max in [budget] or window.max in [pipeline] if they are set; or \
             add features or choose another kind in [train]",
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
        End::Failing => ("Its pipeline no longer fits its stream.", "sage plan FILE shows what does not fit"),
    };
    (why.to_owned(), help.to_owned())
}
