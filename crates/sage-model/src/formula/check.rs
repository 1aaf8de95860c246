//! Type checking of a formula over a schema.

use std::fmt;

use super::schema::{Domain, Keys, Schema};
use super::tree::{Case, Formula, Kind, Lookup};

/// The deepest nesting of a formula, where a CASE counts twice: serde_json reads at most 128 levels.
const DEEPEST: usize = 60;
/// The most nodes of a formula.
const HEAVIEST: usize = 2_000;
/// The most texts of a list.
const LONGEST_LIST: usize = 10_000;

/// Why a formula is refused: the part that is wrong, and what is wrong with it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FormulaRefusal {
    /// The part.
    pub part: String,
    /// The reason.
    pub why: &'static str,
}

impl fmt::Display for FormulaRefusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`{}`: {}", self.part, self.why)
    }
}

impl std::error::Error for FormulaRefusal {}

impl Formula {
    /// The kind of its values, if it is valid over these columns and tables.
    pub fn check(&self, schema: &Schema) -> Result<Kind, FormulaRefusal> {
        let mut nodes = 0;
        if !fits(self, 1, &mut nodes) {
            let why = "it has more than 2000 nodes, or is nested more than 60 deep";
            return Err(FormulaRefusal { part: "formula".to_owned(), why });
        }
        self.kind(schema)
    }

    fn kind(&self, schema: &Schema) -> Result<Kind, FormulaRefusal> {
        match self {
            Self::Column(name) => match schema.column(name) {
                Some((_, column)) => Ok(match column.domain {
                    Domain::Number { .. } | Domain::Whole { .. } | Domain::Hashed => Kind::Number,
                    Domain::Truth => Kind::Truth,
                    Domain::Time { .. } => Kind::Time,
                    Domain::Text { .. } => Kind::Text,
                }),
                None => self.refused("there is no such column"),
            },
            Self::Number(number) if !number.is_finite() => self.refused("a constant must be finite"),
            Self::Number(_) | Self::Null => Ok(Kind::Number),
            Self::Truth(_) => Ok(Kind::Truth),
            Self::Function(_, of) => of.require_kind(schema, Kind::Number).map(|()| Kind::Number),
            Self::Arithmetic(_, left, right) => {
                left.require_kind(schema, Kind::Number)?;
                right.require_kind(schema, Kind::Number).map(|()| Kind::Number)
            }
            Self::Compare(_, left, right) => {
                left.require_kind(schema, Kind::Number)?;
                right.require_kind(schema, Kind::Number).map(|()| Kind::Truth)
            }
            Self::Both(left, right) | Self::Either(left, right) => {
                left.require_kind(schema, Kind::Truth)?;
                right.require_kind(schema, Kind::Truth).map(|()| Kind::Truth)
            }
            Self::Not(of) => of.require_kind(schema, Kind::Truth).map(|()| Kind::Truth),
            Self::IsNull(of) => of.kind(schema).map(|_| Kind::Truth),
            Self::Finite(of) => of.require_kind(schema, Kind::Number).map(|()| Kind::Number),
            Self::Coalesce(all) => self.one_kind(schema, all.iter()),
            Self::Case(case) => self.check_case(schema, case),
            Self::AsNumber(of) => of.require_kind(schema, Kind::Truth).map(|()| Kind::Number),
            Self::Part(_, of) => of.require_kind(schema, Kind::Time).map(|()| Kind::Number),
            Self::Among(of, texts) => {
                if texts.is_empty() || texts.len() > LONGEST_LIST {
                    return self.refused("a list has 1 to 10000 texts");
                }
                of.require_kind(schema, Kind::Text).map(|()| Kind::Truth)
            }
            Self::Lookup(lookup) => self.check_lookup(schema, lookup),
        }
    }

    fn check_case(&self, schema: &Schema, case: &Case) -> Result<Kind, FormulaRefusal> {
        for (condition, _) in &case.branches {
            condition.require_kind(schema, Kind::Truth)?;
        }
        if case.branches.is_empty() {
            return self.refused("a CASE has at least one condition");
        }
        let results = case.branches.iter().map(|(_, result)| result);
        self.one_kind(schema, results.chain(case.otherwise.as_deref()))
    }

    fn check_lookup(&self, schema: &Schema, lookup: &Lookup) -> Result<Kind, FormulaRefusal> {
        let Some((table, _)) = schema.table(&lookup.table, &lookup.column) else {
            return self.refused("there is no such table or column of it");
        };
        let key_kind = if matches!(table.keys, Keys::Texts(_)) { Kind::Text } else { Kind::Number };
        lookup.key.require_kind(schema, key_kind).map(|()| Kind::Number)
    }

    /// The one kind that all of them have: numbers or truth values.
    fn one_kind<'a>(&self, schema: &Schema, mut all: impl Iterator<Item = &'a Self>) -> Result<Kind, FormulaRefusal> {
        let Some(first) = all.next() else {
            return self.refused("it has no alternatives");
        };
        let kind = first.kind(schema)?;
        if !matches!(kind, Kind::Number | Kind::Truth) {
            return first.refused("only numbers and truth values can be chosen among");
        }
        all.try_for_each(|other| other.require_kind(schema, kind)).map(|()| kind)
    }

    /// Checks that the formula has the required kind.
    fn require_kind(&self, schema: &Schema, required: Kind) -> Result<(), FormulaRefusal> {
        if self.kind(schema)? == required {
            return Ok(());
        }
        self.refused(match required {
            Kind::Number => "a number is required here",
            Kind::Truth => "a truth value is required here",
            Kind::Text => "a text column is required here",
            Kind::Time => "a time column is required here",
        })
    }

    fn refused<T>(&self, why: &'static str) -> Result<T, FormulaRefusal> {
        Err(FormulaRefusal { part: self.to_string(), why })
    }
}

fn fits(formula: &Formula, depth: usize, nodes: &mut usize) -> bool {
    *nodes += 1;
    let below = depth + if matches!(formula, Formula::Case(_)) { 2 } else { 1 };
    depth <= DEEPEST && *nodes <= HEAVIEST && formula.parts().into_iter().all(|part| fits(part, below, nodes))
}
