//! The description of the server (OpenAPI 3.1), made from the table of routes.

use serde_json::{Map, Value, json};

use super::call::{Answer, Call};
use super::problem::{Problem, Style};
use super::table::{Does, Needs, ROUTES, Route, Takes, Verb};

pub(super) fn describe(_: &Call<'_>) -> Result<Answer, Problem> {
    let mut paths = Map::new();
    for route in ROUTES {
        let path = route.path.replace("{*", "{");
        let verb = match route.verb {
            Verb::Get => "get",
            Verb::Post => "post",
        };
        paths.entry(path).or_insert_with(|| json!({}))[verb] = operation(route);
    }
    Ok(Answer::json(&json!({
        "openapi": "3.1.0",
        "info": {"title": "Sage", "version": env!("CARGO_PKG_VERSION"), "license": {"name": "Apache-2.0"}},
        "paths": paths,
        "components": {
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "schemas": {"Problem": problem()},
        },
    })))
}

fn problem() -> Value {
    json!({
        "type": "object",
        "required": ["title", "status", "detail"],
        "properties": {
            "type": {"type": "string"},
            "title": {"type": "string"},
            "status": {"type": "integer"},
            "detail": {"type": "string", "description": "what happened, why, and what to do"},
        },
    })
}

fn operation(route: &Route) -> Value {
    let mut parameters: Vec<Value> = named(route.path).map(|name| parameter("path", &name)).collect();
    parameters.extend(route.asks.iter().map(|name| parameter("query", name)));
    let error = match route.style() {
        Style::Page => json!({"text/html": {"schema": {"type": "string"}}}),
        Style::Details => {
            json!({"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}})
        }
        Style::Inference | Style::Mlflow => json!({"application/json": {"schema": {"type": "object"}}}),
    };
    let good = match route.does {
        Does::Watch => json!({"text/event-stream": {"schema": {"type": "string"}}}),
        Does::Answer(_) => json!({"*/*": {}}),
    };
    let mut operation = json!({
        "summary": route.summary,
        "parameters": parameters,
        "responses": {
            "2XX": {"description": "done", "content": good},
            "default": {"description": "not done", "content": error},
        },
        "security": match route.needs {
            Needs::Nothing => json!([]),
            Needs::Token => json!([{"token": []}]),
        },
    });
    if route.takes != Takes::Nothing {
        let schema = match route.takes {
            Takes::Json => json!({"type": "object"}),
            _ => json!({"type": "string"}),
        };
        operation["requestBody"] = json!({"required": true, "content": {route.takes.kind(): {"schema": schema}}});
    }
    operation
}

/// The parts of a path that have a name.
fn named(path: &str) -> impl Iterator<Item = String> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).map(|name| name.replace('*', ""))
}

fn parameter(place: &str, name: &str) -> Value {
    json!({"name": name, "in": place, "required": place == "path", "schema": {"type": "string"}})
}
