//! Comparisons, AND and OR.

use super::{Lowered, Lowering, never_null};
use crate::formula::nodes::Tensor;
use crate::formula::tree::{Comparison, Formula};

impl Lowering<'_> {
    pub(super) fn compare(&mut self, comparison: Comparison, left: &Formula, right: &Formula) -> Lowered {
        let (x, y) = (self.formula(left), self.formula(right));
        let null = self.or(x.null, y.null);
        let (x, y) = ((&x.value, nan_free(left)), (&y.value, nan_free(right)));
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

    fn equal(&mut self, (x, x_is): (&Tensor, NanFree), (y, y_is): (&Tensor, NanFree)) -> Tensor {
        let equal = self.nodes.node("Equal", &[x, y]);
        if x_is == NanFree::Yes || y_is == NanFree::Yes {
            return equal;
        }
        let (x, y) = (self.not_a_number(x), self.not_a_number(y));
        let both_nan = self.nodes.node("And", &[&x, &y]);
        self.nodes.node("Or", &[&equal, &both_nan])
    }

    fn less(&mut self, (x, x_is): (&Tensor, NanFree), (y, y_is): (&Tensor, NanFree)) -> Tensor {
        let less = self.nodes.node("Less", &[x, y]);
        if y_is == NanFree::Yes {
            return less;
        }
        let mut after = self.not_a_number(y);
        if x_is == NanFree::Unknown {
            let number = self.nodes.node("Equal", &[x, x]);
            after = self.nodes.node("And", &[&after, &number]);
        }
        self.nodes.node("Or", &[&less, &after])
    }

    pub(super) fn both(&mut self, left: &Lowered, right: &Lowered) -> Lowered {
        let value = self.nodes.node("And", &[&left.value, &right.value]);
        let Some(either) = self.or(left.null.clone(), right.null.clone()) else {
            return never_null(value);
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

/// Whether a value is known never to be NaN where it is not null.
#[derive(Clone, Copy, PartialEq, Eq)]
enum NanFree {
    Yes,
    Unknown,
}

fn nan_free(formula: &Formula) -> NanFree {
    match formula {
        Formula::Column(_)
        | Formula::Number(_)
        | Formula::Finite(_)
        | Formula::Part(..)
        | Formula::AsNumber(_)
        | Formula::Lookup(_) => NanFree::Yes,
        _ => NanFree::Unknown,
    }
}
