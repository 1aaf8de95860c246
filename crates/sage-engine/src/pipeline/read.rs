//! Parses a pipeline file into a [`Pipeline`] that cannot contradict itself.

use std::collections::BTreeSet;

use super::budget::{Adaptation, Budget, Stages};
use super::feature::Features;
use super::limits::Limits;
use super::parts::{Bounds, Extent, forbid_keys, read_sql, read_width};
use super::train::Train;
use super::validate::Validate;
use super::{Label, Pipeline, Source, Window};
use crate::document::{self, DocumentError, NAME, Section, Shape, is_name};
use crate::metrics::{Measured, Metric};

type Read<T> = Result<T, DocumentError>;

pub(super) fn parse_pipeline(text: &str) -> Read<Pipeline> {
    document::parse(text, read_document)
}

fn read_document(whole: &Section<'_>) -> Read<Pipeline> {
    whole.only(&["pipeline", "train", "validate", "budget", "adapt", "limits"])?;
    let section = whole.section("pipeline")?.ok_or_else(|| whole.missing("pipeline", "a table [pipeline]"))?;
    section.only(&["name", "stream", "context", "label", "window", "blocks", "filter", "every", "features"])?;
    let name = |key: &str| {
        let name = section.text(key, NAME)?;
        if is_name(name) { Ok(name.to_owned()) } else { Err(section.wrong(key, NAME)) }
    };
    let (own, stream) = (name("name")?, name("stream")?);
    let train = whole.section("train")?.ok_or_else(|| whole.missing("train", "a table [train]"))?;
    let train = Train::read(&train)?;
    let label = read_label(&section)?;
    let features = Features::read(&section)?;
    check_inputs(&section, &train, label.as_ref(), &features)?;
    let validate = match whole.section("validate")? {
        Some(section) => Some(Validate::read(&section, &train)?),
        None if train.is_model() => {
            return Err(
                whole.missing("validate", "a table [validate]: a model is released only when it reaches a target")
            );
        }
        None => None,
    };
    if let (Some(label), Some(validate)) = (&label, &validate) {
        validate.all().try_for_each(|one| check_label(&section, label, &train, &*one.metric))?;
    }
    let stages = Stages {
        features: features.depend_on_rows(),
        reject: validate.as_ref().is_some_and(|validate| validate.reject),
        validate: validate.is_some() && train.is_model(),
    };
    let blocks = read_blocks(&section)?;
    Ok(Pipeline {
        name: own,
        stream,
        context: read_context(&section)?,
        label,
        window: match blocks.as_ref().map(Vec::len) {
            Some(count) => {
                let all = Extent::Blocks(u32::try_from(count).unwrap_or(u32::MAX));
                Window { min: all, max: Some(all) }
            }
            None => read_window(&section)?,
        },
        blocks,
        filter: if section.has("filter") { Some(read_sql(&section, "filter")?) } else { None },
        every: read_width(&section, "every")?,
        features,
        train,
        validate,
        budget: match whole.section("budget")? {
            Some(section) => Budget::read(&section, stages)?,
            None => Budget::defaults(stages),
        },
        adaptation: match whole.section("adapt")? {
            Some(section) => Adaptation::read(&section)?,
            None => Adaptation::DEFAULT,
        },
        limits: match whole.section("limits")? {
            Some(section) => Limits::read(&section)?,
            None => Limits::default(),
        },
    })
}

fn read_context(section: &Section<'_>) -> Read<Option<String>> {
    const CONTEXT: &str = "the name of a context of the stream's policy";
    match section.optional_text("context", CONTEXT)? {
        Some("") => Err(section.wrong("context", CONTEXT)),
        context => Ok(context.map(str::to_owned)),
    }
}

fn read_label(section: &Section<'_>) -> Read<Option<Label>> {
    const LABEL: &str = "the name of a column, or { sql = \"...\", bounds = [0, 1] }, or { truth = \"...\" }, or { column = \
                         \"...\", classes = [\"...\", \"...\"] }";
    match section.shape("label") {
        None => Ok(None),
        Some(Shape::Text) => match section.text("label", LABEL)? {
            "" => Err(section.wrong("label", LABEL)),
            column => Ok(Some(Label::Column(column.to_owned()))),
        },
        Some(Shape::Table) => {
            let Some(label) = section.section("label")? else { return Ok(None) };
            label.only(&["sql", "bounds", "truth", "column", "classes"])?;
            if label.has("classes") || label.has("column") {
                return read_classes(&label).map(Some);
            }
            if label.has("truth") {
                forbid_keys(&label, &["sql", "bounds"], "a truth value has neither")?;
                return Ok(Some(Label::Truth(read_sql(&label, "truth")?)));
            }
            let (sql, bounds) = (read_sql(&label, "sql")?, Bounds::read(&label, "bounds")?);
            Ok(Some(Label::Number { sql, bounds }))
        }
        Some(_) => Err(section.wrong("label", LABEL)),
    }
}

/// The most classes of a label.
const MOST_CLASSES: usize = 64;

fn read_classes(label: &Section<'_>) -> Read<Label> {
    const COLUMN: &str = "the name of a column of texts";
    const CLASSES: &str = "a list of 2 to 64 different texts, chosen without looking at the data, such as [\"card\", \
                           \"cash\", \"other\"]";
    forbid_keys(label, &["bounds", "truth"], "a label with classes has neither")?;
    let of = match (label.optional_text("column", COLUMN)?, label.has("sql")) {
        (Some(""), _) => return Err(label.wrong("column", COLUMN)),
        (Some(column), false) => Source::Column(column.to_owned()),
        (Some(_), true) => return Err(label.wrong("sql", "left out: the label has a column")),
        (None, _) => Source::Sql(read_sql(label, "sql")?),
    };
    let classes = label.texts("classes", CLASSES)?.ok_or_else(|| label.missing("classes", CLASSES))?;
    let different: BTreeSet<&String> = classes.iter().collect();
    let fits = different.len() == classes.len() && (2..=MOST_CLASSES).contains(&classes.len());
    if fits && classes.iter().all(|class| !class.is_empty()) {
        Ok(Label::Classes { of, classes })
    } else {
        Err(label.wrong("classes", CLASSES))
    }
}

fn read_blocks(section: &Section<'_>) -> Read<Option<Vec<String>>> {
    const BLOCKS: &str = "a list of different keys of blocks, such as [\"country=FR\"]";
    let Some(blocks) = section.texts("blocks", BLOCKS)? else { return Ok(None) };
    forbid_keys(section, &["window", "every"], "`blocks` already fixes the blocks")?;
    let mut sorted: Vec<&String> = blocks.iter().collect();
    sorted.sort_unstable();
    sorted.dedup();
    let fine = !blocks.is_empty() && sorted.len() == blocks.len() && blocks.len() <= 100_000;
    if fine { Ok(Some(blocks)) } else { Err(section.wrong("blocks", BLOCKS)) }
}

fn read_window(section: &Section<'_>) -> Read<Window> {
    let Some(window) = section.section("window")? else { return Ok(Window { min: Extent::Blocks(1), max: None }) };
    window.only(&["min", "max"])?;
    let max = Extent::read(&window, "max")?;
    let min = match (Extent::read(&window, "min")?, max) {
        (Some(min), _) => min,
        (None, None | Some(Extent::Blocks(_))) => Extent::Blocks(1),
        (None, Some(Extent::Time(_))) => return Err(window.missing("min", "a length of time, as max is one")),
    };
    if max.is_some_and(|max| !min.at_most(max)) {
        return Err(window.wrong("max", "at least min, and like it a length of time or a number of blocks"));
    }
    Ok(Window { min, max })
}

/// Checks that a model has features and a label, and that a statistic has neither.
fn check_inputs(section: &Section<'_>, train: &Train, label: Option<&Label>, features: &Features) -> Read<()> {
    if !train.is_model() {
        return forbid_keys(section, &["label", "features"], "a statistic takes its columns from [train]");
    }
    if label.is_none() {
        return Err(section.missing("label", "the label to predict: a column, or an expression with its bounds"));
    }
    let brings_features = matches!(train, Train::Command { .. } | Train::Released { .. });
    if brings_features && !features.0.is_empty() {
        return forbid_keys(section, &["features"], "the command or the released model defines its own features");
    }
    if features.0.is_empty() && !brings_features {
        return Err(section.missing("features", "a list of at least one feature"));
    }
    Ok(())
}

/// Checks that the label fits the learner and the metric. The type of a column is checked later, against the stream.
fn check_label(section: &Section<'_>, label: &Label, train: &Train, metric: &dyn Metric) -> Read<()> {
    const CLASS: &str = "{ truth = \"...\" } or a boolean column: the learner or the metric is for classification";
    const NUMBER: &str =
        "{ sql = \"...\", bounds = [0, 1] } or a column of numbers: the learner or the metric is for regression";
    const SEVERAL: &str = "{ truth = \"...\" } or a boolean column: several classes need kind = \"logistic\" or \"mlp\" and \
                           metric = \"log_loss\" or \"accuracy\"";
    let classes = metric.kind().measured == Measured::Classes || train.learns_classes();
    let several = metric.several_classes().is_some() && train.supports_several_classes();
    match label {
        Label::Classes { .. } if !classes => Err(section.wrong("label", NUMBER)),
        Label::Classes { .. } if !several => Err(section.wrong("label", SEVERAL)),
        Label::Number { .. } if classes => Err(section.wrong("label", CLASS)),
        Label::Truth(_) if !classes => Err(section.wrong("label", NUMBER)),
        _ => Ok(()),
    }
}
