//! Filters: may this cost still be added to what a lane of a block has spent?
//!
//! Every filter has the same shape. What has been spent is a row of integers, a cost is a row
//! of integers, and a cost is admitted when after adding it every *required* number is within its cap
//! and, where there are *alternatives*, at least one of those is. The filters differ in what the
//! numbers mean, where the caps lie and how a cost is turned into numbers; each has a file and a page
//! in `proofs/`. Admission itself (this file) is integer arithmetic on predictable numbers and must
//! never look at anything else.

mod basic;
mod fixed;
mod price;
mod renyi;
mod strong;

use crate::accountant::ORDERS;
use crate::block::{Blocks, Lane};
use crate::budget::{Delta, Epsilon};
use crate::cost::{Amounts, Cost, UNBOUNDED};
use crate::message::says;

pub use fixed::{Declared, FixedError};

/// The rule by which a stream's ceiling is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rule {
    /// Sums of ε and of δ (`proofs/basic.md`).
    Basic,
    /// Sums of ρ and of δ, approximate zero-concentrated (`proofs/strong.md`).
    Strong,
    /// Rényi orders with weights, and order ∞ (`proofs/renyi.md`). The default.
    Renyi,
    /// Everything declared before the first read (`proofs/fixed.md`).
    Fixed,
}

impl Rule {
    /// The rules a stream can be created with by name alone; `fixed` needs its declarations.
    pub const ADAPTIVE: [Self; 3] = [Self::Basic, Self::Strong, Self::Renyi];
}

says!(Rule {
    Self::Basic => "basic",
    Self::Strong => "strong",
    Self::Renyi => "renyi",
    Self::Fixed => "fixed",
});

/// The most a lane of a block may lose.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ceiling {
    /// ε_g.
    pub epsilon: Epsilon,
    /// δ_g.
    pub delta: Delta,
}

impl Ceiling {
    /// The two halves of δ_g: for the conversion of curves, and for the δ that mechanisms spend.
    ///
    /// The split is fixed here, in advance, because what happens to be left may depend on outputs.
    pub(crate) const fn halves(self) -> (u64, u64) {
        let curves = self.delta.units() / 2;
        (curves, self.delta.units() - curves)
    }
}

/// What one number of a filter counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Component {
    /// The sum of ε.
    Epsilon,
    /// The sum of δ.
    Delta,
    /// The sum of ρ.
    Rho,
    /// The Rényi divergence at the order with this place in [`crate::accountant::ORDERS`].
    Order(u32),
    /// The Rényi divergence at order ∞.
    Infinite,
    /// How often the declaration with this place was used.
    Declaration(u32),
}

says!(Component {
    Self::Epsilon => "epsilon",
    Self::Delta => "delta",
    Self::Rho => "rho",
    Self::Order(place) => format!("order {}", ORDERS.get(*place as usize).copied().unwrap_or(f64::NAN)),
    Self::Infinite => "order infinity",
    Self::Declaration(place) => format!("declaration {place}"),
});

impl Component {
    /// Decimal places of one unit of this number.
    pub const fn places(self) -> u32 {
        match self {
            Self::Delta => Delta::PLACES,
            Self::Declaration(_) => 0,
            _ => Epsilon::PLACES,
        }
    }
}

/// What the numbers of a filter count, and the most each may come to.
type Caps = Vec<(Component, u64)>;

/// Why a filter has no numbers for a cost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unpriced {
    /// The filter counts (ε, δ) and a mechanism has no ε without a δ; the cost names none.
    NeedsDelta,
    /// The stream is fixed and declares no such query on these blocks and this lane.
    NotDeclared,
}

says!(Unpriced {
    Self::NeedsDelta => "this filter counts (epsilon, delta): state the cost at a delta above zero",
    Self::NotDeclared => "the stream is fixed, and no such query on these blocks and this lane was declared",
});

/// A rule with its caps.
///
/// # Guarantee
/// Queries admitted one after the other by [`Filter::admits`], each at most as costly as it was priced,
/// are together (ε_g, δ_g)-differentially private for one unit of the lane, whoever chooses them and
/// after whatever outputs. Proof: the page of the rule in `proofs/`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Filter {
    rule: Rule,
    ceiling: Ceiling,
    components: Vec<Component>,
    caps: Vec<u64>,
    /// The first so many components are required, the others alternatives.
    required: usize,
    declared: Vec<Declared>,
}

impl Filter {
    /// The filter of that rule for a ceiling.
    ///
    /// Nothing for [`Rule::Fixed`], which needs its declarations: [`Filter::fixed`]; nor for ε_g = 0.
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

    /// The filter of a stream whose queries are all declared here, before any row is read.
    ///
    /// # Errors
    /// When some block would lose more than the ceiling, or a declaration cannot be composed.
    pub fn fixed(ceiling: Ceiling, declared: Vec<Declared>) -> Result<Self, FixedError> {
        let (declared, caps) = fixed::caps(ceiling, declared)?;
        Ok(Self::from_parts(Rule::Fixed, ceiling, caps, declared))
    }

    /// This filter under another ceiling, fit to take its place in a stream: [`Policy::approvals_to_become`].
    ///
    /// Nothing for [`Rule::Fixed`], whose declarations were composed under the old one, nor for ε_g = 0, nor
    /// for [`Rule::Renyi`] with another δ_g: its weights are for one δ_g, and only caps with the same weights
    /// can follow each other under one promise (`proofs/block.md`).
    ///
    /// [`Policy::approvals_to_become`]: crate::Policy::approvals_to_become
    pub fn under(&self, ceiling: Ceiling) -> Option<Self> {
        match self.rule {
            Rule::Renyi if ceiling.delta == self.ceiling.delta && ceiling.epsilon > Epsilon::ZERO => {
                let caps = renyi::moved(&self.caps, self.ceiling.epsilon, ceiling.epsilon);
                Some(Self { ceiling, caps, ..self.clone() })
            }
            Rule::Renyi | Rule::Fixed => None,
            rule => Self::new(rule, ceiling),
        }
    }

    /// Whether what was spent under this filter is counted rightly under the other.
    ///
    /// Where the rule's caps come from floats they are taken as they were written, as at a stream's creation.
    pub(crate) fn may_become(&self, other: &Self) -> bool {
        let alike = match (self.rule, other.rule) {
            (Rule::Basic, Rule::Basic) | (Rule::Strong, Rule::Strong) => true,
            (Rule::Renyi, Rule::Renyi) => self.under(other.ceiling).as_ref() == Some(other),
            _ => false,
        };
        alike && other.ceiling.epsilon <= self.ceiling.epsilon.max(price::RAISED)
    }

    /// The filter as it was written, if its numbers have the shape of the rule and the rule's theorem holds for
    /// them, whoever wrote them.
    ///
    /// The caps are those decided when the stream was created; they are checked and not computed again, so that a
    /// better accountant changes no log. A fixed list is composed again: nothing in it shows that it was.
    pub(crate) fn from_stored(rule: Rule, ceiling: Ceiling, caps: Caps, declared: Vec<Declared>) -> Option<Self> {
        let filter = Self::from_parts(rule, ceiling, caps, declared);
        let (components, caps) = (&*filter.components, &*filter.caps);
        let known = |one: &Component| matches!(one, Component::Order(place) if (*place as usize) < ORDERS.len());
        let holds = match (rule, components) {
            (Rule::Basic, [Component::Epsilon, Component::Delta]) => {
                caps[0] <= ceiling.epsilon.units() && caps[1] <= ceiling.delta.units()
            }
            (Rule::Strong, [Component::Rho, Component::Delta]) => strong::hold(ceiling, caps),
            (Rule::Renyi, [Component::Delta, orders @ .., Component::Infinite]) => {
                orders.iter().all(known) && renyi::hold(ceiling, components, caps)
            }
            (Rule::Fixed, _) => Self::fixed(ceiling, filter.declared.clone()).is_ok_and(|composed| composed == filter),
            _ => false,
        };
        let bare = rule == Rule::Fixed || filter.declared.is_empty();
        (holds && bare && ceiling.epsilon > Epsilon::ZERO).then_some(filter)
    }

    fn from_parts(rule: Rule, ceiling: Ceiling, caps: Caps, declared: Vec<Declared>) -> Self {
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

    /// What each number counts.
    pub fn components(&self) -> &[Component] {
        &self.components
    }

    /// The most each number may come to.
    pub fn caps(&self) -> &[u64] {
        &self.caps
    }

    /// What was declared in advance; empty but for [`Rule::Fixed`].
    pub fn declared(&self) -> &[Declared] {
        &self.declared
    }

    /// The numbers a cost comes to, each rounded up.
    ///
    /// # Errors
    /// When the rule has no number for one of its mechanisms.
    pub fn price(&self, cost: &Cost, lane: Lane, blocks: &Blocks) -> Result<Amounts, Unpriced> {
        let units = match self.rule {
            Rule::Basic => basic::price(cost, self.ceiling)?,
            Rule::Strong => strong::price(cost, self.ceiling)?,
            Rule::Renyi => renyi::price(cost, self.ceiling, &self.components),
            Rule::Fixed => fixed::price(cost, lane, blocks, &self.declared)?,
        };
        Ok(Amounts(units))
    }

    /// Whether the amounts may be added to what has been spent.
    pub fn admits(&self, spent: &[u128], asked: &Amounts) -> bool {
        spent.len() == self.caps.len() && self.first_short(spent, asked).is_none()
    }

    /// The first of several rows of numbers, one after the other, to which the amounts may not be added.
    pub(crate) fn first_short(&self, cells: &[u128], asked: &Amounts) -> Option<usize> {
        let (asked, caps) = (asked.0.as_slice(), self.caps.as_slice());
        if asked.len() != caps.len() {
            return Some(0);
        }
        let width = caps.len();
        // The common case, written so that it runs at the speed of memory.
        if let (&[one, two], &[cap_one, cap_two], 2) = (asked, caps, self.required) {
            let above = |spent: u128, asked: u64, cap: u64| spent + u128::from(asked) > u128::from(cap);
            let (cells, _) = cells.as_chunks::<2>();
            return cells.iter().position(|cell| above(cell[0], one, cap_one) || above(cell[1], two, cap_two));
        }
        let over = |spent: &[u128], place: usize| spent[place] + u128::from(asked[place]) > u128::from(caps[place]);
        // The alternative that served one block most often serves the next one too.
        let mut hint = self.required;
        cells.chunks_exact(width).position(|spent| {
            let without_alternative = self.required < width && over(spent, hint) && {
                let found = (self.required..width).find(|&place| !over(spent, place));
                hint = found.unwrap_or(hint);
                found.is_none()
            };
            without_alternative || (0..self.required).any(|place| over(spent, place))
        })
    }

    /// The number that stands in the way of the amounts, or would first: where a refusal points.
    pub(crate) fn binding(&self, spent: &[u128], asked: &Amounts) -> usize {
        let over = |place: usize| spent[place] + u128::from(asked.0[place]) > u128::from(self.caps[place]);
        // Among alternatives, the one that is missed by the smallest share of its cap.
        let missed = |place: &usize| {
            let after = spent[*place].saturating_add(u128::from(asked.0[*place]));
            after.saturating_mul(1 << 20) / u128::from(self.caps[*place].max(1))
        };
        let required = (0..self.required).find(|&place| over(place));
        let finite = (self.required..self.caps.len()).filter(|&place| asked.0[place] != UNBOUNDED);
        required.or_else(|| finite.min_by_key(missed)).unwrap_or(self.caps.len() - 1)
    }
}
