//! Sums of blocks that were summed once, kept for the next reading.
//!
//! They are as secret as the rows they were made of and lie in the directory, beside the log, a file for each block,
//! lane and thing that was summed. What is in a file was sealed by the kernel under a permit and is opened by the
//! kernel under another; here it is bytes. A file is worth no more than the time it spares: one that is torn, damaged,
//! of an earlier state of its block or under another name is none, and whoever misses one sums the rows again. So
//! nothing is flushed, and nothing here may be the reason why something fails.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use sage_kernel::{Lane, SummaryTag};

use super::keys::{self, is_encrypted};
use super::{BlockKeys, BlockStore, Part, StoreError};

/// What a file begins with.
const MARK: &[u8] = b"sage sums 1\n";
/// How many files a block has at most. Pipelines come and go, and nobody says when sums are no longer asked for: with
/// one more the others go, and those that are still wanted come back.
const MOST: usize = 16;
/// The folder in the directory.
const FOLDER: &str = "sums";

/// A digest of the rows of a block as they are stored.
pub fn parts_digest(parts: &[Part]) -> [u8; 32] {
    let mut hash = blake3::Hasher::new_derive_key("sage: the parts of a block");
    for part in parts {
        hash.update(&part.digest);
    }
    *hash.finalize().as_bytes()
}

/// Whose sums, and of what.
pub struct Place<'a> {
    /// The stream's name.
    pub stream: &'a str,
    /// The block's key.
    pub block: &'a str,
    /// The lane of the summed rows.
    pub lane: Lane,
    /// What was summed.
    pub tag: Tag,
}

impl Place<'_> {
    fn folder(&self) -> String {
        format!("{}/{}", self.stream, self.block)
    }

    fn path(&self) -> String {
        let lane = match self.lane {
            Lane::Train => "train",
            Lane::Test => "test",
        };
        format!("{}/{lane}-{}", self.folder(), blake3::Hash::from(self.tag.0).to_hex())
    }
}

/// Where sums are kept.
pub struct KeptSums {
    store: BlockStore,
    /// The keys of blocks, where summaries are encrypted like the rows they were made of.
    keys: Option<Arc<BlockKeys>>,
}

impl KeptSums {
    /// Those of a directory.
    ///
    /// # Errors
    /// When their folder cannot be made.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Ok(Self { store: BlockStore::local(directory.join(FOLDER))?, keys: None })
    }

    /// The same folder with keys.
    pub fn with_keys(self, keys: Option<Arc<BlockKeys>>) -> Self {
        Self { keys, ..self }
    }

    /// The bytes of a file as they were kept; `None` if there is none, or its key is gone.
    fn read(&self, path: &str) -> Option<Bytes> {
        let (stream, block) = Self::whose(path)?;
        let bytes = self.store.read(path).ok()?;
        keys::read_back(self.keys.as_deref(), &format!("{stream}/{block}"), &key_path(path), bytes).ok()
    }

    /// The sealed sums of a place, if they were made of the parts with this digest and are whole.
    pub fn find(&self, place: &Place<'_>, source: [u8; 32]) -> Option<Vec<Vec<u8>>> {
        let path = place.path();
        let bytes = self.read(&path)?;
        let mut rest = opened(&path, &bytes).filter(|(made_of, _)| *made_of == source)?.1;
        let mut sums = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let (sealed, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            sums.push(sealed.to_vec());
            rest = after;
        }
        Some(sums)
    }

    /// Keeps the sealed sums of a place, of parts with this digest that have so many bytes: sums that are longer are
    /// no quicker to read. `gone` says whether the rows of the block are no longer kept.
    pub fn keep(
        &self, place: &Place<'_>, source: [u8; 32], parts_bytes: u64, sums: &[Vec<u8>], gone: impl Fn() -> bool,
    ) {
        let path = place.path();
        let mut bytes = [MARK, &source].concat();
        for sealed in sums {
            let Ok(length) = u32::try_from(sealed.len()) else { return };
            bytes.extend(length.to_le_bytes());
            bytes.extend(sealed);
        }
        let digest = digest(&path, &bytes);
        bytes.extend(digest);
        if bytes.len() as u64 > parts_bytes {
            return;
        }
        let others = self.of_block(&place.folder()).unwrap_or_default();
        if others.len() >= MOST && !others.contains(&path) {
            others.iter().for_each(|other| drop(self.store.delete(other)));
        }
        // No key is made here: a block that was deleted must not get another.
        let owner = place.folder();
        let Ok(bytes) = keys::stored_if_keyed(self.keys.as_deref(), &owner, &key_path(&path), Bytes::from(bytes))
        else {
            return;
        };
        drop(self.store.write(&path, bytes));
        // A block can be deleted while a session reads it. Its deletion is an event before its files are looked for, so
        // either this file was found there, or the event is seen here.
        if gone() {
            drop(self.store.delete(&path));
        }
    }

    /// Removes the sums of a block.
    ///
    /// # Errors
    /// When some are still there.
    pub fn remove(&self, stream: &str, block: &str) -> Result<(), StoreError> {
        self.of_block(&format!("{stream}/{block}"))?.iter().try_for_each(|path| self.store.delete(path))
    }

    /// The files of a block; those of blocks with more levels lie below and are not its own.
    fn of_block(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let mut files = self.store.list(folder)?;
        files.retain(|path| path.rsplit_once('/').is_some_and(|(own, _)| own == folder));
        Ok(files)
    }

    /// Everything that lies there.
    pub fn list(&self) -> Result<Vec<String>, StoreError> {
        self.store.list("")
    }

    /// Removes one of the files that are listed.
    pub fn delete(&self, path: &str) -> Result<(), StoreError> {
        self.store.delete(path)
    }

    /// The digest of the parts that the sums of a file were made of, if the file is whole.
    pub fn source(&self, path: &str) -> Option<[u8; 32]> {
        opened(path, &self.read(path)?).map(|(source, _)| source)
    }

    /// Whether a file is encrypted under a key that is not at hand: then only its path can be checked.
    pub fn is_locked(&self, path: &str) -> bool {
        self.keys.is_none() && self.store.read(path).is_ok_and(|bytes| is_encrypted(&bytes))
    }

    /// The stream and the block that a file is for.
    pub fn whose(path: &str) -> Option<(&str, &str)> {
        path.rsplit_once('/').and_then(|(folder, _)| folder.split_once('/'))
    }
}

/// The path of a file as its encryption authenticates it: apart from the paths of parts.
fn key_path(path: &str) -> String {
    format!("{FOLDER}/{path}")
}

/// The digest of the parts, and the sums, in a file that lies there whole.
fn opened<'bytes>(path: &str, bytes: &'bytes [u8]) -> Option<([u8; 32], &'bytes [u8])> {
    let (said, found) = bytes.split_last_chunk::<32>()?;
    let (source, sums) = said.strip_prefix(MARK)?.split_first_chunk::<32>()?;
    (digest(path, said) == *found).then_some((*source, sums))
}

/// What binds the bytes of a file to its place, so that sums of something else never stand for what was asked for.
fn digest(path: &str, bytes: &[u8]) -> [u8; 32] {
    let mut hash = blake3::Hasher::new_derive_key("sage: sums of a block");
    hash.update(&(path.len() as u64).to_le_bytes()).update(path.as_bytes()).update(bytes);
    *hash.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: [u8; 32] = [7; 32];

    fn place(block: &str, number: u8) -> Place<'_> {
        Place { stream: "rides", block, lane: Lane::Train, tag: SummaryTag([number; 32]) }
    }

    fn kept() -> (tempfile::TempDir, KeptSums) {
        let folder = tempfile::tempdir().unwrap();
        let sums = KeptSums::open(folder.path()).unwrap();
        (folder, sums)
    }

    #[test]
    fn what_was_kept_is_found_and_nothing_else_is_taken_for_it() {
        let (folder, sums) = kept();
        let here = place("day=1", 1);
        let sealed = vec![vec![1, 2, 3], Vec::new(), vec![4; 500]];
        sums.keep(&here, SOURCE, 10_000, &sealed, || false);
        assert_eq!(sums.find(&here, SOURCE), Some(sealed.clone()));
        assert_eq!(sums.source(&here.path()), Some(SOURCE));
        assert_eq!(sums.find(&here, [8; 32]), None, "of an earlier state of the block");
        assert_eq!(sums.find(&Place { lane: Lane::Test, ..place("day=1", 1) }, SOURCE), None);
        assert_eq!(sums.find(&place("day=1", 2), SOURCE), None);
        let file = folder.path().join(FOLDER).join(here.path());
        let bytes = std::fs::read(&file).unwrap();
        // Under another name they are the sums of something else.
        for other in [place("day=1", 2), place("day=2", 1), Place { lane: Lane::Test, ..place("day=1", 1) }] {
            let moved = folder.path().join(FOLDER).join(other.path());
            std::fs::create_dir_all(moved.parent().unwrap()).unwrap();
            std::fs::write(&moved, &bytes).unwrap();
            assert_eq!(sums.find(&other, SOURCE), None);
            assert_eq!(sums.source(&other.path()), None);
        }
        for at in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            std::fs::write(&file, &changed).unwrap();
            assert_eq!(sums.find(&here, SOURCE), None, "byte {at}");
            std::fs::write(&file, &bytes[..at]).unwrap();
            assert_eq!(sums.find(&here, SOURCE), None, "cut at {at}");
        }
        sums.keep(&here, SOURCE, 10_000, &sealed, || false);
        assert_eq!(sums.find(&here, SOURCE), Some(sealed), "written anew");
    }

    #[test]
    fn sums_go_with_their_block_and_never_outnumber_it() {
        let (_folder, sums) = kept();
        let one = [vec![0; 10]];
        for number in 0..40 {
            sums.keep(&place("day=1", number), SOURCE, 10_000, &one, || false);
            assert!(sums.find(&place("day=1", number), SOURCE).is_some());
            assert!(sums.list().unwrap().len() <= MOST);
        }
        sums.keep(&place("day=1/late=2", 1), SOURCE, 10_000, &one, || false);
        sums.keep(&place("day=10", 1), SOURCE, 10_000, &one, || false);
        assert_eq!(KeptSums::whose(&place("day=1/late=2", 1).path()), Some(("rides", "day=1/late=2")));
        sums.remove("rides", "day=1").unwrap();
        assert_eq!(sums.list().unwrap(), [place("day=1/late=2", 1).path(), place("day=10", 1).path()]);
        sums.remove("rides", "day=1/late=2").unwrap();
        sums.keep(&place("day=10", 2), SOURCE, 10, &one, || false);
        assert!(sums.find(&place("day=10", 2), SOURCE).is_none(), "longer than the rows");
        // Deleted while it was read.
        sums.keep(&place("day=10", 3), SOURCE, 10_000, &one, || true);
        assert_eq!(sums.list().unwrap(), [place("day=10", 1).path()]);
    }
}
