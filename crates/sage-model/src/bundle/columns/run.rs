//! Executes a program: one loop for each instruction and block of rows.

use super::{Binary, FieldColumn, FieldType, Instruction, Operand, Operation, Program, Unary};
use crate::bundle::predict::Cells;
use crate::formula::{Arithmetic, Comparison, Function, Part, apply, combine, compare, is_time, part_of_time};
use sage_learn::encode::hash_with;

/// Rows of a block, and the most numbers in all registers together: programs with very many registers use smaller
/// blocks.
const ROWS: usize = 512;
const FEWEST_ROWS: usize = 16;
const NUMBERS: usize = 1 << 22;

/// Up to this many edges are compared one by one, in loops without branches; more are searched.
const FEW_EDGES: usize = 32;

impl Program {
    /// The fields of `count` rows. The batch has a cell of the right type for each column and row.
    pub(in crate::bundle) fn run(&self, batch: &[Cells], count: usize) -> Vec<FieldColumn> {
        let rows = (NUMBERS / self.registers.max(1)).clamp(FEWEST_ROWS, ROWS).min(count).max(1);
        let mut registers = vec![vec![0.0; rows]; self.registers];
        let mut fields: Vec<FieldColumn> = self.fields.iter().map(|of| of.with_capacity(count)).collect();
        for first in (0..count).step_by(rows) {
            let rows = rows.min(count - first);
            for instruction in &self.instructions {
                match instruction {
                    Instruction::Compute { output, operation } => {
                        let mut column = std::mem::take(&mut registers[*output]);
                        self.compute(operation, &registers, batch, first, &mut column[..rows]);
                        registers[*output] = column;
                    }
                    Instruction::Emit { field, from } => fields[*field].extend(from.side_of(&registers, rows), rows),
                }
            }
        }
        fields
    }

    fn compute(&self, operation: &Operation, registers: &[Vec<f64>], batch: &[Cells], first: usize, out: &mut [f64]) {
        let rows = out.len();
        let side = |operand: &Operand| operand.side_of(registers, rows);
        match operation {
            Operation::Load(column) => load(&batch[*column], first, out),
            Operation::Text { column, dictionary } => {
                let dictionary = &self.dictionaries[*dictionary];
                if let Cells::Texts(texts) = &batch[*column] {
                    let number = |text: &String| dictionary.numbers.get(text).copied();
                    let numbers = texts[first..].iter().map(|text| number(text).unwrap_or(dictionary.otherwise));
                    out.iter_mut().zip(numbers).for_each(|(out, number)| *out = number);
                }
            }
            Operation::Unary(of, register) => unary(*of, &registers[*register][..rows], out, &self.lists),
            Operation::Binary(of, left, right) => binary(*of, side(left), side(right), out),
            Operation::Select { condition, yes, no } => {
                select(&registers[*condition][..rows], side(yes), side(no), out);
            }
        }
    }
}

impl FieldType {
    fn with_capacity(self, count: usize) -> FieldColumn {
        match self {
            Self::Number => FieldColumn::Numbers(Vec::with_capacity(count)),
            Self::Index => FieldColumn::Indices(Vec::with_capacity(count)),
        }
    }
}

impl FieldColumn {
    fn extend(&mut self, side: Side<'_>, rows: usize) {
        match (self, side) {
            (Self::Numbers(numbers), Side::Column(more)) => numbers.extend(more.iter().map(|number| *number as f32)),
            (Self::Numbers(numbers), Side::Constant(number)) => {
                numbers.extend(std::iter::repeat_n(number as f32, rows));
            }
            (Self::Indices(indices), Side::Column(more)) => indices.extend_from_slice(more),
            (Self::Indices(indices), Side::Constant(index)) => indices.extend(std::iter::repeat_n(index, rows)),
        }
    }
}

/// An operand of some rows.
#[derive(Clone, Copy)]
pub(super) enum Side<'block> {
    Column(&'block [f64]),
    Constant(f64),
}

impl Operand {
    fn side_of(self, registers: &[Vec<f64>], rows: usize) -> Side<'_> {
        match self {
            Self::Register(register) => Side::Column(&registers[register][..rows]),
            Self::Constant(number) => Side::Constant(number),
        }
    }
}

fn load(cells: &Cells, first: usize, out: &mut [f64]) {
    match cells {
        Cells::Numbers(numbers) => out.copy_from_slice(&numbers[first..][..out.len()]),
        Cells::Wholes(wholes) => out.iter_mut().zip(&wholes[first..]).for_each(|(out, whole)| *out = *whole as f64),
        Cells::Truths(truths) => out.iter_mut().zip(&truths[first..]).for_each(|(out, is)| *out = truth(*is)),
        Cells::Texts(_) => out.fill(f64::NAN),
    }
}

fn truth(truth: bool) -> f64 {
    f64::from(u8::from(truth))
}

fn map(xs: &[f64], out: &mut [f64], of: impl Fn(f64) -> f64) {
    out.iter_mut().zip(xs).for_each(|(out, x)| *out = of(*x));
}

fn zip(left: Side<'_>, right: Side<'_>, out: &mut [f64], of: impl Fn(f64, f64) -> f64) {
    match (left, right) {
        (Side::Column(xs), Side::Column(ys)) => {
            out.iter_mut().zip(xs).zip(ys).for_each(|((out, x), y)| *out = of(*x, *y));
        }
        (Side::Column(xs), Side::Constant(y)) => map(xs, out, |x| of(x, y)),
        (Side::Constant(x), Side::Column(ys)) => map(ys, out, |y| of(x, y)),
        (Side::Constant(x), Side::Constant(y)) => out.fill(of(x, y)),
    }
}

fn select(conditions: &[f64], yes: Side<'_>, no: Side<'_>, out: &mut [f64]) {
    let conditions_side = Side::Column(conditions);
    match (yes, no) {
        (Side::Column(yes), Side::Column(no)) => {
            let sides = conditions.iter().zip(yes).zip(no);
            out.iter_mut().zip(sides).for_each(|(out, ((is, yes), no))| *out = if *is == 0.0 { *no } else { *yes });
        }
        (Side::Constant(yes), no) => zip(conditions_side, no, out, |is, no| if is == 0.0 { no } else { yes }),
        (yes, Side::Constant(no)) => zip(conditions_side, yes, out, |is, yes| if is == 0.0 { no } else { yes }),
    }
}

pub(super) fn binary(of: Binary, left: Side<'_>, right: Side<'_>, out: &mut [f64]) {
    // One loop for each rule, so that the rule is a constant in the loop.
    macro_rules! rules {
        ($of:expr, $rule:ident, $kind:ident: $($name:ident),*) => {
            match $of { $($kind::$name => zip(left, right, out, |x, y| $rule($kind::$name, x, y)),)* }
        };
    }
    let compare = |comparison, x, y| truth(compare(comparison, x, y));
    match of {
        Binary::Arithmetic(operation) => {
            rules!(operation, combine, Arithmetic: Add, Subtract, Multiply, Divide, Remainder, Power);
        }
        Binary::Compare(comparison) => {
            rules!(comparison, compare, Comparison: Equal, Different, Less, AtMost, Greater, AtLeast);
        }
        Binary::And => zip(left, right, out, |x, y| x * y),
        Binary::Or => zip(left, right, out, |x, y| truth(x + y != 0.0)),
        Binary::IsNullPower => zip(left, right, out, |x, y| truth(x == 0.0 && y < 0.0)),
    }
}

pub(super) fn unary(of: Unary, xs: &[f64], out: &mut [f64], lists: &[Vec<f64>]) {
    match of {
        Unary::Function(function) => match function {
            Function::Negate => map(xs, out, |x| -x),
            Function::Abs => map(xs, out, f64::abs),
            Function::Sqrt => map(xs, out, f64::sqrt),
            other => map(xs, out, |x| apply(other, x)),
        },
        Unary::Part(part) => part_of_times(part, xs, out),
        Unary::Not => map(xs, out, |x| 1.0 - x),
        Unary::IsNan => map(xs, out, |x| truth(x.is_nan())),
        Unary::IsNegative => map(xs, out, |x| truth(x < 0.0)),
        Unary::IsNotZero => map(xs, out, |x| truth(x != 0.0)),
        Unary::IsNotFinite => map(xs, out, |x| truth(!x.is_finite())),
        Unary::IsNoTime => map(xs, out, |x| truth(!is_time(x))),
        Unary::IsIndex { count } => map(xs, out, |x| truth(is_index(x, count))),
        Unary::Element { list } => {
            let (list, count) = (&lists[list], lists[list].len() as f64);
            map(xs, out, |x| if is_index(x, count) { list[x as usize] } else { 0.0 });
        }
        Unary::Scale { low, high, shift, factor } => map(xs, out, |x| {
            let clipped = if x > high { high } else { x };
            let clipped = if x < low { low } else { clipped };
            (clipped - shift) * factor
        }),
        Unary::Index { first, count, otherwise } => {
            map(xs, out, |x| if is_index(x - first, count) { x - first } else { otherwise });
        }
        Unary::Bucket { edges, otherwise } => bucket(&lists[edges], otherwise, xs, out),
        Unary::Hash { key, count, otherwise } => {
            map(xs, out, |x| hash_with(x, key, count).map_or(otherwise, f64::from));
        }
    }
}

/// Whether a number is a whole one from 0 to below the count, which is at most 2³².
fn is_index(x: f64, count: f64) -> bool {
    x >= 0.0 && x < count && x as i64 as f64 == x
}

fn bucket(edges: &[f64], otherwise: f64, xs: &[f64], out: &mut [f64]) {
    if edges.len() <= FEW_EDGES {
        out.fill(0.0);
        for edge in edges {
            out.iter_mut().zip(xs).for_each(|(out, x)| *out += truth(x >= edge));
        }
    } else {
        map(xs, out, |x| edges.partition_point(|edge| x >= *edge) as f64);
    }
    out.iter_mut().zip(xs).for_each(|(out, x)| *out = if x.is_nan() { otherwise } else { *out });
}

/// One loop for each part, so that the compiler removes the computations that only other parts need.
fn part_of_times(part: Part, xs: &[f64], out: &mut [f64]) {
    let of = |part, x| part_of_time(part, x).unwrap_or(0.0);
    match part {
        Part::Epoch => map(xs, out, |x| of(Part::Epoch, x)),
        Part::Year => map(xs, out, |x| of(Part::Year, x)),
        Part::Quarter => map(xs, out, |x| of(Part::Quarter, x)),
        Part::Month => map(xs, out, |x| of(Part::Month, x)),
        Part::Day => map(xs, out, |x| of(Part::Day, x)),
        Part::DayOfWeek => map(xs, out, |x| of(Part::DayOfWeek, x)),
        Part::Hour => map(xs, out, |x| of(Part::Hour, x)),
        Part::Minute => map(xs, out, |x| of(Part::Minute, x)),
        Part::Second => map(xs, out, |x| of(Part::Second, x)),
    }
}
