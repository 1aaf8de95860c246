//! OpenTelemetry spans, configured by the standard `OTEL_*` variables.
//!
//! A span is a request, with its route and status, or an attempt, with its run and verdict. It contains no row, no
//! actual path, no name and no count; the times of an attempt are rounded to disclosure intervals. Spans are sent as
//! JSON in the background. If the receiver is slow or unreachable, they are dropped and counted, and no request waits.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use serde::Serialize;
use tokio::sync::mpsc::{Receiver, Sender, channel};

use crate::diagnostics::note;

/// The most spans in the queue, and in one batch.
const WAITING: usize = 2048;
const TOGETHER: usize = 256;
/// How long a batch waits for further spans.
const GATHERING: Duration = Duration::from_millis(500);
const PATIENCE: Duration = Duration::from_secs(10);

/// The receiver of spans, and the sampling.
pub(crate) struct Telemetry {
    sender: Option<Sender<OtlpSpan>>,
    /// The share of traces that are sampled, of 2⁶⁴.
    share: u64,
    /// Whether the caller's own sampling decision is followed.
    heeds_parent: bool,
    dropped: AtomicU64,
}

/// The queue of spans and its receiver.
pub(crate) struct Export {
    spans: Receiver<OtlpSpan>,
    address: String,
    headers: Vec<(String, String)>,
    service: String,
}

/// The trace of a request, from its `traceparent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Parent {
    trace: String,
    span: String,
    sampled: bool,
}

/// A span, with times in nanoseconds since 1970.
pub(crate) struct Span<'a> {
    pub(crate) name: &'a str,
    pub(crate) parent: Option<&'a Parent>,
    pub(crate) began: u64,
    pub(crate) ended: u64,
    pub(crate) fields: &'a [(&'static str, AttributeValue)],
    pub(crate) kind: Kind,
    pub(crate) good: bool,
}

/// The kind of a span.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Internal work.
    Internal = 1,
    /// A request to the server.
    Server = 2,
}

/// The value of an attribute, as OTLP's JSON encodes it: whole numbers are texts.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) enum AttributeValue {
    IntValue(String),
    StringValue(String),
}

impl AttributeValue {
    pub(crate) fn whole(number: u64) -> Self {
        Self::IntValue(number.to_string())
    }

    pub(crate) fn text(text: &str) -> Self {
        Self::StringValue(text.to_owned())
    }
}

/// A named attribute of a span or of the service.
#[derive(Serialize)]
struct Attribute {
    key: &'static str,
    value: AttributeValue,
}

/// A span in OTLP's JSON.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OtlpSpan {
    attributes: Vec<Attribute>,
    end_time_unix_nano: String,
    kind: u8,
    name: String,
    parent_span_id: String,
    span_id: String,
    start_time_unix_nano: String,
    status: OtlpStatus,
    trace_id: String,
}

#[derive(Serialize)]
struct OtlpStatus {
    /// 0: unset, 2: an error.
    code: u8,
}

/// A batch of spans, as OTLP's `ExportTraceServiceRequest`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ExportRequest {
    resource_spans: [ResourceSpans; 1],
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ResourceSpans {
    resource: Resource,
    scope_spans: [ScopeSpans; 1],
}

#[derive(Serialize)]
struct Resource {
    attributes: [Attribute; 2],
}

#[derive(Serialize)]
struct ScopeSpans {
    scope: Scope,
    spans: Vec<OtlpSpan>,
}

#[derive(Serialize)]
struct Scope {
    name: &'static str,
}

impl Telemetry {
    /// Reads the environment. Exports nothing if no receiver is configured.
    pub(crate) fn new(variable: impl Fn(&str) -> Option<String>) -> (Self, Option<Export>) {
        let set = |name: &str| variable(name).filter(|text| !text.trim().is_empty());
        let off = Self { sender: None, share: 0, heeds_parent: false, dropped: AtomicU64::new(0) };
        let disabled = set("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        let whole = set("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT");
        let base = set("OTEL_EXPORTER_OTLP_ENDPOINT").map(|base| format!("{}/v1/traces", base.trim_end_matches('/')));
        let none = set("OTEL_TRACES_EXPORTER").is_some_and(|text| text == "none");
        let Some(address) = whole.or(base).filter(|_| !disabled && !none) else { return (off, None) };
        let protocol = set("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL").or_else(|| set("OTEL_EXPORTER_OTLP_PROTOCOL"));
        if let Some(other) = protocol.filter(|protocol| protocol != "http/json") {
            note(&format!(
                "no spans are sent: {other:?} is not spoken here; set OTEL_EXPORTER_OTLP_PROTOCOL=http/json"
            ));
            return (off, None);
        }
        let argument = set("OTEL_TRACES_SAMPLER_ARG").and_then(|text| text.trim().parse::<f64>().ok());
        let sampler = set("OTEL_TRACES_SAMPLER").unwrap_or_else(|| "parentbased_always_on".to_owned());
        let share = match sampler.trim_start_matches("parentbased_") {
            "always_off" => 0.0,
            "traceidratio" => argument.unwrap_or(1.0).clamp(0.0, 1.0),
            _ => 1.0,
        };
        // A share of one samples all traces: the cast saturates.
        let share = (share * 18_446_744_073_709_551_616.0) as u64;
        let (sender, spans) = channel(WAITING);
        let headers = set("OTEL_EXPORTER_OTLP_HEADERS").unwrap_or_default();
        let pair =
            |part: &str| part.split_once('=').map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
        let headers = headers.split(',').filter_map(pair).collect();
        let service = set("OTEL_SERVICE_NAME").unwrap_or_else(|| "sage".to_owned());
        let on = Self { sender: Some(sender), share, heeds_parent: sampler.starts_with("parentbased_"), ..off };
        (on, Some(Export { spans, address, headers, service }))
    }

    /// Whether spans are exported.
    pub(crate) const fn is_on(&self) -> bool {
        self.sender.is_some()
    }

    /// How many spans were dropped.
    pub(crate) fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Sends a span, or drops it.
    pub(crate) fn record(&self, span: &Span<'_>) {
        let Some(sender) = &self.sender else { return };
        let Some((fresh, id)) = random().zip(random()) else { return };
        let trace = span.parent.map_or_else(|| format!("{fresh:032x}"), |parent| parent.trace.clone());
        let own = u64::from_str_radix(&trace[16..], 16).unwrap_or(0);
        let wanted = match span.parent.filter(|_| self.heeds_parent) {
            Some(parent) => parent.sampled,
            None => own < self.share || self.share == u64::MAX,
        };
        if !wanted {
            return;
        }
        let attribute = |(key, value): &(&'static str, AttributeValue)| Attribute { key, value: value.clone() };
        let span = OtlpSpan {
            attributes: span.fields.iter().map(attribute).collect(),
            end_time_unix_nano: span.ended.to_string(),
            kind: span.kind as u8,
            name: span.name.to_owned(),
            parent_span_id: span.parent.map_or_else(String::new, |parent| parent.span.clone()),
            span_id: format!("{:016x}", id as u64),
            start_time_unix_nano: span.began.to_string(),
            status: OtlpStatus { code: if span.good { 0 } else { 2 } },
            trace_id: trace,
        };
        if sender.try_send(span).is_err() {
            self.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

impl Parent {
    /// Parses a `traceparent` header.
    pub(crate) fn read(header: &str) -> Option<Self> {
        let parts: Vec<&str> = header.trim().split('-').collect();
        let [version, trace, span, flags, ..] = parts[..] else { return None };
        let is = |text: &str, length: usize| {
            text.len() == length && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
        };
        let nothing = |text: &str| text.bytes().all(|byte| byte == b'0');
        let good = is(version, 2) && version != "ff" && is(trace, 32) && is(span, 16) && is(flags, 2);
        let sampled = u8::from_str_radix(flags, 16).unwrap_or(0) & 1 == 1;
        (good && !nothing(trace) && !nothing(span)).then(|| Self {
            trace: trace.to_owned(),
            span: span.to_owned(),
            sampled,
        })
    }
}

impl Export {
    /// Sends spans until the queue is closed.
    pub(crate) async fn run(mut self) {
        let Ok(client) = reqwest::Client::builder().timeout(PATIENCE).build() else { return };
        let mut batch = Vec::with_capacity(TOGETHER);
        while self.spans.recv_many(&mut batch, 1).await > 0 {
            tokio::time::sleep(GATHERING).await;
            while batch.len() < TOGETHER
                && let Ok(span) = self.spans.try_recv()
            {
                batch.push(span);
            }
            let body = self.envelope(std::mem::take(&mut batch));
            let mut request = client.post(&self.address).header("content-type", "application/json");
            for (name, value) in &self.headers {
                request = request.header(name, value);
            }
            // If the receiver fails, spans are lost; the service does not depend on it.
            drop(request.body(body).send().await);
        }
    }

    fn envelope(&self, spans: Vec<OtlpSpan>) -> String {
        let attribute = |key: &'static str, value: &str| Attribute { key, value: AttributeValue::text(value) };
        let attributes =
            [attribute("service.name", &self.service), attribute("service.version", env!("CARGO_PKG_VERSION"))];
        let scope = ScopeSpans { scope: Scope { name: "sage" }, spans };
        let resource = ResourceSpans { resource: Resource { attributes }, scope_spans: [scope] };
        // Texts and numbers always convert.
        serde_json::to_string(&ExportRequest { resource_spans: [resource] }).unwrap_or_default()
    }
}

fn random() -> Option<u128> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).ok()?;
    Some(u128::from_le_bytes(bytes) | 1)
}

/// Nanoseconds since 1970, to the millisecond.
pub(crate) fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0).saturating_mul(1_000_000)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

    fn telling(telemetry: &Telemetry, parent: Option<&Parent>) {
        telemetry.record(&Span {
            name: "GET /livez",
            parent,
            began: 1,
            ended: 2,
            fields: &[],
            kind: Kind::Server,
            good: true,
        });
    }

    fn with(variables: &'static [(&str, &str)]) -> (Telemetry, Option<Export>) {
        Telemetry::new(|name| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned()))
    }

    const ENDPOINT: (&str, &str) = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1/");

    #[test]
    fn nothing_is_exported_without_a_receiver() {
        assert!(with(&[]).1.is_none() && with(&[ENDPOINT, ("OTEL_SDK_DISABLED", "true")]).1.is_none());
        assert!(with(&[ENDPOINT, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).1.is_none());
        let export = with(&[ENDPOINT]).1.expect("a receiver is named");
        assert_eq!((export.address.as_str(), export.service.as_str()), ("http://127.0.0.1:1/v1/traces", "sage"));
    }

    #[test]
    fn the_sampler_and_the_caller_decide_what_is_reported() {
        let parent = Parent::read(HEADER).expect("a header");
        let silent = Parent { sampled: false, ..parent.clone() };
        for (sampler, alone, sampled, unsampled) in [
            ("parentbased_always_on", 1, 1, 0),
            ("always_on", 1, 1, 1),
            ("always_off", 0, 0, 0),
            ("parentbased_always_off", 0, 1, 0),
        ] {
            let variables = |name: &str| match name {
                "OTEL_TRACES_SAMPLER" => Some(sampler.to_owned()),
                name if name == ENDPOINT.0 => Some(ENDPOINT.1.to_owned()),
                _ => None,
            };
            for (parent, expected) in [(None, alone), (Some(&parent), sampled), (Some(&silent), unsampled)] {
                let (telemetry, export) = Telemetry::new(variables);
                telling(&telemetry, parent);
                assert_eq!(export.expect("a receiver").spans.len(), expected, "{sampler} with {parent:?}");
            }
        }
        for wrong in ["", "00-0-0-01", &HEADER.replace("0af", "0AF"), &HEADER.replacen("00-", "ff-", 1)] {
            assert_eq!(Parent::read(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_full_queue_drops_and_counts() {
        let (telemetry, export) = with(&[ENDPOINT]);
        (0..WAITING + 7).for_each(|_| telling(&telemetry, None));
        assert_eq!((telemetry.dropped(), export.expect("a receiver").spans.len()), (7, WAITING));
    }
}
