//! Contributions: how many records of a privacy unit a release counts. Proof: `proofs/contribution.md`.
//!
//! The records of a unit share the bound of one: where m records count, each is written on a grid on which it reaches one
//! m-th of what a unit may add. So the sensitivities of this crate are those of a unit, whatever m is. Only this module
//! visits records, and it visits no more than it shares the bound among.

use crate::session::{Rows, each_row, each_unit};

/// The largest number of records of a unit that count: 1 to 1,000,000.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Contribution(u32);

/// Bounds of a release together with the number of records of a unit that it counts; one, made from bounds alone.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PerUnit<B> {
    pub(crate) bounds: B,
    pub(crate) contribution: Contribution,
}

impl<B> From<B> for PerUnit<B> {
    fn from(bounds: B) -> Self {
        Contribution::ONE.per_unit(bounds)
    }
}

impl Contribution {
    /// One record: every row counts once.
    pub const ONE: Self = Self(1);
    /// The largest contribution.
    pub const LIMIT: Self = Self(1_000_000);

    /// This many records; `None` unless from one to [`Contribution::LIMIT`].
    pub const fn new(records: u32) -> Option<Self> {
        if records >= 1 && records <= Self::LIMIT.0 { Some(Self(records)) } else { None }
    }

    /// The number of records.
    pub const fn records(self) -> u32 {
        self.0
    }

    /// The bounds of a release that counts this many records of a unit.
    pub const fn per_unit<B>(self, bounds: B) -> PerUnit<B> {
        PerUnit { bounds, contribution: self }
    }

    /// The number of steps of one record where a unit has `steps`: m of them add up to at most `steps`.
    pub const fn steps(self, steps: u64) -> u64 {
        steps / self.0 as u64
    }

    /// The length of one record where a unit has `length`, at most 2^31: m squares add up to at most its square.
    pub(crate) const fn length(self, length: u64) -> u64 {
        (length * length / self.0 as u64).isqrt()
    }

    /// The root of m.
    pub(crate) fn root(self) -> f64 {
        libm::sqrt(f64::from(self.0))
    }

    /// Adds the records of every unit, until m of it are added, and returns the number of units. `add` returns whether the
    /// record has anything to add. A single record is the first.
    #[inline(always)]
    pub(crate) fn each_record<R: Rows>(self, batches: &[R], mut add: impl FnMut(R::Row<'_>) -> bool) -> u64 {
        if self == Self::ONE {
            return each_row(batches, |row| _ = add(row));
        }
        each_unit(batches, |batch, unit| {
            let mut left = self.0;
            for record in 0..batch.records(unit) {
                if left == 0 {
                    break;
                }
                left -= u32::from(add(batch.record(unit, record)));
            }
        })
    }

    /// Calls a function exactly m times for every unit, with its records in turn, and returns the number of units.
    #[inline(always)]
    pub(crate) fn each_turn<R: Rows>(self, batches: &[R], mut visit: impl FnMut(R::Row<'_>)) -> u64 {
        if self == Self::ONE {
            return each_row(batches, visit);
        }
        each_unit(batches, |batch, unit| {
            let records = batch.records(unit).max(1);
            (0..self.0 as usize).for_each(|turn| visit(batch.record(unit, turn % records)));
        })
    }

    /// The form of a summary: its mechanism and bounds, and m unless it is one.
    pub(crate) fn form(self, mut form: Vec<u64>) -> Vec<u64> {
        form.extend((self != Self::ONE).then_some(u64::from(self.0)));
        form
    }

    /// The contribution at the end of a form.
    pub(crate) fn from_form(rest: &[u64]) -> Option<Self> {
        match *rest {
            [] => Some(Self::ONE),
            [records] => u32::try_from(records).ok().and_then(Self::new).filter(|&found| found != Self::ONE),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Units(Vec<Vec<u32>>);

    impl Rows for Units {
        type Row<'rows> = u32;

        fn count(&self) -> usize {
            self.0.len()
        }

        fn row(&self, index: usize) -> u32 {
            self.0[index][0]
        }

        fn records(&self, index: usize) -> usize {
            self.0[index].len()
        }

        fn record(&self, index: usize, record: usize) -> u32 {
            self.0[index][record]
        }
    }

    fn of(records: u32) -> Contribution {
        Contribution::new(records).expect("a contribution")
    }

    /// m parts are never more than the whole, and one is the whole.
    #[test]
    fn parts_are_no_more_than_the_whole() {
        for bound in [1 << 20, 1 << 13, 1 << 31, 1_048_573] {
            assert_eq!((Contribution::ONE.steps(bound), Contribution::ONE.length(bound)), (bound, bound));
            for records in (1..2_000).chain([4_095, 65_536, 999_999, 1_000_000]) {
                let (m, one) = (u64::from(records), of(records));
                assert!(one.steps(bound) * m <= bound && (one.steps(bound) + 1) * m > bound, "{bound} {records}");
                let length = one.length(bound);
                assert!(length * length * m <= bound * bound, "{bound} {records}");
                assert!((length + 1) * (length + 1) * m > bound * bound, "{bound} {records}");
            }
        }
        assert_eq!(Contribution::LIMIT.steps(1 << 20), 1);
        assert_eq!((Contribution::new(0), Contribution::new(1_000_001)), (None, None));
    }

    #[test]
    fn a_unit_is_visited_as_often_as_it_counts() {
        let units = [Units(vec![vec![1], vec![2, 3, 4]]), Units(vec![]), Units(vec![vec![5, 6, 7, 8, 9, 10]])];
        let added = |records, skipped: u32| {
            let mut seen = Vec::new();
            let add = |row| {
                seen.extend((row != skipped).then_some(row));
                row != skipped
            };
            assert_eq!(of(records).each_record(&units, add), 3);
            seen
        };
        assert_eq!(added(1, 0), [1, 2, 5]);
        assert_eq!(added(3, 0), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(added(4, 6), [1, 2, 3, 4, 5, 7, 8, 9], "what adds nothing does not count");
        assert_eq!(added(1_000_000, 0), [1, 2, 3, 4, 5, 6, 7, 8, 9, 10]);
        for (records, expected) in
            [(1, vec![1, 2, 5]), (2, vec![1, 1, 2, 3, 5, 6]), (4, vec![1, 1, 1, 1, 2, 3, 4, 2, 5, 6, 7, 8])]
        {
            let mut seen = Vec::new();
            assert_eq!(of(records).each_turn(&units, |row| seen.push(row)), 3);
            assert_eq!(seen, expected);
        }
    }

    #[test]
    fn a_form_has_one_contribution() {
        assert_eq!(Contribution::ONE.form(vec![3, 7]), [3, 7]);
        assert_eq!(of(10).form(vec![3, 7]), [3, 7, 10]);
        for (rest, expected) in [(&[][..], Some(1)), (&[1], None), (&[0], None), (&[2], Some(2)), (&[2, 2], None)] {
            assert_eq!(Contribution::from_form(rest).map(Contribution::records), expected);
        }
        assert_eq!(Contribution::from_form(&[1 << 32 | 2]), None);
    }
}
