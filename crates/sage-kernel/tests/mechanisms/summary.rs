//! Cached block summaries: releases equal those from rows, and only a permit on the block opens them.

use std::sync::Arc;

use crate::support::{Dice, TestRows, concentrated, delta_of, epsilon_of, gaussian, laplace, run_seed, sigma_of};
use sage_kernel::noise::SeededNoise;
use sage_kernel::{
    AccessMode, AccessModes, BlockId, BlockPart, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Filter, Gate, Lane,
    MemoryLog, MomentBounds, OneHotBounds, Permit, Policy, Range, Request, RequestKey, Rounding, Rule, Session,
    SessionError, StreamId, Summary, SummaryKey, SummaryTag, TableNoise,
};

const BLOCKS: u32 = 6;
const MOMENTS: MomentBounds = MomentBounds { width: 2, feature_norm: 1.5, label_size: 0.75 };
const ONE_HOT: OneHotBounds = OneHotBounds { active: 2, columns: 5, label_size: 0.75 };
const KEYS: u32 = 3;
const TAG: SummaryTag = SummaryTag([7; 32]);
const KEY: SummaryKey = SummaryKey::from_bytes([5; 32]);

struct Town {
    gate: Gate<MemoryLog>,
    requested: u32,
}

impl Town {
    fn new() -> Self {
        Self::created_at(0)
    }

    fn created_at(time: u64) -> Self {
        let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
        for name in ["one", "other"] {
            let ceiling = Ceiling { epsilon: epsilon_of("55"), delta: delta_of("0.5") };
            let filter = Filter::new(Rule::Renyi, ceiling).expect("a filter");
            let stream =
                gate.create_stream(time, name, Policy::single(filter, AccessModes::AttestedToo)).expect("a stream");
            gate.add_blocks(0, stream, (0..BLOCKS).map(|block| block.to_string()).collect()).expect("blocks");
        }
        Self { gate, requested: 0 }
    }

    /// Leave to read the train lane of these blocks.
    fn permit(&mut self, stream: u32, first: u32, last: u32) -> Permit {
        self.permit_through(AccessMode::Enforced, stream, first, last)
    }

    fn permit_through(&mut self, access: AccessMode, stream: u32, first: u32, last: u32) -> Permit {
        self.requested += 1;
        let sigma = sigma_of("20");
        let parts = vec![laplace(epsilon_of("0.5"), 2), concentrated(sigma, 2), gaussian(sigma, 21, 6)];
        let request = Request {
            key: RequestKey::from_text(&self.requested.to_string()),
            stream: StreamId(stream),
            context: ContextId(0),
            blocks: Blocks::range(first, last).expect("blocks"),
            costs: [Some(Cost::new(parts).expect("a cost")), None],
            access,
            purpose: "test".to_owned(),
        };
        let outcome = self.gate.charge(0, vec![request]).expect("the log takes it").remove(0);
        let ChargeOutcome::Granted(grant) = outcome else { panic!("not granted: {outcome:?}") };
        self.gate.start(0, grant).expect("starts")
    }
}

const fn part(block: u32) -> BlockPart {
    BlockPart { block: BlockId(block), lane: Lane::Train, source: [block as u8; 32] }
}

fn features(row: &[f64], out: &mut [f64]) -> f64 {
    out.copy_from_slice(&row[..2]);
    row[2]
}

fn one_hot(row: &[f64], indices: &mut [u32]) -> f64 {
    indices.copy_from_slice(&[row[0] as u32, row[1] as u32]);
    row[2]
}

fn key(row: &[f64]) -> Option<u32> {
    row[1].is_finite().then_some(row[1] as u32)
}

fn keyed(row: &[f64]) -> Option<(u32, f64)> {
    key(row).map(|key| (key, row[2]))
}

fn span() -> (Range, Rounding) {
    (Range::new(-1.0, 1.0).expect("a range"), Rounding::Nearest)
}

/// All four kinds of a block's summary.
fn summarise(permit: &Permit, block: u32, rows: &[TestRows]) -> Result<Vec<Summary>, SessionError> {
    let all = [
        permit.summarise_moments(part(block), TAG, MOMENTS, rows, features)?,
        permit.summarise_one_hot(part(block), TAG, ONE_HOT, rows, one_hot)?,
        permit.summarise_pairs(part(block), TAG, KEYS, span(), rows, keyed)?,
        permit.summarise_histogram(part(block), TAG, KEYS, rows, key)?,
    ];
    Ok(all.into_iter().map(|summary| summary.expect("few rows")).collect())
}

type Open = Session<TestRows, SeededNoise>;

/// Every release of a session, as bits.
fn release(session: &mut Open) -> Vec<u64> {
    let (sigma, epsilon) = (sigma_of("20"), epsilon_of("0.5"));
    let lane = Lane::Train;
    let (range, taken) = span();
    let mut numbers = Vec::new();
    for noise in [TableNoise::Laplace(epsilon), TableNoise::Gaussian(sigma)] {
        let pairs = session.pairs(lane, KEYS, range, taken, noise, keyed).expect("covered");
        numbers.extend(pairs.iter().flat_map(|pair| [pair.above, pair.below]));
        numbers.extend(session.histogram(lane, KEYS, noise, key).expect("covered"));
    }
    for moments in [session.moments(lane, MOMENTS, features), session.one_hot_moments(lane, ONE_HOT, one_hot)] {
        let moments = moments.expect("granted");
        numbers.extend(session.noisy_matrix(&moments, sigma).expect("covered"));
        numbers.extend(session.noisy_cross(&moments, sigma).expect("covered"));
        numbers.push(session.noisy_smallest_eigenvalue(&moments, sigma).expect("covered"));
    }
    numbers.into_iter().map(f64::to_bits).collect()
}

fn hostile_rows(dice: &mut Dice) -> Vec<TestRows> {
    let row = |dice: &mut Dice| {
        let mut row = vec![dice.hostile(), dice.hostile(), dice.hostile()];
        if dice.below(3) > 0 {
            (row[0], row[1]) = (dice.below(3) as f64, 3.0 + dice.below(3) as f64);
        }
        row
    };
    let batch = |dice: &mut Dice| TestRows((0..dice.below(40)).map(|_| row(dice)).collect());
    (0..dice.below(3)).map(|_| batch(dice)).collect()
}

fn open(permit: Permit, rows: Vec<TestRows>, kept: Vec<Arc<Summary>>) -> Open {
    let opened = permit.open_with_summaries(SeededNoise::new(9), TAG, |_| Ok::<_, ()>(([rows, Vec::new()], kept)));
    opened.expect("opens")
}

/// A window that has doubled reads the new blocks alone, and nobody can tell.
#[test]
fn summaries_give_the_bits_that_rows_give() {
    let seed = run_seed("summaries");
    let mut dice = Dice::new(seed);
    for _ in 0..20 {
        let mut town = Town::new();
        let blocks: Vec<Vec<TestRows>> = (0..BLOCKS).map(|_| hostile_rows(&mut dice)).collect();
        let early = town.permit(0, 0, 2);
        let mut sealed = Vec::new();
        for block in 0..3 {
            let kept = summarise(&early, block, &blocks[block as usize]).expect("covered");
            sealed.push(kept.iter().map(|summary| early.seal(&KEY, summary).expect("covered")).collect::<Vec<_>>());
        }
        let late = town.permit(0, 0, BLOCKS - 1);
        let mut kept: Vec<Arc<Summary>> = Vec::new();
        let mut rows = Vec::new();
        for block in (0..BLOCKS).rev() {
            // Old blocks from their bytes, one new one summed, the others as rows.
            match sealed.get(block as usize) {
                Some(all) => {
                    let opened = all.iter().map(|bytes| late.unseal(&KEY, part(block), TAG, bytes).expect("as sealed"));
                    kept.extend(opened.map(Arc::new));
                }
                None if block == 3 => {
                    let all = summarise(&late, block, &blocks[block as usize]).expect("covered");
                    kept.extend(all.into_iter().map(Arc::new));
                }
                None => rows.extend(blocks[block as usize].clone()),
            }
        }
        // A second copy of a summary does not count.
        kept.push(Arc::clone(&kept[0]));
        let from_sums = release(&mut open(late, rows, kept));
        let rows = blocks.into_iter().flatten().collect();
        let from_rows = release(&mut open(town.permit(0, 0, BLOCKS - 1), rows, Vec::new()));
        assert_eq!(from_sums, from_rows);
    }
}

/// Blocks are summed by as many threads as there are, each by any of them, and their rows come in batches of any size:
/// the bits are the same.
#[test]
fn threads_and_batches_change_no_bit() {
    let seed = run_seed("threads");
    let mut dice = Dice::new(seed);
    for _ in 0..10 {
        let mut town = Town::new();
        let blocks: Vec<Vec<TestRows>> = (0..BLOCKS).map(|_| hostile_rows(&mut dice)).collect();
        let rows = blocks.iter().flatten().cloned().collect();
        let from_rows = release(&mut open(town.permit(0, 0, BLOCKS - 1), rows, Vec::new()));
        for threads in [1, 2, 3] {
            let permit = town.permit(0, 0, BLOCKS - 1);
            let next = std::sync::atomic::AtomicU32::new(0);
            let summed = || {
                let mut summed = Vec::new();
                loop {
                    let block = next.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
                    let Some(batches) = blocks.get(block as usize) else { return summed };
                    // One row a batch, all in one, or as they came.
                    let all = batches.iter().flat_map(|batch| batch.0.iter().cloned());
                    let batches: Vec<TestRows> = match threads {
                        1 => batches.clone(),
                        2 => all.map(|row| TestRows(vec![row])).collect(),
                        _ => vec![TestRows(all.collect())],
                    };
                    summed.extend(summarise(&permit, block, &batches).expect("covered").into_iter().map(Arc::new));
                }
            };
            let kept = std::thread::scope(|scope| {
                let workers: Vec<_> = (0..threads).map(|_| scope.spawn(summed)).collect();
                workers.into_iter().rev().flat_map(|worker| worker.join().expect("no panic")).collect()
            });
            assert_eq!(release(&mut open(permit, Vec::new(), kept)), from_rows, "{threads} threads, seed {seed}");
        }
    }
}

#[test]
fn only_a_permit_on_the_block_makes_seals_and_opens() {
    let mut town = Town::new();
    let rows = [TestRows(vec![vec![0.0, 3.0, 0.5]])];
    let (covers, elsewhere, beside) = (town.permit(0, 0, 1), town.permit(0, 2, 3), town.permit(1, 0, 1));
    let foreign = Town::created_at(1).permit(0, 0, 1);
    assert!(matches!(summarise(&elsewhere, 0, &rows), Err(SessionError::NotCovered)));
    let test_lane = BlockPart { lane: Lane::Test, ..part(0) };
    let refused = covers.summarise_histogram(test_lane, TAG, KEYS, &rows, key);
    assert!(matches!(refused, Err(SessionError::NotCovered)));
    let wide = OneHotBounds { columns: 1 << 20, ..ONE_HOT };
    assert!(matches!(covers.summarise_one_hot(part(0), TAG, wide, &rows, one_hot), Err(SessionError::Parameter(_))));
    for summary in summarise(&covers, 0, &rows).expect("covered") {
        assert!(elsewhere.seal(&KEY, &summary).is_none() && beside.seal(&KEY, &summary).is_none());
        let bytes = covers.seal(&KEY, &summary).expect("covered");
        assert!(covers.unseal(&KEY, part(0), TAG, &bytes).is_ok());
        assert!(elsewhere.unseal(&KEY, part(0), TAG, &bytes).is_err());
        assert!(beside.unseal(&KEY, part(0), TAG, &bytes).is_err());
        assert!(covers.unseal(&KEY, part(1), TAG, &bytes).is_err());
        assert!(covers.unseal(&KEY, BlockPart { source: [9; 32], ..part(0) }, TAG, &bytes).is_err());
        // Another directory's secret, another function of the rows, the same block of another log.
        assert!(covers.unseal(&SummaryKey::from_bytes([6; 32]), part(0), TAG, &bytes).is_err());
        assert!(covers.unseal(&KEY, part(0), SummaryTag([8; 32]), &bytes).is_err());
        assert!(foreign.unseal(&KEY, part(0), TAG, &bytes).is_err());
        assert!(Town::new().permit(0, 0, 1).unseal(&KEY, part(0), TAG, &bytes).is_ok(), "a copy of the same log");
        for index in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[index] ^= 1 << (index % 8);
            assert!(covers.unseal(&KEY, part(0), TAG, &damaged).is_err(), "byte {index}");
            assert!(covers.unseal(&KEY, part(0), TAG, &bytes[..index]).is_err(), "cut at {index}");
        }
    }
}

#[test]
fn what_is_not_covered_or_of_another_kind_counts_nowhere() {
    let mut town = Town::new();
    let rows = [TestRows(vec![vec![0.0, 2.0, 0.5]; 1_000])];
    let permit = town.permit(0, 0, BLOCKS - 1);
    let make = |block| {
        let all = summarise(&permit, block, &rows).expect("covered");
        all.into_iter().map(Arc::new).collect::<Vec<_>>()
    };
    let (inside, outside) = (make(0), make(5));
    let noise = TableNoise::Laplace(epsilon_of("0.5"));
    let lane = Lane::Train;
    let count = |session: &mut Open| session.histogram(lane, KEYS, noise, key).map(|counts| counts[2]);
    let mut session = open(town.permit(0, 0, 1), Vec::new(), [inside.clone(), outside].concat());
    assert!((count(&mut session).expect("covered") - 1_000.0).abs() < 100.0, "the uncovered block was dropped");
    // Another stream's block of the same number.
    let mut session = open(town.permit(1, 0, 1), Vec::new(), inside.clone());
    assert!(count(&mut session).expect("covered").abs() < 100.0);
    // Other bounds, another tag, another lane; mechanisms that have no sums.
    let mut session = open(town.permit(0, 0, 1), Vec::new(), inside.clone());
    assert!(session.moments(lane, MOMENTS, features).is_ok());
    assert!(session.moments(lane, MomentBounds { label_size: 0.5, ..MOMENTS }, features).is_err());
    assert!(session.one_hot_moments(lane, OneHotBounds { columns: 6, ..ONE_HOT }, one_hot).is_err());
    assert!(matches!(session.moments(Lane::Test, MOMENTS, features), Err(SessionError::NotCovered)));
    assert!(session.vector_sum(lane, 1, 1.0, sigma_of("20"), |_, _| ()).is_err());
    let (range, _) = span();
    assert!(session.pairs(lane, KEYS, range, Rounding::Up, noise, keyed).is_err());
    let opened = town.permit(0, 0, 1).open_with_summaries(SeededNoise::new(9), SummaryTag([8; 32]), |_| {
        Ok::<_, ()>(([Vec::<TestRows>::new(), Vec::new()], inside.clone()))
    });
    assert!(opened.expect("opens").moments(lane, MOMENTS, features).is_err());
    // The attested access mode hands out rows, never summaries.
    let access = AccessMode::Attested { author: "someone".to_owned(), reason: "a test".to_owned() };
    let session = open(town.permit_through(access, 0, 0, 1), Vec::new(), inside);
    assert!(session.into_attested().is_err());
}
