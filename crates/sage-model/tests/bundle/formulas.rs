//! The rules of formulas, row by row, and refusals.

use sage_model::bundle::{Activation, Feature, Field, Graph, Layer, Link, Outline, Predictor, Scaled, Shape, Weights};
use sage_model::formula::{
    Arithmetic, Case, Cell, Column, Comparison, Domain, Formula, Function, Missing, Part, Schema,
};

fn schema(domain: Domain, missing: Missing) -> Schema {
    Schema::new(vec![Column { name: "x".to_owned(), domain, missing }], Vec::new()).unwrap()
}

fn numbers() -> Schema {
    schema(Domain::Number { low: -1e9, high: 1e9 }, Missing::Possible)
}

fn x() -> Box<Formula> {
    Box::new(Formula::Column("x".to_owned()))
}

fn constant(number: f64) -> Box<Formula> {
    Box::new(Formula::Number(number))
}

/// A graph whose prediction is the formula's value, and −1 for null.
fn graph_of(schema: Schema, formula: Formula) -> Graph {
    let scaled =
        Scaled { feature: "f".to_owned(), low: -1e30, high: 1e30, shift: 0.0, factor: 1.0, missing: Some(-1.0) };
    let outline = Outline {
        schema,
        features: vec![Feature { name: "f".to_owned(), formula }],
        fields: vec![Field::Number(scaled)],
        layers: vec![Shape { outputs: 1, activation: Activation::Identity }],
        link: Link::Identity,
        classes: Vec::new(),
        steps: Vec::new(),
    };
    let layer = Layer { weights: vec![1.0], bias: vec![0.0] };
    Graph::new(outline, Weights { embeddings: Vec::new(), layers: vec![layer], arrays: Vec::new() }).unwrap()
}

fn check(formula: Formula, rows: &[(Cell, Cell)]) {
    let schema = numbers();
    let shown = formula.to_string();
    for (row, expected) in rows {
        assert_eq!(formula.evaluate(&schema, std::slice::from_ref(row)), *expected, "{shown} of {row:?}");
    }
    let predictor = Predictor::new(&graph_of(schema, formula)).unwrap();
    for (row, expected) in rows {
        let found = predictor.rows(&[vec![row.clone()]]).unwrap()[0];
        let plain = match expected {
            Cell::Number(number) if !number.is_nan() => number.clamp(-1e30, 1e30) as f32,
            Cell::Truth(truth) => f32::from(u8::from(*truth)),
            _ => -1.0,
        };
        assert_eq!(found, plain, "{shown} of {row:?} in the graph");
    }
}

#[test]
fn numbers_follow_the_rules_of_queries() {
    let n = Cell::Number;
    let divide = |by: f64| Formula::Arithmetic(Arithmetic::Divide, x(), constant(by));
    check(divide(2.0), &[(n(7.0), n(3.5)), (Cell::Null, Cell::Null)]);
    check(divide(0.0), &[(n(1.0), n(f64::INFINITY)), (n(-1.0), n(f64::NEG_INFINITY))]);
    let function = |function| Formula::Function(function, x());
    check(function(Function::Sqrt), &[(n(9.0), n(3.0)), (n(-1.0), Cell::Null), (n(-0.0), n(-0.0))]);
    check(function(Function::Round), &[(n(2.5), n(3.0)), (n(-2.5), n(-3.0)), (n(0.499_999_999_999_999_94), n(0.0))]);
    check(function(Function::Truncate), &[(n(2.9), n(2.0)), (n(-2.9), n(-2.0))]);
    check(function(Function::Sign), &[(n(5.0), n(1.0)), (n(-5.0), n(-1.0)), (n(0.0), n(0.0))]);
    let power = Formula::Arithmetic(Arithmetic::Power, x(), constant(-1.0));
    check(power, &[(n(0.0), Cell::Null), (n(-0.0), Cell::Null), (n(4.0), n(0.25))]);
    let remainder = Formula::Arithmetic(Arithmetic::Remainder, x(), constant(3.0));
    check(remainder, &[(n(7.0), n(1.0)), (n(-7.0), n(-1.0)), (n(2.0), n(2.0))]);
}

/// A quotient taken as a product with the reciprocal is 0.99… for 49 / 49, and its floor is wrong.
#[test]
fn a_floor_of_a_quotient_is_exact() {
    let quotient = |by: f64| Box::new(Formula::Arithmetic(Arithmetic::Divide, x(), constant(by)));
    for by in [3.0, 7.0, 10.0, 49.0, 98.0, 103.0, 0.1] {
        let formula = Formula::Function(Function::Floor, quotient(by));
        let rows: Vec<(Cell, Cell)> = (0..60)
            .map(|times| f64::from(times) * by)
            .map(|number| (Cell::Number(number), Cell::Number((number / by).floor())))
            .collect();
        check(formula, &rows);
    }
}

#[test]
fn null_is_not_nan() {
    let n = Cell::Number;
    let t = Cell::Truth;
    // 0 / 0 is NaN but not null.
    let nan = || Box::new(Formula::Arithmetic(Arithmetic::Divide, constant(0.0), constant(0.0)));
    let sum = || Box::new(Formula::Arithmetic(Arithmetic::Add, x(), nan()));
    check(Formula::IsNull(sum()), &[(n(1.0), t(false)), (Cell::Null, t(true)), (n(f64::NAN), t(true))]);
    let compare = |comparison| Formula::Compare(comparison, x(), sum());
    check(compare(Comparison::Less), &[(n(1.0), t(true)), (Cell::Null, Cell::Null), (n(f64::INFINITY), t(true))]);
    check(compare(Comparison::Equal), &[(n(1.0), t(false))]);
    check(Formula::Compare(Comparison::Equal, sum(), nan()), &[(n(1.0), t(true)), (Cell::Null, Cell::Null)]);
    check(Formula::Compare(Comparison::Equal, x(), constant(0.0)), &[(n(-0.0), t(true))]);
    let or = Formula::Coalesce(vec![*x(), Formula::Number(7.0)]);
    check(or, &[(n(1.0), n(1.0)), (Cell::Null, n(7.0))]);
    let unknown = || Box::new(Formula::Compare(Comparison::Less, x(), constant(0.0)));
    check(Formula::Both(unknown(), Box::new(Formula::Truth(false))), &[(Cell::Null, t(false))]);
    check(Formula::Either(unknown(), Box::new(Formula::Truth(true))), &[(Cell::Null, t(true))]);
    check(Formula::Not(unknown()), &[(Cell::Null, Cell::Null), (n(1.0), t(true))]);
    let case = Case { branches: vec![(*unknown(), Formula::Number(1.0))], otherwise: Some(constant(2.0)) };
    check(Formula::Case(case), &[(Cell::Null, n(2.0)), (n(-1.0), n(1.0))]);
}

#[test]
fn invalid_formulas_are_refused_by_name() {
    let numbers = numbers();
    let times = schema(Domain::Time { first: 0, last: 1 }, Missing::Never);
    let deep = (0..70).fold(*x(), |inner, _| Formula::Function(Function::Abs, Box::new(inner)));
    let wide = Formula::Coalesce(vec![*x(); 3_000]);
    for (schema, formula, part) in [
        (&numbers, Formula::Column("y".to_owned()), "y"),
        (&numbers, Formula::Not(x()), "x"),
        (&numbers, Formula::Part(Part::Hour, x()), "x"),
        (&numbers, Formula::Among(x(), vec!["a".to_owned()]), "x"),
        (&numbers, Formula::Number(f64::NAN), "NaN"),
        (&numbers, deep, "formula"),
        (&numbers, wide, "formula"),
        (&numbers, Formula::Coalesce(Vec::new()), "coalesce()"),
        (&times, Formula::Arithmetic(Arithmetic::Subtract, x(), x()), "x"),
    ] {
        assert_eq!(formula.check(schema).unwrap_err().part, part);
    }
}

#[test]
fn the_deepest_formula_that_is_written_is_read_back() {
    let nested = |inner: Formula| {
        Formula::Case(Case {
            branches: vec![(Formula::Truth(true), Formula::Function(Function::Abs, Box::new(inner)))],
            otherwise: None,
        })
    };
    let deep = (0..19).fold(*x(), |inner, _| nested(inner));
    let bundle = sage_model::bundle::Bundle::write(graph_of(numbers(), deep), &crate::files::card(), b"{}").unwrap();
    let read = sage_model::bundle::Bundle::read(crate::files::files(&bundle)).unwrap();
    assert_eq!(read, bundle);
}

/// A graph with a single column.
pub fn single_column() -> Graph {
    graph_of(numbers(), Formula::Function(Function::Floor, x()))
}
