//! Without noise nothing is released: a source that fails while it is drawn from fails every mechanism.

use super::super::source::KeyStream;
use super::super::source::sealed::Sealed;
use super::super::{NoiseError, SecureNoise, SeededNoise, poisson_mask, uniform_below};
use super::Scripted;
use crate::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon, Filter, Gate, Lane,
    LayerShape, Mechanism, MemoryLog, MomentBounds, Policy, Range, Rate, Request, RequestKey, Rounding, Rows, Rule,
    Session, SessionError, Sigma, Split, Step, StreamId, TableNoise,
};

/// A source that gives words, and reports a failure after this many draws that succeed.
struct Failing {
    words: SeededNoise,
    left: u32,
}

impl Sealed for Failing {
    fn fork(&mut self) -> Result<Self, NoiseError> {
        Ok(Self { words: self.words.fork()?, left: self.left })
    }

    fn stream(&mut self) -> &mut KeyStream {
        self.words.stream()
    }

    fn finish(&mut self) -> Result<(), NoiseError> {
        self.left = self.left.checked_sub(1).ok_or(NoiseError::EntropyUnavailable)?;
        Ok(())
    }
}

struct Numbers(Vec<[f64; 1]>);

impl Rows for Numbers {
    type Row<'rows> = &'rows [f64];

    fn count(&self) -> usize {
        self.0.len()
    }

    fn row(&self, index: usize) -> &[f64] {
        &self.0[index]
    }
}

/// A session on two rows, with enough charged for one of each mechanism.
fn session(left: u32) -> Session<Numbers, Failing> {
    let mut gate = Gate::open(MemoryLog::default()).expect("an empty log");
    let ceiling = Ceiling { epsilon: Epsilon::cost("50").expect("ε"), delta: Delta::cost("0.1").expect("δ") };
    let filter = Filter::new(Rule::Renyi, ceiling).expect("a filter");
    let stream = gate.create_stream(0, "s", Policy::single(filter, AccessModes::EnforcedOnly)).expect("a stream");
    gate.add_blocks(0, stream, vec!["b".to_owned()]).expect("a block");
    let (sigma, epsilon) = (sigma(), epsilon());
    let parts = vec![
        Mechanism::Laplace { epsilon, count: 4 },
        TableNoise::Gaussian(sigma).mechanism().expect("a price"),
        Mechanism::Gaussian { sigma, coordinates: 1, count: 4 },
        Mechanism::SampledGaussian { rate: Rate::LIMIT, sigma, coordinates: 2, steps: 1 },
    ];
    let request = Request {
        key: RequestKey::from_text("k"),
        stream: StreamId(0),
        context: ContextId(0),
        blocks: Blocks::range(0, 0).expect("a block"),
        costs: [Some(Cost::new(parts).expect("a cost")), None],
        access: AccessMode::Enforced,
        purpose: "a test".to_owned(),
    };
    let answer = gate.charge(0, [request]).expect("healthy").remove(0);
    let ChargeOutcome::Granted(grant) = answer else { panic!("{answer:?}") };
    let permit = gate.start(0, grant).expect("starts");
    let rows = || Ok::<_, ()>([vec![Numbers(vec![[0.5], [0.25]])], Vec::new()]);
    permit.open(Failing { words: SeededNoise::new(1), left }, |_| rows()).expect("opens")
}

fn sigma() -> Sigma {
    Sigma::cost("20").expect("σ")
}

fn epsilon() -> Epsilon {
    Epsilon::cost("0.5").expect("ε")
}

type Mechanisms = [fn(&mut Session<Numbers, Failing>) -> Result<(), SessionError>; 9];

const MECHANISMS: Mechanisms = [
    |session| session.histogram(Lane::Train, 1, TableNoise::Laplace(epsilon()), |_| Some(0)).map(drop),
    |session| session.histogram(Lane::Train, 1, TableNoise::Gaussian(sigma()), |_| Some(0)).map(drop),
    |session| {
        let range = Range::new(0.0, 1.0).expect("a range");
        let noise = TableNoise::Laplace(epsilon());
        session.pairs(Lane::Train, 1, range, Rounding::Up, noise, |row| Some((0, row[0]))).map(drop)
    },
    |session| session.majority_counts(Lane::Train, 1, 1, TableNoise::Laplace(epsilon()), |_| Some((0, 0))).map(drop),
    |session| session.vector_sum(Lane::Train, 1, 1.0, sigma(), |row, out| out[0] = row[0]).map(drop),
    |session| {
        let moments = moments(session);
        session.noisy_matrix(&moments, sigma()).map(drop)
    },
    |session| {
        let moments = moments(session);
        session.noisy_smallest_eigenvalue(&moments, sigma()).map(drop)
    },
    |session| {
        let moments = moments(session);
        session.least_squared_loss(&moments, 1.0, epsilon()).map(drop)
    },
    |session| {
        let step = Step { rate: Rate::LIMIT, sigma: sigma(), clip: 1.0 };
        let outcome = session.sampled_sum(Lane::Train, step, &[LayerShape::dense(1, 1)], |sample, layers| {
            (0..sample.count()).for_each(|index| {
                layers[0].values[index] = sample.row(index)[0] as f32;
                layers[0].errors[index] = 1.0;
            });
        });
        outcome.map(drop)
    },
];

fn moments(session: &Session<Numbers, Failing>) -> crate::Moments {
    let bounds = MomentBounds { width: 1, feature_norm: 1.0, label_size: 1.0 };
    let value = |row: &[f64], features: &mut [f64]| {
        features[0] = row[0];
        0.5
    };
    session.moments(Lane::Train, bounds, value).expect("granted")
}

#[test]
fn every_mechanism_fails_with_its_source() {
    for (index, mechanism) in MECHANISMS.into_iter().enumerate() {
        assert_eq!(mechanism(&mut session(u32::MAX)), Ok(()), "mechanism {index}");
        let failed = Err(SessionError::Noise(NoiseError::EntropyUnavailable));
        assert_eq!(mechanism(&mut session(0)), failed, "mechanism {index}");
    }
    // A step draws its sample first, then the noise of its sums from a fork.
    let failed = Err(SessionError::Noise(NoiseError::EntropyUnavailable));
    let step = MECHANISMS[8];
    let mut session = session(1);
    session.noise.left = 1;
    assert_eq!(step(&mut session), failed);
    assert_eq!(uniform_below(&mut session.noise, 5), Err(NoiseError::EntropyUnavailable));
}

/// A source that failed once has no forks, although there is entropy again.
#[test]
fn a_failed_source_is_not_forked() {
    let mut source = SecureNoise::new().expect("entropy");
    source.entropy = |_| false;
    assert_eq!(source.renew(), Err(NoiseError::EntropyUnavailable));
    source.entropy = |key| getrandom::fill(key).is_ok();
    assert!(source.fork().is_err());
}

/// What a mask held before is gone, whether or not the draw succeeds.
#[test]
fn a_mask_holds_one_draw() {
    let mut mask = vec![7; 3];
    poisson_mask(&mut SeededNoise::new(1), 1 << 64, 70, &mut mask).expect("seeded");
    assert_eq!(mask, [u64::MAX, 0b11_1111]);
    poisson_mask(&mut SeededNoise::new(1), 0, 64, &mut mask).expect("seeded");
    assert_eq!(mask, [0]);
    let mut failing = Failing { words: SeededNoise::new(1), left: 0 };
    assert!(poisson_mask(&mut failing, 1 << 64, 70, &mut mask).is_err() && mask.is_empty());
}

/// A draw equal to the rate of the test lane is on the train lane: as many draws are below the rate as it has units.
#[test]
fn a_lane_is_drawn_with_exactly_its_rate() {
    let split = Split::new(Rate::cost("0.25").expect("a rate")).expect("a split");
    for (word, lane) in [(0, Lane::Test), (249_999_999_999, Lane::Test), (250_000_000_000, Lane::Train)] {
        assert_eq!(split.draw(&mut Scripted::new(&[word], 1)), Ok(lane), "{word}");
    }
}
