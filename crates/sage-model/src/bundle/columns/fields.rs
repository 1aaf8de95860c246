//! Compiles fields: numbers as the model takes them, and indices of categories.

use super::compile::{Compiler, Nullable};
use super::{Binary, FieldType, Instruction, Operand, Program, Unary};
use crate::bundle::category_index::CategoryIndex;
use crate::bundle::graph::{Field, Outline, Scaled};
use crate::bundle::predict::PredictError;
use crate::formula::Arithmetic;
use sage_learn::encode::hash_key;

impl Program {
    /// The program for the fields of an outline that was checked.
    pub(in crate::bundle) fn new(outline: &Outline) -> Result<Self, PredictError> {
        let mut compiler = Compiler::new(outline);
        let mut types = Vec::with_capacity(outline.fields.len());
        for (number, field) in outline.fields.iter().enumerate() {
            let (from, of) = match field {
                Field::Number(scaled) => (compiler.scaled(scaled), FieldType::Number),
                Field::Plain(feature) => (compiler.plain(feature), FieldType::Number),
                Field::OneHot(category) | Field::Embedded { category, .. } => {
                    (compiler.index(category), FieldType::Index)
                }
            };
            compiler.instructions.push(Instruction::Emit { field: number, from });
            types.push(of);
        }
        compiler.finish(types)
    }
}

impl Compiler<'_> {
    /// A feature that is not text.
    fn feature(&mut self, name: &str) -> Nullable {
        let outline = self.outline;
        match outline.feature(name) {
            Some(feature) => self.formula(&feature.formula),
            None => self.undeclared(name),
        }
    }

    fn scaled(&mut self, scaled: &Scaled) -> Operand {
        let Scaled { low, high, shift, factor, missing, .. } = *scaled;
        let feature = self.feature(&scaled.feature);
        let nan = self.unary(Unary::IsNan, feature.value);
        let missing_here = self.or(feature.null, Some(nan));
        let found = self.unary(Unary::Scale { low, high, shift, factor }, feature.value);
        self.unless(missing_here, found, missing.unwrap_or(f64::NAN))
    }

    fn plain(&mut self, feature: &str) -> Operand {
        let feature = self.feature(feature);
        self.unless(feature.null, feature.value, f64::NAN)
    }

    /// A value, and a constant where a condition is true.
    fn unless(&mut self, condition: Option<Operand>, value: Operand, otherwise: f64) -> Operand {
        match condition {
            None => value,
            Some(condition) => self.select(condition, Operand::Constant(otherwise), value),
        }
    }

    fn index(&mut self, category: &CategoryIndex) -> Operand {
        let outline = self.outline;
        match category {
            CategoryIndex::Category { feature, categories, otherwise } => {
                let text = outline.feature(feature).and_then(|feature| self.text(&feature.formula));
                let otherwise = f64::from(*otherwise);
                let Some((column, null)) = text else {
                    return self.undeclared(feature).value;
                };
                let numbers = (0_u32..).map(f64::from);
                let found = self.text_number(column, categories.iter().cloned().zip(numbers), otherwise);
                self.unless(null, found, otherwise)
            }
            CategoryIndex::Index { feature, first, count, otherwise } => {
                let (first, count) = (*first as f64, f64::from(*count));
                let otherwise = f64::from(*otherwise);
                self.index_of(feature, Unary::Index { first, count, otherwise }, otherwise)
            }
            CategoryIndex::Bucket { feature, edges, otherwise } => {
                let (edges, otherwise) = (self.list(edges), f64::from(*otherwise));
                self.index_of(feature, Unary::Bucket { edges, otherwise }, otherwise)
            }
            CategoryIndex::Hash { feature, seed, count, otherwise } => {
                let (key, otherwise) = (hash_key(*seed), f64::from(*otherwise));
                self.index_of(feature, Unary::Hash { key, count: *count, otherwise }, otherwise)
            }
            CategoryIndex::Cross(parts) => {
                let mut joined = Operand::Constant(0.0);
                for part in parts {
                    let (index, count) = (self.index(part), Operand::Constant(part.categories() as f64));
                    let shifted = self.binary(Binary::Arithmetic(Arithmetic::Multiply), joined, count);
                    joined = self.binary(Binary::Arithmetic(Arithmetic::Add), shifted, index);
                }
                joined
            }
            CategoryIndex::Folded { of, seed, count } => {
                let index = self.index(of);
                self.unary(Unary::Hash { key: hash_key(*seed), count: *count, otherwise: 0.0 }, index)
            }
        }
    }

    /// The index that a rule computes from a feature, or a constant where the feature is null.
    fn index_of(&mut self, feature: &str, rule: Unary, otherwise: f64) -> Operand {
        let feature = self.feature(feature);
        let found = self.unary(rule, feature.value);
        self.unless(feature.null, found, otherwise)
    }
}
