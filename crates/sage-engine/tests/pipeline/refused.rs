//! Refused pipeline files: each message has the line, the key, the value found and the values allowed.

use sage_engine::pipeline::{Pipeline, PipelineFileError};

use crate::read::{CLICKS, MEDIAN, OWN, TAXI};

/// A text to replace, its replacement, and the parts that the message must contain.
type Case = (&'static str, &'static str, &'static [&'static str]);

fn check(text: &str, cases: &[Case]) {
    for (from, to, parts) in cases {
        assert!(text.contains(from), "the table is out of date: {from}");
        let error = Pipeline::parse(&text.replacen(from, to, 1)).expect_err(to).to_string();
        for part in *parts {
            assert!(error.contains(part), "{to}: {error} lacks {part}");
        }
    }
}

#[test]
fn the_pipeline_itself() {
    check(
        TAXI,
        &[
            ("[pipeline]", "[pipelin]", &["line 2", "`pipelin`", "did you mean `pipeline`?"]),
            ("stream = \"taxi\"", "steam = \"taxi\"", &["line 4", "`pipeline.steam`", "did you mean `stream`?"]),
            ("name = \"taxi-duration\"", "name = \"Taxi\"", &["line 3", "is \"Taxi\"", "small letters"]),
            ("stream = \"taxi\"", "", &["line 2", "`pipeline.stream` is missing"]),
            ("label = \"duration\"", "", &["`pipeline.label` is missing", "the label to predict"]),
            ("label = \"duration\"", "label = 3", &["line 5", "`pipeline.label` is 3", "truth"]),
            ("label = \"duration\"", "label = { sql = \"a\" }", &["`pipeline.label.bounds` is missing"]),
            ("label = \"duration\"", "label = { sql = \"a\", bounds = [1, 0] }", &["lower one first"]),
            ("label = \"duration\"", "label = { truth = \"a\" }", &["line 5", "for regression"]),
            ("max = \"90d\"", "max = \"6d\"", &["line 6", "`pipeline.window.max` is \"6d\"", "at least min"]),
            ("max = \"90d\"", "max = 90", &["line 6", "at least min, and like it a length of time"]),
            ("min = \"7d\"", "min = \"7y\"", &["line 6", "`pipeline.window.min` is \"7y\"", "\"7d\""]),
            ("min = \"7d\"", "min = 0", &["line 6", "whole number of blocks from 1"]),
            ("filter = \"distance > 0\"", "filter = \" \"", &["line 7", "SQL expression"]),
            ("every = \"1d\"", "every = 1", &["line 8", "length of time"]),
            ("[train]", "[trian]", &["`trian`", "did you mean `train`?"]),
            ("[pipeline]", "[pipeline", &["line 2", "invalid TOML"]),
        ],
    );
    assert!(matches!(Pipeline::parse(""), Err(PipelineFileError::Missing { line: 1, .. })));
}

#[test]
fn limits() {
    let with = "[pipeline]";
    check(
        OWN,
        &[
            (with, "[limits]\ntime = 5\n[pipeline]", &["`limits.time` is 5", "length of time"]),
            (
                with,
                "[limits]\nmemory_megabytes = 0\n[pipeline]",
                &["`limits.memory_megabytes` is 0", "millions of bytes"],
            ),
            (with, "[limits]\nmemory = 5\n[pipeline]", &["`limits.memory`"]),
            ("command =", "rows = \"csv\"\ncommand =", &["`train.rows` is \"csv\"", "\"parquet\"", "\"flight\""]),
        ],
    );
}

#[test]
fn features() {
    let scale = "{ column = \"distance\", scale = [0, 100] }";
    check(
        TAXI,
        &[
            (scale, "{ colum = \"distance\" }", &["line 10", "`pipeline.features[0].colum`", "did you mean `column`?"]),
            (scale, "{ column = \"distance\" }", &["line 10", "how the value is encoded"]),
            (scale, "{ scale = [0, 1] }", &["line 10", "`pipeline.features[0].column` is missing"]),
            (scale, "{ column = \"a\", sql = \"b\", scale = [0, 1] }", &["`pipeline.features[0].sql`", "left out"]),
            (scale, "{ column = \"a\", scale = [0, 1], hash = 5 }", &["one encoding, and `scale` is given"]),
            (scale, "{ column = \"a\", scale = [0, inf] }", &["two finite numbers"]),
            (scale, "{ column = \"a\", scale = [0] }", &["two finite numbers"]),
            (
                scale,
                "{ column = \"a\", scale = [0, 1], missing = 2 }",
                &["`pipeline.features[0].missing` is 2", "from 0.0"],
            ),
            (scale, "{ column = \"a\", scale = [0, 1], missing = nan }", &["`pipeline.features[0].missing`"]),
            (scale, "{ column = \"a\", scale = [0, 1], missing = \"mean\" }", &["\"mean\"", "\"indicator\""]),
            (scale, "{ column = \"a\", onehot = 3, missing = 1 }", &["`pipeline.features[0].missing`", "\"category\""]),
            (scale, "{ cross = [\"a\", \"b\"], missing = 1 }", &["`pipeline.features[0].missing`"]),
            (scale, "{ column = \"a\", onehot = 0 }", &["`pipeline.features[0].onehot` is 0", "1 to 1048576"]),
            (scale, "{ column = \"a\", onehot = [\"x\", \"x\"] }", &["different texts"]),
            (scale, "{ column = \"a\", bucket = [2, 1] }", &["ascending order"]),
            (scale, "{ column = \"a\", hash = 2000000 }", &["is 2000000", "1 to 1048576"]),
            (scale, "{ sql = \"a\", scale = [0, 1] }", &["`pipeline.features[0].name` is missing", "no default name"]),
            (
                scale,
                "{ column = \"hour\", onehot = 5 }",
                &["`pipeline.features[1].name` is \"hour\"", "no other feature"],
            ),
            (scale, "{ cross = [\"a\", \"b\"] }", &["line 10", "two earlier features"]),
            (scale, "{ cross = [\"a\"], column = \"b\" }", &["`pipeline.features[0].column`", "left out"]),
            (scale, "5", &["line 9", "a list of tables"]),
            (", keys = 24", "", &["line 12", "`pipeline.features[2].keys` is missing"]),
            (
                ", bounds = [0, 100]",
                ", hash = 5",
                &["`pipeline.features[2].hash`", "takes group_mean, by, keys and bounds"],
            ),
        ],
    );
    check(
        CLICKS,
        &[
            ("cross = [\"device\", \"price\"]", "cross = [\"device\", \"site_x_device\"]", &["encoded by onehot"]),
            ("cross = [\"device\", \"price\"]", "cross = [\"device\", \"device\"]", &["two earlier features"]),
        ],
    );
    let many = CLICKS.replace("hash = 1024", "hash = 1048576").replace("hash = 4096", "");
    let error = Pipeline::parse(&many).expect_err("too many pairs").to_string();
    assert!(error.contains("`pipeline.features[3].hash` is missing") && error.contains("3145731 pairs"), "{error}");
}

#[test]
fn training() {
    check(
        TAXI,
        &[
            ("kind = \"ridge\"", "kind = \"rigde\"", &["line 16", "did you mean \"ridge\"?"]),
            ("kind = \"ridge\"", "kind = \"ridge\"\nlayers = [5]", &["line 17", "no key `train.layers`"]),
            (
                "kind = \"ridge\"",
                "kind = \"logistic\"",
                &["`validate.metric` is \"mse\"", "\"log_loss\", \"accuracy\" or \"auc\""],
            ),
            ("kind = \"ridge\"", "kind = \"statistic\"", &["`train.statistic` is missing", "\"quantile\""]),
            ("kind = \"ridge\"", "", &["`train.kind` is missing"]),
        ],
    );
    check(
        CLICKS,
        &[
            ("layers = [64, 16]", "layers = []", &["1 to 16 whole numbers"]),
            ("layers = [64, 16]", "layers = [0.5]", &["1 to 16 whole numbers"]),
            ("batch = 512", "batch = 0", &["`train.batch` is 0"]),
            ("learning_rate = 0.01", "learning_rte = 0.01", &["did you mean `learning_rate`?"]),
            ("learning_rate = 0.01", "learning_rate = 0", &["above 0"]),
            ("momentum = 0.9", "momentum = 1", &["`train.momentum` is 1", "below 1"]),
            ("clip = 2", "clip = nan", &["`train.clip` is nan"]),
            ("factor = 0.5", "factor = 2", &["`train.schedule.factor` is 2"]),
            ("{ factor = 0.5, every = 100 }", "\"cosin\"", &["did you mean \"cosine\"?"]),
        ],
    );
    check(
        MEDIAN,
        &[
            ("at = [0.5, 0.9]", "at = [0.9, 0.5]", &["ascending order"]),
            ("at = [0.5, 0.9]", "at = [1]", &["between 0 and 1"]),
            ("at = [0.5, 0.9]", "by = \"hour\"", &["`train.by`", "no such key"]),
            ("stream = \"taxi\"", "stream = \"taxi\"\nlabel = \"x\"", &["`pipeline.label`", "left out"]),
            ("metric = \"precision\"", "metric = \"mse\"\nbound = 1", &["\"precision\" for this kind of [train]"]),
        ],
    );
    check(
        OWN,
        &[
            ("[\"python\", \"train.py\", \"--deep\"]", "[]", &["`train.command`", "a program"]),
            ("[\"python\", \"train.py\", \"--deep\"]", "\"python\"", &["`train.command` is \"python\""]),
            ("time_limit = \"2h\"", "timeout = \"2h\"", &["no key `train.timeout`", "time_limit"]),
        ],
    );
}

#[test]
fn validation() {
    check(
        TAXI,
        &[
            ("[validate]", "[valdate]", &["did you mean `validate`?"]),
            ("target = 0.0024", "target = 1.0", &["line 20", "`validate.target` is 1.0", "below `bound`"]),
            ("target = 0.0024", "target = 0", &["above 0"]),
            ("target = 0.0024", "", &["line 18", "`validate.target` is missing"]),
            ("target = 0.0024", "target = 0.1\nbetter_than = \"x\"", &["`validate.target`", "replaces the target"]),
            ("target = 0.0024", "target = 0.1\nmargin = 0.1", &["`validate.margin`", "needs better_than"]),
            ("target = 0.0024", "better_than = \"\"", &["alias"]),
            ("bound = 1.0", "", &["`validate.bound` is missing", "one row's loss"]),
            ("confidence = 0.95", "confidence = 95", &["`validate.confidence` is 95", "between 0 and 1"]),
            ("confidence = 0.95", "test = \"kll\"", &["did you mean \"kl\"?"]),
            ("metric = \"mse\"", "metric = \"rmse\"", &["did you mean \"mse\"?"]),
            (
                "metric = \"mse\"",
                "metric = \"absolute\"\nreject = true",
                &["`validate.reject` is true", "mse", "accuracy"],
            ),
            ("metric = \"mse\"", "metric = \"accuracy\"", &["`validate.bound`", "not a loss"]),
        ],
    );
    let open = TAXI.replace("[validate]\nmetric = \"mse\"\ntarget = 0.0024\nbound = 1.0\nconfidence = 0.95\n", "");
    let error = Pipeline::parse(&open).expect_err("a model without a target").to_string();
    assert!(error.contains("`validate` is missing") && error.contains("reaches a target"), "{error}");
    check(MEDIAN, &[("target = 0.5", "better_than = \"old\"", &["not a baseline model"])]);
    check(OWN, &[("metric = \"absolute\"", "metric = \"log_loss\"", &["`pipeline.label`", "for classification"])]);
}

#[test]
fn budgets_and_adaptation() {
    let split = "split = { features = 0.1, train = 0.8, validate = 0.1 }";
    check(
        TAXI,
        &[
            ("epsilon0 = 0.05", "epsilom0 = 0.05", &["line 25", "did you mean `epsilon0`?"]),
            ("epsilon0 = 0.05", "epsilon0 = 0", &["line 25", "above zero"]),
            ("epsilon0 = 0.05", "epsilon0 = -1", &["negative"]),
            ("epsilon0 = 0.05", "epsilon0 = nan", &["`budget.epsilon0` is nan"]),
            ("epsilon_max = 0.5", "epsilon_max = 0.04", &["line 26", "at least epsilon0, which is 0.05"]),
            ("delta = 1e-7", "delta = 1", &["line 27", "below one"]),
            (split, "split = { features = 0.3, train = 0.8 }", &["line 28", "`budget.split`", "at most 1"]),
            (split, "split = { features = 1 }", &["`budget.split`", "above 0"]),
            (split, "split = { train = 1.1 }", &["`budget.split.train` is 1.1"]),
            (split, "split = { validate = 0 }", &["`budget.split.validate` is 0", "needs budget"]),
            (split, "split = { features = 0 }", &["`budget.split.features` is 0", "needs budget"]),
            (split, "split = { reject = 0.1 }", &["`budget.split.reject`", "reject = true"]),
            (split, "split = { trian = 0.8 }", &["did you mean `train`?"]),
        ],
    );
    check(
        CLICKS,
        &[
            ("[adapt]", "[adapt]\nepsilon0 = 0.1", &["no key `adapt.epsilon0`"]),
            ("strategy = \"conserve\"", "strategy = \"frugl\"", &["did you mean \"frugal\"?"]),
            ("mode = \"aggressive\"", "mode = 1", &["\"conserve\" or \"aggressive\""]),
            ("attempts = 8", "", &["`adapt.attempts` is missing", "divides the risk by it"]),
            ("attempts = 8", "attempts = 0", &["`adapt.attempts` is 0"]),
            ("data_doublings = 3", "data_doublings = 31", &["0 to 30"]),
            ("timeout = \"2w\"", "timeout = \"soon\"", &["`adapt.timeout` is \"soon\""]),
            ("[adapt]", "[budget]\nsplit = { features = 0.1 }\n[adapt]", &["`budget.split.features`", "no feature"]),
        ],
    );
    check(
        MEDIAN,
        &[("[validate]", "[budget]\nsplit = { validate = 0.5 }\n[validate]", &["no validation on the test lane"])],
    );
}

/// Shares are exact decimals: ten tenths are one.
#[test]
fn shares_add_up_without_rounding() {
    let reject = TAXI
        .replace("metric = \"mse\"", "metric = \"mse\"\nreject = true")
        .replace("train = 0.8, validate = 0.1", "train = 0.7, reject = 0.2");
    assert!(Pipeline::parse(&reject).is_ok());
    let over = reject.replace("train = 0.7", "train = 0.7000000001");
    assert!(Pipeline::parse(&over).is_err());
}
