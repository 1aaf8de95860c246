//! Released statistics as Feast's online features: `view:feature` for the keys in the request.
//!
//! A view is a release with the features `value`, `low` and `high`; the entity is the key of the statistic. The size of a
//! response is the product of two lists that the caller chooses, so the product is bounded and its memory is reserved
//! before anything is looked up. The response, an [`OnlineFeatures`](crate::views::features::OnlineFeatures), is written
//! as text, without a tree of values.

use std::collections::BTreeMap;
use std::fmt::Write;

use sage_engine::run::Line;
use serde_json::{Map, Value};

use crate::call::{Call, Reply};
use crate::problem::Problem;
use crate::views::features::FeatureMetadata;

/// The most cells of one response: keys times features, the keys themselves included.
pub(crate) const MOST_CELLS: usize = 1_000_000;
/// The most bytes of one cell in a response: a number and its status.
const CELL_BYTES: usize = 48;

/// The lines of a statistic by their keys.
type Lines = BTreeMap<String, Line>;

pub(crate) fn online(call: &Call<'_>) -> Result<Reply, Problem> {
    let request = call.object()?;
    let features =
        request["features"].as_array().ok_or_else(|| Problem::unfit("\"features\" is a list of \"view:value\""))?;
    let full = request["full_feature_names"].as_bool().unwrap_or(false);
    let (entity, keys) = entity(&request["entities"])?;
    let cells = keys.len().saturating_mul(features.len().saturating_add(1)).saturating_add(features.len());
    if cells > MOST_CELLS {
        return Err(Problem::unfit(format!(
            "{} features of {} keys are more than the {MOST_CELLS} values of one request; request fewer at a time",
            features.len(),
            keys.len()
        )));
    }
    call.reserve(cells.saturating_mul(CELL_BYTES).saturating_add(2 * call.body.len()))?;
    let texts: Vec<String> =
        keys.iter().map(|key| key.as_str().map_or_else(|| key.to_string(), str::to_owned)).collect();
    let mut views: BTreeMap<&str, Lines> = BTreeMap::new();
    let mut feature_names = vec![entity.to_owned()];
    let mut results = String::new();
    column(&mut results, keys.iter().map(Some));
    for feature in features {
        let text = feature.as_str().unwrap_or_default();
        let (view, what) = text.split_once(':').unwrap_or((text, "value"));
        if !matches!(what, "value" | "low" | "high") {
            return Err(Problem::unfit(format!("{text:?}: a statistic has the features value, low and high")));
        }
        // A view that occurs several times is read once.
        if !views.contains_key(view) {
            views.insert(view, lines(call, view)?);
        }
        let lines = &views[view];
        feature_names.push(if full { format!("{view}__{what}") } else { what.to_owned() });
        let number = |line: &Line| match what {
            "low" => line.low,
            "high" => line.high,
            _ => line.value,
        };
        results.push(',');
        column(&mut results, texts.iter().map(|key| lines.get(key).and_then(number).map(Value::from)));
    }
    // A list of texts serializes without an error.
    let metadata = serde_json::to_string(&FeatureMetadata { feature_names }).unwrap_or_default();
    Ok(Reply::new("application/json", body(&metadata, &results)))
}

/// A response from the text of its metadata and of its columns.
fn body(metadata: &str, results: &str) -> String {
    format!("{{\"metadata\":{metadata},\"results\":[{results}]}}")
}

fn lines(call: &Call<'_>, view: &str) -> Result<Lines, Problem> {
    let published = call.engine().statistic(&call.release_named(view)?)?;
    Ok(published.lines.into_iter().filter_map(|line| Some((line.key.clone()?, line))).collect())
}

fn entity(entities: &Value) -> Result<(&str, &[Value]), Problem> {
    let wrong = || Problem::unfit("\"entities\" has one entry: a name and the list of its keys");
    let entities: &Map<String, Value> = entities.as_object().filter(|one| one.len() == 1).ok_or_else(wrong)?;
    let (name, keys) = entities.iter().next().ok_or_else(wrong)?;
    let keys = keys.as_array().filter(|keys| keys.len() <= 100_000).ok_or_else(wrong)?;
    Ok((name, keys))
}

/// One column of a response: a value for each key, `null` where there is none, and whether there is one.
fn column<Cell: std::fmt::Display>(out: &mut String, values: impl Iterator<Item = Option<Cell>>) {
    let mut statuses = String::new();
    out.push_str("{\"values\":[");
    for (index, value) in values.enumerate() {
        if index > 0 {
            out.push(',');
            statuses.push(',');
        }
        // Writing to a string cannot fail.
        let _ = match &value {
            Some(value) => write!(out, "{value}"),
            None => write!(out, "null"),
        };
        statuses.push_str(if value.is_some() { "\"PRESENT\"" } else { "\"NOT_FOUND\"" });
    }
    let _ = write!(out, "],\"statuses\":[{statuses}]}}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::views::features::{FeatureColumn, FeatureStatus, OnlineFeatures};

    #[test]
    fn the_written_text_is_the_described_type() {
        let metadata = FeatureMetadata { feature_names: vec!["hour \"of day\"".to_owned(), "value".to_owned()] };
        let mut results = String::new();
        column(&mut results, [Some(Value::from("a\"b")), Some(Value::from(7))].into_iter());
        results.push(',');
        column(&mut results, [Some(Value::from(0.25)), None].into_iter());
        let text = body(&serde_json::to_string(&metadata).expect("texts"), &results);
        let read: OnlineFeatures = serde_json::from_str(&text).expect("the described type");
        let (present, missing) = (FeatureStatus::Present, FeatureStatus::NotFound);
        let keys = FeatureColumn { values: vec!["a\"b".into(), 7.into()], statuses: vec![present; 2] };
        let values = FeatureColumn { values: vec![0.25.into(), Value::Null], statuses: vec![present, missing] };
        assert_eq!(read, OnlineFeatures { metadata, results: vec![keys, values] });
        assert_eq!(serde_json::to_string(&read).expect("a value"), text);
    }
}
