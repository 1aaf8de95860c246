//! The block reader: the only code that reads rows from the block store.
//!
//! It opens the parts of blocks and lanes that the permit covers and no others, and must never return a row without a
//! permit. Decoding is in `part`.

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{Builder, ScopedJoinHandle};

use arrow::compute::{filter, filter_record_batch};
use bytes::Bytes;
use object_store::path::Path;
use object_store::{GetResultPayload, ObjectStore, ObjectStoreExt};
use sage_kernel::noise::NoiseSource;
use sage_kernel::{BlockId, Lane, Ledger, Permit, Rows, Session, StreamId, Summary};
use sage_learn::encode::{Encoded, Encoding};
use tokio::runtime::Runtime;

use super::error::ReadError;
use super::part::{LaneRows, Layout};
use super::query::PreparedQuery;
use super::rows::Batch;
use super::sums::{SummaryHandler, SummaryPlan};
use super::unit::{Unit, UserRecords, group_by_user};
use crate::blocks::{BlockKeys, Part, parts_digest};
use crate::quiet::{READER, silence_readers};
use crate::threads;

/// The most blocks that are read concurrently, whatever the number of threads: each is in memory as a whole.
const MOST_BLOCKS_AT_A_TIME: usize = 8;

/// The stored rows of a stream.
pub struct Source {
    stream: StreamId,
    name: String,
    parts: BTreeMap<BlockId, Vec<Part>>,
    store: Arc<dyn ObjectStore>,
    /// The block keys, if parts are encrypted.
    keys: Option<Arc<BlockKeys>>,
}

impl Source {
    /// The stream with this name and these parts, which the log must have named.
    ///
    /// # Errors
    /// When there is no such stream, or a part belongs to another block or is passed twice.
    pub fn new(
        ledger: &Ledger, name: &str, parts: impl IntoIterator<Item = (BlockId, Part)>, store: Arc<dyn ObjectStore>,
    ) -> Result<Self, ReadError> {
        let unknown = || ReadError::UnknownStream { stream: name.to_owned() };
        let stream = ledger.stream_named(name).ok_or_else(unknown)?;
        let keys = ledger.stream(stream).ok_or_else(unknown)?.block_keys();
        let mut known: BTreeMap<BlockId, Vec<Part>> = BTreeMap::new();
        for (block, part) in parts {
            // The permit covers block numbers, and files are found by block key: both must name the same block.
            if keys.get(block.0 as usize) != Some(&part.block) || part.file.contains('/') {
                return Err(ReadError::ForeignPart { block: part.block, file: part.file });
            }
            let parts = known.entry(block).or_default();
            // Reading a part twice would count its rows twice.
            if parts.iter().any(|other| other.file == part.file) {
                return Err(ReadError::Repeated { block: part.block, file: part.file });
            }
            parts.push(part);
        }
        Ok(Self { stream, name: name.to_owned(), parts: known, store, keys: None })
    }

    /// The same source with keys for encrypted parts.
    pub(crate) fn with_keys(self, keys: Option<Arc<BlockKeys>>) -> Self {
        Self { keys, ..self }
    }

    /// Decrypts a part; `None` without its key.
    fn decrypt(&self, part: &Part, bytes: &Bytes) -> Option<Bytes> {
        let (owner, path) = (part.key_owner(&self.name), part.path(&self.name));
        self.keys.as_ref()?.decrypt(&owner, &path, bytes).ok().map(Bytes::from)
    }

    /// The stream's name.
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The key of a block, if it has rows.
    pub(super) fn key(&self, block: BlockId) -> Option<&str> {
        self.parts.get(&block)?.first().map(|part| part.block.as_str())
    }

    /// The digest of a block's parts.
    pub(super) fn digest(&self, block: BlockId) -> [u8; 32] {
        parts_digest(self.parts.get(&block).map_or(&[], Vec::as_slice))
    }
}

/// Consumes a permit and reads what it covers into a session with this noise source.
///
/// # Errors
/// When a file is missing or differs from the log, with its name; `Failed` for everything that could depend on rows.
/// The charge stays charged.
pub fn open<N: NoiseSource>(
    permit: Permit, noise: N, source: &Source, prepared: &PreparedQuery, unit: &Unit,
) -> Result<Session<Batch, N>, ReadError> {
    permit.open(noise, |permit| read(permit, source, prepared, unit, &|batch| batch))
}

/// As [`open`], with each thread summarising the blocks it has read, so that rows are dropped early. Blocks with cached
/// summaries are not read. On the summarised lanes the session returns, bit for bit, what the rows would give for the
/// statistics that `sums` is for, and nothing else.
///
/// `shape` must be row-wise, as in [`open_encoded`].
///
/// # Errors
/// As [`open`]; `Failed` if a block cannot be summarised.
pub fn open_summed<B: Rows + Send, N: NoiseSource>(
    permit: Permit, noise: N, source: &Source, prepared: &PreparedQuery, unit: &Unit,
    shape: &(dyn Fn(Batch) -> B + Sync), sums: &SummaryPlan<'_, B>,
) -> Result<Session<B, N>, ReadError> {
    permit.open_with_summaries(noise, sums.tag(), |permit| {
        read_with(permit, source, prepared, unit, shape, &SummaryHandler { permit, source, sums })
    })
}

/// As [`open`], with every batch encoded as it is read, which saves the memory of the other columns.
///
/// `encode` must be row-wise: its output for a row depends on that row and on public or released data. It may drop rows,
/// as a filter does, and must not add any. Use [`encode_batch`].
///
/// # Errors
/// As [`open`].
pub fn open_encoded<N: NoiseSource>(
    permit: Permit, noise: N, source: &Source, prepared: &PreparedQuery, unit: &Unit,
    encode: &(dyn Fn(Batch) -> Encoded + Sync),
) -> Result<Session<Encoded, N>, ReadError> {
    permit.open(noise, |permit| read(permit, source, prepared, unit, encode))
}

/// Encodes the records of a batch that the encoding accepts. A unit without such a record is left out.
pub fn encode_batch(batch: &Batch, encoding: &Encoding) -> Encoded {
    if batch.is_of_records() {
        return encoding.encode((0..batch.count()).map(|index| batch.row(index).record()));
    }
    encoding.encode_units((0..batch.count()).map(|index| batch.row(index).records()))
}

/// What one lane of one block contributes to the session.
pub(super) enum LaneContent<B> {
    /// The rows.
    Rows(Vec<B>),
    /// Summaries, each over all rows.
    Summaries(Vec<Summary>),
}

/// Decides what each lane of a block contributes to the session.
pub(super) trait LaneHandler<B>: Sync {
    /// Cached summaries that replace the rows, if there are any.
    fn cached_summaries(&self, block: BlockId, lane: Lane) -> Option<Vec<Summary>>;

    /// Converts rows that were read from `bytes` bytes.
    fn handle(&self, block: BlockId, lane: Lane, rows: Vec<B>, bytes: u64) -> Result<LaneContent<B>, ReadError>;

    /// The seed that selects the records of a user.
    fn sampling_seed(&self, lane: Lane) -> Vec<u8>;
}

/// Passes all rows to the session of this permit.
struct RowHandler<'a>(&'a Permit);

impl<B> LaneHandler<B> for RowHandler<'_> {
    fn cached_summaries(&self, _: BlockId, _: Lane) -> Option<Vec<Summary>> {
        None
    }

    fn handle(&self, _: BlockId, _: Lane, rows: Vec<B>, _: u64) -> Result<LaneContent<B>, ReadError> {
        Ok(LaneContent::Rows(rows))
    }

    fn sampling_seed(&self, _: Lane) -> Vec<u8> {
        self.0.grant().0.to_le_bytes().to_vec()
    }
}

/// Rows by lane, and summaries that replace rows.
type SessionInput<B> = ([Vec<B>; 2], Vec<Arc<Summary>>);

/// Reads all rows. Private, so that rows go into the session and nowhere else.
fn read<B: Send>(
    permit: &Permit, source: &Source, prepared: &PreparedQuery, unit: &Unit, shape: &(dyn Fn(Batch) -> B + Sync),
) -> Result<[Vec<B>; 2], ReadError> {
    read_with(permit, source, prepared, unit, shape, &RowHandler(permit)).map(|(rows, _)| rows)
}

/// As [`read`], with a handler that runs on the thread that read the block.
fn read_with<B: Send>(
    permit: &Permit, source: &Source, prepared: &PreparedQuery, unit: &Unit, shape: &(dyn Fn(Batch) -> B + Sync),
    handler: &dyn LaneHandler<B>,
) -> Result<SessionInput<B>, ReadError> {
    if permit.stream() != source.stream {
        return Err(ReadError::OtherStream);
    }
    silence_readers();
    let layout = Layout::new(prepared, unit)?;
    let task = ReadTask { permit, source, prepared, unit, layout, shape, handler };
    let covered = |block: BlockId| Lane::BOTH.into_iter().any(|lane| task.covers(block, lane));
    let blocks: Vec<BlockId> = source.parts.keys().copied().filter(|&block| covered(block)).collect();
    let next = AtomicUsize::new(0);
    let failed = (usize::MAX, ReadError::Failed);
    let outcomes: Vec<Outcome<B>> = std::thread::scope(|scope| {
        let thread = || Builder::new().name(READER.to_owned()).spawn_scoped(scope, || task.work(&blocks, &next));
        let workers: Vec<_> = (0..threads().min(MOST_BLOCKS_AT_A_TIME).min(blocks.len())).map(|_| thread()).collect();
        let outcome = |worker: Result<_, _>| match worker.map(ScopedJoinHandle::join) {
            Ok(Ok(outcome)) => outcome,
            _ => Err(failed.clone()),
        };
        workers.into_iter().map(outcome).collect()
    });
    merge_in_order(outcomes)
}

/// The blocks that a thread read, or its error, each with the index of the block.
type Outcome<B> = Result<Vec<(usize, [LaneContent<B>; 2])>, (usize, ReadError)>;

/// Merges the results in block order, whichever thread read them, or returns the first block's error.
fn merge_in_order<B>(outcomes: Vec<Outcome<B>>) -> Result<SessionInput<B>, ReadError> {
    let mut done = Vec::new();
    let mut errors = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(some) => done.extend(some),
            Err(error) => errors.push(error),
        }
    }
    if let Some((_, error)) = errors.into_iter().min_by_key(|(index, _)| *index) {
        return Err(error);
    }
    done.sort_by_key(|(index, _)| *index);
    let (mut rows, mut sums) = ([Vec::new(), Vec::new()], Vec::new());
    for (_, settled) in done {
        for (all, settled) in rows.iter_mut().zip(settled) {
            match settled {
                LaneContent::Rows(some) => all.extend(some),
                LaneContent::Summaries(some) => sums.extend(some.into_iter().map(Arc::new)),
            }
        }
    }
    Ok((rows, sums))
}

/// One read under one permit.
struct ReadTask<'a, B> {
    permit: &'a Permit,
    source: &'a Source,
    prepared: &'a PreparedQuery,
    unit: &'a Unit,
    layout: Layout,
    /// The row-wise conversion of a batch.
    shape: &'a (dyn Fn(Batch) -> B + Sync),
    handler: &'a dyn LaneHandler<B>,
}

impl<B: Send> ReadTask<'_, B> {
    fn covers(&self, block: BlockId, lane: Lane) -> bool {
        self.permit.covers(self.source.stream, block, lane)
    }

    /// Reads blocks from the shared list until none is left.
    fn work(&self, blocks: &[BlockId], next: &AtomicUsize) -> Outcome<B> {
        let mut done = Vec::new();
        // Network stores need a runtime; each thread waits for one file at a time.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|_| (usize::MAX, ReadError::Failed))?;
        let mut buffer = Vec::new();
        loop {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let Some(&block) = blocks.get(index) else { return Ok(done) };
            let settled = self.read_block(&runtime, block, &mut buffer).map_err(|error| (index, error))?;
            done.push((index, settled));
        }
    }

    /// Reads the covered lanes of a block.
    fn read_block(
        &self, runtime: &Runtime, block: BlockId, buffer: &mut Vec<u8>,
    ) -> Result<[LaneContent<B>; 2], ReadError> {
        let [train, test] = Lane::BOTH.map(|lane| {
            let covered = self.covers(block, lane);
            let known = covered.then(|| self.handler.cached_summaries(block, lane)).flatten();
            (covered && known.is_none(), known)
        });
        let (wanted, [known_train, known_test]) = ([train.0, test.0], [train.1, test.1]);
        let (rows, bytes) = match wanted {
            [false, false] => Default::default(),
            _ => self.read_lanes(runtime, block, wanted, buffer)?,
        };
        let settle = |(index, rows): (usize, Vec<B>), known: Option<Vec<Summary>>| match known {
            Some(sums) => Ok(LaneContent::Summaries(sums)),
            None if wanted[index] => self.handler.handle(block, Lane::BOTH[index], rows, bytes),
            None => Ok(LaneContent::Rows(rows)),
        };
        let [train, test] = rows;
        Ok([settle((0, train), known_train)?, settle((1, test), known_test)?])
    }

    /// Reads these lanes of a block, and returns the rows and the size of its parts in bytes. `buffer` is reused for
    /// the next file.
    fn read_lanes(
        &self, runtime: &Runtime, block: BlockId, wanted: [bool; 2], buffer: &mut Vec<u8>,
    ) -> Result<([Vec<B>; 2], u64), ReadError> {
        let mut batches = [Vec::new(), Vec::new()];
        let mut users = [Vec::new(), Vec::new()];
        let mut bytes = 0;
        for part in self.source.parts.get(&block).into_iter().flatten() {
            let fetched = runtime.block_on(self.fetch(part, std::mem::take(buffer)))?;
            bytes += fetched.len() as u64;
            let decrypt = |part: &Part, bytes: Bytes| self.source.decrypt(part, &bytes);
            let opened = self.layout.open(part, fetched.clone(), &decrypt)?;
            for (index, lane) in Lane::BOTH.into_iter().enumerate() {
                if wanted[index] {
                    for decoded in opened.lane(lane)? {
                        self.evaluate(decoded?, &mut batches[index], &mut users[index])?;
                    }
                }
            }
            drop(opened);
            if fetched.is_unique() {
                *buffer = fetched.into();
            }
        }
        if let Unit::User { most, .. } = self.unit {
            for (lane, (batches, users)) in Lane::BOTH.into_iter().zip(batches.iter_mut().zip(&users)) {
                let grouped = group_by_user(users, *most, &self.handler.sampling_seed(lane))?;
                *batches = grouped.into_iter().map(self.shape).collect();
            }
        }
        Ok((batches, bytes))
    }

    /// Fetches a part. A local file is read into `buffer`.
    async fn fetch(&self, part: &Part, mut buffer: Vec<u8>) -> Result<Bytes, ReadError> {
        let (block, file) = (part.block.clone(), part.file.clone());
        let path = Path::parse(part.path(&self.source.name));
        let Ok(path) = path else { return Err(ReadError::Missing { block, file }) };
        let fetched = match self.source.store.get(&path).await {
            Ok(found) => match found.payload {
                GetResultPayload::File(file, _) => {
                    buffer.clear();
                    buffer.reserve_exact(usize::try_from(found.meta.size).unwrap_or(0));
                    let whole = (&file).read_to_end(&mut buffer);
                    return whole
                        .map(|_| buffer.into())
                        .map_err(|_| ReadError::Unreadable { block, file: part.file.clone() });
                }
                GetResultPayload::Stream(_) => found.bytes().await,
            },
            Err(error) => Err(error),
        };
        fetched.map_err(|error| match error {
            object_store::Error::NotFound { .. } => ReadError::Missing { block, file },
            _ => ReadError::Unreadable { block, file },
        })
    }

    /// Filters decoded rows and computes the query's columns for the rest.
    fn evaluate(&self, decoded: LaneRows, batches: &mut Vec<B>, users: &mut Vec<UserRecords>) -> Result<(), ReadError> {
        let mut rows = decoded.rows;
        let mut user = decoded.user;
        if let Some(kept) = self.prepared.filter_mask(&rows) {
            rows = filter_record_batch(&rows, &kept).map_err(|_| ReadError::Failed)?;
            let filtered = user.map(|user| filter(&user, &kept).map_err(|_| ReadError::Failed));
            user = filtered.transpose()?;
        }
        let columns = self.prepared.outputs(&rows);
        match user {
            None => batches.push((self.shape)(Batch::from_records(&columns, rows.num_rows())?)),
            Some(user) => users.push(UserRecords { user, columns }),
        }
        Ok(())
    }
}
