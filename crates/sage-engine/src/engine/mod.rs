//! The engine: one directory, opened by one process, with everything the product does behind one type.
//!
//! An [`Engine`] changes things, and every change is an event of the log before it has an effect. A
//! [`Snapshot`] only looks. Rows come out in one place, [`Engine::open_session`], into a session of the
//! kernel, under a grant that is durable. It must never decide about a budget, draw noise, or say in an
//! error what is in a row.

mod agenda;
mod attempt;
mod authority;
mod blocks;
mod ceilings;
mod census;
mod charge;
mod checkpoint;
mod choose;
mod code;
mod crash;
mod drive;
mod error;
mod events;
mod feed;
#[cfg(target_os = "linux")]
mod flight;
#[cfg(not(target_os = "linux"))]
#[path = "no_flight.rs"]
mod flight;
mod grant;
mod hold;
mod offers;
mod own_code;
mod policy;
mod printed;
mod progress;
pub(crate) mod put_back;
mod quarantine;
mod query;
mod releases;
mod relief;
mod rival;
mod runs;
mod secret;
mod shares;
mod snapshot;
mod submit;
mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sage_kernel::{Gate, GateError, SummaryKey};
use sage_learn::bundle::Predictor;

pub use census::{CensusView, RangeCount, UnitCount};
pub use drive::Job;
pub use error::{EngineError, Principal};
pub use events::{EVENT_KINDS, EventView};
pub use feed::Fed;
pub use grant::{Ask, Granted};
pub(crate) use offers::{Reach, left_of_lane};
pub use policy::PolicyOutcome;
pub use progress::ProgressView;
pub use put_back::PutBack;
pub use quarantine::QuarantineView;
pub use query::{QueryAnswer, QueryAsk, QueryCost, QueryPlan};
pub use releases::{ReleaseView, Shown};
pub use relief::Relief;
pub use runs::{AttemptOutcome, AttemptView, RunView};
pub use shares::THOUSANDTHS;
pub use snapshot::{BlockView, LaneView, ProposalView, Snapshot, State, StreamView};
pub use submit::Stopped;
pub use waiting::Waiting;

use agenda::Agenda;
use checkpoint::History;
use crash::CrashGuard;
use drive::Choices;
use progress::Progress;
use put_back::Doubted;

use crate::allocate::Scheduler;
use crate::blocks::{BlockKeys, BlockStore, KeptSums, MasterKeySource};
use crate::catalog::{Catalog, Note, Noted};
use crate::log::{Checked, Desk, Directory, Heads, Sound, SqliteLog};
pub use crate::plan::AttemptLimits;
use crate::plan::Recipe;
use crate::release::Shelf;
use crate::schedule::Schedule;

type Store = Noted<SqliteLog>;

/// Where things are, beyond the directory.
#[derive(Clone, Debug, Default)]
pub struct Places {
    /// Files elsewhere to which heads of the log are exported, so that a directory put back from an old copy
    /// is noticed. None: it is not.
    pub heads: Vec<PathBuf>,
    /// Where blocks are kept: a directory, or an address such as `s3://bucket/prefix`. None: in the directory.
    pub blocks: Option<String>,
    /// Where the master key comes from under which blocks, summaries and quarantined rows are encrypted. None: they
    /// are not.
    pub master_key: Option<MasterKeySource>,
    /// Whose turn it is where many pipelines wait.
    pub scheduler: Scheduler,
    /// Who decided that programs of pipelines are run without a box. None: they are run in one, or not at all.
    pub uncontained: Option<String>,
    /// Folders that programs of pipelines are shown in their box, read-only and under the same paths, such as one with
    /// an environment of Python.
    pub shown: Vec<PathBuf>,
    /// What one attempt of any pipeline may use of the machine.
    pub limits: AttemptLimits,
    /// The least disclosure interval of all streams; a stream's file may ask for a longer one. None: a minute.
    pub interval: Option<Duration>,
}

impl Places {
    /// Where the blocks of the directory at this path are.
    pub(crate) fn address(&self, path: &Path) -> String {
        self.blocks.clone().unwrap_or_else(|| path.join("blocks").display().to_string())
    }
}

/// How often the head is exported, in events.
const EXPORT_EVERY: NonZeroU64 = NonZeroU64::new(1000).expect("not zero");

/// What opening a directory came to.
pub enum Opened {
    /// All is well.
    Ready(Box<Engine>),
    /// The log is older than a head that was exported from it, or the directory was restored from a backup: what was
    /// spent since is forgotten. Nothing is granted until an officer has acknowledged that.
    PutBack(Box<PutBack>),
}

/// A directory that this process owns, and what can be done with it.
pub struct Engine {
    directory: Directory,
    desk: Desk<Store>,
    blocks: BlockStore,
    /// Sums of blocks, from one attempt to the next.
    sums: KeptSums,
    /// Authenticates the summaries among them.
    summary_key: SummaryKey,
    catalog: Mutex<Arc<Catalog>>,
    /// The notes that the catalog is a fold of.
    history: Mutex<History>,
    places: Places,
    /// Who may ask for what.
    schedule: Mutex<Schedule>,
    /// Where releases lie.
    shelf: Shelf,
    /// Released models that were asked, by their digests.
    predictors: Mutex<BTreeMap<String, Arc<Predictor>>>,
    /// What was worked out of the pipelines of runs that are not over.
    recipes: Mutex<BTreeMap<u64, Arc<Recipe>>>,
    /// Runs of which an attempt is being performed.
    busy: Mutex<BTreeSet<u64>>,
    /// Runs whose situation changed since they were looked at.
    agenda: Mutex<Agenda>,
    /// What runs would do if it were their turn.
    choices: Mutex<Choices>,
    /// How far attempts are.
    progress: Mutex<Progress>,
    /// The runs that this process works on, for the start after a crash.
    crash_guard: CrashGuard,
    /// One batch at a time: who checks a batch's name must be the one to write it down.
    feeding: Mutex<()>,
    /// When the loop last looked for rows whose retention is over, in milliseconds since 1970.
    expiry_looked: Mutex<Option<u64>>,
}

impl Engine {
    /// Opens a directory, making it if it is new, and verifies its log.
    ///
    /// Grants that an earlier process had started are burnt: what it may have read cannot be unread.
    ///
    /// # Errors
    /// When another process has it, or its log is not what was written.
    pub fn open(path: &Path, places: &Places) -> Result<Opened, EngineError> {
        let directory = Directory::open(path)?;
        let keys = BlockKeys::open(path, places.master_key.as_ref()).map_err(EngineError::Key)?;
        let blocks = BlockStore::open(&places.address(path))?.with_keys(keys.map(Arc::new));
        let (gate, mut history) = checkpoint::open(&directory)?;
        for (number, kind, body) in gate.log().take_below(gate.head().length) {
            if kind == Note::KIND {
                history.push(number, body);
            }
        }
        let log = match Heads::new(places.heads.clone(), EXPORT_EVERY, path).check(gate)? {
            Checked::Sound(log) if put_back::fence(path).exists() => Doubted::Restored(log),
            Checked::Sound(log) => {
                return Ok(Opened::Ready(Box::new(Self::ready(directory, blocks, log, history, places.clone())?)));
            }
            Checked::RolledBack(log) => Doubted::RolledBack(log),
        };
        Ok(Opened::PutBack(Box::new(PutBack { directory, blocks, log, history, places: places.clone() })))
    }

    fn ready(
        directory: Directory, blocks: BlockStore, mut sound: Sound<Store>, history: History, places: Places,
    ) -> Result<Self, EngineError> {
        sound.burn_running(now())?;
        let desk = Desk::new(sound, now);
        let mut schedule = Schedule::new(places.scheduler);
        let catalog = history.fold(|note, catalog| {
            schedule.follow(note, catalog);
        })?;
        let agenda = Agenda::of(&catalog);
        let catalog = Mutex::new(Arc::new(catalog));
        let history = Mutex::new(history);
        let shelf = Shelf::open(directory.path())?;
        let sums = KeptSums::open(directory.path())?.with_keys(blocks.keys().cloned());
        let summary_key = secret::summary_key(directory.path())?;
        // Rows of programs that were under way; a grant that was started is burnt.
        let scratch = directory.path().join(own_code::SCRATCH);
        if scratch.exists() {
            std::fs::remove_dir_all(&scratch)
                .map_err(|error| EngineError::File(scratch.display().to_string(), error))?;
        }
        let working = |error| EngineError::File("working".to_owned(), error);
        let (crash_guard, quarantined) = CrashGuard::open(directory.path()).map_err(working)?;
        let engine = Self {
            directory,
            desk,
            blocks,
            sums,
            summary_key,
            catalog,
            history,
            places,
            schedule: Mutex::new(schedule),
            shelf,
            predictors: Mutex::default(),
            recipes: Mutex::default(),
            busy: Mutex::default(),
            agenda: Mutex::new(agenda),
            choices: Mutex::default(),
            progress: Mutex::default(),
            crash_guard,
            feeding: Mutex::new(()),
            expiry_looked: Mutex::default(),
        };
        engine.with(|_, _| Ok(()))?;
        quarantined.into_iter().try_for_each(|run| engine.end_crashed(run))?;
        Ok(engine)
    }

    /// Exports the head of the log as it is now, signed, to every place that was named for it.
    ///
    /// # Errors
    /// When it cannot be written. What was granted stays granted.
    pub fn export_head(&self) -> Result<(), EngineError> {
        Ok(self.desk.export_head()?)
    }

    /// Keeps a snapshot if the log has grown much since the last, exports the head, and gives the directory up.
    ///
    /// # Errors
    /// When the head cannot be exported.
    pub fn close(self) -> Result<(), EngineError> {
        self.checkpoint_if_due()?;
        Ok(self.desk.close()?)
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.directory.path()
    }

    /// Does something with the gate and the catalog as it is, while nobody else does; then the catalog takes
    /// in what was written.
    fn with<T>(
        &self, work: impl FnOnce(&mut Gate<Store>, &Arc<Catalog>) -> Result<T, EngineError>,
    ) -> Result<T, EngineError> {
        self.desk.with(|gate| {
            let mut catalog = lock(&self.catalog);
            let outcome = work(gate, &catalog);
            for (number, kind, body) in gate.log().take_below(gate.head().length) {
                if kind == Note::KIND {
                    let note = Note::from_bytes(&body).ok_or(EngineError::Catalog { number })?;
                    Arc::make_mut(&mut catalog).apply(note.clone()).map_err(|_| EngineError::Catalog { number })?;
                    let gain = lock(&self.schedule).follow(&note, &catalog);
                    lock(&self.agenda).follow(&note, &catalog, gain);
                    lock(&self.history).push(number, body);
                }
            }
            outcome
        })?
    }

    /// The catalog as it is now.
    fn catalog(&self) -> Arc<Catalog> {
        Arc::clone(&lock(&self.catalog))
    }
}

/// Writes a note that the catalog allows.
fn note(gate: &mut Gate<Store>, catalog: &Catalog, note: &Note) -> Result<(), GateError> {
    if !catalog.allows(note) {
        return Err(GateError::NotAllowed);
    }
    gate.note(now(), Note::KIND, note.to_bytes())
}

/// Milliseconds since 1970. No decision rests on it but when rows are too old to be kept.
pub(crate) fn now() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(u64::MAX)
}

/// What these mutexes guard is whole at every instruction that could panic.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
