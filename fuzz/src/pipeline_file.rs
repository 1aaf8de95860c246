//! Pipeline files.

use sage_engine::pipeline::Pipeline;
use sage_engine::plan::{NoTables, Recipe};

use crate::stream_file::stream;

/// Parses a pipeline file. What is accepted is written, parses to the same, and is planned or refused on a stream.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    match Pipeline::parse(text) {
        Ok(pipeline) => {
            let written = pipeline.to_text();
            assert_eq!(Pipeline::parse(&written).as_ref(), Ok(&pipeline), "{written}");
            let _ = Recipe::new(pipeline, stream(), &NoTables);
        }
        Err(error) => drop(error.to_string()),
    }
}

/// A pipeline on the stream of the fixtures, and the examples.
pub fn seeds() -> Vec<Vec<u8>> {
    let texts = [
        include_str!("../fixtures/pipeline.toml"),
        include_str!("../../examples/duration.toml"),
        include_str!("../../examples/speed.toml"),
    ];
    texts.map(Into::into).to_vec()
}
