//! Membership inference games: a tiny learner on a few ordinary rows, with or without one canary row.
//!
//! Every play is charged at a gate with an in-memory log, on a block of its own whose ceiling is the claim, and runs
//! in a session of the kernel, as a pipeline does. The attacker knows everything but the noise and the presence of
//! the canary, sees every released number, and computes one score. The rows are synthetic; no real row is read.

use std::f64::consts::FRAC_1_SQRT_2;

use libm::sqrt;
use sage_kernel::accountant::{Composition, Loss as StepLoss};
use sage_kernel::noise::{NoiseError, NoiseSource};
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon, Filter, Gate, Lane,
    Mechanism, MemoryLog, MomentBounds, Policy, Request, RequestKey, Rule, Session, Sigma, StreamId,
};

use super::bound::{Claim, log_likelihood};
use super::report::{AuditError, Learner};
use crate::encode::{Encoded, Layout};
use crate::network::{Inputs, Loss, Network, Plan, Rates, Shape, Training, Work, train};
use crate::plan::{gaussian_mu, gaussian_sigma};

/// Blocks of an [`AuditGate`] before it is replaced.
const BLOCKS: u32 = 4096;

/// The number of ordinary rows of a game.
const ORDINARY: usize = 3;

/// The value of a canary: far beyond every clip.
const CANARY_VALUE: f32 = 8192.0;

/// The weight with which a canary's gradients have the same norm in both layers of a network.
const BALANCED: f32 = 1.0 / 128.0;

/// The number of steps of a training without sampling.
const STEPS: u32 = 4;

/// The number of steps of a training with sampling, and the sampling rate.
const SAMPLED: (u32, f64) = (8, 0.25);

/// A learning rate so small that the weights, and with them the gradients, hardly change, and large enough that the
/// change is visible in single precision.
const RATE: f64 = 1e-5;

/// A gate with a supply of blocks, each of which is charged once.
pub(super) struct AuditGate {
    gate: Gate<MemoryLog>,
    stream: StreamId,
    filter: Filter,
    used: u32,
}

impl AuditGate {
    pub(super) fn new(filter: Filter) -> Result<Self, AuditError> {
        let mut gate = Gate::open(MemoryLog::default()).map_err(AuditError::Gate)?;
        let policy = Policy::single(filter.clone(), AccessModes::EnforcedOnly);
        let stream = gate.create_stream(0, "audit", policy).map_err(AuditError::Gate)?;
        let keys = (0..BLOCKS).map(|block| block.to_string()).collect();
        gate.add_blocks(0, stream, keys).map_err(AuditError::Gate)?;
        Ok(Self { gate, stream, filter, used: 0 })
    }

    /// Charges the cost on a fresh block and opens a session on the rows.
    pub(super) fn open<N: NoiseSource>(
        &mut self, cost: Cost, rows: Encoded, noise: N,
    ) -> Result<Session<Encoded, N>, AuditError> {
        if self.used == BLOCKS {
            *self = Self::new(self.filter.clone())?;
        }
        let request = Request {
            key: RequestKey::from_text(&self.used.to_string()),
            stream: self.stream,
            context: ContextId(0),
            blocks: Blocks::range(self.used, self.used).map_err(|_| AuditError::Refused)?,
            costs: [Some(cost), None],
            access: AccessMode::Enforced,
            purpose: "audit".to_owned(),
        };
        self.used += 1;
        let outcome = self.gate.charge(0, vec![request]).map_err(AuditError::Gate)?.pop();
        let Some(ChargeOutcome::Granted(grant)) = outcome else { return Err(AuditError::Refused) };
        let permit = self.gate.start(0, grant).map_err(AuditError::Gate)?;
        permit.open(noise, |_| Ok([vec![rows], Vec::new()]))
    }
}

/// A learner that is set up for plays.
pub(super) struct Game {
    gate: AuditGate,
    cost: Cost,
    claim: Claim,
    kind: Kind,
}

enum Kind {
    Network { plan: Plan, network: Network },
    Linear { sigma: Sigma },
}

impl Game {
    /// The learner with the noise that its plan needs for the target.
    pub(super) fn new(learner: Learner, target: Ceiling) -> Result<Self, AuditError> {
        let (epsilon, delta) = numbers(target);
        let exact = gaussian_mu(epsilon, delta).map_err(|_| AuditError::OutOfReach)?;
        let gaussian = Claim::Gaussian { mu: exact, delta };
        let basic = Filter::new(Rule::Basic, target).ok_or(AuditError::OutOfReach)?;
        match learner {
            Learner::Network => {
                let plan = network_plan(&relu_shape()?, (STEPS, 1.0), ORDINARY + 1, target)?;
                Self::network(AuditGate::new(basic)?, gaussian, plan)
            }
            Learner::SampledNetwork => {
                let plan = network_plan(&relu_shape()?, SAMPLED, ORDINARY + 1, target)?;
                let step = StepLoss::SampledGaussian { q: SAMPLED.1, sigma: deviation(plan.step().sigma) };
                let composition = Composition::new(&[(step, u64::from(plan.steps()))]);
                let composition = composition.map_err(|_| AuditError::OutOfReach)?;
                // The plan was checked against the target's own filter, which evaluates the privacy-loss
                // distribution. Doing so at every charge would take longer than the plays; a Rényi filter is fast.
                let loose = Filter::new(Rule::Renyi, LOOSE).ok_or(AuditError::OutOfReach)?;
                Self::network(AuditGate::new(loose)?, Claim::composed(epsilon, delta, &composition), plan)
            }
            Learner::Linear => {
                let (sigma, cost) = linear_noise(&basic, target)?;
                Ok(Self { gate: AuditGate::new(basic)?, cost, claim: gaussian, kind: Kind::Linear { sigma } })
            }
        }
    }

    fn network(gate: AuditGate, claim: Claim, plan: Plan) -> Result<Self, AuditError> {
        let cost = plan.charge().ok_or(AuditError::OutOfReach)?;
        // Ordinary rows are zeroed by the ReLU, so that only the canary moves both layers' weights.
        let weights = vec![vec![-1.0, BALANCED, 0.0], vec![BALANCED, 0.0]];
        let network = Network::from_parameters(relu_shape()?, weights).ok_or(AuditError::OutOfReach)?;
        Ok(Self { gate, cost, claim, kind: Kind::Network { plan, network } })
    }

    pub(super) const fn claim(&self) -> &Claim {
        &self.claim
    }

    /// Plays once and returns the attacker's score.
    pub(super) fn play<N: NoiseSource>(&mut self, world: World, noise: N) -> Result<f64, AuditError> {
        let canaries: &[u32] = match world {
            World::Without => &[],
            World::With => &[0],
        };
        // A network mispredicts the canary if its label is zero; a sum of labels changes only if its label is not.
        let label = match self.kind {
            Kind::Network { .. } => 0.0,
            Kind::Linear { .. } => 1.0,
        };
        let rows = rows_with(1, canaries, label)?;
        let mut session = self.gate.open(self.cost.clone(), rows, noise)?;
        match &self.kind {
            Kind::Network { plan, network } => {
                let released = train_watched(&mut session, plan, network.clone())?;
                let rate = plan.step().rate.units() as f64 / 1e12;
                let along = |step: &Vec<Vec<f64>>| (step[0][1] + step[1][0]) * FRAC_1_SQRT_2 / plan.step().clip;
                let found: Vec<f64> = released.iter().map(along).collect();
                Ok(score_steps(&found, rate, deviation(plan.step().sigma)))
            }
            Kind::Linear { sigma } => linear_score(&mut session, *sigma),
        }
    }
}

/// Whether the canary is present.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum World {
    Without,
    With,
}

/// A ceiling above every claim, for games whose charges are priced by another rule than the claim.
const LOOSE: Ceiling = Ceiling {
    epsilon: Epsilon::from_units(55_000_000_000_000).expect("below the limit"),
    delta: Delta::from_units(500_000_000_000_000_000).expect("below the limit"),
};

pub(super) fn numbers(target: Ceiling) -> (f64, f64) {
    (target.epsilon.units() as f64 / 1e12, target.delta.units() as f64 / 1e18)
}

fn deviation(sigma: Sigma) -> f64 {
    sigma.units() as f64 / 1e9
}

/// One number for all ordinary rows, and one for each canary.
fn layout(canaries: u32) -> Layout {
    Layout { numbers: 1 + canaries, active: 0, columns: 0 }
}

/// Logistic regression: a row's gradient is the row times its error, so a canary can choose its direction.
pub(super) fn logistic_shape(canaries: u32) -> Result<Shape, AuditError> {
    shape(canaries, Vec::new())
}

/// A network with one ReLU layer, so that a gradient is clipped over two layers.
fn relu_shape() -> Result<Shape, AuditError> {
    shape(1, vec![1])
}

fn shape(canaries: u32, hidden: Vec<u32>) -> Result<Shape, AuditError> {
    Shape::new(layout(canaries), Inputs::Direct, hidden, Loss::Logistic).map_err(|_| AuditError::OutOfReach)
}

/// `steps` steps of sampled rows, with the noise that the target needs.
pub(super) fn network_plan(shape: &Shape, steps: (u32, f64), rows: usize, target: Ceiling) -> Result<Plan, AuditError> {
    let rows = rows as f64;
    let work = Work { rows, batch: rows * steps.1, steps: steps.0, clip: 1.0 };
    Plan::new(shape, work, target, Rule::Basic).map_err(AuditError::Plan)
}

/// The steps and the sampling rate of a training without sampling.
pub(super) const fn full_steps() -> (u32, f64) {
    (STEPS, 1.0)
}

/// Ordinary rows, then the canaries that are present: each alone in its direction, and beyond any clip.
pub(super) fn rows_with(canaries: u32, present: &[u32], label: f32) -> Result<Encoded, AuditError> {
    let layout = layout(canaries);
    let width = layout.numbers as usize;
    let mut numbers = vec![0.0; (ORDINARY + present.len()) * width];
    let (ordinary, canary_rows) = numbers.split_at_mut(ORDINARY * width);
    ordinary.chunks_mut(width).for_each(|row| row[0] = 1.0);
    canary_rows.chunks_mut(width).zip(present).for_each(|(row, &canary)| row[1 + canary as usize] = CANARY_VALUE);
    let mut labels = vec![1.0; ORDINARY];
    labels.resize(ORDINARY + present.len(), label);
    Encoded::from_parts(layout, numbers, Vec::new(), labels).ok_or(AuditError::OutOfReach)
}

/// Trains one step at a time and returns for each the noisy sums layer by layer: the change of the released weights
/// divided by the step size.
pub(super) fn train_watched<N: NoiseSource>(
    session: &mut Session<Encoded, N>, plan: &Plan, mut network: Network,
) -> Result<Vec<Vec<Vec<f64>>>, AuditError> {
    let training = Training { rates: Rates::Constant(RATE), momentum: 0.0, decay: 0.0, threads: 1 };
    let step = plan.first(1);
    let mut released = Vec::with_capacity(plan.steps() as usize);
    for _ in 0..plan.steps() {
        let next = train(session, Lane::Train, &step, &training, network.clone()).map_err(AuditError::Train)?;
        let scale = -plan.expected() / RATE;
        let moved = |(after, before): (&f32, &f32)| (f64::from(*after) - f64::from(*before)) * scale;
        let layers = next.parameters().iter().zip(network.parameters());
        released.push(layers.map(|(after, before)| after.iter().zip(before).map(moved).collect()).collect());
        network = next;
    }
    Ok(released)
}

/// The score of evidence that noise of this size practically never produces.
const SURE: f64 = 1e6;

/// The attacker's score of the canary's numbers in all steps, in units of the clip.
///
/// A step without noise, or two steps with the same noise, are stronger evidence than any likelihood. Numbers within
/// a millionth of the noise of zero, of one clip, of each other or of one clip apart occur in fewer than one step in
/// a hundred thousand, and are scored as if they never occurred by chance.
pub fn score_steps(found: &[f64], rate: f64, sigma: f64) -> f64 {
    let near = |value: f64, expected: f64| (value - expected).abs() <= 1e-6 * sigma;
    let likely: f64 = found.iter().map(|&number| log_likelihood(number, rate, sigma)).sum();
    let silent = found.iter().filter(|&&number| near(number, 0.0)).count() as f64;
    let shown = found.iter().filter(|&&number| near(number, 1.0)).count() as f64;
    let pairs = || found.iter().zip(found.iter().skip(1)).map(|(before, after)| (after - before).abs());
    let moved = pairs().filter(|&moved| near(moved, 1.0)).count() as f64;
    let same = pairs().filter(|&moved| near(moved, 0.0)).count() as f64;
    likely + SURE * (2.0 * (shown + moved) - silent - same)
}

/// The noise with which the filter admits a matrix, a vector and an eigenvalue, and their cost.
fn linear_noise(filter: &Filter, target: Ceiling) -> Result<(Sigma, Cost), AuditError> {
    let (epsilon, delta) = numbers(target);
    let least = gaussian_sigma(epsilon, delta).map_err(|_| AuditError::OutOfReach)? * sqrt(3.0);
    let blocks = Blocks::range(0, 0).map_err(|_| AuditError::OutOfReach)?;
    let mut more = 1e-9;
    while more < 0.1 {
        let units = libm::ceil(least * (1.0 + more) * 1e9) as u64;
        let sigma = Sigma::from_units(units).ok_or(AuditError::OutOfReach)?;
        let releases = [3, 2, 1].map(|coordinates| Mechanism::Gaussian { sigma, coordinates, count: 1 });
        let cost = Cost::at_delta(releases.to_vec(), target.delta).map_err(|_| AuditError::OutOfReach)?;
        let price = filter.price(&cost, Lane::Train, &blocks);
        if price.is_ok_and(|price| filter.admits(&vec![0; filter.caps().len()], &price)) {
            return Ok((sigma, cost));
        }
        more *= 4.0;
    }
    Err(AuditError::OutOfReach)
}

/// The attacker's score of the releases of a linear learner. The canary has a direction of its own, in which the
/// matrix is otherwise zero: it changes the matrix, the vector and the smallest eigenvalue, each by as much as one row
/// can.
fn linear_score<N: NoiseSource>(session: &mut Session<Encoded, N>, sigma: Sigma) -> Result<f64, AuditError> {
    let bounds = MomentBounds { width: 2, feature_norm: 1.0, label_size: 1.0 };
    let moments = session.moments(Lane::Train, bounds, |row, features| {
        features.iter_mut().zip(row.numbers).for_each(|(feature, &number)| *feature = f64::from(number));
        f64::from(row.label)
    });
    let moments = moments.map_err(AuditError::Session)?;
    let matrix = session.noisy_matrix(&moments, sigma).map_err(AuditError::Session)?;
    let cross = session.noisy_cross(&moments, sigma).map_err(AuditError::Session)?;
    let eigenvalue = session.noisy_smallest_eigenvalue(&moments, sigma).map_err(AuditError::Session)?;
    let found = [matrix[3], cross[1], eigenvalue];
    Ok(found.iter().map(|&number| log_likelihood(number, 1.0, deviation(sigma))).sum())
}

impl From<NoiseError> for AuditError {
    fn from(error: NoiseError) -> Self {
        Self::Noise(error)
    }
}
