//! The shapes of answers and of bodies, by the names under which the table of routes refers to them.
//!
//! Every object may have more than is said here, and always has what is required. The program's tests hold every
//! answer that they get against these shapes.

use serde_json::{Map, Value, json};

/// A named shape.
pub(super) type Schema = (&'static str, fn() -> Value);

/// An object with these fields, all of which it has.
fn object(fields: &[(&str, Value)]) -> Value {
    let names: Vec<&str> = fields.iter().map(|(name, _)| *name).collect();
    json!({"type": "object", "required": names, "properties": properties(fields)})
}

/// An object with fields that it has, and others that it may have.
fn loose(required: &[(&str, Value)], optional: &[(&str, Value)]) -> Value {
    let mut whole = object(required);
    for (name, schema) in properties(optional) {
        whole["properties"][name] = schema;
    }
    whole
}

fn properties(fields: &[(&str, Value)]) -> Map<String, Value> {
    fields.iter().map(|(name, schema)| ((*name).to_owned(), schema.clone())).collect()
}

fn text() -> Value {
    json!({"type": "string"})
}

fn count() -> Value {
    json!({"type": "integer", "minimum": 0})
}

fn truth() -> Value {
    json!({"type": "boolean"})
}

/// Or nothing.
fn maybe(kind: &str) -> Value {
    json!({"type": [kind, "null"]})
}

fn list(of: Value) -> Value {
    json!({"type": "array", "items": of})
}

fn of(name: &str) -> Value {
    json!({"$ref": format!("#/components/schemas/{name}")})
}

fn either(words: &[&str]) -> Value {
    json!({"type": "string", "enum": words})
}

/// A decimal number as text: what is counted exactly is not rounded on its way.
fn decimal() -> Value {
    json!({"type": "string", "pattern": "^[0-9]+(\\.[0-9]+)?$"})
}

fn policy_states() -> Value {
    either(&["the same", "the same, proposal withdrawn", "in force", "waits for another officer"])
}

fn lane() -> Value {
    object(&[("epsilon_spent", decimal()), ("epsilon_left", decimal())])
}

fn run(attempts: Value) -> Vec<(&'static str, Value)> {
    vec![
        ("run", count()),
        ("pipeline", text()),
        ("stream", text()),
        ("by", text()),
        ("submitted", text()),
        ("status", text()),
        ("over", truth()),
        ("attempts", attempts),
        ("release", maybe("string")),
    ]
}

fn release() -> Vec<(&'static str, Value)> {
    vec![
        ("name", text()),
        ("version", json!({"type": "integer", "minimum": 1})),
        ("kind", either(&["model", "statistic"])),
        ("stream", text()),
        ("run", count()),
        ("digest", text()),
        ("aliases", list(text())),
        ("withdrawn", maybe("string")),
    ]
}

fn tensor_head() -> Value {
    object(&[("name", text()), ("datatype", text()), ("shape", list(json!({"type": "integer"})))])
}

fn interval() -> Value {
    object(&[("value", maybe("number")), ("low", maybe("number")), ("high", maybe("number"))])
}

fn attempt() -> Value {
    object(&[
        ("attempt", count()),
        ("epsilon", json!({"type": ["string", "null"]})),
        ("blocks", count()),
        ("block_ranges", list(list(text()))),
        ("verdict", maybe("string")),
        ("estimates", json!({"type": ["array", "null"], "items": interval()})),
        ("confidence", maybe("number")),
        ("reason", maybe("string")),
    ])
}

fn run_whole() -> Value {
    let mut fields = run(list(of("Attempt")));
    fields.extend([("target", maybe("string")), ("why", text()), ("help", text())]);
    fields.push(("waits_for", maybe("object")));
    object(&fields)
}

fn release_whole() -> Value {
    let mut fields = release();
    fields.extend([("receipt", json!({"type": "object"})), ("files", list(text()))]);
    loose(&fields, &[("card", text()), ("statistic", json!({"type": "object"}))])
}

fn change_of_rows() -> Value {
    list(loose(&[("reason", text()), ("rows", count())], &[("column", maybe("string"))]))
}

fn ingested() -> Value {
    let more = [
        ("read", count()),
        ("stored", count()),
        ("quarantined", count()),
        ("dropped", change_of_rows()),
        ("changed", change_of_rows()),
    ];
    loose(&[("batch", text()), ("taken", truth())], &more)
}

fn version() -> Value {
    object(&[
        ("name", text()),
        ("version", text()),
        ("creation_timestamp", count()),
        ("last_updated_timestamp", count()),
        ("source", text()),
        ("status", text()),
        ("run_id", text()),
        ("tags", list(object(&[("key", text()), ("value", text())]))),
        ("aliases", list(text())),
    ])
}

fn registered() -> Value {
    object(&[
        ("name", text()),
        ("latest_versions", list(of("MlflowVersion"))),
        ("tags", list(json!({"type": "object"}))),
        ("aliases", list(object(&[("alias", text()), ("version", text())]))),
    ])
}

fn inference_asked() -> Value {
    let data = list(json!({"type": ["number", "string", "boolean", "null"]}));
    let shape = list(json!({"type": "integer"}));
    let tensor = loose(&[("name", text()), ("data", data)], &[("shape", shape), ("datatype", text())]);
    loose(&[("inputs", list(tensor))], &[("id", text())])
}

fn invocations_asked() -> Value {
    let split = object(&[("columns", list(text())), ("data", list(list(json!({}))))]);
    loose(
        &[],
        &[("dataframe_split", split), ("dataframe_records", list(json!({"type": "object"}))), ("inputs", json!({}))],
    )
}

fn charge_asked() -> Value {
    let cost = loose(&[("epsilon", decimal())], &[("delta", text())]);
    let required = [("key", text()), ("blocks", list(text())), ("purpose", text())];
    loose(&required, &[("train", cost.clone()), ("test", cost), ("context", text())])
}

fn problem() -> Value {
    let detail = json!({"type": "string", "description": "what happened, why, and what to do"});
    loose(&[("title", text()), ("status", count()), ("detail", detail)], &[("type", text())])
}

/// All shapes.
pub(super) const ALL: &[Schema] = &[
    ("Problem", problem),
    ("Event", || loose(&[("data", text())], &[("id", text()), ("event", text())])),
    ("InferenceError", || object(&[("error", text())])),
    ("MlflowError", || object(&[("error_code", text()), ("message", text())])),
    ("Live", || object(&[("live", truth())])),
    ("Ready", || object(&[("ready", truth())])),
    ("Version", || object(&[("name", text()), ("version", text())])),
    ("Description", || object(&[("openapi", text()), ("paths", json!({"type": "object"}))])),
    ("Stream", || {
        object(&[
            ("name", text()),
            ("unit", text()),
            ("promise", text()),
            ("epsilon_spent", decimal()),
            ("blocks", json!({"type": "object", "additionalProperties": count()})),
            ("policy_proposed_by", maybe("string")),
            ("policy_proposal", json!({"type": ["object", "null"]})),
            ("suspended", list(text())),
            ("file", text()),
        ])
    }),
    ("Streams", || list(of("Stream"))),
    ("Created", || object(&[("created", truth())])),
    ("PolicyState", || object(&[("policy", policy_states())])),
    ("Approval", || object(&[("digest", text())])),
    ("MemberStep", || loose(&[("do", either(&["suspend", "reinstate"])), ("member", text())], &[("reason", text())])),
    ("Suspended", || object(&[("suspended", list(text()))])),
    ("Census", || {
        let number = || maybe("integer");
        let range = object(&[
            ("first", text()),
            ("last", text()),
            ("train", json!({"type": "integer"})),
            ("test", json!({"type": "integer"})),
        ]);
        object(&[
            ("stream", text()),
            ("unit", maybe("string")),
            ("epsilon", maybe("string")),
            ("horizon", number()),
            ("estimate", number()),
            ("at_least", number()),
            ("confidence", maybe("number")),
            ("counts", list(range)),
        ])
    }),
    ("Quarantine", || {
        list(object(&[("file", text()), ("batch", text()), ("time", maybe("string")), ("reasons", list(text()))]))
    }),
    ("QuarantineStep", || object(&[("do", either(&["release", "erase"])), ("files", list(text()))])),
    ("QuarantineStepped", || object(&[("files", list(text())), ("batches", list(json!({"type": "object"})))])),
    ("Block", || {
        let states = either(&["open", "sealed", "retired", "deleted"]);
        object(&[("block", text()), ("state", states), ("train", lane()), ("test", lane())])
    }),
    ("Blocks", || object(&[("blocks", list(of("Block"))), ("next", maybe("integer"))])),
    ("BlocksStep", || {
        let step = either(&["seal", "retire", "delete"]);
        loose(&[("do", step)], &[("blocks", list(text())), ("before", text())])
    }),
    ("BlocksStepped", || object(&[("blocks", list(text()))])),
    ("Ingested", ingested),
    ("ChargeAsked", charge_asked),
    ("Charged", || object(&[("charge", count())])),
    ("QueryAsked", || {
        loose(
            &[("sql", text())],
            &[
                ("epsilon", json!({"type": ["string", "number", "null"]})),
                ("error", maybe("number")),
                ("last", json!({"type": ["integer", "null"], "minimum": 0})),
                ("blocks", list(text())),
                ("since", maybe("string")),
                ("until", maybe("string")),
                ("all", truth()),
                ("context", maybe("string")),
                ("plan", truth()),
            ],
        )
    }),
    // With `plan`, what it would cost; else the lines of the answer.
    ("QueryResult", || {
        let line = object(&[("keys", json!({"type": "object"})), ("values", json!({"type": "object"}))]);
        loose(
            &[("columns", list(json!({"type": ["string", "object"]})))],
            &[
                ("charge", count()),
                ("answered_before", truth()),
                ("epsilon", json!({"type": ["object", "null"]})),
                ("delta", maybe("string")),
                ("asked", json!({"type": ["object", "null"]})),
                ("confidence", json!({"type": "number"})),
                ("lines", list(line)),
            ],
        )
    }),
    ("Attempt", attempt),
    ("RunSummary", || object(&run(count()))),
    ("Runs", || object(&[("runs", list(of("RunSummary"))), ("next", maybe("integer"))])),
    ("Run", run_whole),
    ("Program", || {
        let files = json!({"type": "object", "additionalProperties": text()});
        object(&[("pipeline", text()), ("files", files)])
    }),
    ("Plan", || {
        object(&[
            ("pipeline", text()),
            ("stream", text()),
            ("first_attempt", object(&[("blocks", count()), ("epsilon", decimal())])),
            ("costliest_attempt", object(&[("epsilon", decimal())])),
            ("blocks_that_admit_it", count()),
            ("starts_now", truth()),
            ("runs_left", count()),
        ])
    }),
    ("ReleaseSummary", || object(&release())),
    ("Releases", || object(&[("releases", list(of("ReleaseSummary"))), ("next", maybe("integer"))])),
    ("Release", release_whole),
    ("Alias", || object(&[("alias", text())])),
    ("Withdrawal", || object(&[("reason", text())])),
    ("Withdrawn", || object(&[("release", text()), ("withdrawn", text())])),
    ("InferenceServer", || object(&[("name", text()), ("version", text()), ("extensions", list(text()))])),
    ("InferenceModel", || {
        object(&[
            ("name", text()),
            ("versions", list(text())),
            ("platform", text()),
            ("inputs", list(tensor_head())),
            ("outputs", list(tensor_head())),
        ])
    }),
    ("InferenceReady", || object(&[("name", text()), ("ready", truth())])),
    ("InferenceAsked", inference_asked),
    ("InferenceAnswer", || {
        let mut tensor = tensor_head();
        tensor["properties"]["data"] = list(maybe("number"));
        loose(&[("model_name", text()), ("model_version", text()), ("outputs", list(tensor))], &[("id", text())])
    }),
    ("InvocationsAsked", invocations_asked),
    ("Predictions", || object(&[("predictions", list(json!({"type": ["number", "array", "null"]})))])),
    ("FeaturesAsked", || {
        let entities = json!({"type": "object", "additionalProperties": list(json!({}))});
        loose(&[("features", list(text())), ("entities", entities)], &[("full_feature_names", truth())])
    }),
    ("Features", || {
        let names = object(&[("feature_names", list(text()))]);
        let column = object(&[("values", list(json!({}))), ("statuses", list(text()))]);
        object(&[("metadata", names), ("results", list(column))])
    }),
    ("MlflowVersion", version),
    ("MlflowModel", registered),
    ("MlflowVersionAnswer", || object(&[("model_version", of("MlflowVersion"))])),
    ("MlflowModelAnswer", || object(&[("registered_model", of("MlflowModel"))])),
    ("MlflowModels", || object(&[("registered_models", list(of("MlflowModel"))), ("next_page_token", text())])),
    ("MlflowVersions", || object(&[("model_versions", list(of("MlflowVersion"))), ("next_page_token", text())])),
    ("MlflowAddress", || object(&[("artifact_uri", text())])),
    ("MlflowFiles", || {
        let file = loose(&[("path", text()), ("is_dir", truth())], &[("file_size", count())]);
        object(&[("files", list(file))])
    }),
];
