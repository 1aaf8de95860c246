//! The cache of block summaries: sums over the rows of a block, stored for the next read.
//!
//! Summaries are as secret as the rows. They are in the directory, beside the log, in one file per block, lane and
//! kind of summary. The kernel seals their contents under one permit and opens them under another; this module only
//! sees bytes. Summaries can always be recomputed from the rows. So a file that is torn, damaged, outdated or under
//! another name counts as a cache miss, writes are not flushed, and no operation fails because of the cache.

use std::path::Path;
use std::sync::Arc;

use bytes::Bytes;
use sage_kernel::{Lane, SummaryTag};

use super::keys::{self, is_encrypted};
use super::{BlockKeys, BlockStore, Part, StoreError};

/// The first bytes of a file.
const MARK: &[u8] = b"sage sums 1\n";
/// The most files of a block. When one more is stored, all others are evicted, because it is not known which summaries
/// running pipelines still need. Those are recomputed.
const MOST: usize = 16;
/// The folder in the directory.
const FOLDER: &str = "sums";

/// A digest of the stored rows of a block.
pub fn parts_digest(parts: &[Part]) -> [u8; 32] {
    let mut hash = blake3::Hasher::new_derive_key("sage: the parts of a block");
    for part in parts {
        hash.update(&part.digest);
    }
    *hash.finalize().as_bytes()
}

/// The identity of a cached summary.
pub struct SummaryId<'a> {
    /// The stream.
    pub stream: &'a str,
    /// The block's key.
    pub block: &'a str,
    /// The lane.
    pub lane: Lane,
    /// The kernel's tag for the kind of summary.
    pub tag: SummaryTag,
}

impl SummaryId<'_> {
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

/// A cache of block summaries on disk.
pub struct SummaryCache {
    store: BlockStore,
    /// The data keys of blocks, if summaries are encrypted like the rows.
    keys: Option<Arc<BlockKeys>>,
}

impl SummaryCache {
    /// Opens the cache of a directory.
    ///
    /// # Errors
    /// When its folder cannot be created.
    pub fn open(directory: &Path) -> Result<Self, StoreError> {
        Ok(Self { store: BlockStore::local(directory.join(FOLDER))?, keys: None })
    }

    /// The same cache with data keys.
    pub fn with_keys(self, keys: Option<Arc<BlockKeys>>) -> Self {
        Self { keys, ..self }
    }

    /// The decrypted bytes of a file, or `None` if the file or its key does not exist.
    fn read(&self, path: &str) -> Option<Bytes> {
        let (stream, block) = Self::owner(path)?;
        let bytes = self.store.read(path).ok()?;
        keys::decrypt_file(self.keys.as_deref(), &format!("{stream}/{block}"), &key_path(path), bytes).ok()
    }

    /// The sealed summaries with this identity, if the file is intact and was computed from the parts with this digest.
    pub fn find(&self, id: &SummaryId<'_>, source: [u8; 32]) -> Option<Vec<Vec<u8>>> {
        let path = id.path();
        let bytes = self.read(&path)?;
        let mut rest = verify(&path, &bytes).filter(|(computed_from, _)| *computed_from == source)?.1;
        let mut sums = Vec::new();
        while let Some((length, after)) = rest.split_first_chunk::<4>() {
            let (sealed, after) = after.split_at_checked(u32::from_le_bytes(*length) as usize)?;
            sums.push(sealed.to_vec());
            rest = after;
        }
        Some(sums)
    }

    /// Stores the sealed summaries with this identity. `source` is the digest of the block's parts and `parts_bytes`
    /// their size: summaries that are larger than the parts are not stored, since reading them is not faster. `deleted`
    /// returns whether the block has been deleted.
    pub fn insert(
        &self, id: &SummaryId<'_>, source: [u8; 32], parts_bytes: u64, sums: &[Vec<u8>], deleted: impl Fn() -> bool,
    ) {
        let path = id.path();
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
        let others = self.block_files(&id.folder()).unwrap_or_default();
        if others.len() >= MOST && !others.contains(&path) {
            others.iter().for_each(|other| drop(self.store.delete(other)));
        }
        // No data key is created here: a deleted block must not get a new one.
        let owner = id.folder();
        let Ok(bytes) =
            keys::encrypt_with_existing_key(self.keys.as_deref(), &owner, &key_path(&path), Bytes::from(bytes))
        else {
            return;
        };
        drop(self.store.write(&path, bytes));
        // A block can be deleted while a session reads it. The deletion is an event in the log before its files are
        // listed. So either the deletion finds this file, or `deleted` returns true here.
        if deleted() {
            drop(self.store.delete(&path));
        }
    }

    /// Removes the summaries of a block.
    ///
    /// # Errors
    /// When some remain.
    pub fn remove(&self, stream: &str, block: &str) -> Result<(), StoreError> {
        self.block_files(&format!("{stream}/{block}"))?.iter().try_for_each(|path| self.store.delete(path))
    }

    /// The files of a block, without those of blocks with more levels in folders below.
    fn block_files(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let mut files = self.store.list(folder)?;
        files.retain(|path| path.rsplit_once('/').is_some_and(|(own, _)| own == folder));
        Ok(files)
    }

    /// The paths of all files.
    pub fn list(&self) -> Result<Vec<String>, StoreError> {
        self.store.list("")
    }

    /// Removes a file.
    pub fn delete(&self, path: &str) -> Result<(), StoreError> {
        self.store.delete(path)
    }

    /// The digest of the parts from which a file was computed, if the file is intact.
    pub fn source(&self, path: &str) -> Option<[u8; 32]> {
        verify(path, &self.read(path)?).map(|(source, _)| source)
    }

    /// Whether a file is encrypted and there are no keys. Then only its path can be checked.
    pub fn is_locked(&self, path: &str) -> bool {
        self.keys.is_none() && self.store.read(path).is_ok_and(|bytes| is_encrypted(&bytes))
    }

    /// The stream and the block of a file.
    pub fn owner(path: &str) -> Option<(&str, &str)> {
        path.rsplit_once('/').and_then(|(folder, _)| folder.split_once('/'))
    }
}

/// The path that encryption authenticates. Its prefix distinguishes it from the paths of parts.
fn key_path(path: &str) -> String {
    format!("{FOLDER}/{path}")
}

/// Checks the digest of a file. Returns the digest of the parts and the encoded summaries.
fn verify<'bytes>(path: &str, bytes: &'bytes [u8]) -> Option<([u8; 32], &'bytes [u8])> {
    let (content, found) = bytes.split_last_chunk::<32>()?;
    let (source, sums) = content.strip_prefix(MARK)?.split_first_chunk::<32>()?;
    (digest(path, content) == *found).then_some((*source, sums))
}

/// The digest of a file. It covers the path, so that a file under another name is not accepted.
fn digest(path: &str, bytes: &[u8]) -> [u8; 32] {
    let mut hash = blake3::Hasher::new_derive_key("sage: sums of a block");
    hash.update(&(path.len() as u64).to_le_bytes()).update(path.as_bytes()).update(bytes);
    *hash.finalize().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: [u8; 32] = [7; 32];

    fn id(block: &str, number: u8) -> SummaryId<'_> {
        SummaryId { stream: "rides", block, lane: Lane::Train, tag: SummaryTag([number; 32]) }
    }

    fn open_cache() -> (tempfile::TempDir, SummaryCache) {
        let folder = tempfile::tempdir().unwrap();
        let cache = SummaryCache::open(folder.path()).unwrap();
        (folder, cache)
    }

    #[test]
    fn only_intact_and_current_summaries_are_found() {
        let (folder, cache) = open_cache();
        let own = id("day=1", 1);
        let sealed = vec![vec![1, 2, 3], Vec::new(), vec![4; 500]];
        cache.insert(&own, SOURCE, 10_000, &sealed, || false);
        assert_eq!(cache.find(&own, SOURCE), Some(sealed.clone()));
        assert_eq!(cache.source(&own.path()), Some(SOURCE));
        assert_eq!(cache.find(&own, [8; 32]), None, "of an earlier state of the block");
        assert_eq!(cache.find(&SummaryId { lane: Lane::Test, ..id("day=1", 1) }, SOURCE), None);
        assert_eq!(cache.find(&id("day=1", 2), SOURCE), None);
        let file = folder.path().join(FOLDER).join(own.path());
        let bytes = std::fs::read(&file).unwrap();
        // A copy under the name of another entry is not accepted.
        for other in [id("day=1", 2), id("day=2", 1), SummaryId { lane: Lane::Test, ..id("day=1", 1) }] {
            let moved = folder.path().join(FOLDER).join(other.path());
            std::fs::create_dir_all(moved.parent().unwrap()).unwrap();
            std::fs::write(&moved, &bytes).unwrap();
            assert_eq!(cache.find(&other, SOURCE), None);
            assert_eq!(cache.source(&other.path()), None);
        }
        for index in 0..bytes.len() {
            let mut changed = bytes.clone();
            changed[index] ^= 1;
            std::fs::write(&file, &changed).unwrap();
            assert_eq!(cache.find(&own, SOURCE), None, "byte {index}");
            std::fs::write(&file, &bytes[..index]).unwrap();
            assert_eq!(cache.find(&own, SOURCE), None, "truncated at {index}");
        }
        cache.insert(&own, SOURCE, 10_000, &sealed, || false);
        assert_eq!(cache.find(&own, SOURCE), Some(sealed), "written again");
    }

    #[test]
    fn summaries_are_removed_with_their_block_and_limited_in_number_and_size() {
        let (_folder, cache) = open_cache();
        let one = [vec![0; 10]];
        for number in 0..40 {
            cache.insert(&id("day=1", number), SOURCE, 10_000, &one, || false);
            assert!(cache.find(&id("day=1", number), SOURCE).is_some());
            assert!(cache.list().unwrap().len() <= MOST);
        }
        cache.insert(&id("day=1/late=2", 1), SOURCE, 10_000, &one, || false);
        cache.insert(&id("day=10", 1), SOURCE, 10_000, &one, || false);
        assert_eq!(SummaryCache::owner(&id("day=1/late=2", 1).path()), Some(("rides", "day=1/late=2")));
        cache.remove("rides", "day=1").unwrap();
        assert_eq!(cache.list().unwrap(), [id("day=1/late=2", 1).path(), id("day=10", 1).path()]);
        cache.remove("rides", "day=1/late=2").unwrap();
        cache.insert(&id("day=10", 2), SOURCE, 10, &one, || false);
        assert!(cache.find(&id("day=10", 2), SOURCE).is_none(), "larger than the rows");
        // The block was deleted while a session read it.
        cache.insert(&id("day=10", 3), SOURCE, 10_000, &one, || true);
        assert_eq!(cache.list().unwrap(), [id("day=10", 1).path()]);
    }
}
