//! Summaries forged with the directory's secret: for every accepted one, an honest row of another block changes no
//! release by more than its claimed sensitivity. Summaries that no rows can have are refused.

use std::sync::Arc;

use crate::support::{Dice, Grid, TestRows, Yard, epsilon_of, gaussian, laplace, run_seed, sigma_of, size, unit_of};
use sage_kernel::noise::SeededNoise;
use sage_kernel::{
    AccessMode, BlockPart, Cost, Lane, MomentBounds, OneHotBounds, Permit, SCALE, Session, Summary, SummaryKey,
    SummaryTag, TableNoise,
};
use sha2::{Digest, Sha256};

const TAG: SummaryTag = SummaryTag([7; 32]);
const KEY: [u8; 32] = [5; 32];
const WIDTH: usize = 3;
const BOUNDS: MomentBounds = MomentBounds { width: WIDTH as u32, feature_norm: 1.0, label_size: 1.0 };
const ONE_HOT: OneHotBounds = OneHotBounds { active: 1, columns: 2, label_size: 1.0 };
/// Units of a vector, or a label, of the largest allowed size.
const LENGTH: i64 = 1 << 20;
const WEIGHT_NORM: f64 = 4.0;

/// HMAC-SHA-256, from its definition.
fn hmac(key: &[u8], message: &[u8]) -> [u8; 32] {
    let mut block = key.to_vec();
    block.resize(64, 0);
    let pad = |byte: u8| block.iter().map(|key| key ^ byte).collect::<Vec<u8>>();
    let inner = Sha256::digest([pad(0x36), message.to_vec()].concat());
    Sha256::digest([pad(0x5c), inner.to_vec()].concat()).into()
}

#[test]
fn the_code_of_the_test_is_that_of_the_standard() {
    // RFC 4231, test cases 1 and 2.
    let hex = |bytes: [u8; 32]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let first = "b0344c61d8db38535ca8afceaf0bf12b881dc200c9833da726e9376c2e32cff7";
    assert_eq!(hex(hmac(&[0x0b; 20], b"Hi There")), first);
    let second = "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843";
    assert_eq!(hex(hmac(b"Jefe", b"what do ya want for nothing?")), second);
}

/// A permit on a fresh block, and what forging a summary of that block takes.
struct Forge {
    permit: Permit,
    part: BlockPart,
    origin: [u8; 32],
}

impl Forge {
    fn new(yard: &mut Yard) -> Self {
        let (epsilon, sigma) = (epsilon_of("1"), sigma_of("2"));
        let parts = vec![laplace(epsilon, 2), gaussian(sigma, 6, 4)];
        let permit = yard.permit(AccessMode::Enforced, [Some(Cost::new(parts).expect("a cost")), None]);
        let part = BlockPart { block: permit.blocks().ranges()[0].first(), lane: Lane::Train, source: [1; 32] };
        Self { permit, part, origin: yard.origin() }
    }

    /// Bytes with a valid code, whatever the numbers are: `docs/reference/log-format.md`.
    fn bytes(&self, form: &[u64], rows: u64, numbers: &[i64]) -> Vec<u8> {
        let mut body = (form.len() as u64).to_le_bytes().to_vec();
        form.iter().chain([&rows]).for_each(|word| body.extend(word.to_le_bytes()));
        numbers.iter().for_each(|number| body.extend(number.to_le_bytes()));
        let mut message = b"sage: summary 2\n".to_vec();
        message.extend(self.origin);
        let lane = 0u32;
        [self.permit.stream().0, self.part.block.0, lane].iter().for_each(|word| message.extend(word.to_le_bytes()));
        message.extend(self.part.source);
        message.extend(TAG.0);
        message.extend(&body);
        body.extend(hmac(&KEY, &message));
        body
    }

    fn unseal(&self, bytes: &[u8]) -> Option<Summary> {
        self.permit.unseal(&SummaryKey::from_bytes(KEY), self.part, TAG, bytes).ok()
    }

    fn accepts(&self, form: &[u64], rows: u64, numbers: &[i64]) -> bool {
        self.unseal(&self.bytes(form, rows, numbers)).is_some()
    }

    fn session(self, summary: Summary, rows: Vec<TestRows>) -> Session<TestRows, SeededNoise> {
        let given = vec![Arc::new(summary)];
        let opened =
            self.permit.open_with_summaries(SeededNoise::new(3), TAG, |_| Ok::<_, ()>(([rows, Vec::new()], given)));
        opened.expect("opens")
    }
}

fn moments_form() -> [u64; 4] {
    [0, WIDTH as u64, BOUNDS.feature_norm.to_bits(), BOUNDS.label_size.to_bits()]
}

/// The upper triangle of the moments of rows of whole units, the label last.
fn triangle(rows: &[[i64; WIDTH + 1]]) -> Vec<i64> {
    let pairs = (0..=WIDTH).flat_map(|one| (one..=WIDTH).map(move |other| (one, other)));
    pairs.map(|(one, other)| rows.iter().map(|row| row[one] * row[other]).sum()).collect()
}

fn value(row: &[f64], features: &mut [f64]) -> f64 {
    features.copy_from_slice(&row[..WIDTH]);
    row[WIDTH]
}

/// How far each release moved, over what is claimed of it: matrix, vector, eigenvalue, least loss.
fn moved(yard: &mut Yard, form: &[u64], rows: u64, numbers: &[i64], base: &[Vec<f64>], row: &[f64]) -> [f64; 4] {
    let (epsilon, sigma) = (epsilon_of("1"), sigma_of("2"));
    let released = [base.to_vec(), [base, &[row.to_vec()]].concat()].map(|rows_beside| {
        let forge = Forge::new(yard);
        let summary = forge.unseal(&forge.bytes(form, rows, numbers)).expect("accepted before");
        let mut session = forge.session(summary, vec![TestRows(rows_beside)]);
        let moments = session.moments(Lane::Train, BOUNDS, value).expect("granted");
        let matrix = session.noisy_matrix(&moments, sigma).expect("covered");
        let cross = session.noisy_cross(&moments, sigma).expect("covered");
        let smallest = session.noisy_smallest_eigenvalue(&moments, sigma).expect("covered");
        let best = session.least_squared_loss(&moments, WEIGHT_NORM, epsilon).expect("covered");
        (matrix, cross, smallest, [best.loss, best.rest])
    });
    let [one, other] = released;
    let square = (LENGTH as u128) * (LENGTH as u128);
    let unit = unit_of(1.0, LENGTH as u64, WIDTH);
    let label = unit_of(1.0, LENGTH as u64, 1);
    let length = |one: &[f64], other: &[f64], weight: &dyn Fn(usize) -> f64| -> f64 {
        one.iter()
            .zip(other)
            .enumerate()
            .map(|(at, (one, other))| ((one - other) * weight(at)).powi(2))
            .sum::<f64>()
            .sqrt()
    };
    // The matrix counts each pair of features once, at 1/√2 of the weight where it stands twice.
    let grid = Grid::new(square << 16, sigma, 6);
    let half = |at: usize| if at.is_multiple_of(WIDTH + 1) { 65_536.0 } else { 92_681.0 / 2f64.sqrt() };
    let matrix = length(&one.0, &other.0, &half) / (unit * unit * grid.step * grid.reach);
    let grid = Grid::new(square, sigma, WIDTH as u64);
    let cross = length(&one.1, &other.1, &|_| 1.0) / (unit * label * grid.step * grid.reach);
    let grid = Grid::new(square + (1 << 21) + 1, sigma, 1);
    let smallest = (one.2 - other.2).abs() / (unit * unit * grid.step * grid.reach);
    let claimed = (SCALE as f64 + 2048.0) / SCALE as f64;
    let loss = ((one.3[0] - other.3[0]).abs() + (one.3[1] - other.3[1]).abs()) / claimed;
    [matrix, cross, smallest, loss]
}

/// The attack that was found: an indefinite matrix for one block, with numbers that look like any others. The least
/// loss then jumped by 5·10⁵ times the claim when an honest row of another block came or went.
#[test]
fn an_indefinite_matrix_is_refused() {
    let mut yard = Yard::new();
    let forge = Forge::new(&mut yard);
    let honest = triangle(&[[LENGTH / 2, 0, LENGTH / 3, 1000], [0, LENGTH / 4, 77, -LENGTH], [9, 9, 9, 9]]);
    assert!(forge.accepts(&moments_form(), 3, &honest));
    let rows = 1 << 20;
    let size = LENGTH * LENGTH * 1000;
    for (name, numbers) in [
        ("a negative square", vec![-1, 0, 0, 0, 5, 0, 0, 5, 0, 5]),
        ("a product longer than its factors", vec![size, size + 1, 0, 0, size, 0, 0, size, 0, 1]),
        (
            "three that cannot all disagree",
            vec![size, -size * 9 / 10, -size * 9 / 10, 0, size, -size * 9 / 10, 0, size, 0, 1],
        ),
        ("a label's product longer than its factors", vec![size, 0, 0, size, size, 0, 0, size, 0, size - 1]),
        ("an eigenvalue just below zero", vec![size, size, size, 0, size, size - size / 1_000_000, 0, size, 0, 1]),
    ] {
        assert!(!forge.accepts(&moments_form(), rows, &numbers), "{name}");
    }
    // More in total than so many rows can have; a label likewise; and more rows than the proofs are for.
    let one = triangle(&[[LENGTH, 0, 0, LENGTH]]);
    assert!(forge.accepts(&moments_form(), 1, &one));
    assert!(!forge.accepts(&moments_form(), 0, &one));
    for at in [0, 9] {
        let mut more = one.clone();
        more[at] += 1;
        more[3] = 0;
        assert!(!forge.accepts(&moments_form(), 1, &more), "number {at}");
    }
    assert!(forge.accepts(&moments_form(), 1 << 38, &one));
    assert!(!forge.accepts(&moments_form(), (1 << 38) + 1, &one));
}

#[test]
fn forms_and_sizes_that_no_summary_has_are_refused() {
    let mut yard = Yard::new();
    let forge = Forge::new(&mut yard);
    let one = 1f64.to_bits();
    let scale = SCALE as i64;
    for (form, rows, numbers, accepted) in [
        (vec![0, 1, one, one], 1, vec![0; 3], true),
        (vec![0, 1, one, one], 1, vec![0; 4], false),
        (vec![0, 1, one, one], 1, vec![0; 2], false),
        (vec![0, 0, one, one], 1, vec![0; 1], false),
        (vec![0, 4097, one, one], 1, vec![0; 3], false),
        (vec![0, u64::MAX, one, one], 1, vec![0; 3], false),
        (vec![0, 1, f64::NAN.to_bits(), one], 1, vec![0; 3], false),
        (vec![0, 1, one, 0], 1, vec![0; 3], false),
        (vec![0, 1, one], 1, vec![0; 3], false),
        (vec![1, 1, 2, one], 2, vec![1, 0, 1, 0, 1, 1, 0, 2, 0, 5], true),
        (vec![1, 1, 2, one], 2, vec![1, 0, 1, 0, 2, 1, 0, 2, 0, 5], false),
        (vec![1, 3, 2, one], 2, vec![0; 10], false),
        (vec![0, 1, one, one, 2], 1, vec![0; 3], true),
        (vec![0, 1, one, one, 1_000_000], 1, vec![0; 3], true),
        (vec![0, 1, one, one, 0], 1, vec![0; 3], false),
        (vec![0, 1, one, one, 1], 1, vec![0; 3], false),
        (vec![0, 1, one, one, 1_000_001], 1, vec![0; 3], false),
        (vec![0, 1, one, one, 1 << 32 | 2], 1, vec![0; 3], false),
        (vec![0, 1, one, one, 2, 2], 1, vec![0; 3], false),
        // Two records of one unit count as often as two rows.
        (vec![1, 1, 2, one], 1, vec![1, 0, 1, 0, 1, 1, 0, 2, 0, 5], false),
        (vec![1, 1, 2, one, 2], 1, vec![1, 0, 1, 0, 1, 1, 0, 2, 0, 5], true),
        (vec![1, 1, 2, one, 2], 1, vec![1, 0, 1, 0, 2, 1, 0, 2, 0, 5], false),
        (vec![2, 2, 0, 0, 0], 2, vec![scale, 0, 3, scale - 3], true),
        (vec![2, 2, 0, 0, 0], 2, vec![scale, 0, 4, scale - 3], false),
        (vec![2, 2, 0, 0, 0], 2, vec![scale, -1, 3, 3], false),
        (vec![2, 2, 0, 0, 0], 2, vec![0; 3], false),
        (vec![2, u64::MAX, 0, 0, 0], 2, vec![0; 4], false),
        (vec![3, 2], 2, vec![scale, scale], true),
        (vec![3, 2], 2, vec![scale, scale + 1], false),
        (vec![3, 2, 7], 2, vec![scale, scale], true),
        (vec![3, 2, 7], 2, vec![scale, scale + 1], false),
        (vec![3, 2, 7, 7], 2, vec![scale, scale], false),
        (vec![3, 2], (1 << 38) + 1, vec![0, 0], false),
        (vec![4, 1, 0, 0, 0], 2, vec![0; 3], false),
        (Vec::new(), 2, vec![0; 3], false),
    ] {
        assert_eq!(forge.accepts(&form, rows, &numbers), accepted, "{form:?} {rows} {numbers:?}");
    }
    // Bytes that end within a word, a list longer than the bytes, nothing at all.
    let sealed = forge.bytes(&[3, 2], 2, &[scale, scale]);
    assert!(forge.unseal(&sealed).is_some());
    for length in 0..sealed.len() {
        assert!(forge.unseal(&sealed[..length]).is_none(), "{length}");
    }
}

/// Numbers of every kind: Gram matrices of random rows, the same with some changed a little or a lot, and noise.
fn forged(dice: &mut Dice) -> (u64, Vec<i64>) {
    let reach = [1, 1 << 10, LENGTH][dice.below(3)];
    let mut row = || -> [i64; WIDTH + 1] {
        let mut units = std::array::from_fn(|_| (dice.unit() * 2.0 * reach as f64) as i64 - reach);
        // Short enough, most often.
        units[..WIDTH].iter_mut().for_each(|unit| *unit = *unit * 577 / 1000);
        units
    };
    let rows: Vec<[i64; WIDTH + 1]> = (0..8).map(|_| row()).collect();
    let kept = dice.below(9);
    let mut numbers = triangle(&rows[..kept]);
    let times = 1 + dice.below(1_000) as i64;
    numbers.iter_mut().for_each(|number| *number = number.saturating_mul(times));
    for _ in 0..dice.below(3) {
        let at = dice.below(numbers.len());
        numbers[at] = match dice.below(4) {
            0 => numbers[at].wrapping_add(dice.word() as i64 >> dice.below(64)),
            1 => -numbers[at],
            2 => dice.word() as i64 >> dice.below(64),
            _ => numbers[at].saturating_add(1),
        };
    }
    let rows = kept as i64 * times;
    (rows as u64 + dice.below(2) as u64, numbers)
}

/// Whatever unsealing accepts, a row of another block moves each release by what is claimed and no more.
#[test]
fn what_is_accepted_keeps_the_sensitivity_of_other_blocks() {
    let seed = run_seed("forged");
    let (mut dice, mut yard) = (Dice::new(seed), Yard::new());
    let (mut accepted, mut refused) = (0, 0);
    for round in 0..size(3_000, 300_000) {
        let (rows, numbers) = forged(&mut dice);
        if !Forge::new(&mut yard).accepts(&moments_form(), rows, &numbers) {
            refused += 1;
            continue;
        }
        accepted += 1;
        let row = |dice: &mut Dice| -> Vec<f64> { (0..=WIDTH).map(|_| dice.hostile()).collect() };
        let base: Vec<Vec<f64>> = (0..dice.below(3)).map(|_| row(&mut dice)).collect();
        let row = row(&mut dice);
        let shares = moved(&mut yard, &moments_form(), rows, &numbers, &base, &row);
        assert!(shares.iter().all(|share| *share <= 1.0 + 1e-6), "round {round}, seed {seed}: {shares:?}");
    }
    assert!(accepted > 300 && refused > 300, "{accepted} accepted, {refused} refused, seed {seed}");
}

/// Random bytes behind a valid code: nothing panics, and what is accepted has the size of its form.
#[test]
fn no_bytes_make_unsealing_panic() {
    let seed = run_seed("forged bytes");
    let (mut dice, mut yard) = (Dice::new(seed), Yard::new());
    let forge = Forge::new(&mut yard);
    for _ in 0..size(20_000, 2_000_000) {
        let form: Vec<u64> = match dice.below(4) {
            0 => (0..dice.below(7)).map(|_| dice.word() >> dice.below(64)).collect(),
            1 => vec![0, 1 + dice.below(4) as u64, dice.hostile().to_bits(), dice.hostile().to_bits()],
            2 => vec![1, dice.below(4) as u64, dice.below(4) as u64, dice.hostile().to_bits()],
            _ => vec![2 + dice.below(2) as u64, dice.below(5) as u64],
        };
        let numbers: Vec<i64> = (0..dice.below(16)).map(|_| dice.word() as i64 >> dice.below(64)).collect();
        let mut bytes = forge.bytes(&form, dice.word() >> dice.below(64), &numbers);
        if dice.below(3) == 0 {
            bytes.truncate(dice.below(bytes.len() + 1));
        }
        drop(forge.unseal(&bytes));
    }
}

/// Beyond the rows that the error is proved for, what is not a plain sum counts as zero and is no error.
#[test]
fn too_many_rows_count_as_zero_and_fail_nothing() {
    let mut yard = Yard::new();
    let (epsilon, sigma) = (epsilon_of("1"), sigma_of("2"));
    let each = |rows: u64| -> (f64, f64, f64) {
        let forge = Forge::new(&mut yard);
        let square = LENGTH * LENGTH * 1_000;
        let numbers = vec![square, 0, 0, 0, square, 0, 0, square, 0, square];
        let summary = forge.unseal(&forge.bytes(&moments_form(), rows, &numbers)).expect("as rows could have it");
        let mut session = forge.session(summary, Vec::new());
        let moments = session.moments(Lane::Train, BOUNDS, value).expect("granted");
        let smallest = session.noisy_smallest_eigenvalue(&moments, sigma).expect("covered");
        let best = session.least_squared_loss(&moments, WEIGHT_NORM, epsilon).expect("covered");
        (smallest, best.loss, best.rest)
    };
    let limit = (1u64 << 38) / (WIDTH as u64 + 4);
    let [within, beyond] = [limit, limit + 1].map(each);
    assert!(within.0 > 900.0 && within.1 > 10.0, "{within:?}");
    assert!(beyond.0 < 100.0 && beyond.1 < 10.0, "{beyond:?}");
    assert!((beyond.2 / limit as f64 - 1.0).abs() < 1e-6);
}

/// Tables and one-hot moments are decoded as they were sealed.
#[test]
fn accepted_tables_add_what_they_hold() {
    let mut yard = Yard::new();
    let scale = SCALE as i64;
    let forge = Forge::new(&mut yard);
    let summary = forge.unseal(&forge.bytes(&[3, 2], 1_000, &[1_000 * scale, 0])).expect("as rows could have it");
    let mut session = forge.session(summary, Vec::new());
    let counts = session.histogram(Lane::Train, 2, TableNoise::Laplace(epsilon_of("1")), |_| None).expect("covered");
    assert!((counts[0] - 1_000.0).abs() < 50.0 && counts[1].abs() < 50.0);
    let forge = Forge::new(&mut yard);
    let form = [1, 1, 2, ONE_HOT.label_size.to_bits()];
    let summary = forge.unseal(&forge.bytes(&form, 900, &[500, 0, 500, 0, 400, 400, 0, 900, 0, 0])).expect("as rows");
    let mut session = forge.session(summary, Vec::new());
    let moments = session.one_hot_moments(Lane::Train, ONE_HOT, |_, _| 0.0).expect("granted");
    let matrix = session.noisy_matrix(&moments, sigma_of("2")).expect("covered");
    assert!((matrix[0] - 500.0).abs() < 50.0 && (matrix[8] - 900.0).abs() < 50.0, "{matrix:?}");
}
