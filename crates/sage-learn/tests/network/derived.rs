//! Trainings with derived hyper-parameters: good with a large budget, and never much worse than a constant.

use sage_kernel::noise::SeededNoise;
use sage_kernel::{Cost, Lane, Rate, Rows, Sigma, TableNoise};
use sage_learn::encode::{Encoded, Layout};
use sage_learn::network::{CalibrationNoise, ChargedSteps, Hyperparameters, Inputs, Loss, Network, Shape};

use crate::support::{Dice, opened, run_seed};

const FIELDS: [u32; 3] = [40, 24, 7];
const LAYOUT: Layout = Layout { numbers: 1, active: 3, columns: 71 };

/// Rows whose label depends on the three categories and the number, and the prediction of the true model for each.
fn synthetic(loss: Loss, count: usize, dice: &mut Dice) -> (Encoded, Vec<f64>) {
    let effects: Vec<f64> = (0..LAYOUT.columns).map(|_| dice.signed()).collect();
    let (mut numbers, mut indices, mut labels, mut truth) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for _ in 0..count {
        let number = dice.signed();
        let (mut score, mut first) = (number, 0);
        for categories in FIELDS {
            // Low indices are more frequent.
            let index = first + dice.below(categories).min(dice.below(categories));
            score += effects[index as usize];
            indices.push(index);
            first += categories;
        }
        numbers.push(number as f32);
        let (label, best) = match loss {
            Loss::Logistic => {
                let chance = 1.0 / (1.0 + (1.0 - score).exp());
                (f64::from(u8::from(0.5 + 0.5 * dice.signed() < chance)), chance)
            }
            Loss::Squared | Loss::Softmax { .. } => {
                let best = (0.2 + 0.04 * score).clamp(0.0, 1.0);
                ((best + 0.03 * dice.signed()).clamp(0.0, 1.0), best)
            }
        };
        labels.push(label as f32);
        truth.push(best);
    }
    (Encoded::from_parts(LAYOUT, numbers, indices, labels).expect("rows that fit"), truth)
}

fn mean_loss(loss: Loss, rows: &Encoded, predicted: impl Fn(usize) -> f64) -> f64 {
    let of_row = |index: usize| {
        let (value, label) = (predicted(index), f64::from(rows.row(index).label));
        match loss {
            Loss::Squared | Loss::Softmax { .. } => (value - label).powi(2),
            Loss::Logistic => -(if label > 0.5 { value } else { 1.0 - value }).max(1e-12).ln(),
        }
    };
    (0..rows.count()).map(of_row).sum::<f64>() / rows.count() as f64
}

/// Trains with a budget that is worth one release with this noise multiplier.
fn trained(shape: &Shape, rows: Encoded, budget_sigma: f64, seed: u64) -> Network {
    let sigma = |sigma: f64| Sigma::from_units((sigma * 1e9) as u64).expect("a multiplier");
    let plan = Hyperparameters::DERIVED.plan_steps(shape, rows.count() as f64, budget_sigma);
    let table = |share: f64| TableNoise::Gaussian(sigma(budget_sigma / share.sqrt()));
    // The central limit of composed sampled Gaussians, for what is left of the budget.
    let left = (1.0 - plan.moments_share - plan.calibration_share) / budget_sigma.powi(2);
    let step_sigma = 1.0 / (1.0 + left / (plan.share.powi(2) * f64::from(plan.steps))).ln().sqrt();
    let charged = ChargedSteps {
        moments: table(plan.moments_share),
        rate: Rate::from_units((plan.share * Rate::LIMIT.units() as f64) as u64).expect("a rate"),
        sigma: sigma(step_sigma),
        steps: plan.steps,
        calibration: CalibrationNoise::Table(table(plan.calibration_share)),
    };
    let cost = Cost::new(charged.mechanisms(shape).expect("priced")).expect("a cost");
    let mut session = opened(cost, vec![rows], SeededNoise::new(seed));
    let keys = Hyperparameters::DERIVED;
    keys.train(&mut session, Lane::Train, shape.clone(), &charged, 1, &mut |_| true).expect("trains").0
}

/// With a large budget the excess loss is a small share of the constant's; as the budget shrinks, the model shrinks
/// towards the constant.
#[test]
fn derived_settings_train_and_shrink_to_the_constant() {
    let seed = run_seed("derived_settings_train_and_shrink_to_the_constant");
    for (loss, hidden) in [(Loss::Logistic, &[][..]), (Loss::Logistic, &[32][..]), (Loss::Squared, &[32][..])] {
        let mut dice = Dice::new(seed);
        let (rows, truth) = synthetic(loss, 20_000, &mut dice);
        let mean = mean_label(&rows);
        let constant = mean_loss(loss, &rows, |_| mean);
        let best = mean_loss(loss, &rows, |index| truth[index]);
        let shape = Shape::new(LAYOUT, Inputs::Direct, hidden.to_vec(), loss).expect("a shape");
        let excess = |budget_sigma: f64| {
            let again = synthetic(loss, 20_000, &mut Dice::new(seed)).0;
            let network = trained(&shape, again, budget_sigma, seed);
            let predicted: Vec<f64> = network.predict(&rows).into_iter().map(f64::from).collect();
            (mean_loss(loss, &rows, |index| predicted[index].clamp(0.0, 1.0)) - best) / (constant - best)
        };
        let excesses = [1.0, 10.0, 100.0].map(excess);
        println!("{loss:?} {hidden:?}: {excesses:?}");
        assert!(excesses[0] < 0.25, "{loss:?} {hidden:?}: {excesses:?}");
        assert!(excesses[1] < 0.7, "{loss:?} {hidden:?}: {excesses:?}");
        assert!(excesses[2] < 1.15, "{loss:?} {hidden:?}: {excesses:?}");
    }
}

fn mean_label(rows: &Encoded) -> f64 {
    (0..rows.count()).map(|index| f64::from(rows.row(index).label)).sum::<f64>() / rows.count() as f64
}
