//! Record and replay: the same seed gives the same noise, so two runs on neighbouring rows differ by
//! exactly what the one row did to the sums. That difference is compared with the claimed sensitivity.

use crate::support::{
    Dice, EXTREMES, Grid, Seeded, TestRows, Yard, concentrated, epsilon_of, gaussian, laplace, run_seed, sampled,
    sigma_of, size, unit_of,
};
use sage_kernel::noise::SeededNoise;
use sage_kernel::{
    AccessMode, Cost, Lane, LayerRows, LayerShape, MomentBounds, Moments, OneHotBounds, Range, Rate, Rounding, Rows,
    SCALE, Sample, Step, TableNoise,
};

/// A row: a key, a number, three features, a label.
const ROW: usize = 6;
const KEYS: u32 = 3;
const WIDTH: u32 = 3;
const CLIP: f64 = 1.5;
/// Units in the grids of `vector.rs` and `moments.rs`.
const VECTOR_LENGTH: u64 = 1 << 30;
const MOMENT_LENGTH: u64 = 1 << 20;
const BOUNDS: MomentBounds = MomentBounds { width: WIDTH, feature_norm: 2.0, label_size: 0.75 };
/// Few columns, counted as bit columns, and many, counted row by row.
const ONE_HOT: [OneHotBounds; 2] = [
    OneHotBounds { active: 2, columns: 5, label_size: 0.75 },
    OneHotBounds { active: 1, columns: 13, label_size: 0.75 },
];
const LAYERS: [LayerShape; 2] = [LayerShape::dense(WIDTH, 2), LayerShape::one_hot(2, 5, 1)];

/// What one run released, each number as a whole number of its unit, but for the network's gradient.
#[derive(Debug, PartialEq)]
struct Released {
    /// Tables with Laplace noise: an L1 bound, the numbers.
    tables: Vec<(i128, Vec<i128>)>,
    /// Vector releases: an L2 bound, the numbers.
    vectors: Vec<(f64, Vec<i128>)>,
    gradient: Vec<f32>,
}

fn key_of(row: &[f64]) -> Option<u32> {
    row[0].is_finite().then_some(row[0] as u32)
}

fn backward(sample: &Sample<'_, TestRows>, layers: &mut [LayerRows]) {
    layers.iter_mut().for_each(LayerRows::clear);
    for index in 0..sample.count() {
        let row = sample.row(index);
        layers[0].values.extend(row[2..5].iter().map(|&value| value as f32));
        layers[0].errors.extend([row[1] as f32, row[5] as f32]);
        let key = key_of(row).unwrap_or(9);
        layers[1].indices.extend([key.min(4), 4]);
        layers[1].errors.push(row[5] as f32);
    }
}

fn whole(released: f64, unit: f64) -> i128 {
    let scaled = released / unit;
    assert!((scaled - scaled.round()).abs() < 1e-3, "{released} is off the grid of {unit}");
    scaled.round() as i128
}

/// Runs every mechanism once.
fn release(session: &mut Seeded) -> Released {
    let (epsilon, sigma) = (epsilon_of("1"), sigma_of("2"));
    let range = Range::new(-1.0, 1.0).expect("a range");
    let unit = 1.0 / SCALE as f64;
    let scale = i128::from(SCALE);
    let mut tables = Vec::new();
    let mut vectors = Vec::new();
    for taken in [Rounding::Nearest, Rounding::Up] {
        for noise in [TableNoise::Laplace(epsilon), TableNoise::Gaussian(sigma)] {
            let pairs =
                session.pairs(Lane::Train, KEYS, range, taken, noise, |row| key_of(row).map(|key| (key, row[1])));
            let pairs = pairs.expect("covered");
            let numbers = pairs.iter().flat_map(|pair| [pair.above, pair.below]);
            // One row moves the pairs by SCALE in L1, hence also in L2.
            tables.push((scale, numbers.map(|number| whole(number, unit)).collect()));
        }
    }
    for noise in [TableNoise::Laplace(epsilon), TableNoise::Gaussian(sigma)] {
        let counts = session.histogram(Lane::Train, KEYS, noise, key_of).expect("covered");
        tables.push((scale, counts.into_iter().map(|count| whole(count, unit)).collect()));
    }
    let sum = session.vector_sum(Lane::Train, WIDTH, CLIP, sigma, |row, out| {
        out.copy_from_slice(&row[2..5]);
    });
    let grid = Grid::new(u128::from(VECTOR_LENGTH), sigma, u64::from(WIDTH));
    let vector_unit = grid.step * unit_of(CLIP, VECTOR_LENGTH, WIDTH as usize);
    vectors.push((grid.reach, sum.expect("covered").iter().map(|&sum| whole(sum, vector_unit)).collect()));
    release_moments(session, &mut tables, &mut vectors);
    for taken in [Rounding::Nearest, Rounding::Up] {
        for noise in [TableNoise::Laplace(epsilon), TableNoise::Gaussian(sigma)] {
            let triples =
                session.triples(Lane::Train, KEYS, range, taken, noise, |row| key_of(row).map(|key| (key, row[1])));
            let triples = triples.expect("covered");
            let numbers = triples.iter().flat_map(|triple| [triple.squares, triple.rest, triple.below]);
            tables.push((scale, numbers.map(|number| whole(number, unit)).collect()));
        }
    }
    for noise in [TableNoise::Laplace(epsilon), TableNoise::Gaussian(sigma)] {
        let outcomes = session.majority_counts(Lane::Train, KEYS, 2, noise, |row| Some((key_of(row)?, row[1] as u32)));
        tables.push((scale, outcomes.expect("covered").map(|number| whole(number, unit)).to_vec()));
    }
    let step = Step { rate: Rate::LIMIT, sigma, clip: CLIP };
    let gradient = session.sampled_sum(Lane::Train, step, &LAYERS, backward).expect("covered");
    Released { tables, vectors, gradient: gradient.concat() }
}

fn release_moments(session: &mut Seeded, tables: &mut Vec<(i128, Vec<i128>)>, vectors: &mut Vec<(f64, Vec<i128>)>) {
    let moments = session.moments(Lane::Train, BOUNDS, |row, out| {
        out.copy_from_slice(&row[2..5]);
        row[5]
    });
    let feature = unit_of(BOUNDS.feature_norm, MOMENT_LENGTH, WIDTH as usize);
    release_from(session, &moments.expect("granted"), WIDTH as usize, feature, tables, vectors);
    for bounds in ONE_HOT {
        // Casts turn hostile numbers into the first column, the last one and far beyond.
        let moments = session.one_hot_moments(Lane::Train, bounds, |row, indices| {
            let hostile = [row[0] as u32, row[1].abs().mul_add(2.0, 1.0) as u32];
            indices.iter_mut().zip(hostile).for_each(|(index, value)| *index = value);
            row[5]
        });
        let one = (MOMENT_LENGTH.pow(2) / (u64::from(bounds.active) + 1)).isqrt();
        let width = bounds.columns as usize + 1;
        release_from(session, &moments.expect("granted"), width, 1.0 / one as f64, tables, vectors);
    }
}

fn release_from(
    session: &mut Seeded, moments: &Moments, width: usize, feature: f64, tables: &mut Vec<(i128, Vec<i128>)>,
    vectors: &mut Vec<(f64, Vec<i128>)>,
) {
    let (epsilon, sigma) = (epsilon_of("1"), sigma_of("2"));
    let label = unit_of(BOUNDS.label_size, MOMENT_LENGTH, 1);
    let square = u128::from(MOMENT_LENGTH).pow(2);
    let matrix = session.noisy_matrix(moments, sigma).expect("covered");
    let grid = Grid::new(square << 16, sigma, (width * (width + 1) / 2) as u64);
    let cells = (0..width).flat_map(|row| (row..width).map(move |column| (row, column)));
    let numbers = cells.map(|(row, column)| {
        let weight = if row == column { 65_536.0 } else { 92_681.0 };
        whole(matrix[row * width + column] * weight, grid.step * feature * feature)
    });
    vectors.push((grid.reach, numbers.collect()));
    let cross = session.noisy_cross(moments, sigma).expect("covered");
    let grid = Grid::new(square, sigma, width as u64);
    let numbers = cross.iter().map(|&sum| whole(sum, grid.step * feature * label));
    vectors.push((grid.reach, numbers.collect()));
    let smallest = session.noisy_smallest_eigenvalue(moments, sigma).expect("covered");
    let grid = Grid::new(square + (1 << 21) + 1, sigma, 1);
    vectors.push((grid.reach, vec![whole(smallest, grid.step * feature * feature)]));
    let best = session.least_squared_loss(moments, 0.5, epsilon).expect("covered");
    let unit = 1.0 / SCALE as f64;
    tables.push((i128::from(SCALE) + 2 * 1024, vec![whole(best.loss, unit), whole(best.rest, unit)]));
}

/// Opens a session on batches of rows and runs everything.
fn run(yard: &mut Yard, batches: Vec<Vec<Vec<f64>>>, seed: u64) -> Released {
    let (epsilon, sigma) = (epsilon_of("1"), sigma_of("2"));
    let parts =
        vec![laplace(epsilon, 9), concentrated(sigma, 6), gaussian(sigma, 105, 10), sampled(Rate::LIMIT, sigma, 14, 1)];
    let cost = Cost::new(parts).expect("a cost");
    let batches = batches.into_iter().map(TestRows).collect();
    release(&mut yard.open([Some(cost), None], [batches, Vec::new()], seed))
}

/// Holds the difference of two runs against the sensitivities.
fn check(name: &str, without: &Released, with: &Released) {
    for (index, ((bound, one), (_, other))) in without.tables.iter().zip(&with.tables).enumerate() {
        let moved: i128 = one.iter().zip(other).map(|(one, other)| (one - other).abs()).sum();
        assert!(moved <= *bound, "{name}: table {index} moved by {moved}, claimed {bound}");
    }
    for (index, ((bound, one), (_, other))) in without.vectors.iter().zip(&with.vectors).enumerate() {
        let square: f64 = one.iter().zip(other).map(|(one, other)| ((one - other) as f64).powi(2)).sum();
        assert!(square.sqrt() <= *bound, "{name}: vector {index} moved by {}, claimed {bound}", square.sqrt());
    }
    // Released in single precision, so each number may be off by half a unit in its last place.
    let numbers = || without.gradient.iter().zip(&with.gradient);
    let rounding: f64 = numbers().map(|(one, other)| f64::from(one.abs().max(other.abs())) * 2e-7).sum();
    let square: f64 = numbers().map(|(&one, &other)| (f64::from(one) - f64::from(other)).powi(2)).sum();
    let grid = Grid::new(1 << 40, sigma_of("2"), 14);
    let bound = CLIP / (1u64 << 40) as f64 * grid.step * grid.reach + rounding;
    assert!(square.sqrt() <= bound, "{name}: gradient moved by {}, claimed {bound}", square.sqrt());
}

fn random_row(dice: &mut Dice) -> Vec<f64> {
    let mut row: Vec<f64> = (0..ROW).map(|_| dice.hostile()).collect();
    if dice.below(4) > 0 {
        row[0] = dice.below(4) as f64;
    }
    row
}

#[test]
fn a_row_never_moves_a_release_by_more_than_claimed() {
    let seed = run_seed("replay");
    let (mut dice, mut yard) = (Dice::new(seed), Yard::new());
    for pair in 0..size(10_000, 1_000_000) {
        let mut rows: Vec<Vec<f64>> = (0..dice.below(12)).map(|_| random_row(&mut dice)).collect();
        let without = run(&mut yard, vec![rows.clone()], pair as u64);
        rows.insert(dice.below(rows.len() + 1), random_row(&mut dice));
        let with = run(&mut yard, vec![rows], pair as u64);
        check(&format!("pair {pair}"), &without, &with);
    }
}

/// The attacks on floating-point sums of Casacuberta and others 2022, against every mechanism at once.
#[test]
fn crafted_neighbours_move_nothing_further() {
    let mut yard = Yard::new();
    let row = |key: f64, value: f64| vec![key, value, value, value, value, value];
    let bases: Vec<(&str, Vec<Vec<f64>>)> = vec![
        ("empty", Vec::new()),
        ("one zero", vec![row(0.0, 0.0)]),
        ("many tiny: each is lost beside a large one", vec![row(0.0, 2f64.powi(-54)); 2_000]),
        ("huge, then tiny", [vec![row(0.0, 1e308); 3], vec![row(0.0, 1e-300); 300]].concat()),
        ("rounding ties", vec![row(1.0, 2f64.powi(-21) * 3.0); 1_001]),
        ("repeated rounding", (1..400).map(|n| row(2.0, 1.0 / f64::from(n))).collect()),
        ("alternating signs", (0..300).map(|n| row(0.0, if n % 2 == 0 { 1e16 } else { -1e16 })).collect()),
        ("beyond whole floats", vec![row(0.0, 9_007_199_254_740_992.0); 50]),
        ("not numbers", vec![row(0.0, f64::NAN), row(f64::NAN, 1.0), row(0.0, f64::INFINITY)]),
        ("singular", vec![vec![0.0, 0.3, 1.0, 1.0, 1.0, 0.2]; 500]),
        ("overflowing length", vec![row(0.0, f64::MAX); 5]),
    ];
    let mut pairs = 0;
    for (name, base) in &bases {
        let without = run(&mut yard, vec![base.clone()], 7);
        for &value in &EXTREMES {
            for key in [0.0, f64::NAN, 4e9, -1.0] {
                let mut rows = base.clone();
                rows.insert(rows.len() / 2, row(key, value));
                let with = run(&mut yard, vec![rows], 7);
                check(&format!("{name}, key {key}, value {value:e}"), &without, &with);
                pairs += 1;
            }
        }
    }
    assert!(pairs >= 40);
}

/// Any order, any batching: the same bits.
#[test]
fn order_and_batches_do_not_matter() {
    let seed = run_seed("order");
    let (mut dice, mut yard) = (Dice::new(seed), Yard::new());
    for case in 0..size(300, 10_000) {
        let mut rows: Vec<Vec<f64>> = (0..dice.below(40)).map(|_| random_row(&mut dice)).collect();
        let first = run(&mut yard, vec![rows.clone()], case as u64);
        for index in (1..rows.len()).rev() {
            rows.swap(index, dice.below(index + 1));
        }
        let mut batches = vec![Vec::new()];
        for row in rows {
            if dice.below(4) == 0 {
                batches.push(Vec::new());
            }
            batches.last_mut().expect("one at least").push(row);
        }
        assert_eq!(first, run(&mut yard, batches, case as u64), "case {case}");
    }
}

/// What a NaN row counts as, seen through the same noise.
#[test]
fn what_is_no_number_counts_as_documented() {
    let mut yard = Yard::new();
    let scale = i128::from(SCALE);
    let moved = |yard: &mut Yard, row: Vec<f64>| {
        let (without, with) = (run(yard, Vec::new(), 3), run(yard, vec![vec![row]], 3));
        let tables: Vec<Vec<i128>> = without
            .tables
            .iter()
            .zip(&with.tables)
            .map(|((_, one), (_, other))| other.iter().zip(one).map(|(other, one)| other - one).collect())
            .collect();
        let vectors: Vec<bool> =
            without.vectors.iter().zip(&with.vectors).map(|((_, one), (_, other))| one != other).collect();
        (tables, vectors, without.gradient != with.gradient)
    };
    let nan = f64::NAN;
    let (tables, vectors, gradient) = moved(&mut yard, vec![1.0, nan, nan, nan, nan, nan]);
    // The lower end as a statistic, the upper end as a loss; a vector of zeros; no gradient.
    assert_eq!(tables[0], [0, 0, 0, scale, 0, 0]);
    assert_eq!(tables[2], [0, 0, scale, 0, 0, 0]);
    assert_eq!(tables[4], [0, scale, 0]);
    assert_eq!(tables[6], [0, scale]);
    assert_eq!(tables[9], [0, 0, 0, 0, 0, scale, 0, 0, 0]);
    assert_eq!(tables[11], [0, 0, 0, scale, 0, 0, 0, 0, 0]);
    assert_eq!(vectors[..4], [false; 4]);
    assert!(!gradient);
    // A key that is none counts nowhere; one vector entry that is none silences the vector alone.
    let (tables, vectors, gradient) = moved(&mut yard, vec![nan, 1.0, 0.1, nan, 0.1, 0.5]);
    assert!(tables[..6].iter().flatten().all(|&moved| moved == 0));
    assert_eq!(vectors[..4], [false; 4]);
    assert!(!gradient);
    let (_, vectors, gradient) = moved(&mut yard, vec![1.0, 1.0, 0.1, 0.2, 0.1, 0.5]);
    assert_eq!(vectors[..3], [true; 3]);
    assert!(gradient);
}

/// Rows without number: all the same.
struct Alike(usize);

impl Rows for Alike {
    type Row<'rows> = ();

    fn count(&self) -> usize {
        self.0
    }

    fn row(&self, _: usize) {}
}

/// Eight million longest gradients in one coordinate once overflowed a 64-bit sum.
#[test]
fn large_samples_do_not_overflow() {
    let count = (1 << 23) + 1;
    let layers = [LayerShape::dense(0, 1)];
    let sigma = sigma_of("2");
    let cost = Cost::new(vec![sampled(Rate::LIMIT, sigma, 1, 1)]).expect("a cost");
    let permit = Yard::new().permit(AccessMode::Enforced, [Some(cost), None]);
    let rows = [vec![Alike(count)], Vec::new()];
    let mut session = permit.open(SeededNoise::new(1), |_| Ok::<_, ()>(rows)).expect("opens");
    let step = Step { rate: Rate::LIMIT, sigma, clip: 1.0 };
    let sums = session.sampled_sum(Lane::Train, step, &layers, |_, layers| {
        layers[0].errors.fill(1.0);
    });
    let sum = f64::from(sums.expect("covered")[0][0]);
    assert!((sum / count as f64 - 1.0).abs() < 2e-4, "{sum}");
}
