//! A stream's life in small: blocks arrive, pipelines charge them, spent blocks retire.
//!
//! Everything that decides is the kernel's own: the gate, the ledger, the default filter, a log in memory.
//! What is made up is the traffic, drawn from a fixed schedule so that every run is the same. There are no
//! rows and no noise: a grant is started and then burnt, which is what a charge under which nothing leaves
//! comes to.

mod taxi;

use std::fmt;

use sage_kernel::{
    Amounts, Answer, BlockId, Blocks, Ceiling, Component, ContextId, Cost, Delta, Door, Doors, Epsilon, Filter, Gate,
    GateError, Lane, MemoryLog, Policy, Refusal, Request, RequestKey, Rule, Stream, StreamId,
};
use sage_learn::plan::odometer;

/// Days in one line of the story.
pub const DAYS_PER_WEEK: u32 = 7;
const MILLISECONDS_PER_DAY: u64 = 86_400_000;

/// A pipeline that asks for recent blocks again and again.
#[derive(Clone, Debug)]
pub struct Pipeline {
    /// Its name.
    pub name: &'static str,
    /// What it computes, in a few words.
    pub does: &'static str,
    /// How many of the newest blocks that are not retired it asks for.
    pub window: u32,
    /// It runs about once in so many days.
    pub every_days: u32,
    /// What one run costs on the train and on the test lane.
    pub costs: [Option<Cost>; 2],
}

/// The state of one block at the end of a week.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct BlockView {
    /// The share of what its fuller lane can take that is spent, from 0 to 1.
    pub spent_share: f64,
    /// Whether it may never be read again.
    pub retired: bool,
}

/// One simulated week.
#[derive(Clone, Debug, PartialEq)]
pub struct Week {
    /// Its number, from one.
    pub number: u32,
    /// All blocks so far, oldest first.
    pub blocks: Vec<BlockView>,
    /// Charges admitted this week.
    pub admitted: u32,
    /// Requests refused this week.
    pub refused: u32,
    /// Charges taken back this week before they started.
    pub cancelled: u32,
}

/// How the story ends.
#[derive(Clone, Debug, PartialEq)]
pub struct Summary {
    /// Blocks that arrived.
    pub blocks: u32,
    /// Blocks retired.
    pub retired: u32,
    /// Charges admitted.
    pub admitted: u32,
    /// Requests refused.
    pub refused: u32,
    /// Charges taken back before they started.
    pub cancelled: u32,
    /// What the stream has lost: the most that any lane of any block has, at the ceiling's δ.
    pub loss: Epsilon,
    /// The ceiling.
    pub ceiling: Ceiling,
    /// Records in the log, all verified from the first on and leading to the same state.
    pub verified_records: u64,
    /// The hash of the last record.
    pub head: [u8; 32],
    /// The first refusal for want of budget, with the pipeline and the blocks it asked for.
    pub refusal: Option<Refused>,
}

/// A refusal with what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The day, from one.
    pub day: u32,
    /// The pipeline.
    pub pipeline: &'static str,
    /// The blocks it asked for.
    pub blocks: Blocks,
    /// The ledger's answer.
    pub refusal: Refusal,
    /// The blocks it got later that day, if any.
    pub granted_instead: Option<Blocks>,
}

/// Why a simulation cannot go on.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SimulationError {
    /// A number of the scenario is out of its range.
    Scenario,
    /// The gate or its log failed.
    Gate(GateError),
    /// The log read back leads to another state than the one that was charged.
    Mismatch,
}

impl fmt::Display for SimulationError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Scenario => out.write_str("the simulated scenario has a number out of its range"),
            Self::Gate(error) => write!(out, "{error}"),
            Self::Mismatch => out.write_str("the log read back does not lead to the state that was charged"),
        }
    }
}

impl std::error::Error for SimulationError {}

impl From<GateError> for SimulationError {
    fn from(error: GateError) -> Self {
        Self::Gate(error)
    }
}

/// The numbers of a draw that depends on the day and the pipeline alone.
fn schedule(day: u32, pipeline: usize) -> u64 {
    // Two rounds of a multiply-and-fold mix: reproducible everywhere, and no source of noise.
    let mut state = (u64::from(day) << 8 | pipeline as u64).wrapping_add(0x9e37_79b9_7f4a_7c15);
    for factor in [0xbf58_476d_1ce4_e5b9_u64, 0x94d0_49bb_1331_11eb] {
        state = (state ^ (state >> 29)).wrapping_mul(factor);
    }
    state ^ (state >> 32)
}

/// A stream and its pipelines, day by day.
pub struct Simulation {
    gate: Gate<MemoryLog>,
    stream: StreamId,
    filter: Filter,
    pipelines: Vec<Pipeline>,
    /// For each pipeline, what one run comes to under the filter, on each lane it uses.
    prices: Vec<Vec<(Lane, Amounts)>>,
    day: u32,
    counts: [u32; 3],
    refusal: Option<Refused>,
}

const ADMITTED: usize = 0;
const REFUSED: usize = 1;
const CANCELLED: usize = 2;

impl Simulation {
    /// The stream of the demonstration: a ceiling of (1, 10⁻⁶), the default filter and four pipelines.
    ///
    /// # Errors
    /// When the kernel refuses the scenario: a bug.
    pub fn taxi() -> Result<Self, SimulationError> {
        let epsilon = Epsilon::ceiling("1").map_err(|_| SimulationError::Scenario)?;
        let delta = Delta::ceiling("1e-6").map_err(|_| SimulationError::Scenario)?;
        let ceiling = Ceiling { epsilon, delta };
        let filter = Filter::new(Rule::Renyi, ceiling).ok_or(SimulationError::Scenario)?;
        let pipelines = taxi::pipelines().ok_or(SimulationError::Scenario)?;
        let blocks = Blocks::range(0, 0).map_err(|_| SimulationError::Scenario)?;
        let mut prices = Vec::new();
        for pipeline in &pipelines {
            let mut price = Vec::new();
            for (lane, cost) in Lane::BOTH.into_iter().zip(&pipeline.costs) {
                let Some(cost) = cost else { continue };
                let asked = filter.price(cost, lane, &blocks).map_err(|_| SimulationError::Scenario)?;
                price.push((lane, asked));
            }
            prices.push(price);
        }
        let mut gate = Gate::open(MemoryLog::default())?;
        let policy = Policy::single(filter.clone(), Doors::EnforcedOnly);
        let stream = gate.create_stream(0, "taxi", policy)?;
        Ok(Self { gate, stream, filter, pipelines, prices, day: 0, counts: [0; 3], refusal: None })
    }

    /// The pipelines.
    #[must_use]
    pub fn pipelines(&self) -> &[Pipeline] {
        &self.pipelines
    }

    /// The ceiling of the stream.
    #[must_use]
    pub const fn ceiling(&self) -> Ceiling {
        self.filter.ceiling()
    }

    /// Lives through seven more days.
    ///
    /// # Errors
    /// When the log fails.
    pub fn advance_week(&mut self) -> Result<Week, SimulationError> {
        let before = self.counts;
        for _ in 0..DAYS_PER_WEEK {
            self.advance_day()?;
        }
        let of_this_week = |place: usize| self.counts[place] - before[place];
        Ok(Week {
            number: self.day / DAYS_PER_WEEK,
            blocks: self.block_views(),
            admitted: of_this_week(ADMITTED),
            refused: of_this_week(REFUSED),
            cancelled: of_this_week(CANCELLED),
        })
    }

    fn time(&self) -> u64 {
        u64::from(self.day) * MILLISECONDS_PER_DAY
    }

    fn advance_day(&mut self) -> Result<(), SimulationError> {
        self.day += 1;
        let (time, stream) = (self.time(), self.stream);
        self.gate.add_blocks(time, stream, vec![format!("day {}", self.day)])?;
        for place in 0..self.pipelines.len() {
            if schedule(self.day, place).is_multiple_of(u64::from(self.pipelines[place].every_days)) {
                self.run(place)?;
            }
        }
        self.retire_spent()
    }

    /// Asks for the pipeline's window; when refused, for the newer half of it, and so on.
    fn run(&mut self, place: usize) -> Result<(), SimulationError> {
        let mut window = self.pipelines[place].window;
        let mut first_refusal = None;
        while window > 0 {
            let Some(blocks) = self.newest(window) else { break };
            let mut answers = self.gate.charge(self.time(), vec![self.request(place, &blocks)])?;
            match answers.pop() {
                Some(Answer::Granted(grant)) => {
                    self.counts[ADMITTED] += 1;
                    let (time, id) = (self.time(), grant.id());
                    // Now and then somebody changes their mind before anything is read.
                    if schedule(self.day, place) % 23 == 7 {
                        self.counts[CANCELLED] += 1;
                        self.gate.cancel(time, grant)?;
                    } else {
                        self.gate.start(time, grant)?;
                        self.gate.burn(time, id)?;
                    }
                    self.remember(place, first_refusal, Some(blocks));
                    return Ok(());
                }
                Some(Answer::Refused(refusal)) => {
                    self.counts[REFUSED] += 1;
                    first_refusal.get_or_insert((blocks, refusal));
                }
                _ => return Err(SimulationError::Mismatch),
            }
            window /= 2;
        }
        self.remember(place, first_refusal, None);
        Ok(())
    }

    /// Keeps the first refusal for want of budget that ended in a smaller window, or any before one did.
    fn remember(&mut self, place: usize, refused: Option<(Blocks, Refusal)>, granted: Option<Blocks>) {
        let told = self.refusal.as_ref().is_some_and(|told| told.granted_instead.is_some());
        if let (Some((blocks, refusal)), false) = (refused, told)
            && (granted.is_some() || self.refusal.is_none())
        {
            let pipeline = self.pipelines[place].name;
            self.refusal = Some(Refused { day: self.day, pipeline, blocks, refusal, granted_instead: granted });
        }
    }

    fn request(&self, place: usize, blocks: &Blocks) -> Request {
        let pipeline = &self.pipelines[place];
        Request {
            key: RequestKey::from_text(&format!("{} day {} blocks {blocks}", pipeline.name, self.day)),
            stream: self.stream,
            context: ContextId(0),
            blocks: blocks.clone(),
            costs: pipeline.costs.clone(),
            door: Door::Enforced,
            purpose: format!("{}: {}", pipeline.name, pipeline.does),
        }
    }

    fn state(&self) -> Option<&Stream> {
        self.gate.ledger().stream(self.stream)
    }

    /// The newest blocks that are not retired, at most so many.
    fn newest(&self, window: u32) -> Option<Blocks> {
        let stream = self.state()?;
        let open = (0..self.day).rev().filter(|&block| !stream.is_retired(BlockId(block)));
        Blocks::from_ranges(open.take(window as usize).map(|block| (block, block))).ok()
    }

    /// Retires every block on which no pipeline could run even once more.
    fn retire_spent(&mut self) -> Result<(), SimulationError> {
        let Some(stream) = self.state() else { return Err(SimulationError::Mismatch) };
        let fits = |block: BlockId, price: &Vec<(Lane, Amounts)>| {
            price.iter().all(|(lane, asked)| {
                let spent = stream.spent(ContextId(0), block, *lane);
                spent.is_some_and(|spent| self.filter.admits(spent, asked))
            })
        };
        let useless = |&block: &u32| {
            !stream.is_retired(BlockId(block)) && !self.prices.iter().any(|price| fits(BlockId(block), price))
        };
        let done: Vec<(u32, u32)> = (0..self.day).filter(useless).map(|block| (block, block)).collect();
        if let Ok(blocks) = Blocks::from_ranges(done) {
            self.gate.retire(self.time(), self.stream, blocks)?;
        }
        Ok(())
    }

    fn block_views(&self) -> Vec<BlockView> {
        let Some(stream) = self.state() else { return Vec::new() };
        let share = |block: BlockId| {
            let lanes = Lane::BOTH.into_iter().filter_map(|lane| stream.spent(ContextId(0), block, lane));
            lanes.map(|spent| spent_share(&self.filter, spent)).fold(0.0, f64::max)
        };
        (0..self.day)
            .map(BlockId)
            .map(|block| BlockView { spent_share: share(block), retired: stream.is_retired(block) })
            .collect()
    }

    /// Reads the whole log back, verifies it, and adds up.
    ///
    /// # Errors
    /// When the log does not verify, or leads to another state.
    pub fn finish(self) -> Result<Summary, SimulationError> {
        let Some(stream) = self.state() else { return Err(SimulationError::Mismatch) };
        let cells = (0..self.day).flat_map(|block| Lane::BOTH.map(|lane| (BlockId(block), lane)));
        let losses = cells.filter_map(|(block, lane)| stream.spent(ContextId(0), block, lane));
        let loss = losses.map(|spent| odometer(&self.filter, spent)).max().unwrap_or(Epsilon::ZERO);
        let retired = (0..self.day).filter(|&block| stream.is_retired(BlockId(block))).count();
        let state = self.gate.ledger().clone();
        let again = Gate::open(self.gate.into_log())?;
        if *again.ledger() != state {
            return Err(SimulationError::Mismatch);
        }
        Ok(Summary {
            blocks: self.day,
            retired: u32::try_from(retired).unwrap_or(u32::MAX),
            admitted: self.counts[ADMITTED],
            refused: self.counts[REFUSED],
            cancelled: self.counts[CANCELLED],
            loss,
            ceiling: self.filter.ceiling(),
            verified_records: again.head().length,
            head: again.head().hash,
            refusal: self.refusal,
        })
    }
}

/// How full a lane is: of the numbers that must all be within their caps the fullest, of those of which one
/// suffices the emptiest.
fn spent_share(filter: &Filter, spent: &[u128]) -> f64 {
    let (mut required, mut alternative) = (0.0_f64, 1.0_f64);
    for ((component, &cap), &spent) in filter.components().iter().zip(filter.caps()).zip(spent) {
        let share = spent as f64 / cap.max(1) as f64;
        match component {
            Component::Delta => required = required.max(share),
            _ => alternative = alternative.min(share),
        }
    }
    required.max(alternative).clamp(0.0, 1.0)
}
