//! The best constant prediction: the baseline of `better_than = "constant"`, and the value that every other verdict of a
//! model is shown beside.

use std::num::NonZeroU32;

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Rows, Session, TableNoise};
use sage_learn::encode::{Encoded, UnitExamples};
use sage_learn::statistics::Mean;
use sage_learn::validate::{Decision, Estimate, LabelLimits, LabelSums, Risk, Verdict};

use super::AttemptFailure;
use super::unit::mean;
use crate::metrics::{BestConstant, Metric};
use crate::pipeline::{Goal, Train, Validate};
use crate::plan::Inputs;

/// The warning of an accepted model whose target shows nothing.
const CONSTANT_MEETS_IT: &str = " Warning: some constant prediction meets this target whatever the rows are; require \
                                 better_than = \"constant\" to show that the model has learnt from its features.";

/// Whether some constant prediction meets the target for all rows, for a label with a range of this width, or of several
/// classes.
pub(crate) fn is_met_by_a_constant(validate: &Validate, (width, classes): (f64, usize)) -> bool {
    let value = match classes {
        0 => validate.metric.certain_value(width),
        count => validate.metric.several_classes().map(|metric| metric.certain_class_value(count)),
    };
    matches!((&validate.goal, value), (Goal::Target(target), Some(value)) if validate.metric.test().meets(value, *target))
}

/// Whether the metric of the best constant depends on the moments of the labels, and on nothing else of them.
fn needs_label_sums(metric: &dyn Metric) -> bool {
    let unknown = metric.best_constant_value(&LabelLimits::UNKNOWN, 1.0);
    unknown.is_some_and(|constant| constant.low < constant.high)
}

/// Whether an attempt releases the sums of the labels on the test lane, because its training does not.
pub(crate) fn releases_label_sums(train: &Train, validate: Option<&Validate>) -> bool {
    let released_in_training = match train {
        Train::Model(learner) => learner.releases_label_sums(),
        Train::Command { .. } | Train::Released { .. } => false,
        Train::Statistic(_) => return false,
    };
    let shown = |one: &Validate| matches!(one.goal, Goal::Target(_)) && needs_label_sums(&*one.metric);
    !released_in_training && validate.is_some_and(|validate| validate.all().any(shown))
}

/// The sums of the labels of the test lane, if the attempt was charged for them. Of a unit of several records, which are in
/// random order, the first counts.
pub(super) fn release_label_sums<R: Rows, N: NoiseSource>(
    session: &mut Session<R, N>, noise: Option<TableNoise>, label: impl Fn(R::Row<'_>) -> Option<f64>,
) -> Result<Option<LabelSums>, AttemptFailure> {
    let release = |noise| LabelSums::release(session, Lane::Test, noise, label);
    noise.map(release).transpose().map_err(AttemptFailure::because)
}

/// Adds the best constant prediction to the verdict of each metric, with the name of the metric if there are several, and
/// returns the value of the first metric for it.
pub(super) fn compare_all(
    verdicts: &mut [Verdict], validate: &Validate, labels: Option<LabelSums>, risk: Risk, label: (f64, usize),
) -> Option<Estimate> {
    let compared = |(verdict, one): (&mut Verdict, &Validate)| {
        let constant = compare(verdict, one, labels, risk, label);
        if !validate.also.is_empty() {
            let named = format!("{} ({}): {}", one.metric.kind().heading, verdict.decision, verdict.explanation);
            verdict.explanation = named;
        }
        constant
    };
    verdicts.iter_mut().zip(validate.all()).map(compared).collect::<Vec<_>>().into_iter().next().flatten()
}

/// Adds the best constant prediction to a verdict and returns the value of the metric for it, for a label with a range
/// of this width.
fn compare(
    verdict: &mut Verdict, validate: &Validate, labels: Option<LabelSums>, risk: Risk, (width, classes): (f64, usize),
) -> Option<Estimate> {
    let certain = is_met_by_a_constant(validate, (width, classes));
    if verdict.decision == Decision::Accept && certain {
        verdict.explanation.push_str(CONSTANT_MEETS_IT);
    }
    let Goal::Target(target) = validate.goal else { return None };
    if classes > 0 {
        return None;
    }
    // The other half of the risk is for the limits of the model's own estimate.
    let half = risk.split(NonZeroU32::MIN.saturating_add(1));
    let limits = labels.map_or(LabelLimits::UNKNOWN, |labels| labels.limits(half));
    let known = labels.is_some() || !needs_label_sums(&*validate.metric);
    let constant = validate.metric.best_constant_value(&limits, width).filter(|_| known)?;
    if !certain {
        verdict.compare_with_constant(constant, target, validate.metric.test().direction() == "at least");
    }
    Some(constant)
}

/// The best constant prediction, from the private mean of the label on the train lane.
pub(super) fn best_constant<N: NoiseSource>(
    session: &mut Session<Encoded, N>, inputs: &Inputs, validate: &Validate, noise: TableNoise, risk: Risk,
) -> Result<BestConstant, AttemptFailure> {
    let label_mean = Mean { bounds: (0.0, 1.0), noise };
    let label =
        |row: UnitExamples<'_>| mean(row.records().map(|record| Some(f64::from(record.label)))).unwrap_or(f64::NAN);
    let estimate =
        label_mean.run(session, Lane::Train, risk.of_equal_parts(), label).map_err(AttemptFailure::because)?;
    let best = validate.metric.best_constant(estimate, inputs.label_width());
    best.ok_or_else(|| AttemptFailure("this metric has no best constant".to_owned()))
}
