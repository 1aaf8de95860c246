//! One simulation: blocks come, pipelines come, and each is let through, charged and judged as the loop would do it.

use std::collections::{BTreeMap, BTreeSet};

use sage_kernel::{
    Answer, BlockId, Blocks, ContextId, Decision, Door, Doors, Epsilon, Filter, Gate, Lane, MemoryLog, Policy, Request,
    RequestKey, Rule, StreamId,
};
use sage_learn::plan::odometer;

use super::dice::Dice;
use super::story::{Moment, Release, Story};
use super::{Scenario, SimulationError, Way};
use crate::adapt::{self, Action, Attempt, Limits, Offers, Outcome, Phase, Plan, State, Units, Verdict, World};
use crate::allocate::{Allocation, Counting, Event, PipelineId, Resources, Scheduler};
use crate::engine::{Reach, left_of_lane};
use crate::plan::{PricedRelease, price_release};

/// A first attempt takes this part of what a block has, as in the product where a pipeline's file says nothing.
const FIRST_SHARE: u64 = 64;
/// The most blocks of a window, and how often it may double.
const MOST_WINDOW: u32 = 128;
const DOUBLINGS: u32 = 9;

/// A pipeline on its way.
struct Learner {
    state: State,
    difficulty: f64,
    came: u32,
}

/// What a pipeline would do if it were let through.
struct Choice {
    attempt: Attempt,
    blocks: Blocks,
    release: PricedRelease,
    request: Request,
}

/// A stream and its pipelines at one moment.
struct Live<'scenario> {
    scenario: &'scenario Scenario,
    way: Way,
    filter: Filter,
    gate: Gate<MemoryLog>,
    stream: StreamId,
    allocation: Allocation,
    learners: BTreeMap<PipelineId, Learner>,
    /// What is left on each block, on the lane that has less, in units of cost.
    left: Vec<u64>,
    /// Charges by their costs, which are few.
    prices: BTreeMap<u64, Option<PricedRelease>>,
    first_cost: u64,
    time: u32,
    moment: Moment,
    story: Story,
}

/// Lives through a scenario in one way.
///
/// # Errors
/// When the scenario cannot be meant; anything else is a bug.
pub fn live(scenario: &Scenario, way: Way) -> Result<Story, SimulationError> {
    let mut live = Live::new(scenario, way)?;
    let (mut dice, mut next) = (Dice::new(scenario.seed), 0.0);
    let mut number = 0;
    for time in 0..scenario.blocks {
        live.begin(time)?;
        while next <= f64::from(time) {
            next += dice.gap(scenario.rate);
            number += 1;
            live.arrive(PipelineId(number), dice.difficulty())?;
        }
        live.work()?;
        live.end()?;
    }
    live.finish()
}

impl<'scenario> Live<'scenario> {
    fn new(scenario: &'scenario Scenario, way: Way) -> Result<Self, SimulationError> {
        let filter = scenario.filter()?;
        let capacity = Resources::of_block(&filter).ok_or(SimulationError::Mismatch)?.loss(Lane::Train);
        let counting = match scenario.rule {
            Rule::Renyi => Counting::Primary,
            _ => Counting::Every { smallest: Resources::ZERO },
        };
        let mut gate = Gate::open(MemoryLog::default())?;
        let stream = gate.create_stream(0, "simulated", Policy::single(filter.clone(), Doors::EnforcedOnly))?;
        let story = Story {
            releases: Vec::new(),
            moments: Vec::new(),
            starved: Vec::new(),
            attempts: 0,
            loss: Epsilon::ZERO,
            spent_share: 0.0,
            verified_events: 0,
        };
        Ok(Self {
            scenario,
            way,
            filter,
            gate,
            stream,
            allocation: Allocation::new(way.scheduler, counting),
            learners: BTreeMap::new(),
            left: Vec::new(),
            prices: BTreeMap::new(),
            first_cost: (capacity / FIRST_SHARE).max(1),
            time: 0,
            moment: Moment::default(),
            story,
        })
    }

    fn apply(&mut self, event: Event) -> Result<(), SimulationError> {
        self.allocation.apply(event).map_err(|_| SimulationError::Mismatch)
    }

    /// A tick of the clock brings a block.
    fn begin(&mut self, time: u32) -> Result<(), SimulationError> {
        self.time = time;
        self.apply(Event::Tick { time: u64::from(time) })?;
        self.gate.add_blocks(u64::from(time), self.stream, vec![format!("block {time}")])?;
        let capacity = Resources::of_block(&self.filter).ok_or(SimulationError::Mismatch)?;
        self.left.push(capacity.loss(Lane::Train));
        self.apply(Event::Block { capacity })
    }

    fn arrive(&mut self, pipeline: PipelineId, difficulty: f64) -> Result<(), SimulationError> {
        let deadline = self.scenario.patience.map(|patience| u64::from(self.time) + u64::from(patience));
        let capacity = Resources::of_block(&self.filter).ok_or(SimulationError::Mismatch)?.loss(Lane::Train);
        let limits =
            Limits { cost: capacity, window: MOST_WINDOW, attempts: None, data_doublings: DOUBLINGS, deadline };
        let units = if self.filter.rule() == Rule::Basic { Units::Epsilon } else { Units::Share };
        let plan = Plan::new((self.first_cost, 1), limits, units).map_err(SimulationError::Plan)?;
        let state = State::new(plan.by(self.way.strategy, self.way.mode));
        self.learners.insert(pipeline, Learner { state, difficulty, came: self.time });
        self.moment.came += 1;
        self.apply(Event::Arrive { pipelines: vec![pipeline] })?;
        self.need(pipeline)
    }

    /// Attempts are made until every pipeline waits or is over.
    fn work(&mut self) -> Result<(), SimulationError> {
        let mut looked_at: BTreeSet<PipelineId> = self.learners.keys().copied().collect();
        let mut choices: BTreeMap<PipelineId, Choice> = BTreeMap::new();
        // Those whose choices were made before the last attempt.
        let mut old: BTreeSet<PipelineId> = BTreeSet::new();
        while !looked_at.is_empty() {
            let mut somebody_left = false;
            for pipeline in std::mem::take(&mut looked_at) {
                choices.remove(&pipeline);
                old.remove(&pipeline);
                match self.choose(pipeline)? {
                    Chosen::Nothing => self.apply(Event::Withdraw { pipeline })?,
                    Chosen::Over => somebody_left = true,
                    Chosen::Choice(choice) => {
                        let (blocks, cost) = (choice.blocks.clone(), choice.release.resources);
                        self.apply(Event::Ask { pipeline, blocks, cost })?;
                        choices.insert(pipeline, *choice);
                    }
                }
            }
            let ready = self.allocation.ready();
            // Where nobody's own reservations are enough, one borrows.
            let borrower = ready.is_empty().then(|| self.allocation.borrower(|id| choices.contains_key(&id))).flatten();
            for pipeline in ready.into_iter().chain(borrower) {
                let Some(choice) = choices.remove(&pipeline) else { continue };
                somebody_left |= self.attempt(pipeline, choice)?;
                looked_at.insert(pipeline);
                old.extend(choices.keys());
            }
            // What somebody leaves behind is for all who wait. A choice is made anew when nobody else can go on.
            if somebody_left {
                looked_at.extend(self.learners.keys().filter(|pipeline| !choices.contains_key(pipeline)));
            }
            looked_at.retain(|pipeline| self.learners.contains_key(pipeline));
            old.retain(|pipeline| self.learners.contains_key(pipeline));
            // Where nobody can borrow either, choices of before may be made otherwise now.
            if looked_at.is_empty() {
                looked_at.append(&mut old);
            }
        }
        Ok(())
    }

    /// What a pipeline would do now, as far as its allocation and the ledger would let it.
    fn choose(&mut self, pipeline: PipelineId) -> Result<Chosen, SimulationError> {
        let mut offered = self.offered(pipeline, Reach::Reserved);
        let mut action = self.next_action(pipeline, &offered, Offers::new)?;
        // What is promised takes a look at all that wait, so what is left is looked at before.
        if matches!(action, Action::Wait(_)) && self.way.scheduler == Scheduler::EvenSplit {
            let unspent = self.offered(pipeline, Reach::Unspent);
            if !matches!(self.next_action(pipeline, &unspent, Offers::lent)?, Action::Wait(_)) {
                offered = self.offered(pipeline, Reach::Spare);
                action = self.next_action(pipeline, &offered, Offers::lent)?;
            }
        }
        let attempt = match action {
            Action::Choose(attempt) => attempt,
            Action::Stop(end) => {
                self.step(pipeline, adapt::Event::Ended(end))?;
                return Ok(Chosen::Over);
            }
            _ => return Ok(Chosen::Nothing),
        };
        let newest = offered.iter().rev().filter(|(_, offer)| *offer >= attempt.cost);
        let places = newest.take(attempt.window as usize).map(|(block, _)| (block.0, block.0));
        let blocks = Blocks::from_ranges(places).map_err(|_| SimulationError::Mismatch)?;
        let Some(release) = self.release(attempt.cost) else { return Ok(Chosen::Nothing) };
        let request = Request {
            key: RequestKey::from_text(&format!("pipeline {} choice {}", pipeline.0, attempt.serial)),
            stream: self.stream,
            context: ContextId(0),
            blocks: blocks.clone(),
            costs: [Some(release.cost.clone()), Some(release.cost.clone())],
            door: Door::Enforced,
            purpose: format!("pipeline {}", pipeline.0),
        };
        let admitted = matches!(self.gate.ledger().decide(&request), Decision::Admitted(_));
        let choice = Choice { attempt, blocks, release, request };
        Ok(if admitted { Chosen::Choice(Box::new(choice)) } else { Chosen::Nothing })
    }

    /// What a pipeline may spend on each block.
    fn offered(&self, pipeline: PipelineId, reach: Reach) -> Vec<(BlockId, u64)> {
        let blocks = (0..=self.time).map(BlockId).filter(|block| self.allocation.is_retired(*block) == Some(false));
        let offer = |block: BlockId| {
            let offer = reach.of(&self.allocation, pipeline, block);
            let least = offer.loss(Lane::Train).min(offer.loss(Lane::Test));
            (block, least.min(self.left[block.0 as usize]))
        };
        blocks.map(offer).collect()
    }

    fn next_action(
        &self, pipeline: PipelineId, offered: &[(BlockId, u64)], kind: fn(Vec<u64>) -> Offers,
    ) -> Result<Action, SimulationError> {
        let Some(learner) = self.learners.get(&pipeline) else { return Err(SimulationError::Mismatch) };
        let offers = kind(offered.iter().map(|(_, offer)| *offer).collect());
        Ok(learner.state.next(World { time: u64::from(self.time), offers: &offers }))
    }

    /// Tells the allocation what the next attempt of a pipeline that waits costs.
    fn need(&mut self, pipeline: PipelineId) -> Result<(), SimulationError> {
        let Some(learner) = self.learners.get(&pipeline) else { return Ok(()) };
        let next = learner.state.next(World { time: 0, offers: &Offers::default() });
        let Action::Wait(wanted) = next else { return self.apply(Event::Need { pipeline, cost: None }) };
        let release = self.release(wanted.cost);
        self.apply(Event::Need { pipeline, cost: release.map(|release| release.resources) })
    }

    /// What a cost buys.
    fn release(&mut self, cost: u64) -> Option<PricedRelease> {
        let filter = &self.filter;
        self.prices.entry(cost).or_insert_with(|| price_release(filter, cost)).clone()
    }

    /// Charges an attempt and judges it; whether its pipeline is over then.
    fn attempt(&mut self, pipeline: PipelineId, choice: Choice) -> Result<bool, SimulationError> {
        let Choice { attempt, blocks, release, request } = choice;
        let time = u64::from(self.time);
        self.step(pipeline, adapt::Event::Chosen(attempt))?;
        match self.gate.charge(time, vec![request])?.pop() {
            Some(Answer::Granted(grant)) => {
                let id = grant.id();
                self.gate.start(time, grant)?;
                self.gate.burn(time, id)?;
            }
            // Others were let through first; it chooses anew.
            Some(Answer::Refused(_)) => {
                self.apply(Event::Withdraw { pipeline })?;
                self.step(pipeline, adapt::Event::Refused)?;
                return Ok(false);
            }
            _ => return Err(SimulationError::Mismatch),
        }
        self.story.attempts += 1;
        self.step(pipeline, adapt::Event::Charged)?;
        let places = || blocks.ranges().iter().flat_map(|range| range.first().0..=range.last().0);
        for place in places() {
            self.left[place as usize] = self.left_on(BlockId(place));
        }
        let cost = release.resources;
        if self.allocation.apply(Event::Spend { pipeline, blocks: blocks.clone(), cost }).is_err() {
            self.apply(Event::Borrow { pipeline, blocks, cost })?;
        }
        let Some(learner) = self.learners.get(&pipeline) else { return Err(SimulationError::Mismatch) };
        let rows = self.scenario.rows * f64::from(attempt.window);
        let met = self.scenario.need.is_met(learner.difficulty, rows, release.noise);
        let verdict = if met { Verdict::Accept } else { Verdict::Retry };
        let over = self.step(pipeline, adapt::Event::Judged(verdict))?;
        self.need(pipeline)?;
        Ok(over)
    }

    /// Takes in what happened to a pipeline; whether it is over then.
    fn step(&mut self, pipeline: PipelineId, event: adapt::Event) -> Result<bool, SimulationError> {
        let learner = self.learners.get_mut(&pipeline).ok_or(SimulationError::Mismatch)?;
        learner.state = learner.state.clone().step(event).map_err(|_| SimulationError::Mismatch)?;
        let Phase::Over(outcome) = learner.state.phase() else { return Ok(false) };
        let (came, attempts) = (learner.came, learner.state.attempts());
        if outcome == Outcome::Accepted {
            self.moment.released += 1;
            self.story.releases.push(Release { came, at: self.time, attempts });
        } else {
            self.moment.gave_up += 1;
        }
        self.learners.remove(&pipeline);
        self.apply(Event::Leave { pipeline })?;
        Ok(true)
    }

    /// What is left on a block, on the lane that has less.
    fn left_on(&self, block: BlockId) -> u64 {
        let Some(stream) = self.gate.ledger().stream(self.stream) else { return 0 };
        let lanes = Lane::BOTH.map(|lane| stream.spent(ContextId(0), block, lane).unwrap_or_default());
        lanes.iter().map(|spent| left_of_lane(&self.filter, spent)).min().unwrap_or(0)
    }

    /// Retires blocks of which too little is left, and writes down how things stand.
    fn end(&mut self) -> Result<(), SimulationError> {
        let useless = |place: &u32| {
            self.left[*place as usize] < self.first_cost && self.allocation.is_retired(BlockId(*place)) == Some(false)
        };
        let done: Vec<u32> = (0..=self.time).filter(useless).collect();
        if let Ok(blocks) = Blocks::from_ranges(done.iter().map(|place| (*place, *place))) {
            self.gate.retire(u64::from(self.time), self.stream, blocks)?;
        }
        for place in done {
            self.moment.retired += 1;
            self.apply(Event::Retire { block: BlockId(place) })?;
        }
        self.moment.waiting = u32::try_from(self.learners.len()).unwrap_or(u32::MAX);
        self.story.moments.push(self.moment);
        Ok(())
    }

    /// Reads the whole log back, holds it against the ledger, and adds up.
    fn finish(mut self) -> Result<Story, SimulationError> {
        let stream = self.gate.ledger().stream(self.stream).ok_or(SimulationError::Mismatch)?;
        let cells = (0..self.scenario.blocks).flat_map(|block| Lane::BOTH.map(|lane| (BlockId(block), lane)));
        let losses = cells.filter_map(|(block, lane)| stream.spent(ContextId(0), block, lane));
        self.story.loss = losses.map(|spent| odometer(&self.filter, spent)).max().unwrap_or(Epsilon::ZERO);
        let capacity = Resources::of_block(&self.filter).ok_or(SimulationError::Mismatch)?.loss(Lane::Train) as f64;
        let spent = self.left.iter().map(|left| 1.0 - *left as f64 / capacity);
        self.story.spent_share = spent.sum::<f64>() / self.left.len().max(1) as f64;
        self.story.starved = self.learners.values().map(|learner| learner.came).collect();
        let state = self.gate.ledger().clone();
        let again = Gate::open(self.gate.into_log())?;
        if *again.ledger() != state {
            return Err(SimulationError::Mismatch);
        }
        self.story.verified_events = again.head().length;
        Ok(self.story)
    }
}

/// What a pipeline chose.
enum Chosen {
    /// To wait.
    Nothing,
    /// To end.
    Over,
    /// An attempt.
    Choice(Box<Choice>),
}
