//! Fixed composition: all queries, with their blocks and parameters, are declared before the first read. Proof:
//! `proofs/fixed.md`.
//!
//! No adaptive query can read such a stream, so the queries declared for each block are composed once, when the stream
//! is created, by the tightest accountant for a fixed list. Later it is only checked that a query was declared and has
//! runs left.

use std::collections::BTreeSet;

use crate::block::{Blocks, Lane};
use crate::cost::{Cost, Mechanism};
use crate::filter::price::{cost_units, deviation, losses, pure_loss, spare_delta};
use crate::filter::{Caps, Ceiling, Component, PriceError};
use crate::message::display;

/// A query declared in advance.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeclaredQuery {
    /// The blocks it will read.
    pub blocks: Blocks,
    /// The lane it will read.
    pub lane: Lane,
    /// What it will cost.
    pub cost: Cost,
    /// How often it will run.
    pub times: u32,
}

/// Why declared queries do not make a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FixedError {
    /// No query, a query with zero runs, or ε_g = 0.
    Empty,
    /// More than 4096 queries.
    TooMany,
    /// A mechanism whose privacy-loss distribution is not known (zCDP or a curve).
    NotComposable,
    /// The queries on some block of the lane exceed the ceiling.
    AboveCeiling(Lane),
}

display!(error FixedError {
    Self::Empty => "declare at least one query that runs, under an epsilon above zero",
    Self::TooMany => "at most 4096 queries can be declared",
    Self::NotComposable => "the fixed filter cannot compose zCDP bounds or declared curves; use another mechanism",
    Self::AboveCeiling(lane) => {
        format!("the declared queries together exceed the ceiling on some block, {lane} lane")
    },
});

/// The queries with equal ones merged, and the number of runs of each as its cap.
pub(super) fn caps(ceiling: Ceiling, declared: Vec<DeclaredQuery>) -> Result<(Vec<DeclaredQuery>, Caps), FixedError> {
    let mut folded: Vec<DeclaredQuery> = Vec::new();
    for one in declared {
        let same =
            |other: &&mut DeclaredQuery| (&other.blocks, other.lane, &other.cost) == (&one.blocks, one.lane, &one.cost);
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
        for together in overlapping(&folded, lane) {
            let loss = compose(ceiling, together.iter().map(|&index| (&folded[index], folded[index].times)))?;
            if loss > ceiling.epsilon.units() {
                return Err(FixedError::AboveCeiling(lane));
            }
        }
    }
    let caps = (0u32..).zip(&folded).map(|(index, one)| (Component::Declaration(index), u64::from(one.times)));
    Ok((folded.clone(), caps.collect()))
}

/// The distinct sets of queries that share some block of the lane, as indices.
fn overlapping(declared: &[DeclaredQuery], lane: Lane) -> BTreeSet<Vec<usize>> {
    let here = || (0..declared.len()).filter(|&index| declared[index].lane == lane);
    // Between two consecutive starts of ranges the set can only shrink, so it suffices to check the starts.
    here()
        .flat_map(|index| declared[index].blocks.ranges())
        .map(|range| here().filter(|&index| declared[index].blocks.contains(range.first())).collect())
        .collect()
}

/// The ε of running each query the given number of times, in units: the smaller of two valid bounds. The second bound is
/// computed only if the first exceeds the ceiling.
fn compose<'one>(
    ceiling: Ceiling, declared: impl Iterator<Item = (&'one DeclaredQuery, u32)>,
) -> Result<u64, FixedError> {
    let mut parts: Vec<(&Mechanism, u32)> = Vec::new();
    let (mut sum, mut sum_delta, mut lost, mut spare) = (0u64, 0u64, 0u64, ceiling.delta.units());
    for (one, times) in declared {
        let often = |units: u64| units.saturating_mul(u64::from(times));
        spare = spare.saturating_sub(often(deviation(one.cost.parts(), ceiling)));
        for part in one.cost.parts() {
            let (loss, delta) = pure_loss(part);
            sum = sum.saturating_add(often(loss));
            sum_delta = sum_delta.saturating_add(often(delta));
            // A mechanism with ε = 0 costs only its δ.
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

pub(super) fn price(
    cost: &Cost, lane: Lane, blocks: &Blocks, declared: &[DeclaredQuery],
) -> Result<Vec<u64>, PriceError> {
    let matches = |one: &DeclaredQuery| one.lane == lane && one.blocks == *blocks && one.cost == *cost;
    let index = declared.iter().position(matches).ok_or(PriceError::NotDeclared)?;
    Ok((0..declared.len()).map(|other| u64::from(other == index)).collect())
}
