//! The generator of random expressions reaches everything that an expression can be.
//!
//! The lists come from exhaustive matches on the syntax and from the planner's own list of functions: a new construct
//! or function fails here until the generator writes it, and so every random test has it.

use std::collections::BTreeSet;

use sage_sql::synthetic::{self, Dice};
use sage_sql::{BinaryOperator, Case, Expr, IsTest, Schema, TypeName, UnaryOperator, parse, plan};

macro_rules! kinds {
    ($name:ident, $list:ident, $type:ty { $($pattern:pat => $word:literal,)* }) => {
        fn $name(of: &$type) -> &'static str {
            match of {
                $($pattern => $word,)*
            }
        }

        const $list: &[&str] = &[$($word),*];
    };
}

kinds!(expression, EXPRESSIONS, Expr {
    Expr::Column(_) => "a column",
    Expr::Qualified(_) => "refused: a qualified name",
    Expr::Number(_) => "a number",
    Expr::Text(_) => "a text",
    Expr::Boolean(true) => "TRUE",
    Expr::Boolean(false) => "FALSE",
    Expr::Null => "NULL",
    Expr::Typed(..) => "a typed literal",
    Expr::Unary(..) => "a prefix operator",
    Expr::Binary(..) => "an operator",
    Expr::All(_) => "AND",
    Expr::Any(_) => "OR",
    Expr::Is(..) => "IS",
    Expr::Between { negated: true, .. } => "NOT BETWEEN",
    Expr::Between { negated: false, .. } => "BETWEEN",
    Expr::InList { negated: true, .. } => "NOT IN",
    Expr::InList { negated: false, .. } => "IN",
    Expr::Like { negated: true, case_insensitive: true, .. } => "NOT ILIKE",
    Expr::Like { negated: true, case_insensitive: false, .. } => "NOT LIKE",
    Expr::Like { negated: false, case_insensitive: true, .. } => "ILIKE",
    Expr::Like { negated: false, case_insensitive: false, .. } => "LIKE",
    Expr::Case(Case { operand: Some(_), .. }) => "CASE of an operand",
    Expr::Case(Case { operand: None, .. }) => "CASE of conditions",
    Expr::Cast(..) => "CAST",
    Expr::Call(..) => "a function",
    Expr::Aggregate(_) => "refused: an aggregate",
});

kinds!(prefix, PREFIXES, UnaryOperator {
    UnaryOperator::Not => "NOT",
    UnaryOperator::Minus => "prefix -",
    UnaryOperator::Plus => "prefix +",
});

kinds!(operator, OPERATORS, BinaryOperator {
    BinaryOperator::Add => "+",
    BinaryOperator::Subtract => "-",
    BinaryOperator::Multiply => "*",
    BinaryOperator::Divide => "/",
    BinaryOperator::Remainder => "%",
    BinaryOperator::Concatenate => "||",
    BinaryOperator::Equal => "=",
    BinaryOperator::NotEqual => "<>",
    BinaryOperator::Less => "<",
    BinaryOperator::LessOrEqual => "<=",
    BinaryOperator::Greater => ">",
    BinaryOperator::GreaterOrEqual => ">=",
    BinaryOperator::Distinct => "IS DISTINCT FROM",
    BinaryOperator::NotDistinct => "IS NOT DISTINCT FROM",
});

kinds!(is_test, IS_TESTS, IsTest {
    IsTest::Null => "IS NULL",
    IsTest::NotNull => "IS NOT NULL",
    IsTest::True => "IS TRUE",
    IsTest::NotTrue => "IS NOT TRUE",
    IsTest::False => "IS FALSE",
    IsTest::NotFalse => "IS NOT FALSE",
});

kinds!(type_name, TYPE_NAMES, TypeName {
    TypeName::Boolean => "AS BOOLEAN",
    TypeName::TinyInt => "AS TINYINT",
    TypeName::SmallInt => "AS SMALLINT",
    TypeName::Int => "AS INT",
    TypeName::BigInt => "AS BIGINT",
    TypeName::Real => "AS REAL",
    TypeName::Double => "AS DOUBLE",
    TypeName::Text => "AS VARCHAR",
    TypeName::Date => "AS DATE",
    TypeName::Timestamp => "AS TIMESTAMP",
});

/// The kinds of an expression and of everything in it.
fn collect(of: &Expr, found: &mut BTreeSet<String>) {
    let mut parts: Vec<&Expr> = Vec::new();
    found.insert(expression(of).to_owned());
    match of {
        Expr::Column(_) | Expr::Qualified(_) | Expr::Number(_) | Expr::Text(_) | Expr::Boolean(_) | Expr::Null => {}
        Expr::Typed(..) | Expr::Aggregate(_) => {}
        Expr::Unary(kind, part) => {
            found.insert(prefix(kind).to_owned());
            parts.push(part);
        }
        Expr::Binary(kind, left, right) => {
            found.insert(operator(kind).to_owned());
            parts.extend([&**left, &**right]);
        }
        Expr::All(all) | Expr::Any(all) => parts.extend(all),
        Expr::Is(kind, part) => {
            found.insert(is_test(kind).to_owned());
            parts.push(part);
        }
        Expr::Between { of, low, high, .. } => parts.extend([&**of, &**low, &**high]),
        Expr::InList { of, list, .. } => parts.extend(list.iter().chain([&**of])),
        Expr::Like { of, pattern, .. } => parts.extend([&**of, &**pattern]),
        Expr::Case(case) => {
            parts.extend(case.branches.iter().flat_map(|(condition, result)| [condition, result]));
            parts.extend(case.operand.as_deref().into_iter().chain(case.otherwise.as_deref()));
        }
        Expr::Cast(part, kind) => {
            found.insert(type_name(kind).to_owned());
            parts.push(part);
        }
        Expr::Call(name, arguments) => {
            found.insert(format!("{name}()"));
            parts.extend(arguments);
        }
    }
    parts.into_iter().for_each(|part| collect(part, found));
}

#[test]
fn every_kind_of_expression_is_generated_and_planned() {
    let schema = Schema::new(&synthetic::schema());
    let mut found = BTreeSet::new();
    for number in 0..5_000 {
        let mut dice = Dice(number);
        for generate in [synthetic::condition, synthetic::number, synthetic::text, synthetic::time] {
            let parsed = parse(&generate(&mut dice, 3)).expect("an expression");
            if plan(&parsed, &schema).is_ok() {
                collect(&parsed, &mut found);
            }
        }
    }
    let lists = [EXPRESSIONS, PREFIXES, OPERATORS, IS_TESTS, TYPE_NAMES];
    let kinds =
        lists.into_iter().flatten().filter(|kind| !kind.starts_with("refused: ")).map(|kind| (*kind).to_owned());
    // The parser writes `btrim` for TRIM and `substr` for SUBSTRING.
    let functions = synthetic::functions().filter(|name| !["trim", "substring"].contains(name));
    let all: BTreeSet<String> = kinds.chain(functions.map(|name| format!("{name}()"))).collect();
    let missing: Vec<&String> = all.difference(&found).collect();
    assert!(missing.is_empty(), "the generator never writes {missing:?}");
    let unlisted: Vec<&String> = found.difference(&all).collect();
    assert!(unlisted.is_empty(), "the planner's list of functions lacks {unlisted:?}");
}
