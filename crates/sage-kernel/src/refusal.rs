//! The expected no: a request the ledger does not admit, and everything its author needs to know.
//!
//! A refusal is a function of public values: the request, the policy and earlier charges.

use crate::block::{BlockId, Lane};
use crate::budget::decimal;
use crate::event::GrantId;
use crate::filter::{Component, Rule, Unpriced};
use crate::message::says;

/// Whose ceiling is meant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Book {
    /// The context with this name.
    Context(String),
    /// All contexts together.
    Joint,
}

says!(Book {
    Self::Context(name) => format!("context \"{name}\""),
    Self::Joint => "all contexts together",
});

/// What was asked of a lane of a block and what there is, in units of the component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The block.
    pub block: BlockId,
    /// The block's public key.
    pub key: String,
    /// The lane.
    pub lane: Lane,
    /// Whose ceiling.
    pub book: Book,
    /// The rule that refused.
    pub rule: Rule,
    /// The number that stands in the way; of alternatives, the one missed by least.
    pub component: Component,
    /// Asked now.
    pub asked: u128,
    /// Charged before and started: gone for ever.
    pub spent: u128,
    /// Charged before and not started: comes back if cancelled.
    pub reserved: u128,
    /// Left below the cap.
    pub left: u128,
}

impl Shortfall {
    /// A number of this shortfall as a decimal.
    pub fn decimal(&self, units: u128) -> String {
        if units >= u128::from(u64::MAX) {
            return "without bound".to_owned();
        }
        decimal(units, self.component.places())
    }
}

/// Why a request is refused. The first that applies, in this order, is given.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Refusal {
    /// The key was used for another request before.
    KeyReused(GrantId),
    /// No such stream.
    UnknownStream,
    /// The stream has no such context.
    UnknownContext,
    /// Neither lane has a cost.
    NoCost,
    /// The stream admits only the kernel's own mechanisms.
    DoorClosed,
    /// The kernel cannot run one of the mechanisms, so its cost cannot be enforced.
    NotEnforceable(Lane),
    /// The stream has no such block.
    UnknownBlock(BlockId),
    /// The block may never be read again.
    RetiredBlock(BlockId),
    /// The rule has no price for the cost.
    Unpriced(Lane, Unpriced),
    /// A lane of a block has not enough left.
    Ceiling(Box<Shortfall>),
}

says!(Refusal {
    Self::KeyReused(grant) => {
        format!("this request key belongs to another request (grant {}); use a new key", grant.0)
    },
    Self::UnknownStream => "there is no such stream",
    Self::UnknownContext => "the stream has no such context",
    Self::NoCost => "the request names no cost on either lane",
    Self::DoorClosed => {
        "the stream admits only enforced mechanisms; its policy would have to open the declared door"
    },
    Self::NotEnforceable(lane) => format!(
        "the {lane} lane's cost holds a mechanism the kernel cannot run itself; ask through the declared door"
    ),
    Self::UnknownBlock(block) => format!("the stream has no block {}", block.0),
    Self::RetiredBlock(block) => {
        format!("block {} is retired and can never be read again; choose newer blocks", block.0)
    },
    Self::Unpriced(lane, reason) => format!("the cost on the {lane} lane has no price: {reason}"),
    Self::Ceiling(short) => {
        let Shortfall { block, key, lane, book, rule, component, .. } = &**short;
        let [asked, spent, reserved, left] =
            [short.asked, short.spent, short.reserved, short.left].map(|units| short.decimal(units));
        format!(
            "not enough left on block {} (\"{key}\"), {lane} lane, {book}, rule {rule}: {component} asked {asked}, \
             spent {spent}, reserved {reserved}, left {left}",
            block.0
        )
    },
});
