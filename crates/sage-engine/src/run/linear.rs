//! What the train lane of a block is summed to where a linear model is fitted.
//!
//! A linear model is a function of sums over rows, so a block that was summed for one attempt need not be read for the
//! next. It must sum exactly what training and the test of hopeless classes ask the session for.

use sage_kernel::{MomentBounds, Part, Permit, Rows, Summary, Tag};
use sage_learn::encode::{Encoded, Layout};
use sage_learn::linear::AdaSsp;
use sage_learn::statistics::StatisticError;

use super::model::{dense, least_bounds};
use crate::pipeline::{Metric, Train};
use crate::plan::{AttemptCost, Inputs, Recipe, TrainingNoise, linear_learner};

/// The sums of a linear model.
pub(crate) struct LinearSums<'recipe> {
    inputs: &'recipe Inputs,
    learner: AdaSsp,
    /// The bounds of the test that no linear model does it, where there is one that asks for sums of its own.
    least: Option<MomentBounds>,
}

impl<'recipe> LinearSums<'recipe> {
    /// Those of a pipeline; nothing where it asks something else of the rows it learns from: means by group that are
    /// fitted in the session and put into its rows, how often the best classifier is right, or another learner's steps.
    pub(crate) fn of(recipe: &'recipe Recipe, cost: &AttemptCost) -> Option<Self> {
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
        // Where rows have numbers, the test asks for the sums that training asks for.
        let trained = learner.place_bounds().is_none().then(|| learner.moment_bounds());
        let least = rejects.then(|| least_bounds(inputs.encoding().layout())).filter(|least| trained != Some(*least));
        Some(Self { inputs, learner, least })
    }

    /// How rows are encoded, and which sums with which bounds are made of them.
    pub(crate) fn what(&self) -> String {
        let bounds = (self.learner.place_bounds(), self.learner.moment_bounds(), self.least);
        format!("moments {:?} {bounds:?}", self.inputs.encoding().stated())
    }

    /// The sums of a block. None where its rows take less room: a small block is read quickly.
    pub(crate) fn sum(
        &self, permit: &Permit, (part, tag): (Part, Tag), rows: &[Encoded],
    ) -> Result<Vec<Summary>, StatisticError> {
        let layout = self.inputs.encoding().layout();
        let count: usize = rows.iter().map(Rows::count).sum();
        let summaries = 1 + usize::from(self.least.is_some());
        if summaries * sum_bytes(layout) > count * row_bytes(layout) {
            return Ok(Vec::new());
        }
        let Some(trained) = self.learner.summarise(permit, (part, tag), rows)? else { return Ok(Vec::new()) };
        let Some(bounds) = self.least else { return Ok(vec![trained]) };
        let least = permit.summarise_moments(part, tag, bounds, rows, |row, features| dense(&row, features))?;
        Ok(least.map_or_else(Vec::new, |least| vec![trained, least]))
    }
}

/// How many bytes the moments of a block take.
const fn sum_bytes(layout: Layout) -> usize {
    let width = layout.inputs() as usize + 1;
    (width + 1) * (width + 2) / 2 * size_of::<i64>()
}

/// How many bytes an encoded row takes, at least.
const fn row_bytes(layout: Layout) -> usize {
    (layout.numbers as usize + layout.named as usize + 1) * size_of::<f32>()
}
