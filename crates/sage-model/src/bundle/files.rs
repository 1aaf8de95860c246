//! A bundle: files in memory, written from a graph, or read back and compared with it.
//!
//! A bundle that is read is not trusted. The description and the weights are parsed within limits; every file that
//! follows from them, such as the ONNX graph, is written again and must be identical to the last byte. So no untrusted
//! graph is executed and no untrusted Parquet file is parsed. The files that do not follow from them (card, receipt and
//! tables) are text or bytes for other readers, covered by the digest.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use serde_json::error::Category;

use super::card::{self, Card};
use super::graph::{Graph, GraphRefusal, Outline};
use super::{FORMAT, mlmodel, onnx, tables, weights};

const MODEL: &str = "model.onnx";
const GRAPH: &str = "graph.json";
const WEIGHTS: &str = "weights.safetensors";
const CARD: &str = "README.md";
const MLMODEL: &str = "MLmodel";
const REQUIREMENTS: &str = "requirements.txt";
const RECEIPT: &str = "receipt.json";

/// The largest sizes of text files, of the description, and of all files together.
const LARGEST_TEXT: usize = 1 << 20;
const LARGEST_GRAPH: usize = 1 << 26;
const LARGEST: usize = 1 << 30;

/// A model as a set of files.
#[derive(Clone, Debug, PartialEq)]
pub struct Bundle {
    files: BTreeMap<String, Vec<u8>>,
    graph: Graph,
}

/// Why files are not a bundle.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BundleError {
    /// A file is missing.
    Missing(String),
    /// An unexpected or duplicate file.
    Unexpected(String),
    /// A file exceeds its size limit.
    TooLarge(String),
    /// A file is not of its format.
    Unreadable {
        /// The file.
        file: String,
        /// What is wrong with it.
        why: String,
    },
    /// A file differs from the one written from the description and the weights.
    Different(String),
    /// The description is invalid.
    Graph(GraphRefusal),
    /// The files do not have the expected digest.
    Digest,
}

impl fmt::Display for BundleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing(file) => write!(f, "`{file}` is missing"),
            Self::Unexpected(file) => write!(f, "`{}` does not belong here", file.escape_debug()),
            Self::TooLarge(file) => write!(f, "`{file}` is too large"),
            Self::Unreadable { file, why } => write!(f, "`{file}` cannot be read: {why}"),
            Self::Different(file) => write!(f, "`{file}` is not what its description gives"),
            Self::Graph(refusal) => write!(f, "`{GRAPH}`: {refusal}"),
            Self::Digest => write!(f, "the files do not have the digest they should have"),
        }
    }
}

impl std::error::Error for BundleError {}

impl BundleError {
    /// The error without any content of the files: a program may have written data of rows into them.
    pub fn without_contents(&self) -> String {
        match self {
            Self::Graph(GraphRefusal::Part { why, .. }) => format!("`{GRAPH}`: a part of it: {why}"),
            Self::Graph(GraphRefusal::Formula { .. }) => format!("`{GRAPH}`: one of its formulas is invalid"),
            Self::Unexpected(_) => "a file does not belong here".to_owned(),
            named => named.to_string(),
        }
    }
}

/// The description as a file.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Description<T> {
    format: u32,
    outline: T,
}

fn unreadable(file: &str, why: impl fmt::Display) -> BundleError {
    BundleError::Unreadable { file: file.to_owned(), why: why.to_string() }
}

impl Bundle {
    /// Writes a graph, its card, and the receipt that the caller gives as JSON.
    pub fn write(graph: Graph, card: &Card, receipt: &[u8]) -> Result<Self, BundleError> {
        let mut files = derived(&graph)?;
        let description = Description { format: FORMAT, outline: graph.outline() };
        let description = serde_json::to_vec_pretty(&description).map_err(|error| unreadable(GRAPH, error))?;
        files.insert(GRAPH.to_owned(), description);
        files.insert(CARD.to_owned(), card::write(card, &graph).into_bytes());
        files.insert(RECEIPT.to_owned(), receipt.to_vec());
        let named = tables::names(graph.outline().schema.tables());
        for (table, name) in graph.outline().schema.tables().iter().zip(named) {
            let bytes = tables::write(table).map_err(|error| unreadable(&name, error))?;
            files.insert(name, bytes);
        }
        let bundle = Self { files, graph };
        bundle.check_sizes()?;
        bundle.check_others()?;
        Ok(bundle)
    }

    /// Reads untrusted files.
    pub fn read(files: Vec<(String, Vec<u8>)>) -> Result<Self, BundleError> {
        let mut known = BTreeMap::new();
        for (name, bytes) in files {
            if name.len() > 200 || known.contains_key(&name) {
                return Err(BundleError::Unexpected(name.chars().take(200).collect()));
            }
            known.insert(name, bytes);
        }
        check_sizes(&known)?;
        let file = |name: &str| known.get(name).ok_or_else(|| BundleError::Missing(name.to_owned()));
        let graph = described(file(GRAPH)?, file(WEIGHTS)?)?;
        for (name, bytes) in derived(&graph)? {
            if file(&name)? != &bytes {
                return Err(BundleError::Different(name));
            }
        }
        let bundle = Self { files: known, graph };
        bundle.check_others()?;
        Ok(bundle)
    }

    /// Reads files that must have this digest.
    pub fn read_vouched(files: Vec<(String, Vec<u8>)>, digest: &str) -> Result<Self, BundleError> {
        let listed: BTreeMap<&str, &[u8]> =
            files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).collect();
        if listed.len() != files.len() || digest_of(listed.into_iter()) != digest {
            return Err(BundleError::Digest);
        }
        Self::read(files)
    }

    /// The files in the order of their names.
    pub fn files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice()))
    }

    /// The graph.
    pub const fn graph(&self) -> &Graph {
        &self.graph
    }

    /// BLAKE3 over the names, lengths and bytes of all files, in hexadecimal.
    pub fn digest(&self) -> String {
        digest_of(self.files())
    }

    fn check_sizes(&self) -> Result<(), BundleError> {
        check_sizes(&self.files)
    }

    /// Checks the files that are not written again: each must exist and have its format, and there must be no others.
    fn check_others(&self) -> Result<(), BundleError> {
        let file = |name: &str| self.files.get(name).ok_or_else(|| BundleError::Missing(name.to_owned()));
        std::str::from_utf8(file(CARD)?).map_err(|error| unreadable(CARD, error))?;
        let receipt: Result<serde::de::IgnoredAny, _> = serde_json::from_slice(file(RECEIPT)?);
        receipt.map_err(|error| unreadable(RECEIPT, error))?;
        let named = tables::names(self.graph.outline().schema.tables());
        for name in &named {
            let bytes = file(name)?;
            if bytes.len() < 12 || !bytes.starts_with(tables::MAGIC) || !bytes.ends_with(tables::MAGIC) {
                return Err(unreadable(name, "it is no Parquet file"));
            }
        }
        let ours = [MODEL, GRAPH, WEIGHTS, CARD, MLMODEL, REQUIREMENTS, RECEIPT];
        let stray = self.files.keys().find(|name| !ours.contains(&name.as_str()) && !named.contains(name));
        stray.map_or(Ok(()), |name| Err(BundleError::Unexpected(name.clone())))
    }
}

/// The names of the two files from which everything else of a bundle follows: description and weights.
pub const ESSENTIAL: [&str; 2] = [GRAPH, WEIGHTS];

/// The graph of an untrusted description and weights.
///
/// # Errors
/// If they are too large or not of their format, or the description is invalid.
pub fn described(description: &[u8], weights: &[u8]) -> Result<Graph, BundleError> {
    if description.len() > LARGEST_GRAPH || weights.len() > LARGEST {
        return Err(BundleError::TooLarge(GRAPH.to_owned()));
    }
    let description: Description<Outline> =
        serde_json::from_slice(description).map_err(|error| unreadable(GRAPH, position_of(&error)))?;
    if description.format != FORMAT {
        return Err(unreadable(GRAPH, "it is of another format"));
    }
    description.outline.check().map_err(BundleError::Graph)?;
    let learned = weights::read(&description.outline, weights);
    let learned = learned.ok_or_else(|| unreadable(WEIGHTS, "it does not hold the weights of the graph"))?;
    Graph::new(description.outline, learned).map_err(BundleError::Graph)
}

/// The position of an error in a description, without its content: see [`BundleError::without_contents`].
fn position_of(error: &serde_json::Error) -> String {
    let what = match error.classify() {
        Category::Data => "the content there is not of the form that docs/reference/bundle.md describes",
        Category::Eof => "it ends there, too early",
        Category::Io | Category::Syntax => "it is not JSON",
    };
    format!("line {}, column {}: {what}", error.line(), error.column())
}

/// The files that follow from the description and the weights.
fn derived(graph: &Graph) -> Result<BTreeMap<String, Vec<u8>>, BundleError> {
    let learned = weights::write(graph).ok_or_else(|| unreadable(WEIGHTS, "it cannot be written"))?;
    Ok(BTreeMap::from([
        (MODEL.to_owned(), onnx::write(graph)),
        (WEIGHTS.to_owned(), learned),
        (MLMODEL.to_owned(), mlmodel::write(graph).into_bytes()),
        (REQUIREMENTS.to_owned(), mlmodel::REQUIREMENTS.as_bytes().to_vec()),
    ]))
}

fn check_sizes(files: &BTreeMap<String, Vec<u8>>) -> Result<(), BundleError> {
    let limit = |name: &str| match name {
        GRAPH => LARGEST_GRAPH,
        CARD | MLMODEL | REQUIREMENTS | RECEIPT => LARGEST_TEXT,
        _ => LARGEST,
    };
    let mut all = 0_usize;
    for (name, bytes) in files {
        all = all.saturating_add(bytes.len());
        if bytes.len() > limit(name) || all > LARGEST {
            return Err(BundleError::TooLarge(name.clone()));
        }
    }
    Ok(())
}

fn digest_of<'a>(files: impl Iterator<Item = (&'a str, &'a [u8])>) -> String {
    let mut hasher = blake3::Hasher::new_derive_key("sage bundle 1");
    for (name, bytes) in files {
        for part in [name.as_bytes(), bytes] {
            hasher.update(&(part.len() as u64).to_le_bytes());
            hasher.update(part);
        }
    }
    hasher.finalize().to_hex().to_string()
}
