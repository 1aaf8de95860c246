//! The bodies and queries of requests, shared by clients and handlers.

use std::collections::BTreeMap;

use sage_engine::{BlockSelection, Epsilon, NumberError, Spend, stream};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::format::quoted;

/// A filter of the runs to list.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct RunsRequest {
    /// Runs on this stream only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stream: Option<String>,
}

/// An action on blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum BlocksAction {
    /// No row will be added; they can be charged from now on.
    Seal,
    /// They can never be read again.
    Retire,
    /// The files of retired blocks are removed.
    Delete,
}

/// Seals, retires or deletes blocks.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct BlocksRequest {
    /// The action.
    #[serde(rename = "do")]
    pub action: BlocksAction,
    /// Keys of blocks.
    #[serde(default)]
    pub blocks: Vec<String>,
    /// Blocks that ended before this time, too.
    #[serde(default)]
    #[schemars(with = "String")]
    pub before: Option<String>,
}

/// An action on quarantined rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum QuarantineAction {
    /// They are ingested again.
    Release,
    /// They are removed.
    Erase,
}

/// Releases or erases quarantined rows.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct QuarantineRequest {
    /// The action.
    #[serde(rename = "do")]
    pub action: QuarantineAction,
    /// Names of files, as the list has them.
    pub files: Vec<String>,
}

/// Approves a proposed file.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ApprovalRequest {
    /// The digest of the proposal.
    pub digest: String,
}

/// An action on a member's roles.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum MemberAction {
    /// They are suspended.
    Suspend,
    /// They are in force again.
    Reinstate,
}

/// Suspends or reinstates a member.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MemberRequest {
    /// The action.
    #[serde(rename = "do")]
    pub action: MemberAction,
    /// The member.
    pub member: String,
    /// Why, for a suspension.
    #[serde(default)]
    #[schemars(with = "String")]
    pub reason: Option<String>,
}

/// Gives a version another name.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct AliasRequest {
    /// The name.
    pub alias: String,
}

/// Withdraws a version.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct WithdrawalRequest {
    /// Why, for the users of the release.
    pub reason: String,
}

/// Charges a computation outside Sage.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ChargeRequest {
    /// The client's key: the same request with the same key is charged once.
    pub key: String,
    /// Keys of blocks.
    pub blocks: Vec<String>,
    /// What it is for.
    pub purpose: String,
    /// The cost on the train lane.
    #[serde(default)]
    #[schemars(with = "StatedCost")]
    pub train: Option<StatedCost>,
    /// The cost on the test lane.
    #[serde(default)]
    #[schemars(with = "StatedCost")]
    pub test: Option<StatedCost>,
    /// The context of the policy that pays.
    #[serde(default)]
    #[schemars(with = "String")]
    pub context: Option<String>,
}

/// A cost that the client states.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct StatedCost {
    /// The epsilon, a decimal number in quotes.
    pub epsilon: super::Decimal,
    /// The delta, a decimal number in quotes.
    #[serde(default)]
    #[schemars(with = "String")]
    pub delta: Option<String>,
}

/// A pipeline with the folder of its program.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct ProgramRequest {
    /// The text of the pipeline's file.
    pub pipeline: String,
    /// Texts of files by their paths.
    pub files: BTreeMap<String, String>,
}

/// A query in private SQL. The stream is in the path and the key in a header.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(transform = allow_more)]
pub struct QueryRequest {
    /// The SELECT.
    pub sql: String,
    /// The epsilon of the query by itself: a number, best as text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(schema_with = "text_or_number")]
    pub epsilon: Option<Value>,
    /// Spend the least epsilon that gives every number this half-width.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<f64>,
    /// The number of most recently sealed blocks.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<u32>,
    /// Keys of blocks.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub blocks: Vec<String>,
    /// Blocks that begin at this time or later.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub since: Option<String>,
    /// Blocks that end at this time or before.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until: Option<String>,
    /// All sealed blocks.
    #[serde(default)]
    pub all: bool,
    /// The context of the policy that pays.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub context: Option<String>,
    /// Only return the cost.
    #[serde(default)]
    pub plan: bool,
}

fn text_or_number(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({"type": ["string", "number", "null"]})
}

/// The server refuses unknown fields with its own message, so the schema does not forbid them.
fn allow_more(schema: &mut schemars::Schema) {
    schema.remove("additionalProperties");
}

/// What is wrong with a query before it reaches the engine. Fields are named as in JSON; flags have the same names.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum QueryRequestError {
    /// Neither a cost nor an accuracy.
    #[error("it is not said what the query may cost")]
    NoCost,
    /// The cost is not a number in range.
    #[error("epsilon must be a number above 0{limit}, got {given}")]
    Epsilon {
        /// The limit that was exceeded.
        limit: &'static str,
        /// What was sent.
        given: String,
    },
    /// The accuracy is not a number in range.
    #[error("error must be a number above 0")]
    Error,
    /// No blocks.
    #[error("it is not said which blocks are read, and every one of them pays")]
    NoBlocks,
    /// The last zero blocks.
    #[error("the last 0 blocks have no rows")]
    ZeroBlocks,
    /// Two of last, blocks, since and until, and all.
    #[error("blocks are chosen in two ways at once")]
    TwoSelections,
    /// A time that cannot be read.
    #[error("{0} is no time; write it like 2026-11-01 (UTC)")]
    Time(String),
}

impl QueryRequest {
    /// What may be spent.
    ///
    /// # Errors
    /// When neither or both of `epsilon` and `error` are there, or one is out of range.
    pub fn spend(&self) -> Result<Spend, QueryRequestError> {
        let epsilon = match &self.epsilon {
            None | Some(Value::Null) => None,
            Some(Value::String(text)) => Some(text.clone()),
            Some(other) => Some(other.to_string()),
        };
        match (epsilon, self.error) {
            (Some(text), None) => {
                let read = Epsilon::ceiling(text.trim());
                let wrong = |limit| QueryRequestError::Epsilon { limit, given: quoted(&text) };
                match read {
                    Ok(epsilon) if epsilon > Epsilon::ZERO => Ok(Spend::Epsilon(epsilon)),
                    Ok(_) if text.bytes().any(|digit| (b'1'..=b'9').contains(&digit)) => {
                        Err(wrong(" and at least 1e-12"))
                    }
                    Err(NumberError::TooLarge) => Err(wrong(" and at most 1e6")),
                    Err(NumberError::TooLong) => Err(wrong(", written with at most 64 characters")),
                    _ => Err(wrong("")),
                }
            }
            (None, Some(error)) if error.is_finite() && error > 0.0 => Ok(Spend::Error(error)),
            (None, Some(_)) => Err(QueryRequestError::Error),
            _ => Err(QueryRequestError::NoCost),
        }
    }

    /// The blocks that are read.
    ///
    /// # Errors
    /// When no blocks are selected, or in two ways.
    pub fn which(&self) -> Result<BlockSelection, QueryRequestError> {
        let time = |text: Option<&String>, otherwise: i64| match text {
            None => Ok(otherwise),
            Some(text) => stream::parse_time(text).ok_or_else(|| QueryRequestError::Time(quoted(text))),
        };
        let selections =
            [self.last.is_some(), !self.blocks.is_empty(), self.since.is_some() || self.until.is_some(), self.all];
        match selections.iter().filter(|chosen| **chosen).count() {
            0 => Err(QueryRequestError::NoBlocks),
            1 => Ok(match (self.last, self.blocks.as_slice()) {
                (Some(0), _) => return Err(QueryRequestError::ZeroBlocks),
                (Some(last), _) => BlockSelection::Last(last),
                (None, []) if self.all => BlockSelection::All,
                (None, []) => {
                    BlockSelection::Between(time(self.since.as_ref(), i64::MIN)?, time(self.until.as_ref(), i64::MAX)?)
                }
                (None, keys) => BlockSelection::Named(keys.to_vec()),
            }),
            _ => Err(QueryRequestError::TwoSelections),
        }
    }
}
