//! Floats leak through their low bits, so every released number lies on a grid of public parameters, the
//! same one whatever the rows hold.

use crate::support::{
    Grid, Yard, concentrated, epsilon_of, gaussian, laplace, mix, run_seed, sampled, sigma_of, size, unit_of,
};
use sage_kernel::{Lane, LayerShape, MomentBounds, Range, Rate, Rounding, SCALE, Step, TableNoise};

/// Row values of the safety page, and the largest float.
const VALUES: [f64; 8] = [0.0, 1.0, -0.0, 1e-300, 9_007_199_254_740_992.0, f64::MAX, f64::MIN, f64::NAN];

/// The furthest any number is from a whole number of its unit, in units.
fn off(numbers: &[f64], unit: f64) -> f64 {
    numbers.iter().map(|number| (number / unit - (number / unit).round()).abs()).fold(0.0, f64::max)
}

#[test]
fn every_released_number_is_on_its_public_grid() {
    let seed = run_seed("grid");
    let mut yard = Yard::new();
    let (epsilon, sigma) = (epsilon_of("1"), sigma_of("3"));
    let bounds = MomentBounds { width: 2, feature_norm: 3.0, label_size: 0.7 };
    let feature = unit_of(3.0, 1 << 20, 2);
    let label = unit_of(0.7, 1 << 20, 1);
    let range = Range::new(-3.0, 7.0).expect("a range");
    let table = 1.0 / SCALE as f64;
    let layers = [LayerShape::dense(1, 1)];
    let mut outputs = 0;
    for round in 0..size(2_000, 500_000) {
        for count in [0, 1, 3] {
            let value = VALUES[round % VALUES.len()];
            let rows = vec![vec![value, value, 0.3]; count];
            let parts = vec![
                laplace(epsilon, 3),
                concentrated(sigma, 2),
                gaussian(sigma, 8, 4),
                sampled(Rate::LIMIT, sigma, 2, 1),
            ];
            let mut session = yard.train(parts, &rows, seed + round as u64);
            let mut check = |name: &str, numbers: &[f64], unit: f64, tolerance: f64| {
                assert!(off(numbers, unit) <= tolerance, "{name} of {count} times {value:e}: {numbers:?}");
                outputs += numbers.len();
            };
            for noise in [TableNoise::Laplace(epsilon), TableNoise::Gaussian(sigma)] {
                let pairs = session.pairs(Lane::Train, 2, range, Rounding::Up, noise, |row| Some((1, row[0])));
                let pairs = pairs.expect("covered");
                // Exactly: the unit is a power of two.
                check("pairs", &pairs.iter().flat_map(|p| [p.above, p.below]).collect::<Vec<_>>(), table, 0.0);
                let counts = session.histogram(Lane::Train, 3, noise, |row| Some(row[0] as u32));
                check("histogram", &counts.expect("covered"), table, 0.0);
            }
            let sum = session.vector_sum(Lane::Train, 3, 3.0, sigma, |row, out| out.copy_from_slice(row));
            let step = Grid::new(1 << 30, sigma, 3).step;
            // The last product with the unit rounds: 2^-52 of numbers below 2^28 or so.
            check("vector", &sum.expect("covered"), step * unit_of(3.0, 1 << 30, 3), 1e-6);
            let moments = session.moments(Lane::Train, bounds, |row, out| {
                out.copy_from_slice(&row[..2]);
                row[2]
            });
            let moments = moments.expect("granted");
            let matrix = session.noisy_matrix(&moments, sigma).expect("covered");
            let step = Grid::new(1 << 56, sigma, 3).step * feature * feature;
            check("diagonal", &[matrix[0] * 65_536.0, matrix[3] * 65_536.0], step, 1e-6);
            check("beside", &[matrix[1] * 92_681.0, matrix[2] * 92_681.0], step, 1e-6);
            let cross = session.noisy_cross(&moments, sigma).expect("covered");
            check("cross", &cross, Grid::new(1 << 40, sigma, 2).step * feature * label, 1e-6);
            let smallest = session.noisy_smallest_eigenvalue(&moments, sigma).expect("covered");
            let step = Grid::new((1 << 40) + (1 << 21) + 1, sigma, 1).step;
            check("eigenvalue", &[smallest], step * feature * feature, 1e-6);
            let best = session.least_squared_loss(&moments, 1.0, epsilon).expect("covered");
            check("loss", &[best.loss, best.rest], table, 0.0);
            let step = Step { rate: Rate::LIMIT, sigma, clip: 1.0 };
            let sums = session.sampled_sum(Lane::Train, step, &layers, |sample, layers| {
                layers[0].clear();
                for index in 0..sample.count() {
                    layers[0].values.push(sample.row(index)[0] as f32);
                    layers[0].errors.push(0.5);
                }
            });
            // Single precision keeps 24 bits: numbers below 2^24 units are whole, others nearly.
            let unit = Grid::new(1 << 26, sigma, 2).step / (1u64 << 26) as f64;
            let sums: Vec<f64> = sums.expect("covered").concat().into_iter().map(f64::from).collect();
            let small: Vec<f64> = sums.into_iter().filter(|sum| (sum / unit).abs() < 1e5).collect();
            check("gradient", &small, unit, 0.02);
        }
    }
    println!("{outputs} numbers");
}

/// Low bits look the same on both neighbours: every residue of the grid occurs, as often.
#[test]
fn neighbours_have_the_same_support() {
    let seed = run_seed("support");
    let mut yard = Yard::new();
    let epsilon = epsilon_of("1");
    let range = Range::new(0.0, 1.0).expect("a range");
    let noise = TableNoise::Laplace(epsilon);
    for value in [1.0, 1e-300, 0.1, f64::MAX] {
        let residues = |yard: &mut Yard, rows: &[Vec<f64>], seed: u64| {
            let mut seen = [0u32; 64];
            // As many as a block has budget for, again and again.
            for session in 0..size(1, 256) as u64 {
                let mut session = yard.train(vec![laplace(epsilon, 16_384)], rows, mix(&[seed, session]));
                for _ in 0..16_384 {
                    let pairs = session.pairs(Lane::Train, 1, range, Rounding::Nearest, noise, |row| Some((0, row[0])));
                    let units = (pairs.expect("covered")[0].above * SCALE as f64) as i64;
                    seen[units.rem_euclid(64) as usize] += 1;
                }
            }
            seen
        };
        let sides = [residues(&mut yard, &[], seed), residues(&mut yard, &[vec![value]], seed + 1)];
        for seen in sides {
            let expected = f64::from(seen.iter().sum::<u32>()) / 64.0;
            let square: f64 = seen.iter().map(|&n| (f64::from(n) - expected).powi(2) / expected).sum();
            // Chi-squared with 63 degrees of freedom: above 140 once in ten million.
            assert!(square < 145.0 && seen.iter().all(|&n| n > 0), "{value:e}: {square}");
        }
    }
}
