//! Block summaries for ridge regression on the train lane.
//!
//! A linear model is a function of sums over rows, so a block that was summarised for one attempt need not be read for the
//! next. The summaries must be exactly those that training and the rejection certificate request from the session.

use sage_kernel::{MomentBounds, Part, Permit, Rows, Summary, Tag};
use sage_learn::encode::{Encoded, Layout};
use sage_learn::linear::AdaSsp;
use sage_learn::statistics::StatisticError;

use super::model::{certificate_bounds, certificate_row};
use crate::pipeline::{Metric, Train};
use crate::plan::{AttemptCost, Inputs, Recipe, TrainingNoise, linear_learner};

/// The block summaries that a linear model needs.
pub(crate) struct LinearSummaries<'recipe> {
    inputs: &'recipe Inputs,
    learner: AdaSsp,
    /// The bounds of the rejection certificate, if it needs summaries of its own.
    certificate: Option<MomentBounds>,
}

impl<'recipe> LinearSummaries<'recipe> {
    /// The summaries of a pipeline; `None` if training needs the rows themselves: for group means that are fitted in the
    /// session, for the accuracy of the best classifier, or for another learner.
    pub(crate) fn new(recipe: &'recipe Recipe, cost: &AttemptCost) -> Option<Self> {
        let (Train::Ridge(term), TrainingNoise::Moments(sigma)) = (&recipe.pipeline().train, &cost.noises.train) else {
            return None;
        };
        let inputs = recipe.inputs()?;
        let rejects = cost.noises.reject.is_some();
        let metric = recipe.pipeline().validate.as_ref().map(|validate| validate.metric);
        let unfitted = inputs.encoding().joins().any(|(.., join)| join.table.is_empty());
        if unfitted || rejects && metric == Some(Metric::Accuracy) {
            return None;
        }
        let learner = linear_learner(inputs, *sigma, *term).ok()?;
        // With dense features, the certificate uses the same moments as training.
        let trained = learner.place_bounds().is_none().then(|| learner.moment_bounds());
        let certificate =
            rejects.then(|| certificate_bounds(inputs.encoding().layout())).filter(|bounds| trained != Some(*bounds));
        Some(Self { inputs, learner, certificate })
    }

    /// Describes the encoding and the bounds of all sums, for the tag of cached summaries.
    pub(crate) fn description(&self) -> String {
        let bounds = (self.learner.place_bounds(), self.learner.moment_bounds(), self.certificate);
        format!("moments {:?} {bounds:?}", self.inputs.encoding().stated())
    }

    /// Summarises a block. Returns no summaries if they would be larger than the rows: small blocks are read quickly.
    pub(crate) fn summarise(
        &self, permit: &Permit, (part, tag): (Part, Tag), rows: &[Encoded],
    ) -> Result<Vec<Summary>, StatisticError> {
        let layout = self.inputs.encoding().layout();
        let count: usize = rows.iter().map(Rows::count).sum();
        let summaries = 1 + usize::from(self.certificate.is_some());
        if summaries * summary_bytes(layout) > count * row_bytes(layout) {
            return Ok(Vec::new());
        }
        let Some(trained) = self.learner.summarise(permit, (part, tag), rows)? else { return Ok(Vec::new()) };
        let Some(bounds) = self.certificate else { return Ok(vec![trained]) };
        let certificate =
            permit.summarise_moments(part, tag, bounds, rows, |row, features| certificate_row(&row, features))?;
        Ok(certificate.map_or_else(Vec::new, |certificate| vec![trained, certificate]))
    }
}

/// The size of a block's moments in bytes.
const fn summary_bytes(layout: Layout) -> usize {
    let width = layout.inputs() as usize + 1;
    (width + 1) * (width + 2) / 2 * size_of::<i64>()
}

/// The minimum size of an encoded row in bytes.
const fn row_bytes(layout: Layout) -> usize {
    (layout.numbers as usize + layout.named as usize + 1) * size_of::<f32>()
}
