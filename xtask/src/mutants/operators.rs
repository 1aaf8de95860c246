//! The mutation operators: what replaces an operator, a literal and the result of a function.

use syn::{BinOp, Expr, GenericArgument, PathArguments, ReturnType, Type};

/// The replacements of a binary operator or an assignment operator; none for the short-circuiting ones.
pub(super) fn binary(operator: &BinOp) -> &'static [&'static str] {
    match operator {
        BinOp::Add(_) => &["-", "*"],
        BinOp::Sub(_) => &["+", "/"],
        BinOp::Mul(_) => &["+", "/"],
        BinOp::Div(_) => &["%", "*"],
        BinOp::Rem(_) => &["/", "+"],
        BinOp::Shl(_) => &[">>"],
        BinOp::Shr(_) => &["<<"],
        BinOp::BitAnd(_) => &["|", "^"],
        BinOp::BitOr(_) => &["&", "^"],
        BinOp::BitXor(_) => &["|", "&"],
        BinOp::Eq(_) => &["!="],
        BinOp::Ne(_) => &["=="],
        BinOp::Lt(_) => &["<=", ">="],
        BinOp::Le(_) => &["<", ">"],
        BinOp::Gt(_) => &[">=", "<="],
        BinOp::Ge(_) => &[">", "<"],
        BinOp::AddAssign(_) => &["-=", "*="],
        BinOp::SubAssign(_) => &["+=", "/="],
        BinOp::MulAssign(_) => &["+=", "/="],
        BinOp::DivAssign(_) => &["%=", "*="],
        BinOp::RemAssign(_) => &["/=", "+="],
        BinOp::ShlAssign(_) => &[">>="],
        BinOp::ShrAssign(_) => &["<<="],
        BinOp::BitAndAssign(_) => &["|=", "^="],
        BinOp::BitOrAssign(_) => &["&=", "^="],
        BinOp::BitXorAssign(_) => &["|=", "&="],
        _ => &[],
    }
}

/// How the operands of a binary operator are used.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Operands {
    /// By reference: a comparison.
    Compared,
    /// By value: arithmetic.
    Consumed,
    /// The left side is assigned to.
    Assigned,
    /// The right side is evaluated only if needed: `&&` and `||`.
    ShortCircuit,
}

pub(super) fn operands(operator: &BinOp) -> Operands {
    match operator {
        BinOp::And(_) | BinOp::Or(_) => Operands::ShortCircuit,
        BinOp::Eq(_) | BinOp::Ne(_) | BinOp::Lt(_) | BinOp::Le(_) | BinOp::Gt(_) | BinOp::Ge(_) => Operands::Compared,
        BinOp::Add(_)
        | BinOp::Sub(_)
        | BinOp::Mul(_)
        | BinOp::Div(_)
        | BinOp::Rem(_)
        | BinOp::Shl(_)
        | BinOp::Shr(_)
        | BinOp::BitAnd(_)
        | BinOp::BitOr(_)
        | BinOp::BitXor(_) => Operands::Consumed,
        _ => Operands::Assigned,
    }
}

/// Whether an expression is a plain condition: a call, a name or a macro, whose value is negated as a mutant.
/// Comparisons and `!` have mutants of their own.
pub(super) fn is_plain_condition(expression: &Expr) -> bool {
    matches!(
        expression,
        Expr::MethodCall(_) | Expr::Call(_) | Expr::Path(_) | Expr::Field(_) | Expr::Macro(_) | Expr::Index(_)
    )
}

/// Whether a condition is a chain with `let`, which has no value of its own.
pub(super) fn has_let(expression: &Expr) -> bool {
    match expression {
        Expr::Let(_) => true,
        Expr::Binary(binary) => has_let(&binary.left) || has_let(&binary.right),
        _ => false,
    }
}

/// The neighbours of a literal: one more and one less of an integer, twice a float.
pub(super) fn literals(literal: &syn::Lit) -> Vec<String> {
    match literal {
        syn::Lit::Int(number) => {
            let Ok(value) = number.base10_parse::<u128>() else { return Vec::new() };
            let less = value.checked_sub(1);
            [value.checked_add(1), less]
                .into_iter()
                .flatten()
                .map(|near| format!("{near}{}", number.suffix()))
                .collect()
        }
        syn::Lit::Float(number) => {
            let Ok(value) = number.base10_parse::<f64>() else { return Vec::new() };
            let other = if value == 0.0 { 1.0 } else { value * 2.0 };
            vec![format!("{other:?}{}", number.suffix())]
        }
        _ => Vec::new(),
    }
}

/// The type of a numeric constant, if it is one whose neighbours are mutants.
pub(super) fn numeric(kind: &Type) -> Option<&'static str> {
    const NAMES: [&str; 13] =
        ["u8", "u16", "u32", "u64", "u128", "usize", "i8", "i16", "i32", "i64", "i128", "isize", "f64"];
    let Type::Path(path) = kind else { return None };
    NAMES.into_iter().find(|name| path.path.is_ident(name))
}

/// The constant results that replace a function's own.
pub(super) fn results(result: &ReturnType) -> Vec<String> {
    match result {
        ReturnType::Default => vec!["()".to_owned()],
        ReturnType::Type(_, kind) => values(kind),
    }
}

fn values(kind: &Type) -> Vec<String> {
    let leak = |inner: &Type| values(inner).into_iter().map(|value| format!("Box::leak(Box::new({value}))")).collect();
    match kind {
        Type::Path(path) => path.path.segments.last().map_or_else(Vec::new, of_path),
        Type::Tuple(tuple) => of_tuple(&tuple.elems.iter().map(values).collect::<Vec<_>>()),
        Type::Array(_) => vec!["Default::default()".to_owned()],
        Type::Paren(inner) => values(&inner.elem),
        Type::Reference(reference) => match &*reference.elem {
            Type::Path(path) if path.path.is_ident("str") => vec!["\"\"".to_owned(), "\"xyzzy\"".to_owned()],
            Type::Slice(slice) => {
                let filled = values(&slice.elem).into_iter().map(|value| format!("Box::leak(Box::new([{value}]))"));
                std::iter::once("Default::default()".to_owned()).chain(filled).collect()
            }
            inner => leak(inner),
        },
        // An opaque type has one concrete type; another value of it cannot be written.
        _ => Vec::new(),
    }
}

fn of_path(segment: &syn::PathSegment) -> Vec<String> {
    let inner: Vec<&Type> = match &segment.arguments {
        PathArguments::AngleBracketed(arguments) => {
            let kinds = arguments.args.iter();
            kinds
                .filter_map(|argument| if let GenericArgument::Type(kind) = argument { Some(kind) } else { None })
                .collect()
        }
        _ => Vec::new(),
    };
    let of_inner = || inner.first().map_or_else(Vec::new, |kind| values(kind));
    let around = |prefix: &str, suffix: &str| -> Vec<String> {
        of_inner().into_iter().map(|value| format!("{prefix}{value}{suffix}")).collect()
    };
    let owned = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    match segment.ident.to_string().as_str() {
        "bool" => owned(&["true", "false"]),
        "u8" | "u16" | "u32" | "u64" | "u128" | "usize" => owned(&["0", "1"]),
        "i8" | "i16" | "i32" | "i64" | "i128" | "isize" => owned(&["0", "1", "-1"]),
        "f32" | "f64" => owned(&["0.0", "1.0", "-1.0"]),
        "String" => owned(&["String::new()", "String::from(\"xyzzy\")"]),
        "Option" => [owned(&["None"]), around("Some(", ")")].concat(),
        "Result" | "Certified" => around("Ok(", ")"),
        "Box" => around("Box::new(", ")"),
        "Vec" => [owned(&["vec![]"]), around("vec![", "]")].concat(),
        _ => owned(&["Default::default()"]),
    }
}

/// All combinations of the parts' first two values.
fn of_tuple(parts: &[Vec<String>]) -> Vec<String> {
    let mut rows: Vec<Vec<String>> = vec![Vec::new()];
    for part in parts {
        rows = rows
            .iter()
            .flat_map(|row| part.iter().take(2).map(|value| [row.as_slice(), std::slice::from_ref(value)].concat()))
            .collect();
    }
    rows.into_iter().take(4).map(|row| format!("({})", row.join(", "))).collect()
}
