//! The cost of a set of mechanisms, as `sage account` computes it.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The cost of a set of mechanisms. A number that does not exist is `null`, with the reason in `unavailable`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct AccountReport {
    /// The neighbouring relation of every result.
    pub neighbours: String,
    /// The δ of every result.
    pub delta: f64,
    /// The mechanisms.
    pub mechanisms: Vec<MechanismReport>,
    /// ε by the distribution of the privacy loss.
    pub epsilon_pld: Option<f64>,
    /// ε by Rényi orders.
    pub epsilon_rdp: Option<f64>,
    /// ε by basic composition.
    pub epsilon_basic: Option<f64>,
    /// The noise found for a target, if one was requested.
    #[serde(flatten)]
    pub calibration: Option<Calibration>,
    /// How often the set fits under a policy, if one was given.
    #[serde(flatten)]
    pub fits: Option<FitReport>,
    /// Why a number is `null`, by the name of its field.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub unavailable: BTreeMap<String, String>,
}

/// A mechanism, and which of its fields was calibrated, if any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MechanismReport {
    /// The mechanism.
    #[serde(flatten)]
    pub mechanism: Mechanism,
    /// The field that was calibrated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub calibrated: Option<String>,
}

/// A mechanism and how often it is used.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum Mechanism {
    /// Poisson-sampled Gaussian steps.
    SampledGaussian {
        /// The sampling probability.
        q: f64,
        /// Noise over sensitivity.
        sigma: f64,
        /// The number of steps.
        steps: u32,
    },
    /// Gaussian noise.
    Gaussian {
        /// Noise over sensitivity.
        sigma: f64,
        /// The number of releases.
        count: u32,
    },
    /// Laplace noise.
    Laplace {
        /// The scale of the noise over sensitivity.
        scale: f64,
        /// The number of releases.
        count: u32,
    },
    /// Anything ε-differentially private.
    Pure {
        /// The loss of one release.
        epsilon: f64,
        /// The number of releases.
        count: u32,
    },
    /// Anything (ε, δ)-differentially private.
    BlackBox {
        /// The ε of one release.
        epsilon: f64,
        /// The δ of one release.
        delta: f64,
        /// The number of releases.
        count: u32,
    },
    /// Anything ρ-zero-concentrated differentially private.
    Zcdp {
        /// The ρ of one release.
        rho: f64,
        /// The number of releases.
        count: u32,
    },
}

/// The smallest noise within a target, in the field of the mechanism that was left open.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Calibration {
    /// The standard deviation of Gaussian noise, over sensitivity.
    Sigma {
        /// By the distribution of the privacy loss.
        sigma: Option<f64>,
        /// By Rényi orders.
        sigma_rdp: Option<f64>,
        /// The target.
        target_epsilon: f64,
    },
    /// The scale of Laplace noise, over sensitivity.
    Scale {
        /// By the distribution of the privacy loss.
        scale: Option<f64>,
        /// By Rényi orders.
        scale_rdp: Option<f64>,
        /// The target.
        target_epsilon: f64,
    },
}

/// How often the whole set fits under a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FitReport {
    /// The number of times, by the rule of the filter.
    pub fits: BTreeMap<String, u64>,
    /// The policy.
    pub policy: PolicyCeiling,
}

/// The ceiling of a policy.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PolicyCeiling {
    /// The ε of the ceiling.
    pub epsilon: f64,
    /// The δ of the ceiling.
    pub delta: f64,
    /// The δ at which one set is priced.
    pub at_delta: f64,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `--json` keeps its flat form, and a number that does not exist stays in it as `null`.
    #[test]
    fn a_report_is_one_flat_object() {
        let mechanism = Mechanism::SampledGaussian { q: 0.01, sigma: 1.5, steps: 3 };
        let report = AccountReport {
            neighbours: "add/remove one row".to_owned(),
            delta: 1e-6,
            mechanisms: vec![MechanismReport { mechanism, calibrated: Some("sigma".to_owned()) }],
            epsilon_pld: Some(1.0),
            epsilon_rdp: Some(1.25),
            epsilon_basic: None,
            calibration: Some(Calibration::Sigma { sigma: Some(1.5), sigma_rdp: None, target_epsilon: 1.0 }),
            fits: Some(FitReport {
                fits: [("renyi".to_owned(), 4)].into(),
                policy: PolicyCeiling { epsilon: 8.0, delta: 1e-6, at_delta: 1e-8 },
            }),
            unavailable: [("epsilon_basic".to_owned(), "no finite bound".to_owned())].into(),
        };
        let expected = serde_json::json!({
            "neighbours": "add/remove one row", "delta": 1e-6,
            "mechanisms": [{"kind": "sampled-gaussian", "q": 0.01, "sigma": 1.5, "steps": 3, "calibrated": "sigma"}],
            "epsilon_pld": 1.0, "epsilon_rdp": 1.25, "epsilon_basic": null,
            "sigma": 1.5, "sigma_rdp": null, "target_epsilon": 1.0,
            "fits": {"renyi": 4}, "policy": {"epsilon": 8.0, "delta": 1e-6, "at_delta": 1e-8},
            "unavailable": {"epsilon_basic": "no finite bound"},
        });
        assert_eq!(serde_json::to_value(&report).expect("a value"), expected);
        let bare = AccountReport { calibration: None, fits: None, unavailable: BTreeMap::new(), ..report };
        let bare = serde_json::to_value(&bare).expect("a value");
        let names: Vec<&String> = bare.as_object().expect("an object").keys().collect();
        assert_eq!(names, ["delta", "epsilon_basic", "epsilon_pld", "epsilon_rdp", "mechanisms", "neighbours"]);
    }
}
