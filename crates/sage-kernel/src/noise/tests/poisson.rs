//! Poisson masks.

use super::super::poisson_mask;
use super::super::source::sealed::Sealed;
use super::{Scripted, chi_square_fits, count_fits, seeded};

/// Each bit of the mask is whether its own 64-bit number is below the rate.
#[test]
fn every_lane_compares_its_own_number_with_the_rate() {
    let mut source = seeded("every_lane_compares_its_own_number_with_the_rate");
    for round in 0..2_000 {
        let words: Vec<u64> = (0..64).map(|_| source.next_u64()).collect();
        let lane = |row: usize| words.iter().fold(0, |number, word| number << 1 | (word >> row & 1));
        let numerator = match round % 4 {
            0 => source.next_u64(),
            1 => lane(round % 64), // A number equal to the rate is not below it.
            2 => source.next_u64() >> (round % 64),
            _ => u64::MAX << (round % 64),
        };
        let mut mask = vec![7; 3];
        let mut scripted = Scripted::new(&words, 0);
        poisson_mask(&mut scripted, numerator.into(), 64, &mut mask).expect("a mask");
        let expected = (0..64).fold(0, |bits, row| bits | u64::from(lane(row) < numerator) << row);
        assert_eq!(mask, [expected], "rate {numerator:x}");
    }
}

#[test]
fn rows_are_selected_at_the_rate_and_no_other() {
    let mut source = seeded("rows_are_selected_at_the_rate_and_no_other");
    let mut mask = Vec::new();
    let rows = 4_000_000;
    for numerator in [(1u128 << 64) / 100, (1 << 64) / 3, 1 << 63, (1 << 64) - (1 << 58)] {
        poisson_mask(&mut source, numerator, rows, &mut mask).expect("a mask");
        let selected = mask.iter().map(|word| u64::from(word.count_ones())).sum();
        let probability = numerator as f64 / 2f64.powi(64);
        assert!(count_fits(selected, rows as u64, probability), "{probability}");
        let wrong = if probability > 0.5 { probability * 0.95 } else { probability * 1.05 };
        assert!(!count_fits(selected, rows as u64, wrong), "{probability}");
    }
}

/// Adjacent rows, and rows in the same bit of adjacent words, are sampled together as often as
/// independent ones, so the batch size has binomial spread, unlike a fixed size.
#[test]
fn rows_are_selected_independently() {
    let mut source = seeded("rows_are_selected_independently");
    let mut mask = Vec::new();
    let probability = 0.25;
    poisson_mask(&mut source, 1 << 62, 6_400_000, &mut mask).expect("a mask");
    for distance in [1, 2, 7, 31] {
        let both = mask.iter().map(|word| u64::from((word & word.rotate_left(distance)).count_ones()));
        assert!(count_fits(both.sum(), 6_400_000, probability * probability));
    }
    let across = mask.chunks_exact(2).map(|pair| u64::from((pair[0] & pair[1]).count_ones()));
    assert!(count_fits(across.sum(), 3_200_000, probability * probability));
    let mut counts = [0; 65];
    for word in &mask {
        counts[word.count_ones() as usize] += 1;
    }
    let mut binomial = [0.0; 65];
    binomial[0] = 0.75f64.powi(64);
    for size in 1..65 {
        binomial[size] = binomial[size - 1] * (65 - size) as f64 / size as f64 / 3.0;
    }
    assert!(chi_square_fits(&counts, &binomial));
    let mut shifted = binomial;
    shifted.rotate_right(1);
    assert!(!chi_square_fits(&counts, &shifted));
}

#[test]
fn none_all_and_ragged_ends() {
    let mut source = seeded("none_all_and_ragged_ends");
    let mut mask = vec![1, 2, 3];
    poisson_mask(&mut source, 0, 130, &mut mask).expect("a mask");
    assert_eq!(mask, [0, 0, 0]);
    poisson_mask(&mut source, 1 << 64, 130, &mut mask).expect("a mask");
    assert_eq!(mask, [u64::MAX, u64::MAX, 3]);
    poisson_mask(&mut source, 1 << 64, 0, &mut mask).expect("a mask");
    assert!(mask.is_empty());
    poisson_mask(&mut source, (1 << 64) - 1, 70, &mut mask).expect("a mask");
    assert_eq!(mask, [u64::MAX, 63]);
    poisson_mask(&mut source, u128::MAX, 3, &mut mask).expect("a mask");
    assert_eq!(mask, [7], "more than certain is certain");
}
