//! The table `[validate]` of a pipeline file: the target that a result must reach.

use super::parts::{forbid_keys, read_number, read_release};
use super::train::Train;
use crate::document::{DocumentError, Section, quoted};
use crate::learners::Targets;

/// The metric that is measured on the test lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Metric {
    /// The mean squared error, clipped per row.
    SquaredError {
        /// The bound.
        bound: f64,
    },
    /// The mean logarithmic loss, clipped per row.
    LogLoss {
        /// The bound.
        bound: f64,
    },
    /// The mean absolute error, clipped per row.
    AbsoluteError {
        /// The bound.
        bound: f64,
    },
    /// The share of correctly classified rows.
    Accuracy,
    /// The largest error of a released statistic.
    Precision,
}

/// What the metric must reach.
#[derive(Clone, Debug, PartialEq)]
pub enum Goal {
    /// At most this value, or at least this value for accuracy.
    Target(f64),
    /// Better than a released model, on the same rows.
    BetterThan {
        /// The alias of the baseline model.
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

/// The condition under which a result is released.
#[derive(Clone, Debug, PartialEq)]
pub struct Validate {
    /// The metric.
    pub metric: Metric,
    /// The target of the metric.
    pub goal: Goal,
    /// The confidence of the verdicts, over all attempts together.
    pub confidence: f64,
    /// The inequality, for metrics that are losses.
    pub test: TestBound,
    /// Whether the run ends once no model of this class can reach the target.
    pub reject: bool,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Keyword {
    Squared,
    Log,
    Absolute,
    Accuracy,
    Precision,
}

const KEYWORDS: [(&str, Keyword); 5] = [
    ("mse", Keyword::Squared),
    ("log_loss", Keyword::Log),
    ("absolute", Keyword::Absolute),
    ("accuracy", Keyword::Accuracy),
    ("precision", Keyword::Precision),
];
const TESTS: [(&str, TestBound); 4] = [
    ("kl", TestBound::KullbackLeibler),
    ("bernstein", TestBound::Bernstein),
    ("empirical-bernstein", TestBound::EmpiricalBernstein),
    ("hoeffding", TestBound::Hoeffding),
];
const CONFIDENCE_DEFAULT: f64 = 0.95;

impl Metric {
    /// The clipping bound of one row's loss; `None` for metrics that are not losses.
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
        const BOUND: &str = "a number above 0 and at most 1000000000: the clipping bound of one row's loss";
        let word = section.choice("metric", &KEYWORDS, None)?;
        if matches!(word, Keyword::Accuracy | Keyword::Precision) {
            forbid_keys(section, &["bound", "test"], "this metric is not a loss")?;
            return Ok(if word == Keyword::Accuracy { Self::Accuracy } else { Self::Precision });
        }
        let bound = read_number(section, "bound", BOUND, None, |bound| bound > 0.0 && bound <= 1e9)?;
        Ok(match word {
            Keyword::Squared => Self::SquaredError { bound },
            Keyword::Log => Self::LogLoss { bound },
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
        // Clipped losses never exceed the bound, so a target at the bound would always be met.
        let most = match metric {
            Metric::Precision => f64::INFINITY,
            other => other.bound().unwrap_or(1.0),
        };
        let allowed = match metric {
            Metric::Precision => "a number above 0: the largest error of the released statistic",
            Metric::Accuracy => "a number strictly between 0 and 1: the smallest share of correctly classified rows",
            _ => "a number above 0 and below `bound`: the largest mean loss",
        };
        if !section.has("better_than") {
            forbid_keys(section, &["margin"], "margin needs better_than")?;
            let fits = |target: f64| target > 0.0 && target < most;
            return read_number(section, "target", allowed, None, fits).map(Self::Target);
        }
        if metric == Metric::Precision {
            return Err(section.wrong("better_than", "left out: a statistic has a target, not a baseline model"));
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
        section.only(&["metric", "target", "better_than", "margin", "bound", "confidence", "test", "reject"])?;
        let metric = Metric::read(section)?;
        let goal = Goal::read(section, metric)?;
        const CONFIDENCE: &str = "a number strictly between 0 and 1, such as 0.95";
        let confidence =
            read_number(section, "confidence", CONFIDENCE, Some(CONFIDENCE_DEFAULT), |sure| sure > 0.0 && sure < 1.0)?;
        let reject = section.flag("reject", false)?;
        let certified = matches!(train, Train::Model(learner) if learner.can_reject(metric));
        if reject && (!certified || matches!(goal, Goal::BetterThan { .. })) {
            let why = "false: rejection is available for kind = \"ridge\" with mse, and for classifiers of categorical \
                       features with accuracy, each with a target";
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

/// Checks that the metric applies to this kind of result.
fn check_metric(section: &Section<'_>, metric: Metric, train: &Train) -> Result<(), DocumentError> {
    let (fits, allowed) = match train {
        Train::Model(learner) => (learner.targets().allow(metric), learner.targets().metrics()),
        Train::Command { .. } | Train::Released { .. } => (Targets::Both.allow(metric), Targets::Both.metrics()),
        Train::Statistic(_) => (metric == Metric::Precision, "\"precision\""),
    };
    if fits { Ok(()) } else { Err(section.wrong("metric", format!("{allowed} for this kind of [train]"))) }
}
