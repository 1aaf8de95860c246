//! From the text of a pipeline's file to a [`Pipeline`] that cannot contradict itself.

use super::budget::{Adaptation, Budget, Stages};
use super::feature::Features;
use super::limits::Limits;
use super::parts::{Bounds, Extent, read_sql, read_width, without};
use super::train::Train;
use super::validate::{Metric, Validate};
use super::{Label, Pipeline, Window};
use crate::document::{self, DocumentError, NAME, Section, Shape, is_name};

type Read<T> = Result<T, DocumentError>;

pub(super) fn pipeline(text: &str) -> Read<Pipeline> {
    document::parse(text, read_whole)
}

fn read_whole(whole: &Section<'_>) -> Read<Pipeline> {
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
            return Err(whole.missing("validate", "a table [validate]: a model leaves only when it meets a target"));
        }
        None => None,
    };
    if let (Some(label), Some(validate)) = (&label, &validate) {
        check_label(&section, label, &train, validate.metric)?;
    }
    let stages = Stages {
        features: features.are_released(),
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
    const LABEL: &str = "the name of a column, or { sql = \"...\", bounds = [0, 1] }, or { truth = \"...\" }";
    match section.shape("label") {
        None => Ok(None),
        Some(Shape::Text) => match section.text("label", LABEL)? {
            "" => Err(section.wrong("label", LABEL)),
            column => Ok(Some(Label::Column(column.to_owned()))),
        },
        Some(Shape::Table) => {
            let Some(label) = section.section("label")? else { return Ok(None) };
            label.only(&["sql", "bounds", "truth"])?;
            if label.has("truth") {
                without(&label, &["sql", "bounds"], "a truth value has neither")?;
                return Ok(Some(Label::Truth(read_sql(&label, "truth")?)));
            }
            let (sql, bounds) = (read_sql(&label, "sql")?, Bounds::read(&label, "bounds")?);
            Ok(Some(Label::Number { sql, bounds }))
        }
        Some(_) => Err(section.wrong("label", LABEL)),
    }
}

fn read_blocks(section: &Section<'_>) -> Read<Option<Vec<String>>> {
    const BLOCKS: &str = "a list of different keys of blocks, such as [\"country=FR\"]";
    let Some(blocks) = section.texts("blocks", BLOCKS)? else { return Ok(None) };
    without(section, &["window", "every"], "`blocks` names them, once and for all")?;
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

/// A model has inputs and a label; a statistic has neither.
fn check_inputs(section: &Section<'_>, train: &Train, label: Option<&Label>, features: &Features) -> Read<()> {
    if !train.is_model() {
        return without(section, &["label", "features"], "a statistic says in [train] what it is of");
    }
    if label.is_none() {
        return Err(section.missing("label", "what is predicted: a column, or an expression with its bounds"));
    }
    let own = matches!(train, Train::Command { .. } | Train::Released { .. });
    if own && !features.0.is_empty() {
        return without(section, &["features"], "what is tested brings its own along");
    }
    if features.0.is_empty() && !own {
        return Err(section.missing("features", "a list of at least one feature"));
    }
    Ok(())
}

/// The label is of the kind that the learner and the metric are about. Of a column that is seen later.
fn check_label(section: &Section<'_>, label: &Label, train: &Train, metric: Metric) -> Read<()> {
    const CLASS: &str = "{ truth = \"...\" } or a column of truth values: learner or metric is about classes";
    const NUMBER: &str =
        "{ sql = \"...\", bounds = [0, 1] } or a column of numbers: learner or metric is about numbers";
    let classes = metric.is_of_classes() || train.learns_classes();
    match label {
        Label::Number { .. } if classes => Err(section.wrong("label", CLASS)),
        Label::Truth(_) if !classes => Err(section.wrong("label", NUMBER)),
        _ => Ok(()),
    }
}
