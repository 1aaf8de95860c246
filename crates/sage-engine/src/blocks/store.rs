//! Where parts lie: a local directory, or a bucket by its address.
//!
//! The store keeps bytes under paths and knows nothing of blocks. A local write is a plain file, made durable
//! by [`BlockStore::sync`]: file, folder and every folder above, since the object store's own local writer
//! stops at the file. It must never read a part for anyone but the engine's reader and doctor, and its errors
//! name paths, which are public, and never contents.

use std::collections::BTreeSet;
use std::fmt;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write};
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex, mpsc};

use bytes::Bytes;
use futures::TryStreamExt;
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::prefix::PrefixStore;
use object_store::{ObjectStore, ObjectStoreExt};
use tokio::runtime::Runtime;
use url::Url;

use super::keys::{self, BlockKeys};
use crate::private;

/// Why the store did not do what it was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum StoreError {
    /// The address is neither a directory nor one of a bucket.
    Address(String),
    /// A path leads out of the store, or is none.
    Path(String),
    /// There is nothing under that path.
    Absent(String),
    /// The disk or the quota is full.
    Full(String),
    /// The directory or the bucket failed.
    Failed {
        /// The path.
        path: String,
        /// What the system says.
        reason: String,
    },
}

impl fmt::Display for StoreError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address(reason) => {
                write!(
                    out,
                    "this is no place for blocks: {reason}; give a directory or an address like s3://bucket/folder"
                )
            }
            Self::Path(path) => write!(out, "`{path}` is no path within the store"),
            Self::Absent(path) => {
                write!(out, "there is no file `{path}` in the store; `sage doctor` says what is missing")
            }
            Self::Full(path) => {
                write!(out, "no space left for `{path}`: nothing was kept; free some space and send the batch again")
            }
            Self::Failed { path, reason } => write!(out, "the store failed at `{path}`: {reason}"),
        }
    }
}

impl std::error::Error for StoreError {}

/// How many files are brought to the disk at the same time: waiting is what it mostly is.
const SYNC_THREADS: usize = 16;
/// From so many files on, bringing the whole disk up to date costs less than file after file: one flush
/// instead of two for each.
const MANY_FILES: usize = 64;

/// A place for parts.
pub struct BlockStore {
    place: Place,
    objects: Arc<dyn ObjectStore>,
    /// The keys of blocks, where parts are encrypted.
    keys: Option<Arc<BlockKeys>>,
}

enum Place {
    Local(Folder),
    /// The runtime belongs to the store so that it can be used from any thread, within another runtime or none.
    Remote(Runtime),
}

/// A directory, held open: an error of the disk is told to those who had the directory open when it happened.
struct Folder {
    root: PathBuf,
    handle: File,
}

impl BlockStore {
    /// A store at an address: `s3://bucket/folder`, with keys and region in the usual environment variables,
    /// or a directory.
    ///
    /// # Errors
    /// When the address is none, or the directory cannot be made.
    pub fn open(address: &str) -> Result<Self, StoreError> {
        match Url::parse(address) {
            Ok(url) if url.scheme().len() > 1 && url.scheme() != "file" => Self::remote(&url),
            Ok(url) if url.scheme() == "file" => match url.to_file_path() {
                Ok(root) => Self::local(root),
                Err(()) => Err(StoreError::Address("it is no local file address".to_owned())),
            },
            _ => Self::local(address),
        }
    }

    /// A store in a directory, which is made if it is not there.
    ///
    /// # Errors
    /// When it cannot be made.
    pub fn local(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = root.into();
        let failed = |error: &dyn fmt::Display| StoreError::Address(format!("{}: {error}", root.display()));
        private::make_directories(&root).map_err(|error| failed(&error))?;
        private::restrict_directory(&root).map_err(|error| failed(&error))?;
        let root = fs::canonicalize(&root).map_err(|error| failed(&error))?;
        let objects = LocalFileSystem::new_with_prefix(&root).map_err(|error| failed(&error))?;
        let handle = private::open_directory(&root).map_err(|error| failed(&error))?;
        Ok(Self { place: Place::Local(Folder { root, handle }), objects: Arc::new(objects), keys: None })
    }

    fn remote(url: &Url) -> Result<Self, StoreError> {
        let failed = |error: &dyn fmt::Display| StoreError::Address(error.to_string());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let (objects, prefix) = object_store::parse_url_opts(url, std::env::vars()).map_err(|error| failed(&error))?;
        let objects = Arc::new(PrefixStore::new(objects, prefix));
        Ok(Self { place: Place::Remote(runtime), objects, keys: None })
    }

    /// The same store with keys for what is encrypted in it.
    pub(crate) fn with_keys(self, keys: Option<Arc<BlockKeys>>) -> Self {
        Self { keys, ..self }
    }

    /// The keys of blocks, where parts are encrypted.
    pub(crate) fn keys(&self) -> Option<&Arc<BlockKeys>> {
        self.keys.as_ref()
    }

    /// A file's bytes as they are to be stored: encrypted under the owner's key where there are keys.
    pub(crate) fn encrypted(&self, owner: &str, path: &str, bytes: Bytes) -> Result<Bytes, StoreError> {
        keys::stored(self.keys.as_deref(), owner, path, bytes)
    }

    /// A file's bytes as they were before they were stored.
    pub(crate) fn decrypted(&self, owner: &str, path: &str, bytes: Bytes) -> Result<Bytes, StoreError> {
        keys::read_back(self.keys.as_deref(), owner, path, bytes)
    }

    /// Destroys the key of an owner of files, where there are keys.
    pub(crate) fn destroy_key(&self, owner: &str) -> Result<(), StoreError> {
        let Some(keys) = &self.keys else { return Ok(()) };
        keys.destroy(owner).map_err(|error| StoreError::Failed { path: owner.to_owned(), reason: error.to_string() })
    }

    /// The same place for a reader that works on object stores. A path is made with `Path::parse`, since keys
    /// are encoded already.
    pub fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.objects)
    }

    /// The directory, if it is one.
    pub fn root(&self) -> Option<&FilePath> {
        match &self.place {
            Place::Local(folder) => Some(&folder.root),
            Place::Remote(_) => None,
        }
    }

    /// Writes a file and makes it durable.
    ///
    /// # Errors
    /// When it is not there afterwards, or may not survive a power cut.
    pub fn put(&self, path: &str, bytes: Bytes) -> Result<(), StoreError> {
        self.write(path, bytes)?;
        self.sync(&[path.to_owned()])
    }

    /// Writes a file, replacing what a crashed attempt left there; it is durable after [`BlockStore::sync`].
    ///
    /// # Errors
    /// When it was not written; then there is no file under that path.
    pub fn write(&self, path: &str, bytes: Bytes) -> Result<(), StoreError> {
        match &self.place {
            Place::Local(Folder { root, .. }) => {
                let file = local_path(root, path)?;
                write_file(&file, &bytes).map_err(|error| {
                    // What is half-written is worth nothing, and the first error is the one to tell.
                    let _gone = fs::remove_file(&file);
                    local_error(path, &error)
                })
            }
            Place::Remote(runtime) => {
                let (objects, at) = (self.objects(), object_path(path)?);
                let put = wait(runtime, async move { objects.put(&at, bytes.into()).await });
                put.map(|_| ()).map_err(|error| remote_error(path, &error))
            }
        }
    }

    /// Makes files that were written durable, with the folders that lead to them.
    ///
    /// # Errors
    /// When any of them may not survive a power cut. A failed sync is not tried again: what the system then
    /// says is not to be believed.
    pub fn sync(&self, paths: &[String]) -> Result<(), StoreError> {
        let Place::Local(Folder { root, handle }) = &self.place else { return Ok(()) };
        let mut files = Vec::with_capacity(paths.len());
        let mut folders = BTreeSet::new();
        for path in paths {
            let file = local_path(root, path)?;
            let above = file.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
            // Where a folder is already listed, so are those above it.
            for folder in above {
                if !folders.insert(folder.to_owned()) {
                    break;
                }
            }
            files.push(file);
        }
        let folders: Vec<PathBuf> = folders.into_iter().collect();
        if files.len() > MANY_FILES && same_disk(&folders) {
            return sync_disk(root, handle);
        }
        sync_all(&files)?;
        sync_all(&folders)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it is not there, or cannot be read.
    pub fn read(&self, path: &str) -> Result<Bytes, StoreError> {
        match &self.place {
            Place::Local(Folder { root, .. }) => {
                let bytes = fs::read(local_path(root, path)?).map_err(|error| local_error(path, &error))?;
                Ok(Bytes::from(bytes))
            }
            Place::Remote(runtime) => {
                let (objects, at) = (self.objects(), object_path(path)?);
                let read = wait(runtime, async move { objects.get(&at).await?.bytes().await });
                read.map_err(|error| remote_error(path, &error))
            }
        }
    }

    /// The paths of all files below a folder, in order.
    ///
    /// # Errors
    /// When it cannot be listed. A folder that is not there has no files. The empty text is the whole store.
    pub fn list(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        match &self.place {
            Place::Local(Folder { root, .. }) if folder.is_empty() => list_local(root, folder, &mut found)?,
            Place::Local(Folder { root, .. }) => list_local(&local_path(root, folder)?, folder, &mut found)?,
            Place::Remote(runtime) => {
                let at = if folder.is_empty() { None } else { Some(object_path(folder)?) };
                let objects = self.objects();
                let listed = wait(runtime, async move {
                    let found = objects.list(at.as_ref()).map_ok(|object| object.location.to_string());
                    found.try_collect::<Vec<String>>().await
                });
                found = listed.map_err(|error| remote_error(folder, &error))?;
            }
        }
        found.sort_unstable();
        Ok(found)
    }

    /// Removes a file, and the folders that it leaves empty. One that is not there is removed already.
    ///
    /// # Errors
    /// When it is still there.
    pub fn delete(&self, path: &str) -> Result<(), StoreError> {
        let removed = match &self.place {
            Place::Local(Folder { root, .. }) => {
                let file = local_path(root, path)?;
                let removed = fs::remove_file(&file).map_err(|error| local_error(path, &error));
                let above = file.ancestors().skip(1).take_while(|folder| folder.starts_with(root) && folder != root);
                for folder in above {
                    if fs::remove_dir(folder).is_err() {
                        break;
                    }
                }
                removed
            }
            Place::Remote(runtime) => {
                let (objects, at) = (self.objects(), object_path(path)?);
                let removed = wait(runtime, async move { objects.delete(&at).await });
                removed.map_err(|error| remote_error(path, &error))
            }
        };
        match removed {
            Err(StoreError::Absent(_)) => Ok(()),
            removed => removed,
        }
    }
}

/// Every part of a path is a plain name.
fn segments(path: &str) -> Result<impl Iterator<Item = &str>, StoreError> {
    let plain = |name: &str| !matches!(name, "" | "." | "..") && !name.contains(['\\', '\0']);
    if path.split('/').all(plain) { Ok(path.split('/')) } else { Err(StoreError::Path(path.to_owned())) }
}

fn local_path(root: &FilePath, path: &str) -> Result<PathBuf, StoreError> {
    let mut file = root.to_owned();
    file.extend(segments(path)?);
    Ok(file)
}

fn object_path(path: &str) -> Result<Path, StoreError> {
    let _plain = segments(path)?;
    Path::parse(path).map_err(|_| StoreError::Path(path.to_owned()))
}

fn write_file(path: &FilePath, bytes: &[u8]) -> io::Result<()> {
    let mut file = match private::create(path) {
        Err(error) if error.kind() == ErrorKind::NotFound => {
            private::make_directories(path.parent().unwrap_or(path))?;
            private::create(path)?
        }
        file => file?,
    };
    file.write_all(bytes)
}

/// Brings files or folders to the disk, several at a time.
fn sync_all(paths: &[PathBuf]) -> Result<(), StoreError> {
    let next = Mutex::new(paths.iter());
    let work = || -> Result<(), StoreError> {
        loop {
            let path = match next.lock() {
                Ok(mut next) => next.next(),
                Err(_) => None,
            };
            let Some(path) = path else { return Ok(()) };
            private::sync_path(path).map_err(|error| local_error(&path.to_string_lossy(), &error))?;
        }
    };
    std::thread::scope(|scope| {
        let threads: Vec<_> = (1..SYNC_THREADS.min(paths.len())).map(|_| scope.spawn(work)).collect();
        let mut result = work();
        for thread in threads {
            let failed = || StoreError::Failed { path: String::new(), reason: "a thread stopped".to_owned() };
            result = result.and(thread.join().unwrap_or_else(|_| Err(failed())));
        }
        result
    })
}

/// Whether all folders are on one disk, as they are unless somebody has put a link in their way.
#[cfg(target_os = "linux")]
fn same_disk(folders: &[PathBuf]) -> bool {
    use std::os::unix::fs::MetadataExt;
    let mut disks = folders.iter().map(|folder| fs::metadata(folder).map(|found| found.dev()).ok());
    let first = disks.next().flatten();
    first.is_some() && disks.all(|disk| disk == first)
}

#[cfg(not(target_os = "linux"))]
fn same_disk(_folders: &[PathBuf]) -> bool {
    false
}

/// Brings everything on the store's disk to it.
#[cfg(target_os = "linux")]
fn sync_disk(root: &FilePath, handle: &File) -> Result<(), StoreError> {
    rustix::fs::syncfs(handle).map_err(|error| local_error(&root.to_string_lossy(), &error.into()))
}

#[cfg(not(target_os = "linux"))]
fn sync_disk(root: &FilePath, _handle: &File) -> Result<(), StoreError> {
    Err(StoreError::Path(root.to_string_lossy().into_owned()))
}

fn list_local(folder: &FilePath, below: &str, found: &mut Vec<String>) -> Result<(), StoreError> {
    let entries = match fs::read_dir(folder) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
        entries => entries.map_err(|error| local_error(below, &error))?,
    };
    for entry in entries {
        let entry = entry.map_err(|error| local_error(below, &error))?;
        let name = entry.file_name();
        let name = name.to_string_lossy();
        let path = if below.is_empty() { name.into_owned() } else { format!("{below}/{name}") };
        let kind = entry.file_type().map_err(|error| local_error(&path, &error))?;
        if kind.is_dir() {
            list_local(&entry.path(), &path, found)?;
        } else {
            found.push(path);
        }
    }
    Ok(())
}

fn local_error(path: &str, error: &io::Error) -> StoreError {
    let path = path.to_owned();
    match error.kind() {
        ErrorKind::NotFound => StoreError::Absent(path),
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge => StoreError::Full(path),
        _ => StoreError::Failed { path, reason: error.to_string() },
    }
}

fn remote_error(path: &str, error: &object_store::Error) -> StoreError {
    match error {
        object_store::Error::NotFound { .. } => StoreError::Absent(path.to_owned()),
        error => StoreError::Failed { path: path.to_owned(), reason: error.to_string() },
    }
}

/// Runs a request on the store's own threads and waits for it here.
fn wait<T: Send + 'static>(
    runtime: &Runtime, work: impl Future<Output = Result<T, object_store::Error>> + Send + 'static,
) -> Result<T, object_store::Error> {
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // Nobody is waiting any more if this fails, so nobody is to be told.
        let _told = sender.send(work.await);
    });
    let stopped = || object_store::Error::Generic { store: "store", source: "the request was given up".into() };
    receiver.recv().unwrap_or_else(|_| Err(stopped()))
}
