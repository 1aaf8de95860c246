//! An attempt at a model: group means, training, the test on the other lane, the graph.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Epsilon, Lane, MomentBounds, Rows, Session, TableNoise};
use sage_learn::bundle::Model;
use sage_learn::encode::{Encoded, Example, LabelKind, Layout};
use sage_learn::linear::LinearModel;
use sage_learn::network::{self, Network, Rates, Training};
use sage_learn::statistics::fit_join;
use sage_learn::validate::decide::Tail;
use sage_learn::validate::{
    AccuracyCheck, AccuracyTarget, BestAnswersCheck, Bound, ComparisonCheck, ComparisonTarget, LeastLossCheck,
    LossCheck, LossTarget, Risk, Verdict,
};

use super::{Done, Lost, Product, Stage, Watch, risks};
use crate::adapt::Attempt;
use crate::pipeline::{Goal, Metric, Schedule, SgdConfig, TestBound, Train, Validate};
use crate::plan::{AttemptCost, Inputs, Recipe, TrainingNoise, linear_learner, network_shape};
use crate::read::{Batch, Row};

/// The longest weights of a linear model that can be rejected, for inputs scaled to [−1, 1] and labels from −1 to 1: as
/// one input moves across its scale, the prediction moves by at most so many times the label's range. The certificate
/// that no model does it speaks of this class, so training stays within it.
const WEIGHT_NORM: f64 = 16.0;

/// What was trained, of labels from 0 to 1 where they are numbers.
enum Fitted {
    Linear(LinearModel),
    Network(Network),
}

/// Runs an attempt on a session of its rows. Where a rival is to be beaten, its losses stand beside the rows, last.
pub(crate) fn train_and_test<N: NoiseSource>(
    mut session: Session<Encoded, N>, recipe: &Recipe, cost: &AttemptCost, attempt: &Attempt, threads: usize,
    watch: &dyn Watch,
) -> Result<Done, Lost> {
    watch.enter(Stage::Training)?;
    let none = |what: &str| Lost(format!("this pipeline has no {what}"));
    let inputs = recipe.inputs().ok_or_else(|| none("features"))?;
    let validate = recipe.pipeline().validate.as_ref().ok_or_else(|| none("target"))?;
    let mut encoding = inputs.encoding().clone();
    let unfitted = encoding.joins().filter(|(.., join)| join.table.is_empty());
    let joins: Vec<String> = unfitted.map(|(name, ..)| name.to_owned()).collect();
    for name in &joins {
        let noise = cost.noises.features.ok_or_else(|| none("budget for features"))?;
        encoding = fit_join(&mut session, &encoding, name, noise).map_err(Lost::because)?;
    }
    let fitted = fit(&mut session, recipe, inputs, cost, threads, watch)?;
    watch.enter(Stage::Validating)?;
    let test = Test { inputs, validate, fitted: &fitted };
    let (accept, reject) = risks(recipe.pipeline(), attempt)?;
    let accepting = test.run(&mut session, cost, accept)?;
    let mut rejecting = Vec::new();
    if let (Some(risk), Some(epsilon)) = (reject, cost.noises.reject) {
        rejecting.push(test.out_of_reach(&mut session, epsilon, risk)?);
    }
    let verdict = Verdict::together(vec![accepting], rejecting);
    let stretched = stretched(fitted, inputs.label())?;
    let model = match &stretched {
        Fitted::Linear(model) => Model::Linear(model),
        Fitted::Network(network) => Model::Network(network),
    };
    let graph = inputs.graph(&encoding).and_then(|fields| fields.with(model)).map_err(Lost::because)?;
    Ok(Done { finished: session.finish(), verdict, product: Product::Model(Box::new(graph)) })
}

fn fit<N: NoiseSource>(
    session: &mut Session<Encoded, N>, recipe: &Recipe, inputs: &Inputs, cost: &AttemptCost, threads: usize,
    watch: &dyn Watch,
) -> Result<Fitted, Lost> {
    let mut descend = |layers: &[u32], sgd: &SgdConfig, plan: &network::Plan| {
        let start = Network::new(network_shape(inputs, layers).map_err(Lost::because)?, START);
        let mut stopped = None;
        let mut goes_on = |step: u32| {
            stopped = watch.step(step, plan.steps()).err();
            stopped.is_none()
        };
        let training = training(sgd, threads);
        let network = network::train_while(session, Lane::Train, plan, &training, start, &mut goes_on);
        network.map(Fitted::Network).map_err(|error| stopped.unwrap_or_else(|| Lost::because(error)))
    };
    match (&recipe.pipeline().train, &cost.noises.train) {
        (Train::Logistic(sgd), TrainingNoise::Steps(plan)) => descend(&[], sgd, plan),
        (Train::Network { layers, sgd }, TrainingNoise::Steps(plan)) => descend(layers, sgd, plan),
        (Train::Ridge(term), TrainingNoise::Moments(sigma)) => {
            let mut learner = linear_learner(inputs, *sigma, *term).map_err(Lost::because)?;
            if cost.noises.reject.is_some() {
                learner = learner.with_weight_norm(WEIGHT_NORM).map_err(Lost::because)?;
            }
            learner.train(session, Lane::Train).map(Fitted::Linear).map_err(Lost::because)
        }
        _ => Err(Lost("the cost is of another kind of training".to_owned())),
    }
}

/// Where the weights of networks start from: public, and the same for everyone.
const START: u64 = 1;

fn training(sgd: &SgdConfig, threads: usize) -> Training {
    let start = sgd.learning_rate;
    let rates = match sgd.schedule {
        Schedule::Constant => Rates::Constant(start),
        Schedule::Cosine => Rates::Cosine(start),
        Schedule::Stepwise { factor, every } => Rates::Stepwise { start, factor, every },
    };
    Training { rates, momentum: sgd.momentum, decay: sgd.decay, threads }
}

/// The model of labels in their own units.
fn stretched(fitted: Fitted, label: Option<(f64, f64)>) -> Result<Fitted, Lost> {
    Ok(match (fitted, label) {
        (Fitted::Linear(model), Some(bounds)) => Fitted::Linear(model.stretched(bounds)),
        (Fitted::Network(network), Some(bounds)) => {
            let diverged = || Lost("a weight left the range of numbers; take a smaller learning rate".to_owned());
            Fitted::Network(network.stretched(bounds).ok_or_else(diverged)?)
        }
        (fitted, None) => fitted,
    })
}

/// The bounds of the moments that the certificate is made from.
pub(super) fn least_bounds(layout: Layout) -> MomentBounds {
    let feature_norm = f64::from(layout.numbers + layout.named + 1).sqrt();
    MomentBounds { width: layout.inputs() + 1, feature_norm, label_size: 1.0 }
}

/// The features of a row, and its label from −1 to 1, as the certificate takes them.
pub(super) fn dense(row: &Example<'_>, features: &mut [f64]) -> f64 {
    row.fill_features(features);
    2.0 * f64::from(row.label) - 1.0
}

/// The test of one attempt.
struct Test<'attempt> {
    inputs: &'attempt Inputs,
    validate: &'attempt Validate,
    fitted: &'attempt Fitted,
}

impl Test<'_> {
    fn run<N: NoiseSource>(
        &self, session: &mut Session<Encoded, N>, cost: &AttemptCost, risk: Risk,
    ) -> Result<Verdict, Lost> {
        let noise = cost.noises.validate.ok_or_else(|| Lost("this pipeline has no budget for a test".to_owned()))?;
        let metric = self.validate.metric;
        let predict = self.predict();
        let loss = |row: &Example<'_>| {
            let width = self.inputs.label().map_or(1.0, |(low, high)| high - low);
            row_loss(metric, f64::from(row.label), predict(row), width)
        };
        match &self.validate.goal {
            Goal::BetterThan { margin, .. } => {
                let target = ComparisonTarget::new(*margin, metric.bound().unwrap_or(1.0)).map_err(Lost::because)?;
                let check = ComparisonCheck { target, tail: Tail::KullbackLeibler, noise, risk };
                let old = |row: &Example<'_>| row.beside.last().map_or(0.0, |loss| f64::from(*loss));
                check.run(session, |row| (loss(&row), old(&row))).map_err(Lost::because)
            }
            Goal::Target(target) => against(self.validate, *target, noise, risk, session, |row| Some(loss(&row))),
        }
    }

    /// What the model expects of a row, as rows hold their labels.
    fn predict(&self) -> Box<dyn Fn(&Example<'_>) -> f64 + '_> {
        match self.fitted {
            Fitted::Linear(model) => Box::new(|row| model.predict(row)),
            Fitted::Network(network) => {
                let one = network.one_by_one();
                Box::new(move |row| f64::from(one.forward(row)))
            }
        }
    }

    /// The test of whether any model could do it that sees what this one sees.
    fn out_of_reach<N: NoiseSource>(
        &self, session: &mut Session<Encoded, N>, epsilon: Epsilon, risk: Risk,
    ) -> Result<Verdict, Lost> {
        let encoding = self.inputs.encoding();
        let verdict = match (self.validate.metric, &self.validate.goal) {
            (Metric::Accuracy, Goal::Target(target)) => {
                let cells = encoding.cells().ok_or_else(|| Lost("the features are no categories".to_owned()))?;
                let target = AccuracyTarget::new(*target).map_err(Lost::because)?;
                let answers = std::num::NonZeroU32::MIN.saturating_add(1);
                let noise = TableNoise::Laplace(epsilon);
                let check = BestAnswersCheck { target, keys: cells.count(), answers, noise, risk };
                check.run(session, |row| Some((cells.of(row.places)?, u32::from(row.label >= 0.5))))
            }
            _ => self.least(epsilon, risk)?.run(session, |row, features| dense(&row, features)),
        };
        verdict.map_err(Lost::because)
    }

    /// The test of whether any linear model could do it.
    fn least(&self, epsilon: Epsilon, risk: Risk) -> Result<LeastLossCheck, Lost> {
        let bounds = least_bounds(self.inputs.encoding().layout());
        let half = self.inputs.label().map_or(0.5, |(low, high)| 0.5 * (high - low));
        let Goal::Target(target) = self.validate.goal else {
            return Err(Lost("only a target can be out of reach".to_owned()));
        };
        let square = half * half;
        let check = LeastLossCheck::new(target / square, bounds, WEIGHT_NORM, Tail::KullbackLeibler, epsilon, risk);
        check.map(|check| check.shown_in(square)).map_err(Lost::because)
    }
}

/// Whether the losses of a session's rows meet a target. Rows without a loss are not counted.
fn against<R: Rows, N: NoiseSource>(
    validate: &Validate, target: f64, noise: TableNoise, risk: Risk, session: &mut Session<R, N>,
    loss: impl Fn(R::Row<'_>) -> Option<f64>,
) -> Result<Verdict, Lost> {
    let ran = match validate.metric {
        Metric::Accuracy => {
            let target = AccuracyTarget::new(target).map_err(Lost::because)?;
            AccuracyCheck { target, noise, risk }.run(session, |row| loss(row).map(|loss| loss == 0.0))
        }
        metric => {
            let target = LossTarget::new(target, metric.bound().unwrap_or(1.0)).map_err(Lost::because)?;
            LossCheck { target, bound: bound(validate.test), noise, risk }.run(session, loss)
        }
    };
    ran.map_err(Lost::because)
}

/// The test of a model that came from a program of its author's.
///
/// Also of one that was released before.
pub(crate) struct OwnTest<'attempt> {
    pub(crate) recipe: &'attempt Recipe,
    pub(crate) cost: &'attempt AttemptCost,
    pub(crate) attempt: &'attempt Attempt,
    /// The bounds of a label that is a number.
    pub(crate) bounds: Option<(f64, f64)>,
}

impl OwnTest<'_> {
    /// Tests predictions against the label, which is the first column of the rows, and a target. Rows without a label,
    /// and rows for which `predict` returns `None`, are left out of the sum and of the count.
    pub(crate) fn run<N: NoiseSource>(
        &self, session: &mut Session<Batch, N>, predict: impl Fn(Row<'_>) -> Option<f64>,
    ) -> Result<Verdict, Lost> {
        let (validate, noise, risk) = self.parts()?;
        let Goal::Target(target) = validate.goal else { return Err(Lost("this test needs a rival".to_owned())) };
        let loss = |row: Row<'_>| Some(row_loss(validate.metric, self.label(row)?, predict(row)?, 1.0));
        against(validate, target, noise, risk, session, loss)
    }

    /// Tests them against those of a rival, whose loss of a row follows from the row and its label.
    pub(crate) fn compare<N: NoiseSource>(
        &self, session: &mut Session<Batch, N>, predict: impl Fn(Row<'_>) -> Option<f64>,
        rival: impl Fn(Row<'_>, f64) -> f64,
    ) -> Result<Verdict, Lost> {
        let (validate, noise, risk) = self.parts()?;
        let Goal::BetterThan { margin, .. } = validate.goal else {
            return Err(Lost("this test has no rival".to_owned()));
        };
        let bound = validate.metric.bound().unwrap_or(1.0);
        let target = ComparisonTarget::new(margin, bound).map_err(Lost::because)?;
        let check = ComparisonCheck { target, tail: Tail::KullbackLeibler, noise, risk };
        let losses = |row: Row<'_>| {
            let label = self.label(row)?;
            Some((row_loss(validate.metric, label, predict(row)?, 1.0), rival(row, label)))
        };
        check.run(session, losses).map_err(Lost::because)
    }

    fn parts(&self) -> Result<(&Validate, TableNoise, Risk), Lost> {
        let none = |what: &str| Lost(format!("this pipeline has no {what}"));
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

/// The loss of a prediction, in the units of the label, which is so wide; for an accuracy, zero where it is right.
pub(crate) fn row_loss(metric: Metric, label: f64, predicted: f64, width: f64) -> f64 {
    let miss = (predicted - label) * width;
    match metric {
        Metric::SquaredError { .. } => miss * miss,
        Metric::AbsoluteError { .. } => miss.abs(),
        Metric::LogLoss { .. } => {
            let given = if label >= 0.5 { predicted } else { 1.0 - predicted };
            -given.max(f64::MIN_POSITIVE).ln()
        }
        // What is no number is wrong whatever the label: it would pass for the lower class otherwise.
        Metric::Accuracy | Metric::Precision => {
            f64::from(u8::from(predicted.is_nan() || (predicted >= 0.5) != (label >= 0.5)))
        }
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

#[cfg(test)]
mod tests {
    use super::*;

    /// Where a model has no answer, no metric counts one in its favour.
    #[test]
    fn what_is_no_number_is_never_right() {
        for label in [0.0, 1.0] {
            assert_eq!(row_loss(Metric::Accuracy, label, label, 1.0), 0.0);
            assert_eq!(row_loss(Metric::Accuracy, label, f64::NAN, 1.0), 1.0);
            assert!(row_loss(Metric::LogLoss { bound: 5.0 }, label, f64::NAN, 1.0) > 5.0);
            assert!(row_loss(Metric::SquaredError { bound: 5.0 }, label, f64::NAN, 1.0).is_nan());
        }
    }
}
