//! The reader opens the covered lanes of the covered blocks only, from exactly the files that the log names.

use std::sync::Arc;

use crate::yard::{Fixture, STREAM, attested_access, by_user, key, query, with_lanes};
use arrow::array::{ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, StringArray};
use arrow::datatypes::{DataType, Field, Schema};
use object_store::memory::InMemory;
use sage_engine::blocks::Part;
use sage_engine::read::{ReadError, Source, Unit, open, prepare};
use sage_kernel::noise::SecureNoise;
use sage_kernel::{AccessMode, BlockId, Epsilon, Lane, Rows, TableNoise};

fn schema() -> Schema {
    Schema::new(vec![
        Field::new("number", DataType::Int64, false),
        Field::new("user", DataType::Utf8, true),
        Field::new("value", DataType::Float64, true),
    ])
}

/// Rows with these numbers, each of a different user.
fn rows(numbers: impl IntoIterator<Item = i64>) -> RecordBatch {
    let numbers: Vec<i64> = numbers.into_iter().collect();
    let users: Vec<String> = numbers.iter().map(|number| format!("user {number}")).collect();
    let values: Vec<f64> = numbers.iter().map(|&number| number as f64).collect();
    let columns: Vec<ArrayRef> = vec![
        Arc::new(Int64Array::from(numbers)),
        Arc::new(StringArray::from(users)),
        Arc::new(Float64Array::from(values)),
    ];
    RecordBatch::try_new(Arc::new(schema()), columns).expect("rows")
}

/// Four blocks of a hundred rows each, every tenth in the test lane.
fn four_blocks() -> Fixture {
    let mut fixture = Fixture::new(4);
    for block in 0..4 {
        let first = i64::from(block) * 100;
        let in_test_lane: Vec<bool> = (0..50).map(|index| index % 10 == 0).collect();
        fixture.write(block, &rows(first..first + 50), &in_test_lane);
        fixture.write(block, &rows(first + 50..first + 100), &in_test_lane);
    }
    fixture
}

fn numbers(fixture: &mut Fixture, blocks: (u32, u32), lane: Lane) -> Result<Vec<i64>, ReadError> {
    let record = |record: sage_engine::read::Record<'_>| record.integer(0).expect("a number");
    fixture.records(&schema(), blocks, lane, &query(None, &["number"]), record)
}

#[test]
fn rows_come_back_by_block_and_lane() {
    let mut fixture = four_blocks();
    let expected = |lane: Lane| (100..300).filter(move |number| (number % 10 == 0) == (lane == Lane::Test));
    for lane in Lane::BOTH {
        let mut read = numbers(&mut fixture, (1, 2), lane).expect("reads");
        read.sort_unstable();
        assert!(read.into_iter().eq(expected(lane)), "{lane}");
    }
}

#[test]
fn only_covered_blocks_are_opened() {
    let mut fixture = four_blocks();
    // The files of the other blocks are missing or replaced.
    for (block, part) in fixture.parts.clone() {
        let path = fixture.folder.path().join(part.path(STREAM));
        match block.0 {
            0 => std::fs::remove_file(path).expect("removed"),
            3 => std::fs::write(path, "something else").expect("overwritten"),
            _ => {}
        }
    }
    assert_eq!(numbers(&mut fixture, (1, 2), Lane::Train).expect("reads").len(), 180);
    let missing = ReadError::Missing { block: key(0), file: "part-0.parquet".to_owned() };
    assert_eq!(numbers(&mut fixture, (0, 2), Lane::Train), Err(missing));
    let changed = ReadError::Changed { block: key(3), file: "part-6.parquet".to_owned() };
    assert_eq!(numbers(&mut fixture, (1, 3), Lane::Train), Err(changed));
}

/// The row group of the test lane is garbage with a matching digest: only a read of that lane fails.
#[test]
fn only_covered_lanes_are_decoded() {
    let mut fixture = Fixture::new(1);
    let path = fixture.write(0, &rows(0..1_000), &(0..1_000).map(|index| index >= 500).collect::<Vec<bool>>());
    let mut bytes = std::fs::read(&path).expect("the part");
    let metadata = parquet::file::metadata::ParquetMetaDataReader::new();
    let metadata = metadata.parse_and_finish(&std::fs::File::open(&path).expect("the part")).expect("Parquet");
    let (start, length) = metadata.row_group(1).column(0).byte_range();
    bytes[start as usize..(start + length) as usize].fill(0xff);
    std::fs::write(&path, &bytes).expect("written");
    fixture.enter_digest(&path);
    let selected = query(None, &["number"]);
    for (lanes, readable) in [(&[Lane::Train][..], true), (&[Lane::Test], false), (&Lane::BOTH, false)] {
        let opened = fixture.open(&schema(), (0, 0), lanes, attested_access(), &selected, &Unit::Row);
        assert_eq!(opened.is_ok(), readable, "{lanes:?}");
        assert!(readable || matches!(opened.err(), Some(ReadError::Malformed { .. } | ReadError::Failed)));
    }
}

#[test]
fn a_permit_opens_its_own_stream_alone() {
    let mut fixture = four_blocks();
    let permit = fixture.permit((0, 0), &[Lane::Train], AccessMode::Enforced);
    let mut other = Fixture::new(1);
    let filter = sage_kernel::Filter::new(
        sage_kernel::Rule::Basic,
        sage_kernel::Ceiling {
            epsilon: Epsilon::ceiling("1").expect("a ceiling"),
            delta: sage_kernel::Delta::ceiling("1e-6").expect("a ceiling"),
        },
    );
    let policy = sage_kernel::Policy::single(filter.expect("a filter"), sage_kernel::AccessModes::EnforcedOnly);
    let stream = other.gate.create_stream(0, "flights", policy).expect("a second stream");
    other.gate.add_blocks(0, stream, vec![key(0)]).expect("a block");
    let source = Source::new(other.gate.ledger(), "flights", [], Arc::new(InMemory::new())).expect("a source");
    let prepared = prepare(&schema(), &query(None, &["number"])).expect("allowed");
    let noise = SecureNoise::new().expect("randomness");
    assert_eq!(open(permit, noise, &source, &prepared, &Unit::Row).err(), Some(ReadError::OtherStream));
}

/// A file of another block under a covered block number is not opened.
#[test]
fn a_part_belongs_to_the_block_with_its_key() {
    let fixture = four_blocks();
    let part = fixture.parts[0].1.clone();
    let offered = |parts: Vec<(BlockId, Part)>, stream: &str| {
        Source::new(fixture.gate.ledger(), stream, parts, Arc::new(InMemory::new())).err()
    };
    let source = |stream: &str, block: u32| offered(vec![(BlockId(block), part.clone())], stream);
    let foreign = Some(ReadError::ForeignPart { block: key(0), file: "part-0.parquet".to_owned() });
    assert_eq!(source(STREAM, 0), None);
    assert_eq!(source(STREAM, 1), foreign);
    assert_eq!(source(STREAM, 9), foreign);
    assert_eq!(source("flights", 0), Some(ReadError::UnknownStream { stream: "flights".to_owned() }));
    let twice = Some(ReadError::Repeated { block: key(0), file: "part-0.parquet".to_owned() });
    assert_eq!(offered(vec![(BlockId(0), part.clone()), (BlockId(0), part.clone())], STREAM), twice);
    let below = Part { file: "minute=1/part-0.parquet".to_owned(), ..part };
    assert!(matches!(offered(vec![(BlockId(0), below)], STREAM), Some(ReadError::ForeignPart { .. })));
}

/// Links and paths to the rows of another block do not help: the digest is of the bytes.
#[test]
fn links_to_other_blocks_are_refused() {
    for attack in ["symbolic link", "hard link", "copy"] {
        let mut fixture = four_blocks();
        let paths: Vec<_> =
            fixture.parts.iter().map(|(_, part)| fixture.folder.path().join(part.path(STREAM))).collect();
        // Block 0 is granted and block 1 is not: a link in the place of block 0's file is refused.
        let (granted, wanted) = (&paths[0], &paths[2]);
        std::fs::remove_file(granted).expect("removed");
        match attack {
            "symbolic link" => std::os::unix::fs::symlink(wanted, granted).expect("linked"),
            "hard link" => std::fs::hard_link(wanted, granted).expect("linked"),
            _ => std::fs::copy(wanted, granted).map(drop).expect("copied"),
        }
        let error = numbers(&mut fixture, (0, 0), Lane::Train).expect_err("nothing is read");
        assert!(matches!(error, ReadError::Changed { .. } | ReadError::Missing { .. }), "{attack}: {error}");
    }
}

#[test]
fn any_flipped_byte_is_found() {
    let mut fixture = Fixture::new(1);
    let in_test_lane: Vec<bool> = (0..40).map(|index| index % 4 == 0).collect();
    let path = fixture.write(0, &rows(0..40), &in_test_lane);
    let whole = std::fs::read(&path).expect("the part");
    let prepared = prepare(&schema(), &query(None, &["number"])).expect("allowed");
    let source = fixture.source();
    let mut outcome = || {
        let permit = fixture.permit((0, 0), &Lane::BOTH, attested_access());
        open(permit, SecureNoise::new().expect("randomness"), &source, &prepared, &Unit::Row).err()
    };
    assert_eq!(outcome(), None);
    let changed = Some(ReadError::Changed { block: key(0), file: "part-0.parquet".to_owned() });
    for index in 0..whole.len() {
        let mut flipped = whole.clone();
        flipped[index] ^= 1 << (index % 8);
        std::fs::write(&path, &flipped).expect("written");
        assert_eq!(outcome(), changed, "byte {index}");
    }
    for length in [0, 1, whole.len() - 1] {
        std::fs::write(&path, &whole[..length]).expect("written");
        assert_eq!(outcome(), changed, "cut to {length}");
    }
    std::fs::write(&path, [whole.as_slice(), b"x"].concat()).expect("written");
    assert_eq!(outcome(), changed);
}

/// A malformed part is refused even if the log names its digest.
#[test]
fn a_malformed_part_is_refused() {
    let rule_of = |groups: &[RecordBatch]| {
        let mut fixture = Fixture::new(1);
        fixture.write_groups(0, groups);
        match numbers(&mut fixture, (0, 0), Lane::Train).err() {
            Some(ReadError::Malformed { rule, .. }) => rule,
            other => panic!("not malformed: {other:?}"),
        }
    };
    let mixed = with_lanes(&rows(0..4), &[false, true, false, true]);
    assert!(rule_of(&[mixed]).contains("lane"));
    let without = rows(0..4);
    assert!(rule_of(&[without]).contains("columns"));
    let renamed = {
        let whole = with_lanes(&rows(0..4), &[false; 4]);
        let mut fields: Vec<Field> = whole.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        fields[0] = Field::new("another", DataType::Int64, false);
        RecordBatch::try_new(Arc::new(Schema::new(fields)), whole.columns().to_vec()).expect("rows")
    };
    assert!(rule_of(&[renamed]).contains("columns"));
    let retyped = {
        let whole = with_lanes(&rows(0..4), &[false; 4]);
        let mut fields: Vec<Field> = whole.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
        fields[0] = Field::new("number", DataType::Boolean, false);
        let mut columns = whole.columns().to_vec();
        columns[0] = Arc::new(BooleanArray::from(vec![true; 4]));
        RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("rows")
    };
    assert!(rule_of(&[retyped]).contains("columns"));
    let mut fixture = Fixture::new(1);
    let path = fixture.write(0, &rows(0..4), &[false; 4]);
    std::fs::write(&path, "no Parquet").expect("written");
    fixture.enter_digest(&path);
    let error = numbers(&mut fixture, (0, 0), Lane::Train).expect_err("not Parquet");
    assert_eq!(
        error.to_string(),
        format!("{}/part-0.parquet is not a part of this stream: it is not Parquet; run sage doctor", key(0))
    );
}

/// Rows that a filter excludes are not in the session, and their block stays charged.
#[test]
fn filtered_rows_stay_charged() {
    let mut fixture = four_blocks();
    let selected = query(Some("value < 50 AND value >= 20"), &["value"]);
    let mut session =
        fixture.open(&schema(), (0, 3), &[Lane::Train], AccessMode::Enforced, &selected, &Unit::Row).expect("opens");
    let noise = TableNoise::Laplace(Epsilon::cost(crate::yard::COST).expect("a loss"));
    let counts = session.histogram(Lane::Train, 1, noise, |_| Some(0)).expect("covered");
    // 27 rows are left; noise of scale 1/10 moves that by more than 4 once in 10^17.
    assert!((counts[0] - 27.0).abs() < 4.0, "{counts:?}");
    drop(session);
    let stream = fixture.gate.ledger().stream(sage_kernel::StreamId(0)).expect("the stream");
    for block in (0..4).map(BlockId) {
        let spent = stream.spent(sage_kernel::ContextId(0), block, Lane::Train).expect("a block");
        assert_eq!(spent[0], u128::from(Epsilon::cost(crate::yard::COST).expect("a loss").units()), "{block:?}");
    }
}

#[test]
fn a_failed_read_stays_charged() {
    let mut fixture = four_blocks();
    let source = Source::new(fixture.gate.ledger(), STREAM, fixture.parts.clone(), Arc::new(InMemory::new()));
    let source = source.expect("a source");
    let prepared = prepare(&schema(), &query(None, &["number"])).expect("allowed");
    let permit = fixture.permit((0, 0), &[Lane::Train], AccessMode::Enforced);
    let opened = open(permit, SecureNoise::new().expect("randomness"), &source, &prepared, &Unit::Row);
    assert!(matches!(opened.err(), Some(ReadError::Missing { .. })));
    let stream = fixture.gate.ledger().stream(sage_kernel::StreamId(0)).expect("the stream");
    assert!(stream.spent(sage_kernel::ContextId(0), BlockId(0), Lane::Train).expect("a block")[0] > 0);
}

#[test]
fn a_session_without_columns_still_counts() {
    let mut fixture = four_blocks();
    let read = fixture.declared(&schema(), (0, 3), &query(Some("number % 2 = 0"), &[]), &Unit::Row).expect("reads");
    let count = |lane| read.lane(lane).iter().map(Rows::count).sum::<usize>();
    assert_eq!((count(Lane::Train), count(Lane::Test)), (160, 40));
}

#[test]
fn an_unknown_user_column_is_named() {
    let mut fixture = four_blocks();
    let error = fixture.declared(&schema(), (0, 0), &query(None, &["value"]), &by_user("rider", 1)).err();
    assert_eq!(error, Some(ReadError::UnknownUser { column: "rider".to_owned() }));
}

/// Text columns can have any Arrow text type.
#[test]
fn text_is_read_in_every_form() {
    for form in [
        DataType::Utf8,
        DataType::LargeUtf8,
        DataType::Utf8View,
        DataType::Dictionary(Box::new(DataType::Int8), Box::new(DataType::Utf8)),
    ] {
        let schema = Schema::new(vec![Field::new("text", form.clone(), true)]);
        let texts: ArrayRef = Arc::new(StringArray::from(vec![Some("one"), None, Some("two"), Some("one")]));
        let texts = arrow::compute::cast(&texts, &form).expect("text");
        let rows = RecordBatch::try_new(Arc::new(schema.clone()), vec![texts]).expect("rows");
        let mut fixture = Fixture::new(1);
        fixture.write(0, &rows, &[false; 4]);
        let selected = query(Some("text = 'one' OR text IS NULL"), &["upper(text)", "text"]);
        let record = |record: sage_engine::read::Record<'_>| [0, 1].map(|index| record.text(index).map(str::to_owned));
        let found = fixture.records(&schema, (0, 0), Lane::Train, &selected, record).expect("reads");
        let one = [Some("ONE".to_owned()), Some("one".to_owned())];
        assert_eq!(found, [one.clone(), [None, None], one], "{form}");
    }
}
