//! Walker's alias table: a weighted draw with one table lookup.

/// Builds the exact alias table for weights with total `column * N`. The first array holds, per column, the leading bits
/// of the threshold from bit `shift` on and the alias in the lowest bits; the second, the next 64 bits of the threshold.
///
/// # Guarantee
/// A draw below a column's threshold yields the column's own outcome, any other draw its alias. Summed over all columns,
/// each outcome has exactly its weight.
#[expect(clippy::boxed_local, reason = "the array is too large for a stack")]
pub fn alias_columns<const N: usize>(
    mut weights: Box<[u128; N]>, column: u128, shift: u32,
) -> (Box<[u64; N]>, Box<[u64; N]>) {
    let mut columns = Box::new([0u64; N]);
    let mut thresholds_low = Box::new([0; N]);
    // A full column is its own alias, so its threshold has no effect.
    for (index, own) in columns.iter_mut().enumerate() {
        *own = index as u64;
    }
    let (mut short, mut long): (Vec<usize>, Vec<usize>) = (0..N).partition(|&index| weights[index] < column);
    while let (Some(&small), Some(&large)) = (short.last(), long.last()) {
        short.pop();
        columns[small] = ((weights[small] >> 64) as u64) << shift | large as u64;
        thresholds_low[small] = weights[small] as u64;
        weights[large] -= column - weights[small];
        if weights[large] < column {
            long.pop();
            short.push(large);
        }
    }
    (columns, thresholds_low)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// For random weights, the outcomes' masses over all columns add up to the weights.
    #[test]
    fn columns_add_up_to_the_weights() {
        let (column, shift) = (1u128 << 70, 8);
        let mut draw = crate::tests::words(12);
        for round in 0..50u32 {
            let mut weights = Box::new([0u128; 16]);
            let mut left = column * 16;
            for weight in weights.iter_mut().take(15) {
                *weight = (u128::from(draw()) << 16 >> (draw() % 40)).min(left) * u128::from(!draw().is_multiple_of(3));
                left -= *weight;
            }
            weights[15] = left;
            let (columns, low) = alias_columns(weights.clone(), column, shift);
            let mut masses = [0u128; 16];
            for (index, (&one, &low)) in columns.iter().zip(low.iter()).enumerate() {
                let kept = u128::from(one >> shift) << 64 | u128::from(low);
                let alias = (one & 15) as usize;
                masses[index] += kept;
                masses[alias] += column - kept;
            }
            assert_eq!(masses, *weights, "round {round}");
        }
    }
}
