//! The terms that privacy rests on and that no accuracy test would miss: each sampler's exact parameters, each cap, the
//! price of noise that is not ideal, and which rows a session holds. Every number is derived here a second time.

use crate::support::{
    Dice, Grid, TestRows, Yard, concentrated, epsilon_of, gaussian, laplace, run_seed, sampled, sigma_of, size, unit_of,
};
use dashu::integer::{IBig, UBig};
use dashu::rational::RBig;
use sage_kernel::accountant::ORDERS;
use sage_kernel::noise::{DiscreteGaussian, DiscreteLaplace, RoundedGaussian, SeededNoise};
use sage_kernel::{
    AccessMode, Blocks, Ceiling, Component, Cost, Delta, Epsilon, Filter, Lane, LayerShape, Mechanism, MomentBounds,
    Range, Rate, Rounding, Rule, SCALE, Sigma, Step, TableNoise,
};

/// Integer noise from a seed.
fn drawn(seed: u64, count: usize, fill: impl FnOnce(&mut SeededNoise, &mut [i128])) -> Vec<i128> {
    let mut noise = vec![0; count];
    fill(&mut SeededNoise::new(seed), &mut noise);
    noise
}

/// Released numbers as whole units of a grid.
fn in_units(numbers: impl IntoIterator<Item = f64>, unit: f64) -> Vec<i128> {
    numbers
        .into_iter()
        .map(|number| {
            let units = number / unit;
            assert!((units - units.round()).abs() < 1e-3, "{number} is off the grid of {unit}");
            units.round() as i128
        })
        .collect()
}

/// Without rows a release is its noise, and with a seed the noise is known: it is that of the scale derived here.
#[test]
fn every_table_has_exactly_the_noise_of_its_price() {
    let seed = 77;
    let range = Range::new(-3.0, 5.0).expect("a range");
    let unit = 1.0 / SCALE as f64;
    let yard = &mut Yard::new();
    for loss in ["1", "0.25", "0.000123456789", "7.5"] {
        let epsilon = epsilon_of(loss);
        // One row moves the numbers of a table by 2^20 in total: the scale is 2^20 / ε.
        let expected = |count, sensitivity: u64| {
            drawn(seed, count, |source, noise| {
                let sampler = DiscreteLaplace::new(sensitivity * 1_000_000_000_000, epsilon.units()).expect("in range");
                sampler.fill(source, noise).expect("seeded words");
            })
        };
        let open = |yard: &mut Yard| yard.train(vec![laplace(epsilon, 1)], &[], seed);
        let noise = TableNoise::Laplace(epsilon);
        let pairs = open(yard).pairs(Lane::Train, 3, range, Rounding::Up, noise, |_| None).expect("covered");
        let scale = 1u64 << 20;
        assert_eq!(in_units(pairs.iter().flat_map(|pair| [pair.above, pair.below]), unit), expected(6, scale));
        let triples = open(yard).triples(Lane::Train, 2, range, Rounding::Up, noise, |_| None).expect("covered");
        let numbers = triples.iter().flat_map(|triple| [triple.squares, triple.rest, triple.below]);
        assert_eq!(in_units(numbers, unit), expected(6, scale));
        let counts = open(yard).histogram(Lane::Train, 4, noise, |_| None).expect("covered");
        assert_eq!(in_units(counts, unit), expected(4, scale));
        let outcomes = open(yard).majority_counts(Lane::Train, 4, 3, noise, |_| None).expect("covered");
        assert_eq!(in_units(outcomes, unit), expected(2, scale));
        // The least loss is found to within a gap of 2^-10 rows: two runs may err in opposite ways, in both numbers.
        let mut session = open(yard);
        let bounds = MomentBounds { width: 2, feature_norm: 1.0, label_size: 1.0 };
        let moments = session.moments(Lane::Train, bounds, |_, _| 0.0).expect("granted");
        let best = session.least_squared_loss(&moments, 2.0, epsilon).expect("covered");
        assert_eq!(in_units([best.loss, best.rest], unit), expected(2, scale + 2 * (scale >> 10)));
        assert!(best.gap >= 1.0 / 1024.0, "what is said of it is no less than what the noise covers");
    }
    for noise in ["1", "2.5", "40", "0.7"] {
        let sigma = sigma_of(noise);
        // 2^20 σ, in lowest terms.
        let expected = |count| {
            drawn(seed, count, |source, noise| {
                let sampler = DiscreteGaussian::new(sigma.units() << 11, 1_000_000_000 >> 9).expect("in range");
                sampler.fill(source, noise).expect("seeded words");
            })
        };
        let open = |yard: &mut Yard| yard.train(vec![concentrated(sigma, 1)], &[], seed);
        let noise = TableNoise::Gaussian(sigma);
        let counts = open(yard).histogram(Lane::Train, 4, noise, |_| None).expect("covered");
        assert_eq!(in_units(counts, unit), expected(4));
        let outcomes = open(yard).majority_counts(Lane::Train, 4, 3, noise, |_| None).expect("covered");
        assert_eq!(in_units(outcomes, unit), expected(2));
        // Its price is 1 / (2σ²), rounded up.
        let Ok(Mechanism::Zcdp { rho }) = noise.mechanism() else { panic!("a concentrated loss") };
        let square = UBig::from(sigma.units()) * UBig::from(sigma.units());
        let exact = RBig::from_parts(IBig::from(10).pow(30), UBig::from(2u8) * square);
        assert!(RBig::from(rho.units()) >= exact && RBig::from(rho.units()) <= exact + RBig::ONE);
    }
}

/// The same for vectors: normal noise of standard deviation 2^24 on a lattice that one row moves by 2^24 / σ.
#[test]
fn every_vector_has_exactly_the_noise_of_its_price() {
    let seed = 78;
    let yard = &mut Yard::new();
    let expected = |count: usize| {
        let mut noise = vec![0i32; count];
        RoundedGaussian::new().fill(&mut SeededNoise::new(seed), &mut noise).expect("seeded words");
        noise.into_iter().map(i128::from).collect::<Vec<_>>()
    };
    for noise in ["2", "0.9", "55.5"] {
        let sigma = sigma_of(noise);
        let width = 5usize;
        let open = |yard: &mut Yard, coordinates| yard.train(vec![gaussian(sigma, coordinates, 1)], &[], seed);
        for clip in [1.0, 1e-3, 123.0] {
            let sum = open(yard, 5).vector_sum(Lane::Train, 5, clip, sigma, |_, _| ()).expect("covered");
            let grid = Grid::new(1 << 30, sigma, 5);
            assert_eq!(in_units(sum, grid.step * unit_of(clip, 1 << 30, width)), expected(width));
        }
        let bounds = MomentBounds { width: 5, feature_norm: 1.5, label_size: 0.5 };
        let feature = unit_of(1.5, 1 << 20, width);
        let label = unit_of(0.5, 1 << 20, 1);
        let moments = |yard: &mut Yard, coordinates| {
            let session = open(yard, coordinates);
            let moments = session.moments(Lane::Train, bounds, |_, _| 0.0).expect("granted");
            (session, moments)
        };
        let (mut session, sums) = moments(yard, 15);
        let matrix = session.noisy_matrix(&sums, sigma).expect("covered");
        let grid = Grid::new(1 << 56, sigma, 15);
        let upper = (0..width).flat_map(|row| (row..width).map(move |column| (row, column)));
        // Beside the diagonal the root of two, in 16 more bits, rounded down.
        let weighted =
            upper.map(|(row, column)| matrix[row * width + column] * if row == column { 65_536.0 } else { 92_681.0 });
        assert_eq!(in_units(weighted, grid.step * feature * feature), expected(15));
        let (mut session, sums) = moments(yard, 5);
        let cross = session.noisy_cross(&sums, sigma).expect("covered");
        assert_eq!(in_units(cross, Grid::new(1 << 40, sigma, 5).step * feature * label), expected(width));
        let (mut session, sums) = moments(yard, 1);
        let smallest = session.noisy_smallest_eigenvalue(&sums, sigma).expect("covered");
        // Twice the 2^20 by which the computation may err, and one for rounding.
        let grid = Grid::new((1 << 40) + (1 << 21) + 1, sigma, 1);
        let exact = in_units([smallest], grid.step * feature * feature);
        let error = (exact[0] - expected(1)[0]).abs();
        assert!(error as f64 * grid.step <= 2.0, "no rows, no eigenvalue: {error}");
    }
    // √2 · 2^16, rounded down: what one row moves the weighted matrix by is at most its squared length.
    assert!(92_681u64.pow(2) <= 2 * 65_536u64.pow(2) && 92_682u64.pow(2) > 2 * 65_536u64.pow(2));
}

/// A step without rows is noise of standard deviation σ · clip in each of many coordinates, whatever the threads.
#[test]
fn a_step_has_the_noise_of_its_price() {
    let yard = &mut Yard::new();
    let layers = [LayerShape::dense(199, 200), LayerShape::dense(9, 100)];
    let coordinates = 41_000;
    for (noise, clip) in [("2", 1.0), ("0.8", 3.0)] {
        let sigma = sigma_of(noise);
        let step = Step { rate: crate::support::rate_of("0.01"), sigma, clip };
        let deviation = |step: Step, threads| {
            let mut session = yard.train(vec![sampled(step.rate, sigma, coordinates, 1)], &[], 5);
            session.use_threads(threads);
            let sums = session.sampled_sum(Lane::Train, step, &layers, |_, _| ()).expect("covered").concat();
            assert_eq!(sums.len(), coordinates as usize);
            let square: f64 = sums.iter().map(|&sum| f64::from(sum).powi(2)).sum();
            ((square / f64::from(coordinates)).sqrt(), sums)
        };
        let mut deviation = deviation;
        let (one, sums) = deviation(step, 1);
        let wanted = sigma.units() as f64 / 1e9 * clip;
        // 41,000 draws: within 1.5 %, which is four deviations of the estimate.
        assert!((one / wanted - 1.0).abs() < 0.015, "{one} instead of {wanted}");
        assert_eq!(sums, deviation(step, 3).1);
    }
}

/// What the reader gives for a lane that was not charged is dropped, also where the rows themselves are handed out.
#[test]
fn rows_of_an_uncovered_lane_do_not_enter() {
    let access = || AccessMode::Attested { author: "someone".to_owned(), reason: "a test".to_owned() };
    let rows = || [vec![TestRows(vec![vec![1.0]; 3])], vec![TestRows(vec![vec![2.0]; 5])]];
    for charged in [Lane::Train, Lane::Test] {
        let cost = Cost::new(vec![laplace(epsilon_of("0.1"), 1)]).expect("a cost");
        let costs = Lane::BOTH.map(|lane| (lane == charged).then(|| cost.clone()));
        let session = Yard::new().open_through(access(), costs, rows(), 1);
        let Ok(shown) = session.into_attested() else { panic!("the charge is unused") };
        for lane in Lane::BOTH {
            let count: usize = shown.lane(lane).iter().map(|batch| batch.0.len()).sum();
            let own = if lane == Lane::Train { 3 } else { 5 };
            assert_eq!(count, if lane == charged { own } else { 0 }, "{charged} was charged, {lane} is shown");
        }
    }
}

/// Clips near the smallest floats: what a row counts as overflows on its way to whole units, and only the check in
/// integers keeps it out. Sums of ten such rows stay below what ten rows can have.
#[test]
fn tiny_clips_bound_rows_all_the_same() {
    let yard = &mut Yard::new();
    let sigma = sigma_of("0.5");
    let tiny = f64::MIN_POSITIVE;
    for clip in [tiny, 3.0 * tiny, 1e-300, 1e-290, 1e-200] {
        for value in [0.5 * clip, clip, 2.0 * clip, 1e-308, 5e-324, 1e-100, 1.0, 1e308, f64::MAX, f64::NAN] {
            let rows = vec![vec![value]; 10];
            let mut session = yard.train(vec![gaussian(sigma, 2, 1)], &rows, 9);
            let sum = session.vector_sum(Lane::Train, 2, clip, sigma, |row, out| out.fill(row[0])).expect("covered");
            // Ten rows of length one, and noise of half a clip that is rarely beyond five deviations.
            assert!(sum.iter().all(|sum| sum.abs() <= 15.0 * clip), "clip {clip:e}, value {value:e}: {sum:?}");
            for (feature_norm, label_size) in [(clip, 1.0), (1.0, clip)] {
                let bounds = MomentBounds { width: 2, feature_norm, label_size };
                let mut session = yard.train(vec![gaussian(sigma, 2, 1), gaussian(sigma, 3, 1)], &rows, 9);
                let moments = session.moments(Lane::Train, bounds, |row, out| {
                    out.fill(row[0]);
                    row[0]
                });
                let moments = moments.expect("granted");
                let cross = session.noisy_cross(&moments, sigma).expect("covered");
                let most = 15.0 * feature_norm * label_size;
                assert!(cross.iter().all(|sum| sum.abs() <= most), "{bounds:?}, value {value:e}: {cross:?}");
                let matrix = session.noisy_matrix(&moments, sigma).expect("covered");
                let most = 15.0 * feature_norm * feature_norm;
                assert!(matrix.iter().all(|sum| sum.abs() <= most), "{bounds:?}, value {value:e}: {matrix:?}");
            }
        }
    }
}

fn ceiling(epsilon: &str, delta: &str) -> Ceiling {
    Ceiling { epsilon: Epsilon::ceiling(epsilon).expect("ε"), delta: Delta::ceiling(delta).expect("δ") }
}

/// Caps against the formulas of the theory, as `proofs/renyi.md` and `proofs/strong.md` write them: below by the margin
/// that is given up for rounding, and by no more.
#[test]
fn caps_are_those_of_the_theorems() {
    for (epsilon, delta) in [("1", "1e-6"), ("10", "1e-7"), ("0.3", "1e-9"), ("16", "0.01"), ("0.001", "0.4")] {
        let full = ceiling(epsilon, delta);
        let (loss, chance) = (full.epsilon.units() as f64 / 1e12, full.delta.units() as f64 / 1e18);
        let basic = Filter::new(Rule::Basic, full).expect("a filter");
        assert_eq!(basic.caps(), [full.epsilon.units(), full.delta.units()]);
        let half = chance / 2.0;
        let spendable = full.delta.units() - full.delta.units() / 2;
        let conversion = |order: f64, delta: f64| (1.0 - 1.0 / order).ln() - (delta.ln() + order.ln()) / (order - 1.0);
        let renyi = Filter::new(Rule::Renyi, full).expect("a filter");
        let gain = |order: f64| (loss - conversion(order, half)) / order;
        let primary =
            (0..ORDERS.len()).max_by(|&one, &other| gain(ORDERS[one]).total_cmp(&gain(ORDERS[other]))).expect("orders");
        let mut listed = 0;
        for (index, &order) in ORDERS.iter().enumerate() {
            let weight = match index.abs_diff(primary) {
                0 => 0.5,
                distance => 0.25 * 0.5f64.powi(distance as i32),
            };
            let exact = (loss - conversion(order, weight * half)).min(loss);
            let at = renyi.components().iter().position(|own| *own == Component::Order(index as u32));
            let Some(at) = at else {
                assert!(exact <= 2e-9, "order {order} is left out at {exact}");
                continue;
            };
            listed += 1;
            let cap = renyi.caps()[at] as f64 / 1e12;
            let margin = if exact == loss { 0.0 } else { 0.9e-9 };
            assert!(cap <= exact - margin && cap >= exact - 2e-9, "order {order}: {cap}, exact {exact}");
        }
        assert_eq!(renyi.caps().len(), listed + 2);
        assert_eq!((renyi.caps()[0], renyi.caps().last()), (spendable, Some(&full.epsilon.units())));
        let strong = Filter::new(Rule::Strong, full).expect("a filter");
        // The largest ρ for which some order converts to ε_g: orders on a grid, then on ever finer ones around the best.
        let (mut centre, mut width) = (16.0, 34.0);
        let at = |log: f64| {
            let order = 1.0 + f64::exp(log);
            (loss - conversion(order, half)) / order
        };
        for _ in 0..12 {
            let steps = (-200..=200).map(|step| centre + width * f64::from(step) / 200.0);
            centre = steps.max_by(|&one, &other| at(one).total_cmp(&at(other))).expect("steps");
            width /= 40.0;
        }
        let best = at(centre);
        let cap = strong.caps()[0] as f64 / 1e12;
        assert!(cap <= best - 0.9e-9 && cap >= best - 2e-9, "ρ {cap}, exact {best}");
        assert_eq!(strong.caps()[1], spendable);
    }
}

fn price(filter: &Filter, part: Mechanism, delta: &str) -> Vec<u64> {
    let cost = Cost::at_delta(vec![part], Delta::cost(delta).expect("δ")).expect("a cost");
    filter.price(&cost, Lane::Train, &Blocks::range(0, 0).expect("a block")).expect("a price").units().to_vec()
}

/// Rational losses are never priced below themselves, and hardly above: ρ, orders times ρ, 1/(2σ²) times the order.
#[test]
fn prices_are_rounded_up() {
    let seed = run_seed("prices");
    let mut dice = Dice::new(seed);
    let full = ceiling("1000000", "0.5");
    let (strong, renyi) =
        (Filter::new(Rule::Strong, full).expect("a filter"), Filter::new(Rule::Renyi, full).expect("a filter"));
    // At most one unit and one part in 10^11 above.
    let close = |found: u64, exact: &RBig, what: &str| {
        let found = RBig::from(found);
        let most = exact * (RBig::ONE + RBig::from_parts(IBig::ONE, UBig::from(10u8).pow(10))) + RBig::from(2);
        assert!(found >= *exact && found <= most, "seed {seed}: {what}: {found} for {exact}");
    };
    let order_at = |at: usize| match renyi.components()[at] {
        Component::Order(index) => Some(RBig::try_from(ORDERS[index as usize]).expect("a quarter")),
        _ => None,
    };
    for _ in 0..size(3_000, 100_000) {
        let rho = Epsilon::from_units((1 + dice.word() % 1_000_000_000_000_000) >> dice.below(40)).expect("ρ");
        let rho = if rho == Epsilon::ZERO { epsilon_of("1e-12") } else { rho };
        let part = Mechanism::Zcdp { rho };
        close(price(&strong, part.clone(), "0")[0], &RBig::from(rho.units()), "ρ under strong");
        for (at, &units) in price(&renyi, part, "0").iter().enumerate() {
            let Some(order) = order_at(at) else { continue };
            close(units, &(order * RBig::from(rho.units())), "ρ under renyi");
        }
        let sigma = Sigma::from_units(500_000_000 + dice.word() % 1_000_000_000_000).expect("σ");
        let count = 1 + dice.below(50) as u32;
        let part = Mechanism::Gaussian { sigma, coordinates: 1, count };
        let square = UBig::from(sigma.units()) * UBig::from(sigma.units());
        let exact = RBig::from_parts(IBig::from(10).pow(30) * IBig::from(count), UBig::from(2u8) * square);
        close(price(&strong, part.clone(), "0")[0], &exact, "a Gaussian under strong");
        for (at, &units) in price(&renyi, part, "0").iter().enumerate() {
            let Some(order) = order_at(at) else { continue };
            close(units, &(order * exact.clone()), "a Gaussian under renyi");
        }
    }
}

/// A draw of noise is within 2^-100 of the ideal, which costs (1 + e^ε) 2^-100 of δ at the largest ε that may ever be
/// promised for it: 16, or ε_g where that is larger.
#[test]
fn noise_that_is_not_ideal_is_paid_for() {
    for rule in [Rule::Strong, Rule::Renyi] {
        for (epsilon, at) in [("0.1", 16f64), ("8", 16.0), ("16", 16.0), ("20", 20.0)] {
            let filter = Filter::new(rule, ceiling(epsilon, "1e-6")).expect("a filter");
            let delta = filter.components().iter().position(|one| *one == Component::Delta).expect("δ");
            for (coordinates, count) in [(1u32, 1u32), (1_000_000, 1), (1_000_000, 40_000), (u32::MAX, u32::MAX)] {
                let draws = f64::from(coordinates) * f64::from(count);
                let exact = (draws * 0.5f64.powi(100) * (1.0 + at.exp()) * 1e18).ceil();
                let sigma = sigma_of("100");
                let parts = [
                    Mechanism::Gaussian { sigma, coordinates, count },
                    Mechanism::SampledGaussian { rate: Rate::LIMIT, sigma, coordinates, steps: count },
                ];
                for part in parts.into_iter().take(if rule == Rule::Renyi { 2 } else { 1 }) {
                    let found = price(&filter, part, "1e-7")[delta] as f64;
                    assert!(found >= exact && found <= exact * (1.0 + 1e-9) + 1.0, "{rule} {epsilon}: {found} {exact}");
                    assert!(found >= 1.0);
                }
            }
        }
    }
}
