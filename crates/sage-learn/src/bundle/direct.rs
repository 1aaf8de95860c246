//! The fields of a few rows, without a node for each step.
//!
//! A graph of tract's takes longer to begin than a row takes to compute. So few rows are worked out from the formulas
//! themselves, by the evaluation that the graph is held to. That is done only where the two agree to the last bit: a
//! graph with a function of which runtimes have their own last bits goes the long way, lest a row's prediction depend
//! on how many others were asked about with it.

use super::graph::{Field, Outline, Scaled};
use super::layers::FieldValues;
use super::place::Place;
use crate::encode::hash;
use crate::formula::{Arithmetic, Cell, Formula, Function};

/// How many rows are worked out one by one.
pub(super) const MOST_ROWS: usize = 4;

/// What is needed of a graph to work out its fields.
pub(super) struct Direct {
    outline: Outline,
}

/// The values of one field.
enum Values {
    Numbers(Vec<f32>),
    Places(Vec<f64>),
}

/// The values of all fields, for each row.
pub(super) struct Worked(Vec<Values>);

impl Worked {
    pub(super) fn fields(&self) -> Vec<FieldValues<'_>> {
        self.0.iter().map(Values::of_field).collect()
    }
}

impl Values {
    fn of_field(&self) -> FieldValues<'_> {
        match self {
            Self::Numbers(numbers) => FieldValues::Numbers(numbers),
            Self::Places(places) => FieldValues::Places(places),
        }
    }
}

impl Direct {
    /// For a graph whose formulas have one answer; nothing for others.
    pub(super) fn new(outline: &Outline) -> Option<Self> {
        let plain = outline.features.iter().all(|feature| is_plain(&feature.formula));
        plain.then(|| Self { outline: outline.clone() })
    }

    /// The fields of rows that have a cell of its type for each column.
    pub(super) fn work_out(&self, rows: &[Vec<Cell>]) -> Worked {
        let field = |field: &Field| match field {
            Field::Number(scaled) => Values::Numbers(rows.iter().map(|row| self.number(scaled, row)).collect()),
            Field::Plain(feature) => Values::Numbers(rows.iter().map(|row| self.plain(feature, row)).collect()),
            Field::Place(place) | Field::Embedded { place, .. } => {
                Values::Places(rows.iter().map(|row| self.place(place, row) as f64).collect())
            }
        };
        Worked(self.outline.fields.iter().map(field).collect())
    }

    fn feature(&self, name: &str, row: &[Cell]) -> Cell {
        let feature = self.outline.features.iter().find(|feature| feature.name == name);
        feature.map_or(Cell::Null, |feature| feature.formula.evaluate(&self.outline.schema, row))
    }

    fn feature_number(&self, name: &str, row: &[Cell]) -> Option<f64> {
        match self.feature(name, row) {
            Cell::Number(number) if !number.is_nan() => Some(number),
            Cell::Truth(truth) => Some(f64::from(u8::from(truth))),
            _ => None,
        }
    }

    fn number(&self, scaled: &Scaled, row: &[Cell]) -> f32 {
        let found = self.feature_number(&scaled.feature, row);
        let clip = |x: f64| if x < scaled.low { scaled.low } else { x.min(scaled.high) };
        found.map_or(scaled.missing, |x| (clip(x) - scaled.shift) * scaled.factor) as f32
    }

    fn plain(&self, feature: &str, row: &[Cell]) -> f32 {
        self.feature_number(feature, row).map_or(f32::NAN, |number| number as f32)
    }

    fn place(&self, place: &Place, row: &[Cell]) -> u64 {
        match place {
            Place::Category { feature, categories, otherwise } => {
                let found = match self.feature(feature, row) {
                    Cell::Text(text) => categories.iter().position(|category| *category == text),
                    _ => None,
                };
                found.map_or(u64::from(*otherwise), |place| place as u64)
            }
            Place::Index { feature, first, count, otherwise } => {
                let place = self.feature_number(feature, row).map(|x| x - *first as f64);
                let inside = |place: &f64| *place >= 0.0 && *place < f64::from(*count) && place.floor() == *place;
                place.filter(inside).map_or(u64::from(*otherwise), |place| place as u64)
            }
            Place::Bucket { feature, edges, otherwise } => {
                let found = self.feature_number(feature, row);
                found.map_or(u64::from(*otherwise), |x| edges.iter().filter(|edge| x >= **edge).count() as u64)
            }
            Place::Hash { feature, seed, count, otherwise } => {
                let found = self.feature_number(feature, row).and_then(|x| hash(x, *seed, *count));
                u64::from(found.unwrap_or(*otherwise))
            }
            Place::Cross(parts) => parts.iter().fold(0, |joined, part| joined * part.places() + self.place(part, row)),
            Place::Folded { of, seed, count } => hash(self.place(of, row) as f64, *seed, *count).map_or(0, u64::from),
        }
    }
}

/// Whether a formula has the same last bit wherever it is computed.
fn is_plain(formula: &Formula) -> bool {
    let own = match formula {
        Formula::Function(function, _) => !matches!(
            function,
            Function::Exp | Function::Ln | Function::Sin | Function::Cos | Function::Tan | Function::Tanh
        ),
        Formula::Arithmetic(operation, ..) => !matches!(operation, Arithmetic::Power),
        _ => true,
    };
    own && formula.parts().into_iter().all(is_plain)
}
