//! Comparisons, AND and OR.

use super::{Lowered, Lowering, sure};
use crate::formula::nodes::Tensor;
use crate::formula::tree::{Comparison, Formula};

impl Lowering<'_> {
    pub(super) fn compare(&mut self, comparison: Comparison, left: &Formula, right: &Formula) -> Lowered {
        let (x, y) = (self.formula(left), self.formula(right));
        let null = self.or(x.null, y.null);
        let (x, y) = ((&x.value, always_number(left)), (&y.value, always_number(right)));
        let value = match comparison {
            Comparison::Equal | Comparison::Different => self.equal(x, y),
            Comparison::Less | Comparison::AtLeast => self.less(x, y),
            Comparison::Greater | Comparison::AtMost => self.less(y, x),
        };
        let value = match comparison {
            Comparison::Equal | Comparison::Less | Comparison::Greater => value,
            _ => self.nodes.node("Not", &[&value]),
        };
        self.known_truth(value, null)
    }

    fn equal(&mut self, (x, x_is): (&Tensor, Always), (y, y_is): (&Tensor, Always)) -> Tensor {
        let equal = self.nodes.node("Equal", &[x, y]);
        if x_is == Always::Number || y_is == Always::Number {
            return equal;
        }
        let (x, y) = (self.not_a_number(x), self.not_a_number(y));
        let neither = self.nodes.node("And", &[&x, &y]);
        self.nodes.node("Or", &[&equal, &neither])
    }

    fn less(&mut self, (x, x_is): (&Tensor, Always), (y, y_is): (&Tensor, Always)) -> Tensor {
        let less = self.nodes.node("Less", &[x, y]);
        if y_is == Always::Number {
            return less;
        }
        let mut after = self.not_a_number(y);
        if x_is == Always::Perhaps {
            let number = self.nodes.node("Equal", &[x, x]);
            after = self.nodes.node("And", &[&after, &number]);
        }
        self.nodes.node("Or", &[&less, &after])
    }

    pub(super) fn both(&mut self, left: &Lowered, right: &Lowered) -> Lowered {
        let value = self.nodes.node("And", &[&left.value, &right.value]);
        let Some(either) = self.or(left.null.clone(), right.null.clone()) else {
            return sure(value);
        };
        // Unknown, unless one side is known to be false.
        let mut null = either;
        for side in [left, right] {
            let possible = self.or(Some(side.value.clone()), side.null.clone());
            null = self.nodes.node("And", &[&null, &possible.unwrap_or_else(|| side.value.clone())]);
        }
        Lowered { value, null: Some(null) }
    }

    pub(super) fn either(&mut self, left: &Lowered, right: &Lowered) -> Lowered {
        let value = self.nodes.node("Or", &[&left.value, &right.value]);
        let null = self.or(left.null.clone(), right.null.clone());
        let null = null.map(|null| {
            let open = self.nodes.node("Not", &[&value]);
            self.nodes.node("And", &[&null, &open])
        });
        Lowered { value, null }
    }
}

/// Whether a value can be NaN where it is not null.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Always {
    Number,
    Perhaps,
}

fn always_number(formula: &Formula) -> Always {
    match formula {
        Formula::Column(_)
        | Formula::Number(_)
        | Formula::Finite(_)
        | Formula::Part(..)
        | Formula::AsNumber(_)
        | Formula::Lookup(_) => Always::Number,
        _ => Always::Perhaps,
    }
}
