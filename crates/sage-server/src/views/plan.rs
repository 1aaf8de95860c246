//! What would happen to a pipeline if it were submitted now.

use sage_engine::plan::Preview;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Decimal;

/// The preview of a pipeline.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The pipeline.
    pub pipeline: String,
    /// The stream.
    pub stream: String,
    /// The first attempt.
    pub first_attempt: FirstAttempt,
    /// The costliest attempt that the limits allow.
    pub costliest_attempt: CostliestAttempt,
    /// Sealed blocks that admit the first attempt.
    pub blocks_that_admit_it: u32,
    /// Whether there are enough of them.
    pub starts_now: bool,
    /// How many more first attempts fit on the blocks of the first window.
    pub runs_left: u64,
    /// How many blocks are likely to be enough at several costs, cheapest first; empty until a count of rows was released
    /// or declared, or an attempt of this pipeline was judged.
    #[serde(default)]
    pub forecast: Vec<ForecastLine>,
    /// What to know before submitting it, such as a target that a constant prediction meets.
    #[serde(default)]
    pub warnings: Vec<String>,
}

/// How many blocks are likely to be enough at a cost.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ForecastLine {
    /// What an attempt costs each block.
    pub epsilon: Decimal,
    /// The number of blocks with which it has an even chance; `null` if no number within the limits is enough.
    pub blocks: Option<u32>,
}

/// The window and the cost of a first attempt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct FirstAttempt {
    /// Blocks that it reads.
    pub blocks: u32,
    /// The most that it costs each of them.
    pub epsilon: Decimal,
}

/// The cost of the costliest attempt.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CostliestAttempt {
    /// The most that it costs each block.
    pub epsilon: Decimal,
}

impl From<&Preview> for Plan {
    fn from(preview: &Preview) -> Self {
        Self {
            pipeline: preview.pipeline.clone(),
            stream: preview.stream.clone(),
            first_attempt: FirstAttempt { blocks: preview.window, epsilon: Decimal::from_exact(preview.first) },
            costliest_attempt: CostliestAttempt { epsilon: Decimal::from_exact(preview.most) },
            blocks_that_admit_it: preview.eligible,
            starts_now: preview.eligible >= preview.window,
            runs_left: preview.runs_left,
            warnings: preview.warnings.clone(),
            forecast: preview
                .forecast
                .iter()
                .map(|line| ForecastLine { epsilon: Decimal::from_exact(line.epsilon), blocks: line.blocks })
                .collect(),
        }
    }
}
