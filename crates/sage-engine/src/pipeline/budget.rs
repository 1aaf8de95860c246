//! The tables `[budget]` and `[adapt]` of a pipeline file: the cost of an attempt, and the order of attempts.
//!
//! Costs are decimal texts, converted to the kernel's integers without passing through a float.

use sage_kernel::{Delta, Epsilon, Rate};

use super::parts::{forbid_keys, read_count, read_width};
use crate::adapt::{Limits, Mode, Plan, PlanError, RiskSchedule, Strategy, Units};
use crate::document::{DocumentError, Section};
use crate::stream::Width;

/// The share of an attempt's cost that each stage gets.
///
/// `features`, `train` and `reject` share the train lane and add up to at most one. `validate` has the test lane, with
/// other units, to itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shares {
    /// For features computed from rows.
    pub features: Rate,
    /// For the model or the statistic.
    pub train: Rate,
    /// For the certificate that no model of this class reaches the target.
    pub reject: Rate,
    /// For the validation on the test lane.
    pub validate: Rate,
}

/// The cost of an attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// ε of the first attempt, and the least of any. Default: 1/1024 of a block's budget, or 1/64 where attempts double.
    pub epsilon0: Option<Epsilon>,
    /// The largest ε of an attempt. Default: whatever the allocation allows.
    pub epsilon_max: Option<Epsilon>,
    /// δ of each attempt. Default: 1/1000 of the stream's δ.
    pub delta: Option<Delta>,
    /// How the stages share the cost.
    pub shares: Shares,
}

/// How the attempts of a run follow each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Adaptation {
    /// Whether more data or more budget comes first after an attempt that was not enough.
    pub strategy: Strategy,
    /// How much of its allocation an attempt uses.
    pub mode: Mode,
    /// How the risk of a wrong verdict is divided over the attempts.
    pub risk: RiskSchedule,
    /// The maximum number of attempts.
    pub attempts: Option<u32>,
    /// How often the window may double.
    pub data_doublings: u32,
    /// When the run gives up. Without a value, submission sets a default.
    pub timeout: Option<Width>,
}

/// The stages that a pipeline has, which decide the shares that apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Stages {
    /// A feature is computed from rows.
    pub(super) features: bool,
    /// The pipeline can be rejected.
    pub(super) reject: bool,
    /// The result is validated on the test lane.
    pub(super) validate: bool,
}

const STRATEGIES: [(&str, Strategy); 3] =
    [("informed", Strategy::Informed), ("conserve", Strategy::Conserve), ("frugal", Strategy::Frugal)];
const MODES: [(&str, Mode); 2] = [("conserve", Mode::Conserve), ("aggressive", Mode::Aggressive)];
const RISKS: [(&str, RiskSchedule); 3] =
    [("falling", RiskSchedule::Falling), ("even", RiskSchedule::Even), ("probing", RiskSchedule::Probing)];
const DOUBLINGS_DEFAULT: u32 = 6;
const SHARE: &str = "a decimal from 0 to 1, such as 0.1";

impl Shares {
    /// The default split: a tenth each for features and rejection if the pipeline has these stages, the rest of the
    /// train lane for training, and the whole test lane for validation.
    fn defaults(stages: Stages) -> Self {
        let [features, reject, validate] =
            ["features", "reject", "validate"].map(|key| Self::default_share(key, stages));
        let rest = Rate::LIMIT.units() - features.units() - reject.units();
        Self { features, train: Rate::from_units(rest).unwrap_or(Rate::ZERO), reject, validate }
    }

    fn default_share(key: &str, stages: Stages) -> Rate {
        let tenth = Rate::from_units(Rate::LIMIT.units() / 10).unwrap_or(Rate::ZERO);
        match key {
            "features" if stages.features => tenth,
            "reject" if stages.reject => tenth,
            "validate" if stages.validate => Rate::LIMIT,
            _ => Rate::ZERO,
        }
    }

    fn read(budget: &Section<'_>, stages: Stages) -> Result<Self, DocumentError> {
        let Some(section) = budget.section("split")? else { return Ok(Self::defaults(stages)) };
        section.only(&["features", "train", "validate", "reject"])?;
        let stage = |key: &str, has: bool, why: &str| match has || !section.has(key) {
            true => read_share(&section, key).map(|share| share.unwrap_or_else(|| Self::default_share(key, stages))),
            false if read_share(&section, key)? == Some(Rate::ZERO) => Ok(Rate::ZERO),
            false => forbid_keys(&section, &[key], why).map(|()| Rate::ZERO),
        };
        let features = stage("features", stages.features, "no feature is computed from rows")?;
        let reject = stage("reject", stages.reject, "[validate] has no reject = true")?;
        let validate = stage("validate", stages.validate, "the pipeline has no validation on the test lane")?;
        for (key, has, share) in [
            ("features", stages.features, features),
            ("reject", stages.reject, reject),
            ("validate", stages.validate, validate),
        ] {
            if has && share == Rate::ZERO {
                return Err(section.wrong(key, "above 0: the pipeline has this stage, which needs budget"));
            }
        }
        let rest = Rate::LIMIT.units().checked_sub(features.units() + reject.units());
        let train = match read_share(&section, "train")? {
            Some(train) => Some(train).filter(|train| rest.is_some_and(|rest| train.units() <= rest)),
            None => rest.and_then(Rate::from_units),
        };
        match train.filter(|train| *train > Rate::ZERO) {
            Some(train) => Ok(Self { features, train, reject, validate }),
            None => Err(budget.wrong(
                "split",
                "a table whose train is above 0 and, with features and reject, at most 1; validate is separate, because it \
                 uses the test lane",
            )),
        }
    }
}

fn read_share(section: &Section<'_>, key: &str) -> Result<Option<Rate>, DocumentError> {
    let Some(text) = section.decimal(key, SHARE)? else { return Ok(None) };
    // Rounded down, so that shares which add up to at most one as decimals do so in units.
    Rate::ceiling(&text).map(Some).map_err(|error| section.wrong(key, format!("{SHARE} (this is {error})")))
}

impl Budget {
    pub(super) fn read(section: &Section<'_>, stages: Stages) -> Result<Self, DocumentError> {
        section.only(&["epsilon0", "epsilon_max", "delta", "split"])?;
        let epsilon0 = read_epsilon(section, "epsilon0")?;
        let epsilon_max = read_epsilon(section, "epsilon_max")?;
        if let (Some(first), Some(most)) = (epsilon0, epsilon_max)
            && first > most
        {
            return Err(section.wrong("epsilon_max", format!("at least epsilon0, which is {first}")));
        }
        const DELTA: &str = "a decimal from zero to below one, such as \"1e-9\"";
        let delta = match section.decimal("delta", DELTA)? {
            Some(text) => {
                let delta = Delta::ceiling(&text);
                Some(delta.map_err(|error| section.wrong("delta", format!("{DELTA} (this is {error})")))?)
            }
            None => None,
        };
        Ok(Self { epsilon0, epsilon_max, delta, shares: Shares::read(section, stages)? })
    }

    /// The defaults for a file without `[budget]`.
    pub(super) fn defaults(stages: Stages) -> Self {
        Self { epsilon0: None, epsilon_max: None, delta: None, shares: Shares::defaults(stages) }
    }

    pub(super) fn write(&self, out: &mut String) {
        out.push_str("\n[budget]\n");
        for (key, epsilon) in [("epsilon0", self.epsilon0), ("epsilon_max", self.epsilon_max)] {
            if let Some(epsilon) = epsilon {
                out.push_str(&format!("{key} = \"{epsilon}\"\n"));
            }
        }
        if let Some(delta) = self.delta {
            out.push_str(&format!("delta = \"{delta}\"\n"));
        }
        let Shares { features, train, reject, validate } = self.shares;
        let texts: Vec<String> = [("features", features), ("train", train), ("reject", reject), ("validate", validate)]
            .into_iter()
            .map(|(key, share)| format!("{key} = \"{share}\""))
            .collect();
        out.push_str(&format!("split = {{ {} }}\n", texts.join(", ")));
    }
}

fn read_epsilon(section: &Section<'_>, key: &str) -> Result<Option<Epsilon>, DocumentError> {
    const EPSILON: &str = "a decimal above zero, such as \"0.05\"";
    let Some(text) = section.decimal(key, EPSILON)? else { return Ok(None) };
    let epsilon =
        Epsilon::ceiling(&text).map_err(|error| section.wrong(key, format!("{EPSILON} (this is {error})")))?;
    if epsilon > Epsilon::ZERO { Ok(Some(epsilon)) } else { Err(section.wrong(key, EPSILON)) }
}

impl Adaptation {
    /// The defaults for a file without `[adapt]`.
    pub const DEFAULT: Self = Self {
        strategy: Strategy::Informed,
        mode: Mode::Conserve,
        risk: RiskSchedule::Probing,
        attempts: None,
        data_doublings: DOUBLINGS_DEFAULT,
        timeout: None,
    };

    /// The adaptation plan of a pipeline submitted at this time, in milliseconds. `first` is the (cost, blocks) of the
    /// first attempt, `most` the upper limit of both.
    ///
    /// # Errors
    /// When a number is zero, or the first attempt exceeds the limits.
    pub fn plan(&self, first: (u64, u32), most: (u64, u32), units: Units, submitted: u64) -> Result<Plan, PlanError> {
        let timeout = self.timeout.map(|width| width.microseconds().unsigned_abs() / 1_000);
        let limits = Limits {
            cost: most.0,
            window: most.1,
            attempts: self.attempts,
            data_doublings: self.data_doublings,
            deadline: timeout.map(|timeout| submitted.saturating_add(timeout)),
        };
        Plan::new(first, limits, units)?.by(self.strategy, self.mode).with_risk(self.risk)
    }

    pub(super) fn read(section: &Section<'_>) -> Result<Self, DocumentError> {
        section.only(&["strategy", "mode", "risk", "attempts", "data_doublings", "timeout"])?;
        let default = Self::DEFAULT;
        const ATTEMPTS: &str = "a whole number from 1 to 1000: the maximum number of attempts";
        const DOUBLINGS: &str = "a whole number from 0 to 30: how often the window may double";
        let attempts = match section.has("attempts") {
            true => Some(read_count(section, "attempts", 1000, ATTEMPTS)?),
            false => None,
        };
        let data_doublings = match section.has("data_doublings") {
            true => {
                let doublings = u32::try_from(section.whole_number("data_doublings", DOUBLINGS)?).ok();
                doublings.filter(|count| *count <= 30).ok_or_else(|| section.wrong("data_doublings", DOUBLINGS))?
            }
            false => default.data_doublings,
        };
        let strategy = section.choice("strategy", &STRATEGIES, Some(default.strategy))?;
        let falling = if strategy == Strategy::Informed { RiskSchedule::Probing } else { RiskSchedule::Falling };
        let risk = section.choice("risk", &RISKS, Some(falling))?;
        if risk == RiskSchedule::Even && attempts.is_none() {
            return Err(section.missing("attempts", format!("{ATTEMPTS}; risk = \"even\" divides the risk by it")));
        }
        Ok(Self {
            strategy,
            mode: section.choice("mode", &MODES, Some(default.mode))?,
            risk,
            attempts,
            data_doublings,
            timeout: read_width(section, "timeout")?,
        })
    }

    pub(super) fn write(&self, out: &mut String) {
        fn word<T: PartialEq>(words: &[(&'static str, T)], own: &T) -> &'static str {
            words.iter().find(|(_, value)| value == own).map_or("", |(word, _)| word)
        }
        out.push_str(&format!(
            "\n[adapt]\nstrategy = \"{}\"\nmode = \"{}\"\nrisk = \"{}\"\n",
            word(&STRATEGIES, &self.strategy),
            word(&MODES, &self.mode),
            word(&RISKS, &self.risk)
        ));
        if let Some(attempts) = self.attempts {
            out.push_str(&format!("attempts = {attempts}\n"));
        }
        out.push_str(&format!("data_doublings = {}\n", self.data_doublings));
        if let Some(timeout) = self.timeout {
            out.push_str(&format!("timeout = \"{timeout}\"\n"));
        }
    }
}
