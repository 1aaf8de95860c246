//! Searches over whole numbers for where something begins to fit.
//!
//! Asking for a price can take as long as a step of training, so how often it is asked matters. Nothing here uses more
//! of floats than the four operations, so that a search comes out the same on every machine.

/// How close a search ends, relative to what it found: one part in so many.
const CLOSE: u64 = 10_000;
/// By what a search without bounds on both sides goes on.
const STRIDE: u64 = 4;
/// After so many questions halves are taken, which always ends.
const PATIENCE: u32 = 10;

/// A number that was asked about.
#[derive(Clone, Copy)]
struct Asked {
    units: u64,
    /// How much room the loss leaves: negative where it does not fit.
    room: f64,
}

/// The least number, nearly, at which a loss that falls is at most so much; nothing if none of the range is.
///
/// From the middle of the range, by ratio, it goes on by strides until the edge lies between two numbers, and then to
/// where a straight line through their rooms would cross zero.
pub(super) fn least<E>(
    (low, high): (u64, u64), most: u64, loss: impl Fn(u64) -> Result<u64, E>,
) -> Result<Option<u64>, E> {
    let ask = |units: u64| {
        let lost = loss(units)?;
        let room = most as f64 / lost.max(1) as f64 - 1.0;
        let room = if lost <= most { room.max(0.0) } else { room.min(-f64::EPSILON) };
        Ok(Asked { units, room })
    };
    let mut inside = ask(FIRST.clamp(low, high))?;
    let mut outside = inside;
    while inside.room < 0.0 {
        if inside.units == high {
            return Ok(None);
        }
        outside = inside;
        inside = ask(inside.units.saturating_mul(STRIDE).min(high))?;
    }
    while outside.room >= 0.0 {
        if outside.units == low {
            return Ok(Some(low));
        }
        inside = outside;
        outside = ask((outside.units / STRIDE).max(low))?;
    }
    let mut asked = 0;
    let mut last_fitted = true;
    while inside.units - outside.units > 1 + outside.units / CLOSE {
        let next = ask(between(outside, inside, last_fitted, asked))?;
        let fits = next.room >= 0.0;
        if fits == last_fitted && asked > 0 {
            // The same side twice: the other counts for less, so that the line moves away from it.
            let other = if fits { &mut outside } else { &mut inside };
            other.room *= 0.5;
        }
        if fits {
            inside = next
        } else {
            outside = next
        }
        (asked, last_fitted) = (asked + 1, fits);
    }
    Ok(Some(inside.units))
}

/// Where searches for noise begin: as much as the sensitivity.
const FIRST: u64 = 1_000_000_000;

/// Where to ask next.
fn between(outside: Asked, inside: Asked, last_fitted: bool, asked: u32) -> u64 {
    let (low, high) = (outside.units, inside.units);
    if asked >= PATIENCE {
        return low + (high - low) / 2;
    }
    let share = -outside.room / (inside.room - outside.room).max(f64::MIN_POSITIVE);
    let crossing = low + ((high - low) as f64 * share.clamp(0.0, 1.0)) as u64;
    // A hair beyond it, on the side that was not seen last: once the line is right, two questions end the search.
    let hair = crossing / (3 * CLOSE);
    let next = if last_fitted { crossing.saturating_sub(hair) } else { crossing.saturating_add(hair) };
    next.clamp(low + 1, high - 1)
}

/// The number nearest to `far` that still fits, nearly, where `safe` and all between it and the edge do.
pub(super) fn edge<E>(safe: u64, far: u64, fits: impl Fn(u64) -> Result<bool, E>) -> Result<Option<u64>, E> {
    if !fits(safe)? {
        return Ok(None);
    }
    if fits(far)? {
        return Ok(Some(far));
    }
    let (mut inside, mut outside) = (safe, far);
    while inside.abs_diff(outside) > 1 + inside.min(outside) / CLOSE {
        // Halfway by ratio: the range spans many powers of ten.
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

    /// What is found, and how often the price was asked.
    fn found(most: u64, price: impl Fn(f64) -> f64) -> (Option<u64>, u32) {
        let asked = Cell::new(0);
        let loss = |units: u64| {
            asked.set(asked.get() + 1);
            Ok::<u64, Infallible>(price(units as f64 / 1e9).min(1.8e19) as u64)
        };
        let Ok(least) = least(RANGE, most, loss);
        (least, asked.get())
    }

    /// Prices as they come: like one over the noise, over its square, steeper where noise is small, and in steps.
    #[test]
    fn the_edge_is_found_with_few_questions() {
        let prices: [(&str, Price); 5] = [
            ("one over", |sigma| 1e12 / sigma),
            ("one over the square", |sigma| 5e11 / (sigma * sigma)),
            ("steep below", |sigma| 1e12 * (1.0 / (sigma * sigma)).exp_m1().sqrt()),
            ("a sum of both", |sigma| 3e11 / sigma + 2e12 / (sigma * sigma * sigma)),
            ("in steps", |sigma| (1e3 / sigma).floor() * 1e9),
        ];
        for (name, price) in prices {
            for most in [3_000_000_u64, 40_000_000_000, 500_000_000_000, 6_000_000_000_000, 100_000_000_000_000] {
                let (least, asked) = found(most, price);
                let least = least.unwrap_or_else(|| panic!("{name} {most}"));
                let loses = |units: f64| price(units / 1e9).min(1.8e19) as u64;
                assert!(loses(least as f64) <= most, "{name} {most}: {least}");
                let less = least as f64 * (1.0 - 2.5 / CLOSE as f64);
                assert!(least == RANGE.0 || loses(less) > most, "{name} {most}: {least} is not the least");
                assert!(asked <= 32, "{name} {most}: {asked} questions");
            }
            let (_, asked) = found(500_000_000_000, price);
            assert!(asked <= 9 || name == "in steps", "{name}: {asked} questions for an ordinary amount");
        }
        assert_eq!(found(1, |_| 2.0).0, None, "nothing fits");
        assert_eq!(found(2, |_| 1.0).0, Some(RANGE.0), "everything fits");
    }
}
