//! Compiles formulas to instructions.
//!
//! A truth value is 0 where it is null, and the rules below rely on that; a number is unspecified where it is null.
//! Operations on constants are folded, and common subexpressions are shared.

use std::collections::{BTreeMap, HashMap};

use super::run::{Side, binary, unary};
use super::{Binary, Dictionary, Instruction, Operand, Operation, Program, Unary};
use crate::bundle::graph::Outline;
use crate::bundle::predict::PredictError;
use crate::formula::{Arithmetic, Case, Column, Domain, Formula, Function, Keys, Lookup, Missing, Schema};

/// A value, and where it is null; `None` if it never is.
#[derive(Clone, Copy)]
pub(super) struct Nullable {
    pub(super) value: Operand,
    pub(super) null: Option<Operand>,
}

/// A program that is being compiled.
pub(super) struct Compiler<'a> {
    pub(super) outline: &'a Outline,
    pub(super) instructions: Vec<Instruction>,
    /// The register of each operation, by its debug text.
    known: BTreeMap<String, usize>,
    pub(super) lists: Vec<Vec<f64>>,
    dictionaries: Vec<Dictionary>,
    /// The first name that the outline does not declare.
    unknown: Option<String>,
}

impl<'a> Compiler<'a> {
    pub(super) fn new(outline: &'a Outline) -> Self {
        let (instructions, lists, dictionaries) = (Vec::new(), Vec::new(), Vec::new());
        Self { outline, instructions, known: BTreeMap::new(), lists, dictionaries, unknown: None }
    }

    pub(super) fn finish(self, fields: Vec<super::FieldType>) -> Result<Program, PredictError> {
        if let Some(unknown) = self.unknown {
            return Err(PredictError::Graph(format!("`{unknown}` is not declared, or is of another type")));
        }
        let (instructions, registers) = assign_registers(self.instructions, self.known.len());
        Ok(Program { instructions, registers, lists: self.lists, dictionaries: self.dictionaries, fields })
    }

    /// The register that holds the result of an operation.
    fn compute(&mut self, operation: Operation) -> Operand {
        let (key, output) = (format!("{operation:?}"), self.known.len());
        if let Some(known) = self.known.get(&key) {
            return Operand::Register(*known);
        }
        self.known.insert(key, output);
        self.instructions.push(Instruction::Compute { output, operation });
        Operand::Register(output)
    }

    pub(super) fn unary(&mut self, of: Unary, operand: Operand) -> Operand {
        match operand {
            Operand::Register(register) => self.compute(Operation::Unary(of, register)),
            Operand::Constant(x) => {
                let mut constant = [0.0];
                unary(of, &[x], &mut constant, &self.lists);
                Operand::Constant(constant[0])
            }
        }
    }

    pub(super) fn binary(&mut self, of: Binary, left: Operand, right: Operand) -> Operand {
        if let (Operand::Constant(x), Operand::Constant(y)) = (left, right) {
            let mut constant = [0.0];
            binary(of, Side::Constant(x), Side::Constant(y), &mut constant);
            return Operand::Constant(constant[0]);
        }
        self.compute(Operation::Binary(of, left, right))
    }

    pub(super) fn select(&mut self, condition: Operand, yes: Operand, no: Operand) -> Operand {
        match condition {
            Operand::Register(condition) => self.compute(Operation::Select { condition, yes, no }),
            Operand::Constant(0.0) => no,
            Operand::Constant(_) => yes,
        }
    }

    fn and(&mut self, left: Operand, right: Operand) -> Operand {
        self.binary(Binary::And, left, right)
    }

    pub(super) fn or(&mut self, left: Option<Operand>, right: Option<Operand>) -> Option<Operand> {
        match (left, right) {
            (Some(left), Some(right)) => Some(self.binary(Binary::Or, left, right)),
            (left, right) => left.or(right),
        }
    }

    fn not(&mut self, of: Operand) -> Operand {
        self.unary(Unary::Not, of)
    }

    /// The index of a list with these values.
    pub(super) fn list(&mut self, values: &[f64]) -> usize {
        let known = self.lists.iter().position(|list| list == values);
        known.unwrap_or_else(|| {
            self.lists.push(values.to_vec());
            self.lists.len() - 1
        })
    }

    /// For each row the number that a dictionary maps a column's text to.
    pub(super) fn text_number(
        &mut self, column: usize, numbers: impl Iterator<Item = (String, f64)>, otherwise: f64,
    ) -> Operand {
        let dictionary = Dictionary { numbers: numbers.collect::<HashMap<_, _>>(), otherwise };
        let known = self.dictionaries.iter().position(|other| *other == dictionary);
        let dictionary = known.unwrap_or_else(|| {
            self.dictionaries.push(dictionary);
            self.dictionaries.len() - 1
        });
        self.compute(Operation::Text { column, dictionary })
    }

    /// Null in every row, for a name that the outline does not declare: the program is then refused.
    pub(super) fn undeclared(&mut self, name: &str) -> Nullable {
        self.unknown.get_or_insert_with(|| name.to_owned());
        NULL
    }

    /// The index of a column of texts, and where it is null.
    pub(super) fn text(&mut self, formula: &Formula) -> Option<(usize, Option<Operand>)> {
        let schema: &Schema = &self.outline.schema;
        let found = match formula {
            Formula::Column(name) => schema.column(name),
            _ => None,
        };
        let Some((index, Column { domain: Domain::Text { .. }, missing, .. })) = found else {
            self.undeclared(&formula.to_string());
            return None;
        };
        let null = *missing == Missing::Possible;
        let null = null.then(|| self.text_number(index, std::iter::once((String::new(), 1.0)), 0.0));
        Some((index, null))
    }

    /// A formula that is not text.
    pub(super) fn formula(&mut self, formula: &Formula) -> Nullable {
        match formula {
            Formula::Column(name) => self.column(name),
            Formula::Number(number) => never_null(Operand::Constant(*number)),
            Formula::Truth(truth) => never_null(Operand::Constant(f64::from(u8::from(*truth)))),
            Formula::Null => NULL,
            Formula::Function(function, of) => {
                let of = self.formula(of);
                let fails = (*function == Function::Sqrt).then(|| self.unary(Unary::IsNegative, of.value));
                let null = self.or(of.null, fails);
                Nullable { value: self.unary(Unary::Function(*function), of.value), null }
            }
            Formula::Arithmetic(operation, left, right) => {
                let (left, right) = (self.formula(left), self.formula(right));
                let fails = *operation == Arithmetic::Power;
                let fails = fails.then(|| self.binary(Binary::IsNullPower, left.value, right.value));
                let null = self.or(left.null, right.null);
                let null = self.or(null, fails);
                Nullable { value: self.binary(Binary::Arithmetic(*operation), left.value, right.value), null }
            }
            Formula::Compare(comparison, left, right) => {
                let (left, right) = (self.formula(left), self.formula(right));
                let null = self.or(left.null, right.null);
                let value = self.binary(Binary::Compare(*comparison), left.value, right.value);
                self.known_truth(value, null)
            }
            Formula::Both(left, right) => self.both(left, right),
            Formula::Either(left, right) => self.either(left, right),
            Formula::Not(of) => {
                let of = self.formula(of);
                let value = self.not(of.value);
                self.known_truth(value, of.null)
            }
            Formula::IsNull(of) => {
                let null = match self.is_text(of) {
                    true => self.text(of).and_then(|(_, null)| null),
                    false => self.formula(of).null,
                };
                never_null(null.unwrap_or(Operand::Constant(0.0)))
            }
            Formula::Finite(of) => {
                let of = self.formula(of);
                let missing = self.unary(Unary::IsNotFinite, of.value);
                Nullable { value: of.value, null: self.or(of.null, Some(missing)) }
            }
            Formula::Coalesce(all) => self.coalesce(all),
            Formula::Case(case) => self.case(case),
            // Truth values are already 1 and 0.
            Formula::AsNumber(of) => self.formula(of),
            Formula::Part(part, of) => {
                let of = self.formula(of);
                Nullable { value: self.unary(Unary::Part(*part), of.value), null: of.null }
            }
            Formula::Among(of, texts) => match self.text(of) {
                None => NULL,
                Some((column, null)) => {
                    let value = self.text_number(column, texts.iter().map(|text| (text.clone(), 1.0)), 0.0);
                    self.known_truth(value, null)
                }
            },
            Formula::Lookup(lookup) => self.look_up(lookup),
        }
    }

    fn is_text(&self, formula: &Formula) -> bool {
        let Formula::Column(name) = formula else {
            return false;
        };
        self.outline.schema.column(name).is_some_and(|(_, column)| matches!(column.domain, Domain::Text { .. }))
    }

    fn column(&mut self, name: &str) -> Nullable {
        let outline = self.outline;
        let Some((index, column)) = outline.schema.column(name) else {
            return self.undeclared(name);
        };
        if matches!(column.domain, Domain::Text { .. }) {
            return self.undeclared(name);
        }
        let value = self.compute(Operation::Load(index));
        match (&column.domain, column.missing) {
            (Domain::Truth | Domain::Whole { .. } | Domain::Hashed, Missing::Never) => never_null(value),
            (Domain::Truth, Missing::Possible) => {
                let (null, truth) = (self.unary(Unary::IsNan, value), self.unary(Unary::IsNotZero, value));
                self.known_truth(truth, Some(null))
            }
            (Domain::Time { .. }, _) => Nullable { value, null: Some(self.unary(Unary::IsNoTime, value)) },
            // A column of numbers can contain NaN whatever was declared; NaN is null.
            _ => Nullable { value, null: Some(self.unary(Unary::IsNan, value)) },
        }
    }

    /// A truth value made 0 where it is null.
    fn known_truth(&mut self, value: Operand, null: Option<Operand>) -> Nullable {
        let Some(null) = null else {
            return never_null(value);
        };
        let known = self.not(null);
        Nullable { value: self.and(value, known), null: Some(null) }
    }

    fn both(&mut self, left: &Formula, right: &Formula) -> Nullable {
        let (left, right) = (self.formula(left), self.formula(right));
        let value = self.and(left.value, right.value);
        // Unknown, unless one side is known to be false.
        let mut null = self.or(left.null, right.null);
        for side in [left, right] {
            let possible = self.or(Some(side.value), side.null);
            null = null.zip(possible).map(|(null, possible)| self.and(null, possible));
        }
        Nullable { value, null }
    }

    fn either(&mut self, left: &Formula, right: &Formula) -> Nullable {
        let (left, right) = (self.formula(left), self.formula(right));
        let value = self.binary(Binary::Or, left.value, right.value);
        // Unknown, unless one side is known to be true.
        let null = self.or(left.null, right.null).map(|null| {
            let open = self.not(value);
            self.and(null, open)
        });
        Nullable { value, null }
    }

    fn coalesce(&mut self, all: &[Formula]) -> Nullable {
        let mut chosen = NULL;
        for part in all.iter().rev() {
            let part = self.formula(part);
            chosen = match part.null {
                None => part,
                Some(null) => self.choose(null, chosen, part),
            };
        }
        chosen
    }

    fn case(&mut self, case: &Case) -> Nullable {
        let mut chosen = case.otherwise.as_deref().map_or(NULL, |otherwise| self.formula(otherwise));
        for (condition, result) in case.branches.iter().rev() {
            let (condition, result) = (self.formula(condition), self.formula(result));
            chosen = self.choose(condition.value, result, chosen);
        }
        chosen
    }

    fn choose(&mut self, condition: Operand, yes: Nullable, no: Nullable) -> Nullable {
        let value = self.select(condition, yes.value, no.value);
        let never = Operand::Constant(0.0);
        let null = match (yes.null, no.null) {
            (None, None) => None,
            (yes, no) => Some(self.select(condition, yes.unwrap_or(never), no.unwrap_or(never))),
        };
        Nullable { value, null }
    }

    fn look_up(&mut self, lookup: &Lookup) -> Nullable {
        let outline = self.outline;
        let Some((table, column)) = outline.schema.table(&lookup.table, &lookup.column) else {
            return self.undeclared(&lookup.table);
        };
        match &table.keys {
            Keys::From { first, .. } => {
                let (key, first) = (self.formula(&lookup.key), Operand::Constant(*first as f64));
                let index = self.binary(Binary::Arithmetic(Arithmetic::Subtract), key.value, first);
                let listed = self.unary(Unary::IsIndex { count: column.values.len() as f64 }, index);
                let (list, unlisted) = (self.list(&column.values), self.not(listed));
                Nullable { value: self.unary(Unary::Element { list }, index), null: self.or(key.null, Some(unlisted)) }
            }
            Keys::Texts(texts) => {
                let Some((index, null)) = self.text(&lookup.key) else {
                    return NULL;
                };
                let values = texts.iter().cloned().zip(column.values.iter().copied());
                let value = self.text_number(index, values, 0.0);
                let unlisted = self.text_number(index, texts.iter().map(|text| (text.clone(), 0.0)), 1.0);
                Nullable { value, null: self.or(null, Some(unlisted)) }
            }
        }
    }
}

/// Null in every row.
const NULL: Nullable = Nullable { value: Operand::Constant(0.0), null: Some(Operand::Constant(1.0)) };

const fn never_null(value: Operand) -> Nullable {
    Nullable { value, null: None }
}

/// Removes instructions whose result is never read, and assigns registers by liveness: two columns share a register if
/// one is last read before the other is computed. Also returns the number of registers.
fn assign_registers(instructions: Vec<Instruction>, columns: usize) -> (Vec<Instruction>, usize) {
    let mut read = vec![false; columns];
    // For each instruction the columns that no later one reads, found from the end.
    let mut kept: Vec<(Instruction, Vec<usize>)> = Vec::with_capacity(instructions.len());
    for mut instruction in instructions.into_iter().rev() {
        if matches!(&instruction, Instruction::Compute { output, .. } if !read[*output]) {
            continue;
        }
        let mut last = Vec::new();
        for column in instruction.reads() {
            if !std::mem::replace(&mut read[*column], true) {
                last.push(*column);
            }
        }
        kept.push((instruction, last));
    }
    let (mut register, mut free, mut registers) = (vec![0; columns], Vec::new(), 0);
    let assign = |(mut instruction, last): (Instruction, Vec<usize>)| {
        instruction.reads().for_each(|column| *column = register[*column]);
        if let Instruction::Compute { output, .. } = &mut instruction {
            // Chosen before the operands are freed: an instruction never writes a register that it reads.
            let chosen = free.pop().unwrap_or_else(|| {
                registers += 1;
                registers - 1
            });
            register[*output] = chosen;
            *output = chosen;
        }
        free.extend(last.into_iter().map(|column| register[column]));
        instruction
    };
    let instructions = kept.into_iter().rev().map(assign).collect();
    (instructions, registers)
}
