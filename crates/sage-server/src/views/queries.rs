//! Private SQL: its plan and its result.

use std::collections::BTreeMap;

use sage_engine::query::{Cell, Line};
use sage_engine::{Delta, Epsilon, QueryCost, QueryPlan as EnginePlan, QueryResult as EngineResult};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// With `plan`, what a query would cost; otherwise its result.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum QueryResponse {
    /// The result.
    Result(QueryResult),
    /// The plan.
    Plan(QueryPlan),
}

/// What a query costs every block that it reads; the fields are `null` where nothing was charged.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueryCharge {
    /// What the ledger counts.
    pub epsilon: Option<LaneCosts>,
    /// The delta at which the ledger counts.
    pub delta: Option<String>,
    /// The requested cost, where the request names an epsilon.
    #[serde(alias = "asked")]
    pub requested: Option<RequestedCost>,
}

/// The cost of each lane.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LaneCosts {
    /// The train lane.
    pub train: String,
    /// The test lane.
    pub test: String,
}

/// A requested cost.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct RequestedCost {
    /// The epsilon.
    pub epsilon: String,
    /// The delta.
    pub delta: String,
}

impl QueryCharge {
    fn new(cost: Option<&QueryCost>) -> Self {
        let requested = |(epsilon, delta): (Epsilon, Delta)| RequestedCost {
            epsilon: epsilon.to_string(),
            delta: delta.to_string(),
        };
        let lanes = |[train, test]: [Epsilon; 2]| LaneCosts { train: train.to_string(), test: test.to_string() };
        Self {
            epsilon: cost.map(|cost| lanes(cost.counted)),
            delta: cost.map(|cost| cost.delta.to_string()),
            requested: cost.and_then(|cost| cost.requested).map(requested),
        }
    }
}

/// What a query would cost.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueryPlan {
    /// How many blocks it reads.
    pub blocks: u64,
    /// The first of them.
    pub first_block: Option<String>,
    /// The last of them.
    pub last_block: Option<String>,
    /// The unit of privacy.
    pub unit: String,
    /// How many groups the result has.
    pub groups: u32,
    /// The columns of the result.
    pub columns: Vec<PlannedColumn>,
    /// How many more such queries every block admits.
    pub questions_left: u64,
    /// The cost.
    #[serde(flatten)]
    pub cost: QueryCharge,
}

/// A column of a result that is planned.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PlannedColumn {
    /// Its name.
    pub column: String,
    /// The half-width of its numbers; `null` where it depends on rows.
    pub half_width: Option<f64>,
}

impl From<&EnginePlan> for QueryPlan {
    fn from(plan: &EnginePlan) -> Self {
        let column = |(name, half): &(String, Option<f64>)| PlannedColumn { column: name.clone(), half_width: *half };
        Self {
            blocks: plan.blocks.len() as u64,
            first_block: plan.blocks.first().cloned(),
            last_block: plan.blocks.last().cloned(),
            unit: plan.unit.to_owned(),
            groups: plan.groups,
            columns: plan.columns.iter().map(column).collect(),
            questions_left: plan.left,
            cost: QueryCharge::new(Some(&plan.cost)),
        }
    }
}

/// The result of a query.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueryResult {
    /// The number of its charge in the log.
    pub charge: u64,
    /// Whether this is the recorded result of an earlier query with the same key.
    pub answered_before: bool,
    /// The confidence with which all limits hold together.
    pub confidence: f64,
    /// The names of the group keys.
    pub keys: Vec<String>,
    /// The names of the aggregates.
    pub columns: Vec<String>,
    /// One line, or one for each group.
    pub lines: Vec<QueryLine>,
    /// The cost.
    #[serde(flatten)]
    pub cost: QueryCharge,
}

/// One line of a result.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueryLine {
    /// The value of each group key.
    pub keys: BTreeMap<String, String>,
    /// The number of each aggregate.
    pub values: BTreeMap<String, QueryCell>,
    /// The same in the order of the columns, where two may have one name. Not sent.
    #[serde(skip)]
    pub cells: Vec<QueryCell>,
}

impl QueryLine {
    /// The number of a column, by its index and its name.
    #[must_use]
    pub fn cell(&self, index: usize, name: &str) -> Option<QueryCell> {
        self.cells.get(index).or_else(|| self.values.get(name)).copied()
    }
}

/// A private number.
#[derive(Clone, Copy, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QueryCell {
    /// The estimate; `null` where too few rows are there.
    pub value: Option<f64>,
    /// Half the distance between the limits.
    pub half_width: Option<f64>,
    /// The lower limit.
    pub low: Option<f64>,
    /// The upper limit.
    pub high: Option<f64>,
}

impl From<&Cell> for QueryCell {
    fn from(cell: &Cell) -> Self {
        Self { value: cell.value, half_width: cell.half_width(), low: cell.low, high: cell.high }
    }
}

impl From<&EngineResult> for QueryResult {
    fn from(answered: &EngineResult) -> Self {
        let found = &answered.answer;
        let line = |line: &Line| QueryLine {
            keys: found.keys.iter().cloned().zip(line.keys.iter().cloned()).collect(),
            values: found.columns.iter().cloned().zip(line.cells.iter().map(QueryCell::from)).collect(),
            cells: line.cells.iter().map(QueryCell::from).collect(),
        };
        Self {
            charge: answered.charge,
            answered_before: answered.cost.is_none(),
            confidence: found.confidence,
            keys: found.keys.clone(),
            columns: found.columns.clone(),
            lines: found.lines.iter().map(line).collect(),
            cost: QueryCharge::new(answered.cost.as_ref()),
        }
    }
}
