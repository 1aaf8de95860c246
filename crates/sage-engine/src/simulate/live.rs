//! One simulation: blocks and pipelines arrive, and each pipeline is scheduled, charged and judged as in the product.

use std::collections::{BTreeMap, BTreeSet};

use sage_kernel::{
    AccessMode, AccessModes, BlockId, Blocks, ChargeOutcome, ContextId, Decision, Epsilon, Filter, Gate, Lane,
    MemoryLog, Policy, Request, RequestKey, Rule, StreamId,
};
use sage_learn::plan::odometer;

use super::dice::TrafficRandom;
use super::forecast::{KnownDifficulty, SimulatedForecast};
use super::result::{Release, SimulationResult, SimulationStep};
use super::{Scenario, SchedulingPolicy, SimulationError};
use crate::adapt::{
    self, Action, Attempt, Forecast, Limits, Offers, Outcome, Phase, Plan, RiskSchedule, State, Strategy, Units,
    Verdict, World,
};
use crate::allocate::{Allocation, Counting, Event, PipelineId, Resources, Scheduler};
use crate::plan::{PricedRelease, price_release};
use crate::scheduler::{Reach, left_of_lane};

/// The cost of a first attempt: one part in this number of a block's budget, the defaults of the product.
const FIRST_SHARE: u64 = 64;
const INFORMED_SHARE: u64 = 1024;
/// The maximum window in blocks, and how often it may double.
const MOST_WINDOW: u32 = 128;
const DOUBLINGS: u32 = 9;

/// A pipeline that is not finished.
struct SimulatedPipeline {
    state: State,
    difficulty: f64,
    known: KnownDifficulty,
    came: u32,
}

/// The attempt that a pipeline would make if it were scheduled.
struct Choice {
    attempt: Attempt,
    blocks: Blocks,
    release: PricedRelease,
    request: Request,
}

/// The state of a simulation.
struct Simulation<'scenario> {
    scenario: &'scenario Scenario,
    policy: SchedulingPolicy,
    filter: Filter,
    gate: Gate<MemoryLog>,
    stream: StreamId,
    allocation: Allocation,
    pipelines: BTreeMap<PipelineId, SimulatedPipeline>,
    /// The remaining budget of each block, on the lane with less, in units of cost.
    left: Vec<u64>,
    /// Priced releases by cost. There are few distinct costs.
    prices: BTreeMap<u64, Option<PricedRelease>>,
    first_cost: u64,
    /// A cost and the noise that it pays for, over sensitivity.
    reference: Option<(u64, f64)>,
    time: u32,
    totals: SimulationStep,
    result: SimulationResult,
}

/// Simulates a scenario under a scheduling policy.
///
/// # Errors
/// When the scenario is invalid; any other error is a bug.
pub fn run_simulation(scenario: &Scenario, policy: SchedulingPolicy) -> Result<SimulationResult, SimulationError> {
    let mut simulation = Simulation::new(scenario, policy)?;
    let (mut random, mut next) = (TrafficRandom::new(scenario.seed), 0.0);
    let mut number = 0;
    for time in 0..scenario.blocks {
        simulation.begin(time)?;
        while next <= f64::from(time) {
            next += random.next_gap(scenario.rate);
            number += 1;
            simulation.arrive(PipelineId(number), random.difficulty())?;
        }
        simulation.work()?;
        simulation.end()?;
    }
    simulation.finish()
}

impl<'scenario> Simulation<'scenario> {
    fn new(scenario: &'scenario Scenario, policy: SchedulingPolicy) -> Result<Self, SimulationError> {
        let filter = scenario.filter()?;
        let capacity = Resources::of_block(&filter).ok_or(SimulationError::Mismatch)?.loss(Lane::Train);
        let counting = match scenario.rule {
            Rule::Renyi => Counting::Primary,
            _ => Counting::Every { smallest: Resources::ZERO },
        };
        let first_share = if policy.strategy == Strategy::Informed { INFORMED_SHARE } else { FIRST_SHARE };
        let mut gate = Gate::open(MemoryLog::default())?;
        let stream = gate.create_stream(0, "simulated", Policy::single(filter.clone(), AccessModes::EnforcedOnly))?;
        let result = SimulationResult {
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
            policy,
            gate,
            stream,
            allocation: Allocation::new(policy.scheduler, counting),
            pipelines: BTreeMap::new(),
            left: Vec::new(),
            prices: BTreeMap::new(),
            first_cost: (capacity / first_share).max(1),
            reference: price_release(&filter, capacity / FIRST_SHARE)
                .map(|release| (capacity / FIRST_SHARE, release.noise)),
            time: 0,
            totals: SimulationStep::default(),
            result,
            filter,
        })
    }

    const fn units(&self) -> Units {
        if matches!(self.filter.rule(), Rule::Basic) { Units::Epsilon } else { Units::Share }
    }

    fn apply(&mut self, event: Event) -> Result<(), SimulationError> {
        self.allocation.apply(event).map_err(|_| SimulationError::Mismatch)
    }

    /// Advances the clock, which adds a block.
    fn begin(&mut self, time: u32) -> Result<(), SimulationError> {
        self.time = time;
        self.apply(Event::AdvanceClock { time: u64::from(time) })?;
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
        let plan = Plan::new((self.first_cost, 1), limits, self.units()).map_err(SimulationError::Plan)?;
        let plan = plan.by(self.policy.strategy, self.policy.mode);
        let risk =
            if self.policy.strategy == Strategy::Informed { RiskSchedule::Probing } else { RiskSchedule::Falling };
        let state = State::new(plan.with_risk(risk).map_err(SimulationError::Plan)?);
        self.pipelines.insert(
            pipeline,
            SimulatedPipeline { state, difficulty, known: KnownDifficulty::Distribution, came: self.time },
        );
        self.totals.came += 1;
        self.apply(Event::Arrive { pipelines: vec![pipeline] })?;
        self.update_need(pipeline)
    }

    /// Makes attempts until every pipeline waits or is finished.
    fn work(&mut self) -> Result<(), SimulationError> {
        let mut pending: BTreeSet<PipelineId> = self.pipelines.keys().copied().collect();
        let mut choices: BTreeMap<PipelineId, Choice> = BTreeMap::new();
        // Pipelines whose choice is older than the last attempt.
        let mut stale: BTreeSet<PipelineId> = BTreeSet::new();
        while !pending.is_empty() {
            let mut any_left = false;
            for pipeline in std::mem::take(&mut pending) {
                choices.remove(&pipeline);
                stale.remove(&pipeline);
                match self.choose(pipeline)? {
                    ChoiceOutcome::Nothing => self.apply(Event::Withdraw { pipeline })?,
                    ChoiceOutcome::Over => any_left = true,
                    ChoiceOutcome::Choice(choice) => {
                        let (blocks, cost) = (choice.blocks.clone(), choice.release.resources);
                        self.apply(Event::Request { pipeline, blocks, cost })?;
                        choices.insert(pipeline, *choice);
                    }
                }
            }
            let ready = self.allocation.ready();
            // If no pipeline can use its own reservations, one borrows.
            let borrower = ready.is_empty().then(|| self.allocation.borrower(|id| choices.contains_key(&id))).flatten();
            for pipeline in ready.into_iter().chain(borrower) {
                let Some(choice) = choices.remove(&pipeline) else { continue };
                any_left |= self.attempt(pipeline, choice)?;
                pending.insert(pipeline);
                stale.extend(choices.keys());
            }
            // Budget that a finished pipeline frees is available to all that wait. Other choices are revised only when
            // no pipeline can continue.
            if any_left {
                pending.extend(self.pipelines.keys().filter(|pipeline| !choices.contains_key(pipeline)));
            }
            pending.retain(|pipeline| self.pipelines.contains_key(pipeline));
            stale.retain(|pipeline| self.pipelines.contains_key(pipeline));
            // If no pipeline can borrow either, stale choices may now turn out differently.
            if pending.is_empty() {
                pending.append(&mut stale);
            }
        }
        Ok(())
    }

    /// The next attempt of a pipeline, if its allocation and the ledger admit one.
    fn choose(&mut self, pipeline: PipelineId) -> Result<ChoiceOutcome, SimulationError> {
        let mut offered = self.offered(pipeline, Reach::Reserved);
        let mut action = self.next_action(pipeline, &offered, Offers::new)?;
        // Computing the spare budget visits every waiting pipeline, so the cheaper unspent budget is tested first.
        if matches!(action, Action::Wait(_)) && self.policy.scheduler == Scheduler::EvenSplit {
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
                return Ok(ChoiceOutcome::Over);
            }
            _ => return Ok(ChoiceOutcome::Nothing),
        };
        let newest = offered.iter().rev().filter(|(_, offer)| *offer >= attempt.cost);
        let indices = newest.take(attempt.window as usize).map(|(block, _)| (block.0, block.0));
        let blocks = Blocks::from_ranges(indices).map_err(|_| SimulationError::Mismatch)?;
        let Some(release) = self.release(attempt.cost) else { return Ok(ChoiceOutcome::Nothing) };
        let request = Request {
            key: RequestKey::from_text(&format!("pipeline {} choice {}", pipeline.0, attempt.serial)),
            stream: self.stream,
            context: ContextId(0),
            blocks: blocks.clone(),
            costs: [Some(release.cost.clone()), Some(release.cost.clone())],
            access: AccessMode::Enforced,
            purpose: format!("pipeline {}", pipeline.0),
        };
        let admitted = matches!(self.gate.ledger().decide(&request), Decision::Admitted(_));
        let choice = Choice { attempt, blocks, release, request };
        Ok(if admitted { ChoiceOutcome::Choice(Box::new(choice)) } else { ChoiceOutcome::Nothing })
    }

    /// The budget that a pipeline may spend on each block.
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
        let Some(simulated) = self.pipelines.get(&pipeline) else { return Err(SimulationError::Mismatch) };
        let offers = kind(offered.iter().map(|(_, offer)| *offer).collect()).of_sealed(self.time + 1);
        let forecast = self.reference.map(|reference| SimulatedForecast {
            scenario: self.scenario,
            known: simulated.known,
            reference,
            units: self.units(),
        });
        let forecast = forecast.as_ref().map(|forecast| forecast as &dyn Forecast);
        Ok(simulated.state.next(World { forecast, ..World::new(u64::from(self.time), &offers) }))
    }

    /// Reports the cost of a waiting pipeline's next attempt to the allocation.
    fn update_need(&mut self, pipeline: PipelineId) -> Result<(), SimulationError> {
        let Some(simulated) = self.pipelines.get(&pipeline) else { return Ok(()) };
        let next = simulated.state.next(World::new(0, &Offers::default()));
        let Action::Wait(wanted) = next else { return self.apply(Event::Need { pipeline, cost: None }) };
        let release = self.release(wanted.cost);
        self.apply(Event::Need { pipeline, cost: release.map(|release| release.resources) })
    }

    /// The release that a cost pays for.
    fn release(&mut self, cost: u64) -> Option<PricedRelease> {
        let filter = &self.filter;
        self.prices.entry(cost).or_insert_with(|| price_release(filter, cost)).clone()
    }

    /// Charges and judges an attempt. Returns whether the pipeline is finished.
    fn attempt(&mut self, pipeline: PipelineId, choice: Choice) -> Result<bool, SimulationError> {
        let Choice { attempt, blocks, release, request } = choice;
        let time = u64::from(self.time);
        self.step(pipeline, adapt::Event::Chosen(attempt))?;
        match self.gate.charge(time, vec![request])?.pop() {
            Some(ChargeOutcome::Granted(grant)) => {
                let id = grant.id();
                self.gate.start(time, grant)?;
                self.gate.burn(time, id)?;
            }
            // Other pipelines were charged first: choose again.
            Some(ChargeOutcome::Refused(_)) => {
                self.apply(Event::Withdraw { pipeline })?;
                self.step(pipeline, adapt::Event::Refused)?;
                return Ok(false);
            }
            _ => return Err(SimulationError::Mismatch),
        }
        self.result.attempts += 1;
        self.step(pipeline, adapt::Event::Charged)?;
        let indices = || blocks.ranges().iter().flat_map(|range| range.first().0..=range.last().0);
        for index in indices() {
            self.left[index as usize] = self.remaining(BlockId(index));
        }
        let cost = release.resources;
        if self.allocation.apply(Event::Spend { pipeline, blocks: blocks.clone(), cost }).is_err() {
            self.apply(Event::Borrow { pipeline, blocks, cost })?;
        }
        let Some(simulated) = self.pipelines.get(&pipeline) else { return Err(SimulationError::Mismatch) };
        let rows = self.scenario.rows * f64::from(attempt.window);
        let met = self.scenario.need.is_met(simulated.difficulty, rows, release.noise);
        let verdict = if met { Verdict::Accept } else { Verdict::Retry };
        let known = KnownDifficulty::observe(simulated.difficulty, pipeline.0, &attempt);
        if let Some(simulated) = self.pipelines.get_mut(&pipeline) {
            simulated.known = known;
        }
        let over = self.step(pipeline, adapt::Event::Judged(verdict))?;
        self.update_need(pipeline)?;
        Ok(over)
    }

    /// Applies an event to a pipeline. Returns whether the pipeline is finished.
    fn step(&mut self, pipeline: PipelineId, event: adapt::Event) -> Result<bool, SimulationError> {
        let simulated = self.pipelines.get_mut(&pipeline).ok_or(SimulationError::Mismatch)?;
        simulated.state = simulated.state.clone().step(event).map_err(|_| SimulationError::Mismatch)?;
        let Phase::Over(outcome) = simulated.state.phase() else { return Ok(false) };
        let (came, attempts) = (simulated.came, simulated.state.attempts());
        if outcome == Outcome::Accepted {
            self.totals.released += 1;
            self.result.releases.push(Release { came, at: self.time, attempts });
        } else {
            self.totals.gave_up += 1;
        }
        self.pipelines.remove(&pipeline);
        self.apply(Event::Leave { pipeline })?;
        Ok(true)
    }

    /// The remaining budget of a block, on the lane with less.
    fn remaining(&self, block: BlockId) -> u64 {
        let Some(stream) = self.gate.ledger().stream(self.stream) else { return 0 };
        let lanes = Lane::BOTH.map(|lane| stream.spent(ContextId(0), block, lane).unwrap_or_default());
        lanes.iter().map(|spent| left_of_lane(&self.filter, spent)).min().unwrap_or(0)
    }

    /// Retires blocks with too little budget, and records the step.
    fn end(&mut self) -> Result<(), SimulationError> {
        let useless = |index: &u32| {
            self.left[*index as usize] < self.first_cost && self.allocation.is_retired(BlockId(*index)) == Some(false)
        };
        let done: Vec<u32> = (0..=self.time).filter(useless).collect();
        if let Ok(blocks) = Blocks::from_ranges(done.iter().map(|index| (*index, *index))) {
            self.gate.retire(u64::from(self.time), self.stream, blocks)?;
        }
        for index in done {
            self.totals.retired += 1;
            self.apply(Event::Retire { block: BlockId(index) })?;
        }
        self.totals.waiting = u32::try_from(self.pipelines.len()).unwrap_or(u32::MAX);
        let capacity = Resources::of_block(&self.filter).ok_or(SimulationError::Mismatch)?.loss(Lane::Train) as f64;
        let spent = self.left.iter().map(|left| 1.0 - *left as f64 / capacity).sum::<f64>();
        self.totals.spent_share = spent / f64::from(self.scenario.blocks);
        self.result.moments.push(self.totals);
        Ok(())
    }

    /// Reads the whole log back, compares it with the ledger, and computes the totals.
    fn finish(mut self) -> Result<SimulationResult, SimulationError> {
        let stream = self.gate.ledger().stream(self.stream).ok_or(SimulationError::Mismatch)?;
        let cells = (0..self.scenario.blocks).flat_map(|block| Lane::BOTH.map(|lane| (BlockId(block), lane)));
        let losses = cells.filter_map(|(block, lane)| stream.spent(ContextId(0), block, lane));
        self.result.loss = losses.map(|spent| odometer(&self.filter, spent)).max().unwrap_or(Epsilon::ZERO);
        self.result.spent_share = self.totals.spent_share;
        self.result.starved = self.pipelines.values().map(|simulated| simulated.came).collect();
        let state = self.gate.ledger().clone();
        let again = Gate::open(self.gate.into_log())?;
        if *again.ledger() != state {
            return Err(SimulationError::Mismatch);
        }
        self.result.verified_events = again.head().length;
        Ok(self.result)
    }
}

/// The outcome of a choice.
enum ChoiceOutcome {
    /// The pipeline waits.
    Nothing,
    /// The pipeline ended.
    Over,
    /// The pipeline requests an attempt.
    Choice(Box<Choice>),
}
