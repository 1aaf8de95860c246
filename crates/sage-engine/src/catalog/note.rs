//! Notes of the log: all recorded events that do not change a budget.
//!
//! The kernel includes notes in its hash chain without reading them. Their bodies are JSON, so that an auditor can read
//! the log with any SQL tool. No note contains a row, a count of rows or the size of a file: the log outlives the
//! blocks and has readers who may not see rows.

use serde::{Deserialize, Serialize};

use super::run::Step;
use crate::plan::Terms;
use crate::query::{QueryParameters, ResultTable};

/// One recorded event.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Note {
    /// A stream file takes effect. The policy in force is the kernel's, not the one in this text.
    StreamDefined {
        stream: String,
        text: String,
        /// The digest of the secret that assigns users to lanes, in a stream of users.
        secret: Option<String>,
        by: String,
        /// The digest of the proposal that this definition approves, where two officers were needed.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        approves: Option<String>,
    },
    /// An officer proposes a stream file. It takes effect with the definition that approves it.
    PolicyProposed { stream: String, text: String, by: String },
    /// A batch is ingested: all of its files become parts of blocks, or none.
    RowsIngested {
        stream: String,
        /// The canonical bytes of the batch's manifest.
        #[serde(with = "hex")]
        manifest: Vec<u8>,
        by: String,
        /// Ingest time in milliseconds since 1970; absent in notes of older releases.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        at: Option<u64>,
    },
    /// These blocks are sealed: they take no more rows.
    BlocksSealed { stream: String, blocks: Vec<String>, by: String },
    /// A private count of the units in a range of sealed blocks, on the train and on the test lane.
    UnitsCounted { stream: String, level: u32, first: u64, train: i64, test: i64 },
    /// The result of a query. The whole note is what its charge released.
    QueryAnswered {
        stream: String,
        /// The idempotency key that the caller chose.
        key: String,
        sql: String,
        by: String,
        /// The number of the charge.
        charge: u64,
        answer: ResultTable,
        /// The parameters of the query; absent in notes of older releases.
        #[serde(rename = "asked", default, skip_serializing_if = "Option::is_none")]
        parameters: Option<QueryParameters>,
    },
    /// The files of these retired blocks are deleted.
    BlocksDeleted {
        stream: String,
        blocks: Vec<String>,
        /// Who deleted them; absent if the stream's retention did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// These files of quarantined rows are deleted.
    QuarantineErased {
        stream: String,
        files: Vec<String>,
        /// Who erased them; absent if the stream's retention did.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        by: Option<String>,
    },
    /// A pipeline is submitted, at a time in milliseconds since 1970. Its run gets the next number.
    RunSubmitted {
        stream: String,
        text: String,
        by: String,
        at: u64,
        terms: Terms,
        /// The digest of the code folder submitted with it.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        code: Option<String>,
    },
    /// The recurring pipeline with this name is no longer resubmitted.
    RecurrenceStopped { stream: String, pipeline: String, by: String },
    /// A member's roles are suspended: every request of the member on the stream is refused.
    MemberSuspended { stream: String, member: String, by: String, reason: String },
    /// A suspended member's roles are restored.
    MemberReinstated { stream: String, member: String, by: String },
    /// A run takes a step.
    RunStepped { run: u64, step: Step },
    /// An alias points to this version from now on.
    AliasMoved { release: String, alias: String, version: u32, by: String },
    /// A version is withdrawn. Its cost stays spent.
    ReleaseWithdrawn { release: String, version: u32, by: String, reason: String },
}

impl Note {
    /// The kind of every note of the catalog.
    pub(crate) const KIND: &'static str = "catalog";

    /// Encodes the note as the body of a log record.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Strings, lists and bytes always serialize to JSON.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// Decodes a note; `None` if this release does not know it.
    pub(crate) fn from_bytes(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    /// Whether the note concerns runs and releases.
    pub(crate) const fn concerns_runs(&self) -> bool {
        matches!(
            self,
            Self::RunSubmitted { .. }
                | Self::RecurrenceStopped { .. }
                | Self::RunStepped { .. }
                | Self::AliasMoved { .. }
                | Self::ReleaseWithdrawn { .. }
        )
    }

    /// The principal who caused the event; `None` if the engine did.
    pub(crate) fn by(&self) -> Option<&str> {
        match self {
            Self::RunStepped { .. } | Self::UnitsCounted { .. } => None,
            Self::QuarantineErased { by, .. } | Self::BlocksDeleted { by, .. } => by.as_deref(),
            Self::StreamDefined { by, .. }
            | Self::PolicyProposed { by, .. }
            | Self::RowsIngested { by, .. }
            | Self::BlocksSealed { by, .. }
            | Self::QueryAnswered { by, .. }
            | Self::RunSubmitted { by, .. }
            | Self::RecurrenceStopped { by, .. }
            | Self::MemberSuspended { by, .. }
            | Self::MemberReinstated { by, .. }
            | Self::AliasMoved { by, .. }
            | Self::ReleaseWithdrawn { by, .. } => Some(by),
        }
    }

    /// The stream of the note; `None` for notes that name only a run or a release.
    pub(crate) fn stream(&self) -> Option<&str> {
        match self {
            Self::RunStepped { .. } | Self::AliasMoved { .. } | Self::ReleaseWithdrawn { .. } => None,
            Self::StreamDefined { stream, .. }
            | Self::PolicyProposed { stream, .. }
            | Self::RowsIngested { stream, .. }
            | Self::BlocksSealed { stream, .. }
            | Self::UnitsCounted { stream, .. }
            | Self::QueryAnswered { stream, .. }
            | Self::RunSubmitted { stream, .. }
            | Self::RecurrenceStopped { stream, .. }
            | Self::MemberSuspended { stream, .. }
            | Self::MemberReinstated { stream, .. }
            | Self::QuarantineErased { stream, .. }
            | Self::BlocksDeleted { stream, .. } => Some(stream),
        }
    }
}

/// Bytes as hexadecimal text.
mod hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    use crate::log::{from_hexadecimal, hexadecimal};

    pub(super) fn serialize<S: Serializer>(bytes: &[u8], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&hexadecimal(bytes))
    }

    pub(super) fn deserialize<'text, D: Deserializer<'text>>(deserializer: D) -> Result<Vec<u8>, D::Error> {
        let text = String::deserialize(deserializer)?;
        from_hexadecimal(&text).ok_or_else(|| D::Error::custom("not hexadecimal"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::query::{BlockSelection, Cell, Line};

    #[test]
    fn a_note_is_read_back_as_it_was_written() {
        let (stream, by) = (|| "taxi".to_owned(), || "ada".to_owned());
        let (text, blocks) = (|| "[stream]".to_owned(), || vec!["day=2026-11-01".to_owned()]);
        let secret = Some("00".to_owned());
        let cell = Cell { value: Some(1.5), low: Some(-1.0), high: None };
        let line = || Line { keys: vec!["card".to_owned()], cells: vec![cell] };
        let answer = || ResultTable { keys: vec![by()], columns: vec![by()], confidence: 0.95, lines: vec![line()] };
        let parameters = |epsilon: Option<&str>, error: Option<&str>, blocks| {
            let [epsilon, error] = [epsilon, error].map(|text| text.map(str::to_owned));
            Some(QueryParameters { context: by(), epsilon, error, blocks })
        };
        let answered = |parameters| {
            let (stream, key, sql, by, answer) = (stream(), text(), text(), by(), answer());
            Note::QueryAnswered { stream, key, sql, by, charge: 7, answer, parameters }
        };
        for note in [
            Note::StreamDefined { stream: stream(), text: text(), secret, by: by(), approves: None },
            Note::StreamDefined {
                stream: stream(),
                text: text(),
                secret: None,
                by: by(),
                approves: Some("0f".to_owned()),
            },
            Note::RecurrenceStopped { stream: stream(), pipeline: text(), by: by() },
            Note::MemberSuspended { stream: stream(), member: by(), by: by(), reason: text() },
            Note::MemberReinstated { stream: stream(), member: by(), by: by() },
            Note::QuarantineErased { stream: stream(), files: vec![text()], by: Some(by()) },
            Note::QuarantineErased { stream: stream(), files: Vec::new(), by: None },
            Note::PolicyProposed { stream: stream(), text: text(), by: by() },
            Note::RowsIngested { stream: stream(), manifest: (0..=255).collect(), by: by(), at: Some(7) },
            Note::RowsIngested { stream: stream(), manifest: Vec::new(), by: by(), at: None },
            Note::BlocksSealed { stream: stream(), blocks: blocks(), by: by() },
            Note::UnitsCounted { stream: stream(), level: 3, first: 8, train: -1, test: 70 },
            Note::BlocksDeleted { stream: stream(), blocks: blocks(), by: Some(by()) },
            Note::BlocksDeleted { stream: stream(), blocks: blocks(), by: None },
            answered(None),
            answered(parameters(Some("0.1"), None, BlockSelection::All)),
            answered(parameters(None, Some("0.30000000000000004"), BlockSelection::Between(i64::MIN, i64::MAX))),
            answered(parameters(None, None, BlockSelection::Named(blocks()))),
        ] {
            assert_eq!(note.stream(), Some("taxi"));
            assert_eq!(Note::from_bytes(&note.to_bytes()), Some(note));
        }
    }

    #[test]
    fn unknown_notes_are_rejected() {
        for body in [
            &b""[..],
            b"{}",
            br#"{"note":"later"}"#,
            br#"{"note":"blocks-sealed","stream":"s","blocks":[],"by":"a","more":1}"#,
            br#"{"note":"rows-ingested","stream":"s","manifest":"0","by":"a"}"#,
            br#"{"note":"rows-ingested","stream":"s","manifest":"0G","by":"a"}"#,
            br#"{"note":"rows-ingested","stream":"s","manifest":"AA","by":"a"}"#,
        ] {
            assert_eq!(Note::from_bytes(body), None, "{}", String::from_utf8_lossy(body));
        }
    }
}
