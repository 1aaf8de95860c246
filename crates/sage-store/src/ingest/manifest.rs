//! The manifest of a batch: the files that become parts of blocks once the manifest is in the log.
//!
//! The bytes of a manifest are canonical. They contain block keys, which are public, and digests of salted files. They
//! must never contain a number of rows or the size of a file.

use crate::blocks::Part;

/// The folder of a stream for quarantined rows, which belong to no block.
pub const QUARANTINE: &str = "_quarantine";

/// The files of a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// The batch's id.
    pub batch: String,
    /// The new parts of blocks, sorted by path.
    pub parts: Vec<Part>,
    /// Files with quarantined rows, under [`QUARANTINE`]. There is at least one even if no row is quarantined, so that
    /// the log does not reveal whether one was.
    pub quarantine: Vec<Part>,
}

/// Bytes that are not a manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the bytes are not a batch manifest that this version can read")]
pub struct ManifestError;

/// The name of a batch's file number `sequence` in a folder. A retry of the batch gives the same names.
pub fn file_name(batch: &str, sequence: u64) -> String {
    let digest = blake3::hash(batch.as_bytes()).to_hex();
    format!("part-{}-{sequence}.parquet", &digest.as_str()[..16])
}

fn parse_sequence(batch: &str, file: &str) -> Option<u64> {
    let sequence = file.strip_suffix(".parquet")?.rsplit('-').next()?.parse().ok()?;
    (file_name(batch, sequence) == file).then_some(sequence)
}

const VERSION: u8 = 1;

impl Manifest {
    /// The canonical bytes, or `None` if a file's name is not one of [`file_name`].
    pub fn to_bytes(&self) -> Option<Vec<u8>> {
        let mut out = vec![VERSION];
        write_text(&mut out, &self.batch);
        for parts in [&self.parts, &self.quarantine] {
            write_varint(&mut out, parts.len() as u64);
            let mut previous = "";
            for part in parts {
                // Prefix compression: consecutive keys share most of their text.
                let shared = previous.bytes().zip(part.block.bytes()).take_while(|(one, other)| one == other).count();
                let shared = (0..=shared).rev().find(|&end| part.block.is_char_boundary(end)).unwrap_or(0);
                write_varint(&mut out, shared as u64);
                write_text(&mut out, &part.block[shared..]);
                write_varint(&mut out, parse_sequence(&self.batch, &part.file)?);
                out.extend_from_slice(&part.digest);
                previous = &part.block;
            }
        }
        Some(out)
    }

    /// Parses the bytes of a manifest.
    ///
    /// # Errors
    /// When the bytes are not exactly what [`Manifest::to_bytes`] produces.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, ManifestError> {
        let manifest = parse(bytes).ok_or(ManifestError)?;
        // The encoding is canonical: one manifest has one form.
        if manifest.to_bytes().as_deref() == Some(bytes) { Ok(manifest) } else { Err(ManifestError) }
    }
}

fn parse(bytes: &[u8]) -> Option<Manifest> {
    let (&version, mut rest) = bytes.split_first()?;
    if version != VERSION {
        return None;
    }
    let batch = read_text(&mut rest)?;
    let mut lists = [Vec::new(), Vec::new()];
    for parts in &mut lists {
        let mut previous = String::new();
        for _ in 0..read_varint(&mut rest)? {
            let shared = usize::try_from(read_varint(&mut rest)?).ok()?;
            let block = format!("{}{}", previous.get(..shared)?, read_text(&mut rest)?);
            let file = file_name(&batch, read_varint(&mut rest)?);
            let (digest, after) = rest.split_first_chunk::<32>()?;
            rest = after;
            previous.clone_from(&block);
            parts.push(Part { block, file, digest: *digest });
        }
    }
    let [parts, quarantine] = lists;
    rest.is_empty().then_some(Manifest { batch, parts, quarantine })
}

/// Appends a number as LEB128: seven bits per byte, the lowest first.
fn write_varint(out: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        out.push(number as u8 | 0x80);
        number >>= 7;
    }
    out.push(number as u8);
}

fn write_text(out: &mut Vec<u8>, text: &str) {
    write_varint(out, text.len() as u64);
    out.extend_from_slice(text.as_bytes());
}

fn read_varint(rest: &mut &[u8]) -> Option<u64> {
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

fn read_text(rest: &mut &[u8]) -> Option<String> {
    let length = usize::try_from(read_varint(rest)?).ok()?;
    let (text, after) = rest.split_at_checked(length)?;
    *rest = after;
    String::from_utf8(text.to_vec()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn manifest(blocks: &[&str]) -> Manifest {
        let part = |(index, block): (usize, &&str)| Part {
            block: (*block).to_owned(),
            file: file_name("b é", index as u64 * 200),
            digest: [index as u8; 32],
        };
        let parts = blocks.iter().enumerate().map(part).collect();
        let quarantine = vec![Part { block: QUARANTINE.to_owned(), file: file_name("b é", 0), digest: [9; 32] }];
        Manifest { batch: "b é".to_owned(), parts, quarantine }
    }

    #[test]
    fn canonical_bytes_are_parsed_and_all_others_refused() {
        let whole =
            manifest(&["hour=2026-11-01T08", "hour=2026-11-01T09", "hour=2026-11-02T00/é", "hour=2026-11-02T00/è"]);
        for manifest in [whole.clone(), manifest(&[])] {
            let bytes = manifest.to_bytes().expect("canonical names");
            assert_eq!(Manifest::from_bytes(&bytes), Ok(manifest));
            for cut in 0..bytes.len() {
                assert_eq!(Manifest::from_bytes(&bytes[..cut]), Err(ManifestError), "truncated at {cut}");
            }
        }
        let bytes = whole.to_bytes().expect("canonical names");
        for index in 0..bytes.len() {
            let mut other = bytes.clone();
            other[index] ^= 0x81;
            assert_ne!(Manifest::from_bytes(&other), Ok(whole.clone()), "byte {index}");
        }
        assert!(Manifest::from_bytes(&[&bytes[..], b"x"].concat()).is_err());
        // A part takes only a few dozen bytes, also among thousands.
        let many: Vec<String> = (0..20_000).map(|hour| format!("hour=2026-11-01T{hour:05}")).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        assert!(manifest(&many).to_bytes().expect("canonical names").len() < 20_000 * 42);
    }

    #[test]
    fn a_file_with_another_name_is_refused() {
        let mut wrong = manifest(&["hour=2026-11-01T08"]);
        wrong.parts[0].file = "part-x-0.parquet".to_owned();
        assert_eq!(wrong.to_bytes(), None);
    }
}
