//! What happens that touches no budget, as the log's notes.
//!
//! The kernel carries notes in its chain without reading them. Their bodies are JSON, so that an auditor
//! can read the log with any SQL tool. No note holds a row, a count of rows or the size of a file: the log
//! outlives the blocks and is read by people who may not see them.

use serde::{Deserialize, Serialize};

use crate::blocks::Part;

/// One thing that happened to a stream.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "kebab-case", deny_unknown_fields)]
pub(crate) enum Note {
    /// This is the stream's file from now on. The policy in force is the kernel's, not the one in here.
    StreamDefined { stream: String, text: String, by: String },
    /// Somebody asks for a policy; it takes effect when the kernel's event says so.
    PolicyProposed { stream: String, text: String, by: String },
    /// These files are parts of blocks, all of them or none.
    RowsIngested {
        stream: String,
        batch: String,
        parts: Vec<NotedPart>,
        /// The file with the rows that belong to no block, where there were any.
        quarantine: Option<String>,
        by: String,
    },
    /// No row will be added to these blocks.
    BlocksSealed { stream: String, blocks: Vec<String>, by: String },
    /// The files of these retired blocks are no longer kept.
    BlocksDeleted { stream: String, blocks: Vec<String>, by: String },
}

/// A part as it is written down: block, file, digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct NotedPart(String, String, #[serde(with = "hex")] [u8; 32]);

impl From<Part> for NotedPart {
    fn from(part: Part) -> Self {
        Self(part.block, part.file, part.digest)
    }
}

impl From<NotedPart> for Part {
    fn from(NotedPart(block, file, digest): NotedPart) -> Self {
        Self { block, file, digest }
    }
}

impl Note {
    /// All kinds a note of the catalog can have.
    pub(crate) const KIND: &'static str = "catalog";

    /// The body of the log's note.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        // Strings, lists and bytes: there is nothing in a note that JSON cannot hold.
        serde_json::to_vec(self).unwrap_or_default()
    }

    /// The note in a body; nothing if this release does not know it.
    pub(crate) fn from_bytes(body: &[u8]) -> Option<Self> {
        serde_json::from_slice(body).ok()
    }

    /// The stream it speaks of.
    pub(crate) fn stream(&self) -> &str {
        match self {
            Self::StreamDefined { stream, .. }
            | Self::PolicyProposed { stream, .. }
            | Self::RowsIngested { stream, .. }
            | Self::BlocksSealed { stream, .. }
            | Self::BlocksDeleted { stream, .. } => stream,
        }
    }
}

/// Digests as hexadecimal text.
mod hex {
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    pub(super) fn serialize<S: Serializer>(digest: &[u8; 32], serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(blake3::Hash::from_bytes(*digest).to_hex().as_str())
    }

    pub(super) fn deserialize<'text, D: Deserializer<'text>>(deserializer: D) -> Result<[u8; 32], D::Error> {
        let text = String::deserialize(deserializer)?;
        blake3::Hash::from_hex(text).map(|hash| *hash.as_bytes()).map_err(|_| D::Error::custom("no digest"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_is_read_back_as_it_was_written() {
        let part = Part { block: "day=2026-11-01".to_owned(), file: "part-1.parquet".to_owned(), digest: [7; 32] };
        let (stream, by) = ("taxi".to_owned(), "ada".to_owned());
        let (text, blocks) = ("[stream]".to_owned(), vec![part.block.clone()]);
        for note in [
            Note::StreamDefined { stream: stream.clone(), text: text.clone(), by: by.clone() },
            Note::PolicyProposed { stream: stream.clone(), text, by: by.clone() },
            Note::RowsIngested {
                stream: stream.clone(),
                batch: "b1".to_owned(),
                parts: vec![part.clone().into()],
                quarantine: Some("q".to_owned()),
                by: by.clone(),
            },
            Note::BlocksSealed { stream: stream.clone(), blocks: blocks.clone(), by: by.clone() },
            Note::BlocksDeleted { stream, blocks, by },
        ] {
            assert_eq!(note.stream(), "taxi");
            assert_eq!(Note::from_bytes(&note.to_bytes()), Some(note));
        }
        assert_eq!(Part::from(NotedPart::from(part.clone())), part);
    }

    #[test]
    fn what_this_release_does_not_know_is_no_note() {
        for body in [
            &b""[..],
            b"{}",
            br#"{"note":"later"}"#,
            br#"{"note":"blocks-sealed","stream":"s","blocks":[],"by":"a","more":1}"#,
            br#"{"note":"rows-ingested","stream":"s","batch":"b","parts":[["k","f","00"]],"quarantine":null,"by":"a"}"#,
        ] {
            assert_eq!(Note::from_bytes(body), None, "{}", String::from_utf8_lossy(body));
        }
    }
}
