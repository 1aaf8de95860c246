//! Releases with repeated noise, compared bit for bit with recorded ones: where a unit is one record, nothing that a
//! session releases depends on how units of several records are counted.

use crate::support::{
    Dice, Seeded, TestRows, Yard, concentrated, epsilon_of, gaussian, laplace, rate_of, sampled, sigma_of,
};
use sage_kernel::{
    AccessMode, Cost, Lane, LayerRows, LayerShape, MomentBounds, OneHotBounds, Range, Rounding, Sample, Step,
    TableNoise,
};

const MOMENTS: MomentBounds = MomentBounds { width: 3, feature_norm: 1.5, label_size: 0.75 };
const ONE_HOT: OneHotBounds = OneHotBounds { active: 2, columns: 5, label_size: 0.75 };
const LAYERS: [LayerShape; 2] = [LayerShape::dense(3, 2), LayerShape::one_hot(1, 5, 1)];

/// Rows of six numbers, hostile ones among them.
fn rows(count: usize) -> Vec<TestRows> {
    let mut dice = Dice::new(11);
    let mut row = |index: usize| {
        let mut row: Vec<f64> = (0..6).map(|_| dice.hostile()).collect();
        row[0] = (index % 5) as f64;
        row
    };
    let mut all: Vec<Vec<f64>> = (0..count).map(&mut row).collect();
    let rest = all.split_off(count / 3);
    vec![TestRows(all), TestRows(rest)]
}

fn backward(sample: &Sample<'_, TestRows>, layers: &mut [LayerRows]) {
    layers.iter_mut().for_each(LayerRows::clear);
    for index in 0..sample.count() {
        let row = sample.row(index);
        layers[0].values.extend(row[2..5].iter().map(|&value| value as f32));
        layers[0].errors.extend([row[1] as f32, row[5] as f32]);
        layers[1].indices.push(row[0] as u32);
        layers[1].errors.push(row[5] as f32);
    }
}

fn key(row: &[f64]) -> Option<u32> {
    Some(row[0] as u32)
}

/// Every release of a session, as bits.
fn release(session: &mut Seeded) -> Vec<u64> {
    let (lane, epsilon, sigma) = (Lane::Train, epsilon_of("1"), sigma_of("2"));
    let range = Range::new(-1.0, 1.0).expect("a range");
    let mut numbers: Vec<f64> = Vec::new();
    for noise in [TableNoise::Laplace(epsilon), TableNoise::Gaussian(sigma)] {
        for rounding in [Rounding::Nearest, Rounding::Up] {
            let pairs = session.pairs(lane, 4, range, rounding, noise, |row| Some((key(row)?, row[1])));
            numbers.extend(pairs.expect("covered").iter().flat_map(|pair| [pair.above, pair.below]));
            let triples = session.triples(lane, 4, range, rounding, noise, |row| Some((key(row)?, row[1])));
            let triples = triples.expect("covered");
            numbers.extend(triples.iter().flat_map(|triple| [triple.squares, triple.rest, triple.below]));
        }
        numbers.extend(session.histogram(lane, 4, noise, key).expect("covered"));
        let counts = session.majority_counts(lane, 5, 2, noise, |row| Some((key(row)?, u32::from(row[1] > 0.0))));
        numbers.extend(counts.expect("covered"));
    }
    let sum = session.vector_sum(lane, 3, 1.5, sigma, |row, out| out.copy_from_slice(&row[2..5]));
    numbers.extend(sum.expect("covered"));
    let dense = session.moments(lane, MOMENTS, |row, out| {
        out.copy_from_slice(&row[2..5]);
        row[5]
    });
    let one_hot = session.one_hot_moments(lane, ONE_HOT, |row, indices| {
        indices.copy_from_slice(&[row[0] as u32, 4]);
        row[5]
    });
    for moments in [dense.expect("granted"), one_hot.expect("granted")] {
        numbers.extend(session.noisy_matrix(&moments, sigma).expect("covered"));
        numbers.extend(session.noisy_cross(&moments, sigma).expect("covered"));
        numbers.push(session.noisy_smallest_eigenvalue(&moments, sigma).expect("covered"));
        let best = session.least_squared_loss(&moments, 2.0, epsilon).expect("covered");
        numbers.extend([best.loss, best.rest, best.bound, best.gap, best.rounding]);
    }
    for _ in 0..3 {
        let step = Step { rate: rate_of("0.5"), sigma, clip: 1.5 };
        let sums = session.sampled_sum(lane, step, &LAYERS, backward).expect("covered");
        numbers.extend(sums.into_iter().flatten().map(f64::from));
    }
    numbers.into_iter().map(f64::to_bits).collect()
}

/// A digest of releases (FNV-1a).
fn digest(bits: &[u64]) -> u64 {
    let bytes = bits.iter().flat_map(|bits| bits.to_le_bytes());
    bytes.fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

fn cost() -> Cost {
    let (epsilon, sigma) = (epsilon_of("1"), sigma_of("2"));
    let parts = vec![
        laplace(epsilon, 8),
        concentrated(sigma, 6),
        gaussian(sigma, 21, 8),
        sampled(rate_of("0.5"), sigma, 14, 3),
    ];
    Cost::new(parts).expect("a cost")
}

#[test]
fn units_of_one_record_release_the_recorded_bits() {
    let mut yard = Yard::new();
    let mut digests = Vec::new();
    for (seed, count) in [(1, 0), (2, 1), (3, 200), (4, 1000)] {
        let permit = yard.permit(AccessMode::Enforced, [Some(cost()), None]);
        let noise = sage_kernel::noise::SeededNoise::new(seed);
        let mut session = permit.open(noise, |_| Ok::<_, ()>([rows(count), Vec::new()])).expect("opens");
        digests.push(digest(&release(&mut session)));
    }
    assert_eq!(digests, RECORDED, "{digests:#x?}");
}

/// Recorded before units of several records were counted.
const RECORDED: [u64; 4] = [0x4eb0_4ede_43e8_eb5a, 0x08ea_bcea_8931_1b43, 0xe659_2e98_52a8_b93d, 0xb015_016e_05f9_98c9];
