//! Searches over integers for the boundary of a monotone condition.
//!
//! Computing a price can take as long as a training step, so searches use few probes. Only the four basic float
//! operations are used, so that a search gives the same result on every machine.

/// The relative precision of a search: one part in this number.
const PRECISION: u64 = 10_000;
/// The factor by which the bracketing phase moves.
const STRIDE: u64 = 4;
/// The number of secant probes after which the search bisects, which always terminates.
const SECANT_PROBES: u32 = 10;

/// An evaluated number.
#[derive(Clone, Copy)]
struct Probe {
    units: u64,
    /// The relative slack of the loss: negative where it does not fit.
    slack: f64,
}

/// The smallest number, within the precision, at which a decreasing loss is at most `most`; `None` if it never is.
///
/// The search brackets the boundary by strides from its starting point, and then follows the secant of the slack (the
/// Illinois method).
pub(super) fn find_least<E>(
    (low, high): (u64, u64), most: u64, loss: impl Fn(u64) -> Result<u64, E>,
) -> Result<Option<u64>, E> {
    let probe = |units: u64| {
        let lost = loss(units)?;
        let slack = most as f64 / lost.max(1) as f64 - 1.0;
        let slack = if lost <= most { slack.max(0.0) } else { slack.min(-f64::EPSILON) };
        Ok(Probe { units, slack })
    };
    let mut inside = probe(FIRST.clamp(low, high))?;
    let mut outside = inside;
    while inside.slack < 0.0 {
        if inside.units == high {
            return Ok(None);
        }
        outside = inside;
        inside = probe(inside.units.saturating_mul(STRIDE).min(high))?;
    }
    while outside.slack >= 0.0 {
        if outside.units == low {
            return Ok(Some(low));
        }
        inside = outside;
        outside = probe((outside.units / STRIDE).max(low))?;
    }
    let mut probes = 0;
    let mut last_fitted = true;
    while inside.units - outside.units > 1 + outside.units / PRECISION {
        let next = probe(next_probe(outside, inside, last_fitted, probes))?;
        let fits = next.slack >= 0.0;
        if fits == last_fitted && probes > 0 {
            // The same side twice: halve the slack of the other end, so that the secant moves away from it.
            let other = if fits { &mut outside } else { &mut inside };
            other.slack *= 0.5;
        }
        if fits {
            inside = next
        } else {
            outside = next
        }
        (probes, last_fitted) = (probes + 1, fits);
    }
    Ok(Some(inside.units))
}

/// The starting point of searches for noise: σ equal to the sensitivity.
const FIRST: u64 = 1_000_000_000;

/// The next number to evaluate.
fn next_probe(outside: Probe, inside: Probe, last_fitted: bool, probes: u32) -> u64 {
    let (low, high) = (outside.units, inside.units);
    if probes >= SECANT_PROBES {
        return low + (high - low) / 2;
    }
    let share = -outside.slack / (inside.slack - outside.slack).max(f64::MIN_POSITIVE);
    let crossing = low + ((high - low) as f64 * share.clamp(0.0, 1.0)) as u64;
    // Slightly beyond the crossing, towards the side not seen last: once the secant is right, two probes end the
    // search.
    let offset = crossing / (3 * PRECISION);
    let next = if last_fitted { crossing.saturating_sub(offset) } else { crossing.saturating_add(offset) };
    next.clamp(low + 1, high - 1)
}

/// The number closest to `far` that still fits, within the precision. All numbers between `safe` and the boundary fit.
pub(super) fn find_edge<E>(safe: u64, far: u64, fits: impl Fn(u64) -> Result<bool, E>) -> Result<Option<u64>, E> {
    if !fits(safe)? {
        return Ok(None);
    }
    if fits(far)? {
        return Ok(Some(far));
    }
    let (mut inside, mut outside) = (safe, far);
    while inside.abs_diff(outside) > 1 + inside.min(outside) / PRECISION {
        // The geometric mean, because the range spans many powers of ten.
        let (one, other) = (inside.min(outside), inside.max(outside));
        let middle = (u128::from(one) * u128::from(other)).isqrt();
        let middle = u64::try_from(middle).unwrap_or(other).clamp(one + 1, other - 1);
        if fits(middle)? { inside = middle } else { outside = middle }
    }
    Ok(Some(inside))
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;
    use std::convert::Infallible;

    use super::*;

    type Price = fn(f64) -> f64;

    const RANGE: (u64, u64) = (1_000_000, 1_000_000_000_000_000);

    /// The search result and the number of probes.
    fn search(most: u64, price: impl Fn(f64) -> f64) -> (Option<u64>, u32) {
        let probes = Cell::new(0);
        let loss = |units: u64| {
            probes.set(probes.get() + 1);
            Ok::<u64, Infallible>(price(units as f64 / 1e9).min(1.8e19) as u64)
        };
        let Ok(least) = find_least(RANGE, most, loss);
        (least, probes.get())
    }

    /// Typical prices: inverse to the noise, to its square, steeper for small noise, and a step function.
    #[test]
    fn the_boundary_is_found_with_few_probes() {
        let prices: [(&str, Price); 5] = [
            ("one over", |sigma| 1e12 / sigma),
            ("one over the square", |sigma| 5e11 / (sigma * sigma)),
            ("steep below", |sigma| 1e12 * (1.0 / (sigma * sigma)).exp_m1().sqrt()),
            ("a sum of both", |sigma| 3e11 / sigma + 2e12 / (sigma * sigma * sigma)),
            ("in steps", |sigma| (1e3 / sigma).floor() * 1e9),
        ];
        for (name, price) in prices {
            for most in [3_000_000_u64, 40_000_000_000, 500_000_000_000, 6_000_000_000_000, 100_000_000_000_000] {
                let (least, probes) = search(most, price);
                let least = least.unwrap_or_else(|| panic!("{name} {most}"));
                let loses = |units: f64| price(units / 1e9).min(1.8e19) as u64;
                assert!(loses(least as f64) <= most, "{name} {most}: {least}");
                let less = least as f64 * (1.0 - 2.5 / PRECISION as f64);
                assert!(least == RANGE.0 || loses(less) > most, "{name} {most}: {least} is not the least");
                assert!(probes <= 32, "{name} {most}: {probes} probes");
            }
            let (_, probes) = search(500_000_000_000, price);
            assert!(probes <= 9 || name == "in steps", "{name}: {probes} probes for an ordinary amount");
        }
        assert_eq!(search(1, |_| 2.0).0, None, "nothing fits");
        assert_eq!(search(2, |_| 1.0).0, Some(RANGE.0), "everything fits");
    }
}
