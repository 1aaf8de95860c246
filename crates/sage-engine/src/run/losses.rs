//! The losses of rows in a validation: of the fitted model, and of the best constant prediction.

use sage_kernel::noise::NoiseSource;
use sage_kernel::{Lane, Session, TableNoise};
use sage_learn::encode::{Encoded, Example};
use sage_learn::statistics::Shares;
use sage_learn::validate::Risk;

use super::AttemptFailure;
use super::constant::best_constant;
use crate::learners::FittedModel;
use crate::metrics::{BestConstant, Metric};
use crate::pipeline::Validate;
use crate::plan::Inputs;

/// The loss of a row.
pub(super) type RowLoss<'test> = Box<dyn Fn(&Example<'_>) -> f64 + 'test>;

/// A constant prediction that a model must be better than.
pub(super) struct ConstantBaseline<'test> {
    /// Its loss.
    pub(super) loss: RowLoss<'test>,
    /// By how much another constant can be better.
    pub(super) gap: f64,
}

/// The loss of a fitted model.
pub(super) fn model_loss<'test>(
    metric: &'test dyn Metric, fitted: &'test dyn FittedModel, inputs: &Inputs,
) -> Result<RowLoss<'test>, AttemptFailure> {
    let (width, count) = (inputs.label_width(), inputs.classes().len());
    if count == 0 {
        let predict = fitted.predictor();
        return Ok(Box::new(move |row| metric.loss(f64::from(row.label), predict(row), width)));
    }
    let (metric, predict) = metric.several_classes().zip(fitted.class_predictor()).ok_or_else(not_several)?;
    Ok(Box::new(move |row| {
        let mut found = vec![f32::NAN; count];
        predict(row, &mut found);
        metric.class_loss(row.label as usize, &found)
    }))
}

fn not_several() -> AttemptFailure {
    AttemptFailure("its learner or its metric does not predict several classes".to_owned())
}

/// The best constant prediction, from the private mean of the label or the private shares of the classes on the train
/// lane. Of a unit of several records, which are in random order, the first counts for its class.
pub(super) fn constant<'test, N: NoiseSource>(
    session: &mut Session<Encoded, N>, inputs: &Inputs, validate: &'test Validate, noise: TableNoise, risk: Risk,
) -> Result<ConstantBaseline<'test>, AttemptFailure> {
    let (metric, width, count) = (&*validate.metric, inputs.label_width(), inputs.classes().len());
    if count == 0 {
        let BestConstant { prediction, gap } = best_constant(session, inputs, validate, noise, risk)?;
        let loss = move |row: &Example<'_>| metric.loss(f64::from(row.label), prediction, width);
        return Ok(ConstantBaseline { loss: Box::new(loss), gap });
    }
    let metric = metric.several_classes().ok_or_else(not_several)?;
    let shares = Shares { classes: u32::try_from(count).unwrap_or(u32::MAX), noise };
    let shares = shares.run(session, Lane::Train, risk.of_equal_parts(), |row| Some(row.label as u32));
    let best = metric.best_class_shares(&shares.map_err(AttemptFailure::because)?);
    let loss = move |row: &Example<'_>| metric.class_loss(row.label as usize, &best.probabilities);
    Ok(ConstantBaseline { loss: Box::new(loss), gap: best.gap })
}
