//! The shared fixture of the reading tests: a stream on a real gate, with real parts in a temporary folder.

use std::fs::File;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use arrow::array::{ArrayRef, BooleanArray, RecordBatch};
use arrow::compute::filter_record_batch;
use arrow::datatypes::{DataType, Field, Schema};
use object_store::local::LocalFileSystem;
use parquet::arrow::ArrowWriter;
use sage_engine::blocks::{LANE_COLUMN, Part};
use sage_engine::read::{Batch, Expression, Query, QueryRefusal, ReadError, Record, Source, Unit, open, prepare};
use sage_kernel::noise::SecureNoise;
use sage_kernel::{
    AccessMode, AccessModes, AttestedRows, BlockId, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon,
    Filter, Gate, Lane, Mechanism, MemoryLog, Permit, Policy, Request, RequestKey, Rows, Rule, Session, StreamId,
};
use tempfile::TempDir;

pub(crate) const STREAM: &str = "rides";
/// The cost of every request of these tests, on each lane it names.
pub(crate) const COST: &str = "10";

/// A stream with its gate and its block store.
pub(crate) struct Fixture {
    pub(crate) gate: Gate<MemoryLog>,
    pub(crate) folder: TempDir,
    pub(crate) parts: Vec<(BlockId, Part)>,
    stream: StreamId,
    requests: u32,
}

impl Fixture {
    pub(crate) fn new(blocks: u32) -> Self {
        Self::counting_by(Rule::Basic, "1000000", blocks)
    }

    /// The same with another composition rule and ceiling.
    pub(crate) fn counting_by(rule: Rule, epsilon: &str, blocks: u32) -> Self {
        let mut gate = Gate::open(MemoryLog::default()).expect("an empty log opens");
        let ceiling = Ceiling {
            epsilon: Epsilon::ceiling(epsilon).expect("a ceiling"),
            delta: Delta::ceiling("0.5").expect("a ceiling"),
        };
        let filter = Filter::new(rule, ceiling).expect("a filter");
        let stream = gate.create_stream(0, STREAM, Policy::single(filter, AccessModes::AttestedToo)).expect("a stream");
        gate.add_blocks(0, stream, (0..blocks).map(key).collect()).expect("blocks");
        let folder = TempDir::new().expect("a folder");
        Self { gate, folder, parts: Vec::new(), stream, requests: 0 }
    }

    /// Writes rows as a part of a block, the train lane first, and adds it to the list.
    pub(crate) fn write(&mut self, block: u32, rows: &RecordBatch, tests: &[bool]) -> PathBuf {
        let test = BooleanArray::from(tests.to_vec());
        let train = BooleanArray::from(tests.iter().map(|test| !test).collect::<Vec<bool>>());
        let groups = [(train, false), (test, true)].map(|(mask, lane)| {
            let rows = filter_record_batch(rows, &mask).expect("one lane per row");
            let in_test_lane = vec![lane; rows.num_rows()];
            with_lanes(&rows, &in_test_lane)
        });
        self.write_groups(block, &groups)
    }

    /// Writes row groups unchanged, including the lane column.
    pub(crate) fn write_groups(&mut self, block: u32, groups: &[RecordBatch]) -> PathBuf {
        let file = format!("part-{}.parquet", self.parts.len());
        let part = Part { block: key(block), file, digest: [0; 32] };
        let path = self.folder.path().join(part.path(STREAM));
        std::fs::create_dir_all(path.parent().expect("a folder")).expect("the folder is made");
        let to = File::create(&path).expect("the file is made");
        let mut writer = ArrowWriter::try_new(to, groups[0].schema(), None).expect("a writer");
        for group in groups.iter().filter(|group| group.num_rows() > 0) {
            writer.write(group).expect("written");
            writer.flush().expect("flushed");
        }
        writer.close().expect("closed");
        self.parts.push((BlockId(block), part));
        self.enter_digest(&path);
        path
    }

    /// Sets the recorded digest of the last part to that of the current file.
    pub(crate) fn enter_digest(&mut self, path: &PathBuf) {
        let bytes = std::fs::read(path).expect("the file is there");
        self.parts.last_mut().expect("a part").1.digest = *blake3::hash(&bytes).as_bytes();
    }

    /// Charges and starts a request for these blocks and lanes.
    pub(crate) fn permit(&mut self, blocks: (u32, u32), lanes: &[Lane], access: AccessMode) -> Permit {
        self.permit_at(COST, blocks, lanes, access)
    }

    /// The same at another price.
    pub(crate) fn permit_at(
        &mut self, epsilon: &str, blocks: (u32, u32), lanes: &[Lane], access: AccessMode,
    ) -> Permit {
        let epsilon = Epsilon::cost(epsilon).expect("a loss");
        let cost = Cost::new(vec![Mechanism::Laplace { epsilon, count: 1 }]);
        self.permit_for(&cost.expect("a cost"), blocks, lanes, access)
    }

    /// The same at this cost.
    pub(crate) fn permit_for(&mut self, cost: &Cost, blocks: (u32, u32), lanes: &[Lane], access: AccessMode) -> Permit {
        self.requests += 1;
        let request = Request {
            key: RequestKey::from_text(&self.requests.to_string()),
            stream: self.stream,
            context: ContextId(0),
            blocks: Blocks::range(blocks.0, blocks.1).expect("blocks"),
            costs: Lane::BOTH.map(|lane| lanes.contains(&lane).then(|| cost.clone())),
            access,
            purpose: "test".to_owned(),
        };
        let answer = self.gate.charge(0, vec![request]).expect("the log takes it").remove(0);
        let ChargeOutcome::Granted(grant) = answer else { panic!("not granted: {answer:?}") };
        self.gate.start(0, grant).expect("starts")
    }

    pub(crate) fn source(&self) -> Source {
        let store = LocalFileSystem::new_with_prefix(self.folder.path()).expect("a store");
        Source::new(self.gate.ledger(), STREAM, self.parts.clone(), Arc::new(store)).expect("parts of the blocks")
    }

    /// Opens a session on blocks and lanes, in an access mode.
    pub(crate) fn open(
        &mut self, schema: &Schema, blocks: (u32, u32), lanes: &[Lane], access: AccessMode, selected: &Query,
        unit: &Unit,
    ) -> Result<Session<Batch>, ReadError> {
        let prepared = prepare(schema, selected).expect("the query is allowed");
        let source = self.source();
        let permit = self.permit(blocks, lanes, access);
        open(permit, SecureNoise::new().expect("randomness"), &source, &prepared, unit)
    }

    /// The rows of a lane of some blocks, in the attested mode.
    pub(crate) fn declared(
        &mut self, schema: &Schema, blocks: (u32, u32), selected: &Query, unit: &Unit,
    ) -> Result<AttestedRows<Batch>, ReadError> {
        let session = self.open(schema, blocks, &Lane::BOTH, attested_access(), selected, unit)?;
        Ok(session.into_attested().unwrap_or_else(|_| panic!("the access mode is attested")))
    }

    /// Maps every record of a lane by a function.
    pub(crate) fn records<T>(
        &mut self, schema: &Schema, blocks: (u32, u32), lane: Lane, selected: &Query, each: impl Fn(Record<'_>) -> T,
    ) -> Result<Vec<T>, ReadError> {
        let rows = self.declared(schema, blocks, selected, &Unit::Row)?;
        let mut all = Vec::new();
        for batch in rows.lane(lane) {
            all.extend((0..batch.count()).map(|index| each(batch.row(index).record())));
        }
        Ok(all)
    }
}

pub(crate) fn attested_access() -> AccessMode {
    AccessMode::Attested { author: "the test".to_owned(), reason: "to see rows".to_owned() }
}

pub(crate) fn key(block: u32) -> String {
    format!("hour=2026-11-01T{block:02}")
}

/// The rows with the lane column.
pub(crate) fn with_lanes(rows: &RecordBatch, tests: &[bool]) -> RecordBatch {
    let mut fields: Vec<Field> = rows.schema().fields().iter().map(|field| field.as_ref().clone()).collect();
    fields.push(Field::new(LANE_COLUMN, DataType::Boolean, false));
    let mut columns = rows.columns().to_vec();
    columns.push(Arc::new(BooleanArray::from(tests.to_vec())) as ArrayRef);
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns).expect("a batch")
}

pub(crate) fn query(filter: Option<&str>, columns: &[&str]) -> Query {
    let column = |(index, sql): (usize, &&str)| Expression { name: format!("c{index}"), sql: (*sql).to_owned() };
    Query { filter: filter.map(str::to_owned), columns: columns.iter().enumerate().map(column).collect() }
}

/// The refusal of one expression, if it is refused.
pub(crate) fn refusal(schema: &Schema, sql: &str) -> Option<QueryRefusal> {
    prepare(schema, &query(None, &[sql])).err()
}

pub(crate) fn by_user(column: &str, most: usize) -> Unit {
    Unit::User { column: column.to_owned(), most: NonZeroUsize::new(most).expect("at least one") }
}
