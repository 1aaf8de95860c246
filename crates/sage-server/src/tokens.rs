//! Access tokens.
//!
//! A token is `sage_pat_<id>_<secret>`. The directory stores the digest of the secret and never the secret, in a file
//! that only the owner can read and that is written atomically. A token identifies a user by name; the stream files
//! decide what that user may do, so a token can never grant more than they do.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use sage_engine::Principal;
use serde::{Deserialize, Serialize};

use crate::transport::limits::{Meters, since};

/// The prefix of every token, so that scanners can find leaked tokens.
pub const PREFIX: &str = "sage_pat_";

const FILE: &str = "tokens.json";

/// A stored token.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Token {
    /// The public half.
    pub id: String,
    /// The name under which stream files know its holder.
    pub name: String,
    /// Whether it is an admin token, which can read every stream and change none.
    pub admin: bool,
    /// The digest of the secret half.
    digest: String,
    /// When it was created, in seconds since 1970.
    pub created: u64,
    /// When it expires, in seconds since 1970.
    pub expires: Option<u64>,
    /// When it was revoked.
    pub revoked: Option<u64>,
}

/// The parameters of a new token.
pub struct NewToken<'name> {
    /// The user.
    pub name: &'name str,
    /// Whether it is an admin token.
    pub admin: bool,
    /// Days until it expires; `None` for never.
    pub days: Option<u32>,
}

impl Token {
    /// Whether it is valid at this time, in seconds since 1970.
    #[must_use]
    pub fn is_valid(&self, now: u64) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|end| now < end)
    }
}

/// Creates a token and returns its whole text, which is stored nowhere.
///
/// # Errors
/// When the files of the directory cannot be written.
pub fn create(directory: &Path, new: &NewToken<'_>) -> io::Result<String> {
    let _alone = alone(directory)?;
    let mut tokens = load(directory)?;
    let (id, secret) = (random::<4>()?, random::<32>()?);
    let now = seconds();
    tokens.push(Token {
        id: id.clone(),
        name: new.name.to_owned(),
        admin: new.admin,
        digest: digest(&secret).to_hex().to_string(),
        created: now,
        expires: new.days.map(|days| now + u64::from(days) * 86_400),
        revoked: None,
    });
    save(directory, &tokens)?;
    Ok(format!("{PREFIX}{id}_{secret}"))
}

/// Revokes a token. Returns whether there is one with this id.
///
/// # Errors
/// When the files of the directory cannot be written.
pub fn revoke(directory: &Path, id: &str) -> io::Result<bool> {
    let _alone = alone(directory)?;
    let mut tokens = load(directory)?;
    let Some(token) = tokens.iter_mut().find(|token| token.id == id) else { return Ok(false) };
    token.revoked.get_or_insert(seconds());
    save(directory, &tokens)?;
    Ok(true)
}

/// All tokens of a directory.
///
/// # Errors
/// When the file cannot be read.
pub fn load(directory: &Path) -> io::Result<Vec<Token>> {
    match fs::read(directory.join(FILE)) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "tokens.json is not what sage token wrote")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// The modification time and the length of a file. Every change by Sage also changes the length, in case the clock is
/// coarse.
type FileStamp = (SystemTime, u64);

/// How long the file is not checked again, in nanoseconds: a check for every request would cost more than many requests
/// do.
const FRESH: u64 = 20_000_000;

/// A token of the file, prepared for comparisons.
#[derive(Debug)]
pub(crate) struct Holder {
    pub(crate) token: Token,
    /// The user; `None` for an invalid name.
    pub(crate) who: Option<Principal>,
    digest: Option<blake3::Hash>,
    /// Its rate limits and usage.
    pub(crate) meters: Arc<Meters>,
}

/// The tokens of a directory, for a server. The file is read again when it changes, so that a revoked token stops
/// working within milliseconds.
pub(crate) struct Tokens {
    directory: PathBuf,
    start: Instant,
    /// When the file was last checked.
    looked: AtomicU64,
    known: RwLock<TokenTable>,
}

#[derive(Default)]
struct TokenTable {
    written: Option<FileStamp>,
    all: BTreeMap<String, Arc<Holder>>,
}

impl Tokens {
    pub(crate) fn new(directory: &Path) -> Self {
        let directory = directory.to_owned();
        let tokens = Self { directory, start: Instant::now(), looked: AtomicU64::new(0), known: RwLock::default() };
        tokens.look();
        tokens
    }

    /// The token with this text, if it is valid now.
    pub(crate) fn found(&self, text: &str) -> Option<Arc<Holder>> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let holder = self.holder(id)?;
        // Digests are compared in constant time.
        let is_it = holder.digest.is_some_and(|kept| kept == digest(secret));
        (is_it && holder.token.is_valid(seconds())).then_some(holder)
    }

    /// Whether the token of this id is valid now.
    pub(crate) fn is_valid(&self, id: &str) -> bool {
        self.holder(id).is_some_and(|holder| holder.token.is_valid(seconds()))
    }

    /// The token with an id; `None` if the file cannot be read.
    fn holder(&self, id: &str) -> Option<Arc<Holder>> {
        let (now, looked) = (since(self.start) + FRESH, self.looked.load(Ordering::Relaxed));
        // Another thread may have checked the file after this one read the time.
        if now.saturating_sub(looked) >= FRESH
            && self.looked.compare_exchange(looked, now, Ordering::Relaxed, Ordering::Relaxed).is_ok()
        {
            self.look();
        }
        self.known_as(id).or_else(|| {
            // A new token is valid at once.
            self.look();
            self.known_as(id)
        })
    }

    fn known_as(&self, id: &str) -> Option<Arc<Holder>> {
        self.known.read().unwrap_or_else(PoisonError::into_inner).all.get(id).cloned()
    }

    /// Reads the file if it has changed.
    fn look(&self) {
        let data = fs::metadata(self.directory.join(FILE));
        let written = data.and_then(|data| Ok((data.modified()?, data.len()))).ok();
        if self.known.read().unwrap_or_else(PoisonError::into_inner).written == written {
            return;
        }
        let read = load(&self.directory);
        let mut known = self.known.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::take(&mut known.all);
        let holder = |token: Token| {
            // Meters are kept when the file changes.
            let meters = before.get(&token.id).map(|holder| Arc::clone(&holder.meters)).unwrap_or_default();
            let (who, digest) = (Principal::named(&token.name), blake3::Hash::from_hex(&token.digest).ok());
            (token.id.clone(), Arc::new(Holder { token, who, digest, meters }))
        };
        known.written = written.filter(|_| read.is_ok());
        known.all = read.unwrap_or_default().into_iter().map(holder).collect();
    }
}

fn digest(secret: &str) -> blake3::Hash {
    blake3::Hash::from(blake3::derive_key("sage: the secret half of a token", secret.as_bytes()))
}

/// Random bytes from the system, in hexadecimal digits.
///
/// # Errors
/// When the system provides no randomness.
pub fn random<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(sage_engine::log::hexadecimal(&bytes))
}

/// Seconds since 1970.
#[must_use]
pub fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Serialises concurrent writers by a lock file, which is separate because the file of tokens is replaced.
fn alone(directory: &Path) -> io::Result<File> {
    let file = private(&directory.join("tokens.lock"))?;
    file.lock()?;
    Ok(file)
}

fn save(directory: &Path, tokens: &[Token]) -> io::Result<()> {
    let fresh = directory.join("tokens.json.new");
    let mut file = private(&fresh)?;
    file.set_len(0)?;
    file.write_all(&serde_json::to_vec_pretty(tokens)?)?;
    file.sync_all()?;
    fs::rename(&fresh, directory.join(FILE))?;
    File::open(directory)?.sync_all()
}

/// A file that only its owner can read and write.
pub(crate) fn private(path: &Path) -> io::Result<File> {
    sage_engine::private::open_or_create(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_counts_until_it_is_revoked_or_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let make = |name, days| create(folder.path(), &NewToken { name, admin: false, days }).expect("a token");
        let (mia, over) = (make("mia", None), make("olga", Some(0)));
        let found = |text: &str| Tokens::new(folder.path()).found(text).map(|holder| holder.token.name.clone());
        assert_eq!((found(&mia), found(&over)), (Some("mia".to_owned()), None));
        let kept = fs::read_to_string(folder.path().join(FILE)).expect("the file");
        let secret = mia.rsplit('_').next().expect("a secret");
        assert!(secret.len() == 64 && !kept.contains(secret), "the secret is kept");
        for wrong in ["", PREFIX, "sage_pat_00_00", &mia[1..], &mia[..mia.len() - 1], &format!("{mia}0")] {
            assert_eq!(found(wrong), None, "{wrong}");
        }
        let tokens = Tokens::new(folder.path());
        assert!(tokens.found(&mia).is_some());
        let id = mia.trim_start_matches(PREFIX).split('_').next().expect("an id");
        assert!(revoke(folder.path(), id).expect("written") && !revoke(folder.path(), "none").expect("read"));
        // The file was just checked, so the change is seen only after the interval.
        let began = Instant::now();
        while tokens.found(&mia).is_some() {
            assert!(began.elapsed() < std::time::Duration::from_secs(60), "a revoked token is still valid");
        }
    }

    /// Two threads read the time in one order and store it in the other.
    #[test]
    fn another_thread_may_look_a_moment_later() {
        let folder = tempfile::tempdir().expect("a folder");
        let mia = create(folder.path(), &NewToken { name: "mia", admin: false, days: None }).expect("a token");
        let tokens = Tokens::new(folder.path());
        tokens.looked.store(since(tokens.start) + 1_000 * FRESH, Ordering::Relaxed);
        assert!(tokens.found(&mia).is_some());
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_reads_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        create(folder.path(), &NewToken { name: "mia", admin: true, days: None }).expect("a token");
        let mode = fs::metadata(folder.path().join(FILE)).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
