//! The budget of a training, as learners see it.

use sage_kernel::{Mechanism, Sigma, TableNoise};

use super::attempt_cost::require_noise;
use super::price::Prices;
use super::refusal::PlanRefusal;

/// What an attempt may spend on training. It finds the least noise that the budget pays for under the stream's filter.
#[derive(Clone, Copy)]
pub struct TrainingBudget<'filter> {
    pub(super) prices: Prices<'filter>,
    /// In units of the ledger.
    pub(super) most: u64,
    pub(super) rows: Option<f64>,
}

impl TrainingBudget<'_> {
    /// A released or declared number of the training rows; `None` if there is none.
    pub const fn rows(&self) -> Option<f64> {
        self.rows
    }

    /// A share of the budget, for one of several parts of a training.
    #[must_use]
    pub fn part(&self, share: f64) -> Self {
        Self { most: (self.most as f64 * share.clamp(0.0, 1.0)) as u64, ..*self }
    }

    /// The least σ with which these mechanisms cost at most the budget.
    ///
    /// # Errors
    /// If no noise is enough, or the filter has no price for a mechanism.
    pub fn least_sigma(&self, mechanisms: impl Fn(Sigma) -> Vec<Mechanism>) -> Result<Sigma, PlanRefusal> {
        require_noise(self.prices.least_sigma(self.most, mechanisms)?, "train")
    }

    /// The least noise of each of `tables` tables that together cost at most the budget.
    ///
    /// # Errors
    /// If no noise is enough, or the filter has no price for it.
    pub fn table_noise(&self, tables: u32) -> Result<TableNoise, PlanRefusal> {
        require_noise(self.prices.table_noise(self.most, tables)?, "train")
    }
}
