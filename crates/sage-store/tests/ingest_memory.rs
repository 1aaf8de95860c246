//! However much comes through a pipe, taking it in needs a bounded amount of memory.
//!
//! Alone in its program, since what is measured is the most the process ever had.

use std::io::Read;

use sage_kernel::noise::SecureNoise;
use sage_store::blocks::BlockStore;
use sage_store::ingest::{Batch, Lanes, Source, ingest};
use sage_store::stream::StreamFile;

/// One category holds nearly everything, so that a single block has to be written in pieces.
const STREAM: &str = r#"
[stream]
name = "flood"
unit = "event"
time = "at"
blocks = { attribute = "kind" }
[policy]
epsilon = 1
delta = "1e-6"
[[columns]]
name = "at"
type = "time"
[[columns]]
name = "value"
type = "number"
min = 0
max = 1
[[columns]]
name = "kind"
type = "category"
categories = ["a", "b"]
other = "a"
[[columns]]
name = "word"
type = "text"
"#;

const MEBIBYTE: usize = 1 << 20;

/// Lines of CSV without end, up to a limit, that are made when they are asked for.
struct Flood {
    left: usize,
    line: Vec<u8>,
    given: usize,
    number: u64,
}

impl Read for Flood {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.given == self.line.len() {
            if self.left < self.line.len() {
                return Ok(0);
            }
            // Numbers that do not repeat, so that nothing can be folded together.
            self.number = self.number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            self.line.clear();
            for shift in 0..64 {
                let mixed = self.number.rotate_left(shift).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let line = format!("2026-11-01 08:15:{:02},0.{mixed},x,{mixed:016x}\n", mixed % 60);
                self.line.extend_from_slice(line.as_bytes());
            }
            self.left -= self.line.len();
            self.given = 0;
        }
        let count = out.len().min(self.line.len() - self.given);
        out[..count].copy_from_slice(&self.line[self.given..self.given + count]);
        self.given += count;
        Ok(count)
    }
}

/// The most memory the process ever had, where the system tells.
fn peak_bytes() -> Option<usize> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find(|line| line.starts_with("VmHWM:"))?;
    let kibibytes: usize = line.split_whitespace().nth(1)?.parse().ok()?;
    Some(kibibytes * 1024)
}

#[test]
fn memory_does_not_grow_with_the_input() {
    let bytes = if std::env::var_os("SAGE_SOAK").is_some() { 5 << 30 } else { 800 * MEBIBYTE };
    let folder = tempfile::tempdir().expect("a folder");
    let store = BlockStore::local(folder.path()).expect("a store");
    let stream = StreamFile::parse(STREAM).expect("a stream");
    let header = std::io::Cursor::new(b"at,value,kind,word\n".to_vec());
    let flood = header.chain(Flood { left: bytes, line: vec![b'\n'], given: 1, number: 1 });
    let source = Source::Pipe { name: "standard input".to_owned(), bytes: Box::new(flood), format: None };
    let mut noise = SecureNoise::new().expect("randomness");
    let lanes = Lanes { noise: &mut noise, users: None };
    let taken = ingest(&stream, source, Batch { id: "flood", received: 0 }, lanes, &|_| false, &store).expect("rows");
    assert_eq!(taken.report.read, taken.report.stored);
    assert!(taken.manifest.parts.len() > 2, "the chunks were written as they filled");
    match peak_bytes() {
        Some(peak) => {
            println!("{} MiB came in, {} MiB at most were held", bytes / MEBIBYTE, peak / MEBIBYTE);
            assert!(peak < 640 * MEBIBYTE, "{} MiB", peak / MEBIBYTE);
        }
        None => println!("left out: this system does not tell how much memory was used"),
    }
}
