//! The behaviour of a session: what its charge covers, its error messages, and the accuracy of its results.

use crate::support::{
    Dice, EXTREMES, Seeded, TestRows, Yard, concentrated, epsilon_of, gaussian, laplace, rate_of, run_seed, sampled,
    sigma_of,
};
use sage_kernel::noise::SeededNoise;
use sage_kernel::{
    AccessMode, Cost, Epsilon, Lane, LayerRows, LayerShape, Mechanism, MomentBounds, OneHotBounds, Range, Rate,
    Rounding, SCALE, Sample, SessionError, Sigma, Split, Step, TableNoise,
};

/// One request to a session.
#[derive(Clone, Copy, Debug)]
enum Ask {
    Laplace(&'static str),
    /// A vector of so many numbers.
    Gaussian(&'static str, u32),
    /// A table of so many pairs, which are twice as many numbers.
    Table(&'static str, u32),
    Step(&'static str, &'static str),
    Test(&'static str),
}

fn ask(session: &mut Seeded, ask: Ask) -> Result<(), SessionError> {
    let range = Range::new(0.0, 1.0).expect("a range");
    match ask {
        Ask::Laplace(epsilon) => {
            let noise = TableNoise::Laplace(epsilon_of(epsilon));
            session.pairs(Lane::Train, 1, range, Rounding::Up, noise, |row| Some((0, row[0]))).map(drop)
        }
        Ask::Test(epsilon) => {
            let noise = TableNoise::Laplace(epsilon_of(epsilon));
            session.histogram(Lane::Test, 1, noise, |_| Some(0)).map(drop)
        }
        Ask::Table(sigma, keys) => {
            let noise = TableNoise::Gaussian(sigma_of(sigma));
            session.pairs(Lane::Train, keys, range, Rounding::Up, noise, |row| Some((0, row[0]))).map(drop)
        }
        Ask::Gaussian(sigma, width) => {
            session.vector_sum(Lane::Train, width, 1.0, sigma_of(sigma), |_, _| {}).map(drop)
        }
        Ask::Step(rate, sigma) => {
            let layers = [LayerShape::dense(1, 1)];
            let step = Step { rate: rate_of(rate), sigma: sigma_of(sigma), clip: 1.0 };
            session.sampled_sum(Lane::Train, step, &layers, |_, _| {}).map(drop)
        }
    }
}

/// The charge on the train lane, and requests in order, each with whether it is covered.
type Covered = (Vec<Mechanism>, Vec<(Ask, bool)>);

fn covered() -> Vec<Covered> {
    let pure = |epsilon: &str| Mechanism::Pure { epsilon: epsilon_of(epsilon) };
    let listed = |epsilon: &str, count| laplace(epsilon_of(epsilon), count);
    let wide = |sigma: &str, numbers, count| gaussian(sigma_of(sigma), numbers, count);
    let steps = |rate: &str, sigma: &str, count| sampled(rate_of(rate), sigma_of(sigma), 2, count);
    vec![
        (
            vec![listed("1", 2)],
            vec![
                (Ask::Laplace("1"), true),
                (Ask::Laplace("1.000000000001"), false),
                (Ask::Laplace("0.3"), true),
                (Ask::Laplace("0.000001"), false),
            ],
        ),
        // A pure loss is used up in pieces, to the last unit.
        (
            vec![pure("1")],
            vec![
                (Ask::Laplace("0.25"), true),
                (Ask::Laplace("0.750000000001"), false),
                (Ask::Laplace("0.749999999999"), true),
                (Ask::Laplace("0.000000000002"), false),
                (Ask::Laplace("0.000000000001"), true),
                (Ask::Laplace("0.000000000001"), false),
            ],
        ),
        // More noise and fewer numbers may use up less noise and more numbers, never the reverse.
        (
            vec![wide("2", 4, 3)],
            vec![
                (Ask::Gaussian("1.999999999", 4), false),
                (Ask::Gaussian("2", 5), false),
                (Ask::Gaussian("2", 4), true),
                (Ask::Gaussian("3", 1), true),
                (Ask::Laplace("0.001"), false),
                (Ask::Step("1", "2"), false),
                (Ask::Table("2", 2), false),
                (Ask::Gaussian("50", 1), true),
                (Ask::Gaussian("50", 1), false),
            ],
        ),
        (
            vec![steps("0.1", "1", 2)],
            vec![
                (Ask::Step("0.100000000001", "1"), false),
                (Ask::Step("0.1", "0.9"), false),
                (Ask::Step("0.1", "1"), true),
                (Ask::Gaussian("1", 1), false),
                (Ask::Step("0.05", "1.5"), true),
                (Ask::Step("0.05", "1.5"), false),
            ],
        ),
        // Several parts: the first that covers is used.
        (
            vec![wide("1", 1, 1), wide("2", 8, 1), listed("0.5", 1)],
            vec![
                (Ask::Gaussian("2", 8), true),
                (Ask::Gaussian("2", 8), false),
                (Ask::Gaussian("2", 1), true),
                (Ask::Gaussian("2", 1), false),
                (Ask::Laplace("0.5"), true),
                (Ask::Laplace("0.5"), false),
            ],
        ),
        (vec![listed("1", 1)], vec![(Ask::Test("0.1"), false), (Ask::Laplace("1"), true)]),
    ]
}

#[test]
fn a_charge_is_used_up_exactly() {
    let mut yard = Yard::new();
    for (parts, asks) in covered() {
        let mut session = yard.train(parts.clone(), &[vec![0.5]], 1);
        for (wanted, covered) in asks {
            let expected = if covered { Ok(()) } else { Err(SessionError::NotCovered) };
            assert_eq!(ask(&mut session, wanted), expected, "{parts:?}: {wanted:?}");
        }
    }
}

/// A concentrated loss goes in pieces, a table of any size costing the same.
#[test]
fn a_concentrated_loss_is_used_up_in_pieces() {
    let mut session = Yard::new().train(vec![concentrated(sigma_of("1"), 1)], &[vec![0.5]], 1);
    for (wanted, covered) in [
        (Ask::Table("0.999999999", 1), false),
        (Ask::Gaussian("1", 1), false),
        (Ask::Table("2", 300), true),
        (Ask::Table("1", 1), false),
        (Ask::Table("2", 1), true),
        (Ask::Table("1.5", 1), true),
        (Ask::Table("2", 1), false),
    ] {
        let expected = if covered { Ok(()) } else { Err(SessionError::NotCovered) };
        assert_eq!(ask(&mut session, wanted), expected, "{wanted:?}");
    }
}

/// What the reader gives for a lane that was not granted is dropped; both lanes have budgets of their own.
#[test]
fn lanes_are_apart() {
    let mut yard = Yard::new();
    let cost = || Some(Cost::new(vec![laplace(epsilon_of("40"), 1)]).expect("a cost"));
    let rows = || [vec![TestRows(vec![vec![1.0]; 3])], vec![TestRows(vec![vec![1.0]; 5])]];
    let count =
        |session: &mut Seeded, lane| session.histogram(lane, 1, TableNoise::Laplace(epsilon_of("40")), |_| Some(0));
    for (costs, expected) in [
        ([cost(), None], [Some(3.0), None]),
        ([None, cost()], [None, Some(5.0)]),
        ([cost(), cost()], [Some(3.0), Some(5.0)]),
    ] {
        let mut session = yard.open(costs, rows(), 4);
        for (lane, expected) in Lane::BOTH.into_iter().zip(expected) {
            match (count(&mut session, lane), expected) {
                (Ok(found), Some(expected)) => assert!((found[0] - expected).abs() < 1.0, "{found:?}"),
                (Err(SessionError::NotCovered), None) => {
                    let bounds = MomentBounds { width: 1, feature_norm: 1.0, label_size: 1.0 };
                    let moments = session.moments(lane, bounds, |_, _| 0.0);
                    assert!(matches!(moments, Err(SessionError::NotCovered)));
                }
                (found, expected) => panic!("{found:?}, expected {expected:?}"),
            }
        }
    }
}

/// Rows are handed out only in the attested access mode.
#[test]
fn only_the_attested_access_mode_shows_rows() {
    let mut yard = Yard::new();
    let cost = || [Some(Cost::pure(epsilon_of("1")).expect("a cost")), None];
    let rows = || [vec![TestRows(vec![vec![1.0]])], Vec::new()];
    let session = yard.open(cost(), rows(), 1);
    let Err(mut session) = session.into_attested() else { panic!("an enforced session showed its rows") };
    assert_eq!(ask(&mut session, Ask::Laplace("1")), Ok(()));
    let access = AccessMode::Attested { author: "someone".to_owned(), reason: "a test".to_owned() };
    let session = yard.open_through(access, cost(), rows(), 1);
    let Ok(declared) = session.into_attested() else { panic!("a declared session kept its rows") };
    assert_eq!(declared.lane(Lane::Train)[0].0, [[1.0]]);
    assert!(declared.lane(Lane::Test).is_empty());
}

/// Two logs number their grants alike. The moments of one stream's rows were once releasable under a
/// charge on another's.
#[test]
fn moments_belong_to_their_session() {
    let sigma = sigma_of("2");
    let bounds = MomentBounds { width: 1, feature_norm: 1.0, label_size: 1.0 };
    let sessions = || Yard::new().train(vec![gaussian(sigma, 1, 2), laplace(epsilon_of("1"), 1)], &[], 1);
    let (mut one, mut other) = (sessions(), sessions());
    let moments = one.moments(Lane::Train, bounds, |_, _| 0.0).expect("granted");
    assert_eq!(other.noisy_matrix(&moments, sigma), Err(SessionError::NotCovered));
    assert_eq!(other.noisy_cross(&moments, sigma), Err(SessionError::NotCovered));
    assert_eq!(other.noisy_smallest_eigenvalue(&moments, sigma), Err(SessionError::NotCovered));
    assert!(other.least_squared_loss(&moments, 1.0, epsilon_of("1")).is_err());
    assert!(one.noisy_matrix(&moments, sigma).is_ok());
    // An error over a parameter uses nothing up.
    assert!(matches!(one.least_squared_loss(&moments, 1e300, epsilon_of("1")), Err(SessionError::Parameter(_))));
    assert!(one.least_squared_loss(&moments, 1.0, epsilon_of("1")).is_ok());
}

/// For all parameters the result is a value or a typed error with a message, never a panic.
#[test]
fn hostile_parameters_get_typed_errors() {
    let seed = run_seed("hostile");
    let (mut dice, mut yard) = (Dice::new(seed), Yard::new());
    let numbers = [0, 1, 2, 5, (1 << 24) + 1, (1 << 26) + 1, u32::MAX - 1, u32::MAX];
    let sigmas = [0, 1, 500_000_000, 2_000_000_000, 17_592_186_044_416_000, 1_000_000_000_000_000_000];
    let epsilons = [0, 1, 1_000_000, 1_000_000_000_000, 1_000_000_000_000_000_000];
    let rates = [0, 1, 500_000_000_000, 1_000_000_000_000];
    let mut seen = [0usize; 2];
    for round in 0..3_000 {
        let parts = vec![
            gaussian(sigma_of("2"), 8, 4),
            concentrated(sigma_of("2"), 4),
            sampled(Rate::LIMIT, sigma_of("2"), 8, 2),
            Mechanism::Pure { epsilon: epsilon_of("1") },
        ];
        let row: Vec<f64> = (0..4).map(|_| dice.hostile()).collect();
        let mut session = yard.train(parts, &[row], round);
        let mut number = || numbers[dice.below(numbers.len())];
        let (keys, width, named, outputs) = (number(), number(), number(), number());
        let sigma = Sigma::from_units(sigmas[dice.below(sigmas.len())]).expect("a sigma");
        let epsilon = Epsilon::from_units(epsilons[dice.below(epsilons.len())]).expect("an epsilon");
        let rate = Rate::from_units(rates[dice.below(rates.len())]).expect("a rate");
        let (clip, other) = (dice.hostile(), dice.hostile());
        let mut note = |outcome: Result<(), SessionError>| {
            seen[usize::from(outcome.is_err())] += 1;
            if let Err(error) = outcome {
                assert!(error.to_string().len() > 10);
            }
        };
        if let Some(range) = Range::new(clip, other) {
            let noise = TableNoise::Gaussian(sigma);
            note(session.pairs(Lane::Train, keys, range, Rounding::Up, noise, |r| Some((width, r[0]))).map(drop));
            let noise = TableNoise::Laplace(epsilon);
            note(session.histogram(Lane::Train, keys.min(9), noise, |_| Some(named)).map(drop));
            note(session.majority_counts(Lane::Train, keys, outputs, noise, |_| Some((named, width))).map(drop));
        }
        note(session.vector_sum(Lane::Train, width, clip, sigma, |row, out| out[0] = row[0]).map(drop));
        let bounds = MomentBounds { width: width.min(5), feature_norm: clip, label_size: other };
        let moments = session.moments(Lane::Train, bounds, |row, out| {
            out[0] = row[1];
            row[2]
        });
        match moments {
            Err(error) => note(Err(error)),
            Ok(moments) => {
                note(session.noisy_matrix(&moments, sigma).map(drop));
                note(session.noisy_smallest_eigenvalue(&moments, sigma).map(drop));
                note(session.least_squared_loss(&moments, other, epsilon).map(drop));
            }
        }
        let layer = [LayerShape::dense(width, outputs), LayerShape::one_hot(named, width, outputs)][dice.below(2)];
        let layers = vec![layer; dice.below(3)];
        note(session.sampled_sum(Lane::Train, Step { rate, sigma, clip }, &layers, |_, _| {}).map(drop));
    }
    assert!(seen.iter().all(|&seen| seen > 500), "{seen:?}");
}

/// How far one row's number moves a pair, on a range of −1 to 3: a table.
#[test]
fn numbers_are_taken_as_documented() {
    let mut yard = Yard::new();
    let range = Range::new(-1.0, 3.0).expect("a range");
    let mut taken = |value: f64, how| {
        let mut above = |rows: &[Vec<f64>]| {
            let mut session = yard.train(vec![laplace(epsilon_of("1"), 1)], rows, 9);
            let noise = TableNoise::Laplace(epsilon_of("1"));
            let pairs = session.pairs(Lane::Train, 1, range, how, noise, |row| Some((0, row[0])));
            pairs.expect("covered")[0]
        };
        let (without, with) = (above(&[]), above(&[vec![value]]));
        let scale = SCALE as f64;
        let units = ((with.above - without.above) * scale, (with.below - without.below) * scale);
        assert_eq!(units.0 + units.1, scale, "{value:e}");
        units.0 as i64
    };
    let scale = SCALE as i64;
    let step = 4.0 / SCALE as f64;
    for (value, statistic, loss) in [
        (-1.0, 0, 0),
        (3.0, scale, scale),
        (1.0, scale / 2, scale / 2),
        (-1.0 + 0.25 * step, 0, 1),
        (-1.0 + 0.5 * step, 1, 1),
        (-1.0 + 1.25 * step, 1, 2),
        (3.0 - 0.25 * step, scale, scale),
        (3.0 - 0.75 * step, scale - 1, scale),
        (f64::NAN, 0, scale),
        (f64::INFINITY, scale, scale),
        (f64::NEG_INFINITY, 0, 0),
        (1e308, scale, scale),
        (-1e308, 0, 0),
        (-0.0, scale / 4, scale / 4),
        (5e-324, scale / 4, scale / 4),
    ] {
        assert_eq!(taken(value, Rounding::Nearest), statistic, "{value:e} as a statistic");
        assert_eq!(taken(value, Rounding::Up), loss, "{value:e} as a loss");
    }
    for (low, high) in [(1.0, 1.0), (2.0, 1.0), (f64::NAN, 1.0), (0.0, f64::INFINITY), (f64::MIN, f64::MAX)] {
        assert_eq!(Range::new(low, high), None, "{low:e} {high:e}");
    }
    assert!(EXTREMES.iter().all(|&value| (0..=scale).contains(&taken(value, Rounding::Up))));
}

/// The three parts of a row add up to one row, none is negative, and the square is rounded up. The charge
/// that a noise names covers one table of each kind and no more.
#[test]
fn squares_are_taken_as_documented() {
    let mut yard = Yard::new();
    let range = Range::new(0.0, 1.0).expect("a range");
    for noise in [TableNoise::Laplace(epsilon_of("1")), TableNoise::Gaussian(sigma_of("2"))] {
        let mut sums = |rows: &[Vec<f64>]| {
            let mut session = yard.train(vec![noise.mechanism().expect("a price")], rows, 9);
            let mut ask = || session.triples(Lane::Train, 1, range, Rounding::Up, noise, |row| Some((0, row[0])));
            let first = ask().expect("covered")[0];
            assert_eq!(ask(), Err(SessionError::NotCovered));
            [first.squares, first.rest, first.below].map(|sum| (sum * SCALE as f64) as i64)
        };
        let without = sums(&[]);
        let values = [0.0, 0.5, 1.0, 0.001, 0.999_999_9, 0.1, f64::NAN, -3.0, 7.0];
        for value in values.into_iter().chain(EXTREMES) {
            let with = sums(&[vec![value]]);
            let parts: Vec<i64> = with.iter().zip(without).map(|(with, without)| with - without).collect();
            let (scale, share) = (SCALE as i64, parts[0] + parts[1]);
            assert!(parts.iter().all(|part| *part >= 0) && share + parts[2] == scale, "{value:e}: {parts:?}");
            assert_eq!(parts[0], (share * share + scale - 1) / scale, "{value:e}");
        }
    }
    assert_eq!(TableNoise::Gaussian(Sigma::ZERO).mechanism(), Err(SessionError::NotCovered));
}

/// No function of the key is right about more rows, and some function is about as many; what has no key or answer
/// counts as right. One charge covers one release.
#[test]
fn best_answers_are_those_of_a_search() {
    const KEYS: u32 = 3;
    const ANSWERS: u32 = 3;
    let seed = run_seed("majority counts");
    let (mut dice, mut yard) = (Dice::new(seed), Yard::new());
    for noise in [TableNoise::Laplace(epsilon_of("1")), TableNoise::Gaussian(sigma_of("2"))] {
        let mut released = |rows: &[Vec<f64>]| {
            let mut session = yard.train(vec![noise.mechanism().expect("a price")], rows, 9);
            let value = |row: &[f64]| (row[0] >= 0.0).then_some((row[0] as u32, row[1] as u32));
            let mut ask = || session.majority_counts(Lane::Train, KEYS, ANSWERS, noise, value);
            let first = ask().expect("covered");
            assert_eq!(ask(), Err(SessionError::NotCovered));
            first
        };
        let without = released(&[]);
        for case in 0..200 {
            let count = dice.below(40);
            let rows: Vec<Vec<f64>> =
                (0..count).map(|_| vec![dice.below(5) as f64 - 1.0, dice.below(4) as f64]).collect();
            let outside = |row: &[f64]| !(0.0..3.0).contains(&row[0]) || row[1] >= 3.0;
            let right_about = |function: u32| {
                let answer = |key: u32| f64::from(function / ANSWERS.pow(key) % ANSWERS);
                rows.iter().filter(|row| outside(row) || row[1] == answer(row[0] as u32)).count()
            };
            let best = (0..ANSWERS.pow(KEYS)).map(right_about).max().expect("a function");
            let with = released(&rows);
            let moved = [with[0] - without[0], with[1] - without[1]];
            assert_eq!(moved, [best as f64, (count - best) as f64], "case {case} of seed {seed}");
        }
    }
}

/// Means come out within the noise: by a table of keys, and by a vector.
#[test]
fn means_are_within_the_noise() {
    let seed = run_seed("means");
    let (mut dice, mut yard) = (Dice::new(seed), Yard::new());
    let rows: Vec<Vec<f64>> =
        (0..5_000).map(|index| vec![f64::from(index % 4), dice.unit() * 6.0 - 2.0, dice.unit()]).collect();
    let parts = vec![laplace(epsilon_of("1"), 1), concentrated(sigma_of("1"), 1), gaussian(sigma_of("1"), 8, 2)];
    let mut session = yard.train(parts, &rows, seed);
    let range = Range::new(-2.0, 4.0).expect("a range");
    for noise in [TableNoise::Laplace(epsilon_of("1")), TableNoise::Gaussian(sigma_of("1"))] {
        let pairs = session.pairs(Lane::Train, 4, range, Rounding::Nearest, noise, |row| Some((row[0] as u32, row[1])));
        for (key, pair) in pairs.expect("covered").iter().enumerate() {
            let exact: f64 = rows.iter().filter(|row| row[0] as usize == key).map(|row| (row[1] + 2.0) / 6.0).sum();
            // Noise of size one: 25 is 18 of Laplace's deviations.
            assert!((pair.above - exact).abs() < 25.0, "{key}: {} {exact}", pair.above);
            assert!((pair.above + pair.below - 1250.0).abs() < 40.0);
        }
    }
    let sums = session.vector_sum(Lane::Train, 2, 10.0, sigma_of("1"), |row, out| out.copy_from_slice(&row[1..]));
    for (index, sum) in sums.expect("covered").iter().enumerate() {
        let exact: f64 = rows.iter().map(|row| row[index + 1]).sum();
        assert!((sum - exact).abs() < 100.0, "{index}: {sum} {exact}");
    }
}

/// A row that writes nothing counts as zero, not as the row before it.
#[test]
fn what_a_row_does_not_write_is_zero() {
    let mut yard = Yard::new();
    let sigma = sigma_of("1");
    let bounds = MomentBounds { width: 2, feature_norm: 2.0, label_size: 2.0 };
    let mut run = |rows: &[Vec<f64>]| {
        let mut session = yard.train(vec![gaussian(sigma, 3, 2)], rows, 6);
        let write = |row: &[f64], out: &mut [f64]| {
            if row[0] > 0.0 {
                out.copy_from_slice(&row[..2]);
            }
        };
        let moments = session.moments(Lane::Train, bounds, |row, out| {
            write(row, out);
            0.0
        });
        let moments = moments.expect("granted");
        let matrix = session.noisy_matrix(&moments, sigma).expect("covered");
        (session.vector_sum(Lane::Train, 2, 2.0, sigma, write).expect("covered"), matrix)
    };
    let (loud, silent) = (vec![1.0, 1.0], vec![-1.0, 1.0]);
    assert_eq!(run(std::slice::from_ref(&loud)), run(&[loud.clone(), silent]));
}

/// Noise is drawn some thousand numbers at a time; across those borders no draw is used twice.
#[test]
fn every_coordinate_has_noise_of_its_own() {
    let seed = run_seed("coordinates");
    let (width, sigma) = (20_000, sigma_of("3"));
    let mut session = Yard::new().train(vec![gaussian(sigma, width, 2)], &[], seed);
    let mut draws: Vec<f64> = Vec::new();
    for _ in 0..2 {
        draws.extend(session.vector_sum(Lane::Train, width, 1.0, sigma, |_, _| {}).expect("covered"));
    }
    let count = draws.len() as f64;
    let variance = draws.iter().map(|draw| draw * draw).sum::<f64>() / count;
    // Deviation three; the variance of 40,000 draws to 5.5 of its deviations.
    assert!((variance / 9.0 - 1.0).abs() < 5.5 * (2.0 / count).sqrt(), "{variance}");
    for gap in [1, 2, 255, 256, 4096, 20_000] {
        let pairs = draws.iter().zip(&draws[gap..]);
        let together = pairs.map(|(one, other)| one * other).sum::<f64>() / 9.0 / (count - gap as f64).sqrt();
        assert!(together.abs() < 5.5, "{gap}: {together}");
    }
    draws.sort_by(f64::total_cmp);
    let equal = draws.windows(2).filter(|pair| pair[0] == pair[1]).count();
    // Among 2^26 values, 40,000 draws collide about eight times by chance.
    assert!(equal < 40, "{equal}");
}

const NETWORK: [LayerShape; 2] = [LayerShape::dense(3, 2), LayerShape::one_hot(2, 6, 2)];

/// Rows of ten numbers: three inputs, two errors, two one-hot indices, two errors, one spare.
fn network_backward(sample: &Sample<'_, TestRows>, layers: &mut [LayerRows]) {
    layers.iter_mut().for_each(LayerRows::clear);
    for index in 0..sample.count() {
        let row = sample.row(index);
        layers[0].values.extend(row[..3].iter().map(|&value| value as f32));
        layers[0].errors.extend(row[3..5].iter().map(|&value| value as f32));
        layers[1].indices.extend(row[5..7].iter().map(|&value| value as u32));
        layers[1].errors.extend(row[7..9].iter().map(|&value| value as f32));
    }
}

/// The gradient of one row, formed and shortened by hand.
fn network_reference(row: &[f64], clip: f64) -> Vec<f64> {
    let single = |value: f64| f64::from(value as f32);
    let mut gradient = Vec::new();
    for input in row[..3].iter().chain(&[1.0]) {
        gradient.extend(row[3..5].iter().map(|&error| single(error) * single(*input)));
    }
    for index in 0..=6 {
        let taken = index == 6 || row[5] as usize == index || row[6] as usize == index;
        gradient.extend(row[7..9].iter().map(|&error| if taken { single(error) } else { 0.0 }));
    }
    let length = gradient.iter().map(|value| value * value).sum::<f64>().sqrt();
    let factor = (clip / length).min(1.0);
    gradient.iter().map(|value| value * factor).collect()
}

/// With the noise taken off by a run on no rows, a step is the naive clipped sum.
#[test]
fn a_step_equals_the_row_at_a_time_reference() {
    let seed = run_seed("step");
    let (mut dice, mut yard) = (Dice::new(seed), Yard::new());
    for (round, clip) in [0.01, 0.5, 1.0, 3.0, 1000.0].into_iter().enumerate() {
        let rows: Vec<Vec<f64>> = (0..1 + 40 * round)
            .map(|_| {
                let mut row: Vec<f64> = (0..10).map(|_| (dice.unit() - 0.5) * 4.0).collect();
                row[5] = dice.below(3) as f64;
                row[6] = 3.0 + dice.below(3) as f64;
                row
            })
            .collect();
        let mut step = |rows: &[Vec<f64>]| {
            let part = sampled(Rate::LIMIT, sigma_of("0.5"), 64, 1);
            let mut session = yard.train(vec![part], rows, seed + round as u64);
            let step = Step { rate: Rate::LIMIT, sigma: sigma_of("0.5"), clip };
            session.sampled_sum(Lane::Train, step, &NETWORK, network_backward).expect("covered").concat()
        };
        let (noise, noisy) = (step(&[]), step(&rows));
        let mut expected = vec![0.0; noise.len()];
        for row in &rows {
            let gradient = network_reference(row, clip);
            expected.iter_mut().zip(gradient).for_each(|(sum, value)| *sum += value);
        }
        // Two factors cut to 2^-13 for each row; single precision for the noisy number.
        for ((noise, noisy), expected) in noise.iter().zip(&noisy).zip(&expected) {
            let found = f64::from(*noisy) - f64::from(*noise);
            let single = f64::from(noisy.abs().max(noise.abs())) * 2e-7;
            let slack = rows.len() as f64 * clip * 4.0 / 8_192.0 + single;
            assert!((found - expected).abs() <= slack, "clip {clip}: {found} {expected} {slack}");
        }
    }
}

/// A step whose parts have the wrong size sums nothing, and has its noise all the same.
#[test]
fn wrong_sizes_sum_nothing() {
    let mut yard = Yard::new();
    let mut step = |rows: &[Vec<f64>], spoil: fn(&mut [LayerRows])| {
        let part = sampled(Rate::LIMIT, sigma_of("1"), 64, 1);
        let mut session = yard.train(vec![part], rows, 2);
        let step = Step { rate: Rate::LIMIT, sigma: sigma_of("1"), clip: 1.0 };
        let sums = session.sampled_sum(Lane::Train, step, &NETWORK, |sample, layers| {
            network_backward(sample, layers);
            spoil(layers);
        });
        sums.expect("covered")
    };
    let noise = step(&[], |_| {});
    let rows = vec![vec![1.0, 1.0, 1.0, 1.0, 1.0, 0.0, 3.0, 1.0, 1.0, 0.0]; 3];
    assert!(step(&rows, |_| {}) != noise);
    let spoils: [fn(&mut [LayerRows]); 6] = [
        |layers| layers[0].values.push(1.0),
        |layers| layers[0].errors.truncate(1),
        |layers| layers[1].indices.push(0),
        |layers| layers[1].values.push(0.0),
        |layers| layers[0].indices.push(0),
        |layers| layers.iter_mut().for_each(|layer| layer.errors.clear()),
    ];
    for spoil in spoils {
        assert_eq!(step(&rows, spoil), noise);
    }
}

const MOMENT_BOUNDS: MomentBounds = MomentBounds { width: 3, feature_norm: 2.0, label_size: 1.5 };

/// Every number the moments give, without its noise.
struct Clean {
    matrix: Vec<f64>,
    cross: Vec<f64>,
    smallest: f64,
    loss: f64,
    rest: f64,
    best: sage_kernel::BestLoss,
}

fn clean_moments(yard: &mut Yard, rows: &[Vec<f64>], weight_norm: f64) -> Clean {
    let (sigma, epsilon) = (sigma_of("1"), epsilon_of("1"));
    let mut run = |rows: &[Vec<f64>]| {
        let mut session = yard.train(vec![gaussian(sigma, 6, 3), laplace(epsilon, 1)], rows, 11);
        let moments = session.moments(Lane::Train, MOMENT_BOUNDS, |row, out| {
            out.copy_from_slice(&row[..3]);
            row[3]
        });
        let moments = moments.expect("granted");
        (
            session.noisy_matrix(&moments, sigma).expect("covered"),
            session.noisy_cross(&moments, sigma).expect("covered"),
            session.noisy_smallest_eigenvalue(&moments, sigma).expect("covered"),
            session.least_squared_loss(&moments, weight_norm, epsilon).expect("covered"),
        )
    };
    let (noise, noisy) = (run(&[]), run(rows));
    let minus = |one: &[f64], other: &[f64]| one.iter().zip(other).map(|(one, other)| one - other).collect();
    Clean {
        matrix: minus(&noisy.0, &noise.0),
        cross: minus(&noisy.1, &noise.1),
        smallest: noisy.2 - noise.2,
        loss: noisy.3.loss - noise.3.loss,
        rest: noisy.3.rest - noise.3.rest,
        best: noisy.3,
    }
}

/// The smallest eigenvalue by Jacobi's rotations.
fn jacobi(matrix: &[f64]) -> f64 {
    let mut a: Vec<Vec<f64>> = matrix.chunks(3).map(<[f64]>::to_vec).collect();
    for _ in 0..60 {
        for (p, q) in [(0, 1), (0, 2), (1, 2)] {
            let angle = 0.5 * (2.0 * a[p][q]).atan2(a[q][q] - a[p][p]);
            let (sine, cosine) = angle.sin_cos();
            for row in &mut a {
                (row[p], row[q]) = (cosine * row[p] - sine * row[q], sine * row[p] + cosine * row[q]);
            }
            let (one, other) = (a[p].clone(), a[q].clone());
            a[p] = one.iter().zip(&other).map(|(one, other)| cosine * one - sine * other).collect();
            a[q] = one.iter().zip(&other).map(|(one, other)| sine * one + cosine * other).collect();
        }
    }
    a[0][0].min(a[1][1]).min(a[2][2])
}

/// The least squared loss over weights of bounded length, by projected gradients.
fn projected_gradient(rows: &[Vec<f64>], weight_norm: f64) -> f64 {
    let mut weights = [0.0; 3];
    let curvature: f64 = rows.iter().map(|row| row[..3].iter().map(|x| x * x).sum::<f64>()).sum();
    let error =
        |weights: &[f64; 3], row: &[f64]| row[..3].iter().zip(weights).map(|(x, w)| x * w).sum::<f64>() - row[3];
    for _ in 0..20_000 {
        let mut gradient = [0.0; 3];
        for row in rows {
            let error = error(&weights, row);
            gradient.iter_mut().zip(row).for_each(|(gradient, x)| *gradient += error * x);
        }
        weights.iter_mut().zip(gradient).for_each(|(weight, g)| *weight -= g / curvature);
        let length = weights.iter().map(|weight| weight * weight).sum::<f64>().sqrt();
        if length > weight_norm {
            weights.iter_mut().for_each(|weight| *weight *= weight_norm / length);
        }
    }
    rows.iter().map(|row| error(&weights, row).powi(2)).sum()
}

#[test]
fn moments_equal_other_methods() {
    let seed = run_seed("moments");
    let (mut dice, mut yard) = (Dice::new(seed), Yard::new());
    for round in 0..24 {
        let slope: Vec<f64> = (0..3).map(|_| dice.unit() * 2.0 - 1.0).collect();
        let stretch = [1.0, 1e-3, 0.0][round % 3];
        let rows: Vec<Vec<f64>> = (0..1 + 9 * round)
            .map(|_| {
                let mut row: Vec<f64> = (0..3).map(|_| dice.unit() * 2.0 - 1.0).collect();
                row[2] = row[0] + stretch * row[2];
                row[..3].iter_mut().for_each(|x| *x *= 0.8);
                let label: f64 = row.iter().zip(&slope).map(|(x, w)| x * w).sum();
                row.push((label + 0.3 * (dice.unit() - 0.5)).clamp(-1.5, 1.5));
                row
            })
            .collect();
        let weight_norm = [0.3, 1.0, 5.0][round / 3 % 3];
        let clean = clean_moments(&mut yard, &rows, weight_norm);
        let mut exact = vec![0.0; 9];
        for (index, sum) in exact.iter_mut().enumerate() {
            *sum = rows.iter().map(|row| row[index / 3] * row[index % 3]).sum();
        }
        // Rounding to 2^-20 of the bound for each row, and to the lattice of the noise.
        let slack = 8.0 * rows.len() as f64 / SCALE as f64 + 1e-6;
        for (found, exact) in clean.matrix.iter().zip(&exact) {
            assert!((found - exact).abs() < slack, "matrix {found} {exact}");
        }
        for (index, found) in clean.cross.iter().enumerate() {
            let exact: f64 = rows.iter().map(|row| row[index] * row[3]).sum();
            assert!((found - exact).abs() < slack, "cross {found} {exact}");
        }
        let smallest = jacobi(&exact);
        assert!((clean.smallest - smallest).abs() < 3.0 * slack, "{} {smallest}", clean.smallest);
        let least = projected_gradient(&rows, weight_norm) / clean.best.bound;
        let count = rows.len() as f64;
        let slack = clean.best.rounding * count + 2.0 / SCALE as f64 + 1e-3 * least;
        assert!(clean.loss >= least - slack, "loss {} {least}", clean.loss);
        assert!(clean.loss <= least + clean.best.gap + slack, "loss {} {least}", clean.loss);
        assert!((clean.loss + clean.rest - count).abs() < 1e-9);
    }
}

/// One-hot rows give the same moments as the same rows written as dense vectors.
#[test]
fn one_hot_indices_equal_the_rows_they_stand_for() {
    let seed = run_seed("one-hot");
    let (mut dice, mut yard) = (Dice::new(seed), Yard::new());
    let sigma = sigma_of("1");
    for columns in [6u32, 40] {
        let rows: Vec<Vec<f64>> = (0..3_000)
            .map(|_| {
                let one = dice.below(columns as usize - 1);
                let other = one + 1 + dice.below(columns as usize - 1 - one);
                vec![one as f64, other as f64, dice.unit() * 4.0 - 2.0]
            })
            .collect();
        let width = columns + 1;
        let mut run = |rows: &[Vec<f64>], written: Written| {
            let mut session = yard.train(vec![gaussian(sigma, width * (width + 1) / 2, 3)], rows, 5);
            let moments = match written {
                Written::OneHot => {
                    let bounds = OneHotBounds { active: 2, columns, label_size: 1.5 };
                    session.one_hot_moments(Lane::Train, bounds, |row, indices| {
                        indices.copy_from_slice(&[row[0] as u32, row[1] as u32]);
                        row[2]
                    })
                }
                Written::Dense => {
                    let bounds = MomentBounds { width, feature_norm: 3f64.sqrt(), label_size: 1.5 };
                    session.moments(Lane::Train, bounds, |row, out| {
                        (out[row[0] as usize], out[row[1] as usize], out[columns as usize]) = (1.0, 1.0, 1.0);
                        row[2]
                    })
                }
            };
            let moments = moments.expect("granted");
            let mut numbers = session.noisy_matrix(&moments, sigma).expect("covered");
            numbers.extend(session.noisy_cross(&moments, sigma).expect("covered"));
            numbers.push(session.noisy_smallest_eigenvalue(&moments, sigma).expect("covered"));
            numbers
        };
        let [one_hot, dense] = [Written::OneHot, Written::Dense].map(|written| {
            let noise = run(&[], written);
            run(&rows, written).into_iter().zip(noise).map(|(noisy, noise)| noisy - noise).collect::<Vec<f64>>()
        });
        assert!(one_hot.iter().any(|number| number.abs() > 100.0));
        for (one, other) in one_hot.iter().zip(&dense) {
            assert!((one - other).abs() < 0.02, "{one} {other}");
        }
    }
}

#[derive(Clone, Copy)]
enum Written {
    OneHot,
    Dense,
}

/// A released number goes into the rows it came from, and the next mechanism sees it there.
#[test]
fn rows_are_rewritten_where_they_are() {
    let mut yard = Yard::new();
    let epsilon = epsilon_of("40");
    let mut session = yard.train(vec![laplace(epsilon, 2)], &vec![vec![1.0, 0.0]; 50], 3);
    let range = Range::new(0.0, 10.0).expect("a range");
    let noise = TableNoise::Laplace(epsilon);
    let sum = |session: &mut Seeded| {
        let pairs = session.pairs(Lane::Train, 1, range, Rounding::Nearest, noise, |row| Some((0, row[1])));
        pairs.expect("covered")[0].above
    };
    assert!(sum(&mut session).abs() < 1.0);
    session.rewrite(|batch| batch.0.iter_mut().for_each(|row| row[1] = row[0] * 10.0));
    assert!((sum(&mut session) - 50.0).abs() < 1.0);
}

/// Lanes are drawn with the probability of the split; a split that would leave a lane empty is refused.
#[test]
fn lanes_follow_the_split() {
    let seed = run_seed("coins");
    let mut noise = SeededNoise::new(seed);
    for rate in ["0.1", "0.5", "0.001", "0.9"] {
        let split = Split::new(rate_of(rate)).expect("a split");
        let chance: f64 = rate.parse().expect("a number");
        let tosses = 200_000;
        let tests = (0..tosses).filter(|_| split.draw(&mut noise) == Ok(Lane::Test)).count() as f64;
        let deviation = (f64::from(tosses) * chance * (1.0 - chance)).sqrt();
        assert!((tests - f64::from(tosses) * chance).abs() < 5.5 * deviation, "{rate}: {tests}");
    }
    assert_eq!(Some(Split::DEFAULT), Split::new(rate_of("0.1")));
    assert_eq!(Split::new(Rate::ZERO), None);
    assert_eq!(Split::new(Rate::LIMIT), None);
}

/// A step takes each row with its chance, by itself: the number of rows in it is binomial.
#[test]
fn a_step_samples_each_row_by_itself() {
    let seed = run_seed("sampling");
    let mut yard = Yard::new();
    let layers = [LayerShape::dense(0, 1)];
    let rows = vec![vec![1.0]; 1_000];
    let mut session = yard.train(vec![sampled(rate_of("0.05"), sigma_of("4"), 1, 400)], &rows, seed);
    let step = Step { rate: rate_of("0.05"), sigma: sigma_of("4"), clip: 1.0 };
    let mut counts = Vec::new();
    for _ in 0..400 {
        let count = std::sync::atomic::AtomicUsize::new(0);
        let sums = session.sampled_sum(Lane::Train, step, &layers, |sample, layers| {
            count.fetch_add(sample.count(), std::sync::atomic::Ordering::Relaxed);
            layers[0].errors.fill(1.0);
        });
        let (sum, count) = (f64::from(sums.expect("covered")[0][0]), count.into_inner() as f64);
        assert!((sum - count).abs() < 4.0 * 6.0, "{sum}");
        counts.push(count);
    }
    let mean = counts.iter().sum::<f64>() / 400.0;
    let variance = counts.iter().map(|count| (count - mean).powi(2)).sum::<f64>() / 399.0;
    // Mean 50 and variance 47.5, the mean to 5.5 deviations and the variance to five.
    assert!((mean - 50.0).abs() < 1.9, "{mean}");
    assert!((variance - 47.5).abs() < 17.0, "{variance}");
}
