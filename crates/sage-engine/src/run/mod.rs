//! Attempts: training and validation on a session, with a result or a failure.
//!
//! Rows are reached only through the kernel's mechanisms, so everything that an attempt returns was paid for by its
//! cost. The reason of a failure follows from public and released data, never from a row.

mod constant;
mod losses;
mod model;
mod observer;
mod report;
mod statistic;
mod unit;

use std::fmt;
use std::num::NonZeroU64;

use sage_kernel::FinishedSession;
use sage_learn::validate::{Confidence, Estimate, Rejection, Risk, RiskDivisors, Verdict};
use sage_model::bundle::Graph;

use crate::adapt::Attempt;
use crate::pipeline::Pipeline;

pub(crate) use constant::{is_met_by_a_constant, releases_label_sums};
pub(crate) use model::{ExternalModelTest, block_sums, certificate_row, train_and_test};
pub(crate) use observer::AttemptObserver;
pub use observer::Stage;
pub use report::{Interval, Report, Uncertainty};
pub use statistic::{Line, ReleasedStatistic};
pub(crate) use statistic::{compute, groups_of_unit, summarise};
pub(crate) use unit::turns;

/// The result of an attempt.
pub(crate) struct AttemptResult {
    /// The finished session.
    pub(crate) finished: FinishedSession,
    /// The verdict of the validation.
    pub(crate) verdict: Verdict,
    /// The metric of the best constant prediction, where the test has a target and it is known.
    pub(crate) best_constant: Option<Estimate>,
    /// What is released if the verdict is to accept.
    pub(crate) product: Product,
}

/// What an attempt produced.
pub(crate) enum Product {
    /// A model.
    Model(Box<Graph>),
    /// A statistic.
    Statistic(ReleasedStatistic),
    /// Nothing new: a released model was validated again.
    Nothing,
}

/// Why an attempt failed. Its charge stays charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttemptFailure(pub(crate) String);

/// The one message for an attempt without a result: a timeout, a failed read or a panic. Each of these can depend on
/// rows, so they must not be distinguishable.
const NO_RESULT: &str = "it ended without a result, for example because its time was over; if this happens again, raise \
                         time in [limits], or use fewer steps or a smaller model";

impl AttemptFailure {
    /// A failure that could depend on rows.
    pub(crate) fn without_result() -> Self {
        Self(NO_RESULT.to_owned())
    }

    pub(crate) fn because(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// The risks of one attempt: of a wrong acceptance and of a wrong rejection.
fn risks(pipeline: &Pipeline, attempt: &Attempt) -> Result<(Risk, Option<Risk>), AttemptFailure> {
    let validate = pipeline.validate.as_ref();
    let confidence = Confidence::new(validate.map_or(DEFAULT_CONFIDENCE, |validate| validate.confidence));
    let rejection = match validate.is_some_and(|validate| validate.reject) {
        true => Rejection::ByAny(std::num::NonZeroU32::MIN),
        false => Rejection::Never,
    };
    let risks = confidence.map_err(AttemptFailure::because)?.risks(rejection);
    let part = |divisor| NonZeroU64::new(divisor).ok_or_else(|| AttemptFailure("a risk is divided by zero".to_owned()));
    let noise = part(attempt.risk_divisor)?;
    let divisors = RiskDivisors { noise, rows: attempt.rows_divisor.map_or(Ok(noise), part)? };
    let own = |risk: Risk| risk.divided(divisors);
    Ok((own(risks.accept), risks.reject.map(own)))
}

/// The risk of a wrong acceptance of all attempts of a run together.
pub(crate) fn accept_risk(pipeline: &Pipeline) -> Option<Risk> {
    let validate = pipeline.validate.as_ref()?;
    let rejection = if validate.reject { Rejection::ByAny(std::num::NonZeroU32::MIN) } else { Rejection::Never };
    Some(Confidence::new(validate.confidence).ok()?.risks(rejection).accept)
}

/// The confidence of intervals for a pipeline without a target.
const DEFAULT_CONFIDENCE: f64 = 0.95;
