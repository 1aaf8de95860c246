//! Attempts: a session is trained on, tested, and what it gives is handed on; or the attempt is lost.
//!
//! Here a recipe meets rows, behind the kernel's mechanisms alone: everything that comes out was paid for by the
//! bill. What is not there in the end is lost, with a reason that follows from public and released things, never
//! from a row.

mod model;
mod report;
mod statistic;
mod watch;

use std::fmt;

use sage_kernel::Finished;
use sage_learn::validate::{Confidence, Rejection, Risk, Verdict};
use sage_model::bundle::Graph;

use crate::adapt::Attempt;
use crate::pipeline::Pipeline;

pub(crate) use model::{OwnTest, block_sums, dense, row_loss, train_and_test};
pub use report::{Interval, Report};
pub use statistic::{Line, Published};
pub(crate) use statistic::{compute, summarise};
pub use watch::Stage;
pub(crate) use watch::Watch;

/// What an attempt has to show.
pub(crate) struct Done {
    /// The end of its session.
    pub(crate) finished: FinishedSession,
    /// What its test said.
    pub(crate) verdict: Verdict,
    /// What may leave if it was accepted.
    pub(crate) product: Product,
}

/// What an attempt made.
pub(crate) enum Product {
    /// A model.
    Model(Box<Graph>),
    /// A statistic.
    Statistic(Published),
    /// Nothing new: a released model was tested again.
    Nothing,
}

/// Why an attempt is lost. What it was charged stays charged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Lost(pub(crate) String);

/// Why an attempt has no result, whatever the cause: its time was over, a read failed or a defect panicked. Each of
/// these can depend on rows, so all have one text.
const NO_RESULT: &str = "it ended without a result, for example because its time was over; if this repeats, raise time in \
                         [limits], take fewer steps or a smaller model";

impl Lost {
    /// The attempt ended in a way that could depend on rows.
    pub(crate) fn without_result() -> Self {
        Self(NO_RESULT.to_owned())
    }

    fn because(error: impl fmt::Display) -> Self {
        Self(error.to_string())
    }
}

/// The risks of one attempt: of accepting wrongly, and of rejecting wrongly.
fn risks(pipeline: &Pipeline, attempt: &Attempt) -> Result<(Risk, Option<Risk>), Lost> {
    let validate = pipeline.validate.as_ref();
    let confidence = Confidence::new(validate.map_or(DEFAULT_CONFIDENCE, |validate| validate.confidence));
    let rejection = match validate.is_some_and(|validate| validate.reject) {
        true => Rejection::ByAny(std::num::NonZeroU32::MIN),
        false => Rejection::Never,
    };
    let risks = confidence.map_err(Lost::because)?.risks(rejection);
    let own = |risk: Risk| Risk::new(risk.chance() / attempt.risk_divisor as f64).map_err(Lost::because);
    Ok((own(risks.accept)?, risks.reject.map(own).transpose()?))
}

/// With which confidence intervals are stated where a pipeline has no target.
const DEFAULT_CONFIDENCE: f64 = 0.95;
