//! Lowers a formula to nodes of a graph that returns the same as [`Formula::evaluate`].
//!
//! Every value is two tensors: the value, and a mask of the rows where it is null; the mask is absent if no row can be
//! null. A truth value is false where it is null, and most rules below rely on that. A number is unspecified where it
//! is null. Only operators are used that tract and onnxruntime both have in double precision, and none whose result
//! for NaN differs between them.

mod calendar;
mod truth;

use super::calendar::{DAY, DAYS};
use super::nodes::{Nodes, Tensor, whole_attribute};
use super::proto::DataType;
use super::schema::{Domain, Keys, Missing, Schema};
use super::tree::{Arithmetic, Case, Formula, Function, Lookup};

/// A value and its null mask; no mask if it is never null.
#[derive(Clone)]
pub(crate) struct Lowered {
    pub(crate) value: Tensor,
    pub(crate) null: Option<Tensor>,
}

/// Writes formulas over one schema, whose columns are the graph's inputs.
pub(crate) struct Lowering<'a> {
    pub(crate) nodes: Nodes,
    schema: &'a Schema,
    /// The tensor of each column, one value for each row.
    inputs: Vec<Tensor>,
}

impl<'a> Lowering<'a> {
    pub(crate) const fn new(schema: &'a Schema, nodes: Nodes, inputs: Vec<Tensor>) -> Self {
        Self { nodes, schema, inputs }
    }

    /// A column of texts as in the input, with its null mask.
    pub(crate) fn text(&mut self, formula: &Formula) -> Lowered {
        let Formula::Column(name) = formula else {
            // No checked formula has another kind of text.
            return self.always_null();
        };
        let Some((index, column)) = self.schema.column(name) else {
            return self.always_null();
        };
        let value = self.inputs[index].clone();
        let null = (column.missing == Missing::Possible).then(|| {
            let empty = self.nodes.text_index(&value, &[String::new()]);
            let zero = self.nodes.number(0.0);
            self.nodes.node("Equal", &[&empty, &zero])
        });
        Lowered { value, null }
    }

    /// A checked formula that is not text.
    pub(crate) fn formula(&mut self, formula: &Formula) -> Lowered {
        match formula {
            Formula::Column(name) => self.column(name),
            Formula::Number(number) => never_null(self.nodes.number(*number)),
            Formula::Truth(truth) => never_null(self.nodes.truth(*truth)),
            Formula::Null => self.always_null(),
            Formula::Function(function, of) => {
                let of = self.formula(of);
                self.function(*function, &of)
            }
            Formula::Arithmetic(operation, left, right) => {
                let (left, right) = (self.formula(left), self.formula(right));
                self.arithmetic(*operation, &left, &right)
            }
            Formula::Compare(comparison, left, right) => self.compare(*comparison, left, right),
            Formula::Both(left, right) => {
                let (left, right) = (self.formula(left), self.formula(right));
                self.both(&left, &right)
            }
            Formula::Either(left, right) => {
                let (left, right) = (self.formula(left), self.formula(right));
                self.either(&left, &right)
            }
            Formula::Not(of) => {
                let of = self.formula(of);
                let value = self.nodes.node("Not", &[&of.value]);
                self.known_truth(value, of.null)
            }
            Formula::IsNull(of) => {
                let text = matches!(&**of, Formula::Column(name) if self.is_text(name));
                let of = if text { self.text(of) } else { self.formula(of) };
                let null = of.null.unwrap_or_else(|| self.nodes.truth(false));
                never_null(null)
            }
            Formula::Finite(of) => {
                let of = self.formula(of);
                // |x| ≤ MAX is false for NaN and infinities; not every runtime has IsInf for doubles.
                let (size, greatest) = (self.nodes.node("Abs", &[&of.value]), self.nodes.number(f64::MAX));
                let finite = self.nodes.node("LessOrEqual", &[&size, &greatest]);
                let missing = self.nodes.node("Not", &[&finite]);
                Lowered { null: self.or(of.null, Some(missing)), value: of.value }
            }
            Formula::Coalesce(all) => self.coalesce(all),
            Formula::Case(case) => self.case(case),
            Formula::AsNumber(of) => {
                let of = self.formula(of);
                Lowered { value: self.nodes.cast(&of.value, DataType::Double), null: of.null }
            }
            Formula::Part(part, of) => {
                let of = self.formula(of);
                Lowered { value: self.part(*part, &of.value), null: of.null }
            }
            Formula::Among(of, texts) => {
                let of = self.text(of);
                let index = self.nodes.text_index(&of.value, &sorted(texts));
                let zero = self.nodes.number(0.0);
                let value = self.nodes.node("GreaterOrEqual", &[&index, &zero]);
                self.known_truth(value, of.null)
            }
            Formula::Lookup(lookup) => self.look_up(lookup),
        }
    }

    fn always_null(&mut self) -> Lowered {
        Lowered { value: self.nodes.number(0.0), null: Some(self.nodes.truth(true)) }
    }

    fn is_text(&self, name: &str) -> bool {
        self.schema.column(name).is_some_and(|(_, column)| matches!(column.domain, Domain::Text { .. }))
    }

    fn column(&mut self, name: &str) -> Lowered {
        let Some((index, column)) = self.schema.column(name) else {
            return self.always_null();
        };
        let input = self.inputs[index].clone();
        match (&column.domain, column.missing) {
            (Domain::Truth, Missing::Never) => never_null(input),
            (Domain::Truth, Missing::Possible) => {
                let (null, zero) = (self.not_a_number(&input), self.nodes.number(0.0));
                let zero = self.nodes.node("Equal", &[&input, &zero]);
                let value = self.nodes.node("Not", &[&zero]);
                self.known_truth(value, Some(null))
            }
            (Domain::Whole { .. } | Domain::Hashed, Missing::Never) => {
                never_null(self.nodes.cast(&input, DataType::Double))
            }
            (Domain::Time { .. }, missing) => {
                let seconds = match missing {
                    Missing::Never => self.nodes.cast(&input, DataType::Double),
                    Missing::Possible => self.nodes.node("Floor", &[&input]),
                };
                let (first, end) = (self.whole(DAYS.start * DAY), self.whole(DAYS.end * DAY));
                let from = self.nodes.node("GreaterOrEqual", &[&seconds, &first]);
                let until = self.nodes.node("Less", &[&seconds, &end]);
                let within = self.nodes.node("And", &[&from, &until]);
                Lowered { value: seconds, null: Some(self.nodes.node("Not", &[&within])) }
            }
            // A column of numbers can contain NaN whatever was declared; NaN is null.
            _ => Lowered { null: Some(self.not_a_number(&input)), value: input },
        }
    }

    /// Whether a number is NaN. tract has no IsNaN for double precision, so the value is compared with itself.
    pub(crate) fn not_a_number(&mut self, value: &Tensor) -> Tensor {
        let itself = self.nodes.node("Equal", &[value, value]);
        self.nodes.node("Not", &[&itself])
    }

    pub(crate) fn or(&mut self, left: Option<Tensor>, right: Option<Tensor>) -> Option<Tensor> {
        match (left, right) {
            (Some(left), Some(right)) => Some(self.nodes.node("Or", &[&left, &right])),
            (left, right) => left.or(right),
        }
    }

    /// A truth value made false where it is null.
    fn known_truth(&mut self, value: Tensor, null: Option<Tensor>) -> Lowered {
        let Some(null) = null else {
            return never_null(value);
        };
        let known = self.nodes.node("Not", &[&null]);
        Lowered { value: self.nodes.node("And", &[&value, &known]), null: Some(null) }
    }

    fn function(&mut self, function: Function, of: &Lowered) -> Lowered {
        let (x, nodes) = (&of.value, &mut self.nodes);
        let zero = nodes.number(0.0);
        let value = match function {
            Function::Negate => nodes.node("Neg", &[x]),
            Function::Abs => nodes.node("Abs", &[x]),
            Function::Ceil => nodes.node("Ceil", &[x]),
            Function::Floor => nodes.node("Floor", &[x]),
            Function::Exp => nodes.node("Exp", &[x]),
            Function::Ln => nodes.node("Log", &[x]),
            Function::Sin => nodes.node("Sin", &[x]),
            Function::Cos => nodes.node("Cos", &[x]),
            Function::Tanh => nodes.node("Tanh", &[x]),
            // The operator Tan exists in single precision only.
            Function::Tan => {
                let (sine, cosine) = (nodes.node("Sin", &[x]), nodes.node("Cos", &[x]));
                nodes.node("Div", &[&sine, &cosine])
            }
            Function::Truncate => {
                let (negative, up) = (nodes.node("Less", &[x, &zero]), nodes.node("Ceil", &[x]));
                let down = nodes.node("Floor", &[x]);
                nodes.node("Where", &[&negative, &up, &down])
            }
            Function::Sign => {
                let (one, minus_one) = (nodes.number(1.0), nodes.number(-1.0));
                let (negative, positive) = (nodes.node("Less", &[x, &zero]), nodes.node("Greater", &[x, &zero]));
                let not_positive = nodes.node("Where", &[&negative, &minus_one, x]);
                nodes.node("Where", &[&positive, &one, &not_positive])
            }
            Function::Round => self.round(x),
            Function::Sqrt => {
                let negative = nodes.node("Less", &[x, &zero]);
                let value = nodes.node("Sqrt", &[x]);
                let null = self.or(of.null.clone(), Some(negative));
                return Lowered { value, null };
            }
        };
        Lowered { value, null: of.null.clone() }
    }

    /// Rounds half away from zero; the operator Round rounds half to even.
    fn round(&mut self, x: &Tensor) -> Tensor {
        let nodes = &mut self.nodes;
        let (zero, half) = (nodes.number(0.0), nodes.number(0.5));
        let size = nodes.node("Abs", &[x]);
        let down = nodes.node("Floor", &[&size]);
        let rest = nodes.node("Sub", &[&size, &down]);
        let up = nodes.node("GreaterOrEqual", &[&rest, &half]);
        let up = nodes.cast(&up, DataType::Double);
        let rounded = nodes.node("Add", &[&down, &up]);
        let opposite = nodes.node("Neg", &[&rounded]);
        let negative = nodes.node("Less", &[x, &zero]);
        nodes.node("Where", &[&negative, &opposite, &rounded])
    }

    fn arithmetic(&mut self, operation: Arithmetic, left: &Lowered, right: &Lowered) -> Lowered {
        let null = self.or(left.null.clone(), right.null.clone());
        let (x, y, nodes) = (&left.value, &right.value, &mut self.nodes);
        let value = match operation {
            Arithmetic::Add => nodes.node("Add", &[x, y]),
            Arithmetic::Subtract => nodes.node("Sub", &[x, y]),
            Arithmetic::Multiply => nodes.node("Mul", &[x, y]),
            Arithmetic::Divide => {
                // Runtimes disagree on the sign of zero, and a quotient would expose it.
                let zero = nodes.number(0.0);
                let is_zero = nodes.node("Equal", &[y, &zero]);
                let divisor = nodes.node("Where", &[&is_zero, &zero, y]);
                nodes.node("Div", &[x, &divisor])
            }
            Arithmetic::Remainder => nodes.node_with("Mod", &[x, y], vec![whole_attribute("fmod", 1)]),
            Arithmetic::Power => {
                let zero = nodes.number(0.0);
                let (base, exponent) = (nodes.node("Equal", &[x, &zero]), nodes.node("Less", &[y, &zero]));
                let fails = nodes.node("And", &[&base, &exponent]);
                let value = nodes.node("Pow", &[x, y]);
                return Lowered { value, null: self.or(null, Some(fails)) };
            }
        };
        Lowered { value, null }
    }

    fn coalesce(&mut self, all: &[Formula]) -> Lowered {
        let truths = all.first().is_some_and(|part| self.is_truth(part));
        let mut parts: Vec<Lowered> = all.iter().map(|part| self.formula(part)).collect();
        let mut chosen = parts.pop().unwrap_or_else(|| self.always_null());
        while let Some(part) = parts.pop() {
            chosen = match &part.null {
                None => part,
                Some(null) => {
                    let present = self.nodes.node("Not", &[null]);
                    match truths {
                        true => self.choose_truth(&present, &part, &chosen),
                        false => self.choose_number(&present, &part, &chosen),
                    }
                }
            };
        }
        chosen
    }

    fn case(&mut self, case: &Case) -> Lowered {
        let truths = case.branches.first().is_some_and(|(_, result)| self.is_truth(result));
        let mut chosen = match &case.otherwise {
            Some(otherwise) => self.formula(otherwise),
            None if truths => Lowered { value: self.nodes.truth(false), null: Some(self.nodes.truth(true)) },
            None => self.always_null(),
        };
        for (condition, result) in case.branches.iter().rev() {
            let (condition, result) = (self.formula(condition), self.formula(result));
            chosen = match truths {
                true => self.choose_truth(&condition.value, &result, &chosen),
                false => self.choose_number(&condition.value, &result, &chosen),
            };
        }
        chosen
    }

    fn is_truth(&self, formula: &Formula) -> bool {
        formula.check(self.schema) == Ok(super::tree::Kind::Truth)
    }

    fn choose_number(&mut self, condition: &Tensor, yes: &Lowered, no: &Lowered) -> Lowered {
        let value = self.nodes.node("Where", &[condition, &yes.value, &no.value]);
        Lowered { value, null: self.choose_null(condition, yes, no) }
    }

    fn choose_truth(&mut self, condition: &Tensor, yes: &Lowered, no: &Lowered) -> Lowered {
        let value = self.either_truth(condition, &yes.value, &no.value);
        Lowered { value, null: self.choose_null(condition, yes, no) }
    }

    fn choose_null(&mut self, condition: &Tensor, yes: &Lowered, no: &Lowered) -> Option<Tensor> {
        if yes.null.is_none() && no.null.is_none() {
            return None;
        }
        let never = self.nodes.truth(false);
        Some(self.either_truth(condition, yes.null.as_ref().unwrap_or(&never), no.null.as_ref().unwrap_or(&never)))
    }

    /// Selects between two truth values; onnxruntime's Where does not support them.
    fn either_truth(&mut self, condition: &Tensor, yes: &Tensor, no: &Tensor) -> Tensor {
        let (yes, other) = (self.nodes.node("And", &[condition, yes]), self.nodes.node("Not", &[condition]));
        let no = self.nodes.node("And", &[&other, no]);
        self.nodes.node("Or", &[&yes, &no])
    }

    fn look_up(&mut self, lookup: &Lookup) -> Lowered {
        let Some((table, column)) = self.schema.table(&lookup.table, &lookup.column) else {
            return self.always_null();
        };
        let (index, null) = match &table.keys {
            Keys::From { first, .. } => {
                let (key, first) = (self.formula(&lookup.key), self.whole(*first));
                (self.nodes.node("Sub", &[&key.value, &first]), key.null)
            }
            Keys::Texts(texts) => {
                let key = self.text(&lookup.key);
                (self.nodes.text_index(&key.value, texts), key.null)
            }
        };
        let (inside, index) = self.checked_index(&index, column.values.len());
        let values = self.nodes.numbers(&column.values);
        let value = self.nodes.node("Gather", &[&values, &index]);
        let outside = self.nodes.node("Not", &[&inside]);
        Lowered { value, null: self.or(null, Some(outside)) }
    }

    /// Whether a number is an index below the count; and the index, or 0 if it is not.
    pub(crate) fn checked_index(&mut self, number: &Tensor, count: usize) -> (Tensor, Tensor) {
        let (zero, count) = (self.nodes.number(0.0), self.nodes.number(count as f64));
        let floor = self.nodes.node("Floor", &[number]);
        let whole = self.nodes.node("Equal", &[&floor, number]);
        let from = self.nodes.node("GreaterOrEqual", &[number, &zero]);
        let until = self.nodes.node("Less", &[number, &count]);
        let range = self.nodes.node("And", &[&from, &until]);
        let inside = self.nodes.node("And", &[&range, &whole]);
        let index = self.nodes.node("Where", &[&inside, number, &zero]);
        (inside, self.nodes.cast(&index, DataType::Int64))
    }
}

const fn never_null(value: Tensor) -> Lowered {
    Lowered { value, null: None }
}

/// The distinct texts in order: the operator accepts no duplicates.
fn sorted(texts: &[String]) -> Vec<String> {
    let texts: std::collections::BTreeSet<&String> = texts.iter().collect();
    texts.into_iter().cloned().collect()
}
