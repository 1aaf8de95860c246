//! The OpenAPI 3.1 document of the server, generated from the route table.

use std::sync::OnceLock;

use bytes::Bytes;
use sage_engine::EVENT_KINDS;
use serde_json::{Map, Value, json};

use crate::body::BodyKind;
use crate::call::Reply;
use crate::handlers::events::LONGEST;
use crate::problem::Style;
use crate::schemas;
use crate::table::{Authentication, ResponseKind, Route, Verb, routes};

/// The document. It is generated once, because it depends on the program only.
pub(crate) fn describe() -> Reply {
    static MADE: OnceLock<Bytes> = OnceLock::new();
    Reply::new("application/json", MADE.get_or_init(|| Bytes::from(description().to_string())).clone())
}

fn description() -> Value {
    let mut paths = Map::new();
    for route in routes() {
        let path = route.path.replace("{*", "{");
        let verb = match route.verb {
            Verb::Get => "get",
            Verb::Post => "post",
        };
        paths.entry(path).or_insert_with(|| json!({}))[verb] = operation(route);
    }
    let schemas = schemas::all();
    json!({
        "openapi": "3.1.0",
        "info": {"title": "Sage", "version": env!("CARGO_PKG_VERSION"), "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": schemas,
        },
    })
}

fn reference(name: &str) -> Value {
    json!({"schema": {"$ref": format!("#/components/schemas/{name}")}})
}

fn operation(route: &Route) -> Value {
    let mut parameters: Vec<Value> = named(route.path).map(|name| parameter("path", &name)).collect();
    parameters.extend(route.query.iter().map(|name| parameter("query", name)));
    parameters.extend(route.headers.iter().map(|name| parameter("header", name)));
    let error = match route.style() {
        Style::Page => json!({"text/html": {"schema": {"type": "string"}}}),
        Style::Details => json!({"application/problem+json": reference("Problem")}),
        Style::Inference => json!({"application/json": reference("InferenceError")}),
        Style::Mlflow => json!({"application/json": reference("MlflowError")}),
    };
    let mut responses = Map::new();
    for response in route.responses {
        let (status, content) = match response {
            ResponseKind::Json(status, name) => (status, json!({"application/json": reference(name)})),
            // A stream of events is described by one event.
            ResponseKind::Other(status, kind @ "text/event-stream") => (status, json!({*kind: reference("Event")})),
            ResponseKind::Other(status, kind) => (status, json!({*kind: {"schema": {"type": "string"}}})),
        };
        responses.insert(status.to_string(), json!({"description": "done", "content": content}));
    }
    responses.insert("default".to_owned(), json!({"description": "not done", "content": error}));
    let mut operation = json!({
        "summary": route.summary,
        "parameters": parameters,
        "responses": responses,
        "security": match route.authentication {
            Authentication::Nothing => json!([]),
            Authentication::Token => json!([{"token": []}]),
        },
        // The access tests are generated from this.
        "x-audience": route.audience.word(),
    });
    if route.body != BodyKind::Nothing {
        let schema = |kind: &str| match route.schema {
            Some(name) if kind == "application/json" => reference(name),
            _ => json!({"schema": {"type": "string"}}),
        };
        let content: Map<String, Value> =
            route.body.kinds().iter().map(|kind| ((*kind).to_owned(), schema(kind))).collect();
        operation["requestBody"] = json!({"required": true, "content": content});
    }
    operation
}

/// The parameters of a path.
fn named(path: &str) -> impl Iterator<Item = String> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).map(|name| name.replace('*', ""))
}

fn parameter(location: &str, name: &str) -> Value {
    let schema = match name {
        "after" | "before" | "from" | "limit" | "run" | "Last-Event-ID" => json!({"type": "integer", "minimum": 0}),
        "seconds" => json!({"type": "integer", "minimum": 0, "maximum": LONGEST}),
        "kind" => json!({"type": "string", "enum": EVENT_KINDS}),
        _ => json!({"type": "string"}),
    };
    json!({"name": name, "in": location, "required": location == "path", "schema": schema})
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every text under a key, at any depth.
    fn references(value: &Value, found: &mut Vec<String>) {
        match value {
            Value::Array(list) => list.iter().for_each(|one| references(one, found)),
            Value::Object(map) => {
                found.extend(map.get("$ref").and_then(Value::as_str).map(str::to_owned));
                map.values().for_each(|one| references(one, found));
            }
            _ => {}
        }
    }

    #[test]
    fn every_route_has_responses_and_every_schema_is_used() {
        let mut found = Vec::new();
        for route in routes() {
            assert!(!route.responses.is_empty(), "{} has no responses", route.path);
            references(&operation(route), &mut found);
        }
        let schemas = schemas::all();
        schemas.values().for_each(|schema| references(schema, &mut found));
        let name = |reference: &String| reference.rsplit('/').next().unwrap_or_default().to_owned();
        let used: std::collections::BTreeSet<String> = found.iter().map(name).collect();
        let known: std::collections::BTreeSet<String> = schemas.keys().cloned().collect();
        assert_eq!(used, known);
    }
}
