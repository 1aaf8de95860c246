//! Units of several records: their joint effect on every release, and what is counted of them.

use std::sync::Arc;

use crate::support::{
    Dice, Grid, TestRows, Yard, concentrated, epsilon_of, gaussian, laplace, run_seed, sampled, sigma_of, size, unit_of,
};
use sage_kernel::noise::SeededNoise;
use sage_kernel::{
    AccessMode, BlockId, BlockPart, Contribution, Cost, Lane, LayerRows, LayerShape, MomentBounds, Moments,
    OneHotBounds, Permit, Range, Rate, Rounding, Rows, SCALE, Sample, Session, SessionError, Step, Summary, SummaryKey,
    SummaryTag, TableNoise,
};

/// Units, each with its records: a key, a number, three features, a label.
#[derive(Clone, Debug, Default)]
struct Units(Vec<Vec<Vec<f64>>>);

impl Rows for Units {
    type Row<'rows> = &'rows [f64];

    fn count(&self) -> usize {
        self.0.len()
    }

    fn row(&self, index: usize) -> &[f64] {
        &self.0[index][0]
    }

    fn records(&self, index: usize) -> usize {
        self.0[index].len()
    }

    fn record(&self, index: usize, record: usize) -> &[f64] {
        &self.0[index][record]
    }
}

type Open = Session<Units, SeededNoise>;

const KEYS: u32 = 3;
const WIDTH: u32 = 3;
const CLIP: f64 = 1.5;
const LENGTH: u64 = 1 << 20;
const MOMENTS: MomentBounds = MomentBounds { width: WIDTH, feature_norm: 2.0, label_size: 0.75 };
const ONE_HOT: OneHotBounds = OneHotBounds { active: 2, columns: 5, label_size: 0.75 };
const LAYERS: [LayerShape; 1] = [LayerShape::dense(WIDTH, 2)];
const TAG: SummaryTag = SummaryTag([7; 32]);
const KEY: SummaryKey = SummaryKey::from_bytes([5; 32]);

fn of(records: u32) -> Contribution {
    Contribution::new(records).expect("a contribution")
}

fn range() -> Range {
    Range::new(-1.0, 1.0).expect("a range")
}

fn key(row: &[f64]) -> Option<u32> {
    row[0].is_finite().then_some(row[0] as u32)
}

fn keyed(row: &[f64]) -> Option<(u32, f64)> {
    key(row).map(|key| (key, row[1]))
}

fn features(row: &[f64], out: &mut [f64]) -> f64 {
    out.copy_from_slice(&row[2..5]);
    row[5]
}

fn one_hot(row: &[f64], indices: &mut [u32]) -> f64 {
    indices.copy_from_slice(&[row[0] as u32, row[1].abs().mul_add(2.0, 1.0) as u32]);
    row[5]
}

fn backward(sample: &Sample<'_, Units>, layers: &mut [LayerRows]) {
    layers.iter_mut().for_each(LayerRows::clear);
    for index in 0..sample.count() {
        let row = sample.row(index);
        layers[0].values.extend(row[2..5].iter().map(|&value| value as f32));
        layers[0].errors.extend([row[1] as f32, row[5] as f32]);
    }
}

fn permit(yard: &mut Yard) -> Permit {
    let (epsilon, sigma) = (epsilon_of("1"), sigma_of("2"));
    let parts =
        vec![laplace(epsilon, 9), concentrated(sigma, 6), gaussian(sigma, 21, 10), sampled(Rate::LIMIT, sigma, 8, 3)];
    yard.permit(AccessMode::Enforced, [Some(Cost::new(parts).expect("a cost")), None])
}

fn open(yard: &mut Yard, units: &[Vec<Vec<f64>>], seed: u64) -> Open {
    let rows = [vec![Units(units.to_vec())], Vec::new()];
    permit(yard).open(SeededNoise::new(seed), |_| Ok::<_, ()>(rows)).expect("opens")
}

/// A session under one pure loss on both lanes, for exact numbers.
fn exact(yard: &mut Yard, units: &[Vec<Vec<f64>>]) -> Open {
    let cost = || Some(Cost::new(vec![laplace(epsilon_of(EXACT), 2)]).expect("a cost"));
    let rows = || vec![Units(units.to_vec())];
    let permit = yard.permit(AccessMode::Enforced, [cost(), cost()]);
    permit.open(SeededNoise::new(1), |_| Ok::<_, ()>([rows(), rows()])).expect("opens")
}

const EXACT: &str = "1000";

fn whole(released: f64, unit: f64) -> i128 {
    let scaled = released / unit;
    assert!((scaled - scaled.round()).abs() < 1e-3, "{released} is off the grid of {unit}");
    scaled.round() as i128
}

/// What one run released: whole numbers of their unit, with the bound that is claimed for a unit.
#[derive(Default)]
struct Released {
    tables: Vec<(i128, Vec<i128>)>,
    vectors: Vec<(f64, Vec<i128>)>,
    gradients: Vec<Vec<f32>>,
}

fn release(session: &mut Open, contribution: Contribution) -> Released {
    let mut released = Released::default();
    let (lane, epsilon, sigma) = (Lane::Train, epsilon_of("1"), sigma_of("2"));
    let keys = contribution.per_unit(KEYS);
    // The unit of a record's value, derived anew: so many of them add up to the scale.
    let unit = 1.0 / (SCALE / u64::from(contribution.records())) as f64;
    for noise in [TableNoise::Laplace(epsilon), TableNoise::Gaussian(sigma)] {
        for rounding in [Rounding::Nearest, Rounding::Up] {
            let pairs = session.pairs(lane, keys, range(), rounding, noise, keyed).expect("covered");
            let numbers = pairs.iter().flat_map(|pair| [pair.above, pair.below]);
            released.tables.push((i128::from(SCALE), numbers.map(|number| whole(number, unit)).collect()));
        }
        let counts = session.histogram(lane, keys, noise, key).expect("covered");
        released.tables.push((i128::from(SCALE), counts.into_iter().map(|count| whole(count, unit)).collect()));
    }
    if contribution.records() <= 1_000 {
        release_moments(session, contribution, &mut released);
    }
    let step = Step { rate: Rate::LIMIT, sigma, clip: CLIP };
    for _ in 0..3 {
        released.gradients.push(session.sampled_sum(lane, step, &LAYERS, backward).expect("covered").concat());
    }
    released
}

fn release_moments(session: &mut Open, contribution: Contribution, released: &mut Released) {
    let lane = Lane::Train;
    let root = f64::from(contribution.records()).sqrt();
    let length = (LENGTH * LENGTH / u64::from(contribution.records())).isqrt();
    let dense = session.moments(lane, contribution.per_unit(MOMENTS), features).expect("granted");
    let units = [MOMENTS.feature_norm, MOMENTS.label_size].into_iter().zip([WIDTH as usize, 1]);
    let units: Vec<f64> = units.map(|(clip, width)| unit_of(clip, length, width) / root).collect();
    release_from(session, &dense, WIDTH as usize, [units[0], units[1]], released);
    let columns = session.one_hot_moments(lane, contribution.per_unit(ONE_HOT), one_hot).expect("granted");
    let one = (length * length / 3).isqrt() as f64;
    release_from(session, &columns, 6, [1.0 / one / root, units[1]], released);
}

fn release_from(
    session: &mut Open, moments: &Moments, width: usize, [feature, label]: [f64; 2], released: &mut Released,
) {
    let (epsilon, sigma) = (epsilon_of("1"), sigma_of("2"));
    let square = u128::from(LENGTH).pow(2);
    let matrix = session.noisy_matrix(moments, sigma).expect("covered");
    let grid = Grid::new(square << 16, sigma, (width * (width + 1) / 2) as u64);
    let cells = (0..width).flat_map(|row| (row..width).map(move |column| (row, column)));
    let numbers = cells.map(|(row, column)| {
        let weight = if row == column { 65_536.0 } else { 92_681.0 };
        whole(matrix[row * width + column] * weight, grid.step * feature * feature)
    });
    released.vectors.push((grid.reach, numbers.collect()));
    let cross = session.noisy_cross(moments, sigma).expect("covered");
    let grid = Grid::new(square, sigma, width as u64);
    let numbers = cross.iter().map(|&sum| whole(sum, grid.step * feature * label));
    released.vectors.push((grid.reach, numbers.collect()));
    let smallest = session.noisy_smallest_eigenvalue(moments, sigma).expect("covered");
    let grid = Grid::new(square + (1 << 21) + 1, sigma, 1);
    released.vectors.push((grid.reach, vec![whole(smallest, grid.step * feature * feature)]));
    let best = session.least_squared_loss(moments, 0.5, epsilon).expect("covered");
    let numbers = [best.loss, best.rest].map(|number| whole(number, 1.0 / SCALE as f64));
    released.tables.push((i128::from(SCALE) + 2 * 1024, numbers.to_vec()));
}

fn random_unit(dice: &mut Dice) -> Vec<Vec<f64>> {
    let alike = dice.below(3) == 0;
    let mut records: Vec<Vec<f64>> = Vec::new();
    for _ in 0..1 + dice.below(25) {
        let mut row: Vec<f64> = (0..6).map(|_| dice.hostile()).collect();
        if dice.below(4) > 0 {
            row[0] = dice.below(4) as f64;
        }
        records.push(if alike { records.first().cloned().unwrap_or(row) } else { row });
    }
    records
}

/// Checks that no release moved by more than is claimed; returns how many tables moved by nearly that.
fn check_moves(name: &str, without: &Released, with: &Released) -> usize {
    let mut tight = 0;
    for (index, ((bound, one), (_, other))) in without.tables.iter().zip(&with.tables).enumerate() {
        let moved: i128 = one.iter().zip(other).map(|(one, other)| (one - other).abs()).sum();
        assert!(moved <= *bound, "{name}: table {index} moved by {moved}, claimed {bound}");
        tight += usize::from(moved * 100 > *bound * 99);
    }
    for (index, ((bound, one), (_, other))) in without.vectors.iter().zip(&with.vectors).enumerate() {
        let square: f64 = one.iter().zip(other).map(|(one, other)| ((one - other) as f64).powi(2)).sum();
        assert!(square.sqrt() <= *bound, "{name}: vector {index} moved by {}, claimed {bound}", square.sqrt());
    }
    for (one, other) in without.gradients.iter().zip(&with.gradients) {
        let numbers = || one.iter().zip(other);
        let rounding: f64 = numbers().map(|(one, other)| f64::from(one.abs().max(other.abs())) * 2e-7).sum();
        let square: f64 = numbers().map(|(&one, &other)| (f64::from(one) - f64::from(other)).powi(2)).sum();
        let grid = Grid::new(1 << 40, sigma_of("2"), 8);
        let bound = CLIP / (1u64 << 40) as f64 * grid.step * grid.reach + rounding;
        assert!(square.sqrt() <= bound, "{name}: gradient moved by {}, claimed {bound}", square.sqrt());
    }
    tight
}

/// The whole of a unit, however many records it has and whatever they contain, moves a release by no more than is claimed.
#[test]
fn a_unit_never_moves_a_release_by_more_than_claimed() {
    let seed = run_seed("contribution");
    let (mut dice, mut yard) = (Dice::new(seed), Yard::new());
    let mut tight = 0;
    for pair in 0..size(600, 60_000) {
        let contribution = of([1, 2, 3, 10, 64, 1_000, 1_000_000][pair % 7]);
        let mut units: Vec<Vec<Vec<f64>>> = (0..dice.below(6)).map(|_| random_unit(&mut dice)).collect();
        let without = release(&mut open(&mut yard, &units, pair as u64), contribution);
        units.insert(dice.below(units.len() + 1), random_unit(&mut dice));
        let with = release(&mut open(&mut yard, &units, pair as u64), contribution);
        let name = format!("pair {pair}, {contribution:?}, seed {seed}");
        let used_up = check_moves(&name, &without, &with);
        tight += if contribution == Contribution::ONE { 0 } else { used_up };
    }
    assert!(tight > 100, "some units use all of the bound: {tight}");
}

/// The same for moments of the most records that a unit can have: each is on a grid of a thousand steps.
#[test]
fn a_unit_of_the_most_records_moves_moments_by_no_more_than_claimed() {
    let seed = run_seed("the largest contribution");
    let (mut dice, mut yard) = (Dice::new(seed), Yard::new());
    for records in [999_983, 1_000_000].into_iter().cycle().take(size(2, 20)) {
        let unit = random_unit(&mut dice);
        let [without, with] = [&[][..], &[unit]].map(|units| {
            let mut released = Released::default();
            release_moments(&mut open(&mut yard, units, 3), of(records), &mut released);
            released
        });
        check_moves(&format!("{records} records, seed {seed}"), &without, &with);
    }
}

/// Units of 1, 4, 10 and 13 records with these values in key 0; the last unit has a record without a key in front.
fn known_units() -> Vec<Vec<Vec<f64>>> {
    let row = |key: f64, value: f64| vec![key, value, 0.5, -0.25, 0.0, value];
    let unit = |count: usize| (0..count).map(|index| row(0.0, 0.01 * index as f64 - 0.05)).collect::<Vec<_>>();
    let mut last = unit(13);
    last.insert(0, row(f64::NAN, 1.0));
    vec![unit(1), unit(4), unit(10), last]
}

#[test]
fn tables_count_up_to_the_contribution_of_every_unit() {
    let mut yard = Yard::new();
    let noise = TableNoise::Laplace(epsilon_of(EXACT));
    let values = |count: usize| (0..count).map(|index| 0.01 * index as f64 - 0.05).sum::<f64>();
    // A single record is the first, and that of the last unit has no key.
    for (records, counts) in [(1, [1, 1, 1, 0]), (2, [1, 2, 2, 2]), (10, [1, 4, 10, 10]), (11, [1, 4, 10, 11])]
        .into_iter()
        .chain([(13, [1, 4, 10, 13]), (40, [1, 4, 10, 13])])
    {
        let mut session = exact(&mut yard, &known_units());
        let keys = of(records).per_unit(KEYS);
        let expected: usize = counts.iter().sum();
        let sum: f64 = counts.iter().map(|&count| values(count)).sum();
        // The noise has a scale of a thousandth for every record that counts, and is the same in every run.
        let off = 0.015 * f64::from(records);
        for lane in Lane::BOTH {
            let count = session.histogram(lane, keys, noise, key).expect("covered")[0];
            let pair = session.pairs(lane, keys, range(), Rounding::Nearest, noise, keyed).expect("covered")[0];
            let rows = pair.above + pair.below;
            for (found, expected) in [(count, expected as f64), (rows, expected as f64), (pair.above - pair.below, sum)]
            {
                assert!((found - expected).abs() < off, "{lane:?} {records}: {found} {expected}");
            }
        }
    }
}

/// The difference that units make to releases under repeated noise.
fn difference(yard: &mut Yard, units: &[Vec<Vec<f64>>], run: impl Fn(&mut Open) -> Vec<f64>) -> Vec<f64> {
    let (with, without) = (run(&mut open(yard, units, 3)), run(&mut open(yard, &[], 3)));
    with.iter().zip(without).map(|(with, without)| with - without).collect()
}

#[test]
fn moments_are_means_of_the_records_in_turn() {
    let mut yard = Yard::new();
    let mut dice = Dice::new(8);
    let mut record = || (0..6).map(|_| 0.7 * dice.unit()).collect::<Vec<f64>>();
    let units: Vec<Vec<Vec<f64>>> = [1, 2, 3, 10, 14].map(|count| (0..count).map(|_| record()).collect()).to_vec();
    for records in [1, 2, 3, 10, 64] {
        let bounds = of(records).per_unit(MOMENTS);
        let run = |session: &mut Open| {
            let moments = session.moments(Lane::Train, bounds, features).expect("granted");
            let matrix = session.noisy_matrix(&moments, sigma_of("2")).expect("covered");
            [matrix, session.noisy_cross(&moments, sigma_of("2")).expect("covered")].concat()
        };
        let mut expected = [0.0; 12];
        for unit in &units {
            for turn in 0..records as usize {
                let row = &unit[turn % unit.len()];
                let products = (0..9).map(|at| row[2 + at / 3] * row[2 + at % 3]);
                let all = products.chain((0..3).map(|at| row[2 + at] * row[5]));
                expected.iter_mut().zip(all).for_each(|(sum, product)| *sum += product / f64::from(records));
            }
        }
        for (found, expected) in difference(&mut yard, &units, run).iter().zip(expected) {
            assert!((found - expected).abs() < 1e-4, "{records}: {found} {expected}");
        }
    }
}

#[test]
fn one_hot_moments_are_means_of_the_records_in_turn() {
    let mut yard = Yard::new();
    // A unit that alternates between two columns, one with a single record.
    let row = |column: f64, label: f64| vec![column, 1.0, 0.0, 0.0, 0.0, label];
    let units = [vec![row(0.0, 0.5), row(1.0, -0.25)], vec![row(2.0, 0.75)]];
    let run = |session: &mut Open| {
        let moments = session.one_hot_moments(Lane::Train, of(10).per_unit(ONE_HOT), one_hot).expect("granted");
        let matrix = session.noisy_matrix(&moments, sigma_of("2")).expect("covered");
        [matrix, session.noisy_cross(&moments, sigma_of("2")).expect("covered")].concat()
    };
    let found = difference(&mut yard, &units, run);
    let diagonal: Vec<f64> = (0..6).map(|at| found[at * 7]).collect();
    let expected = [0.5, 0.5, 1.0, 2.0, 0.0, 2.0];
    assert!(diagonal.iter().zip(expected).all(|(found, expected)| (found - expected).abs() < 1e-4), "{diagonal:?}");
    let cross = [0.25, -0.125, 0.75, 0.875, 0.0, 0.875];
    assert!(found[36..].iter().zip(cross).all(|(found, cross)| (found - cross).abs() < 1e-4), "{:?}", &found[36..]);
}

/// The labels of a unit contradict each other: the least loss is their variance, and that of one record is zero.
#[test]
fn the_least_loss_and_the_eigenvalue_are_those_of_all_records() {
    let mut yard = Yard::new();
    let row = |feature: f64, label: f64| vec![0.0, 0.0, feature, 0.0, 0.0, label];
    let units = vec![vec![row(1.0, 0.5), row(1.0, -0.5)]; 400];
    let bounds = MomentBounds { width: 1, feature_norm: 1.0, label_size: 0.5 };
    let run = |session: &mut Open, records: u32| {
        let value = |row: &[f64], out: &mut [f64]| {
            out[0] = row[2];
            row[5]
        };
        let moments = session.moments(Lane::Train, of(records).per_unit(bounds), value).expect("granted");
        let smallest = session.noisy_smallest_eigenvalue(&moments, sigma_of("2")).expect("covered");
        let best = session.least_squared_loss(&moments, 1.0, epsilon_of("1")).expect("covered");
        vec![smallest, best.loss * best.bound, best.rest, best.bound, best.rounding]
    };
    for (records, loss) in [(1, 0.0), (2, 100.0), (10, 100.0), (3, 400.0 * (0.25 - 1.0 / 36.0))] {
        let found = difference(&mut yard, &units, |session| run(session, records));
        assert!((found[0] - 400.0).abs() < 1e-2, "{records}: the eigenvalue {}", found[0]);
        // The gap is 2^-10 of the bound, which is 2.25.
        assert!((found[1] - loss).abs() < 0.01, "{records}: the loss {} for {loss}", found[1]);
        assert!((found[2] + found[1] / 2.25 - 400.0).abs() < 0.01, "{records}: a unit counts once");
        let public = run(&mut open(&mut yard, &units, 3), records);
        assert!((public[3] - 2.25).abs() < 1e-4 && public[4] < 1e-3, "{public:?}");
        assert!(public[4] >= 0.99 * f64::from(records).sqrt() * run(&mut open(&mut yard, &units, 3), 1)[4]);
    }
}

/// Another record in every step, one at a time.
#[test]
fn steps_take_the_records_in_turn() {
    let mut yard = Yard::new();
    let row = |value: f64| vec![0.0, 0.1, value, 0.0, 0.0, 0.0];
    let units = [vec![row(0.1), row(0.2)], vec![row(0.4)]];
    let run = |session: &mut Open| {
        let step = Step { rate: Rate::LIMIT, sigma: sigma_of("2"), clip: CLIP };
        let mut sums = Vec::new();
        for _ in 0..3 {
            sums.push(f64::from(session.sampled_sum(Lane::Train, step, &LAYERS, backward).expect("covered")[0][0]));
        }
        sums
    };
    let found = difference(&mut yard, &units, run);
    for (found, expected) in found.iter().zip([0.05, 0.06, 0.05]) {
        assert!((found - expected).abs() < 1e-3, "{found} {expected}");
    }
}

const PART: BlockPart = BlockPart { block: BlockId(0), lane: Lane::Train, source: [1; 32] };

fn summarise(permit: &Permit, part: BlockPart, contribution: Contribution, units: &[Units]) -> Vec<Summary> {
    let (moments, columns) = (contribution.per_unit(MOMENTS), contribution.per_unit(ONE_HOT));
    let (keys, taken) = (contribution.per_unit(KEYS), (range(), Rounding::Nearest));
    let all = [
        permit.summarise_moments(part, TAG, moments, units, features),
        permit.summarise_one_hot(part, TAG, columns, units, one_hot),
        permit.summarise_pairs(part, TAG, keys, taken, units, keyed),
        permit.summarise_histogram(part, TAG, keys, units, key),
    ];
    all.map(|summary| summary.expect("covered").expect("few rows")).into()
}

/// Every release that summaries serve, as bits, or that there are none of this kind.
fn summed(session: &mut Open, contribution: Contribution) -> Vec<Result<Vec<u64>, SessionError>> {
    let (lane, sigma, noise) = (Lane::Train, sigma_of("2"), TableNoise::Laplace(epsilon_of("1")));
    let bits = |numbers: Vec<f64>| numbers.into_iter().map(f64::to_bits).collect::<Vec<u64>>();
    let keys = contribution.per_unit(KEYS);
    let pairs = session.pairs(lane, keys, range(), Rounding::Nearest, noise, keyed);
    let counts = session.histogram(lane, keys, noise, key).map(bits);
    let dense = session.moments(lane, contribution.per_unit(MOMENTS), features);
    let columns = session.one_hot_moments(lane, contribution.per_unit(ONE_HOT), one_hot);
    let pairs = pairs.map(|pairs| bits(pairs.iter().flat_map(|pair| [pair.above, pair.below]).collect()));
    let mut all = vec![pairs, counts];
    for moments in [dense, columns] {
        all.push(moments.and_then(|moments| session.noisy_matrix(&moments, sigma)).map(bits));
    }
    all
}

/// Summaries stand for the rows they were made from under the same contribution, and are refused under any other.
#[test]
fn summaries_of_another_contribution_are_refused() {
    let mut yard = Yard::new();
    let mut dice = Dice::new(4);
    let units: Vec<Vec<Vec<f64>>> = (0..30).map(|_| random_unit(&mut dice)).collect();
    let contributions = [1, 2, 9, 10, 11, 1_000].map(of);
    for made in contributions {
        for used in contributions {
            let permit = permit(&mut yard);
            let block = (0..4_096).map(BlockId).find(|&block| {
                let part = BlockPart { block, ..PART };
                permit.summarise_histogram::<Units>(part, TAG, 1, &[], |_| None).is_ok()
            });
            let part = BlockPart { block: block.expect("the block of the permit"), ..PART };
            let sealed = summarise(&permit, part, made, &[Units(units.clone())]);
            let sealed = sealed.iter().map(|summary| permit.seal(&KEY, summary).expect("covered"));
            let opened = sealed.map(|bytes| Arc::new(permit.unseal(&KEY, part, TAG, &bytes).expect("as sealed")));
            let kept = opened.collect();
            let rows = [Vec::<Units>::new(), Vec::new()];
            let session = permit.open_with_summaries(SeededNoise::new(3), TAG, |_| Ok::<_, ()>((rows, kept)));
            let from_sums = summed(&mut session.expect("opens"), used);
            if made == used {
                assert_eq!(from_sums, summed(&mut open(&mut yard, &units, 3), used), "{used:?}");
                assert!(from_sums.iter().all(Result::is_ok));
            } else {
                assert!(from_sums.iter().all(Result::is_err), "{made:?} used as {used:?}");
            }
        }
    }
}

/// A unit of one record counts as it does where one record counts, in every release that has the same meaning.
#[test]
fn a_contribution_of_one_takes_the_first_record() {
    let mut yard = Yard::new();
    let mut dice = Dice::new(6);
    let units: Vec<Vec<Vec<f64>>> = (0..20).map(|_| random_unit(&mut dice)).collect();
    let firsts: Vec<Vec<Vec<f64>>> = units.iter().map(|unit| unit[..1].to_vec()).collect();
    assert_eq!(
        summed(&mut open(&mut yard, &units, 5), Contribution::ONE),
        summed(&mut open(&mut yard, &firsts, 5), Contribution::ONE)
    );
    // Rows without records of their own are units of one.
    let rows = TestRows(firsts.into_iter().flatten().collect());
    // The same slice: values may be NaN.
    assert!(rows.records(0) == 1 && std::ptr::eq(rows.record(0, 0), rows.row(0)));
}
