//! Basic composition: sums of ε and of δ. Proof: `proofs/basic.md`.

use crate::cost::Cost;
use crate::filter::price::each_pair;
use crate::filter::{Caps, Ceiling, Component, PriceError};

pub(super) fn caps(ceiling: Ceiling) -> Caps {
    vec![(Component::Epsilon, ceiling.epsilon.units()), (Component::Delta, ceiling.delta.units())]
}

pub(super) fn price(cost: &Cost, ceiling: Ceiling) -> Result<Vec<u64>, PriceError> {
    let mut total = [0u64; 2];
    each_pair(cost, ceiling, |epsilon, delta, count| {
        let count = u64::from(count);
        total[0] = total[0].saturating_add(epsilon.saturating_mul(count));
        total[1] = total[1].saturating_add(delta.units().saturating_mul(count));
    })?;
    Ok(total.into())
}
