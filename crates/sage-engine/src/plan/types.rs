//! Types of a pipeline's expressions, checked against what reads them: the encoder of a feature, the label, a statistic.
//!
//! A value of the wrong type is not an error when rows are read: it counts as missing, for every row. So a model could
//! be charged, trained and tested without ever seeing the feature. Types follow from files alone, so this is found here.

use arrow::datatypes::Schema;
use sage_sql::Kind;

use super::label::{self, LabelValues, label_expression};
use super::{PlanRefusal, Tables};
use crate::pipeline::{Feature, Keys, Label, Pipeline, Source, Statistic, Train};
use crate::read::{Expression, value_kind};
use crate::stream::StreamFile;

/// What an encoder or a statistic reads.
#[derive(Clone, Copy)]
enum Reads {
    Numbers,
    Integers,
    Texts,
}

impl Reads {
    const fn keys(keys: &Keys) -> Self {
        match keys {
            Keys::Count(_) => Self::Integers,
            Keys::Texts(_) => Self::Texts,
        }
    }

    /// Whether some value of this type can be read. A float may be a whole number.
    const fn takes(self, kind: Kind) -> bool {
        match self {
            Self::Numbers | Self::Integers => matches!(kind, Kind::Integer | Kind::Float | Kind::Boolean),
            Self::Texts => matches!(kind, Kind::Text),
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Numbers => "a number",
            Self::Integers => "a whole number",
            Self::Texts => "a text",
        }
    }
}

/// Checks every expression whose value is encoded, predicted or summed.
///
/// # Errors
/// With the feature or the key, its type and what would fit.
pub(super) fn check_types(pipeline: &Pipeline, file: &StreamFile, tables: &dyn Tables) -> Result<(), PlanRefusal> {
    let types = Types { schema: file.row_schema() };
    for (name, feature) in &pipeline.features.0 {
        types.check_feature(name, feature, tables)?;
    }
    match &pipeline.train {
        Train::Statistic(statistic) => types.check_statistic(statistic),
        _ => {
            if let Some(Label::Classes { of, .. }) = &pipeline.label {
                let hint =
                    "name a text by an expression, such as \"case when column = 1 then 'card' else 'other' end\"";
                return types.check_source("label", "the label with classes", of, Reads::Texts, hint);
            }
            let (sql, values) = label_expression(pipeline, file)?;
            let hint = match values {
                LabelValues::Number { .. } => "predict a number",
                LabelValues::Truth | LabelValues::Classes(_) => "compare it, such as { truth = \"column = 'yes'\" }",
            };
            types.check("label", "the label", &sql, Reads::Numbers, hint)
        }
    }
}

struct Types {
    schema: Schema,
}

impl Types {
    fn check(&self, name: &str, reader: &str, sql: &str, reads: Reads, hint: &str) -> Result<(), PlanRefusal> {
        let kind = value_kind(&self.schema, &Expression { name: name.to_owned(), sql: sql.to_owned() });
        let kind = kind.map_err(PlanRefusal::Query)?;
        if kind == Kind::Null {
            return Err(PlanRefusal::part(name, format!("`{sql}` has no value for any row")));
        }
        if reads.takes(kind) {
            return Ok(());
        }
        let (needed, found) = (reads.word(), kind_word(kind));
        Err(PlanRefusal::part(name, format!("{reader} needs {needed}, and `{sql}` is {found}; {hint}")))
    }

    fn check_source(&self, name: &str, key: &str, of: &Source, reads: Reads, hint: &str) -> Result<(), PlanRefusal> {
        self.check(name, key, &label::source(of), reads, hint)
    }

    fn check_feature(&self, name: &str, feature: &Feature, tables: &dyn Tables) -> Result<(), PlanRefusal> {
        const CATEGORIES: &str = "use onehot with the list of its categories";
        const LIST: &str = "onehot takes a list of texts for texts and a number of categories for whole numbers";
        const KEYS: &str = "keys takes a list of texts for texts and a number of keys for whole numbers";
        match feature {
            Feature::Scale { of, .. } => self.check_source(name, "`scale`", of, Reads::Numbers, CATEGORIES),
            Feature::Bucket { of, .. } => self.check_source(name, "`bucket`", of, Reads::Numbers, CATEGORIES),
            Feature::Hash { of, .. } => self.check_source(name, "`hash`", of, Reads::Integers, CATEGORIES),
            Feature::OneHot { of, keys } => {
                self.check_source(name, "`onehot` with these categories", of, Reads::keys(keys), LIST)
            }
            Feature::GroupMean { of, by, keys, .. } => {
                self.check(name, "`group_mean`", of, Reads::Numbers, "average a number")?;
                self.check(name, "`by` with these keys", by, Reads::keys(keys), KEYS)
            }
            Feature::Released(table) => match tables.table(&table.release) {
                Some(found) => {
                    let hint = "join by what the released table is keyed by";
                    self.check(name, "`by`", &table.by, Reads::keys(&found.keys), hint)
                }
                None => Ok(()),
            },
            // Its parts are features, and are checked as such.
            Feature::Cross { .. } => Ok(()),
        }
    }

    fn check_statistic(&self, statistic: &Statistic) -> Result<(), PlanRefusal> {
        let of = |sql: &str| self.check("of", "the statistic", sql, Reads::Numbers, "use a numeric expression");
        let by = |sql: &str, keys: &Keys| {
            let hint = "keys takes a list of texts for texts and a number of keys for whole numbers";
            self.check("by", "`by` with these keys", sql, Reads::keys(keys), hint)
        };
        match statistic {
            Statistic::Count => Ok(()),
            Statistic::Sum { of: sql, .. }
            | Statistic::Mean { of: sql, .. }
            | Statistic::Variance { of: sql, .. }
            | Statistic::Quantile { of: sql, .. } => of(sql),
            Statistic::Histogram { by: sql, keys, .. } => by(sql, keys),
            Statistic::GroupMean { of: sql, by: key, keys, .. } => of(sql).and_then(|()| by(key, keys)),
        }
    }
}

const fn kind_word(kind: Kind) -> &'static str {
    match kind {
        Kind::Null => "always null",
        Kind::Boolean => "a truth value",
        Kind::Integer => "a whole number",
        Kind::Float => "a number",
        Kind::Text => "a text",
        Kind::Time => "a time",
    }
}
