//! The model card: the intended use and the privacy cost of a model, as a Markdown page with YAML front matter.
//!
//! It contains nothing that was not charged: no count of rows, no example. A validation is stated as the claim that was
//! tested. A measured number is stated only beside that of the best constant prediction, both from released sums. Declared bounds and tables come from the graph, so
//! the card cannot contradict it.

use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

use super::graph::{Field, Graph};
use super::onnx::{LABEL, OUTPUT, PROBABILITIES};
use super::tables;
use crate::formula::{Column, Domain, GREATEST_HASH, Missing};

/// The facts on a model card. Budgets are decimal texts, as the ledger prints them.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Card {
    /// The model's name.
    pub name: String,
    /// Its intended use.
    pub intended_use: String,
    /// The stream it was trained on.
    pub stream: String,
    /// The ranges of blocks that it was trained on.
    pub blocks: Vec<String>,
    /// The ε it was charged.
    pub epsilon: String,
    /// The δ it was charged.
    pub delta: String,
    /// The unit of privacy: a record, or all rows of a user in a block.
    pub unit: String,
    /// The stream's composition rule.
    pub filter: String,
    /// The access mode.
    pub access: CardAccess,
    /// The claim that was tested, if one was.
    pub validation: Option<Validation>,
    /// The number of attempts of the pipeline.
    pub attempts: u32,
}

/// The access mode: who guarantees the privacy of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CardAccess {
    /// Enforced: only the kernel's mechanisms read rows.
    Enforced,
    /// Attested: the pipeline's own program read rows of the train lane, and its author vouches for it.
    Attested,
}

/// A claim that was tested.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Validation {
    /// The test.
    pub validator: String,
    /// The target.
    pub target: String,
    /// The confidence.
    pub confidence: String,
    /// What the test found, with its limits.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub estimate: Option<String>,
    /// The same metric of the best constant prediction.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub best_constant: Option<String>,
}

impl CardAccess {
    const fn name(self) -> &'static str {
        match self {
            Self::Enforced => "enforced",
            Self::Attested => "attested",
        }
    }
}

/// The page.
pub(super) fn write(card: &Card, graph: &Graph) -> String {
    let mut page = String::new();
    front_matter(&mut page, card, graph);
    let mut line = |text: String| {
        page.push_str(&text);
        page.push('\n');
    };
    line(format!("# {}\n\n{}\n", plain(&card.name), plain(&card.intended_use)));
    line("## Privacy\n\n| | |\n| --- | --- |".to_owned());
    let blocks = card.blocks.iter().map(|range| plain(range)).collect::<Vec<_>>().join(", ");
    line(format!("| stream | {} |\n| blocks | {blocks} |", plain(&card.stream)));
    line(format!("| ε, δ | {}, {} |", plain(&card.epsilon), plain(&card.delta)));
    line(format!("| one unit is | {} |\n| filter | {} |", plain(&card.unit), plain(&card.filter)));
    line(format!("| access mode | {} |\n| attempts | {} |", card.access.name(), card.attempts));
    line(
        "\nThe budget is that of this model alone. What others learned from the same blocks is in the ledger.\n"
            .to_owned(),
    );
    line("## Quality\n".to_owned());
    line(match &card.validation {
        Some(claim) => format!(
            "Validated by {}: {}, with confidence {}.{} No other number about its quality was paid for, so none is here.\n",
            plain(&claim.validator),
            plain(&claim.target),
            plain(&claim.confidence),
            beside_constant(claim)
        ),
        None => "Not validated. No number about its quality was paid for, so none is here.\n".to_owned(),
    });
    line("## Inputs\n\n| column | type | declared | null |\n| --- | --- | --- | --- |".to_owned());
    for column in graph.outline().schema.columns() {
        let (kind, declared) = described(column);
        let null = if column.missing == Missing::Possible { "possible" } else { "never" };
        line(format!("| {} | {kind} | {} | {null} |", plain(&column.name), plain(&declared)));
    }
    let outputs = graph.outline().outputs();
    let classes = &graph.outline().classes;
    if classes.is_empty() {
        line(format!("\nThe output `{OUTPUT}` has {outputs} number(s) for each row."));
    } else {
        let names = classes.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ");
        line(format!(
            "\nThe output `{LABEL}` is the most probable class of each row, and `{PROBABILITIES}` are the probabilities of \
             the classes in this order: {names}."
        ));
    }
    if graph.outline().leaves_rows_out() {
        line(
            "A row in which a number without a rule for missing values is missing has no prediction: it is NaN."
                .to_owned(),
        );
    }
    if !graph.outline().schema.tables().is_empty() {
        line("\n## Private features\n\nReleased tables that are part of the model:\n".to_owned());
        for (table, file) in graph.outline().schema.tables().iter().zip(tables::names(graph.outline().schema.tables()))
        {
            line(format!("- {} by {}: `{file}`", plain(&table.name), plain(&table.key)));
        }
    }
    page
}

/// The measured number beside that of the best constant prediction.
fn beside_constant(claim: &Validation) -> String {
    let Some(constant) = &claim.best_constant else { return String::new() };
    let model = claim.estimate.as_ref().map_or_else(String::new, |found| format!(" The model: {}.", plain(found)));
    format!("{model} The best constant prediction: {}.", plain(constant))
}

fn front_matter(page: &mut String, card: &Card, graph: &Graph) {
    // Every JSON value is a YAML value, so free text is written as JSON.
    let mut entry = |name: &str, value: serde_json::Value| {
        // Writing to a string does not fail.
        let _ = writeln!(page, "{name}: {value}");
    };
    let fields = &graph.outline().fields;
    let numbers = fields.iter().filter(|field| matches!(field, Field::Number(_) | Field::Plain(_))).count();
    let bounds: Vec<DeclaredBounds<'_>> = graph.outline().schema.columns().iter().map(DeclaredBounds::new).collect();
    // Values with texts as keys always convert.
    let bounds = serde_json::to_value(bounds).unwrap_or_default();
    let tables: Vec<&str> = graph.outline().schema.tables().iter().map(|table| table.name.as_str()).collect();
    entry("---\nlibrary_name", "onnx".into());
    entry("tags", vec!["differential-privacy", "sage"].into());
    entry("model_name", card.name.clone().into());
    entry("intended_use", card.intended_use.clone().into());
    entry("stream", card.stream.clone().into());
    entry("blocks", card.blocks.clone().into());
    entry("epsilon", card.epsilon.clone().into());
    entry("delta", card.delta.clone().into());
    entry("privacy_unit", card.unit.clone().into());
    entry("filter", card.filter.clone().into());
    entry("access_mode", card.access.name().into());
    let claim = card.validation.as_ref();
    entry("validator", claim.map(|claim| claim.validator.clone()).into());
    entry("target", claim.map(|claim| claim.target.clone()).into());
    entry("confidence", claim.map(|claim| claim.confidence.clone()).into());
    if let Some(constant) = claim.and_then(|claim| claim.best_constant.clone()) {
        entry("estimate", claim.and_then(|claim| claim.estimate.clone()).into());
        entry("best_constant", constant.into());
    }
    entry("attempts", card.attempts.into());
    entry("declared_bounds", bounds);
    entry("private_features", tables.into());
    if !graph.outline().classes.is_empty() {
        entry("classes", graph.outline().classes.clone().into());
    }
    entry("number_fields", numbers.into());
    entry("one_hot_fields", (fields.len() - numbers).into());
    page.push_str("---\n\n");
}

/// The type and the declared bounds of a column, as the front matter lists them.
#[derive(Serialize)]
struct DeclaredBounds<'graph> {
    column: &'graph str,
    domain: &'graph Domain,
    missing: Missing,
}

impl<'graph> DeclaredBounds<'graph> {
    fn new(column: &'graph Column) -> Self {
        Self { column: &column.name, domain: &column.domain, missing: column.missing }
    }
}

fn described(column: &Column) -> (&'static str, String) {
    match &column.domain {
        Domain::Number { low, high } => ("number", format!("{low} to {high}")),
        Domain::Whole { low, high } => ("whole number", format!("{low} to {high}")),
        Domain::Truth => ("truth value", String::new()),
        Domain::Time { first, last } => ("seconds from 1970", format!("{first} to {last}")),
        Domain::Text { categories } => ("text", categories.join(", ")),
        Domain::Hashed => ("hash of a text", format!("0 to {GREATEST_HASH}")),
    }
}

/// Escapes text for a cell of a Markdown table.
fn plain(text: &str) -> String {
    let mut plain = String::new();
    for character in text.chars() {
        match character {
            c if c.is_control() => plain.push(' '),
            c @ ('|' | '<' | '>' | '`' | '*' | '_' | '[' | ']' | '#' | '\\') => plain.extend(['\\', c]),
            c => plain.push(c),
        }
    }
    plain
}
