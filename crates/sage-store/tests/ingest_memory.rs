//! Ingest uses bounded memory, however large the input.
//!
//! The only test of its program, because it measures the peak memory of the process.

use std::io::Read;

use sage_kernel::noise::SecureNoise;
use sage_store::blocks::BlockStore;
use sage_store::ingest::{Batch, LaneSource, Source, ingest};
use sage_store::stream::StreamFile;

/// Nearly all rows have one category, so a single block must be written in several parts.
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

/// A reader that generates lines of CSV up to a total size.
struct CsvGenerator {
    left: usize,
    lines: Vec<u8>,
    returned: usize,
    number: u64,
}

impl Read for CsvGenerator {
    fn read(&mut self, out: &mut [u8]) -> std::io::Result<usize> {
        if self.returned == self.lines.len() {
            if self.left < self.lines.len() {
                return Ok(0);
            }
            // Numbers that do not repeat, so that the rows cannot be compressed.
            self.number = self.number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            self.lines.clear();
            for shift in 0..64 {
                let mixed = self.number.rotate_left(shift).wrapping_mul(0x9E37_79B9_7F4A_7C15);
                let line = format!("2026-11-01 08:15:{:02},0.{mixed},x,{mixed:016x}\n", mixed % 60);
                self.lines.extend_from_slice(line.as_bytes());
            }
            self.left -= self.lines.len();
            self.returned = 0;
        }
        let count = out.len().min(self.lines.len() - self.returned);
        out[..count].copy_from_slice(&self.lines[self.returned..self.returned + count]);
        self.returned += count;
        Ok(count)
    }
}

/// The peak memory of the process, if the system reports it.
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
    let rows = header.chain(CsvGenerator { left: bytes, lines: vec![b'\n'], returned: 1, number: 1 });
    let source = Source::Pipe { name: "standard input".to_owned(), bytes: Box::new(rows), format: None };
    let mut noise = SecureNoise::new().expect("randomness");
    let lanes = LaneSource { noise: &mut noise, users: None };
    let ingested =
        ingest(&stream, source, Batch { id: "flood", received: 0 }, lanes, &|_| false, &store).expect("rows");
    assert_eq!(ingested.report.read, ingested.report.stored);
    assert!(ingested.manifest.parts.len() > 2, "chunks are written when they are full");
    match peak_bytes() {
        Some(peak) => {
            println!("{} MiB ingested, peak memory {} MiB", bytes / MEBIBYTE, peak / MEBIBYTE);
            assert!(peak < 640 * MEBIBYTE, "{} MiB", peak / MEBIBYTE);
        }
        None => println!("skipped: this system does not report peak memory"),
    }
}
