//! From charge to verdict through the kernel's gate, with reproducible noise.

use std::num::NonZeroU32;

use sage_kernel::noise::SeededNoise;
use sage_kernel::{
    AccessMode, AccessModes, Blocks, Ceiling, ChargeOutcome, ContextId, Cost, Delta, Epsilon, Filter, Gate, Lane,
    Mechanism, MemoryLog, MomentBounds, Policy, Range, Request, RequestKey, Rounding, Rows, Rule, Session,
    SessionError, Sigma, StreamId, TableNoise,
};
use sage_learn::validate::decide::{Tail, accepts, accepts_accuracy, accepts_by_variance};
use sage_learn::validate::{
    AccuracyCheck, AccuracyTarget, BestAnswersCheck, Bound, ComparisonCheck, ComparisonTarget, Confidence, Decision,
    LeastLossCheck, LossCheck, LossTarget, Margin, PrecisionTarget, Rejection, Risk, SumCheck, Verdict, costs,
};

/// Rows of a few numbers.
struct Numbers(Vec<Vec<f64>>);

impl Rows for Numbers {
    type Row<'rows> = &'rows [f64];

    fn count(&self) -> usize {
        self.0.len()
    }

    fn row(&self, index: usize) -> &[f64] {
        &self.0[index]
    }
}

type Opened = Session<Numbers, SeededNoise>;

/// A gate with a stream of many blocks, each charged once.
struct TestGate {
    gate: Gate<MemoryLog>,
    stream: StreamId,
    used: u32,
}

impl TestGate {
    fn new() -> Self {
        let mut gate = Gate::open(MemoryLog::default()).unwrap();
        let ceiling = Ceiling { epsilon: Epsilon::cost("50").unwrap(), delta: Delta::cost("1e-3").unwrap() };
        let policy = Policy::single(Filter::new(Rule::Renyi, ceiling).unwrap(), AccessModes::EnforcedOnly);
        let stream = gate.create_stream(0, "rows", policy).unwrap();
        gate.add_blocks(0, stream, (0..64).map(|block| block.to_string()).collect()).unwrap();
        Self { gate, stream, used: 0 }
    }

    fn open(&mut self, costs: [Option<Cost>; 2], train: Vec<Vec<f64>>, test: Vec<Vec<f64>>) -> Opened {
        let request = Request {
            key: RequestKey::from_text(&self.used.to_string()),
            stream: self.stream,
            context: ContextId(0),
            blocks: Blocks::range(self.used, self.used).unwrap(),
            costs,
            access: AccessMode::Enforced,
            purpose: "test".to_owned(),
        };
        self.used += 1;
        let outcome = self.gate.charge(0, vec![request]).unwrap().remove(0);
        let ChargeOutcome::Granted(grant) = outcome else { panic!("not granted: {outcome:?}") };
        let permit = self.gate.start(0, grant).unwrap();
        permit.open(SeededNoise::new(11), |_| Ok::<_, ()>([vec![Numbers(train)], vec![Numbers(test)]])).unwrap()
    }

    /// A session whose charge is exactly this part.
    fn charged(&mut self, part: (Lane, Mechanism), rows: &[Vec<f64>]) -> Opened {
        self.open(costs([part]).unwrap(), rows.to_vec(), rows.to_vec())
    }
}

fn laplace(epsilon: &str) -> TableNoise {
    TableNoise::Laplace(Epsilon::cost(epsilon).unwrap())
}

fn risk(chance: f64) -> Risk {
    Risk::new(chance).unwrap()
}

fn loss_check(target: f64, bound: Bound, noise: TableNoise) -> LossCheck {
    LossCheck { target: LossTarget::new(target, 10.0).unwrap(), bound, noise, risk: risk(0.05) }
}

/// Losses from 0 to 4 with a mean of 2, none of which is clipped to the bound of 10.
fn losses() -> Vec<Vec<f64>> {
    (0..2000).map(|row| vec![f64::from(row % 5)]).collect()
}

#[test]
fn a_loss_is_charged_run_and_judged() {
    let mut gate = TestGate::new();
    let noises = [laplace("1"), TableNoise::Gaussian(Sigma::cost("2").unwrap())];
    for ((_, bound), noise) in Bound::NAMES.into_iter().flat_map(|bound| noises.map(|noise| (bound, noise))) {
        for (target, decision) in [(3.0, Decision::Accept), (2.05, Decision::Retry), (1.0, Decision::Retry)] {
            let check = loss_check(target, bound, noise);
            let mut session = gate.charged(check.cost().unwrap(), &losses());
            let verdict = check.run(&mut session, |row| row[0]).unwrap();
            assert_eq!(verdict.decision, decision, "{bound:?} {noise:?} {target}: {verdict}");
            let estimate = verdict.estimates[0];
            assert!(estimate.low < 2.0 && estimate.high > 2.0, "{verdict}");
            assert!((estimate.value.unwrap() - 2.0).abs() < 0.3, "{verdict}");
            assert_eq!(verdict.confidence, 0.95);
            assert!(!verdict.to_string().contains("2000"), "a count: {verdict}");
            // The charge was exactly one test.
            assert_eq!(check.run(&mut session, |row| row[0]), Err(SessionError::NotCovered));
        }
    }
}

/// The verdict is the decision on the very numbers that the kernel releases under the same seed.
#[test]
fn a_verdict_is_a_function_of_the_release() {
    let mut gate = TestGate::new();
    let range = Range::new(0.0, 10.0).unwrap();
    let mut seen = [0; 2];
    for step in 0..12 {
        let target = 2.0 + 0.06 * f64::from(step);
        for bound in [Bound::OfPair(Tail::KullbackLeibler), Bound::EmpiricalBernstein] {
            let check = loss_check(target, bound, laplace("0.5"));
            let value = |row: &[f64]| Some((0, row[0]));
            let part = check.cost().unwrap();
            let mut again = gate.charged(part.clone(), &losses());
            let share = check.target.share();
            let expected = match bound {
                Bound::OfPair(tail) => {
                    let sums = again.pairs(Lane::Test, 1, range, Rounding::Up, check.noise, value).unwrap();
                    accepts(sums[0], share, Margin::one_sided(check.noise.into(), check.risk), tail)
                }
                Bound::EmpiricalBernstein => {
                    let sums = again.triples(Lane::Test, 1, range, Rounding::Up, check.noise, value).unwrap();
                    accepts_by_variance(sums[0], share, Margin::of_triple(check.noise.into(), check.risk))
                }
            };
            let verdict = check.run(&mut gate.charged(part, &losses()), |row| row[0]).unwrap();
            assert_eq!(verdict.decision == Decision::Accept, expected, "{target} {bound:?}: {verdict}");
            seen[usize::from(expected)] += 1;
        }
    }
    assert!(seen[0] > 0 && seen[1] > 0, "{seen:?}");
}

/// With the same noise: the order of rows does not matter, NaN counts as the bound, losses are clipped to it, and the
/// units of the loss do not matter.
#[test]
fn rows_are_taken_as_promised() {
    let mut gate = TestGate::new();
    let check = loss_check(3.0, Bound::default(), laplace("1"));
    let mut verdict = |rows: Vec<Vec<f64>>, loss: fn(f64) -> f64| {
        let mut session = gate.charged(check.cost().unwrap(), &rows);
        check.run(&mut session, |row| loss(row[0])).unwrap()
    };
    let plain = verdict(losses(), |loss| loss);
    let mut reordered = losses();
    reordered.reverse();
    reordered.rotate_left(7);
    assert_eq!(verdict(reordered, |loss| loss), plain);
    let full = verdict(losses(), |loss| if loss == 0.0 { 10.0 } else { loss });
    assert_ne!(full, plain);
    assert_eq!(verdict(losses(), |loss| if loss == 0.0 { f64::NAN } else { loss }), full);
    assert_eq!(verdict(losses(), |loss| if loss == 0.0 { f64::INFINITY } else { loss }), full);
    assert_eq!(verdict(losses(), |loss| if loss == 0.0 { -7.0 } else { loss }), plain);
    let target = LossTarget::new(3.0 * 64.0, 10.0 * 64.0).unwrap();
    let scaled = LossCheck { target, ..check };
    let mut session = gate.charged(scaled.cost().unwrap(), &losses());
    let scaled = scaled.run(&mut session, |row| row[0] * 64.0).unwrap();
    assert_eq!(scaled.decision, plain.decision);
    assert_eq!(scaled.estimates[0].value.unwrap(), 64.0 * plain.estimates[0].value.unwrap());
}

#[test]
fn no_rows_settle_nothing() {
    let mut gate = TestGate::new();
    let check = loss_check(3.0, Bound::default(), laplace("1"));
    let verdict = check.run(&mut gate.charged(check.cost().unwrap(), &[]), |row| row[0]).unwrap();
    assert_eq!(verdict.decision, Decision::Retry);
    let estimate = verdict.estimates[0];
    assert_eq!((estimate.low, estimate.high), (0.0, 10.0), "{verdict}");
}

#[test]
fn an_accuracy_is_judged() {
    let mut gate = TestGate::new();
    let rows: Vec<Vec<f64>> = (0..3000).map(|row| vec![f64::from(row % 10)]).collect();
    for (target, decision) in [(0.85, Decision::Accept), (0.9, Decision::Retry), (0.95, Decision::Retry)] {
        let check =
            AccuracyCheck { target: AccuracyTarget::new(target).unwrap(), noise: laplace("1"), risk: risk(0.05) };
        let mut session = gate.charged(check.cost().unwrap(), &rows);
        let verdict = check.run(&mut session, |row| row[0] != 0.0).unwrap();
        assert_eq!(verdict.decision, decision, "{verdict}");
        assert!(verdict.estimates[0].low < 0.9 && verdict.estimates[0].high > 0.9, "{verdict}");
        assert!(accepts_accuracy(2700.0, 300.0, 0.85, Margin::one_sided(check.noise.into(), check.risk)));
    }
}

#[test]
fn means_of_groups_are_judged_together() {
    let mut gate = TestGate::new();
    let rows: Vec<Vec<f64>> = (0..8000).map(|row| vec![f64::from(row % 4), f64::from(row % 8) - 3.0]).collect();
    let groups = NonZeroU32::new(4).unwrap();
    for (precision, decision) in [(1.0, Decision::Accept), (0.01, Decision::Retry)] {
        let target = PrecisionTarget::new(precision).unwrap();
        let check = SumCheck::new((-5.0, 5.0), groups, target, laplace("1"), risk(0.05)).unwrap();
        let mut session = gate.charged(check.cost(Lane::Train).unwrap(), &rows);
        let (sums, verdict) = check.run(&mut session, Lane::Train, |row| Some((row[0] as u32, row[1]))).unwrap();
        assert_eq!(verdict.decision, decision, "{verdict}");
        assert_eq!(verdict, check.judge(&sums));
        for (group, estimate) in verdict.estimates.iter().enumerate() {
            // Group g has g − 3 and g + 1 in equal parts.
            let mean = group as f64 - 1.0;
            assert!(estimate.low < mean && mean < estimate.high, "{verdict:?}");
        }
        assert_eq!(check.judge(&sums[..3]).decision, Decision::Retry);
        assert_eq!(check.judge(&[]).decision, Decision::Retry);
    }
}

#[test]
fn a_new_model_is_compared_with_the_old_one() {
    let mut gate = TestGate::new();
    // The old model's loss varies widely; the new one's is lower by a tenth on every row.
    let rows: Vec<Vec<f64>> = (0..20_000).map(|row| vec![0.1 + 0.8 * f64::from(row % 9) / 8.0]).collect();
    for (margin, decision) in [(0.0, Decision::Accept), (0.05, Decision::Accept), (0.12, Decision::Retry)] {
        let target = ComparisonTarget::new(margin, 1.0).unwrap();
        let check = ComparisonCheck { target, tail: Tail::default(), noise: laplace("1"), risk: risk(0.05) };
        let mut session = gate.charged(check.cost().unwrap(), &rows);
        let verdict = check.run(&mut session, |row| (row[0] - 0.1, row[0])).unwrap();
        assert_eq!(verdict.decision, decision, "{verdict}");
        assert!((verdict.estimates[0].value.unwrap() + 0.1).abs() < 0.01, "{verdict}");
        // With the models swapped the new one is worse, and NaN never helps the new model.
        for losses in
            [|row: &[f64]| (row[0], row[0] - 0.1), |row: &[f64]| (f64::NAN, row[0]), |row: &[f64]| (row[0], f64::NAN)]
        {
            let mut session = gate.charged(check.cost().unwrap(), &rows);
            assert_eq!(check.run(&mut session, losses).unwrap().decision, Decision::Retry);
        }
    }
}

fn least_loss(target: f64) -> LeastLossCheck {
    let bounds = MomentBounds { width: 2, feature_norm: 2.0, label_size: 1.0 };
    let epsilon = Epsilon::cost("1").unwrap();
    LeastLossCheck::new(target, bounds, 1.0, Tail::default(), epsilon, risk(0.025)).unwrap()
}

/// Rows whose labels are unpredictable zeros and ones: no linear model has a mean squared loss much below one quarter.
fn random_labels() -> Vec<Vec<f64>> {
    (0..5000).map(|row| vec![f64::from(row * 7919 % 101) / 101.0, f64::from(row / 3 % 2)]).collect()
}

#[test]
fn a_hopeless_class_is_rejected() {
    let mut gate = TestGate::new();
    for (target, decision) in [(0.1, Decision::Reject), (0.3, Decision::Retry), (0.245, Decision::Retry)] {
        let check = least_loss(target);
        let mut session = gate.charged(check.cost(), &random_labels());
        let verdict = check
            .run(&mut session, |row, features| {
                features.copy_from_slice(&[1.0, row[0]]);
                row[1]
            })
            .unwrap();
        assert_eq!(verdict.decision, decision, "{verdict}");
        assert!(verdict.estimates[0].low < 0.25, "{verdict}");
    }
    let bounds = MomentBounds { width: 2, feature_norm: 2.0, label_size: 1.0 };
    for bad in [0.0, -1.0, f64::NAN, 9.0, f64::INFINITY] {
        let epsilon = Epsilon::cost("1").unwrap();
        assert!(LeastLossCheck::new(bad, bounds, 1.0, Tail::default(), epsilon, risk(0.025)).is_err());
    }
}

/// Regression test: inputs that fill a twentieth of their scale, x from 0.50 to 0.55 of [0, 1], and a label that is
/// linear in them. The line is steep and has no loss, and was rejected because the tested class had flatter lines than
/// the learner. The test is about the trained class, and its explanation states how steep its lines are.
#[test]
fn a_steep_line_that_fits_exactly_is_not_rejected() {
    let mut gate = TestGate::new();
    let rows: Vec<Vec<f64>> = (0..40_000)
        .map(|row| {
            let share = f64::from(row * 7919 % 1000) / 999.0;
            vec![2.0 * (0.50 + 0.05 * share) - 1.0, 2.0 * share - 1.0]
        })
        .collect();
    let bounds = MomentBounds { width: 2, feature_norm: 2f64.sqrt(), label_size: 1.0 };
    for (weight_norm, decision) in [(4.0, Decision::Reject), (16.0, Decision::Retry)] {
        let epsilon = Epsilon::cost("1").unwrap();
        let check = LeastLossCheck::new(0.05, bounds, weight_norm, Tail::default(), epsilon, risk(0.025));
        let check = check.unwrap();
        let mut session = gate.charged(check.cost(), &rows);
        let verdict = check.run(&mut session, |row, features| {
            features.copy_from_slice(&[row[0], 1.0]);
            row[1]
        });
        let verdict = verdict.unwrap();
        assert_eq!(verdict.decision, decision, "{weight_norm}: {verdict}");
        // Labels from −1 to 1 are two wide.
        let class = format!("moves by at most {} as one input moves across its scale", 2.0 * weight_norm);
        assert!(verdict.explanation.contains(&class), "{verdict}");
    }
}

/// In every key nine rows in ten have the same class: no function of the key has a higher accuracy.
#[test]
fn answers_out_of_reach_are_rejected() {
    let mut gate = TestGate::new();
    let rows: Vec<Vec<f64>> = (0..6000)
        .map(|row| vec![f64::from(row % 6), f64::from(u8::from((row / 6 % 10 == 0) != (row % 2 == 0)))])
        .collect();
    let number = |number| NonZeroU32::new(number).unwrap();
    for (target, decision) in [(0.95, Decision::Reject), (0.9, Decision::Retry), (0.8, Decision::Retry)] {
        for noise in [laplace("1"), TableNoise::Gaussian(Sigma::cost("2").unwrap())] {
            let target = AccuracyTarget::new(target).unwrap();
            let check = BestAnswersCheck { target, keys: number(6), answers: number(2), noise, risk: risk(0.025) };
            let mut session = gate.charged(check.cost().unwrap(), &rows);
            let verdict = check.run(&mut session, |row| Some((row[0] as u32, row[1] as u32))).unwrap();
            assert_eq!(verdict.decision, decision, "{verdict}");
            assert!(verdict.estimates[0].high > 0.9 && verdict.estimates[0].high < 0.93, "{verdict}");
            assert!(!verdict.to_string().contains("6000"), "a count: {verdict}");
            let again = check.run(&mut session, |row| Some((row[0] as u32, row[1] as u32)));
            assert_eq!(again, Err(SessionError::NotCovered));
        }
    }
    // Rows whose key determines the class, and no rows at all, are never rejected.
    let target = AccuracyTarget::new(0.99).unwrap();
    let check =
        BestAnswersCheck { target, keys: number(6), answers: number(2), noise: laplace("1"), risk: risk(0.025) };
    for rows in [(0..3000).map(|row| vec![f64::from(row % 6), f64::from(row % 2)]).collect(), Vec::new()] {
        let mut session = gate.charged(check.cost().unwrap(), &rows);
        let verdict = check.run(&mut session, |row| Some((row[0] as u32, row[1] as u32))).unwrap();
        assert_eq!(verdict.decision, Decision::Retry, "{verdict}");
    }
    // Combined with a test that does not accept, the rejection decides.
    let rejected = Verdict::new(Decision::Reject, Vec::new(), 0.95, String::new());
    let retried = Verdict { decision: Decision::Retry, ..rejected.clone() };
    assert_eq!(Verdict::together(vec![retried], vec![rejected]).decision, Decision::Reject);
}

/// A whole attempt: both lanes are charged exactly what the tests need, with metrics that must all pass and a class
/// that may be rejected.
#[test]
fn an_attempt_is_charged_on_both_lanes_and_judged_once() {
    let mut gate = TestGate::new();
    let metrics = NonZeroU32::new(1).unwrap();
    let risks = Confidence::new(0.95).unwrap().risks(Rejection::ByAny(metrics)).at_attempt(NonZeroU32::new(2).unwrap());
    let attempt = |gate: &mut TestGate, target: f64| {
        let loss = LossCheck {
            target: LossTarget::new(target, 1.0).unwrap(),
            bound: Bound::default(),
            noise: laplace("1"),
            risk: risks.accept,
        };
        let accuracy =
            AccuracyCheck { target: AccuracyTarget::new(0.4).unwrap(), noise: laplace("1"), risk: risks.accept };
        let least = least_loss(target);
        let parts = [loss.cost().unwrap(), accuracy.cost().unwrap(), least.cost()];
        let mut session = gate.open(costs(parts).unwrap(), random_labels(), random_labels());
        let accepting = vec![
            loss.run(&mut session, |row| (row[1] - 0.5).powi(2)).unwrap(),
            accuracy.run(&mut session, |row| row[1] == 1.0).unwrap(),
        ];
        let rejecting = vec![
            least
                .run(&mut session, |row, features| {
                    features.copy_from_slice(&[1.0, row[0]]);
                    row[1]
                })
                .unwrap(),
        ];
        assert_eq!(accuracy.run(&mut session, |_| true), Err(SessionError::NotCovered));
        Verdict::together(accepting, rejecting)
    };
    assert_eq!(attempt(&mut gate, 0.4).decision, Decision::Accept);
    assert_eq!(attempt(&mut gate, 0.245).decision, Decision::Retry);
    let rejected = attempt(&mut gate, 0.1);
    assert_eq!((rejected.decision, rejected.estimates.len()), (Decision::Reject, 3));
    assert_eq!(Verdict::together(Vec::new(), Vec::new()).decision, Decision::Retry);
    assert_eq!(costs([]).unwrap(), [None, None]);
}

/// Regression test: rows without a label were counted with the label's lower bound, so a model that predicts the bound
/// looked correct on them. They are left out of the sum and of the count.
#[test]
fn rows_without_a_label_are_in_no_test() {
    let mut gate = TestGate::new();
    // Half of the rows have no label; the loss of the others is 4, or 1 in every fourth.
    let rows: Vec<Vec<f64>> = (0..4000)
        .map(|row| match row % 8 {
            0 => vec![1.0],
            2 | 4 | 6 => vec![4.0],
            _ => vec![f64::NAN],
        })
        .collect();
    let label = |row: &[f64]| Some(row[0]).filter(|label| label.is_finite());
    for (_, bound) in Bound::NAMES {
        for (target, decision) in [(4.5, Decision::Accept), (2.0, Decision::Retry)] {
            let check = loss_check(target, bound, laplace("1"));
            let mut session = gate.charged(check.cost().unwrap(), &rows);
            let verdict = check.run(&mut session, label).unwrap();
            assert_eq!(verdict.decision, decision, "{bound:?} {target}: {verdict}");
            let estimate = verdict.estimates[0];
            assert!((estimate.value.unwrap() - 3.25).abs() < 0.1, "{verdict}");
            assert!(estimate.low <= 3.25 && 3.25 <= estimate.high, "{verdict}");
        }
    }
    // Right about a quarter of the rows with a label.
    for (target, decision) in [(0.2, Decision::Accept), (0.3, Decision::Retry)] {
        let target = AccuracyTarget::new(target).unwrap();
        let check = AccuracyCheck { target, noise: laplace("1"), risk: risk(0.05) };
        let mut session = gate.charged(check.cost().unwrap(), &rows);
        let verdict = check.run(&mut session, |row| label(row).map(|label| label < 2.0)).unwrap();
        assert_eq!(verdict.decision, decision, "{verdict}");
        assert!((verdict.estimates[0].value.unwrap() - 0.25).abs() < 0.02, "{verdict}");
    }
    // The old model's loss is one more wherever there is a label, so the difference is −1 and not −1/2.
    let target = ComparisonTarget::new(0.2, 10.0).unwrap();
    let check = ComparisonCheck { target, tail: Tail::default(), noise: laplace("1"), risk: risk(0.05) };
    let mut session = gate.charged(check.cost().unwrap(), &rows);
    let verdict = check.run(&mut session, |row| label(row).map(|label| (label, label + 1.0))).unwrap();
    assert_eq!(verdict.decision, Decision::Accept, "{verdict}");
    assert!((verdict.estimates[0].value.unwrap() + 1.0).abs() < 0.1, "{verdict}");
    // A released mean is that of the values that are present; an infinite one is missing too.
    let target = PrecisionTarget::new(0.5).unwrap();
    let check = SumCheck::new((0.0, 10.0), NonZeroU32::MIN, target, laplace("1"), risk(0.05)).unwrap();
    let mut session = gate.charged(check.cost(Lane::Train).unwrap(), &rows);
    let infinite = |row: &[f64]| Some((0, if row[0].is_nan() { f64::NEG_INFINITY } else { row[0] }));
    let (_, verdict) = check.run(&mut session, Lane::Train, infinite).unwrap();
    assert_eq!(verdict.decision, Decision::Accept, "{verdict}");
    assert!((verdict.estimates[0].value.unwrap() - 3.25).abs() < 0.1, "{verdict}");
}
