//! Every way a request can fail, in the format that its client expects.
//!
//! Errors are problem details (RFC 9457), or in the format of another project's protocol on its routes. The text of an
//! error never contains a row of a stream; failures of the machine are reported to the operator only.

use axum::http::StatusCode;
use sage_engine::stream::MemberRefusal;
use sage_engine::{EngineError, GateError};
use serde::Serialize;

use crate::diagnostics::note;
use crate::views::inference::InferenceError;
use crate::views::mlflow::MlflowError;
use crate::views::service::ProblemDetails;

/// Why a request failed.
#[derive(Debug)]
pub(crate) struct Problem {
    pub(crate) status: StatusCode,
    pub(crate) detail: String,
    /// The failed write, if that is the reason; for the operator only.
    pub(crate) unwritten: Option<String>,
    /// After how many seconds the client may retry.
    pub(crate) retry_after: Option<u64>,
    /// The kind of the problem, if the status is not specific enough.
    pub(crate) kind: &'static str,
}

/// The kind of a problem whose status is specific enough.
const PLAIN: &str = "about:blank";
/// The key of a request was used for another one.
pub const KEY_REUSED: &str = "urn:sage:key-reused";
/// The request was charged and failed afterwards.
pub const CHARGED_BUT_FAILED: &str = "urn:sage:charged-but-failed";

/// The format of an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Style {
    /// Problem details.
    Details,
    /// The Open Inference Protocol's.
    Inference,
    /// MLflow's.
    Mlflow,
    /// A page for a person.
    Page,
}

/// The body of an error in one of the formats.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum ErrorBody {
    /// Problem details.
    Details(ProblemDetails),
    /// The Open Inference Protocol's.
    Inference(InferenceError),
    /// MLflow's.
    Mlflow(MlflowError),
}

impl Problem {
    pub(crate) fn new(status: StatusCode, detail: impl Into<String>) -> Self {
        Self { status, detail: detail.into(), unwritten: None, retry_after: None, kind: PLAIN }
    }

    pub(crate) fn wrong(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::BAD_REQUEST, detail)
    }

    pub(crate) fn unfit(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::UNPROCESSABLE_ENTITY, detail)
    }

    pub(crate) fn missing(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::NOT_FOUND, detail)
    }

    pub(crate) fn forbidden(detail: impl Into<String>) -> Self {
        Self::new(StatusCode::FORBIDDEN, detail)
    }

    pub(crate) fn unknown_caller() -> Self {
        let detail = "this needs a token that counts; make one with: sage token create --as NAME, and send it as: \
                      Authorization: Bearer TOKEN";
        Self::new(StatusCode::UNAUTHORIZED, detail)
    }

    /// The key of the request was used for another one.
    pub(crate) fn key_reused(detail: impl Into<String>) -> Self {
        Self { kind: KEY_REUSED, ..Self::new(StatusCode::CONFLICT, detail) }
    }

    pub(crate) fn busy(detail: impl Into<String>) -> Self {
        Self { retry_after: Some(1), ..Self::new(StatusCode::SERVICE_UNAVAILABLE, detail) }
    }

    /// The request was charged and failed afterwards. This is a 409 and not a 503, because clients repeat a 503 by
    /// themselves, and each repetition would be charged.
    fn charged_but_failed(charge: u64, cause: &EngineError) -> Self {
        note(&format!("a query failed after its charge (event {charge} of the log): {cause}"));
        let detail = format!(
            "this query was charged and gave no result; the charge stands (event {charge} of the log). Do not repeat \
             it: a new query is charged again, and the same Idempotency-Key gives this response. The operator finds the \
             cause in the server's output"
        );
        Self {
            kind: CHARGED_BUT_FAILED,
            unwritten: is_of_storage(cause).then(|| cause.to_string()),
            ..Self::new(StatusCode::CONFLICT, detail)
        }
    }

    /// A token has exceeded a rate limit or a quota.
    pub(crate) fn too_often(detail: impl Into<String>, wait: std::time::Duration) -> Self {
        let seconds = wait.as_secs_f64().ceil().max(1.0) as u64;
        Self { retry_after: Some(seconds), ..Self::new(StatusCode::TOO_MANY_REQUESTS, detail) }
    }

    /// The body in the given style, and its media type.
    pub(crate) fn body(&self, style: Style) -> (&'static str, ErrorBody) {
        match style {
            Style::Details | Style::Page => (
                "application/problem+json",
                ErrorBody::Details(ProblemDetails {
                    kind: self.kind.to_owned(),
                    title: self.status.canonical_reason().unwrap_or("error").to_owned(),
                    status: self.status.as_u16(),
                    detail: self.detail.clone(),
                }),
            ),
            Style::Inference => {
                ("application/json", ErrorBody::Inference(InferenceError { error: self.detail.clone() }))
            }
            Style::Mlflow => {
                let (error_code, message) = (self.mlflow_code().to_owned(), self.detail.clone());
                ("application/json", ErrorBody::Mlflow(MlflowError { error_code, message }))
            }
        }
    }

    fn mlflow_code(&self) -> &'static str {
        match self.status {
            StatusCode::NOT_FOUND => "RESOURCE_DOES_NOT_EXIST",
            StatusCode::FORBIDDEN => "PERMISSION_DENIED",
            StatusCode::UNAUTHORIZED => "UNAUTHENTICATED",
            StatusCode::SERVICE_UNAVAILABLE => "TEMPORARILY_UNAVAILABLE",
            StatusCode::TOO_MANY_REQUESTS => "REQUEST_LIMIT_EXCEEDED",
            _ => "INVALID_PARAMETER_VALUE",
        }
    }
}

impl From<EngineError> for Problem {
    fn from(error: EngineError) -> Self {
        use EngineError as E;
        let status = match &error {
            E::NotInRole { .. } | E::Suspended { .. } | E::AttestedNotAllowed(_) => StatusCode::FORBIDDEN,
            E::NoStream(_) | E::NoBlock(_) | E::NoQuarantine(_) | E::NoRun(_) => StatusCode::NOT_FOUND,
            E::Members(refusal) => match refusal {
                MemberRefusal::UnknownContext(_) => StatusCode::NOT_FOUND,
                MemberRefusal::Ambiguous { .. } => StatusCode::UNPROCESSABLE_ENTITY,
                MemberRefusal::NotMember { .. } => StatusCode::FORBIDDEN,
                _ => StatusCode::CONFLICT,
            },
            E::NoRelease(_) | E::Withdrawn(..) => StatusCode::NOT_FOUND,
            E::StreamExists(_) | E::RunOver(_) | E::Stage { .. } | E::Served(_) | E::Refused(_) => StatusCode::CONFLICT,
            E::NothingToApprove(_) | E::ProposalChanged(_) | E::OtherPolicy(_) | E::Change(_) => StatusCode::CONFLICT,
            E::Suspension { .. } | E::NameTaken(_) => StatusCode::CONFLICT,
            E::Gate(GateError::NotAllowed) => StatusCode::CONFLICT,
            E::StreamFile(_) | E::PipelineFile(_) | E::Plan(_) | E::OtherLabel(_) | E::Alias(_) => {
                StatusCode::UNPROCESSABLE_ENTITY
            }
            E::Question(_) => StatusCode::UNPROCESSABLE_ENTITY,
            E::OtherQuestion(_) => return Self::key_reused(error.to_string()),
            E::ChargedButFailed { charge, cause } => return Self::charged_but_failed(*charge, cause),
            E::Ingest(_) | E::Query(_) | E::Blocks(_) | E::Cost(_) | E::Predict(_) => StatusCode::UNPROCESSABLE_ENTITY,
            other => {
                note(&format!("a request failed: {error}"));
                let writing = is_of_storage(other);
                let detail = "the server cannot use its log or its files; its operator finds why in its output";
                return Self { unwritten: writing.then(|| error.to_string()), ..Self::busy(detail) };
            }
        };
        Self::new(status, error.to_string())
    }
}

/// Whether an error means that the directory can no longer be written.
const fn is_of_storage(error: &EngineError) -> bool {
    use EngineError as E;
    matches!(error, E::Gate(_) | E::File(..) | E::Store(_) | E::Heads(_))
}
