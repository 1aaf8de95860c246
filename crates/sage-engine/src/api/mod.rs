//! The API of the product: the type [`Engine`], which owns one directory, with one file per group of requests.
//!
//! An [`Engine`] makes changes, and every change is an event of the log before it has an effect. A [`Snapshot`] only
//! reads. Rows are read in one place, [`Engine::open_session`], into a session of the kernel and under a durable grant.
//! The engine must never decide about a budget, draw noise, or put a value of a row into an error message.

pub(crate) mod authority;
pub(crate) mod blocks;
mod census;
mod checkpoint;
mod error;
mod events;
mod ingest;
mod plan_warnings;
pub(crate) mod policy;
mod quarantine;
mod query;
pub(crate) mod releases;
pub(crate) mod rollback_fence;
mod runs;
mod secret;
mod snapshot;
pub(crate) mod submit;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sage_kernel::{Gate, GateError, SummaryKey};
use sage_model::bundle::Predictor;

pub use census::{CensusView, RangeCount, UnitCount};
pub use error::{EngineError, Principal};
pub use events::{EVENT_KINDS, EventView};
pub use ingest::IngestOutcome;
pub use policy::PolicyOutcome;
pub use quarantine::QuarantineView;
pub use query::{QueryCost, QueryPlan, QueryRequest, QueryResult};
pub use releases::{ReleaseView, Shown};
pub use rollback_fence::RollbackFence;
pub use runs::{AttemptOutcome, AttemptView, RunView};
pub use snapshot::{BlockView, LaneView, ProposalView, Snapshot, State, StreamView};
pub use submit::Stopped;

use checkpoint::History;
use rollback_fence::Doubted;

use crate::allocate::Scheduler;
use crate::blocks::{BlockKeys, BlockStore, MasterKeySource, SummaryCache};
use crate::catalog::{Catalog, Note, NoteCollector};
use crate::log::{BoxedLog, Directory, GroupCommit, HeadCheck, Heads, SoundGate};
pub use crate::plan::AttemptLimits;
use crate::plan::Recipe;
use crate::release::ArtifactStore;
use crate::scheduler::queue::Schedule;
use crate::scheduler::wakeups::Wakeups;
use crate::worker::crash::CrashGuard;
use crate::worker::own_code;
use crate::worker::progress::Progress;
use crate::worker::run_loop::Choices;

/// The log as the engine reads it: any store, with the notes that pass through it.
pub(crate) type Store = NoteCollector<BoxedLog>;

/// Options of a directory: where its parts are stored, and how it runs pipelines.
#[derive(Clone, Debug, Default)]
pub struct EngineOptions {
    /// Files on another machine to which heads of the log are exported, so that a rollback of the directory is
    /// detected. If empty, it is not detected.
    pub heads: Vec<PathBuf>,
    /// Where blocks are stored: a directory, or an address such as `s3://bucket/prefix`. `None`: in the directory.
    pub blocks: Option<String>,
    /// The source of the master key that encrypts blocks, summaries and quarantined rows. `None`: they are not
    /// encrypted.
    pub master_key: Option<MasterKeySource>,
    /// The order in which waiting pipelines are served.
    pub scheduler: Scheduler,
    /// Name of the person who accepts the risk of running programs of pipelines without a sandbox. `None`: they run in
    /// a sandbox, or not at all.
    pub uncontained: Option<String>,
    /// Folders that are mounted read-only into the sandbox under the same paths, for example a Python environment.
    pub shown: Vec<PathBuf>,
    /// Limits on the time and memory of one attempt.
    pub limits: AttemptLimits,
    /// The shortest disclosure interval of all streams; a stream file may set a longer one. `None`: one minute.
    pub interval: Option<Duration>,
}

impl EngineOptions {
    /// The address of the blocks of the directory at `path`.
    pub(crate) fn address(&self, path: &Path) -> String {
        self.blocks.clone().unwrap_or_else(|| path.join("blocks").display().to_string())
    }
}

/// The head is exported after this many events.
const EXPORT_EVERY: NonZeroU64 = NonZeroU64::new(1000).expect("not zero");

/// The result of opening a directory.
pub enum Opened {
    /// The directory is ready.
    Ready(Box<Engine>),
    /// The log is older than an exported head, or the directory was restored from a backup, so recent spending is
    /// missing from it. Nothing is granted until an officer has acknowledged this.
    Fenced(Box<RollbackFence>),
}

/// A directory that this process owns, with all operations on it.
pub struct Engine {
    pub(crate) directory: Directory,
    pub(crate) group_commit: GroupCommit<Store>,
    pub(crate) blocks: BlockStore,
    /// Cached block summaries, reused by later attempts.
    pub(crate) sums: SummaryCache,
    /// Authenticates the cached summaries.
    pub(crate) summary_key: SummaryKey,
    pub(crate) catalog: Mutex<Arc<Catalog>>,
    /// The notes from which the catalog is folded.
    pub(crate) history: Mutex<History>,
    pub(crate) options: EngineOptions,
    /// The allocations: how much each run may spend on which block.
    pub(crate) schedule: Mutex<Schedule>,
    /// The files of releases.
    pub(crate) artifacts: ArtifactStore,
    /// Released models that were used for predictions, by digest.
    pub(crate) predictors: Mutex<BTreeMap<String, Arc<Predictor>>>,
    /// The plans of runs that have not ended.
    pub(crate) recipes: Mutex<BTreeMap<u64, Arc<Recipe>>>,
    /// The digests of pipelines that were rehearsed on their stream file.
    pub(crate) rehearsed: Mutex<BTreeSet<[u8; 32]>>,
    /// Runs with an attempt in progress.
    pub(crate) busy: Mutex<BTreeSet<u64>>,
    /// Runs whose situation has changed since they were last evaluated.
    pub(crate) wakeups: Mutex<Wakeups>,
    /// The next attempt of each run that is ready for one.
    pub(crate) choices: Mutex<Choices>,
    /// Progress of the attempts in this process.
    pub(crate) progress: Mutex<Progress>,
    /// The runs that this process works on, recorded for the next start after a crash.
    pub(crate) crash_guard: CrashGuard,
    /// Held while a batch is ingested: the check of a batch's id and its note must not interleave with another batch.
    pub(crate) ingest_lock: Mutex<()>,
    /// When expired rows were last searched for, in milliseconds since 1970.
    pub(crate) expiry_checked: Mutex<Option<u64>>,
}

impl Engine {
    /// Opens a directory, creating it if it is new, and verifies its log.
    ///
    /// Grants that an earlier process had started are burnt, since that process may have read rows under them.
    ///
    /// # Errors
    /// When another process owns the directory, or its log fails verification.
    pub fn open(path: &Path, options: &EngineOptions) -> Result<Opened, EngineError> {
        let directory = Directory::open(path)?;
        let keys = BlockKeys::open(path, options.master_key.as_ref()).map_err(EngineError::Key)?;
        let blocks = BlockStore::open(&options.address(path))?.with_keys(keys.map(Arc::new));
        let (gate, mut history) = checkpoint::open(&directory)?;
        for (number, kind, body) in gate.log().take_below(gate.head().length) {
            if kind == Note::KIND {
                history.push(number, body);
            }
        }
        let log = match Heads::new(options.heads.clone(), EXPORT_EVERY, path).check(gate)? {
            HeadCheck::Sound(log) if rollback_fence::fence(path).exists() => Doubted::Restored(log),
            HeadCheck::Sound(log) => {
                return Ok(Opened::Ready(Box::new(Self::ready(directory, blocks, log, history, options.clone())?)));
            }
            HeadCheck::RolledBack(log) => Doubted::RolledBackGate(log),
        };
        Ok(Opened::Fenced(Box::new(RollbackFence { directory, blocks, log, history, options: options.clone() })))
    }

    fn ready(
        directory: Directory, blocks: BlockStore, mut sound: SoundGate<Store>, history: History, options: EngineOptions,
    ) -> Result<Self, EngineError> {
        sound.burn_running(now())?;
        let group_commit = GroupCommit::new(sound, now);
        let mut schedule = Schedule::new(options.scheduler);
        let catalog = history.fold(|note, catalog| {
            schedule.follow(note, catalog);
        })?;
        let wakeups = Wakeups::of(&catalog);
        let catalog = Mutex::new(Arc::new(catalog));
        let history = Mutex::new(history);
        let artifacts = ArtifactStore::open(directory.path())?;
        let sums = SummaryCache::open(directory.path())?.with_keys(blocks.keys().cloned());
        let summary_key = secret::summary_key(directory.path())?;
        // Rows of programs that were running when the last process stopped; their grants are burnt.
        let scratch = directory.path().join(own_code::SCRATCH);
        if scratch.exists() {
            std::fs::remove_dir_all(&scratch)
                .map_err(|error| EngineError::File(scratch.display().to_string(), error))?;
        }
        let working = |error| EngineError::File("working".to_owned(), error);
        let (crash_guard, quarantined) = CrashGuard::open(directory.path()).map_err(working)?;
        let engine = Self {
            directory,
            group_commit,
            blocks,
            sums,
            summary_key,
            catalog,
            history,
            options,
            schedule: Mutex::new(schedule),
            artifacts,
            predictors: Mutex::default(),
            recipes: Mutex::default(),
            rehearsed: Mutex::default(),
            busy: Mutex::default(),
            wakeups: Mutex::new(wakeups),
            choices: Mutex::default(),
            progress: Mutex::default(),
            crash_guard,
            ingest_lock: Mutex::new(()),
            expiry_checked: Mutex::default(),
        };
        engine.with(|_, _| Ok(()))?;
        quarantined.into_iter().try_for_each(|run| engine.end_crashed(run))?;
        Ok(engine)
    }

    /// Exports the current head of the log, signed, to every configured file.
    ///
    /// # Errors
    /// When it cannot be written. Grants that were made remain valid.
    pub fn export_head(&self) -> Result<(), EngineError> {
        Ok(self.group_commit.export_head()?)
    }

    /// Saves a snapshot if the log has grown much since the last one, exports the head, and releases the directory.
    ///
    /// # Errors
    /// When the head cannot be exported.
    pub fn close(self) -> Result<(), EngineError> {
        self.checkpoint_if_due()?;
        Ok(self.group_commit.close()?)
    }

    /// The path of the directory.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Runs `work` with exclusive access to the gate and the current catalog, then applies the new notes to the
    /// catalog.
    pub(crate) fn with<T>(
        &self, work: impl FnOnce(&mut Gate<Store>, &Arc<Catalog>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.group_commit.with(|gate| {
            let mut catalog = lock(&self.catalog);
            let outcome = work(gate, &catalog);
            for (number, kind, body) in gate.log().take_below(gate.head().length) {
                if kind == Note::KIND {
                    let note = Note::from_bytes(&body).ok_or(EngineError::Catalog { number })?;
                    Arc::make_mut(&mut catalog).apply(note.clone()).map_err(|_| EngineError::Catalog { number })?;
                    let gain = lock(&self.schedule).follow(&note, &catalog);
                    lock(&self.wakeups).follow(&note, &catalog, gain);
                    lock(&self.history).push(number, body);
                }
            }
            outcome
        })?
    }

    /// The current catalog.
    pub(crate) fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&lock(&self.catalog))
    }
}

/// Appends a note, if the catalog allows it.
pub(crate) fn note(gate: &mut Gate<Store>, catalog: &Catalog, note: &Note) -> Result<(), GateError> {
    if !catalog.allows(note) {
        return Err(GateError::NotAllowed);
    }
    gate.note(now(), Note::KIND, note.to_bytes())
}

/// Milliseconds since 1970. The only decision that depends on it is whether rows are past their retention.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// Locks a mutex, also after a panic: the guarded values are consistent at every instruction that could panic.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
