//! Whatever stands in a file, reading it ends in a pipeline or a message.

use proptest::prelude::*;
use sage_engine::pipeline::Pipeline;

use crate::read::ALL;

/// Reads a text; if it is a pipeline, its written form is too, and the same one.
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

/// Things that stand where something else should.
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

    /// A value of a good file becomes another, or a few of its bytes do.
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
        for (place, byte) in flips {
            let place = place.index(bytes.len());
            bytes[place] = byte;
        }
        read(&String::from_utf8_lossy(&bytes));
    }
}
