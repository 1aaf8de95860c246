//! The rounded Gaussian: its table compared with an independent computation, its draws with the distribution.

use super::super::RoundedGaussian;
use super::super::rounded_table::{
    BUCKET_BITS, BUCKETS, COLUMN, LEADING_SHIFT, REMAINDER, integer_at, rectangle_weights,
};
use super::super::source::sealed::Sealed;
use super::{Scripted, chi_square_fits, count_fits, fresh_seed, normal_cumulative, seeded};
use dashu::integer::IBig;
use sage_numerics::rounded_gaussian_height;

/// Digits of the independent computation. Terms of the series reach 2^185 and cancel.
const PRECISION: usize = 600;

/// `integral of exp(-t^2 / 2)` from zero to `ends / 2^25`, times `2^PRECISION`, by its power series.
fn integral(ends: i64) -> IBig {
    let half_square = IBig::from(i128::from(ends) * i128::from(ends)) << (PRECISION - 51);
    let mut term = IBig::from(ends) << (PRECISION - 25);
    let mut sum = term.clone();
    for index in 1..10_000u32 {
        term = -((term * &half_square) >> PRECISION) / IBig::from(index);
        sum += &term / IBig::from(2 * index + 1);
        if term.clone() * &term <= IBig::from(4) {
            break;
        }
    }
    sum
}

/// `sqrt(2 pi) * 2^PRECISION`: the whole integral, by an endpoint far out. The mass beyond 24
/// standard deviations is below 2^-400.
fn whole_integral() -> IBig {
    integral(24 << 25) * IBig::from(2)
}

/// `2^152 * P(first - 1/2 <= N < last + 1/2)`, in the units of the table's heights.
fn reference_mass(first: i32, last: i32, whole: &IBig) -> IBig {
    let mass = integral(2 * i64::from(last) + 1) - integral(2 * i64::from(first) - 1);
    (mass << 152) / whole
}

fn within(left: &IBig, right: &IBig, bits: usize) -> bool {
    let difference = left - right;
    let limit = IBig::from(1) << bits;
    difference < limit && -difference < limit
}

/// Heights are right to 2^23 units of 2^-152, which is 2^-104 of the largest probability.
#[test]
fn heights_agree_with_an_independent_series() {
    let mut source = seeded("heights_agree_with_an_independent_series");
    let whole = whole_integral();
    let random = (0..120).map(|round| (source.next_u64() >> 36) as i32 >> (round % 6));
    let fixed = [0, 1, -1, 2, 1 << 23, 1 << 24, -(1 << 24) - 1, (1 << 28) - 1, 1 - (1 << 28)];
    for x in random.chain(fixed) {
        let reference = reference_mass(x, x, &whole);
        let height = IBig::from(rounded_gaussian_height(x));
        assert!(within(&height, &reference, 23), "x = {x}");
        assert_eq!(rounded_gaussian_height(x), rounded_gaussian_height(-x));
        // The check can fail: even an adjacent height differs by more, where heights change at all.
        let next = IBig::from(rounded_gaussian_height(x + if x < 0 { 1 } else { -1 }));
        assert!(x.abs() < 100 || x.abs() > 9 << 24 || !within(&next, &reference, 23));
    }
}

/// The sum over the integers by the trapezoidal rule, which for a Gaussian is exact to 2^-1000 at
/// this step: heights add up to one.
#[test]
fn heights_add_up_to_one() {
    let step = 1 << 20;
    let sum: IBig = (-255..=255).map(|index| IBig::from(rounded_gaussian_height(index * step))).sum();
    // An error of 2^12 in each of 511 heights, times the step.
    assert!(within(&(sum << 20), &(IBig::from(1) << 152), 12 + 9 + 20));
}

/// All integers of a bucket together have the bucket's mass, to 2^-113.
#[test]
fn buckets_have_their_mass() {
    let whole = whole_integral();
    let table = RoundedGaussian::new().table;
    for index in [1, 800, 1400, 1792, 1919, 1920, 2000, 2047, 2048, 2049, 2175, 2176, 2303, 2600, 4095] {
        let last = integer_at(index, (1 << BUCKET_BITS) - 1);
        let (mut high, mut low) = (0u128, 0u128);
        for x in integer_at(index, 0)..=last {
            let height = rounded_gaussian_height(x);
            let gap = table.gaps_through[index] - table.gaps_through[index - 1];
            assert!(height >= table.floors[index] && height - table.floors[index] < gap, "x = {x}");
            high += height >> 64;
            low += height & u128::from(u64::MAX);
        }
        let sum = (IBig::from(high) << 64) + IBig::from(low);
        let reference = reference_mass(integer_at(index, 0), last, &whole);
        assert!(within(&sum, &reference, 39), "bucket {index}");
    }
}

#[test]
fn alias_table_holds_exactly_the_weights() {
    let table = RoundedGaussian::new().table;
    let weights = rectangle_weights(&table.floors);
    assert_eq!(weights.iter().sum::<u128>(), 1 << 111);
    let mut masses = vec![0u128; BUCKETS];
    for (index, (column, low)) in table.columns.iter().zip(table.thresholds_low.iter()).enumerate() {
        let kept = u128::from(column >> LEADING_SHIFT) << 64 | u128::from(*low);
        assert!(kept < COLUMN);
        masses[index] += kept;
        masses[*column as usize % BUCKETS] += COLUMN - kept;
    }
    assert_eq!(masses, weights.to_vec());
    let remainder = weights[REMAINDER] as f64 / 2f64.powi(111);
    assert!(remainder > 0.002 && remainder < 0.004, "{remainder}");
}

/// Edges every 2^14 within five standard deviations: eight cells in each bucket of the table.
#[test]
fn ten_million_draws_have_the_distribution_and_no_other_width() {
    let mut source = seeded("ten_million_draws_have_the_distribution_and_no_other_width");
    let (cell_bits, reach) = (14, 5 << 10);
    let mut counts = vec![0; 2 * reach + 2];
    let mut beyond = [0; 4];
    let mut low_bits = [0; 256];
    let mut noise = vec![0; 1 << 16];
    let draws = 160 << 16;
    for _ in 0..160 {
        RoundedGaussian::new().fill(&mut source, &mut noise).expect("noise");
        for &value in &noise {
            let cell = (value >> cell_bits) + reach as i32;
            counts[(cell + 1).clamp(0, 2 * reach as i32 + 1) as usize] += 1;
            low_bits[value as usize % 256] += 1;
            for (sigmas, count) in (2..).zip(&mut beyond) {
                *count += u64::from(value.unsigned_abs() > sigmas << 24);
            }
        }
    }
    let distribution = |width: f64| -> Vec<f64> {
        let below = |cell: usize| {
            let edge = ((cell as f64 - reach as f64) * f64::from(1 << cell_bits) - 0.5) / width;
            normal_cumulative(edge)
        };
        let inner = (0..=2 * reach).map(|cell| if cell == 0 { below(0) } else { below(cell) - below(cell - 1) });
        inner.chain([1.0 - below(2 * reach)]).collect()
    };
    let width = f64::from(RoundedGaussian::STANDARD_DEVIATION);
    assert!(chi_square_fits(&counts, &distribution(width)));
    assert!(!chi_square_fits(&counts, &distribution(width * 1.01)));
    assert!(!chi_square_fits(&counts, &distribution(width * 0.99)));
    assert!(chi_square_fits(&low_bits, &[1.0 / 256.0; 256]));
    for (sigmas, count) in (2..).zip(beyond) {
        let tail = |width: f64| libm::erfc(f64::from(sigmas) / width / std::f64::consts::SQRT_2);
        assert!(count_fits(count, draws, tail(1.0)), "beyond {sigmas}");
        // Beyond five deviations a wrong width would expect 55 draws instead of 6: too few to detect reliably.
        assert!(sigmas > 4 || !count_fits(count, draws, tail(1.1)), "beyond {sigmas}");
    }
}

/// The remainder alone: by bucket in proportion to the gaps, within a bucket falling in a
/// straight line away from zero.
#[test]
fn the_remainder_has_its_own_distribution() {
    let mut source = seeded("the_remainder_has_its_own_distribution");
    let table = RoundedGaussian::new().table;
    let (mut indices, mut buckets) = ([0; 16], vec![0; 256]);
    for _ in 0..300_000 {
        let x = table.draw_remainder(&mut source);
        let column = (x & ((1 << BUCKET_BITS) - 1)) >> (BUCKET_BITS - 4);
        indices[if x < 0 { 15 - column } else { column } as usize] += 1;
        buckets[(((x + (1 << 28)) >> BUCKET_BITS) / 16) as usize] += 1;
    }
    let falling: Vec<f64> = (0..16).map(|column| f64::from(31 - 2 * column) / 256.0).collect();
    assert!(chi_square_fits(&indices, &falling));
    assert!(!chi_square_fits(&indices, &[1.0 / 16.0; 16]));
    let total = table.gaps_through[BUCKETS - 1] as f64;
    let gaps: Vec<f64> = (0..256)
        .map(|group| {
            let before = if group == 0 { 0 } else { table.gaps_through[16 * group - 1] };
            (table.gaps_through[16 * group + 15] - before) as f64 / total
        })
        .collect();
    assert!(chi_square_fits(&buckets, &gaps));
}

/// The first point of a bucket's gap belongs to that bucket, at height zero, under the curve.
#[test]
fn gaps_begin_where_the_last_one_ends() {
    let table = RoundedGaussian::new().table;
    for index in 1..BUCKETS - 1 {
        let point = table.gaps_through[index];
        let mut source = Scripted::new(&[point as u64, (point >> 64) as u64, 0], 0);
        let (first, x) = (integer_at(index + 1, 0), table.draw_remainder(&mut source));
        assert!(rounded_gaussian_height(first) <= table.floors[index + 1] || x == first);
    }
}

/// Where the leading bits tie with a threshold, the next 64 decide.
#[test]
fn ties_with_a_threshold_are_decided_by_the_next_word() {
    let noise = RoundedGaussian::new();
    let seed = fresh_seed("ties_with_a_threshold_are_decided_by_the_next_word");
    let mut checked = 0;
    for index in 1..BUCKETS {
        let (column, low) = (noise.table.columns[index], noise.table.thresholds_low[index]);
        let alias = column as usize % BUCKETS;
        if alias == index || alias == REMAINDER || low == 0 {
            continue;
        }
        let word = column >> LEADING_SHIFT << LEADING_SHIFT | index as u64;
        for (next, outcome) in [(low - 1, index), (low, alias)] {
            let mut out = [0];
            let mut source = Scripted::new(&[word, next], seed);
            noise.fill(&mut source, &mut out).expect("noise");
            assert_eq!(out, [integer_at(outcome, 0)]);
        }
        checked += 1;
    }
    assert!(checked > 100);
}
