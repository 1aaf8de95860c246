//! Private counts of a stream's units.

use sage_engine::{CensusView, RangeCount};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A census; all fields but `stream` and `counts` are `null` where the stream has none.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Census {
    /// The stream.
    pub stream: String,
    /// The unit that is counted.
    pub unit: Option<String>,
    /// What the census may cost each lane of a block.
    pub epsilon: Option<String>,
    /// For how many blocks the running count is most accurate.
    pub horizon: Option<u32>,
    /// The estimated number of units in all counted blocks.
    pub estimate: Option<i64>,
    /// A lower bound of that number.
    pub at_least: Option<i64>,
    /// The confidence with which the bounds of this census hold together.
    pub confidence: Option<f64>,
    /// Every released count.
    pub counts: Vec<CensusCount>,
}

/// The released count of a range of blocks.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CensusCount {
    /// The first block.
    pub first: String,
    /// The last block.
    pub last: String,
    /// Units on the train lane.
    pub train: i64,
    /// Units on the test lane.
    pub test: i64,
}

impl Census {
    /// The census of a stream.
    #[must_use]
    pub fn new(stream: &str, census: Option<&CensusView>) -> Self {
        let total = census.and_then(|census| census.total);
        let counts = census.map_or(&[][..], |census| &census.counts);
        Self {
            stream: stream.to_owned(),
            unit: census.map(|census| census.unit.to_owned()),
            epsilon: census.map(|census| census.epsilon.to_string()),
            horizon: census.map(|census| census.horizon),
            estimate: total.map(|total| total.estimate),
            at_least: total.map(|total| total.at_least),
            confidence: total.map(|total| 1.0 - total.chance),
            counts: counts.iter().map(CensusCount::from).collect(),
        }
    }
}

impl From<&RangeCount> for CensusCount {
    fn from(count: &RangeCount) -> Self {
        let [train, test] = count.lanes;
        Self { first: count.first.clone(), last: count.last.clone(), train, test }
    }
}
