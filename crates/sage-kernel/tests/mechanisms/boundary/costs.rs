//! Costs and numbers at their limits.

use sage_kernel::{Cost, CostError, Curve, Delta, Epsilon, Mechanism, NumberError, ORDER_COUNT, Rate, Sigma};

const EPSILON: Epsilon = Epsilon::from_units(1).expect("the smallest ε");
const SIGMA: Sigma = Sigma::from_units(1).expect("the smallest σ");
const RATE: Rate = Rate::from_units(1).expect("the smallest rate");
const DELTA: Delta = Delta::from_units(1).expect("the smallest δ");

fn check(part: Mechanism, expected: Result<(), CostError>) {
    assert_eq!(Cost::new(vec![part.clone()]).map(drop), expected, "{part:?}");
}

/// The smallest numbers are fine, and each of them alone makes a mechanism invalid if it is zero: zero noise, or a
/// release that costs nothing, is never priced.
#[test]
fn each_number_of_a_mechanism_is_above_zero() {
    let (fine, zero) = (Ok(()), Err(CostError::Zero));
    let (none, no_sigma, no_rate) = (Epsilon::ZERO, Sigma::ZERO, Rate::ZERO);
    let laplace = |epsilon, count| Mechanism::Laplace { epsilon, count };
    let gaussian = |sigma, coordinates, count| Mechanism::Gaussian { sigma, coordinates, count };
    let sampled = |rate, sigma, coordinates, steps| Mechanism::SampledGaussian { rate, sigma, coordinates, steps };
    for (part, expected) in [
        (Mechanism::Pure { epsilon: EPSILON }, fine),
        (Mechanism::Pure { epsilon: none }, zero),
        (laplace(EPSILON, 1), fine),
        (laplace(none, 1), zero),
        (laplace(EPSILON, 0), zero),
        (gaussian(SIGMA, 1, 1), fine),
        (gaussian(no_sigma, 1, 1), zero),
        (gaussian(SIGMA, 0, 1), zero),
        (gaussian(SIGMA, 1, 0), zero),
        (sampled(RATE, SIGMA, 1, 1), fine),
        (sampled(no_rate, SIGMA, 1, 1), zero),
        (sampled(RATE, no_sigma, 1, 1), zero),
        (sampled(RATE, SIGMA, 0, 1), zero),
        (sampled(RATE, SIGMA, 1, 0), zero),
        (Mechanism::Zcdp { rho: EPSILON }, fine),
        (Mechanism::Zcdp { rho: none }, zero),
        (Mechanism::BlackBox { epsilon: EPSILON, delta: Delta::ZERO }, fine),
        (Mechanism::BlackBox { epsilon: none, delta: DELTA }, fine),
        (Mechanism::BlackBox { epsilon: none, delta: Delta::ZERO }, zero),
    ] {
        check(part, expected);
    }
    let curve = |first: Option<Epsilon>, infinite, delta| {
        let mut orders = [Some(EPSILON); ORDER_COUNT];
        orders[ORDER_COUNT - 1] = first;
        Mechanism::Curve(Box::new(Curve { orders, infinite, delta }))
    };
    for (first, infinite, delta, expected) in [
        (Some(EPSILON), None, Delta::ZERO, fine),
        (None, Some(EPSILON), Delta::ZERO, fine),
        (Some(none), None, Delta::ZERO, zero),
        (None, Some(none), Delta::ZERO, zero),
        (Some(none), None, DELTA, fine),
    ] {
        check(curve(first, infinite, delta), expected);
    }
}

#[test]
fn a_cost_has_from_one_to_4096_parts() {
    let parts = |count: usize| Cost::new(vec![Mechanism::Pure { epsilon: EPSILON }; count]).map(drop);
    assert_eq!(parts(0), Err(CostError::Empty));
    assert_eq!((parts(1), parts(4096)), (Ok(()), Ok(())));
    assert_eq!(parts(4097), Err(CostError::TooMany));
}

#[test]
fn a_number_has_at_most_64_characters() {
    let number = |zeros: usize| Epsilon::cost(&format!("1.{}", "0".repeat(zeros))).map(Epsilon::units);
    assert_eq!(number(62), Ok(1_000_000_000_000));
    assert_eq!(number(63), Err(NumberError::TooLong));
}
