//! The ledger compared with a second, naive implementation on lists and big rationals.
//!
//! Random operations, refusals, repeated and reused keys, crashes and failed writes. A failure prints the
//! seed; `SAGE_SEED=n` replays it. `SAGE_SOAK=1` runs a hundred times as much.

use std::collections::{BTreeMap, BTreeSet};

use dashu::rational::RBig;
use sage_kernel::{
    AccessMode, AccessModes, BlockId, Blocks, Ceiling, ChargeOutcome, Context, ContextId, Cost, Delta, Epsilon, Fault,
    FaultyLog, Filter, Gate, GateError, Grant, GrantId, GrantState, Lane, Mechanism, Permit, Policy, Refusal, Request,
    RequestKey, Rule, Sigma, StreamId,
};

/// A small generator of numbers with a printed seed.
struct Dice(u64);

impl Dice {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound
    }

    fn pick<T: Copy>(&mut self, list: &[T]) -> T {
        list[self.below(list.len() as u64) as usize]
    }
}

/// What a decimal text means, with no rounding at all.
fn rational(text: &str) -> RBig {
    let (mantissa, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits: u64 = format!("{whole}{fraction}").parse().expect("digits");
    let exponent: i32 = exponent.parse::<i32>().expect("an exponent") - fraction.len() as i32;
    let ten = RBig::from(10u8);
    (0..exponent.abs()).fold(RBig::from(digits), |value, _| if exponent < 0 { value / &ten } else { value * &ten })
}

/// A cost as the model sees it: exact numbers, one list entry for each component of a filter.
type Numbers = Vec<RBig>;

struct Book {
    rule: Rule,
    caps: Numbers,
    /// The largest each cap ever was.
    loosest: Vec<u64>,
    required: usize,
    /// For each lane and block, everything charged there and not cancelled: (charge, numbers).
    entries: BTreeMap<(Lane, u32), Vec<(u64, Numbers)>>,
}

impl Book {
    fn total(&self, lane: Lane, block: u32) -> Numbers {
        let mut total = vec![RBig::ZERO; self.caps.len()];
        for (_, numbers) in self.entries.get(&(lane, block)).into_iter().flatten() {
            total.iter_mut().zip(numbers).for_each(|(total, number)| *total += number);
        }
        total
    }

    fn admits(&self, lane: Lane, block: u32, requested: &Numbers) -> bool {
        let after: Numbers =
            self.total(lane, block).iter().zip(requested).map(|(spent, requested)| spent + requested).collect();
        let within = |index: usize| after[index] <= self.caps[index];
        let alternatives = self.required..self.caps.len();
        (0..self.required).all(within) && (alternatives.is_empty() || alternatives.into_iter().any(within))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    Charged,
    Started,
    Cancelled,
    Ended,
}

struct Model {
    books: Vec<Book>,
    joint: bool,
    blocks: u32,
    retired: BTreeSet<u32>,
    charges: BTreeMap<u64, (Request, Fate)>,
    keys: BTreeMap<RequestKey, u64>,
}

/// Costs by text, so that the model's numbers do not come from the kernel's parser.
const LOSSES: [&str; 7] = ["0.05", "0.1", "0.3", "0.000000000001", "0.25", "0.999999999999", "1"];
const CHANCES: [&str; 4] = ["0", "1e-7", "5e-7", "1e-18"];

fn random_cost(dice: &mut Dice, rule: Rule) -> Cost {
    let epsilon = Epsilon::cost(dice.pick(&LOSSES)).expect("a loss");
    let delta = Delta::cost(dice.pick(&CHANCES)).expect("a chance");
    let mut parts = vec![Mechanism::BlackBox { epsilon, delta }];
    if rule != Rule::Basic && dice.below(3) == 0 {
        let sigma = Sigma::cost(dice.pick(&["5", "50", "500"])).expect("a multiplier");
        parts.push(Mechanism::Gaussian { sigma, coordinates: 3, count: 2 });
    }
    Cost::at_delta(parts, Delta::cost("1e-9").expect("a chance")).expect("a cost")
}

/// The model's numbers for a cost. Under the basic rule they come from the text alone; otherwise the
/// price list (which has tests of its own) gives integers, and the model does the adding.
fn numbers(filter: &Filter, cost: &Cost, lane: Lane, blocks: &Blocks) -> Numbers {
    if filter.rule() == Rule::Basic {
        let mut total = vec![RBig::ZERO, RBig::ZERO];
        for part in cost.parts() {
            let Mechanism::BlackBox { epsilon, delta } = part else { panic!("basic costs are black boxes here") };
            total[0] += rational(&epsilon.to_string());
            total[1] += rational(&delta.to_string());
        }
        return total;
    }
    let amounts = filter.price(cost, lane, blocks).expect("a price");
    amounts.units().iter().map(|&units| RBig::from(units)).collect()
}

fn caps(filter: &Filter, ceiling: (&str, &str)) -> Numbers {
    match filter.rule() {
        Rule::Basic => vec![rational(ceiling.0), rational(ceiling.1)],
        _ => filter.caps().iter().map(|&cap| RBig::from(cap)).collect(),
    }
}

struct World {
    gate: Gate<FaultyLog>,
    model: Model,
    policy: Policy,
    stream: StreamId,
    /// Grants that were handed out and not used yet.
    held: Vec<Grant>,
    running: Vec<(GrantId, Permit)>,
    next_key: u64,
    /// The newest snapshot.
    snapshot: Option<Vec<u8>>,
}

const CEILING: (&str, &str) = ("1", "1e-6");
const JOINT: (&str, &str) = ("1.5", "2e-6");

fn filter(rule: Rule, (epsilon, delta): (&str, &str)) -> Filter {
    let ceiling = Ceiling {
        epsilon: Epsilon::ceiling(epsilon).expect("a ceiling"),
        delta: Delta::ceiling(delta).expect("a ceiling"),
    };
    Filter::new(rule, ceiling).expect("a filter")
}

impl World {
    fn new(rule: Rule, joint: bool) -> Self {
        let own = filter(rule, CEILING);
        let over = joint.then(|| filter(rule, JOINT));
        let contexts: Vec<Context> =
            ["one", "two"].iter().map(|name| Context { name: (*name).to_owned(), filter: own.clone() }).collect();
        let policy = Policy::with_contexts(contexts, over.clone(), AccessModes::AttestedToo).expect("a policy");
        let mut gate = Gate::open(FaultyLog::default()).expect("an empty log");
        let stream = gate.create_stream(0, "rides", policy.clone()).expect("a stream");
        let book = |filter: &Filter, ceiling| Book {
            rule,
            caps: caps(filter, ceiling),
            loosest: filter.caps().to_vec(),
            required: if rule == Rule::Renyi { 1 } else { filter.caps().len() },
            entries: BTreeMap::new(),
        };
        let mut books = vec![book(&own, CEILING), book(&own, CEILING)];
        books.extend(over.iter().map(|filter| book(filter, JOINT)));
        let model = Model {
            books,
            joint,
            blocks: 0,
            retired: BTreeSet::new(),
            charges: BTreeMap::new(),
            keys: BTreeMap::new(),
        };
        Self { gate, model, policy, stream, held: Vec::new(), running: Vec::new(), next_key: 0, snapshot: None }
    }

    fn request(&mut self, dice: &mut Dice) -> Request {
        // Now and then a key that was used before: with the same body, or with another one.
        if !self.model.charges.is_empty() && dice.below(8) == 0 {
            let ids: Vec<u64> = self.model.charges.keys().copied().collect();
            let mut request = self.model.charges[&dice.pick(&ids)].0.clone();
            if dice.below(2) == 0 {
                request.purpose.push('!');
            }
            return request;
        }
        self.next_key += 1;
        let first = dice.below(u64::from(self.model.blocks) + 2) as u32;
        let mut ranges = vec![(first, first + dice.below(4) as u32)];
        if dice.below(3) == 0 {
            let other = dice.below(u64::from(self.model.blocks) + 1) as u32;
            ranges.push((other, other));
        }
        let rule = self.model.books[0].rule;
        let lanes = dice.below(3);
        let mut cost = |wanted: bool| wanted.then(|| random_cost(dice, rule));
        let costs = [cost(lanes != 1), cost(lanes != 0)];
        Request {
            key: RequestKey::from_text(&self.next_key.to_string()),
            stream: self.stream,
            context: ContextId(dice.below(2) as u32),
            blocks: Blocks::from_ranges(ranges).expect("blocks"),
            costs,
            access: AccessMode::Attested { author: "model".to_owned(), reason: "test".to_owned() },
            purpose: "test".to_owned(),
        }
    }

    fn filter_of(&self, book: usize) -> &Filter {
        self.policy.contexts().get(book).map_or_else(|| self.policy.joint().expect("a joint book"), |own| &own.filter)
    }

    /// What the model says: a grant, or which kind of refusal.
    fn expect(&self, request: &Request) -> Expected {
        let model = &self.model;
        if let Some(&charge) = model.keys.get(&request.key) {
            return if model.charges[&charge].0 == *request { Expected::Repeated(charge) } else { Expected::Reused };
        }
        let blocks: Vec<u32> =
            (0..self.model.blocks + 8).filter(|&block| request.blocks.contains(BlockId(block))).collect();
        if blocks.iter().any(|&block| block >= model.blocks) {
            return Expected::Unknown;
        }
        if blocks.iter().any(|block| model.retired.contains(block)) {
            return Expected::Retired;
        }
        for (lane, cost) in Lane::BOTH.into_iter().zip(&request.costs) {
            let Some(cost) = cost else { continue };
            for book in self.books_of(request) {
                let requested = numbers(self.filter_of(book), cost, lane, &request.blocks);
                for &block in &blocks {
                    if !model.books[book].admits(lane, block, &requested) {
                        return Expected::Full(lane, block);
                    }
                }
            }
        }
        Expected::Granted
    }

    fn books_of(&self, request: &Request) -> Vec<usize> {
        let own = request.context.0 as usize;
        if self.model.joint { vec![own, 2] } else { vec![own] }
    }

    fn enter(&mut self, id: u64, request: &Request) {
        for (lane, cost) in Lane::BOTH.into_iter().zip(&request.costs) {
            let Some(cost) = cost else { continue };
            for book in self.books_of(request) {
                let requested = numbers(self.filter_of(book), cost, lane, &request.blocks);
                for block in (0..self.model.blocks + 8).filter(|&block| request.blocks.contains(BlockId(block))) {
                    let entries = self.model.books[book].entries.entry((lane, block)).or_default();
                    entries.push((id, requested.clone()));
                }
            }
        }
        self.model.keys.insert(request.key, id);
        self.model.charges.insert(id, (request.clone(), Fate::Charged));
    }

    fn forget(&mut self, id: u64) {
        for book in &mut self.model.books {
            book.entries.values_mut().for_each(|entries| entries.retain(|(charge, _)| *charge != id));
        }
        self.model.charges.get_mut(&id).expect("a charge").1 = Fate::Cancelled;
    }

    fn charge(&mut self, dice: &mut Dice) {
        let requests: Vec<Request> = (0..1 + dice.below(3)).map(|_| self.request(dice)).collect();
        let outcomes = self.gate.charge(1, requests.clone()).expect("a healthy log");
        assert_eq!(outcomes.len(), requests.len());
        for (request, answer) in requests.iter().zip(outcomes) {
            match (self.expect(request), answer) {
                (Expected::Granted, ChargeOutcome::Granted(grant)) => {
                    self.enter(grant.id().0, request);
                    self.held.push(grant);
                }
                (Expected::Repeated(charge), ChargeOutcome::Repeated(grant, state, again)) => {
                    assert_eq!(charge, grant.0);
                    assert_eq!(again.is_some(), state == GrantState::Charged);
                    self.held.extend(again);
                }
                (Expected::Reused, ChargeOutcome::Refused(Refusal::KeyReused(_)))
                | (Expected::Unknown, ChargeOutcome::Refused(Refusal::UnknownBlock(_)))
                | (Expected::Retired, ChargeOutcome::Refused(Refusal::RetiredBlock(_))) => {}
                (Expected::Full(lane, block), ChargeOutcome::Refused(Refusal::Ceiling(short))) => {
                    assert_eq!((short.lane, short.block), (lane, BlockId(block)));
                    self.check_shortfall(&short);
                }
                (expected, answer) => panic!("the model says {expected:?}, the ledger {answer:?}"),
            }
        }
    }

    /// Spent, reserved and left of a refusal, against the model's lists.
    fn check_shortfall(&self, short: &sage_kernel::Shortfall) {
        let book = match &short.book {
            sage_kernel::Book::Context(name) => usize::from(name == "two"),
            sage_kernel::Book::Joint => 2,
        };
        let index = self.filter_of(book).components().iter().position(|one| *one == short.component).expect("known");
        let cap = self.filter_of(book).caps()[index];
        let (mut spent, mut reserved) = (RBig::ZERO, RBig::ZERO);
        let unit = |number: &RBig| match self.model.books[book].rule {
            Rule::Basic if index == 0 => number * RBig::from(10u64.pow(12)),
            Rule::Basic => number * RBig::from(10u64.pow(18)),
            _ => number.clone(),
        };
        for (charge, numbers) in self.model.books[book].entries.get(&(short.lane, short.block.0)).into_iter().flatten()
        {
            let waiting = self.model.charges[charge].1 == Fate::Charged;
            *(if waiting { &mut reserved } else { &mut spent }) += unit(&numbers[index]);
        }
        assert_eq!(RBig::from(short.spent), spent);
        assert_eq!(RBig::from(short.reserved), reserved);
        assert_eq!(short.left, u128::from(cap).saturating_sub(short.spent + short.reserved));
        assert!(Refusal::Ceiling(Box::new(short.clone())).to_string().contains("left"));
    }

    fn step(&mut self, dice: &mut Dice) {
        match dice.below(20) {
            0 => {
                let keys = (0..1 + dice.below(3)).map(|extra| format!("day {}", self.model.blocks + extra as u32));
                let keys: Vec<String> = keys.collect();
                self.model.blocks += keys.len() as u32;
                self.gate.add_blocks(2, self.stream, keys).expect("a healthy log");
            }
            1 if self.model.blocks > 0 && dice.below(4) == 0 => {
                let block = dice.below(u64::from(self.model.blocks)) as u32;
                self.model.retired.insert(block);
                self.gate.retire(3, self.stream, Blocks::range(block, block).expect("a block")).expect("healthy");
            }
            2..=4 if !self.held.is_empty() => self.use_grant(dice, Fate::Started),
            5..=6 if !self.held.is_empty() => self.use_grant(dice, Fate::Cancelled),
            7 if !self.running.is_empty() => {
                let (grant, _permit) = self.running.swap_remove(dice.below(self.running.len() as u64) as usize);
                self.gate.burn(4, grant).expect("a running grant");
                self.model.charges.get_mut(&grant.0).expect("a charge").1 = Fate::Ended;
                assert_eq!(self.gate.burn(4, grant), Err(GateError::NotAllowed));
            }
            8 => self.crash(dice),
            10 if dice.below(6) == 0 => self.change_policy(dice),
            9 if dice.below(4) == 0 => self.snapshot = Some(self.gate.snapshot(4).expect("a healthy log")),
            _ => self.charge(dice),
        }
    }

    fn use_grant(&mut self, dice: &mut Dice, fate: Fate) {
        let grant = self.held.swap_remove(dice.below(self.held.len() as u64) as usize);
        let id = grant.id();
        let (request, now) = &self.model.charges[&id.0];
        let retired = self.model.retired.iter().any(|&block| request.blocks.contains(BlockId(block)));
        let free = *now == Fate::Charged && (fate == Fate::Cancelled || !retired);
        let done = match fate {
            Fate::Started => self.gate.start(5, grant).map(|permit| self.running.push((id, permit))),
            _ => self.gate.cancel(5, grant),
        };
        assert_eq!(done, if free { Ok(()) } else { Err(GateError::NotAllowed) }, "a grant is used once");
        match (free, fate) {
            (true, Fate::Cancelled) => self.forget(id.0),
            (true, fate) => self.model.charges.get_mut(&id.0).expect("a charge").1 = fate,
            (false, _) => {}
        }
    }

    /// Moves every ceiling, the joint one by the same, up or down.
    fn change_policy(&mut self, dice: &mut Dice) {
        let (own, joint) = dice.pick(&[("0.4", "0.9"), ("1", "1.5"), ("1.3", "1.8")]);
        let moved = |filter: &Filter, loss: &str| {
            let ceiling = Ceiling { epsilon: Epsilon::ceiling(loss).expect("a ceiling"), ..filter.ceiling() };
            filter.with_ceiling(ceiling).expect("a filter")
        };
        let contexts = self.policy.contexts().iter();
        let contexts =
            contexts.map(|one| Context { name: one.name.clone(), filter: moved(&one.filter, own) }).collect();
        let over = self.policy.joint().map(|filter| moved(filter, joint));
        let policy = Policy::with_contexts(contexts, over, AccessModes::AttestedToo).expect("a policy");
        let needed = self.policy.approvals_to_become(&policy).expect("it may follow");
        let people: Vec<String> = ["one", "two"][..needed].iter().map(|name| (*name).to_owned()).collect();
        let fewer = people[1..].to_vec();
        assert_eq!(self.gate.change_policy(8, self.stream, policy.clone(), fewer), Err(GateError::NotAllowed));
        self.gate.change_policy(8, self.stream, policy.clone(), people).expect("approved");
        self.policy = policy;
        for index in 0..self.model.books.len() {
            let filter = self.filter_of(index).clone();
            let (text, chance) = if index == 2 { (joint, JOINT.1) } else { (own, CEILING.1) };
            let book = &mut self.model.books[index];
            book.caps = caps(&filter, (text, chance));
            book.loosest.iter_mut().zip(filter.caps()).for_each(|(most, &cap)| *most = cap.max(*most));
        }
    }

    /// Loses everything in memory, sometimes in the middle of a write.
    fn crash(&mut self, dice: &mut Dice) {
        let mut log = FaultyLog::with_records(self.gate.log().records().to_vec());
        let fault = dice.pick(&[
            None,
            Some(Fault::Refuse),
            Some(Fault::LoseBefore),
            Some(Fault::LoseAfter),
            Some(Fault::Misreport),
        ]);
        if let Some(fault) = fault {
            log.fail_at(0, fault);
            let mut gate = Gate::open(log).expect("a sound log");
            let request = self.request(dice);
            let outcome = gate.charge(6, vec![request.clone()]);
            let written = gate.log().records().len() > self.gate.log().records().len();
            if outcome.is_err() {
                // Fail-stop: nothing is granted on a log in doubt.
                assert_eq!(gate.charge(6, vec![request.clone()]), Err(GateError::Closed));
                assert_eq!(gate.refresh(), Err(GateError::Closed));
            }
            if written {
                self.enter(gate.log().records().len() as u64 - 1, &request);
            }
            log = gate.into_log();
        }
        self.gate = Gate::open(FaultyLog::with_records(log.records().to_vec())).expect("a sound log");
        // From a snapshot on or from the first record on: the same state.
        if let Some(snapshot) = &self.snapshot {
            let log = FaultyLog::with_records(self.gate.log().records().to_vec());
            let short = Gate::open_from(log, snapshot).expect("a snapshot of this log");
            assert_eq!((short.ledger(), short.head()), (self.gate.ledger(), self.gate.head()));
            self.gate = short;
        }
        // Grants in memory are gone; what was started stays charged, what was not can be requested again.
        self.held.clear();
        self.running.clear();
        let running: Vec<GrantId> = self.gate.ledger().running().collect();
        for grant in running {
            self.gate.burn(7, grant).expect("a running grant");
            self.model.charges.get_mut(&grant.0).expect("a charge").1 = Fate::Ended;
        }
    }

    fn compare(&self) {
        let stream = self.gate.ledger().stream(self.stream).expect("the stream");
        for (book, model) in self.model.books.iter().enumerate() {
            for block in 0..self.model.blocks {
                for lane in Lane::BOTH {
                    let cell = match self.policy.contexts().get(book) {
                        Some(_) => stream.spent(ContextId(book as u32), BlockId(block), lane),
                        None => stream.spent_jointly(BlockId(block), lane),
                    };
                    let cell = cell.expect("a cell");
                    for (index, total) in model.total(lane, block).into_iter().enumerate() {
                        let units = match (model.rule, index) {
                            (Rule::Basic, 0) => total * RBig::from(10u64.pow(12)),
                            (Rule::Basic, _) => total * RBig::from(10u64.pow(18)),
                            _ => total,
                        };
                        assert_eq!(RBig::from(cell[index]), units);
                    }
                    let short = cell
                        .iter()
                        .zip(&model.loosest)
                        .take(model.required)
                        .all(|(&spent, &cap)| spent <= u128::from(cap));
                    assert!(short, "no lane is ever above the loosest of a required cap");
                }
            }
        }
        for (&id, (request, fate)) in &self.model.charges {
            let state = self.gate.ledger().grant_state(GrantId(id)).expect("a grant");
            let expected = match fate {
                Fate::Charged => GrantState::Charged,
                Fate::Started => GrantState::Started,
                Fate::Cancelled => GrantState::Cancelled,
                Fate::Ended => GrantState::Burnt,
            };
            assert_eq!(state, expected);
            let kept = self.gate.ledger().charge(GrantId(id)).map(|charge| &charge.request);
            assert_eq!(kept, (*fate == Fate::Charged).then_some(request), "kept while it waits, and no longer");
        }
    }
}

#[derive(Debug)]
enum Expected {
    Granted,
    Repeated(u64),
    Reused,
    Unknown,
    Retired,
    Full(Lane, u32),
}

fn seed() -> u64 {
    let seed = std::env::var("SAGE_SEED").ok().and_then(|text| text.parse().ok()).unwrap_or(20_261_115);
    println!("SAGE_SEED={seed}");
    seed
}

fn soak() -> u64 {
    if std::env::var_os("SAGE_SOAK").is_some() { 100 } else { 1 }
}

#[test]
fn random_operations_agree_with_the_naive_ledger() {
    let base = seed();
    let episodes = 300 * soak();
    let mut sometimes = BTreeMap::new();
    for episode in 0..episodes {
        let mut dice = Dice(base.wrapping_add(episode.wrapping_mul(7919)));
        let rule = [Rule::Basic, Rule::Renyi, Rule::Strong][(episode % 3) as usize];
        let mut world = World::new(rule, dice.below(2) == 0);
        for _ in 0..340 {
            world.step(&mut dice);
        }
        world.compare();
        // The state is a function of the log alone.
        let again = Gate::open(FaultyLog::with_records(world.gate.log().records().to_vec())).expect("a sound log");
        assert_eq!(again.ledger(), world.gate.ledger());
        for (_, fate) in world.model.charges.values() {
            *sometimes.entry(format!("{fate:?}")).or_insert(0u64) += 1;
        }
    }
    // A run in which something never happened proves nothing about it.
    for fate in ["Charged", "Cancelled", "Ended"] {
        assert!(sometimes.get(fate).copied().unwrap_or(0) > 100, "{fate}: {sometimes:?}");
    }
}

/// Admitted costs in any order give the same state, and every prefix of them is admitted.
#[test]
fn the_order_of_charges_does_not_matter() {
    let mut dice = Dice(seed());
    for round in 0..200 * soak() {
        let rule = dice.pick(&[Rule::Basic, Rule::Renyi, Rule::Strong]);
        let mut world = World::new(rule, round % 2 == 0);
        world.gate.add_blocks(0, world.stream, vec!["a".into(), "b".into(), "c".into()]).expect("blocks");
        world.model.blocks = 3;
        let mut admitted = Vec::new();
        for _ in 0..12 {
            let request = world.request(&mut dice);
            if let [ChargeOutcome::Granted(_)] =
                world.gate.charge(1, vec![request.clone()]).expect("healthy").as_slice()
            {
                admitted.push(request);
            }
        }
        let totals = |world: &World| world.gate.ledger().stream(world.stream).expect("the stream").clone();
        for _ in 0..6 {
            for index in (1..admitted.len()).rev() {
                admitted.swap(index, dice.below(index as u64 + 1) as usize);
            }
            let mut other = World::new(rule, round % 2 == 0);
            other.gate.add_blocks(0, other.stream, vec!["a".into(), "b".into(), "c".into()]).expect("blocks");
            for request in &admitted {
                let outcomes = other.gate.charge(1, vec![request.clone()]).expect("healthy");
                assert!(
                    matches!(outcomes.as_slice(), [ChargeOutcome::Granted(_)]),
                    "every prefix is admitted: {outcomes:?}"
                );
            }
            assert_eq!(totals(&other), totals(&world));
        }
    }
}
