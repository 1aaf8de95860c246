//! What a run would try next: an attempt and the newest blocks that allow it.
//!
//! A run prefers what is reserved for it, then what it could borrow, then what is left though it may be promised to
//! others; the schedule decides whose turn it is. Blocks are chosen that admit the attempt under every ceiling, also
//! the one over all contexts, so that a run does not wait for a block that refuses it while others would not.

use sage_kernel::{BlockId, ContextId, Filter};

use super::ceilings::Ceilings;
use super::charge::{self, Written};
use super::drive::Choice;
use super::offers::{Offered, Reach, ranges, rows_of};
use super::policy::found;
use super::{Engine, EngineError, grant, lock};
use crate::adapt::{Action, Attempt, End, Offers, World};
use crate::allocate::PipelineId;
use crate::catalog::{Catalog, Run, Step, Stream};
use crate::schedule;

/// How often a run chooses otherwise because a block refused its choice.
const CHOICES: usize = 24;

/// A run that is looked at.
struct Looked<'catalog> {
    catalog: &'catalog Catalog,
    number: u64,
    run: &'catalog Run,
    known: &'catalog Stream,
    time: u64,
}

/// What a run found within a reach.
enum Found {
    /// An attempt.
    Choice(Box<Choice>),
    /// That it is over.
    Over,
    /// Nothing that is admitted.
    Nothing,
}

/// Whether a run would try something if it might spend this much on each block.
fn could_choose(run: &Run, time: u64, amounts: Vec<u64>) -> bool {
    !matches!(run.state.next(World { time, offers: &Offers::lent(amounts) }), Action::Wait(_))
}

impl Engine {
    /// What a run wants to do, as far as the ledger would let it.
    pub(super) fn choose(
        &self, catalog: &Catalog, number: u64, run: &Run, time: u64,
    ) -> Result<Option<Choice>, EngineError> {
        let name = &run.pipeline.stream;
        let Some(known) = catalog.stream(name) else { return Ok(None) };
        if catalog.history().owner(&run.pipeline.name) != Some(name.as_str()) {
            self.step(number, Step::ended(End::NameTaken))?;
            return Ok(None);
        }
        if !known.may_spend(run) {
            self.step(number, Step::ended(End::NotMember))?;
            return Ok(None);
        }
        let looked = Looked { catalog, number, run, known, time };
        for reach in [Reach::Reserved, Reach::Spare, Reach::Unspent] {
            let Some(offered) = self.offers(catalog, number, run, known, reach)? else { return Ok(None) };
            let blocks = offered.offered.len();
            match self.choose_within(&looked, offered, reach)? {
                Found::Choice(choice) => return Ok(Some(*choice)),
                Found::Over => return Ok(None),
                Found::Nothing if reach != Reach::Reserved => {}
                Found::Nothing => {
                    // Would it go on if it might spend whatever it likes? If not, nothing but blocks helps.
                    if !could_choose(run, time, vec![u64::MAX; blocks]) {
                        lock(&self.agenda).waits_for_blocks(number);
                        return Ok(None);
                    }
                    let unspent = self.offers(catalog, number, run, known, Reach::Unspent)?;
                    let all = unspent.map_or_else(Vec::new, |unspent| unspent.offered);
                    // What is promised takes a look at all that wait, so it comes last.
                    if !self.reserves() || !could_choose(run, time, all.iter().map(|(_, offer)| *offer).collect()) {
                        return Ok(None);
                    }
                }
            }
        }
        Ok(None)
    }

    fn reserves(&self) -> bool {
        self.places.scheduler == crate::allocate::Scheduler::EvenSplit
    }

    /// The same, of what is offered. A block that refuses an attempt is offered for less, and the run chooses again.
    fn choose_within(
        &self, looked: &Looked<'_>, Offered { mut offered, filter }: Offered, reach: Reach,
    ) -> Result<Found, EngineError> {
        let Looked { number, run, time, .. } = *looked;
        for _ in 0..CHOICES {
            let amounts = offered.iter().map(|(_, offer)| *offer).collect();
            let offers = if reach == Reach::Reserved { Offers::new(amounts) } else { Offers::lent(amounts) };
            let attempt = match run.state.next(World { time, offers: &offers }) {
                Action::Choose(attempt) => attempt,
                Action::Stop(end) => return self.ended(number, end),
                _ => return Ok(Found::Nothing),
            };
            // The newest blocks that allow it.
            let fitting = offered.iter().filter(|(_, offer)| *offer >= attempt.cost).map(|(place, _)| *place);
            let fitting: Vec<u32> = fitting.collect();
            let blocks = ranges(&fitting[fitting.len().saturating_sub(attempt.window as usize)..]);
            let written = match self.priced_attempt(looked, &attempt, &blocks, &filter) {
                Ok(written) => written,
                Err(end) => return self.ended(number, end),
            };
            if self.is_admitted(looked, &written, &blocks, reach)? {
                let made = lock(&self.agenda).changes();
                return Ok(Found::Choice(Box::new(Choice { run: number, attempt, blocks, written, made })));
            }
            let refused = self.refused_by(looked, &written, &fitting, reach)?;
            if refused.is_empty() {
                return Ok(Found::Nothing);
            }
            let less = attempt.cost - (attempt.cost / 8).max(1).min(attempt.cost);
            let mut refused = refused.into_iter().peekable();
            for (place, offer) in &mut offered {
                if refused.next_if_eq(place).is_some() {
                    *offer = less;
                }
            }
        }
        Ok(Found::Nothing)
    }

    fn ended(&self, number: u64, end: End) -> Result<Found, EngineError> {
        self.step(number, Step::ended(end))?;
        Ok(Found::Over)
    }

    /// An attempt with its cost on these blocks, or why the run ends instead.
    fn priced_attempt(
        &self, looked: &Looked<'_>, attempt: &Attempt, blocks: &[(u32, u32)], filter: &Filter,
    ) -> Result<Written, End> {
        let Looked { catalog, number, run, known, .. } = *looked;
        let Some(recipe) = self.recipe(catalog, number, run) else { return Err(End::Failing) };
        let rows = rows_of(&run.pipeline, known, blocks).map(|each| each * f64::from(attempt.window));
        let within = recipe.check_limits(&known.file, rows, self.attempt_limits(&run.pipeline));
        within.map_err(|over| End::Limit(over.limit))?;
        charge::written(recipe, catalog, number, run, attempt, blocks, filter).ok_or(End::Failing)
    }

    /// Whether the schedule and the ledger admit an attempt on all its blocks.
    fn is_admitted(
        &self, looked: &Looked<'_>, written: &Written, blocks: &[(u32, u32)], reach: Reach,
    ) -> Result<bool, EngineError> {
        let places = blocks.iter().flat_map(|&(first, last)| first..=last);
        if places.into_iter().any(|place| !self.is_within(looked, written, place, reach)) {
            return Ok(false);
        }
        let admitted = self.with(|gate, catalog| {
            let mut all = true;
            for ask in written.asks() {
                let request = grant::request(gate, catalog, ask)?;
                all &= matches!(gate.ledger().decide(&request), sage_kernel::Decision::Admitted(_));
            }
            Ok(all)
        });
        // What cannot be asked now waits for other blocks or other times.
        Ok(admitted.unwrap_or(false))
    }

    /// Whether an attempt is within what a run may spend on a block, of every resource. Where nothing is reserved, the
    /// order of requests decides that.
    fn is_within(&self, looked: &Looked<'_>, written: &Written, place: u32, reach: Reach) -> bool {
        let Looked { number, run, known, .. } = *looked;
        let Some(context) = schedule::context_of(run, Some(known)).filter(|_| self.reserves()) else { return true };
        let mut schedule = lock(&self.schedule);
        let Some(room) = schedule.room(&run.pipeline.stream, context) else { return true };
        written.attempt_cost.resources.within(reach.of(room, PipelineId(number), BlockId(place)))
    }

    /// The blocks among these that refuse an attempt by themselves.
    fn refused_by(
        &self, looked: &Looked<'_>, written: &Written, places: &[u32], reach: Reach,
    ) -> Result<Vec<u32>, EngineError> {
        let Looked { run, known, .. } = *looked;
        let admitting = self.with(|gate, catalog| {
            let (id, _) = found(gate, catalog, &run.pipeline.stream)?;
            let ledgered = gate.ledger().stream(id);
            let (Some(ledgered), Some(context)) = (ledgered, schedule::context_of(run, Some(known))) else {
                return Ok(vec![false; places.len()]);
            };
            let ceilings = Ceilings::new(ledgered, ContextId(context), &written.attempt_cost.costs);
            let numbers = super::blocks::numbers(gate, id, &known.sealed)?;
            let admits = |place: &u32| numbers.get(*place as usize).is_some_and(|block| ceilings.admit(*block));
            Ok(places.iter().map(admits).collect())
        })?;
        let refused = places
            .iter()
            .zip(admitting)
            .filter(|(place, admits)| !admits || !self.is_within(looked, written, **place, reach));
        Ok(refused.map(|(place, _)| *place).collect())
    }
}
