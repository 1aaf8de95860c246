//! Refusals: why the ledger does not admit a request.
//!
//! A refusal must never depend on anything but public values: the request, the policy and earlier charges.

use crate::block::{BlockId, Lane};
use crate::event::GrantId;
use crate::filter::{Component, PriceError, Rule};
use crate::message::display;
use sage_numerics::decimal;

/// The account that a ceiling bounds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Book {
    /// The context with this name.
    Context(String),
    /// All contexts together.
    Joint,
}

display!(Book {
    Self::Context(name) => format!("context \"{name}\""),
    Self::Joint => "all contexts together",
});

/// A ceiling that a request exceeds on a lane of a block. All amounts are in units of the component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Shortfall {
    /// The block.
    pub block: BlockId,
    /// The block's public key.
    pub key: String,
    /// The lane.
    pub lane: Lane,
    /// The account whose ceiling is exceeded.
    pub book: Book,
    /// The rule that refused.
    pub rule: Rule,
    /// The component that exceeds its cap; among alternatives, the one that exceeds it least.
    pub component: Component,
    /// The amount requested.
    pub requested: u128,
    /// Charged for grants that have started: final.
    pub spent: u128,
    /// Charged for grants that have not started: returned if they are cancelled.
    pub reserved: u128,
    /// The amount left below the cap.
    pub left: u128,
}

impl Shortfall {
    /// An amount of this shortfall as a decimal.
    pub fn decimal(&self, units: u128) -> String {
        if units >= u128::from(u64::MAX) {
            return "without bound".to_owned();
        }
        decimal(units, self.component.places())
    }
}

/// Why a request is refused. The variants are in order of precedence: the first that applies is returned.
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
    /// The stream does not admit the attested access mode.
    AttestedNotAllowed,
    /// The kernel does not implement one of the mechanisms, so it cannot enforce the cost.
    NotEnforceable(Lane),
    /// The stream has no such block.
    UnknownBlock(BlockId),
    /// The block is retired: it can never be read again.
    RetiredBlock(BlockId),
    /// The filter cannot price the cost.
    Unpriced(Lane, PriceError),
    /// A lane of a block has not enough budget left.
    Ceiling(Box<Shortfall>),
}

display!(Refusal {
    Self::KeyReused(grant) => {
        format!("this request key belongs to another request (grant {}); use a new key", grant.0)
    },
    Self::UnknownStream => "there is no such stream",
    Self::UnknownContext => "the stream has no such context",
    Self::NoCost => "the request names no cost on either lane",
    Self::AttestedNotAllowed => {
        "the stream admits only enforced mechanisms; its policy must admit the attested access mode first"
    },
    Self::NotEnforceable(lane) => format!(
        "the {lane} lane's cost contains a mechanism that the kernel does not implement; use the attested access mode"
    ),
    Self::UnknownBlock(block) => format!("the stream has no block {}", block.0),
    Self::RetiredBlock(block) => {
        format!("block {} is retired and can never be read again; choose newer blocks", block.0)
    },
    Self::Unpriced(lane, reason) => format!("the cost on the {lane} lane has no price: {reason}"),
    Self::Ceiling(short) => {
        let Shortfall { block, key, lane, book, rule, component, .. } = &**short;
        let [requested, spent, reserved, left] =
            [short.requested, short.spent, short.reserved, short.left].map(|units| short.decimal(units));
        format!(
            "not enough left on block {} (\"{key}\"), {lane} lane, {book}, rule {rule}: {component} requested {requested}, \
             spent {spent}, reserved {reserved}, left {left}",
            block.0
        )
    },
});
