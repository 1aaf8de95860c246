//! Releases over the protocols of other projects: the same numbers as on the command line.

use serde_json::{Value, json};

use crate::http::Serving;
use crate::workdir::Workdir;

/// A server with a model, its champion and a statistic; and the token of a user without a role.
fn with_releases() -> (Workdir, Serving, String) {
    let (workdir, _) = Workdir::with_rides("150_000");
    workdir.good("submit examples/duration.toml --wait --as mia");
    workdir.good("submit examples/speed.toml --wait --as mia");
    workdir.good("models alias taxi-duration champion --as mia");
    let carl = workdir.good("token create --as carl").trim().to_owned();
    let serving = Serving::start(&workdir);
    (workdir, serving, carl)
}

fn numbers(list: &Value) -> Vec<f64> {
    list.as_array().expect("a list").iter().map(|number| number.as_f64().expect("a number")).collect()
}

#[test]
fn predictions_are_the_same_by_every_route() {
    let (workdir, serving, carl) = with_releases();
    drop(serving);
    let own = numbers(&workdir.json("predict taxi-duration examples/rides.csv")["predictions"]);
    let serving = Serving::start(&workdir);
    let text = std::fs::read_to_string(workdir.path("examples/rides.csv")).expect("rides");
    let mut lines = text.lines().map(|line| line.split(',').collect::<Vec<_>>());
    let names = lines.next().expect("a header");
    let rows: Vec<Vec<&str>> = lines.collect();
    let column = |column_index: usize| rows.iter().map(|row| json!(row[column_index])).collect::<Vec<_>>();
    let inputs: Vec<Value> = (0..names.len())
        .map(|column_index| json!({"name": names[column_index], "shape": [rows.len()], "datatype": "BYTES", "data": column(column_index)}))
        .collect();
    let request = json!({"id": "42", "inputs": inputs}).to_string();
    for path in ["/v2/models/taxi-duration/infer", "/v2/models/taxi-duration/versions/champion/infer"] {
        let found = serving.good("POST", path, &carl, &request);
        assert_eq!((&found["id"], &found["model_version"]), (&json!("42"), &json!("1")), "{found}");
        assert_eq!(found["outputs"][0]["shape"], json!([rows.len()]));
        assert_eq!(numbers(&found["outputs"][0]["data"]), own);
    }
    let records: Vec<Value> = rows
        .iter()
        .map(|row| {
            Value::Object(names.iter().zip(row).map(|(name, value)| ((*name).to_owned(), json!(value))).collect())
        })
        .collect();
    let columns: Value = names
        .iter()
        .enumerate()
        .map(|(column_index, name)| ((*name).to_owned(), json!(column(column_index))))
        .collect();
    for body in [
        json!({"dataframe_split": {"columns": names, "data": rows}}),
        json!({"dataframe_records": records}),
        json!({"inputs": columns}),
    ] {
        let found = serving.good("POST", "/invocations?model=taxi-duration@champion", &carl, &body.to_string());
        assert_eq!(numbers(&found["predictions"]), own, "{body}");
        assert_eq!(serving.good("POST", "/invocations", &carl, &body.to_string()), found);
    }
    let described = serving.good("GET", "/v2/models/taxi-duration", &carl, "");
    assert_eq!((&described["platform"], &described["versions"]), (&json!("onnx_onnxv1"), &json!(["1"])));
    let input = |name: &str, value: Value| json!({"name": name, "shape": [1], "datatype": "BYTES", "data": [value]});
    let far = json!({"inputs": [
        input("distance", json!(1e9)), input("pickup", json!(names[0])), input("payment", json!("card")),
    ]});
    let refused = serving.with_token("POST", "/v2/models/taxi-duration/infer", &carl, &far.to_string());
    assert!(refused.status == 422 && refused.json()["error"].is_string(), "{}", refused.body);
    let missing = serving.get("/v2/models/none/ready", &carl);
    assert!(missing.status == 404 && missing.json()["error"].is_string(), "{}", missing.body);
}

#[test]
fn a_client_of_mlflow_finds_lists_and_fetches() {
    let (_workdir, serving, carl) = with_releases();
    let read = "/api/2.0/mlflow";
    let found =
        serving.good("GET", &format!("{read}/registered-models/alias?name=taxi-duration&alias=champion"), &carl, "");
    let version = &found["model_version"];
    assert_eq!((&version["version"], &version["status"]), (&json!("1"), &json!("READY")), "{version}");
    assert!(version["tags"].as_array().is_some_and(|tags| tags.iter().any(|tag| tag["key"] == "sage.epsilon.train")));
    let same = serving.good("GET", &format!("{read}/model-versions/get?name=taxi-duration&version=1"), &carl, "");
    assert_eq!(same, found);
    let filter = "filter=tag.%60mlflow.prompt.is_prompt%60+%21%3D+%27true%27&max_results=100";
    let all = serving.good("GET", &format!("{read}/registered-models/search?{filter}"), &carl, "");
    assert_eq!(all["registered_models"].as_array().map(Vec::len), Some(2), "{all}");
    let one =
        serving.good("GET", &format!("{read}/model-versions/search?filter=name%3D%27taxi-duration%27"), &carl, "");
    assert_eq!(one["model_versions"].as_array().map(Vec::len), Some(1), "{one}");
    let address =
        serving.good("GET", &format!("{read}/model-versions/get-download-uri?name=taxi-duration&version=1"), &carl, "");
    assert_eq!(address["artifact_uri"], "mlflow-artifacts:/taxi-duration/1");
    let artefacts = "/api/2.0/mlflow-artifacts/artifacts";
    let listed = serving.good("GET", &format!("{artefacts}?path=taxi-duration%2F1"), &carl, "");
    let files = listed["files"].as_array().expect("files");
    for (name, folder) in [("MLmodel", false), ("model.onnx", false), ("features", true)] {
        let there = files.iter().any(|file| file["path"] == name && file["is_dir"] == folder);
        assert!(there, "{name} is missing in {listed}");
    }
    let of_file = serving.good("GET", &format!("{artefacts}?path=taxi-duration%2F1%2FMLmodel"), &carl, "");
    assert_eq!(of_file["files"], json!([]));
    let file = serving.get(&format!("{artefacts}/taxi-duration/1/MLmodel"), &carl);
    assert!(file.status == 200 && file.head.contains("content-length"), "{}", file.head);
    let missing = serving.get(&format!("{read}/registered-models/get?name=none"), &carl);
    assert_eq!((missing.status, &missing.json()["error_code"]), (404, &json!("RESOURCE_DOES_NOT_EXIST")));
}

#[test]
fn a_statistic_is_looked_up_by_key() {
    let (_workdir, serving, carl) = with_releases();
    let request = json!({"features": ["speed-by-vendor:value"], "entities": {"vendor": [1, "0", 9]}});
    let found = serving.good("POST", "/get-online-features", &carl, &request.to_string());
    assert_eq!(found["metadata"]["feature_names"], json!(["vendor", "value"]));
    assert_eq!(found["results"][1]["statuses"], json!(["PRESENT", "PRESENT", "NOT_FOUND"]), "{found}");
    assert!(found["results"][1]["values"][0].is_number() && found["results"][1]["values"][2].is_null());
    let wrong = json!({"features": ["taxi-duration:value"], "entities": {"vendor": [1]}});
    assert_eq!(serving.with_token("POST", "/get-online-features", &carl, &wrong.to_string()).status, 404);
}
