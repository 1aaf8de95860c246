//! Missing values: null, NaN and infinities are in no sum and in no count, for every statistic.

use sage_kernel::Lane;
use sage_learn::statistics::{Count, Group, GroupBy, Histogram, Mean, Quantiles, Sum, Variance};

use super::support::{Dice, Numbers, session};
use super::{gaussian, holds, laplace, open};

/// Regression test: with half of the values missing and the others 0.8, the mean was 0.398 with an interval that
/// excluded 0.8, because a missing value was counted as the lower bound.
#[test]
fn half_of_the_values_missing_changes_no_mean() {
    for missing in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let noise = laplace("1");
        let bounds = (0.0, 1.0);
        let (sum, mean, variance) = (Sum { bounds, noise }, Mean { bounds, noise }, Variance { bounds, noise });
        let groups = GroupBy { keys: 2, bounds, noise };
        let quantiles = Quantiles::new((0..=50).map(|step| f64::from(step) / 50.0).collect(), noise).unwrap();
        let parts = [sum.mechanisms(), mean.mechanisms(), variance.mechanisms(), groups.mechanisms()].concat();
        let rows = (0..20_000).map(|row| if row % 2 == 0 { 0.8 } else { missing }).collect();
        let mut session = open([parts, quantiles.mechanisms()].concat(), rows);
        // So small that noise practically never fails the test.
        let (lane, chance) = (Lane::Train, 1e-6);
        let found = mean.run(&mut session, lane, chance, |row| row).unwrap();
        assert!(holds(&found, 0.8) && found.half_width() < 0.03, "{missing}: {found:?}");
        let found = sum.run(&mut session, lane, chance, |row| row).unwrap();
        assert!(holds(&found, 8_000.0) && found.half_width() < 20.0, "{missing}: {found:?}");
        let found = variance.run(&mut session, lane, chance, |row| row).unwrap();
        assert!(holds(&found, 0.0) && found.value.unwrap() < 0.01, "{missing}: {found:?}");
        let found = groups.run(&mut session, lane, chance, |row| Some((1, row))).unwrap();
        assert!(holds(&found[1].interval, 0.8) && (found[1].mean - 0.8).abs() < 0.01, "{missing}: {found:?}");
        assert!((found[1].count - 10_000.0).abs() < 40.0, "{missing}: {found:?}");
        let found = quantiles.run(&mut session, lane, &[0.25, 0.5], chance, |row| row).unwrap();
        assert!(found.iter().all(|found| found.low <= 0.82 && found.value > 0.7), "{missing}: {found:?}");
    }
}

/// A random table: a key that can be missing, and a value that can be null (`None`), NaN or infinite.
struct Table {
    rows: Vec<(Option<u32>, Option<f64>)>,
}

const KEYS: u32 = 3;
const BOUNDS: (f64, f64) = (-4.0, 6.0);

impl Table {
    fn draw(dice: &mut Dice) -> Self {
        let [null, odd] = [dice.below(70), dice.below(30)];
        let row = |dice: &mut Dice| {
            let key = Some(dice.below(KEYS + 1)).filter(|key| *key < KEYS);
            let value = match dice.below(100) {
                share if share < null => None,
                share if share < null + odd => {
                    Some([f64::NAN, f64::INFINITY, f64::NEG_INFINITY][dice.below(3) as usize])
                }
                // Some are out of bounds: clipped, not missing.
                _ => Some(-6.0 + 14.0 * dice.unit().min(dice.unit())),
            };
            (key, value)
        };
        Self { rows: (0..6_000).map(|_| row(dice)).collect() }
    }

    /// The reference: the values that are present, clipped, of one key or of all rows.
    fn present(&self, key: Option<u32>) -> Vec<f64> {
        let mut found = Vec::new();
        for (own, value) in &self.rows {
            let Some(value) = value else { continue };
            if (key.is_none() || key == *own) && !value.is_nan() && !value.is_infinite() {
                found.push(value.max(BOUNDS.0).min(BOUNDS.1));
            }
        }
        found.sort_by(f64::total_cmp);
        found
    }

    /// The row indices, as rows of a session.
    fn numbers(&self) -> Numbers {
        Numbers((0..self.rows.len()).map(|row| row as f64).collect())
    }
}

fn mean_of(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

/// Compares every statistic of random tables with a reference that first drops missing values, with noise so small
/// that the numbers themselves can be compared.
#[test]
fn random_tables_agree_with_a_reference() {
    let seed = std::env::var("SAGE_SEED").ok().and_then(|seed| seed.parse().ok()).unwrap_or(0x5eed);
    println!("seed {seed}");
    let mut dice = Dice(seed);
    let noise = gaussian("0.8");
    for round in 0..12 {
        let table = Table::draw(&mut dice);
        let (lane, chance) = (Lane::Train, 1e-6);
        let bounds = BOUNDS;
        let (count, sum, mean) = (Count { noise }, Sum { bounds, noise }, Mean { bounds, noise });
        let (variance, groups) = (Variance { bounds, noise }, GroupBy { keys: KEYS, bounds, noise });
        let histogram = Histogram { keys: KEYS, noise };
        let quantiles = Quantiles::new((0..=40).map(|step| -4.0 + f64::from(step) / 4.0).collect(), noise).unwrap();
        let charged = [
            [count.mechanisms(), sum.mechanisms(), mean.mechanisms()].concat(),
            [variance.mechanisms(), groups.mechanisms(), histogram.mechanisms(), quantiles.mechanisms()].concat(),
        ];
        let mut opened = session(charged.concat(), table.numbers(), Numbers(Vec::new()));
        let value = |row: f64| table.rows[row as usize].1.unwrap_or(f64::NAN);
        let key = |row: f64| table.rows[row as usize].0;
        let (values, rows) = (table.present(None), table.rows.len() as f64);
        assert!(values.len() > 100, "seed {seed}, round {round}");
        let found = count.run(&mut opened, lane, chance, |_| true).unwrap();
        assert!((found.value.unwrap() - rows).abs() < 8.0, "count(*) counts every row: {found:?}");
        let found = sum.run(&mut opened, lane, chance, value).unwrap();
        assert!(holds(&found, values.iter().sum()) && found.half_width() < 80.0, "round {round}: {found:?}");
        let exact = mean_of(&values);
        let found = mean.run(&mut opened, lane, chance, value).unwrap();
        assert!((found.value.unwrap() - exact).abs() < 60.0 / values.len() as f64, "round {round}: {found:?} {exact}");
        let spread = mean_of(&values.iter().map(|value| (value - exact).powi(2)).collect::<Vec<_>>());
        let found = variance.run(&mut opened, lane, chance, value).unwrap();
        assert!((found.value.unwrap() - spread).abs() < 600.0 / values.len() as f64, "{found:?} {spread}");
        let found: Vec<Group> = groups.run(&mut opened, lane, chance, |row| Some((key(row)?, value(row)))).unwrap();
        for (own, found) in (0..KEYS).zip(&found) {
            let values = table.present(Some(own));
            assert!((found.count - values.len() as f64).abs() < 12.0, "round {round}, key {own}: {found:?}");
            let off = 60.0 / values.len().max(1) as f64;
            assert!(
                found.too_few || (found.mean - mean_of(&values)).abs() < off,
                "round {round}, key {own}: {found:?}"
            );
        }
        let (counts, _) = histogram.run(&mut opened, lane, chance, key).unwrap();
        for (own, count) in (0..KEYS).zip(counts) {
            let exact = table.rows.iter().filter(|(key, _)| *key == Some(own)).count() as f64;
            assert!((count - exact).abs() < 8.0, "round {round}, key {own}: {count} {exact}");
        }
        let found = quantiles.run(&mut opened, lane, &[0.1, 0.5, 0.9], chance, value).unwrap();
        for (share, found) in [0.1, 0.5, 0.9].into_iter().zip(found) {
            let at = |share: f64| values[((values.len() as f64 * share) as usize).min(values.len() - 1)];
            let slack = 40.0 / values.len() as f64;
            let (least, most) = (at((share - slack).max(0.0)), at((share + slack).min(1.0)));
            assert!(least - 0.26 <= found.value && found.value <= most + 0.26, "{share}: {found:?} {least} {most}");
        }
    }
}
