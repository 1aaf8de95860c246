//! Networks trained through the kernel: gradients against finite differences, steps against plain gradient descent,
//! the influence of one row, and trainings that learn.

mod classes;
mod derived;
mod support;
mod units;

use sage_kernel::noise::SeededNoise;
use sage_kernel::{Ceiling, Delta, Epsilon, Filter, Lane, LayerShape, Rate, Rule, Session, SessionError, Sigma, Step};
use sage_learn::encode::{Encoded, Example, Layout};
use sage_learn::network::{
    Inputs, Loss, Network, Plan, PlanError, Rates, Shape, ShapeError, TrainError, Training, Work, train,
};
use support::{Dice, opened, run_seed};

const PLAIN: Training = Training { rates: Rates::Constant(1.0), momentum: 0.0, decay: 0.0, threads: 1 };

fn ceiling(epsilon: &str, delta: &str) -> Ceiling {
    Ceiling { epsilon: Epsilon::ceiling(epsilon).expect("an epsilon"), delta: Delta::ceiling(delta).expect("a delta") }
}

/// A network of every kind.
fn shapes() -> Vec<Shape> {
    let mixed = Layout { numbers: 3, active: 2, columns: 9 };
    let numbers = Layout { numbers: 4, active: 0, columns: 0 };
    let one_hot = Layout { numbers: 0, active: 2, columns: 9 };
    let embedded = || Inputs::Embedded { fields: vec![4, 5], width: 3 };
    let shape =
        |layout, inputs, hidden: &[u32], loss| Shape::new(layout, inputs, hidden.to_vec(), loss).expect("a shape");
    vec![
        shape(numbers, Inputs::Direct, &[], Loss::Squared),
        shape(mixed, Inputs::Direct, &[], Loss::Logistic),
        shape(mixed, Inputs::Direct, &[6, 5], Loss::Squared),
        shape(one_hot, Inputs::Direct, &[40], Loss::Logistic),
        shape(mixed, embedded(), &[17, 4], Loss::Logistic),
        shape(one_hot, embedded(), &[7], Loss::Squared),
        shape(mixed, Inputs::Direct, &[], Loss::Softmax { classes: 3 }),
        shape(mixed, embedded(), &[6, 5], Loss::Softmax { classes: 2 }),
    ]
}

fn rows_of(layout: Layout, count: usize, dice: &mut Dice) -> Encoded {
    let numbers = (0..count * layout.numbers as usize).map(|_| dice.signed() as f32).collect();
    let mut indices = Vec::new();
    for _ in 0..count {
        if layout.active == 2 {
            indices.extend([dice.below(4), 4 + dice.below(5)]);
        }
    }
    let labels = (0..count).map(|_| dice.below(2) as f32).collect();
    Encoded::from_parts(layout, numbers, indices, labels).expect("rows that fit")
}

/// A network with non-zero weights, so that every path is taken.
fn random_network(shape: &Shape, dice: &mut Dice) -> Network {
    let layers = shape.layers();
    let draw = |layer: &LayerShape| (0..layer.parameters()).map(|_| dice.signed() as f32 * 0.7).collect();
    Network::from_parameters(shape.clone(), layers.iter().map(draw).collect()).expect("a network")
}

fn loss_of(network: &Network, example: &Example<'_>) -> f64 {
    let mut predicted = vec![0.0; network.shape().loss().outputs() as usize];
    network.row_predictor().predict(example, &mut predicted);
    let (given, label) = (f64::from(predicted[example.label as usize % predicted.len()]), f64::from(example.label));
    let predicted = f64::from(predicted[0]);
    match network.shape().loss() {
        Loss::Softmax { .. } => -given.ln(),
        Loss::Squared => 0.5 * (predicted - label).powi(2),
        Loss::Logistic => -(label * predicted.ln() + (1.0 - label) * (1.0 - predicted).ln()),
    }
}

/// The change of the weights by one step without sampling; the noise is cancelled by a step on no rows with the same
/// seed.
fn moved(network: &Network, rows: Vec<Encoded>, clip: f64, threads: usize, seed: u64) -> Vec<f32> {
    let after = |rows: Vec<Encoded>| {
        let sigma = Sigma::cost("0.5").expect("a multiplier");
        let (mut session, plan) = planned(network.shape(), rows, Step { rate: Rate::LIMIT, sigma, clip }, 1, seed);
        let training = Training { threads, ..PLAIN };
        train(&mut session, Lane::Train, &plan, &training, network.clone()).expect("trains").parameters().concat()
    };
    after(Vec::new()).iter().zip(after(rows)).map(|(before, after)| before - after).collect()
}

fn planned(
    shape: &Shape, rows: Vec<Encoded>, step: Step, steps: u32, seed: u64,
) -> (Session<Encoded, SeededNoise>, Plan) {
    let plan = Plan::with_noise(shape, step, steps, 1.0).expect("a plan");
    (opened(plan.charge().expect("a cost"), rows, SeededNoise::new(seed)), plan)
}

#[test]
fn gradients_equal_differences_of_the_loss() {
    let seed = run_seed("gradients");
    for (index, shape) in shapes().into_iter().enumerate() {
        let mut dice = Dice::new(seed + index as u64);
        let network = random_network(&shape, &mut dice);
        let rows = rows_of(shape.layout(), 1, &mut dice);
        let example = sage_kernel::Rows::row(&rows, 0);
        let mut expected = Vec::new();
        for layer in 0..network.parameters().len() {
            for weight in 0..network.parameters()[layer].len() {
                let at = |by: f32| {
                    let mut parameters = network.parameters().to_vec();
                    parameters[layer][weight] += by;
                    loss_of(&Network::from_parameters(shape.clone(), parameters).expect("a network"), &example)
                };
                expected.push((at(1e-2) - at(-1e-2)) / 2e-2);
            }
        }
        let rows = rows_of(shape.layout(), 1, &mut Dice::new(seed + index as u64).after(&shape));
        let found = moved(&network, vec![rows], 100.0, 1, seed);
        let length = expected.iter().map(|value| value * value).sum::<f64>().sqrt();
        let distance = expected.iter().zip(&found).map(|(one, other)| (one - f64::from(*other)).powi(2)).sum::<f64>();
        // The tolerance covers a ReLU kink within the difference, the grid of 2^-13 at a clip of 100, and single
        // precision.
        assert!(distance.sqrt() < 0.03 * length + 0.03, "{shape:?}: {} of {length}", distance.sqrt());
    }
}

/// With a clip above every gradient, a step is that of plain gradient descent: the sum over the rows.
#[test]
fn a_step_without_noise_is_the_sum_over_the_rows() {
    let seed = run_seed("plain");
    for shape in shapes() {
        let network = random_network(&shape, &mut Dice::new(seed));
        let all = moved(&network, vec![rows_of(shape.layout(), 24, &mut Dice::new(seed + 1))], 50.0, 1, seed);
        let mut dice = Dice::new(seed + 1);
        let mut alone = vec![0.0; all.len()];
        for rows in split(rows_of(shape.layout(), 24, &mut dice)) {
            let one = moved(&network, vec![rows], 50.0, 1, seed);
            alone.iter_mut().zip(one).for_each(|(sum, value)| *sum += value);
        }
        for (one, other) in all.iter().zip(&alone) {
            assert!((one - other).abs() < 2e-2, "{shape:?}: {one} {other}");
        }
    }
}

/// Every row in a batch of its own.
fn split(rows: Encoded) -> Vec<Encoded> {
    let layout = rows.layout();
    let one = |index| {
        let Example { numbers, indices, label, .. } = *sage_kernel::Rows::row(&rows, index);
        Encoded::from_parts(layout, numbers.to_vec(), indices.to_vec(), vec![label]).expect("a row")
    };
    (0..sage_kernel::Rows::count(&rows)).map(one).collect()
}

/// Adding or removing any row changes a released sum by at most the clip; with the same noise the difference is exact
/// up to the grid and single precision.
#[test]
fn one_row_moves_a_step_by_at_most_the_clip() {
    let seed = run_seed("replay");
    let clip = 0.5;
    for shape in shapes() {
        let layout = shape.layout();
        let network = random_network(&shape, &mut Dice::new(seed));
        let without = moved(&network, vec![rows_of(layout, 40, &mut Dice::new(seed + 1))], clip, 2, seed);
        let extremes = [0.0, 1.0, -1e-20, 1e20, f32::MAX, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        for number in extremes {
            for label in [0.0, 1.0, f32::MAX, f32::NAN, 1e10] {
                for indices in [[0, 4], [3, 8], [4, 0], [7, 7], [u32::MAX, 1]] {
                    let numbers = vec![number; layout.numbers as usize];
                    let indices = indices[..layout.active as usize].to_vec();
                    let row = Encoded::from_parts(layout, numbers, indices, vec![label]).expect("a row");
                    let batches = vec![row, rows_of(layout, 40, &mut Dice::new(seed + 1))];
                    let with = moved(&network, batches, clip, 2, seed);
                    let pairs = without.iter().zip(&with);
                    let distance = pairs.map(|(one, other)| f64::from(one - other).powi(2)).sum::<f64>().sqrt();
                    assert!(distance <= clip + 1e-4, "{shape:?} {number} {label}: {distance}");
                }
            }
        }
    }
}

#[test]
fn threads_change_no_bit() {
    let seed = run_seed("threads");
    let layout = Layout { numbers: 3, active: 2, columns: 9 };
    let embedded = Inputs::Embedded { fields: vec![4, 5], width: 8 };
    for inputs in [Inputs::Direct, embedded] {
        let shape = Shape::new(layout, inputs, vec![1100, 130], Loss::Squared).expect("a shape");
        let run = |threads: usize| {
            let sigma = Sigma::cost("0.5").expect("a multiplier");
            let step = Step { rate: Rate::cost("0.7").expect("a rate"), sigma, clip: 1.0 };
            let rows = vec![rows_of(layout, 700, &mut Dice::new(seed))];
            let (mut session, plan) = planned(&shape, rows, step, 3, seed);
            let training = Training { rates: Rates::Constant(1e-3), momentum: 0.9, decay: 0.01, threads };
            train(&mut session, Lane::Train, &plan, &training, Network::new(shape.clone(), 3)).expect("trains")
        };
        let one = run(1);
        assert_eq!(one, run(2));
        assert_eq!(one, run(3));
    }
}

/// A step on no rows releases noise of the right standard deviation; the divisor is the same as for other lanes.
#[test]
fn empty_lanes_give_noise_of_the_right_deviation() {
    let seed = run_seed("empty");
    let layout = Layout { numbers: 0, active: 2, columns: 9 };
    let shape = Shape::new(layout, Inputs::Direct, vec![500, 20], Loss::Squared).expect("a shape");
    let step = Step { rate: Rate::LIMIT, sigma: Sigma::cost("2").expect("a multiplier"), clip: 3.0 };
    for rows in [Vec::new(), vec![Encoded::new(layout)]] {
        let (mut session, plan) = planned(&shape, rows, step, 1, seed);
        let start = Network::new(shape.clone(), 1);
        let end = train(&mut session, Lane::Train, &plan, &PLAIN, start.clone()).expect("trains");
        let pairs = start.parameters().iter().flatten().zip(end.parameters().iter().flatten());
        let squares: Vec<f64> = pairs.map(|(one, other)| f64::from(one - other).powi(2)).collect();
        let deviation = (squares.iter().sum::<f64>() / squares.len() as f64).sqrt();
        // Fifteen thousand draws determine the deviation to one part in 170; five times that is allowed.
        assert!((deviation / 6.0 - 1.0).abs() < 0.03, "{deviation}");
    }
}

/// Rows on two sides of a plane.
fn separable(count: usize, seed: u64) -> (Vec<f32>, Vec<f32>) {
    let mut dice = Dice::new(seed);
    let mut numbers = Vec::new();
    let mut labels = Vec::new();
    for _ in 0..count {
        let row: Vec<f64> = (0..5).map(|_| dice.signed()).collect();
        labels.push(if row[0] + 0.5 * row[1] - row[2] > 0.0 { 1.0 } else { 0.0 });
        numbers.extend(row.into_iter().map(|value| value as f32));
    }
    (numbers, labels)
}

#[test]
fn private_training_learns() {
    let seed = run_seed("learns");
    let layout = Layout { numbers: 5, active: 0, columns: 0 };
    for (hidden, rate) in [(Vec::new(), 4.0), (vec![16, 8], 0.5)] {
        let shape = Shape::new(layout, Inputs::Direct, hidden, Loss::Logistic).expect("a shape");
        let work = Work::epochs(20_000.0, 500.0, 5.0, 1.0);
        let plan = Plan::new(&shape, work, ceiling("1", "1e-6"), Rule::Renyi).expect("a plan");
        let (numbers, labels) = separable(20_000, seed);
        let rows = Encoded::from_parts(layout, numbers, Vec::new(), labels).expect("rows");
        let mut session = opened(plan.charge().expect("a cost"), vec![rows], SeededNoise::new(seed));
        let training = Training { rates: Rates::Cosine(rate), momentum: 0.5, decay: 0.0, threads: 2 };
        let network = train(&mut session, Lane::Train, &plan, &training, Network::new(shape, 1)).expect("trains");
        let (numbers, labels) = separable(5_000, seed + 1);
        let test = Encoded::from_parts(layout, numbers, Vec::new(), labels.clone()).expect("rows");
        let right =
            network.predict(&test).iter().zip(&labels).filter(|(p, label)| (**p > 0.5) == (**label > 0.5)).count();
        assert!(right > 4_500, "{right} of 5000");
        // The charge is consumed: no further step is admitted.
        let again = train(&mut session, Lane::Train, &plan, &training, network);
        assert_eq!(again.map(drop), Err(TrainError::Session(SessionError::NotCovered)));
    }
}

/// A single class, more parameters than rows, NaN or infinite values: the network is finite in every case.
#[test]
fn odd_rows_give_finite_networks() {
    let seed = run_seed("odd");
    let layout = Layout { numbers: 4, active: 0, columns: 0 };
    let shape = Shape::new(layout, Inputs::Direct, vec![300], Loss::Logistic).expect("a shape");
    let mut dice = Dice::new(seed);
    let ordinary: Vec<f32> = (0..40).map(|_| dice.signed() as f32).collect();
    let mut with_invalid = ordinary.clone();
    (with_invalid[3], with_invalid[17], with_invalid[30]) = (f32::NAN, f32::INFINITY, f32::MAX);
    for (numbers, label) in [(ordinary.clone(), 1.0), (ordinary, f32::NAN), (with_invalid, 0.0)] {
        let rows = Encoded::from_parts(layout, numbers, Vec::new(), vec![label; 10]).expect("rows");
        let step = Step { rate: Rate::LIMIT, sigma: Sigma::cost("1").expect("a multiplier"), clip: 1.0 };
        let (mut session, plan) = planned(&shape, vec![rows], step, 20, seed);
        let training = Training { rates: Rates::Constant(0.01), ..PLAIN };
        let network =
            train(&mut session, Lane::Train, &plan, &training, Network::new(shape.clone(), 1)).expect("trains");
        let predicted =
            network.forward(&Example { numbers: &[0.1, 0.2, 0.3, 0.4], indices: &[], label: 0.0, beside: &[] });
        assert!((0.0..=1.0).contains(&predicted), "{predicted}");
        assert!(network.forward(&Example { numbers: &[f32::NAN; 4], indices: &[], label: 0.0, beside: &[] }).is_nan());
        assert!(network.forward(&Example { numbers: &[1.0], indices: &[], label: 0.0, beside: &[] }).is_nan());
    }
}

#[test]
fn steps_that_are_far_too_long_are_an_error() {
    let layout = Layout { numbers: 2, active: 0, columns: 0 };
    let shape = Shape::new(layout, Inputs::Direct, vec![8], Loss::Squared).expect("a shape");
    let step = Step { rate: Rate::LIMIT, sigma: Sigma::cost("1").expect("a multiplier"), clip: 1e30 };
    let rows = Encoded::from_parts(layout, vec![1.0; 4], Vec::new(), vec![1e20; 2]).expect("rows");
    let (mut session, plan) = planned(&shape, vec![rows], step, 20, 1);
    let training = Training { rates: Rates::Constant(1e20), ..PLAIN };
    let end = train(&mut session, Lane::Train, &plan, &training, Network::new(shape.clone(), 1));
    assert!(matches!(end, Err(TrainError::Diverged(_))), "{end:?}");
    let rates = [Rates::Constant(f64::NAN), Rates::Cosine(0.0), Rates::Stepwise { start: 1.0, factor: 0.0, every: 1 }];
    let wrong = rates.map(|rates| Training { rates, ..PLAIN });
    for training in wrong.into_iter().chain([Training { momentum: 1.0, ..PLAIN }, Training { decay: -1.0, ..PLAIN }]) {
        let end = train(&mut session, Lane::Train, &plan, &training, Network::new(shape.clone(), 1));
        assert!(matches!(end, Err(TrainError::Parameter(_))), "{end:?}");
    }
}

/// The filter that will charge a plan admits it alone, and would not admit it with a hundredth less noise.
#[test]
fn plans_meet_their_target_and_hardly_more() {
    let shape = &shapes()[2];
    for rule in Rule::ADAPTIVE {
        for (epsilon, steps) in [("0.5", 1), ("1", 200), ("3", 2_000)] {
            let target = ceiling(epsilon, "1e-6");
            let work = Work { rows: 50_000.0, batch: 256.0, steps, clip: 1.0 };
            let plan = Plan::new(shape, work, target, rule).expect("a plan");
            let filter = Filter::new(rule, target).expect("a filter");
            let admits = |plan: &Plan| {
                let blocks = sage_kernel::Blocks::range(0, 0).expect("a block");
                let amounts = filter.price(&plan.charge().expect("a cost"), Lane::Train, &blocks).expect("a price");
                filter.admits(&vec![0; filter.caps().len()], &amounts)
            };
            assert!(admits(&plan), "{rule} {epsilon} {steps}");
            let sigma = Sigma::from_units(plan.step().sigma.units() / 100 * 99).expect("a multiplier");
            let less = Plan::with_noise(shape, Step { sigma, ..plan.step() }, steps, 256.0).expect("a plan");
            assert!(!admits(&less.stated_at(plan.delta())), "{rule} {epsilon} {steps}");
        }
    }
    let work = Work { rows: 1000.0, batch: 1000.0, steps: u32::MAX, clip: 1.0 };
    assert_eq!(Plan::new(shape, work, ceiling("0.000001", "1e-15"), Rule::Renyi), Err(PlanError::OutOfReach));
    for wrong in [
        Work { rows: 0.0, ..work },
        Work { rows: f64::NAN, ..work },
        Work { batch: -1.0, ..work },
        Work { steps: 0, ..work },
        Work { clip: 0.0, ..work },
    ] {
        assert!(matches!(Plan::new(shape, wrong, ceiling("1", "1e-6"), Rule::Renyi), Err(PlanError::Parameter(_))));
    }
    assert_eq!(Plan::new(shape, work, ceiling("1", "1e-6"), Rule::Fixed), Err(PlanError::Rule));
}

#[test]
fn shapes_that_do_not_fit_are_refused() {
    let layout = Layout { numbers: 1, active: 2, columns: 9 };
    let make = |layout, inputs, hidden: &[u32]| Shape::new(layout, inputs, hidden.to_vec(), Loss::Squared).map(drop);
    let embedded = |fields: &[u32], width| Inputs::Embedded { fields: fields.to_vec(), width };
    assert_eq!(make(Layout::default(), Inputs::Direct, &[3]), Err(ShapeError::NoInputs));
    assert_eq!(make(layout, Inputs::Direct, &[3, 0]), Err(ShapeError::Empty));
    assert_eq!(make(layout, embedded(&[4, 5], 0), &[3]), Err(ShapeError::Empty));
    assert_eq!(make(layout, embedded(&[9], 2), &[3]), Err(ShapeError::Fields));
    assert_eq!(make(layout, embedded(&[4, 4], 2), &[3]), Err(ShapeError::Fields));
    assert_eq!(make(layout, Inputs::Direct, &[u32::MAX, u32::MAX]), Err(ShapeError::TooLarge));
    assert_eq!(make(layout, embedded(&[4, 5], 2), &[3]), Ok(()));
}
