//! Kinds of request bodies: their media types, sizes and memory.

use sage_engine::serve::RowFormat;

use crate::transport::admission::json_bytes;

/// The kind of a request body.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum BodyKind {
    Nothing,
    Toml,
    Json,
    /// Rows for a model: JSON, CSV or NDJSON.
    Records,
    /// Rows for a stream.
    Rows,
    Form,
}

impl BodyKind {
    /// The largest body.
    pub(crate) const fn most(self) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Toml => 1 << 20,
            Self::Json | Self::Records => 4 << 20,
            Self::Rows => 64 << 20,
            Self::Form => 64 << 10,
        }
    }

    /// An upper bound of the memory that the parsed body takes, beside the body itself.
    pub(crate) fn memory(self, body: &[u8], content_type: Option<&str>) -> usize {
        match self {
            Self::Nothing => 0,
            Self::Toml => body.len().saturating_mul(16),
            Self::Json => json_bytes(body),
            // A value of CSV has at least one byte and its separator, and takes a cell of the row.
            Self::Records => match row_format(content_type) {
                Some(_) => body.len().saturating_mul(32),
                None => json_bytes(body),
            },
            Self::Rows => body.len().saturating_mul(2),
            Self::Form => body.len().saturating_mul(4),
        }
    }

    /// The media types that it may have.
    pub(crate) const fn kinds(self) -> &'static [&'static str] {
        match self {
            Self::Nothing => &[],
            Self::Toml => &["application/toml", "text/plain"],
            Self::Json => &["application/json"],
            Self::Records => &["application/json", "text/csv", "application/x-ndjson"],
            Self::Rows => &["application/x-ndjson", "text/csv", "application/vnd.apache.arrow.stream", "text/plain"],
            Self::Form => &["application/x-www-form-urlencoded"],
        }
    }
}

/// The format of rows that a media type names; `None` for JSON.
pub(crate) fn row_format(content_type: Option<&str>) -> Option<RowFormat> {
    match content_type.map(|kind| kind.split(';').next().unwrap_or(kind).trim()) {
        Some("text/csv") => Some(RowFormat::Csv),
        Some("application/x-ndjson" | "application/jsonl") => Some(RowFormat::Ndjson),
        _ => None,
    }
}
