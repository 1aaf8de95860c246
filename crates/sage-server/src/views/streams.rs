//! Streams and their blocks.

use std::collections::BTreeMap;

use sage_engine::{BlockView, Engine, EngineError, LaneView, PolicyOutcome, Principal, State, StreamView};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Decimal;
use super::requests::BlocksAction;

/// A stream.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Stream {
    /// Its name.
    pub name: String,
    /// The unit of privacy.
    pub unit: String,
    /// The guarantee in a sentence.
    pub promise: String,
    /// The largest loss of any block.
    pub epsilon_spent: Decimal,
    /// Numbers of blocks by their state.
    pub blocks: BTreeMap<String, u64>,
    /// The officer who proposed a change that waits for approval.
    pub policy_proposed_by: Option<String>,
    /// The change that waits for approval.
    pub policy_proposal: Option<PolicyProposal>,
    /// Members whose roles are suspended.
    pub suspended: Vec<String>,
    /// The stream's file.
    pub file: String,
    /// The reason of each suspension. It is for the owner of the directory and is not sent.
    #[serde(skip)]
    pub suspension_reasons: Vec<String>,
}

/// A changed file of a stream that waits for a second officer.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PolicyProposal {
    /// The officer who proposed it.
    pub by: String,
    /// Its digest, by which it is approved.
    pub digest: String,
    /// The file.
    pub text: String,
}

/// Numbers of blocks by their state.
#[must_use]
pub fn block_states(view: &StreamView) -> BTreeMap<String, u64> {
    view.blocks.iter().map(|(state, count)| (state.to_string(), *count as u64)).collect()
}

impl From<&StreamView> for Stream {
    fn from(view: &StreamView) -> Self {
        Self {
            name: view.name.clone(),
            unit: view.unit.to_owned(),
            promise: view.promise.clone(),
            epsilon_spent: Decimal::from_exact(view.spent),
            blocks: block_states(view),
            policy_proposed_by: view.proposed_by.clone(),
            policy_proposal: view.proposal.as_ref().map(|proposal| PolicyProposal {
                by: proposal.by.clone(),
                digest: proposal.digest.clone(),
                text: proposal.text.clone(),
            }),
            suspended: view.suspended.iter().map(|(member, _)| member.clone()).collect(),
            file: view.file.clone(),
            suspension_reasons: view.suspended.iter().map(|(_, reason)| reason.clone()).collect(),
        }
    }
}

/// A stream was created.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct CreatedStream {
    /// Always `true`.
    pub created: bool,
}

/// What became of a changed file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct PolicyState {
    /// The state of the file.
    pub policy: PolicyWord,
}

/// The state of a changed file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum PolicyWord {
    /// The file changes nothing.
    #[serde(rename = "the same")]
    Same,
    /// The file changes nothing, and withdraws the proposal that waited.
    #[serde(rename = "the same, proposal withdrawn")]
    Withdrawn,
    /// The file is in force.
    #[serde(rename = "in force")]
    InForce,
    /// Another officer has to approve it.
    #[serde(rename = "waits for another officer")]
    Waits,
}

impl From<PolicyOutcome> for PolicyState {
    fn from(outcome: PolicyOutcome) -> Self {
        let policy = match outcome {
            PolicyOutcome::Same => PolicyWord::Same,
            PolicyOutcome::InForce => PolicyWord::InForce,
            PolicyOutcome::Withdrawn => PolicyWord::Withdrawn,
            PolicyOutcome::Waits => PolicyWord::Waits,
        };
        Self { policy }
    }
}

/// The suspended members of a stream.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct SuspendedMembers {
    /// Their names.
    pub suspended: Vec<String>,
}

/// A block and what it has spent.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Block {
    /// Its key.
    pub block: String,
    /// Its state.
    pub state: BlockState,
    /// The train lane.
    pub train: LaneBudget,
    /// The test lane.
    pub test: LaneBudget,
}

/// The state of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BlockState {
    /// Rows may be added.
    Open,
    /// It can be charged.
    Sealed,
    /// It is not read any more.
    Retired,
    /// Its files are removed.
    Deleted,
}

impl BlockState {
    /// Its name.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Open => "open",
            Self::Sealed => "sealed",
            Self::Retired => "retired",
            Self::Deleted => "deleted",
        }
    }
}

impl From<State> for BlockState {
    fn from(state: State) -> Self {
        match state {
            State::Open => Self::Open,
            State::Sealed => Self::Sealed,
            State::Retired => Self::Retired,
            State::Deleted => Self::Deleted,
        }
    }
}

/// The budget of one lane of a block.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct LaneBudget {
    /// Spent or reserved.
    pub epsilon_spent: Decimal,
    /// What is left below the ceiling.
    pub epsilon_left: Decimal,
}

impl From<&LaneView> for LaneBudget {
    fn from(lane: &LaneView) -> Self {
        Self { epsilon_spent: Decimal::from_exact(lane.spent), epsilon_left: Decimal::from_exact(lane.left) }
    }
}

impl From<&BlockView> for Block {
    fn from(block: &BlockView) -> Self {
        let [train, test] = &block.lanes;
        Self { block: block.key.clone(), state: block.state.into(), train: train.into(), test: test.into() }
    }
}

/// A page of blocks.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "Blocks")]
pub struct BlocksPage {
    /// The blocks.
    pub blocks: Vec<Block>,
    /// Where the next page starts.
    pub next: Option<u64>,
}

/// The blocks that were sealed, retired or deleted.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BlocksResult {
    /// Their keys.
    pub blocks: Vec<String>,
}

/// Seals, retires or deletes blocks.
///
/// # Errors
/// When the user may not do this, or a block is not in the right state.
pub fn apply(
    engine: &Engine, user: &Principal, stream: &str, action: BlocksAction, keys: &[String],
) -> Result<(), EngineError> {
    match action {
        BlocksAction::Seal => {
            engine.seal(user, stream, keys)?;
            engine.count_sealed(stream)
        }
        BlocksAction::Retire => engine.retire(user, stream, keys),
        BlocksAction::Delete => engine.delete(user, stream, keys),
    }
}

/// The blocks that ended before a time, in microseconds since 1970, and that an action applies to.
///
/// # Errors
/// When there is no such stream.
pub fn ended_before(
    engine: &Engine, stream: &str, action: BlocksAction, time: i64,
) -> Result<Vec<String>, EngineError> {
    match action {
        BlocksAction::Seal => engine.open_before(stream, time),
        BlocksAction::Retire | BlocksAction::Delete => engine.over_before(stream, time),
    }
}

/// A stream's budget.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Budget {
    /// The stream.
    pub stream: String,
    /// The guarantee in a sentence.
    pub promise: String,
    /// The largest loss of any block.
    pub epsilon_lost: Decimal,
    /// Numbers of blocks by their state.
    pub blocks: BTreeMap<String, u64>,
    /// The newest sealed blocks.
    pub newest: Vec<BlockBudget>,
    /// The preview of a pipeline.
    #[serde(rename = "for")]
    pub pipeline: Option<super::plan::Plan>,
}

/// What is left of a block's budget.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct BlockBudget {
    /// Its key.
    pub block: String,
    /// What is left of the train lane.
    pub train_epsilon_left: Decimal,
    /// What is left of the test lane.
    pub test_epsilon_left: Decimal,
}

impl From<&BlockView> for BlockBudget {
    fn from(block: &BlockView) -> Self {
        let [train, test] = &block.lanes;
        Self {
            block: block.key.clone(),
            train_epsilon_left: Decimal::from_exact(train.left),
            test_epsilon_left: Decimal::from_exact(test.left),
        }
    }
}
