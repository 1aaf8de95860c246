//! The store of parts: a local directory or a bucket.
//!
//! The store maps paths to bytes and knows nothing of blocks. A local write creates a plain file.
//! [`BlockStore::sync`] makes it durable, with its folder and every folder above; the local writer of the
//! `object_store` crate only syncs the file. Parts may be read only by the engine's reader and doctor. Errors contain
//! paths, which are public, and never contents.

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

/// Why an operation of the store failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The address is neither a directory nor that of a bucket.
    #[error("blocks cannot be stored at this address: {0}; give a directory or an address like s3://bucket/folder")]
    Address(String),
    /// The path is invalid or leads out of the store.
    #[error("`{0}` is not a path within the store")]
    Path(String),
    /// There is no file with this path.
    #[error("there is no file `{0}` in the store; `sage doctor` lists what is missing")]
    Absent(String),
    /// The disk or the quota is full.
    #[error("no space left for `{0}`: nothing was kept; free some space and send the batch again")]
    Full(String),
    /// The directory or the bucket failed.
    #[error("the store failed at `{path}`: {reason}")]
    Failed {
        /// The path.
        path: String,
        /// The message of the operating system or the bucket.
        reason: String,
    },
}

/// How many files are synced at the same time. The threads mostly wait for the disk.
const SYNC_THREADS: usize = 16;
/// Above this number of files, one sync of the whole file system is faster than two flushes per file.
const MANY_FILES: usize = 64;

/// A store of parts.
pub struct BlockStore {
    backend: Backend,
    objects: Arc<dyn ObjectStore>,
    /// The data keys of blocks, if parts are encrypted.
    keys: Option<Arc<BlockKeys>>,
}

enum Backend {
    Local(Folder),
    /// The store owns its runtime, so that it can be used from any thread, inside another runtime or outside.
    Remote(Runtime),
}

/// A directory that is held open, because the system reports a disk error to handles that were open when it occurred.
struct Folder {
    root: PathBuf,
    handle: File,
}

impl BlockStore {
    /// Opens a store at an address: a directory, or `s3://bucket/folder` with credentials and region in the usual
    /// environment variables.
    ///
    /// # Errors
    /// When the address is invalid, or the directory cannot be created.
    pub fn open(address: &str) -> Result<Self, StoreError> {
        match Url::parse(address) {
            Ok(url) if url.scheme().len() > 1 && url.scheme() != "file" => Self::remote(&url),
            Ok(url) if url.scheme() == "file" => match url.to_file_path() {
                Ok(root) => Self::local(root),
                Err(()) => Err(StoreError::Address("it is not the address of a local file".to_owned())),
            },
            _ => Self::local(address),
        }
    }

    /// Opens a store in a directory, and creates the directory if it does not exist.
    ///
    /// # Errors
    /// When the directory cannot be created.
    pub fn local(root: impl Into<PathBuf>) -> Result<Self, StoreError> {
        let root = root.into();
        let failed = |error: &dyn fmt::Display| StoreError::Address(format!("{}: {error}", root.display()));
        private::make_directories(&root).map_err(|error| failed(&error))?;
        private::restrict_directory(&root).map_err(|error| failed(&error))?;
        let root = fs::canonicalize(&root).map_err(|error| failed(&error))?;
        let objects = LocalFileSystem::new_with_prefix(&root).map_err(|error| failed(&error))?;
        let handle = private::open_directory(&root).map_err(|error| failed(&error))?;
        Ok(Self { backend: Backend::Local(Folder { root, handle }), objects: Arc::new(objects), keys: None })
    }

    fn remote(url: &Url) -> Result<Self, StoreError> {
        let failed = |error: &dyn fmt::Display| StoreError::Address(error.to_string());
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
        let runtime = runtime.map_err(|error| failed(&error))?;
        let (objects, prefix) = object_store::parse_url_opts(url, std::env::vars()).map_err(|error| failed(&error))?;
        let objects = Arc::new(PrefixStore::new(objects, prefix));
        Ok(Self { backend: Backend::Remote(runtime), objects, keys: None })
    }

    /// The same store with data keys.
    pub fn with_keys(self, keys: Option<Arc<BlockKeys>>) -> Self {
        Self { keys, ..self }
    }

    /// The data keys of blocks, if parts are encrypted.
    pub fn keys(&self) -> Option<&Arc<BlockKeys>> {
        self.keys.as_ref()
    }

    /// Encrypts a file under its owner's key if there are keys, and returns it unchanged otherwise.
    pub(crate) fn encrypt(&self, owner: &str, path: &str, bytes: Bytes) -> Result<Bytes, StoreError> {
        keys::encrypt_file(self.keys.as_deref(), owner, path, bytes)
    }

    /// Decrypts a file if it is encrypted, and returns it unchanged otherwise.
    pub fn decrypt(&self, owner: &str, path: &str, bytes: Bytes) -> Result<Bytes, StoreError> {
        keys::decrypt_file(self.keys.as_deref(), owner, path, bytes)
    }

    /// Destroys the key of an owner of files, if there are keys.
    pub fn destroy_key(&self, owner: &str) -> Result<(), StoreError> {
        let Some(keys) = &self.keys else { return Ok(()) };
        keys.destroy(owner).map_err(|error| StoreError::Failed { path: owner.to_owned(), reason: error.to_string() })
    }

    /// The store as an object store. Make paths with `Path::parse`, since block keys are already percent-encoded.
    pub fn objects(&self) -> Arc<dyn ObjectStore> {
        Arc::clone(&self.objects)
    }

    /// The directory of a local store.
    pub fn root(&self) -> Option<&FilePath> {
        match &self.backend {
            Backend::Local(folder) => Some(&folder.root),
            Backend::Remote(_) => None,
        }
    }

    /// Writes a file and makes it durable.
    ///
    /// # Errors
    /// When it was not written, or may not survive a power failure.
    pub fn put(&self, path: &str, bytes: Bytes) -> Result<(), StoreError> {
        self.write(path, bytes)?;
        self.sync(&[path.to_owned()])
    }

    /// Writes a file, replacing an existing one. It is durable after [`BlockStore::sync`].
    ///
    /// # Errors
    /// When it was not written. Then there is no file with this path.
    pub fn write(&self, path: &str, bytes: Bytes) -> Result<(), StoreError> {
        match &self.backend {
            Backend::Local(Folder { root, .. }) => {
                let file = local_path(root, path)?;
                write_file(&file, &bytes).map_err(|error| {
                    // A partial file is useless, and the first error is the one to report.
                    let _ = fs::remove_file(&file);
                    local_error(path, &error)
                })
            }
            Backend::Remote(runtime) => {
                let (objects, at) = (self.objects(), object_path(path)?);
                let put = wait(runtime, async move { objects.put(&at, bytes.into()).await });
                put.map(|_| ()).map_err(|error| remote_error(path, &error))
            }
        }
    }

    /// Makes written files durable, with the folders above them.
    ///
    /// # Errors
    /// When a file may not survive a power failure. A failed sync is never retried: a later success would not prove
    /// that the data is on the disk.
    pub fn sync(&self, paths: &[String]) -> Result<(), StoreError> {
        let Backend::Local(Folder { root, handle }) = &self.backend else { return Ok(()) };
        let mut files = Vec::with_capacity(paths.len());
        let mut folders = BTreeSet::new();
        for path in paths {
            let file = local_path(root, path)?;
            let above = file.ancestors().skip(1).take_while(|folder| folder.starts_with(root));
            // If a folder is in the set, so are those above it.
            for folder in above {
                if !folders.insert(folder.to_owned()) {
                    break;
                }
            }
            files.push(file);
        }
        let folders: Vec<PathBuf> = folders.into_iter().collect();
        if files.len() > MANY_FILES && on_one_file_system(&folders) {
            return sync_file_system(root, handle);
        }
        sync_all(&files)?;
        sync_all(&folders)
    }

    /// Reads a file.
    ///
    /// # Errors
    /// When it does not exist, or cannot be read.
    pub fn read(&self, path: &str) -> Result<Bytes, StoreError> {
        match &self.backend {
            Backend::Local(Folder { root, .. }) => {
                let bytes = fs::read(local_path(root, path)?).map_err(|error| local_error(path, &error))?;
                Ok(Bytes::from(bytes))
            }
            Backend::Remote(runtime) => {
                let (objects, at) = (self.objects(), object_path(path)?);
                let read = wait(runtime, async move { objects.get(&at).await?.bytes().await });
                read.map_err(|error| remote_error(path, &error))
            }
        }
    }

    /// The paths of all files below a folder, sorted. The empty path stands for the whole store. A folder that does not
    /// exist has no files.
    ///
    /// # Errors
    /// When the folder cannot be listed.
    pub fn list(&self, folder: &str) -> Result<Vec<String>, StoreError> {
        let mut found = Vec::new();
        match &self.backend {
            Backend::Local(Folder { root, .. }) if folder.is_empty() => list_local(root, folder, &mut found)?,
            Backend::Local(Folder { root, .. }) => list_local(&local_path(root, folder)?, folder, &mut found)?,
            Backend::Remote(runtime) => {
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

    /// Removes a file, and the folders that become empty. Succeeds if the file does not exist.
    ///
    /// # Errors
    /// When the file may still exist.
    pub fn delete(&self, path: &str) -> Result<(), StoreError> {
        let removed = match &self.backend {
            Backend::Local(Folder { root, .. }) => {
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
            Backend::Remote(runtime) => {
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

/// The segments of a path. Each must be a plain name.
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

/// Syncs files or folders, several at a time.
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
            let failed = || StoreError::Failed { path: String::new(), reason: "a thread panicked".to_owned() };
            result = result.and(thread.join().unwrap_or_else(|_| Err(failed())));
        }
        result
    })
}

/// Whether all folders are on one file system, as they are unless one of them is a link or a mount point.
#[cfg(target_os = "linux")]
fn on_one_file_system(folders: &[PathBuf]) -> bool {
    use std::os::unix::fs::MetadataExt;
    let mut devices = folders.iter().map(|folder| fs::metadata(folder).map(|found| found.dev()).ok());
    let first = devices.next().flatten();
    first.is_some() && devices.all(|device| device == first)
}

#[cfg(not(target_os = "linux"))]
fn on_one_file_system(_folders: &[PathBuf]) -> bool {
    false
}

/// Syncs the file system of the store.
#[cfg(target_os = "linux")]
fn sync_file_system(root: &FilePath, handle: &File) -> Result<(), StoreError> {
    rustix::fs::syncfs(handle).map_err(|error| local_error(&root.to_string_lossy(), &error.into()))
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(root: &FilePath, _handle: &File) -> Result<(), StoreError> {
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

/// Runs a request on the store's runtime and blocks until it is done.
fn wait<T: Send + 'static>(
    runtime: &Runtime, work: impl Future<Output = Result<T, object_store::Error>> + Send + 'static,
) -> Result<T, object_store::Error> {
    let (sender, receiver) = mpsc::sync_channel(1);
    runtime.spawn(async move {
        // Sending fails only if the caller no longer waits.
        let _ = sender.send(work.await);
    });
    let stopped = || object_store::Error::Generic { store: "store", source: "the request was cancelled".into() };
    receiver.recv().unwrap_or_else(|_| Err(stopped()))
}
