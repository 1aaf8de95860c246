//! The block reader: the one place where rows leave the block store.
//!
//! It opens the parts of blocks and lanes that the permit covers and no others, and must never give a row
//! to anyone who has no permit. How a part's bytes become rows is in `part`.

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
use super::part::{Decoded, Layout};
use super::query::Prepared;
use super::rows::Batch;
use super::sums::{Summed, Sums};
use super::unit::{Unit, UserRecords, group};
use crate::blocks::{BlockKeys, Part, parts_digest};
use crate::quiet::{READER, silence_readers};
use crate::threads;

/// Where the rows of a stream lie.
pub struct Source {
    stream: StreamId,
    name: String,
    parts: BTreeMap<BlockId, Vec<Part>>,
    store: Arc<dyn ObjectStore>,
    /// The keys of blocks, where parts are encrypted.
    keys: Option<Arc<BlockKeys>>,
}

impl Source {
    /// The stream of this name with these parts, which the log must have named.
    ///
    /// # Errors
    /// When there is no such stream, a part is offered for a block that has another key, or one twice.
    pub fn new(
        ledger: &Ledger, name: &str, parts: impl IntoIterator<Item = (BlockId, Part)>, store: Arc<dyn ObjectStore>,
    ) -> Result<Self, ReadError> {
        let unknown = || ReadError::UnknownStream { stream: name.to_owned() };
        let stream = ledger.stream_named(name).ok_or_else(unknown)?;
        let keys = ledger.stream(stream).ok_or_else(unknown)?.block_keys();
        let mut known: BTreeMap<BlockId, Vec<Part>> = BTreeMap::new();
        for (block, part) in parts {
            // By its number the block is covered, by its key its files are found: both must be the same.
            if keys.get(block.0 as usize) != Some(&part.block) || part.file.contains('/') {
                return Err(ReadError::ForeignPart { block: part.block, file: part.file });
            }
            let parts = known.entry(block).or_default();
            // A part that was read twice would count its rows twice.
            if parts.iter().any(|other| other.file == part.file) {
                return Err(ReadError::Repeated { block: part.block, file: part.file });
            }
            parts.push(part);
        }
        Ok(Self { stream, name: name.to_owned(), parts: known, store, keys: None })
    }

    /// The same source with keys for parts that are encrypted.
    pub(crate) fn with_keys(self, keys: Option<Arc<BlockKeys>>) -> Self {
        Self { keys, ..self }
    }

    /// The bytes of an encrypted part; `None` without its key.
    fn decrypted(&self, part: &Part, bytes: &Bytes) -> Option<Bytes> {
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

    /// A digest of the rows of a block as they are stored.
    pub(super) fn digest(&self, block: BlockId) -> [u8; 32] {
        parts_digest(self.parts.get(&block).map_or(&[], Vec::as_slice))
    }
}

/// Uses up a permit: reads what it covers into a session, with noise from this source.
///
/// # Errors
/// When a file is missing or not what the log says, naming it; `Failed` for whatever could depend on rows.
/// What was charged stays charged.
pub fn open<N: NoiseSource>(
    permit: Permit, noise: N, source: &Source, prepared: &Prepared, unit: &Unit,
) -> Result<Session<Batch, N>, ReadError> {
    permit.open(noise, |permit| read(permit, source, prepared, unit, &|batch| batch))
}

/// As [`open`], where every thread has the kernel sum the blocks that it has read, so that rows are gone as soon as
/// they are counted, and where blocks whose sums are kept are not read for them. On the lanes that are summed the
/// session answers what `sums` are for, with the bits that rows would give, and nothing else.
///
/// `shape` goes row by row, as in [`open_encoded`].
///
/// # Errors
/// As [`open`]; `Failed` if nothing can be summed so.
pub fn open_summed<B: Rows + Send, N: NoiseSource>(
    permit: Permit, noise: N, source: &Source, prepared: &Prepared, unit: &Unit, shape: &(dyn Fn(Batch) -> B + Sync),
    sums: &Sums<'_, B>,
) -> Result<Session<B, N>, ReadError> {
    permit.open_with_summaries(noise, sums.tag(), |permit| {
        read_and(permit, source, prepared, unit, shape, &Summed { permit, source, sums })
    })
}

/// As [`open`], with every batch encoded on the way, so that what is not in the encoding takes no memory.
///
/// `encode` goes row by row: what becomes of a row depends on that row and on released or public things. A row may be
/// left out, as by a filter, and none appears. [`encoded`] is how it is done.
///
/// # Errors
/// As [`open`].
pub fn open_encoded<N: NoiseSource>(
    permit: Permit, noise: N, source: &Source, prepared: &Prepared, unit: &Unit,
    encode: &(dyn Fn(Batch) -> Encoded + Sync),
) -> Result<Session<Encoded, N>, ReadError> {
    permit.open(noise, |permit| read(permit, source, prepared, unit, encode))
}

/// The rows of a batch that the encoding takes, encoded. A unit of several records is taken by its first.
pub fn encoded(batch: &Batch, encoding: &Encoding) -> Encoded {
    encoding.encode((0..batch.count()).map(|place| batch.row(place).record()))
}

/// What becomes of the rows of one lane of one block.
pub(super) enum Settled<B> {
    /// They go into the session.
    Rows(Vec<B>),
    /// Their sums do, each of all of them.
    Sums(Vec<Summary>),
}

/// Decides what becomes of rows, a lane of a block at a time.
pub(super) trait Fate<B>: Sync {
    /// Sums in the stead of rows, which then need not be read.
    fn known(&self, block: BlockId, lane: Lane) -> Option<Vec<Summary>>;

    /// What becomes of rows that were read from so many bytes.
    fn settle(&self, block: BlockId, lane: Lane, rows: Vec<B>, bytes: u64) -> Result<Settled<B>, ReadError>;

    /// What the draw of a user's records goes by.
    fn draw(&self, lane: Lane) -> Vec<u8>;
}

/// All rows go into the session of this permit.
struct AsRows<'a>(&'a Permit);

impl<B> Fate<B> for AsRows<'_> {
    fn known(&self, _: BlockId, _: Lane) -> Option<Vec<Summary>> {
        None
    }

    fn settle(&self, _: BlockId, _: Lane, rows: Vec<B>, _: u64) -> Result<Settled<B>, ReadError> {
        Ok(Settled::Rows(rows))
    }

    fn draw(&self, _: Lane) -> Vec<u8> {
        self.0.grant().0.to_le_bytes().to_vec()
    }
}

/// Rows by lane, and sums that stand for others.
type Everything<B> = ([Vec<B>; 2], Vec<Arc<Summary>>);

/// Private, so that rows go into the session and nowhere else.
fn read<B: Send>(
    permit: &Permit, source: &Source, prepared: &Prepared, unit: &Unit, shape: &(dyn Fn(Batch) -> B + Sync),
) -> Result<[Vec<B>; 2], ReadError> {
    read_and(permit, source, prepared, unit, shape, &AsRows(permit)).map(|(rows, _)| rows)
}

/// As [`read`], and settles what becomes of the rows of a block on the thread that read them.
fn read_and<B: Send>(
    permit: &Permit, source: &Source, prepared: &Prepared, unit: &Unit, shape: &(dyn Fn(Batch) -> B + Sync),
    fate: &dyn Fate<B>,
) -> Result<Everything<B>, ReadError> {
    if permit.stream() != source.stream {
        return Err(ReadError::OtherStream);
    }
    silence_readers();
    let layout = Layout::new(prepared, unit)?;
    let reading = Reading { permit, source, prepared, unit, layout, shape, fate };
    let covered = |block: BlockId| Lane::BOTH.into_iter().any(|lane| reading.covers(block, lane));
    let blocks: Vec<BlockId> = source.parts.keys().copied().filter(|&block| covered(block)).collect();
    let next = AtomicUsize::new(0);
    let failed = (usize::MAX, ReadError::Failed);
    let outcomes: Vec<Outcome<B>> = std::thread::scope(|scope| {
        let thread = || Builder::new().name(READER.to_owned()).spawn_scoped(scope, || reading.work(&blocks, &next));
        let workers: Vec<_> = (0..threads().min(blocks.len())).map(|_| thread()).collect();
        let outcome = |worker: Result<_, _>| match worker.map(ScopedJoinHandle::join) {
            Ok(Ok(outcome)) => outcome,
            _ => Err(failed.clone()),
        };
        workers.into_iter().map(outcome).collect()
    });
    in_order(outcomes)
}

/// What a thread read, or where it stopped: each with the block's place in the list.
type Outcome<B> = Result<Vec<(usize, [Settled<B>; 2])>, (usize, ReadError)>;

/// The rows in the order of the blocks, whichever thread read them; or the first block's error.
fn in_order<B>(outcomes: Vec<Outcome<B>>) -> Result<Everything<B>, ReadError> {
    let mut done = Vec::new();
    let mut errors = Vec::new();
    for outcome in outcomes {
        match outcome {
            Ok(some) => done.extend(some),
            Err(error) => errors.push(error),
        }
    }
    if let Some((_, error)) = errors.into_iter().min_by_key(|(place, _)| *place) {
        return Err(error);
    }
    done.sort_by_key(|(place, _)| *place);
    let (mut rows, mut sums) = ([Vec::new(), Vec::new()], Vec::new());
    for (_, settled) in done {
        for (all, settled) in rows.iter_mut().zip(settled) {
            match settled {
                Settled::Rows(some) => all.extend(some),
                Settled::Sums(some) => sums.extend(some.into_iter().map(Arc::new)),
            }
        }
    }
    Ok((rows, sums))
}

/// One reading under one permit.
struct Reading<'a, B> {
    permit: &'a Permit,
    source: &'a Source,
    prepared: &'a Prepared,
    unit: &'a Unit,
    layout: Layout,
    /// What a batch becomes, row by row.
    shape: &'a (dyn Fn(Batch) -> B + Sync),
    fate: &'a dyn Fate<B>,
}

impl<B: Send> Reading<'_, B> {
    fn covers(&self, block: BlockId, lane: Lane) -> bool {
        self.permit.covers(self.source.stream, block, lane)
    }

    /// Takes blocks off the list until none is left.
    fn work(&self, blocks: &[BlockId], next: &AtomicUsize) -> Outcome<B> {
        let mut done = Vec::new();
        // Stores over a network need a runtime; here it waits for one file at a time.
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|_| (usize::MAX, ReadError::Failed))?;
        let mut room = Vec::new();
        loop {
            let place = next.fetch_add(1, Ordering::Relaxed);
            let Some(&block) = blocks.get(place) else { return Ok(done) };
            let settled = self.block(&runtime, block, &mut room).map_err(|error| (place, error))?;
            done.push((place, settled));
        }
    }

    /// The covered lanes of a block.
    fn block(&self, runtime: &Runtime, block: BlockId, room: &mut Vec<u8>) -> Result<[Settled<B>; 2], ReadError> {
        let [train, test] = Lane::BOTH.map(|lane| {
            let covered = self.covers(block, lane);
            let known = covered.then(|| self.fate.known(block, lane)).flatten();
            (covered && known.is_none(), known)
        });
        let (wanted, [known_train, known_test]) = ([train.0, test.0], [train.1, test.1]);
        let (rows, bytes) = match wanted {
            [false, false] => Default::default(),
            _ => self.lanes(runtime, block, wanted, room)?,
        };
        let settle = |(place, rows): (usize, Vec<B>), known: Option<Vec<Summary>>| match known {
            Some(sums) => Ok(Settled::Sums(sums)),
            None if wanted[place] => self.fate.settle(block, Lane::BOTH[place], rows, bytes),
            None => Ok(Settled::Rows(rows)),
        };
        let [train, test] = rows;
        Ok([settle((0, train), known_train)?, settle((1, test), known_test)?])
    }

    /// The rows of these lanes of a block, and how many bytes its parts have. Files are read into room that the next
    /// one takes over.
    fn lanes(
        &self, runtime: &Runtime, block: BlockId, wanted: [bool; 2], room: &mut Vec<u8>,
    ) -> Result<([Vec<B>; 2], u64), ReadError> {
        let mut batches = [Vec::new(), Vec::new()];
        let mut users = [Vec::new(), Vec::new()];
        let mut bytes = 0;
        for part in self.source.parts.get(&block).into_iter().flatten() {
            let fetched = runtime.block_on(self.fetch(part, std::mem::take(room)))?;
            bytes += fetched.len() as u64;
            let decrypt = |part: &Part, bytes: Bytes| self.source.decrypted(part, &bytes);
            let opened = self.layout.open(part, fetched.clone(), &decrypt)?;
            for (place, lane) in Lane::BOTH.into_iter().enumerate() {
                if wanted[place] {
                    for decoded in opened.lane(lane)? {
                        self.evaluate(decoded?, &mut batches[place], &mut users[place])?;
                    }
                }
            }
            drop(opened);
            if fetched.is_unique() {
                *room = fetched.into();
            }
        }
        if let Unit::User { most, .. } = self.unit {
            for (lane, (batches, users)) in Lane::BOTH.into_iter().zip(batches.iter_mut().zip(&users)) {
                let grouped = group(users, *most, &self.fate.draw(lane))?;
                *batches = grouped.into_iter().map(self.shape).collect();
            }
        }
        Ok((batches, bytes))
    }

    /// The bytes of a part; those of a local file in this room.
    async fn fetch(&self, part: &Part, mut room: Vec<u8>) -> Result<Bytes, ReadError> {
        let (block, file) = (part.block.clone(), part.file.clone());
        let path = Path::parse(part.path(&self.source.name));
        let Ok(path) = path else { return Err(ReadError::Missing { block, file }) };
        let fetched = match self.source.store.get(&path).await {
            Ok(found) => match found.payload {
                GetResultPayload::File(file, _) => {
                    room.clear();
                    room.reserve_exact(usize::try_from(found.meta.size).unwrap_or(0));
                    let whole = (&file).read_to_end(&mut room);
                    return whole
                        .map(|_| room.into())
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

    /// Filters decoded rows and computes the query's columns for those that are left.
    fn evaluate(&self, decoded: Decoded, batches: &mut Vec<B>, users: &mut Vec<UserRecords>) -> Result<(), ReadError> {
        let mut rows = decoded.rows;
        let mut user = decoded.user;
        if let Some(kept) = self.prepared.kept(&rows) {
            rows = filter_record_batch(&rows, &kept).map_err(|_| ReadError::Failed)?;
            let filtered = user.map(|user| filter(&user, &kept).map_err(|_| ReadError::Failed));
            user = filtered.transpose()?;
        }
        let columns = self.prepared.outputs(&rows);
        match user {
            None => batches.push((self.shape)(Batch::of_records(&columns, rows.num_rows())?)),
            Some(user) => users.push(UserRecords { user, columns }),
        }
        Ok(())
    }
}
