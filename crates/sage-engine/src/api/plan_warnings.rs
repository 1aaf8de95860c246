//! Warnings about a pipeline before it is submitted. They follow from its file and from released reports, and prevent
//! nothing.

use crate::catalog::{AttemptEnd, Catalog, Run};
use crate::pipeline::{Goal, Pipeline};
use crate::plan::Recipe;
use crate::run::{Interval, is_met_by_a_constant};

/// What to do about a target that a constant meets.
const REMEDY: &str = "choose a harder target, or better_than = \"constant\"";

/// The warnings about a planned pipeline.
pub(super) fn plan_warnings(catalog: &Catalog, recipe: &Recipe) -> Vec<String> {
    let mut warnings = target_warnings(catalog, recipe);
    warnings.extend(shared_evidence(catalog, recipe.pipeline()));
    warnings
}

/// The warning about a test that names blocks which its model was trained or tested on.
fn shared_evidence(catalog: &Catalog, pipeline: &Pipeline) -> Option<String> {
    let newest = catalog.history().newest_block_of_tested(pipeline)?;
    let known = catalog.stream(&pipeline.stream)?;
    let named = pipeline.blocks.as_ref()?;
    let old = (0..=newest).zip(&known.sealed).any(|(_, key)| named.contains(key));
    old.then(|| {
        "the model was accepted by the rows of blocks that this test names, so the test adds little to that; leave out \
         blocks, and only newer ones are read"
            .to_owned()
    })
}

fn target_warnings(catalog: &Catalog, recipe: &Recipe) -> Vec<String> {
    let pipeline = recipe.pipeline();
    let Some(validate) = &pipeline.validate else { return Vec::new() };
    let bounds =
        recipe.inputs().map_or_else(|| recipe.tested().and_then(|label| label.bounds), |inputs| inputs.label());
    let classes = recipe.inputs().map_or(0, |inputs| inputs.classes().len());
    let label = (bounds.map_or(1.0, |(low, high)| high - low), classes);
    // One metric that a constant does not meet is enough.
    if validate.all().all(|one| is_met_by_a_constant(one, label)) {
        return vec![format!(
            "some constant prediction meets the target ({}) whatever the rows are, so a model that has learnt nothing may \
             be accepted; {REMEDY}",
            validate.goal_text()
        )];
    }
    let Goal::Target(target) = validate.goal else { return Vec::new() };
    if !validate.also.is_empty() {
        return Vec::new();
    }
    let earlier = catalog.history().runs().filter(|(_, run)| has_the_same_constant(&run.pipeline, pipeline));
    let found = earlier.filter_map(|(number, run)| Some((number, best_constant(run)?))).last();
    let test = validate.metric.test();
    found
        .and_then(|(number, constant)| {
            let value = constant.value.or(constant.high)?;
            test.meets(value, target).then(|| {
                format!(
                    "according to run {number} the best constant prediction has {constant}, which meets the target \
                     {target}, so a model that has learnt nothing may be accepted; {REMEDY}"
                )
            })
        })
        .into_iter()
        .collect()
}

/// Whether the best constant prediction of both pipelines is the same, up to the blocks that they read.
fn has_the_same_constant(one: &Pipeline, other: &Pipeline) -> bool {
    let metric = |pipeline: &Pipeline| pipeline.validate.as_ref().map(|validate| validate.metric.clone());
    let same_metric = metric(one).zip(metric(other)).is_some_and(|(one, other)| *one == *other);
    same_metric && one.stream == other.stream && one.label == other.label && one.filter == other.filter
}

/// The metric of the best constant prediction by the last report of a run.
fn best_constant(run: &Run) -> Option<Interval> {
    run.attempts.iter().rev().find_map(|attempt| match &attempt.end {
        Some(AttemptEnd::Judged(report)) => report.best_constant,
        _ => None,
    })
}
