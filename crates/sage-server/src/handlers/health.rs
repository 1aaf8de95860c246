//! Liveness, readiness, version and metrics.
//!
//! Metrics contain no row counts and no single block: for each stream the largest loss of any block, and the number of
//! blocks in each state.

use std::fmt::Write;
use std::sync::atomic::Ordering;

use crate::Server;
use crate::call::{Call, Reply};
use crate::clock::now;
use crate::problem::Problem;
use crate::views::service::{Live, Ready, Version};

pub(crate) fn live() -> Reply {
    Reply::json(&Live { live: true })
}

/// Ready: the log can be read and written, and the worker is running.
pub(crate) fn ready(call: &Call<'_>) -> Result<Reply, Problem> {
    call.server.standing.writable()?;
    if !call.server.working.load(Ordering::Relaxed) {
        return Err(Problem::busy("the worker has ended; nothing is performed until the server is restarted"));
    }
    call.engine().log_length()?;
    Ok(Reply::json(&Ready { ready: true }))
}

pub(crate) fn version() -> Reply {
    Reply::json(&Version { name: "sage".to_owned(), version: env!("CARGO_PKG_VERSION").to_owned() })
}

/// Metrics in the text format of Prometheus.
pub(crate) fn metrics(call: &Call<'_>) -> Result<Reply, Problem> {
    let snapshot = call.engine().snapshot()?;
    let mut text = String::new();
    let mut put = |line: std::fmt::Arguments<'_>| {
        // Writing to a string cannot fail.
        let _ = text.write_fmt(line);
        text.push('\n');
    };
    if !call.has_a_role() {
        return Err(Problem::forbidden("metrics need a role on a stream, or an admin token"));
    }
    // Users who cannot see every stream get numbers about all streams only once per disclosure interval.
    let admin = call.caller()?.admin;
    let length =
        if admin { snapshot.head().length } else { call.server.disclosure.outside(call.engine(), now()).length() };
    put(format_args!("# HELP sage_ledger_seq Events in the log.\n# TYPE sage_ledger_seq counter"));
    put(format_args!("sage_ledger_seq {length}"));
    if admin {
        operator(call, &mut put);
    }
    put(format_args!("# HELP sage_blocks Blocks of a stream by state.\n# TYPE sage_blocks gauge"));
    let streams: Vec<_> = snapshot.streams().into_iter().filter(|stream| call.sees(&stream.name)).collect();
    for stream in &streams {
        for (state, count) in stream.blocks {
            put(format_args!("sage_blocks{{stream=\"{}\",state=\"{state}\"}} {count}", label(&stream.name)));
        }
    }
    put(format_args!(
        "# HELP sage_stream_epsilon_lost The largest loss of any block.\n# TYPE sage_stream_epsilon_lost gauge"
    ));
    for stream in &streams {
        put(format_args!("sage_stream_epsilon_lost{{stream=\"{}\"}} {}", label(&stream.name), stream.spent));
    }
    put(format_args!(
        "# HELP sage_models_failing Released models that did not pass their last concluded test.\n# TYPE \
         sage_models_failing gauge"
    ));
    let releases = call.releases();
    for stream in &streams {
        let failing = |one: &&sage_engine::ReleaseView| one.stream == stream.name && one.withdrawn.is_none();
        let count = releases.iter().filter(failing).filter(|one| one.failing.is_some()).count();
        put(format_args!("sage_models_failing{{stream=\"{}\"}} {count}", label(&stream.name)));
    }
    put(format_args!("# HELP sage_runs Runs by status.\n# TYPE sage_runs gauge"));
    let mut runs = std::collections::BTreeMap::<(String, &str), u64>::new();
    for run in call.engine().runs().into_iter().filter(|run| call.sees(&run.stream)) {
        *runs.entry((run.stream.clone(), run.status())).or_default() += 1;
    }
    for ((stream, status), count) in runs {
        put(format_args!("sage_runs{{stream=\"{}\",status=\"{status}\"}} {count}", label(&stream)));
    }
    Ok(Reply::new("text/plain; version=0.0.4; charset=utf-8", text))
}

/// Metrics for the operator.
fn operator(call: &Call<'_>, put: &mut impl FnMut(std::fmt::Arguments<'_>)) {
    let server = call.server;
    put(format_args!(
        "# HELP sage_attempts_total Attempts performed since the start.\n# TYPE sage_attempts_total counter"
    ));
    put(format_args!("sage_attempts_total {}", server.attempts.load(Ordering::Relaxed)));
    put(format_args!("# HELP sage_http_answers_total Responses by status.\n# TYPE sage_http_answers_total counter"));
    for (status, count) in server.statuses.counted() {
        put(format_args!("sage_http_answers_total{{status=\"{status}\"}} {count}"));
    }
    put(format_args!("# HELP sage_writable Whether changes are accepted.\n# TYPE sage_writable gauge"));
    put(format_args!("sage_writable {}", u8::from(!server.standing.is_troubled())));
    put(format_args!("# HELP sage_spans_dropped_total Spans not sent.\n# TYPE sage_spans_dropped_total counter"));
    put(format_args!("sage_spans_dropped_total {}", server.telemetry.dropped()));
    load(server, put);
}

/// Capacity in use, and refusals.
fn load(server: &Server, put: &mut impl FnMut(std::fmt::Arguments<'_>)) {
    let [requests, listeners, memory] = server.admission.in_use();
    for (name, help, value) in [
        ("sage_connections", "Open connections.", server.connections.count()),
        ("sage_connections_limit", "The limit of open connections.", server.connections.most()),
        ("sage_requests_in_flight", "Requests in progress.", requests),
        ("sage_listeners", "Event listeners.", listeners),
        ("sage_request_memory_bytes", "Memory that requests have reserved.", memory),
    ] {
        put(format_args!("# HELP {name} {help}\n# TYPE {name} gauge\n{name} {value}"));
    }
    put(format_args!(
        "# HELP sage_refused_total Connections and requests refused or cut off, by reason.\n# TYPE sage_refused_total \
         counter"
    ));
    for (reason, count) in server.admission.refusals.counted() {
        put(format_args!("sage_refused_total{{reason=\"{}\"}} {count}", reason.word()));
    }
}

fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
