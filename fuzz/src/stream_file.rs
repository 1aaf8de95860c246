//! Stream files.

use std::sync::OnceLock;

use sage_engine::stream::StreamFile;

const STREAM: &str = include_str!("../fixtures/stream.toml");

/// Parses a stream file. What is accepted is written, and parses to the same.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match StreamFile::parse(text) {
        Ok(file) => {
            let written = file.to_text();
            assert_eq!(StreamFile::parse(&written).as_ref(), Ok(&file), "{written}");
        }
        Err(error) => drop(error.to_string()),
    }
}

/// A stream file.
pub fn seeds() -> Vec<Vec<u8>> {
    vec![STREAM.into()]
}

/// The stream of the seed, which the inputs of other targets refer to.
pub(crate) fn stream() -> &'static StreamFile {
    static PARSED: OnceLock<StreamFile> = OnceLock::new();
    PARSED.get_or_init(|| StreamFile::parse(STREAM).expect("the stream of the fixtures"))
}
