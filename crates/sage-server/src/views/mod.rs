//! The JSON objects of Sage, each declared once.
//!
//! A view is what `--json` prints, what the HTTP API returns and what the OpenAPI document describes; the description
//! is derived from these types. [`requests`] has the shapes that clients send.

pub mod account;
pub mod audit;
pub mod census;
pub mod demo;
pub mod directory;
pub mod events;
pub mod features;
pub mod inference;
pub mod ingest;
pub mod mlflow;
pub mod plan;
pub mod quarantine;
pub mod queries;
pub mod releases;
pub mod requests;
pub mod runs;
pub mod service;
pub mod simulation;
pub mod streams;
pub mod tokens;
pub mod watch;

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, Serialize};

/// A decimal number as text, so that an exact value is not rounded in transit.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Decimal(String);

impl Decimal {
    /// The text of a value that is displayed as a decimal number.
    #[must_use]
    pub fn from_exact(value: impl std::fmt::Display) -> Self {
        Self(value.to_string())
    }

    /// The digits.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The nearest floating-point number, for text that people read.
    #[must_use]
    pub fn to_f64(&self) -> f64 {
        self.0.parse().unwrap_or(f64::NAN)
    }
}

impl std::fmt::Display for Decimal {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.pad(&self.0)
    }
}

impl JsonSchema for Decimal {
    fn inline_schema() -> bool {
        true
    }

    fn schema_name() -> Cow<'static, str> {
        "Decimal".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?$"})
    }
}

/// An estimate with its limits; `null` where the noise leaves no information.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Interval {
    /// The estimate.
    pub value: Option<f64>,
    /// The lower limit.
    pub low: Option<f64>,
    /// The upper limit.
    pub high: Option<f64>,
}

impl From<&sage_engine::run::Interval> for Interval {
    fn from(found: &sage_engine::run::Interval) -> Self {
        Self { value: found.value, low: found.low, high: found.high }
    }
}

/// A prediction as the shortest JSON number that reads back as the same `f32`.
#[must_use]
pub fn prediction(value: f32) -> serde_json::Value {
    value.to_string().parse::<f64>().map_or(serde_json::Value::Null, serde_json::Value::from)
}
