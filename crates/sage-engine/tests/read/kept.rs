//! Cached block summaries: a block is read once, and its summaries give the same results as its rows, bit for bit.

use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use crate::yard::{Fixture, by_user, key, query};
use arrow::array::{ArrayRef, Float64Array, Int64Array, RecordBatch};
use arrow::datatypes::{DataType, Field as Column, Schema};
use sage_engine::blocks::SummaryCache;
use sage_engine::read::{
    Batch, PreparedQuery, Query, ReadError, Row, SummaryCacheAccess, SummaryPlan, SummaryRetention, Unit, encode_batch,
    open, open_summed, prepare, tag,
};
use sage_kernel::noise::SeededNoise;
use sage_kernel::{
    AccessMode, Contribution, Cost, Epsilon, Lane, Permit, Rule, Session, Sigma, Summary, SummaryKey, TableNoise,
};
use sage_learn::encode::{
    Categories, Encoded, Encoding, Field, FieldKind, Key, KeyKind, Label, LabelKind, Scale, Span, Stated,
};
use sage_learn::linear::{AdaSsp, Ridge};
use sage_learn::statistics::GroupBy;
use tempfile::TempDir;

const SEED: u64 = 9;
const BLOCKS: u32 = 5;

fn schema() -> Schema {
    Schema::new(vec![
        Column::new("number", DataType::Int64, false),
        Column::new("user", DataType::Int64, true),
        Column::new("value", DataType::Float64, true),
    ])
}

fn rows(first: i64, count: i64) -> RecordBatch {
    let numbers = first..first + count;
    let value = |number: i64| (number % 13 != 0).then(|| (number * 37 % 101) as f64);
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from_iter_values(numbers.clone())),
        Arc::new(Int64Array::from_iter(numbers.clone().map(|number| Some(number % 600)))),
        Arc::new(Float64Array::from_iter(numbers.map(value))),
    ];
    RecordBatch::try_new(Arc::new(schema()), columns).expect("rows")
}

/// Blocks of a few thousand rows, the second in two parts.
fn fixture() -> Fixture {
    let mut fixture = Fixture::counting_by(Rule::Renyi, "20", BLOCKS);
    for (index, block) in [0, 1, 1, 2, 3, 4].into_iter().enumerate() {
        let count = 2_000 + 300 * index as i64;
        let in_test_lane: Vec<bool> = (0..count).map(|row| row % 9 == 0).collect();
        fixture.write(block, &rows(10_000 * index as i64, count), &in_test_lane);
    }
    fixture
}

fn filtered(filter: Option<&str>) -> Query {
    query(filter, &["number % 5", "value", "value / 101"])
}

/// Five categories, and optionally a number.
fn encoding(with_number: bool, top: f64) -> Encoding {
    let kind = KeyKind::OneOf(Categories::Integers((0..5).collect()));
    let category = FieldKind::Category(Key { column: 0, kind });
    let scale = Scale { low: 0.0, high: top, span: Span::Unit, missing: Some(0.0) };
    let number = FieldKind::Number { column: 1, scale };
    let mut fields = vec![Field { name: "category".to_owned(), kind: category }];
    fields.extend(with_number.then(|| Field { name: "number".to_owned(), kind: number }));
    let label = Label { column: 2, kind: LabelKind::Number { low: 0.0, high: 1.0 } };
    Encoding::new(Stated { fields, label }).expect("an encoding")
}

/// Fits a linear model to block summaries.
struct Fit {
    query: Query,
    unit: Unit,
    encoding: Encoding,
    key: SummaryKey,
}

const fn secret(number: u8) -> SummaryKey {
    SummaryKey::from_bytes([number; 32])
}

impl Fit {
    fn new(with_number: bool) -> Self {
        Self { query: filtered(None), unit: Unit::Row, encoding: encoding(with_number, 100.0), key: secret(5) }
    }

    fn learner(&self) -> AdaSsp {
        let sigma = Sigma::cost("8").expect("a noise multiplier");
        AdaSsp::new(self.encoding.layout(), (0.0, 1.0), sigma, Ridge::Adaptive).expect("a learner")
    }

    fn permit(&self, fixture: &mut Fixture, blocks: (u32, u32), lanes: &[Lane]) -> Permit {
        let cost = Cost::new(self.learner().mechanisms()).expect("a cost");
        fixture.permit_for(&cost, blocks, lanes, AccessMode::Enforced)
    }

    fn prepared(&self) -> PreparedQuery {
        prepare(&schema(), &self.query).expect("allowed")
    }

    /// Opens a session with a summarised train lane, and returns the blocks whose rows were summarised for it.
    fn open(
        &self, fixture: &mut Fixture, kept: &SummaryCache, blocks: (u32, u32), lanes: &[Lane],
    ) -> Result<(Session<Encoded, SeededNoise>, Vec<u32>), ReadError> {
        let learner = self.learner();
        let read = Mutex::new(Vec::new());
        let sum = |permit: &Permit, part: (sage_kernel::BlockPart, _), rows: &[Encoded]| {
            assert_eq!(part.0.lane, Lane::Train, "the other lane is not summarised");
            read.lock().expect("whole").push(part.0.block.0);
            Ok(learner.summarise(permit, part, rows)?.into_iter().collect::<Vec<Summary>>())
        };
        let session = self.open_by(fixture, kept, blocks, lanes, &sum)?;
        let mut read = read.into_inner().expect("whole");
        read.sort_unstable();
        Ok((session, read))
    }

    fn open_by(
        &self, fixture: &mut Fixture, kept: &SummaryCache, blocks: (u32, u32), lanes: &[Lane],
        sum: &sage_engine::read::SummaryFunction<'_, Encoded>,
    ) -> Result<Session<Encoded, SeededNoise>, ReadError> {
        let (source, prepared, permit) = (fixture.source(), self.prepared(), self.permit(fixture, blocks, lanes));
        let what = format!("{:?} {:?}", self.encoding.stated(), self.learner().moment_bounds());
        let tag = tag(&prepared, &self.query, &self.unit, &what);
        let keeping = SummaryCacheAccess { sums: kept, key: &self.key, tag, gone: &|_| false };
        let sums = SummaryPlan { lanes: &[Lane::Train], sum, keep: SummaryRetention::Cache(&keeping) };
        let shape = |batch| encode_batch(&batch, &self.encoding);
        open_summed(permit, SeededNoise::new(SEED), &source, &prepared, &self.unit, &shape, &sums)
    }

    /// The bits of the model, and the blocks whose rows were summarised for it.
    fn model(
        &self, fixture: &mut Fixture, kept: &SummaryCache, blocks: (u32, u32),
    ) -> Result<(Vec<u64>, Vec<u32>), ReadError> {
        let (session, read) = self.open(fixture, kept, blocks, &[Lane::Train])?;
        Ok((self.bits(session), read))
    }

    /// The bits of the model from rows, without summaries.
    fn of_rows(&self, fixture: &mut Fixture, blocks: (u32, u32)) -> Vec<u64> {
        let (_folder, nothing) = kept();
        let session = self.open_by(fixture, &nothing, blocks, &[Lane::Train], &|_, _, _| Ok(Vec::new()));
        self.bits(session.expect("reads"))
    }

    fn bits(&self, mut session: Session<Encoded, SeededNoise>) -> Vec<u64> {
        let model = self.learner().train(&mut session, Lane::Train).expect("a model");
        let numbers = model.weights.iter().chain([&model.bias, &model.ridge]);
        numbers.map(|number| number.to_bits()).collect()
    }
}

fn kept() -> (TempDir, SummaryCache) {
    let folder = TempDir::new().expect("a folder");
    let sums = SummaryCache::open(folder.path()).expect("a folder in it");
    (folder, sums)
}

/// Deletes the rows of these blocks.
fn take_away(fixture: &Fixture, blocks: std::ops::Range<u32>) {
    for block in blocks {
        std::fs::remove_dir_all(fixture.folder.path().join(crate::yard::STREAM).join(key(block))).expect("removed");
    }
}

/// The files of a block's cached summaries.
fn files(folder: &TempDir, block: u32) -> Vec<PathBuf> {
    let folder = folder.path().join("sums").join(crate::yard::STREAM).join(key(block));
    std::fs::read_dir(folder).map_or_else(|_| Vec::new(), |files| files.flatten().map(|file| file.path()).collect())
}

#[test]
fn a_doubled_window_reads_the_new_blocks_alone() {
    for (with_number, unit) in [(true, Unit::Row), (false, Unit::Row), (true, by_user("user", 3))] {
        let fit = Fit { unit, ..Fit::new(with_number) };
        let mut fixture = fixture();
        let (_folder, kept) = kept();
        let (whole, late) = (fit.of_rows(&mut fixture, (0, 3)), fit.of_rows(&mut fixture, (2, 3)));
        let (one, read) = fit.model(&mut fixture, &kept, (0, 1)).expect("reads");
        assert_eq!(read, [0, 1]);
        assert_eq!(one, fit.of_rows(&mut fixture, (0, 1)), "seed {SEED}");
        take_away(&fixture, 0..2);
        let (two, read) = fit.model(&mut fixture, &kept, (0, 3)).expect("reads what it needs");
        assert_eq!(read, [2, 3], "only the new blocks are read");
        assert_eq!(two, whole, "seed {SEED}");
        assert_ne!(two, one);
        take_away(&fixture, 2..4);
        let (three, read) = fit.model(&mut fixture, &kept, (0, 3)).expect("reads nothing");
        assert_eq!((three, read), (whole, vec![]));
        // Summaries of blocks that a grant does not cover are not opened, although they are cached.
        let (four, read) = fit.model(&mut fixture, &kept, (2, 3)).expect("reads nothing");
        assert_eq!((four, read), (late, vec![]));
        assert!(matches!(fit.model(&mut fixture, &kept, (0, 4)), Ok((_, read)) if read == [4]));
    }
}

/// The test lane of an old block is read for every new model; its train lane is not decoded.
#[test]
fn a_lane_without_summaries_is_read() {
    let fit = Fit::new(true);
    let mut fixture = fixture();
    let (_folder, kept) = kept();
    let whole = fit.of_rows(&mut fixture, (0, 3));
    fit.model(&mut fixture, &kept, (0, 1)).expect("reads");
    let (session, read) = fit.open(&mut fixture, &kept, (0, 3), &Lane::BOTH).expect("reads");
    assert_eq!(read, [2, 3]);
    assert_eq!(fit.bits(session), whole);
    // A grant on one lane opens no summaries of the other, and rows of a lane are not replaced by summaries.
    take_away(&fixture, 0..1);
    let missing = fit.open(&mut fixture, &kept, (0, 1), &Lane::BOTH).err();
    assert!(matches!(missing, Some(ReadError::Missing { .. })), "{missing:?}");
    let missing = fit.open(&mut fixture, &kept, (0, 1), &[Lane::Test]).err();
    assert!(matches!(missing, Some(ReadError::Missing { .. })), "{missing:?}");
}

#[test]
fn other_computations_read_the_block_again() {
    let fit = Fit::new(true);
    let others = [
        Fit { query: filtered(Some("number % 2 = 0")), ..Fit::new(true) },
        Fit { query: query(None, &["number % 5", "value + 1", "value / 101"]), ..Fit::new(true) },
        Fit { encoding: encoding(true, 90.0), ..Fit::new(true) },
        Fit::new(false),
        Fit { unit: by_user("user", 2), ..Fit::new(true) },
        Fit { unit: by_user("user", 3), ..Fit::new(true) },
    ];
    let mut fixture = fixture();
    let (_folder, kept) = kept();
    fit.model(&mut fixture, &kept, (0, 1)).expect("reads");
    for other in &others {
        let (model, read) = other.model(&mut fixture, &kept, (0, 1)).expect("reads");
        assert_eq!(read, [0, 1], "{:?}", other.query);
        assert_eq!(model, other.of_rows(&mut fixture, (0, 1)));
    }
    let (_, read) = fit.model(&mut fixture, &kept, (0, 1)).expect("reads nothing");
    assert_eq!(read, [0u32; 0], "all of them are cached at the same time");
    // The same query on another schema is another computation.
    let mut fields: Vec<Column> = schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    fields[2] = fields[2].clone().with_nullable(false);
    let changed = prepare(&Schema::new(fields), &fit.query).expect("allowed");
    let of = |prepared: &PreparedQuery| tag(prepared, &fit.query, &fit.unit, "sums");
    assert_ne!(of(&changed), of(&fit.prepared()));
    assert_ne!(tag(&changed, &fit.query, &fit.unit, "others"), of(&changed));
}

#[test]
fn new_rows_invalidate_the_cache() {
    let fit = Fit::new(true);
    let mut fixture = fixture();
    let (_folder, kept) = kept();
    fit.model(&mut fixture, &kept, (0, 1)).expect("reads");
    fixture.write(0, &rows(90_000, 500), &[false; 500]);
    let (model, read) = fit.model(&mut fixture, &kept, (0, 1)).expect("reads");
    assert_eq!(read, [0], "the block has other rows now");
    assert_eq!(model, fit.of_rows(&mut fixture, (0, 1)));
    let (again, read) = fit.model(&mut fixture, &kept, (0, 1)).expect("reads nothing");
    assert_eq!((again, read), (model, vec![]), "the new summaries replace the old ones");
}

#[test]
fn damaged_summaries_are_computed_again() {
    let fit = Fit::new(true);
    let mut fixture = fixture();
    let (folder, kept) = kept();
    let (whole, _) = fit.model(&mut fixture, &kept, (0, 1)).expect("reads");
    let [file] = &files(&folder, 0)[..] else { panic!("one file") };
    let sound = std::fs::read(file).expect("sums");
    let mut turned = sound.clone();
    turned[sound.len() / 2] ^= 0x10;
    let [other] = &files(&folder, 1)[..] else { panic!("one file") };
    let anothers = std::fs::read(other).expect("sums");
    for bytes in [&turned, &sound[..sound.len() / 2], &[], &anothers] {
        std::fs::write(file, bytes).expect("damaged");
        let (model, read) = fit.model(&mut fixture, &kept, (0, 1)).expect("reads");
        assert_eq!((&model, read), (&whole, vec![0]), "seed {SEED}");
        assert_eq!(std::fs::read(file).expect("sums"), sound, "replaced");
    }
    // A folder blocks the path of the file: summaries that cannot be cached are computed every time.
    std::fs::remove_file(file).expect("removed");
    std::fs::create_dir(file).expect("a folder");
    for _ in 0..2 {
        let (model, read) = fit.model(&mut fixture, &kept, (0, 1)).expect("reads");
        assert_eq!((&model, read), (&whole, vec![0]));
    }
}

/// The digest of a file can be forged. Without the directory's secret, or with the summaries of another log, the block
/// is read again, and the model is that of its rows.
#[test]
fn summaries_of_another_directory_or_log_are_computed_again() {
    let fit = Fit::new(true);
    let mut fixture = fixture();
    let (folder, kept) = kept();
    let whole = fit.of_rows(&mut fixture, (0, 1));
    let stranger = Fit { key: secret(6), ..Fit::new(true) };
    stranger.model(&mut fixture, &kept, (0, 1)).expect("reads");
    let (model, read) = fit.model(&mut fixture, &kept, (0, 1)).expect("reads");
    assert_eq!((&model, read), (&whole, vec![0, 1]), "sealed with another secret");
    let (model, read) = fit.model(&mut fixture, &kept, (0, 1)).expect("reads nothing");
    assert_eq!((&model, read), (&whole, vec![]), "sealed with its own from then on");
    // The same secret, stream, blocks, rows and query in another log.
    let mut other = Fixture::counting_by(Rule::Renyi, "21", BLOCKS);
    std::mem::swap(&mut other.folder, &mut fixture.folder);
    other.parts.clone_from(&fixture.parts);
    let (model, read) = fit.model(&mut other, &kept, (0, 1)).expect("reads");
    assert_eq!((model, read), (whole, vec![0, 1]), "sealed for another log");
    drop(folder);
}

/// Group tables from rows, from new summaries and from cached summaries are equal under the same noise.
#[test]
fn a_table_from_cached_summaries_equals_that_from_rows() {
    let mut fixture = fixture();
    let (_folder, kept) = kept();
    let noise = TableNoise::Laplace(Epsilon::cost("1").expect("a loss"));
    let group = GroupBy { keys: 5, bounds: (0.0, 100.0), noise };
    let value = |row: Row<'_>| Some((u32::try_from(row.integer(0)?).ok()?, row.number(1)?));
    let bits = |session: &mut Session<Batch, SeededNoise>| -> Vec<[u64; 2]> {
        let groups = group.run(session, Lane::Train, 0.05, value).expect("covered");
        groups.iter().map(|group| [group.count.to_bits(), group.sum.to_bits()]).collect()
    };
    let query = filtered(None);
    let prepared = prepare(&schema(), &query).expect("allowed");
    let tag = tag(&prepared, &query, &Unit::Row, "means by group");
    let keeping = SummaryCacheAccess { sums: &kept, key: &secret(5), tag, gone: &|_| false };
    let sum = |permit: &Permit, part: (sage_kernel::BlockPart, _), rows: &[Batch]| {
        Ok(group.summarise(Contribution::ONE, permit, part, rows, value)?.into_iter().collect::<Vec<Summary>>())
    };
    let permit = |fixture: &mut Fixture, blocks| fixture.permit_at("1", blocks, &[Lane::Train], AccessMode::Enforced);
    let source = fixture.source();
    let session = open(permit(&mut fixture, (0, 3)), SeededNoise::new(SEED), &source, &prepared, &Unit::Row);
    let from_rows = bits(&mut session.expect("reads"));
    for (blocks, gone) in [((0, 1), 0..2), ((0, 3), 2..4), ((0, 3), 4..5)] {
        let sums = SummaryPlan { lanes: &[Lane::Train], sum: &sum, keep: SummaryRetention::Cache(&keeping) };
        let (permit, random) = (permit(&mut fixture, blocks), SeededNoise::new(SEED));
        let session = open_summed(permit, random, &source, &prepared, &Unit::Row, &|batch| batch, &sums);
        let found = bits(&mut session.expect("reads what it needs"));
        assert_eq!(found == from_rows, blocks == (0, 3), "seed {SEED}");
        take_away(&fixture, gone);
    }
}
