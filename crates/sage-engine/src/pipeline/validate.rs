//! The table `[validate]` of a pipeline file: the target that a result must reach.

use std::sync::Arc;

use sage_learn::validate::Estimate;

use super::parts::{forbid_keys, read_number, read_release};
use super::train::Train;
use crate::document::{DocumentError, Section, quoted};
use crate::learners::Targets;
use crate::metrics::{self, Measured, Metric, MetricKeys, MetricKind, MetricTest};

/// What the metric must reach.
#[derive(Clone, Debug, PartialEq)]
pub enum Goal {
    /// At most this value, or at least this value for accuracy.
    Target(f64),
    /// Better than a released model, on the same rows.
    BetterThan {
        /// The alias of the baseline model, or [`CONSTANT`] for the best constant prediction.
        alias: String,
        /// The required improvement.
        margin: f64,
    },
}

/// The concentration inequality of a test of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestBound {
    /// Chernoff's bound in its relative-entropy form: the tightest for two sums.
    KullbackLeibler,
    /// Bernstein's.
    Bernstein,
    /// Bernstein's with the variance estimated from a third sum.
    EmpiricalBernstein,
    /// Hoeffding's.
    Hoeffding,
}

/// The value of `better_than` that stands for the best constant prediction.
pub const CONSTANT: &str = "constant";

/// The condition under which a result is released.
#[derive(Clone, Debug)]
pub struct Validate {
    /// The metric, measured on the test lane.
    pub metric: Arc<dyn Metric>,
    /// The target of the metric.
    pub goal: Goal,
    /// The confidence of the verdicts, over all attempts together.
    pub confidence: f64,
    /// The inequality, for metrics that are losses.
    pub test: TestBound,
    /// Whether the run ends once no model of this class can reach the target.
    pub reject: bool,
    /// Further metrics whose targets must be met by the same model. They have the same confidence, do not reject and have
    /// no further metrics themselves.
    pub also: Vec<Self>,
}

// Not derived: the derived comparison would move the metric.
impl PartialEq for Validate {
    fn eq(&self, other: &Self) -> bool {
        let Self { metric, goal, confidence, test, reject, also } = self;
        **metric == *other.metric
            && *goal == other.goal
            && *confidence == other.confidence
            && *test == other.test
            && *reject == other.reject
            && *also == other.also
    }
}

const TESTS: [(&str, TestBound); 4] = [
    ("kl", TestBound::KullbackLeibler),
    ("bernstein", TestBound::Bernstein),
    ("empirical-bernstein", TestBound::EmpiricalBernstein),
    ("hoeffding", TestBound::Hoeffding),
];
const CONFIDENCE_DEFAULT: f64 = 0.95;

/// The keys of `[validate]` that this crate's metrics have.
const KEYS: [&str; 9] = ["metric", "target", "better_than", "margin", "bound", "confidence", "test", "reject", "also"];
/// The keys of a further metric.
const FURTHER_KEYS: [&str; 4] = ["metric", "target", "bound", "test"];
/// The most further metrics.
const MOST_FURTHER: usize = 7;
/// The keys of metrics that are mean losses.
const LOSS_KEYS: [&str; 2] = ["bound", "test"];

/// Reads `metric` and its keys; `keys` are the other keys of the table.
fn read_metric(section: &Section<'_>, keys: &[&'static str]) -> Result<Arc<dyn Metric>, DocumentError> {
    let kinds = metrics::kinds();
    let mut known = keys.to_vec();
    known.extend(kinds.iter().flat_map(|kind| kind.keys).filter(|key| !keys.contains(key)));
    section.only(&known)?;
    let words: Vec<(&'static str, MetricKind)> = kinds.iter().map(|kind| (kind.name, *kind)).collect();
    let kind = section.choice("metric", &words, None)?;
    let metric = (kind.parse)(&MetricKeys::new(section.clone()))?;
    if metric.bound().is_none() {
        forbid_keys(section, &LOSS_KEYS, "this metric is not a loss")?;
    }
    let others = kinds.iter().flat_map(|other| other.keys).copied();
    let others: Vec<&str> = others.filter(|key| !kind.keys.contains(key)).collect();
    forbid_keys(section, &others, "it is a key of another metric")?;
    Ok(metric)
}

impl Goal {
    /// Whether the model must be better than the best constant prediction.
    pub fn is_better_than_constant(&self) -> bool {
        matches!(self, Self::BetterThan { alias, .. } if alias == CONSTANT)
    }

    fn read(section: &Section<'_>, test: MetricTest) -> Result<Self, DocumentError> {
        let most = test.range();
        if !section.has("better_than") {
            forbid_keys(section, &["margin"], "margin needs better_than")?;
            let fits = |target: f64| test.can_have(target);
            return read_number(section, "target", test.allowed_targets(), None, fits).map(Self::Target);
        }
        if test == MetricTest::HalfWidth {
            return Err(section.wrong("better_than", "left out: a statistic has a target, not a baseline model"));
        }
        if matches!(test, MetricTest::Ranking { .. }) {
            return Err(section.wrong("better_than", "left out: this metric is about pairs of rows and has a target"));
        }
        forbid_keys(section, &["target"], "better_than replaces the target")?;
        let alias = read_release(section, "better_than")?;
        let margin = format!("a number from 0 to below {most:?}: the required improvement");
        let margin = read_number(section, "margin", &margin, Some(0.0), |by| by >= 0.0 && by < most)?;
        Ok(Self::BetterThan { alias, margin })
    }
}

impl Validate {
    pub(super) fn read(section: &Section<'_>, train: &Train) -> Result<Self, DocumentError> {
        let metric = read_metric(section, &KEYS)?;
        let goal = Goal::read(section, metric.test())?;
        const CONFIDENCE: &str = "a number strictly between 0 and 1, such as 0.95";
        let confidence =
            read_number(section, "confidence", CONFIDENCE, Some(CONFIDENCE_DEFAULT), |sure| sure > 0.0 && sure < 1.0)?;
        let reject = section.flag("reject", false)?;
        let certified = matches!(train, Train::Model(learner) if learner.can_reject(&*metric));
        if reject && (!certified || matches!(goal, Goal::BetterThan { .. })) {
            let why = "false: rejection is available for kind = \"ridge\" with mse, and for classifiers of categorical \
                       features with accuracy, each with a target";
            return Err(section.wrong("reject", why));
        }
        check_metric(section, &*metric, train)?;
        let guess = Estimate { value: Some(0.5), low: 0.0, high: 1.0 };
        let comparable = matches!(train, Train::Model(_)) && metric.best_constant(guess, 1.0).is_some();
        if goal.is_better_than_constant() && !comparable {
            let why = "the name or alias of a release: \"constant\" is available for the learners of Sage with mse, \
                       log_loss or accuracy";
            return Err(section.wrong("better_than", why));
        }
        let test = section.choice("test", &TESTS, Some(TestBound::KullbackLeibler))?;
        let also = Self::read_further(section, train, (&*metric, &goal), confidence)?;
        Ok(Self { metric, goal, confidence, test, reject, also })
    }

    /// Reads the list `also` of further metrics.
    fn read_further(
        section: &Section<'_>, train: &Train, (first, goal): (&dyn Metric, &Goal), confidence: f64,
    ) -> Result<Vec<Self>, DocumentError> {
        let tables = section.sections("also")?;
        let has_target = matches!(goal, Goal::Target(_)) || goal.is_better_than_constant();
        if !tables.is_empty() && (!has_target || matches!(train, Train::Statistic(_))) {
            let why = "left out: further metrics are for models with a target, or with better_than = \"constant\"";
            return Err(section.wrong("also", why));
        }
        if tables.len() > MOST_FURTHER {
            return Err(section.wrong("also", format!("at most {MOST_FURTHER} further metrics")));
        }
        let mut also: Vec<Self> = Vec::with_capacity(tables.len());
        for table in &tables {
            let metric = read_metric(table, &FURTHER_KEYS)?;
            check_metric(table, &*metric, train)?;
            if metric.kind().measured != first.kind().measured {
                return Err(table.wrong("metric", "a metric for the same kind of label"));
            }
            if also.iter().map(|other| &*other.metric).chain([first]).any(|other| *other == *metric) {
                return Err(table.wrong("metric", "another metric: this one has a target already"));
            }
            let goal = Goal::read(table, metric.test())?;
            let test = table.choice("test", &TESTS, Some(TestBound::KullbackLeibler))?;
            also.push(Self { metric, goal, confidence, test, reject: false, also: Vec::new() });
        }
        Ok(also)
    }

    /// Itself and the further metrics, which must all be met.
    pub fn all(&self) -> impl Iterator<Item = &Self> {
        std::iter::once(self).chain(&self.also)
    }

    /// The number of metrics that are tested.
    pub(crate) fn count(&self) -> u32 {
        u32::try_from(1 + self.also.len()).unwrap_or(u32::MAX)
    }

    /// The goal in words, after the name of the metric.
    pub fn goal_text(&self) -> String {
        let by = |margin: f64| if margin == 0.0 { String::new() } else { format!(" by {margin}") };
        match &self.goal {
            Goal::Target(target) => format!("{} {target}", self.metric.test().direction()),
            goal @ Goal::BetterThan { margin, .. } if goal.is_better_than_constant() => {
                format!("better than the best constant{}", by(*margin))
            }
            Goal::BetterThan { alias, margin } => format!("better than {alias}{}", by(*margin)),
        }
    }

    pub(super) fn write(&self, out: &mut String) {
        out.push_str("\n[validate]\n");
        self.write_test(out);
        out.push_str(&format!("confidence = {:?}\nreject = {}\n", self.confidence, self.reject));
        for further in &self.also {
            out.push_str("\n[[validate.also]]\n");
            further.write_test(out);
        }
    }

    /// Appends the metric, its goal and its keys.
    fn write_test(&self, out: &mut String) {
        out.push_str(&format!("metric = \"{}\"\n", self.metric.kind().name));
        match &self.goal {
            Goal::Target(target) => out.push_str(&format!("target = {target:?}\n")),
            Goal::BetterThan { alias, margin } => {
                out.push_str(&format!("better_than = {}\nmargin = {margin:?}\n", quoted(alias)));
            }
        }
        self.metric.write_keys(out);
        if self.metric.bound().is_some() {
            let word = TESTS.iter().find(|(_, test)| *test == self.test).map_or("kl", |(word, _)| word);
            out.push_str(&format!("test = \"{word}\"\n"));
        }
    }
}

/// Checks that the metric applies to this kind of result.
fn check_metric(section: &Section<'_>, metric: &dyn Metric, train: &Train) -> Result<(), DocumentError> {
    let (fits, allowed) = match train {
        Train::Model(learner) => (learner.targets().allow(metric), learner.targets().metrics()),
        Train::Command { .. } | Train::Released { .. } => (Targets::Both.allow(metric), Targets::Both.metrics()),
        Train::Statistic(_) => (metric.kind().measured == Measured::Statistics, "\"precision\"".to_owned()),
    };
    if fits { Ok(()) } else { Err(section.wrong("metric", format!("{allowed} for this kind of [train]"))) }
}
