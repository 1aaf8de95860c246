//! The moments of a block's training rows, which replace the rows in later attempts.
//!
//! A linear model is a function of sums over rows, so a block that was summed for one attempt need not be read for the
//! next. The sums must be exactly those that training and the rejection test request from the session.

use sage_kernel::{BlockPart, MomentBounds, Permit, Rows, Summary, SummaryTag};
use sage_learn::encode::{Encoded, Layout};
use sage_learn::linear::AdaSsp;
use sage_learn::statistics::StatisticError;

use crate::learners::BlockSums;
use crate::plan::Inputs;
use crate::run::{certificate_row, turns};

/// The sums of a linear model.
pub(super) struct MomentSums<'recipe> {
    inputs: &'recipe Inputs,
    learner: AdaSsp,
    /// The bounds of the rejection test's moments, if they differ from those of training.
    certificate: Option<MomentBounds>,
}

impl<'recipe> MomentSums<'recipe> {
    pub(super) fn new(inputs: &'recipe Inputs, learner: AdaSsp, certificate: Option<MomentBounds>) -> Self {
        // Where rows have numbers, the test uses the same sums as training.
        let trained = learner.one_hot_bounds().is_none().then(|| learner.moment_bounds());
        Self { inputs, learner, certificate: certificate.filter(|certificate| trained != Some(*certificate)) }
    }
}

impl BlockSums for MomentSums<'_> {
    fn key(&self) -> String {
        let bounds = (self.learner.one_hot_bounds(), self.learner.moment_bounds(), self.certificate);
        format!("moments {:?} {bounds:?}", self.inputs.encoding().stated())
    }

    /// Empty if the rows take less memory than the sums: a small block is read quickly.
    fn sum(
        &self, permit: &Permit, (part, tag): (BlockPart, SummaryTag), rows: &[Encoded],
    ) -> Result<Vec<Summary>, StatisticError> {
        let layout = self.inputs.encoding().layout();
        let count: usize = rows.iter().map(Rows::count).sum();
        let summaries = 1 + usize::from(self.certificate.is_some());
        if summaries * sum_bytes(layout) > count * row_bytes(layout) {
            return Ok(Vec::new());
        }
        let Some(trained) = self.learner.summarise(permit, (part, tag), rows)? else { return Ok(Vec::new()) };
        let Some(bounds) = self.certificate else { return Ok(vec![trained]) };
        let bounds = turns(self.inputs.contribution()).per_unit(bounds);
        let certificate =
            permit.summarise_moments(part, tag, bounds, rows, |row, features| certificate_row(&row, features))?;
        Ok(certificate.map_or_else(Vec::new, |certificate| vec![trained, certificate]))
    }
}

/// How many bytes the moments of a block take.
const fn sum_bytes(layout: Layout) -> usize {
    let width = layout.inputs() as usize + 1;
    (width + 1) * (width + 2) / 2 * size_of::<i64>()
}

/// How many bytes an encoded row takes, at least.
const fn row_bytes(layout: Layout) -> usize {
    (layout.numbers as usize + layout.active as usize + 1) * size_of::<f32>()
}
