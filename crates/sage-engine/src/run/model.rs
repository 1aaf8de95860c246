//! An attempt at a model: group means, training, validation on the test lane, and the graph.

use std::num::NonZeroU32;

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Contribution, Epsilon, MomentBounds, Rows, Session, TableNoise};
use sage_learn::encode::{Encoded, Example, LabelKind, Layout, UnitExamples};
use sage_learn::statistics::fit_join;
use sage_learn::validate::decide::Tail;
use sage_learn::validate::{
    AccuracyCheck, AccuracyTarget, AucCheck, AucTarget, BestAnswersCheck, Bound, ComparisonCheck, ComparisonTarget,
    Estimate, LeastLossCheck, LossCheck, LossTarget, Risk, Verdict,
};

use super::constant::{compare_all, release_label_sums};
use super::losses::{self, ConstantBaseline};
use super::unit::{mean_loss, turns};
use super::{AttemptFailure, AttemptObserver, AttemptResult, Product, Stage, risks};
use crate::adapt::Attempt;
use crate::learners::{BlockSums, FittedModel, Fitting};
use crate::metrics::{MetricTest, RejectionTest, position};
use crate::pipeline::{Goal, TestBound, Train, Validate};
use crate::plan::{AttemptCost, Inputs, Recipe, TrainingNoise};
use crate::read::{Batch, Row};

/// The norm bound on the weights of a linear model that can be rejected, for inputs in [−1, 1] and labels in [−1, 1]:
/// as one input moves across its range, the prediction moves by at most this multiple of the label's range. The
/// rejection certificate covers this class of models, so training stays within it.
const WEIGHT_NORM: f64 = 16.0;

/// Trains and validates a model on a session. With a baseline, its losses are the last value beside each row.
pub(crate) fn train_and_test(
    mut session: Session<Encoded>, recipe: &Recipe, cost: &AttemptCost, attempt: &Attempt, threads: usize,
    observer: &dyn AttemptObserver,
) -> Result<AttemptResult, AttemptFailure> {
    observer.enter(Stage::Training)?;
    let none = |what: &str| AttemptFailure(format!("this pipeline has no {what}"));
    let inputs = recipe.inputs().ok_or_else(|| none("features"))?;
    let validate = recipe.pipeline().validate.as_ref().ok_or_else(|| none("target"))?;
    let mut encoding = inputs.encoding().clone();
    let unfitted = encoding.joins().filter(|(.., join)| join.table.is_empty());
    let joins: Vec<String> = unfitted.map(|(name, ..)| name.to_owned()).collect();
    for name in &joins {
        let noise = cost.noises.features.ok_or_else(|| none("budget for features"))?;
        encoding = fit_join(&mut session, &encoding, name, noise).map_err(AttemptFailure::because)?;
    }
    let fitted = fit(&mut session, recipe, inputs, cost, threads, observer)?;
    observer.enter(Stage::Validating)?;
    let (accept, reject) = risks(recipe.pipeline(), attempt)?;
    let (accept, constant) = match cost.noises.constant {
        // One half of the risk is for the limits of the label's mean, the other for the comparison.
        Some(noise) => {
            let half = accept.split(NonZeroU32::MIN.saturating_add(1));
            (half, Some(losses::constant(&mut session, inputs, validate, noise, half)?))
        }
        None => (accept, None),
    };
    let test = Test { inputs, validate, fitted: &*fitted, constant: constant.as_ref() };
    let mut accepting = Vec::with_capacity(1 + validate.also.len());
    for validate in validate.all() {
        accepting.push(Test { validate, ..test }.run(&mut session, cost, accept)?);
    }
    let mut rejecting = Vec::new();
    if let (Some(risk), Some(epsilon)) = (reject, cost.noises.reject) {
        rejecting.push(test.test_rejection(&mut session, epsilon, risk)?);
    }
    let released = release_label_sums(&mut session, cost.noises.labels, |row| Some(f64::from(row.label)))?;
    let labels = fitted.label_sums().or(released);
    let best_constant =
        compare_all(&mut accepting, validate, labels, accept, (inputs.label_width(), inputs.classes().len()));
    let verdict = Verdict::together(accepting, rejecting);
    let fields = inputs.graph(&encoding).map_err(AttemptFailure::because)?;
    let graph = fitted.graph(fields, inputs.label()).map_err(AttemptFailure::because)?;
    let graph = graph.with_classes(inputs.classes()).map_err(AttemptFailure::because)?;
    let product = Product::Model(Box::new(graph));
    Ok(AttemptResult { finished: session.finish(), verdict, best_constant, product })
}

fn fit(
    session: &mut Session<Encoded>, recipe: &Recipe, inputs: &Inputs, cost: &AttemptCost, threads: usize,
    observer: &dyn AttemptObserver,
) -> Result<Box<dyn FittedModel>, AttemptFailure> {
    let (Train::Model(learner), TrainingNoise::Model(charged)) = (&recipe.pipeline().train, &cost.noises.train) else {
        return Err(AttemptFailure("the charge is for another kind of training".to_owned()));
    };
    let weight_norm = cost.noises.reject.map(|_| WEIGHT_NORM);
    learner.fit(session, &Fitting { inputs, charged, threads, weight_norm, observer }).map_err(AttemptFailure::because)
}

/// The sums that can replace the rows of blocks in an attempt. `None` if the attempt computes something else from its
/// training rows: group means that are fitted in the session, how often the best classifier is right, or a learner's own steps.
pub(crate) fn block_sums<'recipe>(recipe: &'recipe Recipe, cost: &AttemptCost) -> Option<Box<dyn BlockSums + 'recipe>> {
    let (Train::Model(learner), TrainingNoise::Model(charged)) = (&recipe.pipeline().train, &cost.noises.train) else {
        return None;
    };
    let inputs = recipe.inputs()?;
    let rejects = cost.noises.reject.is_some();
    let rejection = recipe.pipeline().validate.as_ref().and_then(|validate| validate.metric.rejection());
    let unfitted = inputs.encoding().joins().any(|(.., join)| join.table.is_empty());
    if unfitted || cost.noises.constant.is_some() || rejects && rejection == Some(RejectionTest::BestAnswers) {
        return None;
    }
    learner.block_sums(inputs, charged, rejects.then(|| certificate_bounds(inputs.encoding().layout())))
}

/// The moment bounds of the rejection certificate.
fn certificate_bounds(layout: Layout) -> MomentBounds {
    let feature_norm = f64::from(layout.numbers + layout.active + 1).sqrt();
    MomentBounds { width: layout.inputs() + 1, feature_norm, label_size: 1.0 }
}

/// Writes the features of a row for the certificate and returns its label, scaled to [−1, 1].
pub(crate) fn certificate_row(row: &Example<'_>, features: &mut [f64]) -> f64 {
    row.fill_features(features);
    2.0 * f64::from(row.label) - 1.0
}

/// The validation of one attempt.
#[derive(Clone, Copy)]
struct Test<'attempt> {
    inputs: &'attempt Inputs,
    validate: &'attempt Validate,
    fitted: &'attempt dyn FittedModel,
    /// The constant that the model must be better than, if there is one.
    constant: Option<&'attempt ConstantBaseline<'attempt>>,
}

impl Test<'_> {
    fn run<N: NoiseSource>(
        &self, session: &mut Session<Encoded, N>, cost: &AttemptCost, risk: Risk,
    ) -> Result<Verdict, AttemptFailure> {
        let noise =
            cost.noises.validate.ok_or_else(|| AttemptFailure("this pipeline has no budget for a test".to_owned()))?;
        let metric = &*self.validate.metric;
        let predict = self.fitted.predictor();
        let range = metric.test().range();
        let loss = losses::model_loss(metric, self.fitted, self.inputs)?;
        let unit_loss = |row: UnitExamples<'_>| mean_loss(row.records().map(|record| Some(loss(&record))), range);
        match (&self.validate.goal, self.constant) {
            (Goal::BetterThan { margin, .. }, Some(ConstantBaseline { loss: constant, gap })) => {
                // A margin at the range would not be a target. Just below it no sums are accepted either.
                let margin = (margin + gap).min(0.999_999 * range);
                let target = ComparisonTarget::new(margin, range).map_err(AttemptFailure::because)?;
                let check = ComparisonCheck { target, tail: Tail::KullbackLeibler, noise, risk };
                let old = |row: Example<'_>| Some(constant(&row));
                let losses = |row: UnitExamples<'_>| Some((unit_loss(row)?, mean_loss(row.records().map(old), range)?));
                let subject = "the model's mean loss less that of the best constant";
                check.run_as(subject, session, losses).map_err(AttemptFailure::because)
            }
            (Goal::BetterThan { margin, .. }, None) => {
                let target = ComparisonTarget::new(*margin, range).map_err(AttemptFailure::because)?;
                let check = ComparisonCheck { target, tail: Tail::KullbackLeibler, noise, risk };
                let old = |row: Example<'_>| Some(row.beside.last().map_or(0.0, |loss| f64::from(*loss)));
                let losses = |row: UnitExamples<'_>| Some((unit_loss(row)?, mean_loss(row.records().map(old), range)?));
                check.run(session, losses).map_err(AttemptFailure::because)
            }
            (Goal::Target(target), _) => {
                let share = self.fitted.label_sums().and_then(|labels| labels.mean()).unwrap_or(0.5);
                let several = self.inputs.contribution() != Contribution::ONE;
                let test = TargetTest { validate: self.validate, target: *target, several, share, noise, risk };
                let outcome = |row: UnitExamples<'_>| Some((f64::from(row.label), predict(&row)));
                test.run(session, unit_loss, outcome)
            }
        }
    }

    /// Tests whether any model with the same inputs can reach the target.
    fn test_rejection<N: NoiseSource>(
        &self, session: &mut Session<Encoded, N>, epsilon: Epsilon, risk: Risk,
    ) -> Result<Verdict, AttemptFailure> {
        let encoding = self.inputs.encoding();
        let verdict = match (self.validate.metric.rejection(), &self.validate.goal) {
            (Some(RejectionTest::BestAnswers), Goal::Target(target)) => {
                let cells = encoding
                    .cells()
                    .ok_or_else(|| AttemptFailure("the features are not all categorical".to_owned()))?;
                let target = AccuracyTarget::new(*target).map_err(AttemptFailure::because)?;
                let classes = u32::try_from(self.inputs.classes().len()).unwrap_or(u32::MAX);
                let answers = NonZeroU32::MIN.saturating_add(classes.max(2) - 1);
                let noise = TableNoise::Laplace(epsilon);
                let check = BestAnswersCheck { target, keys: cells.count(), answers, noise, risk };
                // The index of a class, or whether a class is true.
                check.run(session, |row| Some((cells.of(row.indices)?, row.label as u32)))
            }
            _ => self.least_loss_check(epsilon, risk)?.run(session, |row, features| certificate_row(&row, features)),
        };
        verdict.map_err(AttemptFailure::because)
    }

    /// The test of whether any linear model can reach the target.
    fn least_loss_check(&self, epsilon: Epsilon, risk: Risk) -> Result<LeastLossCheck, AttemptFailure> {
        let bounds = certificate_bounds(self.inputs.encoding().layout());
        let half = self.inputs.label().map_or(0.5, |(low, high)| 0.5 * (high - low));
        let Goal::Target(target) = self.validate.goal else {
            return Err(AttemptFailure("only a target can be out of reach".to_owned()));
        };
        let square = half * half;
        let check = LeastLossCheck::new(target / square, bounds, WEIGHT_NORM, Tail::KullbackLeibler, epsilon, risk);
        let contribution = turns(self.inputs.contribution());
        let check = check.map(|check| check.shown_in(square).with_contribution(contribution));
        check.map_err(AttemptFailure::because)
    }
}

/// A test of a model against a target.
struct TargetTest<'attempt> {
    validate: &'attempt Validate,
    target: f64,
    /// Whether a row is a unit of several records.
    several: bool,
    /// About which share of the rows is of the class; public or released.
    share: f64,
    noise: TableNoise,
    risk: Risk,
}

impl TargetTest<'_> {
    /// Runs the test. `loss` returns the loss of a row, of a unit of several records their mean loss; `outcome` the label
    /// and the prediction of a row, of a unit those of its first record. Rows without them are not counted.
    fn run<R: Rows, N: NoiseSource>(
        &self, session: &mut Session<R, N>, loss: impl Fn(R::Row<'_>) -> Option<f64>,
        outcome: impl Fn(R::Row<'_>) -> Option<(f64, f64)>,
    ) -> Result<Verdict, AttemptFailure> {
        let Self { validate, target, noise, risk, .. } = *self;
        let ran = match validate.metric.test() {
            MetricTest::CorrectShare => {
                let target = AccuracyTarget::new(target).map_err(AttemptFailure::because)?;
                let check = AccuracyCheck { target, noise, risk };
                match self.several {
                    true => check.run_shares(session, loss),
                    false => check.run(session, |row| loss(row).map(|loss| loss == 0.0)),
                }
            }
            MetricTest::Ranking { bins } => {
                let target = AucTarget::new(target).map_err(AttemptFailure::because)?;
                let bins = NonZeroU32::new(bins).unwrap_or(NonZeroU32::MIN);
                AucCheck { target, bins, noise, risk }.run(session, |row| {
                    let (label, predicted) = outcome(row)?;
                    Some((label >= 0.5, position(predicted, self.share)))
                })
            }
            test => {
                let target = LossTarget::new(target, test.range()).map_err(AttemptFailure::because)?;
                LossCheck { target, bound: bound(validate.test), noise, risk }.run(session, loss)
            }
        };
        ran.map_err(AttemptFailure::because)
    }
}

/// The validation of a model that a user's program made or that was released before.
pub(crate) struct ExternalModelTest<'attempt> {
    pub(crate) recipe: &'attempt Recipe,
    pub(crate) cost: &'attempt AttemptCost,
    pub(crate) attempt: &'attempt Attempt,
    /// The bounds of a numeric label.
    pub(crate) bounds: Option<(f64, f64)>,
}

impl ExternalModelTest<'_> {
    /// Tests the predictions against a target, and returns the metric of the best constant prediction beside the
    /// verdict. The label is the first column. Rows without a label or a prediction are left out of the sum and of the
    /// count.
    pub(crate) fn run<N: NoiseSource>(
        &self, session: &mut Session<Batch, N>, predict: impl Fn(Row<'_>) -> Option<f64>,
    ) -> Result<(Verdict, Option<Estimate>), AttemptFailure> {
        let (validate, noise, risk) = self.test_inputs()?;
        let several = self.recipe.contribution() != Contribution::ONE;
        let mut verdicts = Vec::with_capacity(1 + validate.also.len());
        for validate in validate.all() {
            let Goal::Target(target) = validate.goal else {
                return Err(AttemptFailure("this test needs a baseline model".to_owned()));
            };
            let test = TargetTest { validate, target, several, share: 0.5, noise, risk };
            let range = validate.metric.test().range();
            let outcome = |row: Row<'_>| Some((self.label(row)?, predict(row)?));
            let loss = |row: Row<'_>| {
                let (label, predicted) = outcome(row)?;
                Some(validate.metric.loss(label, predicted, 1.0))
            };
            verdicts.push(test.run(session, |row| mean_loss(row.in_turn().map(loss), range), outcome)?);
        }
        let (low, width) = self.bounds.map_or((0.0, 1.0), |(low, high)| (low, high - low));
        // The labels of the rows that are tested, as shares of their range.
        let label = |row: Row<'_>| predict(row).and(self.label(row)).map(|label| (label - low) / width);
        let labels = release_label_sums(session, self.cost.noises.labels, label)?;
        let best_constant = compare_all(&mut verdicts, validate, labels, risk, (width, 0));
        Ok((Verdict::together(verdicts, Vec::new()), best_constant))
    }

    /// Compares the predictions with those of a baseline, whose loss is a function of the row and its label.
    pub(crate) fn compare<N: NoiseSource>(
        &self, session: &mut Session<Batch, N>, predict: impl Fn(Row<'_>) -> Option<f64>,
        baseline: impl Fn(Row<'_>, f64) -> f64,
    ) -> Result<Verdict, AttemptFailure> {
        let (validate, noise, risk) = self.test_inputs()?;
        let Goal::BetterThan { margin, .. } = validate.goal else {
            return Err(AttemptFailure("this test has no baseline model".to_owned()));
        };
        let bound = validate.metric.test().range();
        let target = ComparisonTarget::new(margin, bound).map_err(AttemptFailure::because)?;
        let check = ComparisonCheck { target, tail: Tail::KullbackLeibler, noise, risk };
        let losses = |row: Row<'_>| {
            let label = self.label(row)?;
            Some((validate.metric.loss(label, predict(row)?, 1.0), baseline(row, label)))
        };
        // The losses of the records that have both.
        let new = |row: Row<'_>| losses(row).map(|(new, _)| new);
        let old = |row: Row<'_>| losses(row).map(|(_, old)| old);
        let unit_losses =
            |row: Row<'_>| Some((mean_loss(row.in_turn().map(new), bound)?, mean_loss(row.in_turn().map(old), bound)?));
        check.run(session, unit_losses).map_err(AttemptFailure::because)
    }

    fn test_inputs(&self) -> Result<(&Validate, TableNoise, Risk), AttemptFailure> {
        let none = |what: &str| AttemptFailure(format!("this pipeline has no {what}"));
        let validate = self.recipe.pipeline().validate.as_ref().ok_or_else(|| none("target"))?;
        let noise = self.cost.noises.validate.ok_or_else(|| none("budget for a test"))?;
        let (risk, _) = risks(self.recipe.pipeline(), self.attempt)?;
        Ok((validate, noise, risk))
    }

    /// The label of a row; `None` if it is missing.
    fn label(&self, row: Row<'_>) -> Option<f64> {
        let kind = self.bounds.map_or(LabelKind::Truth, |(low, high)| LabelKind::Number { low, high });
        kind.apply(row.number(0))
    }
}

const fn bound(test: TestBound) -> Bound {
    match test {
        TestBound::KullbackLeibler => Bound::OfPair(Tail::KullbackLeibler),
        TestBound::Bernstein => Bound::OfPair(Tail::Bernstein),
        TestBound::Hoeffding => Bound::OfPair(Tail::Hoeffding),
        TestBound::EmpiricalBernstein => Bound::EmpiricalBernstein,
    }
}
