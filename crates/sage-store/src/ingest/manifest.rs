//! What a batch brought: the files that become parts of blocks once the log names them.
//!
//! The bytes of a manifest are canonical and go into the log. They name blocks, which are public, and digests
//! of salted files. They must never hold a count of rows or the size of a file.

use std::fmt;

use crate::blocks::Part;

/// The folder of a stream for rows that belong to no block.
pub const QUARANTINE: &str = "_quarantine";

/// The files of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The batch's id.
    pub batch: String,
    /// The new parts of blocks, in the order of their paths.
    pub parts: Vec<Part>,
    /// Files with rows that are in no block, under [`QUARANTINE`]. There is one even where no row is set
    /// aside, so that the log does not tell whether one was.
    pub quarantine: Vec<Part>,
}

/// The bytes are no manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoManifest;

impl fmt::Display for NoManifest {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("the bytes are no manifest of a batch that this version can read")
    }
}

impl std::error::Error for NoManifest {}

/// The name of a batch's file number `sequence` in a folder: the same whenever the batch is tried again.
pub fn file_name(batch: &str, sequence: u64) -> String {
    let digest = blake3::hash(batch.as_bytes()).to_hex();
    format!("part-{}-{sequence}.parquet", &digest.as_str()[..16])
}

fn sequence_of(batch: &str, file: &str) -> Option<u64> {
    let sequence = file.strip_suffix(".parquet")?.rsplit('-').next()?.parse().ok()?;
    (file_name(batch, sequence) == file).then_some(sequence)
}

const VERSION: u8 = 1;

impl Manifest {
    /// The canonical bytes; nothing if a file is not named as [`file_name`] names it.
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut out = vec![VERSION];
        put_text(&mut out, &self.batch);
        for parts in [&self.parts, &self.quarantine] {
            put_number(&mut out, parts.len() as u64);
            let mut before = "";
            for part in parts {
                // Neighbours in order share most of their path.
                let shared = before.bytes().zip(part.block.bytes()).take_while(|(one, other)| one == other).count();
                let shared = (0..=shared).rev().find(|&at| part.block.is_char_boundary(at)).unwrap_or(0);
                put_number(&mut out, shared as u64);
                put_text(&mut out, &part.block[shared..]);
                put_number(&mut out, sequence_of(&self.batch, &part.file)?);
                out.extend_from_slice(&part.digest);
                before = &part.block;
            }
        }
        Some(out)
    }

    /// Reads the bytes back.
    ///
    /// # Errors
    /// When they are not exactly what [`Manifest::to_bytes`] writes.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, NoManifest> {
        let manifest = read(bytes).ok_or(NoManifest)?;
        // There is one form only: what reads as the same manifest must be the same bytes.
        if manifest.to_bytes().as_deref() == Some(bytes) { Ok(manifest) } else { Err(NoManifest) }
    }
}

fn read(bytes: &[u8]) -> Option<Manifest> {
    let (&version, mut rest) = bytes.split_first()?;
    if version != VERSION {
        return None;
    }
    let batch = take_text(&mut rest)?;
    let mut lists = [Vec::new(), Vec::new()];
    for parts in &mut lists {
        let mut before = String::new();
        for _ in 0..take_number(&mut rest)? {
            let shared = usize::try_from(take_number(&mut rest)?).ok()?;
            let block = format!("{}{}", before.get(..shared)?, take_text(&mut rest)?);
            let file = file_name(&batch, take_number(&mut rest)?);
            let (digest, after) = rest.split_first_chunk::<32>()?;
            rest = after;
            before.clone_from(&block);
            parts.push(Part { block, file, digest: *digest });
        }
    }
    let [parts, quarantine] = lists;
    rest.is_empty().then_some(Manifest { batch, parts, quarantine })
}

/// Seven bits a byte, the lowest first.
fn put_number(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn put_text(out: &mut Vec<u8>, text: &str) {
    put_number(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn take_number(rest: &mut &[u8]) -> Option<u64> {
    let mut number = 0_u64;
    for shift in (0..63).step_by(7) {
        let (&byte, after) = rest.split_first()?;
        *rest = after;
        number |= u64::from(byte & 0x7F) << shift;
        if byte & 0x80 == 0 {
            return Some(number);
        }
    }
    None
}

fn take_text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(take_number(rest)?).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(blocks: &[&str]) -> Manifest {
        let part = |(place, block): (usize, &&str)| Part {
            block: (*block).to_owned(),
            file: file_name("b é", place as u64 * 200),
            digest: [place as u8; 32],
        };
        let parts = blocks.iter().enumerate().map(part).collect();
        let quarantine = vec![Part { block: QUARANTINE.to_owned(), file: file_name("b é", 0), digest: [9; 32] }];
        Manifest { batch: "b é".to_owned(), parts, quarantine }
    }

    #[test]
    fn bytes_lead_back_and_any_other_bytes_do_not() {
        let whole =
            manifest(&["hour=2026-11-01T08", "hour=2026-11-01T09", "hour=2026-11-02T00/é", "hour=2026-11-02T00/è"]);
        for manifest in [whole.clone(), manifest(&[])] {
            let bytes = manifest.to_bytes().expect("canonical names");
            assert_eq!(Manifest::from_bytes(&bytes), Ok(manifest));
            for cut in 0..bytes.len() {
                assert_eq!(Manifest::from_bytes(&bytes[..cut]), Err(NoManifest), "cut at {cut}");
            }
        }
        let bytes = whole.to_bytes().expect("canonical names");
        for place in 0..bytes.len() {
            let mut other = bytes.clone();
            other[place] ^= 0x81;
            assert_ne!(Manifest::from_bytes(&other), Ok(whole.clone()), "byte {place}");
        }
        assert!(Manifest::from_bytes(&[&bytes[..], b"x"].concat()).is_err());
        // Thousands of parts stay within a few dozen bytes each.
        let many: Vec<String> = (0..20_000).map(|hour| format!("hour=2026-11-01T{hour:05}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(manifest(&many).to_bytes().expect("canonical names").len() < 20_000 * 42);
    }

    #[test]
    fn a_strangers_file_has_no_place_in_it() {
        let mut wrong = manifest(&["hour=2026-11-01T08"]);
        wrong.parts[0].file = "part-x-0.parquet".to_owned();
        assert_eq!(wrong.to_bytes(), None);
    }
}
