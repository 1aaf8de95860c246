//! Every kind of pipeline and query, listed from the product's types.
//!
//! Each list and the function that names a value come from one exhaustive match: a new variant does not compile until
//! it has a name here, and a name that no pipeline or query of the harness has fails
//! `every_kind_of_pipeline_runs` or `every_kind_of_query_runs`.

use std::any::Any;
use std::collections::BTreeSet;

use sage_engine::learners::{
    Learner, LogisticLearner, NetworkLearner, RateSchedule, RidgeLearner, RidgeTerm, kind_names,
};
use sage_engine::metrics::{self, Metric};
use sage_engine::pipeline::{
    Feature, Goal, Keys, Label, Missing, Pipeline, RowTransport, Source, Statistic, TestBound, Train, Validate,
};
use sage_engine::query::{Aggregate, KeyKind};

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

kinds!(train, TRAINS, Train {
    Train::Model(_) => "train: model",
    Train::Statistic(Statistic::Count) => "statistic: count",
    Train::Statistic(Statistic::Sum { .. }) => "statistic: sum",
    Train::Statistic(Statistic::Mean { .. }) => "statistic: mean",
    Train::Statistic(Statistic::Variance { .. }) => "statistic: variance",
    Train::Statistic(Statistic::Histogram { relative: false, .. }) => "statistic: histogram",
    Train::Statistic(Statistic::Histogram { relative: true, .. }) => "statistic: frequencies",
    Train::Statistic(Statistic::GroupMean { .. }) => "statistic: group_mean",
    Train::Statistic(Statistic::Quantile { .. }) => "statistic: quantile",
    Train::Released { .. } => "train: release",
    Train::Command { rows: RowTransport::Parquet, .. } => "train: command, parquet",
    Train::Command { rows: RowTransport::Flight, .. } => "train: command, flight",
});

kinds!(ridge, RIDGES, RidgeTerm {
    RidgeTerm::Adaptive => "train: ridge, adaptive",
    RidgeTerm::Fixed => "train: ridge, fixed",
});

const BY_STEPS: &[&str] = &["train: logistic", "train: mlp"];

/// The kinds of a learner. A learner that is registered and not listed here fails the test.
fn learner(of: &dyn Learner) -> Vec<&'static str> {
    let any: &dyn Any = of;
    if let Some(RidgeLearner { term }) = any.downcast_ref() {
        return vec![ridge(term)];
    }
    if let Some(LogisticLearner { training }) = any.downcast_ref() {
        return vec!["train: logistic", schedule(&training.written.schedule)];
    }
    let Some(NetworkLearner { layers: _, training }) = any.downcast_ref() else {
        panic!("the learner `{}` has no test on neighbouring streams", of.kind());
    };
    vec!["train: mlp", schedule(&training.written.schedule)]
}

kinds!(schedule, SCHEDULES, RateSchedule {
    RateSchedule::Constant => "schedule: constant",
    RateSchedule::Cosine => "schedule: cosine",
    RateSchedule::Stepwise { .. } => "schedule: stepwise",
});

const METRICS: &[&str] =
    &["metric: mse", "metric: absolute", "metric: log_loss", "metric: accuracy", "metric: auc", "metric: precision"];

/// The kind of a metric. A metric that is registered and not listed here fails the test.
fn metric(of: &dyn Metric) -> &'static str {
    let name = of.kind().name;
    let listed = METRICS.iter().find(|word| word.strip_prefix("metric: ") == Some(name));
    listed.unwrap_or_else(|| panic!("the metric `{name}` has no test on neighbouring streams"))
}

kinds!(goal, GOALS, (&Goal, bool) {
    (Goal::Target(_), _) => "goal: target",
    (Goal::BetterThan { .. }, false) => "goal: better_than",
    (Goal::BetterThan { .. }, true) => "goal: better_than the best constant",
});

kinds!(test_bound, TEST_BOUNDS, TestBound {
    TestBound::KullbackLeibler => "test: kl",
    TestBound::Bernstein => "test: bernstein",
    TestBound::EmpiricalBernstein => "test: empirical-bernstein",
    TestBound::Hoeffding => "test: hoeffding",
});

kinds!(reject, REJECTS, bool {
    true => "reject: true",
    false => "reject: false",
});

kinds!(several, SEVERAL, bool {
    true => "metrics: several",
    false => "metrics: one",
});

kinds!(label, LABELS, Label {
    Label::Column(_) => "label: column",
    Label::Number { .. } => "label: sql",
    Label::Truth(_) => "label: truth",
    Label::Classes { .. } => "label: classes",
});

kinds!(feature, FEATURES, Feature {
    Feature::Scale { missing: Missing::LeftOut, .. } => "feature: scale, left-out",
    Feature::Scale { missing: Missing::Indicator, .. } => "feature: scale, indicator",
    Feature::Scale { missing: Missing::Constant(_), .. } => "feature: scale, constant",
    Feature::OneHot { keys: Keys::Count(_), .. } => "feature: onehot of numbers",
    Feature::OneHot { keys: Keys::Texts(_), .. } => "feature: onehot of texts",
    Feature::Bucket { .. } => "feature: bucket",
    Feature::Hash { .. } => "feature: hash",
    Feature::Cross { .. } => "feature: cross",
    Feature::GroupMean { .. } => "feature: group_mean",
    Feature::Released(_) => "feature: release",
});

kinds!(source, SOURCES, Source {
    Source::Column(_) => "source: column",
    Source::Sql(_) => "source: sql",
});

kinds!(keys, KEYS, Keys {
    Keys::Count(_) => "keys: numbers",
    Keys::Texts(_) => "keys: texts",
});

kinds!(aggregate, AGGREGATES, Aggregate {
    Aggregate::Count => "aggregate: count",
    Aggregate::Sum => "aggregate: sum",
    Aggregate::Mean => "aggregate: avg",
    Aggregate::Variance => "aggregate: variance",
    Aggregate::Deviation => "aggregate: stddev",
    Aggregate::Quantile => "aggregate: quantile",
});

kinds!(key_kind, KEY_KINDS, KeyKind {
    KeyKind::Texts => "group by texts",
    KeyKind::Numbers => "group by numbers",
    KeyKind::Truth => "group by truth values",
});

/// Every kind that a pipeline can have.
pub(crate) fn of_all_pipelines() -> BTreeSet<&'static str> {
    let known: Vec<&str> = RIDGES.iter().chain(BY_STEPS).copied().collect();
    for kind in kind_names() {
        let listed = known.iter().any(|word| word.starts_with(&format!("train: {kind}")));
        assert!(listed, "the learner `{kind}` has no test on neighbouring streams");
    }
    for kind in metrics::kind_names() {
        let listed = METRICS.contains(&format!("metric: {kind}").as_str());
        assert!(listed, "the metric `{kind}` has no test on neighbouring streams");
    }
    let lists = [
        TRAINS,
        RIDGES,
        BY_STEPS,
        SCHEDULES,
        METRICS,
        SEVERAL,
        GOALS,
        TEST_BOUNDS,
        REJECTS,
        LABELS,
        FEATURES,
        SOURCES,
        KEYS,
    ];
    lists.into_iter().flatten().copied().filter(|word| *word != "train: model").collect()
}

/// The kinds of the parts of a pipeline. A new field of a pipeline does not compile until it is considered here.
pub(crate) fn of_pipeline(pipeline: &Pipeline) -> BTreeSet<&'static str> {
    let Pipeline {
        name: _,
        stream: _,
        context: _,
        label: predicted,
        window: _,
        blocks: _,
        filter: _,
        every: _,
        features,
        train: trained,
        validate,
        budget: _,
        adaptation: _,
        limits: _,
    } = pipeline;
    let mut found: BTreeSet<&'static str> = match trained {
        Train::Model(of) => learner(&**of).into_iter().collect(),
        other => BTreeSet::from([train(other)]),
    };
    found.extend(predicted.as_ref().map(label));
    for (_, one) in &features.0 {
        found.insert(feature(one));
        if let Feature::Scale { of, .. }
        | Feature::OneHot { of, .. }
        | Feature::Bucket { of, .. }
        | Feature::Hash { of, .. } = one
        {
            found.insert(source(of));
        }
    }
    if let Train::Statistic(Statistic::Histogram { keys: of, .. } | Statistic::GroupMean { keys: of, .. }) = trained {
        found.insert(keys(of));
    }
    if let Some(Validate { metric: measured, goal: wanted, confidence: _, test, reject: rejects, also }) = validate {
        found.extend([metric(&**measured), goal(&(wanted, wanted.is_better_than_constant())), reject(rejects)]);
        found.extend(also.iter().map(|further| metric(&*further.metric)));
        found.insert(several(&(!also.is_empty())));
        if measured.bound().is_some() {
            found.insert(test_bound(test));
        }
    }
    found
}

/// Every kind that a query can have.
pub(crate) fn of_all_queries() -> BTreeSet<&'static str> {
    AGGREGATES.iter().chain(KEY_KINDS).copied().collect()
}

/// The kinds of the parts of a query.
pub(crate) fn of_query(question: &sage_engine::query::PrivateQuery) -> BTreeSet<&'static str> {
    let aggregates = question.aggregates().map(|one| aggregate(&one));
    aggregates.chain(question.key_kinds().map(|one| key_kind(&one))).collect()
}
