//! Parsing arbitrary text returns a pipeline or an error and never panics.

use proptest::prelude::*;
use sage_engine::pipeline::Pipeline;

use crate::read::ALL;

/// Parses a text. If it is a pipeline, its canonical text parses to the same pipeline.
fn read(text: &str) {
    if let Ok(pipeline) = Pipeline::parse(text) {
        let written = pipeline.to_text();
        assert_eq!(Pipeline::parse(&written).as_ref(), Ok(&pipeline), "{text}\n{written}");
    }
}

#[test]
fn every_beginning_and_every_end_of_a_file() {
    for text in ALL {
        for cut in (0..text.len()).filter(|cut| text.is_char_boundary(*cut)) {
            read(&text[..cut]);
            read(&text[cut..]);
        }
    }
    read(&format!("a = {}", "[".repeat(100_000)));
    read(&"[pipeline]\n".repeat(1_000));
}

/// Values of an unexpected type or range.
const ODD: [&str; 18] = [
    "0",
    "-1",
    "1e400",
    "-0.0",
    "nan",
    "inf",
    "99999999999999999999",
    "0x7f",
    "true",
    "\"\"",
    "\"\\u0000\"",
    "[]",
    "{}",
    "[[]]",
    "1979-05-27",
    "\"1e-400\"",
    "\"ß\"",
    "4294967296",
];

proptest! {
    #[test]
    fn any_bytes(bytes in prop::collection::vec(any::<u8>(), 0..400)) {
        read(&String::from_utf8_lossy(&bytes));
    }

    /// A valid file with a replaced value and a few changed bytes.
    #[test]
    fn good_files_gone_wrong(
        which in 0..ALL.len(), line in any::<prop::sample::Index>(), odd in 0..ODD.len(),
        flips in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
    ) {
        let mut lines: Vec<String> = ALL[which].lines().map(str::to_owned).collect();
        let line = line.index(lines.len());
        if let Some((key, _)) = lines[line].split_once('=') {
            lines[line] = format!("{key}= {}", ODD[odd]);
        }
        let text = lines.join("\n");
        read(&text);
        let mut bytes = text.into_bytes();
        for (index, byte) in flips {
            let index = index.index(bytes.len());
            bytes[index] = byte;
        }
        read(&String::from_utf8_lossy(&bytes));
    }
}
