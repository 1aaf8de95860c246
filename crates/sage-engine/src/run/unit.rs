//! Units of several records: what a unit counts for in a test, a mean or a linear model.
//!
//! Tests and confidence limits are about independent draws, and a user's records are not independent. So a unit enters
//! them once, with the mean over its records.

use sage_kernel::Contribution;

/// The most records of a unit that a linear model or a table of group means counts. More would take longer and add little,
/// since a unit has the weight of one.
const MOST: u32 = 64;

/// The number of records of a unit that a linear model counts.
pub(crate) fn turns(contribution: Contribution) -> Contribution {
    Contribution::new(MOST).map_or(contribution, |most| contribution.min(most))
}

/// The mean over the records that have a value; `None` if none has.
pub(super) fn mean(values: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let (mut sum, mut count) = (0.0, 0u32);
    for value in values.flatten() {
        sum = if count == 0 { value } else { sum + value };
        count += 1;
    }
    match count {
        0 => None,
        1 => Some(sum),
        _ => Some(sum / f64::from(count)),
    }
}

/// The mean loss of a unit. Where there are several, each is clipped to the range of the test first; a NaN loss counts as
/// its upper end.
pub(super) fn mean_loss(losses: impl Iterator<Item = Option<f64>>, range: f64) -> Option<f64> {
    let mut losses = losses.flatten();
    let (first, second) = (losses.next()?, losses.next());
    let Some(second) = second else { return Some(first) };
    let clipped = |loss: f64| Some(if loss.is_nan() { range } else { loss.clamp(0.0, range) });
    mean([first, second].into_iter().chain(losses).map(clipped))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_single_record_counts_as_it_is() {
        for value in [-0.0, 3.5, 1e300, f64::INFINITY, f64::NAN] {
            assert_eq!(mean([Some(value)].into_iter()).map(f64::to_bits), Some(value.to_bits()));
            assert_eq!(mean_loss([None, Some(value)].into_iter(), 1.0).map(f64::to_bits), Some(value.to_bits()));
        }
        assert_eq!(mean([None, None].into_iter()), None);
        assert_eq!(mean_loss(std::iter::empty(), 1.0), None);
    }

    /// A record with a large loss raises its unit by one share of the range, not by more.
    #[test]
    fn losses_are_clipped_record_by_record() {
        assert_eq!(mean_loss([Some(9.0), Some(0.5), None].into_iter(), 2.0), Some(1.25));
        assert_eq!(mean_loss([Some(f64::NAN), Some(f64::INFINITY), Some(-1.0)].into_iter(), 3.0), Some(2.0));
        assert_eq!(mean([Some(1.0), None, Some(2.0), Some(6.0)].into_iter()), Some(3.0));
    }
}
