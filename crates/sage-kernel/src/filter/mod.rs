//! Privacy filters: decide whether a cost can be added to the amounts spent on a lane of a block.
//!
//! Every filter has the same form. The amounts spent are a vector of integers, and so is a cost. A cost is admitted if,
//! after adding it, every *required* component is within its cap and, where there are *alternatives*, at least one of
//! them is. The filters differ in the meaning of the components, in the caps and in how a cost is priced; each has a
//! file and a page in `proofs/`. Admission (this file) is integer arithmetic on amounts that are fixed before the query
//! runs. It must never depend on anything else.

mod basic;
mod fixed;
mod price;
mod renyi;
mod strong;

use crate::accountant::ORDERS;
use crate::block::{Blocks, Lane};
use crate::budget::{Delta, Epsilon};
use crate::cost::{Amounts, Cost, UNBOUNDED};
use crate::message::display;

pub use fixed::{DeclaredQuery, FixedError};

/// The composition rule of a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Sums of ε and of δ (`proofs/basic.md`).
    Basic,
    /// Sums of ρ and of δ, approximate zero-concentrated (`proofs/strong.md`).
    Strong,
    /// Rényi divergences at weighted orders, and at order ∞ (`proofs/renyi.md`). The default.
    Renyi,
    /// All queries declared before the first read (`proofs/fixed.md`).
    Fixed,
}

impl Rule {
    /// The adaptive rules. They need no parameters except the ceiling; `Fixed` also needs its declared queries.
    pub const ADAPTIVE: [Self; 3] = [Self::Basic, Self::Strong, Self::Renyi];
}

display!(Rule {
    Self::Basic => "basic",
    Self::Strong => "strong",
    Self::Renyi => "renyi",
    Self::Fixed => "fixed",
});

/// The largest privacy loss (ε_g, δ_g) of a lane of a block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// ε_g.
    pub epsilon: Epsilon,
    /// δ_g.
    pub delta: Delta,
}

impl Ceiling {
    /// The two halves of δ_g: for the conversion of curves, and for the δ of mechanisms.
    ///
    /// The split is fixed in advance, because the amount left at a later time can depend on outputs.
    pub(crate) const fn halves(self) -> (u64, u64) {
        let curves = self.delta.units() / 2;
        (curves, self.delta.units() - curves)
    }
}

/// A component of a filter: what one of its integers counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// The sum of ε.
    Epsilon,
    /// The sum of δ.
    Delta,
    /// The sum of ρ.
    Rho,
    /// The Rényi divergence at the order with this index in [`crate::accountant::ORDERS`].
    Order(u32),
    /// The Rényi divergence at order ∞.
    Infinite,
    /// The number of runs of the declared query with this index.
    Declaration(u32),
}

display!(Component {
    Self::Epsilon => "epsilon",
    Self::Delta => "delta",
    Self::Rho => "rho",
    Self::Order(index) => format!("order {}", ORDERS.get(*index as usize).copied().unwrap_or(f64::NAN)),
    Self::Infinite => "order infinity",
    Self::Declaration(index) => format!("declaration {index}"),
});

impl Component {
    /// Decimal places of one unit of this component.
    pub const fn places(self) -> u32 {
        match self {
            Self::Delta => Delta::PLACES,
            Self::Declaration(_) => 0,
            _ => Epsilon::PLACES,
        }
    }
}

/// The components of a filter with their caps.
type Caps = Vec<(Component, u64)>;

/// Why a filter cannot price a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PriceError {
    /// The filter counts (ε, δ), a mechanism has no ε without a δ, and the cost has no δ.
    NeedsDelta,
    /// The filter is fixed and no such query was declared for these blocks and this lane.
    NotDeclared,
}

display!(PriceError {
    Self::NeedsDelta => "this filter counts (epsilon, delta): state the cost at a delta above zero",
    Self::NotDeclared => "the stream is fixed, and no such query was declared for these blocks and this lane",
});

/// A privacy filter: a composition rule with its caps.
///
/// # Guarantee
/// Queries admitted one after the other by [`Filter::admits`], each with a privacy loss of at most its price, are
/// together (ε_g, δ_g)-differentially private for one unit of the lane, for every adaptive choice of queries. Proof: the
/// page of the rule in `proofs/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    rule: Rule,
    ceiling: Ceiling,
    components: Vec<Component>,
    caps: Vec<u64>,
    /// The number of required components, which come first; the others are alternatives.
    required: usize,
    declared: Vec<DeclaredQuery>,
}

impl Filter {
    /// The filter of an adaptive rule for a ceiling.
    ///
    /// `None` for [`Rule::Fixed`], which needs its declared queries ([`Filter::fixed`]), and for ε_g = 0.
    pub fn new(rule: Rule, ceiling: Ceiling) -> Option<Self> {
        if ceiling.epsilon == Epsilon::ZERO {
            return None;
        }
        let caps = match rule {
            Rule::Basic => basic::caps(ceiling),
            Rule::Strong => strong::caps(ceiling),
            Rule::Renyi => renyi::caps(ceiling),
            Rule::Fixed => return None,
        };
        Some(Self::from_parts(rule, ceiling, caps, Vec::new()))
    }

    /// The filter of a stream whose queries are all declared before any row is read.
    ///
    /// # Errors
    /// When the queries on some block exceed the ceiling, or a query cannot be composed.
    pub fn fixed(ceiling: Ceiling, declared: Vec<DeclaredQuery>) -> Result<Self, FixedError> {
        let (declared, caps) = fixed::caps(ceiling, declared)?;
        Ok(Self::from_parts(Rule::Fixed, ceiling, caps, declared))
    }

    /// This filter with another ceiling, such that it can replace this one in a policy: [`Policy::approvals_to_become`].
    ///
    /// `None` for [`Rule::Fixed`], whose queries were composed under the old ceiling, for ε_g = 0, and for
    /// [`Rule::Renyi`] with another δ_g: its weights belong to one δ_g, and the guarantee holds across a change only
    /// for caps with the same weights (`proofs/block.md`).
    ///
    /// [`Policy::approvals_to_become`]: crate::Policy::approvals_to_become
    pub fn with_ceiling(&self, ceiling: Ceiling) -> Option<Self> {
        match self.rule {
            Rule::Renyi if ceiling.delta == self.ceiling.delta && ceiling.epsilon > Epsilon::ZERO => {
                let caps = renyi::shift_caps(&self.caps, self.ceiling.epsilon, ceiling.epsilon);
                Some(Self { ceiling, caps, ..self.clone() })
            }
            Rule::Renyi | Rule::Fixed => None,
            rule => Self::new(rule, ceiling),
        }
    }

    /// Whether the other filter can replace this one: amounts spent under this filter stay valid under the other.
    ///
    /// Caps that were computed with floats are used as stored, as at the stream's creation.
    pub(crate) fn may_become(&self, other: &Self) -> bool {
        let alike = match (self.rule, other.rule) {
            (Rule::Basic, Rule::Basic) | (Rule::Strong, Rule::Strong) => true,
            (Rule::Renyi, Rule::Renyi) => self.with_ceiling(other.ceiling).as_ref() == Some(other),
            _ => false,
        };
        alike && other.ceiling.epsilon <= self.ceiling.epsilon.max(price::RAISED_EPSILON_LIMIT)
    }

    /// A filter read from a log; `None` unless its components fit the rule and the rule's theorem holds for its caps.
    ///
    /// The caps are those of the stream's creation. They are checked but not computed again, so that a better accountant
    /// does not invalidate a log. A fixed list is composed again, because nothing in it proves that it was.
    pub(crate) fn from_stored(rule: Rule, ceiling: Ceiling, caps: Caps, declared: Vec<DeclaredQuery>) -> Option<Self> {
        let filter = Self::from_parts(rule, ceiling, caps, declared);
        let (components, caps) = (&*filter.components, &*filter.caps);
        let known = |one: &Component| matches!(one, Component::Order(index) if (*index as usize) < ORDERS.len());
        let holds = match (rule, components) {
            (Rule::Basic, [Component::Epsilon, Component::Delta]) => {
                caps[0] <= ceiling.epsilon.units() && caps[1] <= ceiling.delta.units()
            }
            (Rule::Strong, [Component::Rho, Component::Delta]) => strong::theorem_holds(ceiling, caps),
            (Rule::Renyi, [Component::Delta, orders @ .., Component::Infinite]) => {
                orders.iter().all(known) && renyi::theorem_holds(ceiling, components, caps)
            }
            (Rule::Fixed, _) => Self::fixed(ceiling, filter.declared.clone()).is_ok_and(|composed| composed == filter),
            _ => false,
        };
        let undeclared = rule == Rule::Fixed || filter.declared.is_empty();
        (holds && undeclared && ceiling.epsilon > Epsilon::ZERO).then_some(filter)
    }

    fn from_parts(rule: Rule, ceiling: Ceiling, caps: Caps, declared: Vec<DeclaredQuery>) -> Self {
        let (components, caps): (Vec<Component>, Vec<u64>) = caps.into_iter().unzip();
        let required = if rule == Rule::Renyi { 1 } else { caps.len() };
        Self { rule, ceiling, components, caps, required, declared }
    }

    /// The rule.
    pub const fn rule(&self) -> Rule {
        self.rule
    }

    /// The ceiling.
    pub const fn ceiling(&self) -> Ceiling {
        self.ceiling
    }

    /// The components.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The cap of each component.
    pub fn caps(&self) -> &[u64] {
        &self.caps
    }

    /// The declared queries; empty except for [`Rule::Fixed`].
    pub fn declared(&self) -> &[DeclaredQuery] {
        &self.declared
    }

    /// Prices a cost: one amount for each component, rounded up.
    ///
    /// # Guarantee
    /// The amounts bound the privacy loss of the cost's mechanisms as the rule's page in `proofs/` requires.
    ///
    /// # Errors
    /// When the rule cannot price one of the mechanisms.
    pub fn price(&self, cost: &Cost, lane: Lane, blocks: &Blocks) -> Result<Amounts, PriceError> {
        let units = match self.rule {
            Rule::Basic => basic::price(cost, self.ceiling)?,
            Rule::Strong => strong::price(cost, self.ceiling)?,
            Rule::Renyi => renyi::price(cost, self.ceiling, &self.components),
            Rule::Fixed => fixed::price(cost, lane, blocks, &self.declared)?,
        };
        Ok(Amounts(units))
    }

    /// Whether the amounts can be added to the amounts spent.
    pub fn admits(&self, spent: &[u128], requested: &Amounts) -> bool {
        spent.len() == self.caps.len() && self.first_over_cap(spent, requested).is_none()
    }

    /// The index of the first block to whose spent amounts the requested amounts cannot be added. `cells` contains the
    /// spent amounts of consecutive blocks.
    pub(crate) fn first_over_cap(&self, cells: &[u128], requested: &Amounts) -> Option<usize> {
        let (requested, caps) = (requested.0.as_slice(), self.caps.as_slice());
        if requested.len() != caps.len() {
            return Some(0);
        }
        let width = caps.len();
        // Two components are the common case; written so that memory bandwidth is the limit.
        if let (&[one, two], &[cap_one, cap_two], 2) = (requested, caps, self.required) {
            let above = |spent: u128, requested: u64, cap: u64| spent + u128::from(requested) > u128::from(cap);
            let (cells, _) = cells.as_chunks::<2>();
            return cells.iter().position(|cell| above(cell[0], one, cap_one) || above(cell[1], two, cap_two));
        }
        let over = |spent: &[u128], index: usize| spent[index] + u128::from(requested[index]) > u128::from(caps[index]);
        // The alternative that admitted one block usually admits the next one too.
        let mut hint = self.required;
        cells.chunks_exact(width).position(|spent| {
            let without_alternative = self.required < width && over(spent, hint) && {
                let found = (self.required..width).find(|&index| !over(spent, index));
                hint = found.unwrap_or(hint);
                found.is_none()
            };
            without_alternative || (0..self.required).any(|index| over(spent, index))
        })
    }

    /// The component that a refusal reports: the first required one above its cap, else the closest alternative.
    pub(crate) fn binding_component(&self, spent: &[u128], requested: &Amounts) -> usize {
        let over = |index: usize| spent[index] + u128::from(requested.0[index]) > u128::from(self.caps[index]);
        // Among alternatives, the one that exceeds its cap by the smallest fraction.
        let missed = |index: &usize| {
            let after = spent[*index].saturating_add(u128::from(requested.0[*index]));
            after.saturating_mul(1 << 20) / u128::from(self.caps[*index].max(1))
        };
        let required = (0..self.required).find(|&index| over(index));
        let finite = (self.required..self.caps.len()).filter(|&index| requested.0[index] != UNBOUNDED);
        required.or_else(|| finite.min_by_key(missed)).unwrap_or(self.caps.len() - 1)
    }
}
