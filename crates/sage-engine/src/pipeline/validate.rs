//! The `[validate]` of a pipeline's file: when what was trained is good enough.

use super::parts::{read_number, read_release, without};
use super::train::Train;
use crate::document::{DocumentError, Section, quoted};
use crate::learners::Targets;

/// What is measured on the test lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// The mean squared error, each row's clipped to a bound.
    SquaredError {
        /// The bound.
        bound: f64,
    },
    /// The mean logarithmic loss, each row's clipped to a bound.
    LogLoss {
        /// The bound.
        bound: f64,
    },
    /// The mean distance from the label, each row's clipped to a bound.
    AbsoluteError {
        /// The bound.
        bound: f64,
    },
    /// The share of rows that are classified rightly.
    Accuracy,
    /// How far a statistic may be from the truth.
    Precision,
}

/// What the metric must reach.
#[derive(Clone, Debug, PartialEq)]
pub enum Goal {
    /// A number: at most this, or at least this for an accuracy.
    Target(f64),
    /// Better than a released model, on the same rows.
    BetterThan {
        /// Its alias.
        alias: String,
        /// By how much.
        margin: f64,
    },
}

/// The inequality behind a test of losses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestBound {
    /// Chernoff's, by relative entropy: the sharpest for two sums.
    KullbackLeibler,
    /// Bernstein's.
    Bernstein,
    /// Bernstein's with the variance estimated from a third sum.
    EmpiricalBernstein,
    /// Hoeffding's.
    Hoeffding,
}

/// When a pipeline's result may leave.
#[derive(Clone, Debug, PartialEq)]
pub struct Validate {
    /// What is measured.
    pub metric: Metric,
    /// What it must reach.
    pub goal: Goal,
    /// How sure the verdicts are, over all attempts together.
    pub confidence: f64,
    /// The test, where losses are tested.
    pub test: TestBound,
    /// Whether the pipeline gives up once no model of its kind can reach the target.
    pub reject: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Word {
    Squared,
    Log,
    Absolute,
    Accuracy,
    Precision,
}

const WORDS: [(&str, Word); 5] = [
    ("mse", Word::Squared),
    ("log_loss", Word::Log),
    ("absolute", Word::Absolute),
    ("accuracy", Word::Accuracy),
    ("precision", Word::Precision),
];
const TESTS: [(&str, TestBound); 4] = [
    ("kl", TestBound::KullbackLeibler),
    ("bernstein", TestBound::Bernstein),
    ("empirical-bernstein", TestBound::EmpiricalBernstein),
    ("hoeffding", TestBound::Hoeffding),
];
const CONFIDENCE_DEFAULT: f64 = 0.95;

impl Metric {
    /// The most that one row counts for, where losses are clipped.
    pub const fn bound(self) -> Option<f64> {
        match self {
            Self::SquaredError { bound } | Self::LogLoss { bound } | Self::AbsoluteError { bound } => Some(bound),
            Self::Accuracy | Self::Precision => None,
        }
    }

    /// Whether it measures predictions of classes.
    pub(crate) const fn is_of_classes(self) -> bool {
        matches!(self, Self::LogLoss { .. } | Self::Accuracy)
    }

    fn read(section: &Section<'_>) -> Result<Self, DocumentError> {
        const BOUND: &str = "a number above 0 and at most 1000000000: the most that one row's loss counts for";
        let word = section.choice("metric", &WORDS, None)?;
        if matches!(word, Word::Accuracy | Word::Precision) {
            without(section, &["bound", "test"], "this metric is no loss")?;
            return Ok(if word == Word::Accuracy { Self::Accuracy } else { Self::Precision });
        }
        let bound = read_number(section, "bound", BOUND, None, |bound| bound > 0.0 && bound <= 1e9)?;
        Ok(match word {
            Word::Squared => Self::SquaredError { bound },
            Word::Log => Self::LogLoss { bound },
            _ => Self::AbsoluteError { bound },
        })
    }

    const fn word(self) -> &'static str {
        match self {
            Self::SquaredError { .. } => "mse",
            Self::LogLoss { .. } => "log_loss",
            Self::AbsoluteError { .. } => "absolute",
            Self::Accuracy => "accuracy",
            Self::Precision => "precision",
        }
    }
}

impl Goal {
    fn read(section: &Section<'_>, metric: Metric) -> Result<Self, DocumentError> {
        // A single row's loss is never above its bound, so that a target there says nothing.
        let most = match metric {
            Metric::Precision => f64::INFINITY,
            other => other.bound().unwrap_or(1.0),
        };
        let allowed = match metric {
            Metric::Precision => "a number above 0: how far the released statistic may be from the truth",
            Metric::Accuracy => "a number strictly between 0 and 1: the least share of rows classified rightly",
            _ => "a number above 0 and below `bound`: the greatest mean loss",
        };
        if !section.has("better_than") {
            without(section, &["margin"], "it belongs to better_than")?;
            let fits = |target: f64| target > 0.0 && target < most;
            return read_number(section, "target", allowed, None, fits).map(Self::Target);
        }
        if metric == Metric::Precision {
            return Err(section.wrong("better_than", "left out: a statistic has a target, and no predecessor"));
        }
        without(section, &["target"], "better_than takes its place")?;
        let alias = read_release(section, "better_than")?;
        let margin = format!("a number from 0 to below {most:?}: by how much better");
        let margin = read_number(section, "margin", &margin, Some(0.0), |by| by >= 0.0 && by < most)?;
        Ok(Self::BetterThan { alias, margin })
    }
}

impl Validate {
    pub(super) fn read(section: &Section<'_>, train: &Train) -> Result<Self, DocumentError> {
        section.only(&["metric", "target", "better_than", "margin", "bound", "confidence", "test", "reject"])?;
        let metric = Metric::read(section)?;
        let goal = Goal::read(section, metric)?;
        const CONFIDENCE: &str = "a number strictly between 0 and 1, such as 0.95";
        let confidence =
            read_number(section, "confidence", CONFIDENCE, Some(CONFIDENCE_DEFAULT), |sure| sure > 0.0 && sure < 1.0)?;
        let reject = section.flag("reject", false)?;
        let certified = matches!(train, Train::Model(learner) if learner.can_reject(metric));
        if reject && (!certified || matches!(goal, Goal::BetterThan { .. })) {
            let why = "false: what is known well enough to reject is the best ridge regression by mse, and the best \
                       classifier of categories by accuracy, each with a target";
            return Err(section.wrong("reject", why));
        }
        check_metric(section, metric, train)?;
        let test = section.choice("test", &TESTS, Some(TestBound::KullbackLeibler))?;
        Ok(Self { metric, goal, confidence, test, reject })
    }

    pub(super) fn write(&self, out: &mut String) {
        out.push_str(&format!("\n[validate]\nmetric = \"{}\"\n", self.metric.word()));
        match &self.goal {
            Goal::Target(target) => out.push_str(&format!("target = {target:?}\n")),
            Goal::BetterThan { alias, margin } => {
                out.push_str(&format!("better_than = {}\nmargin = {margin:?}\n", quoted(alias)));
            }
        }
        if let Some(bound) = self.metric.bound() {
            out.push_str(&format!("bound = {bound:?}\n"));
            let word = TESTS.iter().find(|(_, test)| *test == self.test).map_or("kl", |(word, _)| word);
            out.push_str(&format!("test = \"{word}\"\n"));
        }
        out.push_str(&format!("confidence = {:?}\nreject = {}\n", self.confidence, self.reject));
    }
}

/// The metric is one that this kind of result has.
fn check_metric(section: &Section<'_>, metric: Metric, train: &Train) -> Result<(), DocumentError> {
    let (fits, allowed) = match train {
        Train::Model(learner) => (learner.targets().allow(metric), learner.targets().metrics()),
        Train::Command { .. } | Train::Released { .. } => (Targets::Both.allow(metric), Targets::Both.metrics()),
        Train::Statistic(_) => (metric == Metric::Precision, "\"precision\""),
    };
    if fits { Ok(()) } else { Err(section.wrong("metric", format!("{allowed} for what [train] says"))) }
}
