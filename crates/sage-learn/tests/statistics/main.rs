//! Statistics: confidence intervals have their stated coverage, on rows of every kind.

#![allow(clippy::unwrap_used, reason = "a test that cannot get its number has failed")]

#[path = "../support/mod.rs"]
mod support;

mod missing;

use sage_kernel::{Epsilon, Lane, Mechanism, SessionError, Sigma, TableNoise};
use sage_learn::encode::{
    Encoding, Field, FieldKind, Join, Key, KeyKind, Label, LabelKind, Mean as MeanOf, Scale, Source, Span, Stated,
};
use sage_learn::statistics::{
    Count, Estimate, GroupBy, Histogram, Mean, Quantiles, StatisticError, Sum, Variance, charge_for, epsilon_for_mean,
    fit_join,
};
use support::{Dice, Numbers, session};

fn laplace(epsilon: &str) -> TableNoise {
    TableNoise::Laplace(Epsilon::cost(epsilon).unwrap())
}

fn gaussian(sigma: &str) -> TableNoise {
    TableNoise::Gaussian(Sigma::cost(sigma).unwrap())
}

const NOISES: [fn() -> TableNoise; 2] = [|| laplace("1"), || gaussian("2")];

fn open(parts: Vec<Mechanism>, rows: Vec<f64>) -> sage_kernel::Session<Numbers> {
    session(parts, Numbers(rows), Numbers(Vec::new()))
}

/// Numbers between 2 and 6, more of them low: mean 10/3, variance 8/9.
fn triangle(count: usize, dice: &mut Dice) -> Vec<f64> {
    (0..count).map(|_| 2.0 + 4.0 * dice.unit().min(dice.unit())).collect()
}

fn holds(estimate: &Estimate, truth: f64) -> bool {
    let inside = |value| estimate.low <= value && value <= estimate.high;
    assert!(estimate.value.is_none_or(inside), "{estimate:?}");
    estimate.low <= truth && truth <= estimate.high
}

/// At 95 % coverage, more than 40 misses in 200 have a probability of about 10⁻¹⁰.
#[test]
fn intervals_have_their_stated_coverage_and_are_not_vacuous() {
    let bounds = (2.0, 6.0);
    for noise in NOISES {
        let noise = noise();
        let mut dice = Dice(11);
        let mut misses = [0; 5];
        for _ in 0..200 {
            let rows = triangle(4_000, &mut dice);
            let exact: f64 = rows.iter().sum();
            let (count, sum) = (Count { noise }, Sum { bounds, noise });
            let (mean, variance) = (Mean { bounds, noise }, Variance { bounds, noise });
            let median = Quantiles::new((1..=31).map(|step| 2.0 + f64::from(step) / 8.0).collect(), noise).unwrap();
            let parts = [count.mechanisms(), sum.mechanisms(), mean.mechanisms(), variance.mechanisms()].concat();
            let mut session = open([parts, median.mechanisms()].concat(), rows);
            let (lane, chance) = (Lane::Train, 0.05);
            let count = count.run(&mut session, lane, chance, |_| true).unwrap();
            let sum = sum.run(&mut session, lane, chance, |row| row).unwrap();
            let mean = mean.run(&mut session, lane, chance, |row| row).unwrap();
            let variance = variance.run(&mut session, lane, chance, |row| row).unwrap();
            let found = median.run(&mut session, lane, &[0.5], chance, |row| row).unwrap()[0];
            // 1 − (1 − x)² = 1/2 at 1 − √½.
            let middle = 2.0 + 4.0 * (1.0 - 0.5f64.sqrt());
            let right = [
                holds(&count, 4_000.0),
                holds(&sum, exact),
                holds(&mean, 10.0 / 3.0),
                holds(&variance, 8.0 / 9.0),
                found.low <= middle && middle <= found.high,
            ];
            misses.iter_mut().zip(right).for_each(|(misses, right)| *misses += i32::from(!right));
            assert!(count.half_width() < 20.0 && mean.half_width() < 0.15 && variance.half_width() < 0.6);
            assert!((found.value - middle).abs() < 0.6 && found.high - found.low < 1.5, "{found:?}");
        }
        assert!(misses.iter().all(|&misses| misses < 40), "{misses:?}");
    }
}

#[test]
fn groups_with_too_few_rows_are_flagged() {
    // Noise flags one of the empty groups in a thousand cases, and all five of them in none.
    let plan = GroupBy { keys: 7, bounds: (0.0, 10.0), noise: laplace("2") };
    let rows = [vec![0.5; 2_000], vec![1.25; 1_000], vec![f64::NAN; 100], vec![7.0; 50]].concat();
    let mut session = open(plan.mechanisms(), rows);
    // The key is the integer part, the value eight times the fractional part.
    let key = |row: f64| row.is_finite().then(|| (row as u32, 8.0 * row.fract()));
    let groups = plan.run(&mut session, Lane::Train, 0.01, key).unwrap();
    assert!((groups[0].mean - 4.0).abs() < 0.1 && (groups[1].mean - 2.0).abs() < 0.1, "{groups:?}");
    assert!((groups[0].count - 2_000.0).abs() < 30.0 && (groups[0].sum - 8_000.0).abs() < 200.0);
    assert!(!groups[0].too_few && groups[0].interval.value.is_some() && holds(&groups[0].interval, 4.0));
    let empty = groups[2..].iter().filter(|group| group.too_few);
    assert!(empty.clone().count() > 0 && empty.clone().all(|group| (group.mean - 5.0).abs() < 1e-12));
    let again = plan.run(&mut session, Lane::Train, 0.01, key);
    assert_eq!(again.err(), Some(StatisticError::Session(SessionError::NotCovered)));
    // The rule at ε = 2 for continuous noise: twice ln(1 / x) / ε, where x is twice a twentieth for each key.
    assert!((plan.fewest().unwrap() - (7.0f64 / 0.1).ln()).abs() < 1e-4);
}

#[test]
fn histograms_have_one_noise_bound_for_all_counts() {
    for noise in NOISES {
        let plan = Histogram { keys: 100, noise: noise() };
        let mut session = open(plan.mechanisms(), (0..5_000).map(|row| f64::from(row % 100)).collect());
        let (counts, reach) = plan.run(&mut session, Lane::Train, 1e-9, |row| Some(row as u32)).unwrap();
        assert_eq!(counts.len(), 100);
        assert!(counts.iter().all(|count| (count - 50.0).abs() <= reach) && reach < 40.0, "{reach}");
    }
}

/// No row and no parameter makes a statistic fail or return NaN.
#[test]
fn hostile_rows_and_parameters() {
    let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, f64::MAX, f64::MIN, 5e-324, -0.0];
    for rows in [Vec::new(), odd.to_vec(), odd.repeat(500)] {
        for noise in NOISES {
            let noise = noise();
            let bounds = (-1e6, 1e6);
            let quantiles = Quantiles::new(vec![-1.0, 0.0, 1.0], noise).unwrap();
            let (sum, mean, variance) = (Sum { bounds, noise }, Mean { bounds, noise }, Variance { bounds, noise });
            let parts = [sum.mechanisms(), mean.mechanisms(), variance.mechanisms(), quantiles.mechanisms()];
            let mut session = open(parts.concat(), rows.clone());
            let lane = Lane::Train;
            assert!(sum.run(&mut session, lane, 0.05, |row| row).unwrap().value.is_some_and(f64::is_finite));
            for found in [
                mean.run(&mut session, lane, 0.05, |row| row).unwrap(),
                variance.run(&mut session, lane, 0.05, |row| row).unwrap(),
            ] {
                assert!(found.value.is_none_or(f64::is_finite) && found.low.is_finite() && found.high.is_finite());
                assert_eq!(found.half_width().is_finite(), found.value.is_some(), "{found:?}");
            }
            let found = quantiles.run(&mut session, lane, &[0.0, 0.5, 1.0], 0.05, |row| row).unwrap();
            assert!(found.iter().all(|found| found.value.is_finite() && found.low <= found.high), "{found:?}");
            for chance in [0.0, -1.0, f64::NAN, 9.0] {
                assert!(mean.run(&mut session, lane, chance, |row| row).is_err());
                assert!(quantiles.run(&mut session, lane, &[0.5], chance, |row| row).is_err());
            }
            for bounds in [(1.0, 0.0), (0.0, f64::INFINITY), (f64::NAN, 1.0)] {
                assert_eq!(Mean { bounds, noise }.run(&mut session, lane, 0.1, |row| row), Err(StatisticError::Bounds));
            }
        }
    }
    for edges in [Vec::new(), vec![1.0, 1.0], vec![f64::NAN], vec![f64::INFINITY]] {
        assert_eq!(Quantiles::new(edges, laplace("1")).err(), Some(StatisticError::Bounds));
    }
    assert_eq!(charge_for(TableNoise::Laplace(Epsilon::ZERO)), None);
    assert_eq!(charge_for(TableNoise::Gaussian(Sigma::ZERO)), None);
}

#[test]
fn quantiles_of_a_known_distribution() {
    let mut dice = Dice(5);
    let plan = Quantiles::new((0..=1000).map(|step| f64::from(step) / 1000.0).collect(), gaussian("3")).unwrap();
    let mut session = open(plan.mechanisms(), (0..200_000).map(|_| dice.unit()).collect());
    let shares = [0.01, 0.25, 0.5, 0.9, 0.99];
    let found = plan.run(&mut session, Lane::Train, &shares, 1e-4, |row| row).unwrap();
    for (share, found) in shares.iter().zip(found) {
        assert!((found.value - share).abs() < 0.01, "{share}: {found:?}");
        assert!(found.low <= *share && *share <= found.high && found.high - found.low < 0.03, "{share}: {found:?}");
    }
}

/// Two keys, one with numbers twice as large: one charge gives the quantiles of both, and rows without a key are
/// not counted.
#[test]
fn quantiles_by_key_cost_what_those_of_all_rows_do() {
    let mut dice = Dice(6);
    let plan = Quantiles::new((0..=1000).map(|step| f64::from(step) / 1000.0).collect(), gaussian("3")).unwrap();
    let mut session = open(plan.mechanisms(), (0..300_000).map(|_| dice.unit()).collect());
    let of = |row: f64| match row {
        low if low < 0.25 => Some((0, low)),
        high if high < 0.75 => Some((1, high)),
        _ => None,
    };
    let found = plan.run_by_key(&mut session, Lane::Train, 2, &[0.5], 1e-4, of).unwrap();
    assert_eq!(found.len(), 2);
    for (found, median) in found.iter().zip([0.125, 0.5]) {
        let found = found[0];
        assert!((found.value - median).abs() < 0.01, "{found:?}");
        assert!(found.low <= median && median <= found.high && found.high - found.low < 0.03, "{found:?}");
    }
    let again = plan.run_by_key(&mut session, Lane::Train, 2, &[0.5], 1e-4, of);
    assert!(matches!(again, Err(StatisticError::Session(_))), "the charge is used up");
    assert!(plan.run_by_key(&mut session, Lane::Train, 0, &[0.5], 0.1, of).is_err());
    assert!(plan.run_by_key(&mut session, Lane::Train, u32::MAX, &[0.5], 0.1, of).is_err());
}

#[test]
fn an_epsilon_meets_its_target() {
    let bounds = (0.0, 100.0);
    let epsilon = epsilon_for_mean(100_000, bounds, 1.0, 0.05).unwrap().unwrap();
    let mean = Mean { bounds, noise: TableNoise::Laplace(epsilon) };
    let mut dice = Dice(8);
    let mut session = open(mean.mechanisms(), (0..110_000).map(|_| 100.0 * dice.unit()).collect());
    let found = mean.run(&mut session, Lane::Train, 0.05, |row| row).unwrap();
    assert!(found.half_width() <= 1.0, "{epsilon:?}: {found:?}");
    // More rows or a wider target need less ε; with too few rows no ε is enough.
    assert!(epsilon_for_mean(1_000_000, bounds, 1.0, 0.05).unwrap().unwrap() < epsilon);
    assert!(epsilon_for_mean(100_000, bounds, 2.0, 0.05).unwrap().unwrap() < epsilon);
    assert_eq!(epsilon_for_mean(100, bounds, 1.0, 0.05), Ok(None));
    assert!(epsilon_for_mean(100, bounds, f64::NAN, 0.05).is_err());
}

/// A ride: its hour, speed and duration.
struct Ride(i64, f64, f64);

impl Source for Ride {
    fn number(&self, column: u32) -> Option<f64> {
        [self.0 as f64, self.1, self.2].get(column as usize).copied()
    }

    fn integer(&self, column: u32) -> Option<i64> {
        (column == 0).then_some(self.0)
    }

    fn text(&self, _: u32) -> Option<&str> {
        None
    }
}

/// A mean by key is fitted on the train lane alone, joined into both lanes, and kept in the encoding.
#[test]
fn a_mean_by_key_is_fitted_and_joined() {
    let scale = |low, high| Scale { low, high, span: Span::Signed, missing: Some(0.0) };
    for (mean, bounds) in [(MeanOf::Label, (0.0, 50.0)), (MeanOf::Field("speed".to_owned()), (0.0, 20.0))] {
        let join = Join {
            key: Key { column: 0, kind: KeyKind::Bucket(vec![1.0, 2.0, 3.0]) },
            mean: mean.clone(),
            scale: scale(bounds.0, bounds.1),
            table: Vec::new(),
        };
        let fields = vec![
            Field { name: "speed".to_owned(), kind: FieldKind::Number { column: 1, scale: scale(0.0, 20.0) } },
            Field { name: "by hour".to_owned(), kind: FieldKind::Join(join) },
        ];
        let label = Label { column: 2, kind: LabelKind::Number { low: 0.0, high: 50.0 } };
        let encoding = Encoding::new(Stated { fields, label }).unwrap();
        // In the hour h the speed is 4 h and the time 10 h; on the test lane all is zero.
        let ride = |row: i64| Ride(row % 3, 4.0 * (row % 3) as f64, 10.0 * (row % 3) as f64);
        let train = encoding.encode((0..30_000).map(ride));
        let test = encoding.encode((0..30_000).map(|row| Ride(row % 3, 0.0, 0.0)));
        let noise = laplace("1");
        let read = Mean { bounds: (-1.0, 1.0), noise: laplace("5") };
        let parts = [charge_for(noise).into_iter().collect(), read.mechanisms()].concat();
        let mut session = session(parts, train, test);
        let fitted = fit_join(&mut session, &encoding, "by hour", noise).unwrap();
        assert!(fit_join(&mut session, &fitted, "by hour", noise).is_err(), "once");
        assert!(fit_join(&mut session, &encoding, "speed", noise).is_err());
        let table = fitted.joins().next().unwrap().2.table.clone();
        // The means are 0, 1 and 2 fifths of the span; no row has the other keys.
        for (key, expected) in [-1.0, -0.6, -0.2].iter().enumerate() {
            assert!((table[key] - expected).abs() < 0.02, "{mean:?} {table:?}");
        }
        for lane in Lane::BOTH {
            let found = read.run(&mut session, lane, 0.01, |row| f64::from(row.numbers[1])).unwrap();
            assert!((found.value.unwrap() + 0.6).abs() < 0.02, "{lane:?} {found:?}");
        }
    }
}
