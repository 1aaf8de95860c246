//! Moments and tables: exact sums, noise of the least lengths, limits of sizes, and charges that are used up.

use std::sync::Arc;

use sage_kernel::noise::SeededNoise;
use sage_kernel::{
    AccessMode, BlockPart, Cost, Lane, LayerShape, Mechanism, MomentBounds, OneHotBounds, Permit, Range, Rate,
    Rounding, SCALE, SessionError, Sigma, Step, SummaryKey, SummaryTag, TableNoise,
};
use sage_numerics::{GAP, ROWS_AT_A_TIME};

use crate::support::{Grid, Seeded, TestRows, Yard, epsilon_of, gaussian, laplace, sampled, sigma_of, unit_of};

/// Units of the grid of a label or a feature vector of the largest size.
const SIZE: u64 = 1 << 20;
const KEY: SummaryKey = SummaryKey::from_bytes([5; 32]);
const TAG: SummaryTag = SummaryTag([7; 32]);

fn costs() -> [Option<Cost>; 2] {
    [Some(Cost::new(vec![laplace(epsilon_of("0.5"), 1)]).expect("a cost")), None]
}

/// The exact sums of one feature and a label, as a sealed summary has them: squares, products, squares of labels.
fn exact_sums(permit: &Permit, rows: Vec<Vec<f64>>) -> Vec<i64> {
    let block = permit.blocks().ranges()[0].first();
    let part = BlockPart { block, lane: Lane::Train, source: [0; 32] };
    let bounds = MomentBounds { width: 1, feature_norm: 1.0, label_size: 1.0 };
    let value = |row: &[f64], features: &mut [f64]| {
        features[0] = row[0];
        row[1]
    };
    let summary = permit.summarise_moments(part, TAG, bounds, &[TestRows(rows)], value);
    let summary = summary.expect("covered").expect("fits");
    let bytes = permit.seal(&KEY, &summary).expect("covered");
    // The length of the form, its four words and the number of rows come first, the code of 32 bytes last.
    let (words, _) = bytes[48..bytes.len() - 32].as_chunks::<8>();
    words.iter().map(|word| i64::from_le_bytes(*word)).collect()
}

/// Labels go to the nearest unit, on both sides of zero, and no further than their size.
#[test]
fn labels_are_rounded_to_the_nearest_unit() {
    let permit = Yard::new().permit(AccessMode::Enforced, costs());
    let scale = 1.0 / unit_of(1.0, SIZE, 1);
    let one = scale.round() as i64;
    for row in 0..2000 {
        let label = (f64::from(row) - 1000.0) * 7.770_001e-4;
        let units = (label.clamp(-1.0, 1.0) * scale).round() as i64;
        assert_eq!(exact_sums(&permit, vec![vec![1.0, label]]), [one * one, one * units, units * units], "{label}");
    }
    assert_eq!(exact_sums(&permit, vec![vec![1.0, f64::NAN]]), [one * one, 0, 0]);
}

/// More rows than are multiplied at a time, and more than a float can sum exactly.
#[test]
fn sums_of_many_rows_are_exact() {
    let permit = Yard::new().permit(AccessMode::Enforced, costs());
    let rows = 3 * ROWS_AT_A_TIME.max(1 << 13) + 7;
    let scale = 1.0 / unit_of(1.0, SIZE, 1);
    let label = (SIZE as f64 - 3.0) / scale;
    let (one, units) = (scale.round() as i64, SIZE as i64 - 3);
    let sums = exact_sums(&permit, vec![vec![1.0, label]; rows]);
    let rows = rows as i64;
    assert!(rows * units * units > 1 << 54 && units % 2 == 1);
    assert_eq!(sums, [rows * one * one, rows * one * units, rows * units * units]);
}

/// A vector beyond its norm keeps its direction and gets the largest length of the grid, less half a unit for the
/// rounding of each coordinate and one: it is shortened, not dropped.
#[test]
fn long_vectors_are_shortened() {
    let permit = Yard::new().permit(AccessMode::Enforced, costs());
    let part = BlockPart { block: permit.blocks().ranges()[0].first(), lane: Lane::Train, source: [0; 32] };
    let bounds = MomentBounds { width: 2, feature_norm: 1.0, label_size: 1.0 };
    let reach = (SIZE as f64 - 0.5 * 2f64.sqrt() - 1.0) * (1.0 - 1e-12);
    for (features, norm) in [([3.0, 4.0], 5.0), ([-5.0, 12.0], 13.0), ([1e200, 0.0], 1e200), ([0.3, 0.4], 1.0)] {
        let value = |_: &[f64], out: &mut [f64]| {
            out.copy_from_slice(&features);
            0.0
        };
        let summary = permit.summarise_moments(part, TAG, bounds, &[TestRows(vec![vec![0.0]])], value);
        let bytes = permit.seal(&KEY, &summary.expect("covered").expect("fits")).expect("covered");
        let (words, _) = bytes[48..bytes.len() - 32].as_chunks::<8>();
        let numbers: Vec<i64> = words.iter().map(|word| i64::from_le_bytes(*word)).collect();
        let [x, y] = features.map(|feature: f64| (feature * (reach / norm)).round() as i64);
        assert_eq!(numbers, [x * x, x * y, 0, y * y, 0, 0], "{features:?}");
    }
}

/// A clip bounds something.
#[test]
fn clips_are_finite_and_above_zero() {
    let sigma = sigma_of("20");
    let mut session = Yard::new().train(vec![gaussian(sigma, 1, 1)], &[vec![0.5]], 1);
    for clip in [0.0, -1.0, f64::NAN, f64::INFINITY, 5e-324] {
        assert!(is_parameter(session.vector_sum(Lane::Train, 1, clip, sigma, |_, _| {})), "{clip}");
    }
    session.vector_sum(Lane::Train, 1, f64::MIN_POSITIVE, sigma, |_, _| {}).expect("the charge is still there");
}

fn moments(session: &Seeded, bounds: MomentBounds) -> sage_kernel::Moments {
    let value = |row: &[f64], features: &mut [f64]| {
        features.copy_from_slice(&row[..features.len()]);
        row[features.len()]
    };
    session.moments(Lane::Train, bounds, value).expect("granted")
}

/// The eigenvalue moves by a squared length and an error of 2^20 on each side: the noise covers all of it, to the unit.
#[test]
fn the_noise_of_an_eigenvalue_covers_its_error() {
    let bounds = MomentBounds { width: 3, feature_norm: 2.0, label_size: 1.0 };
    let sigma = sigma_of("3");
    let mut yard = Yard::new();
    for seed in 0..20 {
        let mut session = yard.train(vec![gaussian(sigma, 1, 1)], &[], seed);
        let moments = moments(&session, bounds);
        let released = session.noisy_smallest_eigenvalue(&moments, sigma).expect("covered");
        let grid = Grid::new((1 << 40) + (1 << 21) + 1, sigma, 1);
        let unit = unit_of(2.0, SIZE, 3);
        let point = released / (unit * unit) / grid.step;
        assert!((point - point.round()).abs() < 1e-4, "seed {seed}: {point} is not on the lattice");
        assert!(point.abs() > 1e4, "seed {seed}");
    }
}

/// One row's loss is at most (weights · features + label)², and rounding moves features by half the root of their number
/// and the shrinking of the grid by one, labels by a half and one.
#[test]
fn the_bounds_of_the_least_loss_are_those_of_its_parameters() {
    let (weight, feature, label) = (2.5, 3.0, 0.75);
    let bounds = MomentBounds { width: 4, feature_norm: feature, label_size: label };
    let mut session = Yard::new().train(vec![laplace(epsilon_of("1"), 1)], &[vec![0.5; 5]], 1);
    let moments = moments(&session, bounds);
    let best = session.least_squared_loss(&moments, weight, epsilon_of("1")).expect("covered");
    let exact = (weight * feature + label).powi(2);
    assert!((best.bound / exact - 1.0).abs() < 1e-5, "{} {exact}", best.bound);
    assert!((best.gap - (GAP + 1.0 / SCALE as f64)).abs() < 1e-12);
    let radius = weight * unit_of(feature, SIZE, 4) / unit_of(label, SIZE, 1);
    let moved = radius * (0.5 * 2.0 + 1.0) + (0.5 + 1.0);
    let rounding = 2.0 * moved / ((radius + 1.0) * SIZE as f64);
    assert!((best.rounding / rounding - 1.0).abs() < 1e-9, "{} {rounding}", best.rounding);
}

/// Weights that are hardly any leave the squares of the labels as the loss, for rows of columns too.
#[test]
fn labels_of_one_hot_moments_count_in_their_own_unit() {
    let bounds = OneHotBounds { active: 1, columns: 3, label_size: 1.0 };
    let rows = vec![vec![2.0, 0.5]; 100];
    let mut session = Yard::new().train(vec![laplace(epsilon_of("10000"), 1)], &rows, 1);
    let value = |row: &[f64], columns: &mut [u32]| {
        columns[0] = row[0] as u32;
        row[1]
    };
    let moments = session.one_hot_moments(Lane::Train, bounds, value).expect("granted");
    let best = session.least_squared_loss(&moments, 1e-6, epsilon_of("10000")).expect("covered");
    assert!((best.loss - 25.0).abs() < 0.1 && (best.rest - 75.0).abs() < 0.1, "{best:?}");
}

/// Each release of moments uses up its own part of the charge.
#[test]
fn releases_of_moments_use_up_the_charge() {
    let bounds = MomentBounds { width: 2, feature_norm: 1.0, label_size: 1.0 };
    let (sigma, epsilon) = (sigma_of("20"), epsilon_of("0.5"));
    let parts = vec![laplace(epsilon, 1), gaussian(sigma, 1, 1), gaussian(sigma, 2, 1), gaussian(sigma, 3, 1)];
    let mut session = Yard::new().train(parts, &[vec![0.5; 3]], 1);
    let moments = moments(&session, bounds);
    session.least_squared_loss(&moments, 1.0, epsilon).expect("covered");
    session.noisy_smallest_eigenvalue(&moments, sigma).expect("covered");
    session.noisy_cross(&moments, sigma).expect("covered");
    session.noisy_matrix(&moments, sigma).expect("covered");
    let refused = Some(SessionError::NotCovered);
    assert_eq!(session.least_squared_loss(&moments, 1.0, epsilon).err(), refused);
    assert_eq!(session.noisy_smallest_eigenvalue(&moments, sigma).err(), refused);
    assert_eq!(session.noisy_cross(&moments, sigma).err(), refused);
    assert_eq!(session.noisy_matrix(&moments, sigma).err(), refused);
}

fn is_parameter<T>(outcome: Result<T, SessionError>) -> bool {
    matches!(outcome, Err(SessionError::Parameter(_)))
}

/// Tables have from 1 to 2^24 keys, wherever they are summed, and a refused one costs nothing.
#[test]
fn tables_have_a_size() {
    let epsilon = epsilon_of("0.5");
    let mut session = Yard::new().train(vec![laplace(epsilon, 1)], &[vec![0.5]], 1);
    let (noise, range) = (TableNoise::Laplace(epsilon), Range::new(0.0, 1.0).expect("a range"));
    for keys in [0, (1 << 24) + 1] {
        assert!(is_parameter(session.histogram(Lane::Train, keys, noise, |_| Some(0))), "{keys}");
        assert!(is_parameter(session.pairs(Lane::Train, keys, range, Rounding::Up, noise, |_| None)), "{keys}");
        assert!(is_parameter(session.majority_counts(Lane::Train, keys, 1, noise, |_| None)), "{keys}");
        let permit = Yard::new().permit(AccessMode::Enforced, costs());
        let part = BlockPart { block: permit.blocks().ranges()[0].first(), lane: Lane::Train, source: [0; 32] };
        let rows: [TestRows; 0] = [];
        let pairs = permit.summarise_pairs(part, TAG, keys, (range, Rounding::Up), &rows, |_| None);
        assert!(is_parameter(pairs), "{keys}");
        assert!(is_parameter(permit.summarise_histogram(part, TAG, keys, &rows, |_| None)), "{keys}");
    }
    session.histogram(Lane::Train, 1, noise, |_| Some(0)).expect("the charge is still there");
}

/// The largest table and the widest moments are admitted, and the next ones are not. On a lane that the permit does not
/// cover, so that nothing is allocated: sizes are checked first.
#[test]
fn sizes_end_where_they_are_said_to() {
    let permit = Yard::new().permit(AccessMode::Enforced, costs());
    let part = BlockPart { block: permit.blocks().ranges()[0].first(), lane: Lane::Test, source: [0; 32] };
    let rows: [TestRows; 0] = [];
    let uncovered = Some(SessionError::NotCovered);
    for beyond in [0, 1] {
        let keys = permit.summarise_histogram(part, TAG, (1 << 24) + beyond, &rows, |_| None);
        let bounds = MomentBounds { width: 4096 + beyond, feature_norm: 1.0, label_size: 1.0 };
        let moments = permit.summarise_moments(part, TAG, bounds, &rows, |_, _| 0.0);
        let bounds = OneHotBounds { active: 1, columns: 4095 + beyond, label_size: 1.0 };
        let one_hot = permit.summarise_one_hot(part, TAG, bounds, &rows, |_, _| 0.0);
        for outcome in [keys, moments, one_hot] {
            match beyond {
                0 => assert_eq!(outcome.err(), uncovered),
                _ => assert!(is_parameter(outcome)),
            }
        }
    }
}

/// A lane that was opened on sums has no rows: what needs rows is refused and costs nothing.
#[test]
fn sums_are_no_rows() {
    let (epsilon, sigma) = (epsilon_of("0.5"), sigma_of("20"));
    let parts = vec![laplace(epsilon, 1), sampled(Rate::LIMIT, sigma, 2, 1), gaussian(sigma, 1, 1)];
    let costs = [Some(Cost::new(parts).expect("a cost")), None];
    let permit = Yard::new().permit(AccessMode::Enforced, costs);
    let part = BlockPart { block: permit.blocks().ranges()[0].first(), lane: Lane::Train, source: [0; 32] };
    let opened = permit.open_with_summaries(SeededNoise::new(1), TAG, |permit| {
        let rows = [TestRows(vec![vec![1.0]; 40])];
        let summary = permit.summarise_histogram(part, TAG, 1, &rows, |_| Some(0)).expect("covered").expect("fits");
        Ok::<_, ()>(([Vec::new(), Vec::new()], vec![Arc::new(summary)]))
    });
    let mut session: Seeded = opened.expect("opens");
    let noise = TableNoise::Laplace(epsilon);
    let step = Step { rate: Rate::LIMIT, sigma, clip: 1.0 };
    assert!(is_parameter(session.majority_counts(Lane::Train, 1, 1, noise, |_| None)));
    assert!(is_parameter(session.sampled_sum(Lane::Train, step, &[LayerShape::dense(1, 1)], |_, _| {})));
    assert!(is_parameter(session.vector_sum(Lane::Train, 1, 1.0, sigma, |_, _| {})));
    let counted = session.histogram(Lane::Train, 1, noise, |_| Some(0)).expect("the charge is still there");
    assert!((counted[0] - 40.0).abs() < 60.0, "{counted:?}");
}

/// Noise of zero is refused before anything is charged or read.
#[test]
fn noise_is_above_zero() {
    let sigma = sigma_of("20");
    let mut session = Yard::new().train(vec![gaussian(sigma, 1, 1)], &[vec![0.5]], 1);
    assert!(is_parameter(session.vector_sum(Lane::Train, 1, 1.0, Sigma::ZERO, |_, _| {})));
    session.vector_sum(Lane::Train, 1, 1.0, sigma, |_, _| {}).expect("the charge is still there");
    assert!(Cost::new(vec![Mechanism::Gaussian { sigma: Sigma::ZERO, coordinates: 1, count: 1 }]).is_err());
}

/// A row may name all columns that there are, and no more.
#[test]
fn rows_name_at_most_all_columns() {
    let session = Yard::new().train(vec![laplace(epsilon_of("0.5"), 1)], &[vec![0.5]], 1);
    let all = |active, columns| {
        let bounds = OneHotBounds { active, columns, label_size: 1.0 };
        session.one_hot_moments(Lane::Train, bounds, |_, columns| {
            (0..).zip(columns).for_each(|(at, column)| *column = at);
            0.0
        })
    };
    assert!(all(3, 3).is_ok() && all(0, 3).is_ok());
    assert!(is_parameter(all(4, 3)));
}
