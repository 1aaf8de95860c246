//! Fixed composition: every query is declared, blocks and parameters, before the first read. Proof:
//! `proofs/fixed.md`.
//!
//! Nothing adaptive may touch such a stream, so each block's declared queries can be composed as well
//! as any fixed list can be, once, when the stream is created. What is left to check later is that a
//! query is one of those declared and has not been used up.

use std::collections::BTreeSet;

use crate::block::{Blocks, Lane};
use crate::cost::{Cost, Mechanism};
use crate::filter::price::{cost_units, deviation, losses, pure_loss, spare_delta};
use crate::filter::{Caps, Ceiling, Component, Unpriced};
use crate::message::says;

/// A query declared in advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Declared {
    /// The blocks it will read.
    pub blocks: Blocks,
    /// The lane it will read.
    pub lane: Lane,
    /// What it will cost.
    pub cost: Cost,
    /// How often it will run.
    pub times: u32,
}

/// Why a list of declarations makes no filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FixedError {
    /// No declaration, one that never runs, or ε_g = 0.
    Empty,
    /// More than 4096 declarations.
    TooMany,
    /// A mechanism whose privacy loss is not known as a distribution (zCDP or a curve).
    NotComposable,
    /// Some block and lane would lose more than the ceiling.
    AboveCeiling(Lane),
}

says!(error FixedError {
    Self::Empty => "declare at least one query that runs, under an epsilon above zero",
    Self::TooMany => "at most 4096 queries can be declared",
    Self::NotComposable => "a fixed stream takes no zCDP bound and no declared curve",
    Self::AboveCeiling(lane) => {
        format!("the declared queries together pass the ceiling on some block, {lane} lane")
    },
});

/// One number for each declaration: how often it may run. Equal declarations are folded.
pub(super) fn caps(ceiling: Ceiling, declared: Vec<Declared>) -> Result<(Vec<Declared>, Caps), FixedError> {
    let mut folded: Vec<Declared> = Vec::new();
    for one in declared {
        let same =
            |other: &&mut Declared| (&other.blocks, other.lane, &other.cost) == (&one.blocks, one.lane, &one.cost);
        match folded.iter_mut().find(same) {
            Some(other) => other.times = other.times.saturating_add(one.times),
            None => folded.push(one),
        }
    }
    let runs = !folded.is_empty() && folded.iter().all(|one| one.times > 0);
    if !runs || ceiling.epsilon.units() == 0 {
        return Err(FixedError::Empty);
    }
    if folded.len() > 4096 {
        return Err(FixedError::TooMany);
    }
    for lane in Lane::BOTH {
        for together in meeting(&folded, lane) {
            let loss = compose(ceiling, together.iter().map(|&place| (&folded[place], folded[place].times)))?;
            if loss > ceiling.epsilon.units() {
                return Err(FixedError::AboveCeiling(lane));
            }
        }
    }
    let caps = (0u32..).zip(&folded).map(|(place, one)| (Component::Declaration(place), u64::from(one.times)));
    Ok((folded.clone(), caps.collect()))
}

/// The distinct sets of declarations that meet on some block of the lane.
fn meeting(declared: &[Declared], lane: Lane) -> BTreeSet<Vec<usize>> {
    let here = || (0..declared.len()).filter(|&place| declared[place].lane == lane);
    // Between two neighbouring starts of ranges a set can only lose members, so starts suffice.
    here()
        .flat_map(|place| declared[place].blocks.ranges())
        .map(|range| here().filter(|&place| declared[place].blocks.contains(range.first())).collect())
        .collect()
}

/// The loss in units of the declarations run so often, by the better of two valid compositions; the second is left out
/// where the first is within the ceiling.
fn compose<'one>(ceiling: Ceiling, declared: impl Iterator<Item = (&'one Declared, u32)>) -> Result<u64, FixedError> {
    let mut parts: Vec<(&Mechanism, u32)> = Vec::new();
    let (mut sum, mut sum_delta, mut lost, mut spare) = (0u64, 0u64, 0u64, ceiling.delta.units());
    for (one, times) in declared {
        let often = |units: u64| units.saturating_mul(u64::from(times));
        spare = spare.saturating_sub(often(deviation(one.cost.parts(), ceiling)));
        for part in one.cost.parts() {
            let (loss, delta) = pure_loss(part);
            sum = sum.saturating_add(often(loss));
            sum_delta = sum_delta.saturating_add(often(delta));
            // All of its loss is its δ.
            if loss == 0 {
                lost = lost.saturating_add(often(delta));
            } else {
                parts.push((part, times));
            }
        }
    }
    let sum = if sum_delta <= spare { sum } else { u64::MAX };
    if parts.is_empty() {
        return Ok(sum);
    }
    let composition = losses(parts.into_iter()).ok_or(FixedError::NotComposable)?;
    if sum <= ceiling.epsilon.units() {
        return Ok(sum);
    }
    let tight = composition.epsilon(spare_delta(spare.saturating_sub(lost))).map_or(u64::MAX, cost_units);
    Ok(sum.min(tight))
}

pub(super) fn price(cost: &Cost, lane: Lane, blocks: &Blocks, declared: &[Declared]) -> Result<Vec<u64>, Unpriced> {
    let wanted = |one: &Declared| one.lane == lane && one.blocks == *blocks && one.cost == *cost;
    let place = declared.iter().position(wanted).ok_or(Unpriced::NotDeclared)?;
    Ok((0..declared.len()).map(|other| u64::from(other == place)).collect())
}
