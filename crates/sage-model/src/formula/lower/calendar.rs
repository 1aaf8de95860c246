//! Lowers parts of times: the computation of `calendar`, on `f64`.

use super::Lowering;
use crate::formula::calendar::DAY;
use crate::formula::nodes::Tensor;
use crate::formula::tree::Part;

impl Lowering<'_> {
    pub(super) fn whole(&mut self, whole: i64) -> Tensor {
        self.nodes.number(whole as f64)
    }

    /// The integer quotient of two whole numbers, rounded down. Half is added to the dividend so that rounding of the
    /// quotient cannot cross an integer.
    fn quotient(&mut self, of: &Tensor, size: i64) -> Tensor {
        let (half, size) = (self.nodes.number(0.5), self.whole(size));
        let middle = self.nodes.node("Add", &[of, &half]);
        let quotient = self.nodes.node("Div", &[&middle, &size]);
        self.nodes.node("Floor", &[&quotient])
    }

    fn times(&mut self, of: &Tensor, factor: i64) -> Tensor {
        let factor = self.whole(factor);
        self.nodes.node("Mul", &[of, &factor])
    }

    fn plus(&mut self, of: &Tensor, more: i64) -> Tensor {
        let more = self.whole(more);
        self.nodes.node("Add", &[of, &more])
    }

    fn minus(&mut self, of: &Tensor, less: &Tensor) -> Tensor {
        self.nodes.node("Sub", &[of, less])
    }

    /// The non-negative remainder of two whole numbers.
    fn remainder(&mut self, of: &Tensor, size: i64) -> Tensor {
        let quotient = self.quotient(of, size);
        let whole = self.times(&quotient, size);
        self.minus(of, &whole)
    }

    pub(super) fn part(&mut self, part: Part, seconds: &Tensor) -> Tensor {
        match part {
            Part::Epoch => seconds.clone(),
            Part::Hour => {
                let within = self.remainder(seconds, DAY);
                self.quotient(&within, 3_600)
            }
            Part::Minute => {
                let within = self.remainder(seconds, 3_600);
                self.quotient(&within, 60)
            }
            Part::Second => self.remainder(seconds, 60),
            Part::DayOfWeek => {
                let days = self.quotient(seconds, DAY);
                let from_sunday = self.plus(&days, 4);
                self.remainder(&from_sunday, 7)
            }
            Part::Year | Part::Quarter | Part::Month | Part::Day => {
                let days = self.quotient(seconds, DAY);
                self.date(part, &days)
            }
        }
    }

    /// The steps of `calendar::date`.
    fn date(&mut self, part: Part, days: &Tensor) -> Tensor {
        let from_march = self.plus(days, 719_468);
        let era = self.quotient(&from_march, 146_097);
        let of_era = self.remainder(&from_march, 146_097);
        let leaps = [self.quotient(&of_era, 1_460), self.quotient(&of_era, 36_524), self.quotient(&of_era, 146_096)];
        let without = self.minus(&of_era, &leaps[0]);
        let without = self.nodes.node("Add", &[&without, &leaps[1]]);
        let without = self.minus(&without, &leaps[2]);
        let year_of_era = self.quotient(&without, 365);
        let before = [self.times(&year_of_era, 365), self.quotient(&year_of_era, 4), self.quotient(&year_of_era, 100)];
        let of_year = self.minus(&of_era, &before[0]);
        let of_year = self.minus(&of_year, &before[1]);
        let of_year = self.nodes.node("Add", &[&of_year, &before[2]]);
        let fifths = self.times(&of_year, 5);
        let fifths = self.plus(&fifths, 2);
        let from_march = self.quotient(&fifths, 153);
        if part == Part::Day {
            let months = self.times(&from_march, 153);
            let months = self.plus(&months, 2);
            let months = self.quotient(&months, 5);
            let day = self.minus(&of_year, &months);
            return self.plus(&day, 1);
        }
        let (ten, early, late) = (self.whole(10), self.plus(&from_march, 3), self.plus(&from_march, -9));
        let this_year = self.nodes.node("Less", &[&from_march, &ten]);
        let month = self.nodes.node("Where", &[&this_year, &early, &late]);
        match part {
            Part::Quarter => {
                let shifted = self.plus(&month, 2);
                self.quotient(&shifted, 3)
            }
            Part::Year => {
                let years = self.times(&era, 400);
                let year = self.nodes.node("Add", &[&years, &year_of_era]);
                let next = self.plus(&year, 1);
                self.nodes.node("Where", &[&this_year, &year, &next])
            }
            _ => month,
        }
    }
}
