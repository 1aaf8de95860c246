//! Third-party clients: curl, sqlite3 on the log, and with a Python that has them (`SAGE_CLIENTS_PYTHON`, set by
//! `cargo xtask check --all`) MLflow's client and one of the Open Inference Protocol.

use std::process::Command;

use crate::http::Serving;
use crate::server::token;
use crate::standing::there;
use crate::workdir::Workdir;

#[test]
fn curl_asks_and_sqlite3_reads_the_log() {
    let (workdir, _) = Workdir::with_rides("2_000");
    let mia = token(&workdir, "mia");
    let serving = Serving::start(&workdir);
    if there("curl", "the client curl") {
        let curl = |rest: &[&str]| {
            let mut command = Command::new("curl");
            command.args(["--silent", "--show-error", "--fail-with-body", "--max-time", "30"]).args(rest);
            let output = command.output().expect("curl runs");
            (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
        };
        let (bearer, base) = (format!("Authorization: Bearer {mia}"), format!("http://{}", serving.address));
        let (good, body) = curl(&["--compressed", "-H", &bearer, &format!("{base}/v1/streams/taxi")]);
        assert!(good && body.contains("\"name\":\"taxi\""), "{body}");
        let file = format!("@{}", workdir.path("examples/duration.toml").display());
        let (good, body) = curl(&["-H", &bearer, "--data-binary", &file, &format!("{base}/v1/plan")]);
        assert!(good && body.contains("\"starts_now\""), "{body}");
        let (good, body) = curl(&[&format!("{base}/v1/streams")]);
        assert!(!good && body.contains("needs a token"), "{body}");
    }
    if there("sqlite3", "the client sqlite3") {
        // Beside the server, as its operator would.
        let log = format!("file:{}?mode=ro", workdir.path("sage-data/log.db").display());
        let queries = "SELECT count(*) = max(number) + 1 FROM record; SELECT length = (SELECT count(*) FROM record) FROM head; \
                       PRAGMA integrity_check;";
        let output = Command::new("sqlite3").args([&log, queries]).output().expect("sqlite3 runs");
        assert_eq!(
            String::from_utf8_lossy(&output.stdout),
            "1\n1\nok\n",
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }
}

const PYTHON: &str = r#"
import json, os, sys, urllib.request
import numpy, pandas, mlflow
from mlflow import MlflowClient
import tritonclient.http

client = MlflowClient()
assert [one.name for one in client.search_registered_models()] == ["taxi-duration"]
version = client.get_model_version_by_alias("taxi-duration", "champion")
assert version.version in ("1", 1) and version.tags["sage.stream"] == "taxi", version
assert len(client.search_model_versions("name='taxi-duration'")) == 1
model = mlflow.pyfunc.load_model("models:/taxi-duration@champion")
texts = {"pickup": ["2026-11-02T08:15:00", "2026-11-02T23:40:00"], "distance": ["2.5", "12.0"], "payment": ["card", "cash"]}
seconds = [1793607300, 1793662800]
frame = pandas.DataFrame({"pickup": numpy.array(seconds, dtype="int64"), "distance": [2.5, 12.0], "payment": pandas.Series(texts["payment"], dtype=object)})
found = model.predict(frame)
found = list(numpy.asarray(found["prediction"] if isinstance(found, dict) else found, dtype=float).ravel())
address = os.environ["MLFLOW_TRACKING_URI"]
bearer = {"Authorization": "Bearer " + os.environ["MLFLOW_TRACKING_TOKEN"]}
triton = tritonclient.http.InferenceServerClient(address.split("://")[1])
assert triton.is_server_live(headers=bearer) and triton.is_server_ready(headers=bearer)
assert triton.is_model_ready("taxi-duration", headers=bearer)
metadata = triton.get_model_metadata("taxi-duration", headers=bearer)
inputs = []
for column in metadata["inputs"]:
    values = numpy.array(texts[column["name"]], dtype=object)
    tensor = tritonclient.http.InferInput(column["name"], [len(values)], "BYTES")
    tensor.set_data_from_numpy(values, binary_data=False)
    inputs.append(tensor)
wanted = [tritonclient.http.InferRequestedOutput("prediction", binary_data=False)]
answer = triton.infer("taxi-duration", inputs, outputs=wanted, headers=bearer).as_numpy("prediction")
served = [float(number) for number in answer.ravel()]
assert len(served) == 2 and all(abs(a - b) < 1e-5 for a, b in zip(served, found)), (served, found)
print("good")
"#;

#[test]
fn clients_in_python_find_load_and_ask() {
    let Some(python) = std::env::var_os("SAGE_CLIENTS_PYTHON") else {
        println!("SAGE_CLIENTS_PYTHON is not set, so the clients of MLflow and of the inference protocol are left out");
        return;
    };
    let (workdir, _) = Workdir::with_rides("150_000");
    workdir.good("submit examples/duration.toml --wait --as mia");
    workdir.good("models alias taxi-duration champion --as mia");
    let carl = token(&workdir, "carl");
    let serving = Serving::start(&workdir);
    let output = Command::new(python)
        .args(["-c", PYTHON])
        .env("MLFLOW_TRACKING_URI", format!("http://{}", serving.address))
        .env("MLFLOW_TRACKING_TOKEN", &carl)
        .output()
        .expect("Python runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && String::from_utf8_lossy(&output.stdout).contains("good"), "{said}");
}
