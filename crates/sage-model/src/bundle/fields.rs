//! Writes fields as ONNX nodes: from features to numbers and category indices.

use super::category_index::CategoryIndex;
use super::graph::{Field, Outline, Scaled};
use crate::formula::proto::DataType;
use crate::formula::{Formula, Kind, Lowered, Lowering, Schema, Tensor};
use sage_learn::encode::{PRIME, hash_key};

/// Writes the fields of one outline.
pub(super) struct Fields<'a> {
    pub(super) lowering: Lowering<'a>,
    outline: &'a Outline,
    /// For each row whether the model leaves it out, if it leaves out any.
    pub(super) left_out: Option<Tensor>,
}

impl<'a> Fields<'a> {
    pub(super) const fn new(outline: &'a Outline, lowering: Lowering<'a>) -> Self {
        Self { lowering, outline, left_out: None }
    }

    fn node(&mut self, operator: &str, inputs: &[&Tensor]) -> Tensor {
        self.lowering.nodes.node(operator, inputs)
    }

    fn number(&mut self, number: f64) -> Tensor {
        self.lowering.nodes.number(number)
    }

    /// A feature as a number for each row. The name was checked.
    fn feature(&mut self, name: &str) -> Lowered {
        let outline = self.outline;
        let formula = outline.feature(name).map_or(&Formula::Null, |feature| &feature.formula);
        let mut lowered = self.lowering.formula(formula);
        if formula.check(&outline.schema) == Ok(Kind::Truth) {
            lowered.value = self.lowering.nodes.cast(&lowered.value, DataType::Double);
        }
        if self.lowering.nodes.is_scalar(&lowered.value) {
            let zeros = self.zeros();
            lowered.value = self.node("Add", &[&lowered.value, &zeros]);
        }
        lowered
    }

    /// A zero for each row, computed from some column.
    fn zeros(&mut self) -> Tensor {
        let schema: &Schema = &self.outline.schema;
        let name = schema.columns().first().map(|column| column.name.clone()).unwrap_or_default();
        let column = Formula::Column(name);
        let zero = self.number(0.0);
        if column.check(schema) == Ok(Kind::Text) {
            let text = self.lowering.text(&column);
            let index = self.lowering.nodes.text_index(&text.value, &[String::new()]);
            return self.node("Mul", &[&index, &zero]);
        }
        let any = self.lowering.formula(&column);
        let itself = self.node("Equal", &[&any.value, &any.value]);
        self.node("Where", &[&itself, &zero, &zero])
    }

    /// A number field: one `f32` for each row, NaN where the row is left out.
    pub(super) fn scaled(&mut self, scaled: &Scaled) -> Tensor {
        let feature = self.feature(&scaled.feature);
        let x = &feature.value;
        let nan = self.lowering.not_a_number(x);
        let bad = self.lowering.or(feature.null, Some(nan.clone())).unwrap_or(nan);
        let (low, high) = (self.number(scaled.low), self.number(scaled.high));
        let (below, above) = (self.node("Less", &[x, &low]), self.node("Greater", &[x, &high]));
        let clipped = self.node("Where", &[&above, &high, x]);
        let clipped = self.node("Where", &[&below, &low, &clipped]);
        let (shift, factor) = (self.number(scaled.shift), self.number(scaled.factor));
        let shifted = self.node("Sub", &[&clipped, &shift]);
        let result = self.node("Mul", &[&shifted, &factor]);
        if scaled.missing.is_none() {
            let before = self.left_out.take();
            self.left_out = self.lowering.or(before, Some(bad.clone()));
        }
        let missing = self.number(scaled.missing.unwrap_or(f64::NAN));
        let result = self.node("Where", &[&bad, &missing, &result]);
        self.lowering.nodes.cast(&result, DataType::Float)
    }

    /// A feature as it is, NaN where it is null: one `f32` for each row.
    fn plain(&mut self, feature: &str) -> Tensor {
        let feature = self.feature(feature);
        let value = match feature.null {
            None => feature.value,
            Some(null) => {
                let nan = self.number(f64::NAN);
                self.node("Where", &[&null, &nan, &feature.value])
            }
        };
        self.lowering.nodes.cast(&value, DataType::Float)
    }

    /// A field that is one number: one `f32` for each row.
    pub(super) fn number_field(&mut self, field: &Field) -> Tensor {
        match field {
            Field::Number(scaled) => self.scaled(scaled),
            Field::Plain(feature) => self.plain(feature),
            Field::OneHot(category) | Field::Embedded { category, .. } => self.category(category),
        }
    }

    /// A categorical field: the index of each row's category, as a whole number in an `f64`.
    pub(super) fn category(&mut self, category: &CategoryIndex) -> Tensor {
        match category {
            CategoryIndex::Category { feature, categories, otherwise } => {
                let outline = self.outline;
                let formula = outline.feature(feature).map_or(&Formula::Null, |feature| &feature.formula);
                let text = self.lowering.text(formula);
                let found = self.lowering.nodes.text_index(&text.value, categories);
                let zero = self.number(0.0);
                let listed = self.node("GreaterOrEqual", &[&found, &zero]);
                self.otherwise(&found, &listed, text.null, *otherwise)
            }
            CategoryIndex::Index { feature, first, count, otherwise } => {
                let (feature, first) = (self.feature(feature), self.number(*first as f64));
                let found = self.node("Sub", &[&feature.value, &first]);
                let (inside, _) = self.lowering.checked_index(&found, *count as usize);
                self.otherwise(&found, &inside, feature.null, *otherwise)
            }
            CategoryIndex::Bucket { feature, edges, otherwise } => {
                let feature = self.feature(feature);
                let found = self.bucket(&feature.value, edges);
                let number = self.node("Equal", &[&feature.value, &feature.value]);
                self.otherwise(&found, &number, feature.null, *otherwise)
            }
            CategoryIndex::Hash { feature, seed, count, otherwise } => {
                let feature = self.feature(feature);
                let (size, limit) = (self.node("Abs", &[&feature.value]), self.number(9_007_199_254_740_992.0));
                let floor = self.node("Floor", &[&feature.value]);
                let whole = self.node("Equal", &[&floor, &feature.value]);
                let small = self.node("LessOrEqual", &[&size, &limit]);
                let good = self.node("And", &[&whole, &small]);
                let found = self.hash(&feature.value, *seed, *count);
                self.otherwise(&found, &good, feature.null, *otherwise)
            }
            CategoryIndex::Cross(parts) => self.cross(parts),
            CategoryIndex::Folded { of, seed, count } => {
                let of = self.category(of);
                self.hash(&of, *seed, *count)
            }
        }
    }

    /// The index where it is valid and not null, and the fallback index elsewhere.
    fn otherwise(&mut self, found: &Tensor, good: &Tensor, null: Option<Tensor>, otherwise: u32) -> Tensor {
        let mut good = good.clone();
        if let Some(null) = null {
            let known = self.node("Not", &[&null]);
            good = self.node("And", &[&good, &known]);
        }
        let otherwise = self.number(f64::from(otherwise));
        self.node("Where", &[&good, found, &otherwise])
    }

    fn bucket(&mut self, value: &Tensor, edges: &[f64]) -> Tensor {
        if edges.is_empty() {
            return self.zeros();
        }
        let (axis, edges) = (self.lowering.nodes.wholes(&[1]), self.lowering.nodes.numbers(edges));
        let column = self.node("Unsqueeze", &[value, &axis]);
        let reached = self.node("GreaterOrEqual", &[&column, &edges]);
        let reached = self.lowering.nodes.cast(&reached, DataType::Float);
        let flat = vec![crate::formula::whole_attribute("keepdims", 0)];
        let count = self.lowering.nodes.node_with("ReduceSum", &[&reached, &axis], flat);
        self.lowering.nodes.cast(&count, DataType::Double)
    }

    fn cross(&mut self, parts: &[CategoryIndex]) -> Tensor {
        let mut joined: Option<Tensor> = None;
        for part in parts {
            let index = self.category(part);
            joined = Some(match joined {
                None => index,
                Some(before) => {
                    let count = self.number(part.categories() as f64);
                    let shifted = self.node("Mul", &[&before, &count]);
                    self.node("Add", &[&shifted, &index])
                }
            });
        }
        joined.unwrap_or_else(|| self.zeros())
    }

    /// The steps of [`sage_learn::encode::hash`]. Every number stays below 2⁵³ and is therefore exact.
    fn hash(&mut self, whole: &Tensor, seed: u64, count: u32) -> Tensor {
        let [a, b, c] = hash_key(seed).map(|key| self.number(key as f64));
        let (power, shift) = (self.number(67_108_864.0), self.number(134_217_728.0));
        let high = self.node("Div", &[whole, &power]);
        let high = self.node("Floor", &[&high]);
        let above = self.node("Mul", &[&high, &power]);
        let low = self.node("Sub", &[whole, &above]);
        let high = self.node("Add", &[&high, &shift]);
        let (low, high) = (self.modulo(&low, PRIME), self.modulo(&high, PRIME));
        let (low, high) = (self.node("Mul", &[&a, &low]), self.node("Mul", &[&b, &high]));
        let (low, high) = (self.modulo(&low, PRIME), self.modulo(&high, PRIME));
        let mixed = self.node("Add", &[&low, &high]);
        let mixed = self.node("Add", &[&mixed, &c]);
        let mixed = self.modulo(&mixed, PRIME);
        self.modulo(&mixed, u64::from(count))
    }

    /// The remainder of a non-negative integer. A quotient that was rounded up is corrected.
    fn modulo(&mut self, of: &Tensor, size: u64) -> Tensor {
        let (size, zero) = (self.number(size as f64), self.number(0.0));
        let quotient = self.node("Div", &[of, &size]);
        let quotient = self.node("Floor", &[&quotient]);
        let product = self.node("Mul", &[&quotient, &size]);
        let rest = self.node("Sub", &[of, &product]);
        let (less, more) = (self.node("Sub", &[&rest, &size]), self.node("Add", &[&rest, &size]));
        let (high, low) = (self.node("GreaterOrEqual", &[&rest, &size]), self.node("Less", &[&rest, &zero]));
        let rest = self.node("Where", &[&high, &less, &rest]);
        self.node("Where", &[&low, &more, &rest])
    }
}
