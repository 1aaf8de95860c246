//! Released statistics in the shape of Feast's online features: `view:feature` for keys that the caller names.
//!
//! A view is a release and its one feature is `value`; the entity is the key by which the statistic was made.

use sage_engine::run::Published;
use serde_json::{Map, Value, json};

use super::call::{Answer, Call};
use super::problem::Problem;

pub(super) fn online(call: &Call<'_>) -> Result<Answer, Problem> {
    let asked = call.object()?;
    let features =
        asked["features"].as_array().ok_or_else(|| Problem::unfit("\"features\" is a list of \"view:value\""))?;
    let full = asked["full_feature_names"].as_bool().unwrap_or(false);
    let (entity, keys) = entity(&asked["entities"])?;
    let present = vec![json!("PRESENT"); keys.len()];
    let mut names = vec![json!(entity)];
    let mut results = vec![json!({"values": keys, "statuses": present})];
    for feature in features {
        let text = feature.as_str().unwrap_or_default();
        let (view, what) = text.split_once(':').unwrap_or((text, "value"));
        if !matches!(what, "value" | "low" | "high") {
            return Err(Problem::unfit(format!("{text:?}: a statistic has the features value, low and high")));
        }
        let published = call.engine().statistic(&call.release_named(view)?)?;
        names.push(json!(if full { format!("{view}__{what}") } else { what.to_owned() }));
        results.push(column(&published, what, &keys));
    }
    Ok(Answer::json(&json!({"metadata": {"feature_names": names}, "results": results})))
}

fn entity(entities: &Value) -> Result<(String, Vec<Value>), Problem> {
    let wrong = || Problem::unfit("\"entities\" has one entry: a name and the list of its keys");
    let entities: &Map<String, Value> = entities.as_object().filter(|one| one.len() == 1).ok_or_else(wrong)?;
    let (name, keys) = entities.iter().next().ok_or_else(wrong)?;
    let keys = keys.as_array().filter(|keys| keys.len() <= 100_000).ok_or_else(wrong)?;
    Ok((name.clone(), keys.clone()))
}

/// What a statistic says of each key; null where it says nothing.
fn column(published: &Published, what: &str, keys: &[Value]) -> Value {
    let found = keys.iter().map(|key| {
        let key = key.as_str().map_or_else(|| key.to_string(), str::to_owned);
        let line = published.lines.iter().find(|line| line.key.as_ref() == Some(&key))?;
        match what {
            "low" => line.low,
            "high" => line.high,
            _ => line.value,
        }
    });
    let values: Vec<Option<f64>> = found.collect();
    let status = |value: &Option<f64>| if value.is_some() { "PRESENT" } else { "NOT_FOUND" };
    json!({"values": values, "statuses": values.iter().map(status).collect::<Vec<_>>()})
}
