//! Tokens: who a request comes from.
//!
//! A token is `sage_pat_<id>_<secret>`. The directory keeps the digest of the secret and never the secret, in a
//! file that only the owner can read, written whole or not at all. A token carries a name; what that name may do is
//! said by the files of streams, so that a token can never give more than they do.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// What every token begins with, so that one that has leaked can be searched for.
pub(crate) const PREFIX: &str = "sage_pat_";

const FILE: &str = "tokens.json";

/// A token as it is kept.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Token {
    /// The public half.
    pub(crate) id: String,
    /// The name under which stream files know its holder.
    pub(crate) name: String,
    /// Whether its holder runs the machine: sees every stream, changes none.
    pub(crate) admin: bool,
    /// The digest of the secret half.
    digest: String,
    /// When it was made, in seconds since 1970.
    pub(crate) created: u64,
    /// When it ends, in seconds since 1970.
    pub(crate) expires: Option<u64>,
    /// When it was revoked.
    pub(crate) revoked: Option<u64>,
}

/// What a new token is to be.
pub(crate) struct Wanted<'asked> {
    pub(crate) name: &'asked str,
    pub(crate) admin: bool,
    /// For how many days; without a number until it is revoked.
    pub(crate) days: Option<u32>,
}

impl Token {
    /// Whether it counts at this time.
    pub(crate) fn is_good(&self, now: u64) -> bool {
        self.revoked.is_none() && self.expires.is_none_or(|end| now < end)
    }
}

/// Makes a token and gives its whole text, which is kept nowhere.
pub(crate) fn create(directory: &Path, wanted: &Wanted<'_>) -> io::Result<String> {
    let _alone = alone(directory)?;
    let mut tokens = load(directory)?;
    let (id, secret) = (hexadecimal::<4>()?, hexadecimal::<32>()?);
    let now = seconds();
    tokens.push(Token {
        id: id.clone(),
        name: wanted.name.to_owned(),
        admin: wanted.admin,
        digest: digest(&secret).to_hex().to_string(),
        created: now,
        expires: wanted.days.map(|days| now + u64::from(days) * 86_400),
        revoked: None,
    });
    save(directory, &tokens)?;
    Ok(format!("{PREFIX}{id}_{secret}"))
}

/// Has a token no longer count; whether there was one of this id.
pub(crate) fn revoke(directory: &Path, id: &str) -> io::Result<bool> {
    let _alone = alone(directory)?;
    let mut tokens = load(directory)?;
    let Some(token) = tokens.iter_mut().find(|token| token.id == id) else { return Ok(false) };
    token.revoked.get_or_insert(seconds());
    save(directory, &tokens)?;
    Ok(true)
}

/// All tokens of a directory.
pub(crate) fn load(directory: &Path) -> io::Result<Vec<Token>> {
    match fs::read(directory.join(FILE)) {
        Ok(bytes) => serde_json::from_slice(&bytes)
            .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "tokens.json is not what sage token wrote")),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

/// When a file was written and how long it is: every change of ours changes its length too, where the clock is coarse.
type Written = (SystemTime, u64);

/// The tokens of a directory for a server: read again whenever the file has changed, so that a token revoked by the
/// command line stops at once.
pub(crate) struct Tokens {
    directory: PathBuf,
    known: Mutex<(Option<Written>, Arc<Vec<Token>>)>,
}

impl Tokens {
    pub(crate) fn new(directory: &Path) -> Self {
        Self { directory: directory.to_owned(), known: Mutex::default() }
    }

    /// The token that a text is, if it counts now.
    pub(crate) fn found(&self, text: &str) -> Option<Token> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_once('_')?;
        let given = digest(secret);
        let all = self.all()?;
        // The digests are compared in a time that does not tell how much of them agrees.
        let is_it = |token: &&Token| blake3::Hash::from_hex(&token.digest).is_ok_and(|kept| kept == given);
        all.iter().filter(|token| token.id == id).find(is_it).filter(|token| token.is_good(seconds())).cloned()
    }

    /// Whether the token of this id counts now.
    pub(crate) fn counts(&self, id: &str) -> bool {
        self.all().is_some_and(|all| all.iter().any(|token| token.id == id && token.is_good(seconds())))
    }

    /// A file that cannot be read admits nobody.
    fn all(&self) -> Option<Arc<Vec<Token>>> {
        let data = fs::metadata(self.directory.join(FILE));
        let changed = data.and_then(|data| Ok((data.modified()?, data.len()))).ok();
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.0 != changed {
            *known = (changed, Arc::new(load(&self.directory).ok()?));
        }
        Some(Arc::clone(&known.1))
    }
}

fn digest(secret: &str) -> blake3::Hash {
    blake3::Hash::from(blake3::derive_key("sage: the secret half of a token", secret.as_bytes()))
}

fn hexadecimal<const BYTES: usize>() -> io::Result<String> {
    let mut bytes = [0; BYTES];
    getrandom::fill(&mut bytes).map_err(|error| io::Error::other(error.to_string()))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Seconds since 1970.
pub(crate) fn seconds() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_secs()
}

/// Two commands at once must not write over each other; the file that is locked stays when the other is replaced.
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

/// A file that only its owner can use.
pub(super) fn private(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(false);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_token_counts_until_it_is_revoked_or_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let tokens = Tokens::new(folder.path());
        let make = |name, days| create(folder.path(), &Wanted { name, admin: false, days }).expect("a token");
        let (mia, over) = (make("mia", None), make("olga", Some(0)));
        assert_eq!(tokens.found(&mia).map(|token| token.name), Some("mia".to_owned()));
        assert_eq!(tokens.found(&over), None);
        let kept = fs::read_to_string(folder.path().join(FILE)).expect("the file");
        let secret = mia.rsplit('_').next().expect("a secret");
        assert!(secret.len() == 64 && !kept.contains(secret), "the secret is kept");
        for wrong in ["", PREFIX, "sage_pat_00_00", &mia[1..], &mia[..mia.len() - 1], &format!("{mia}0")] {
            assert_eq!(tokens.found(wrong), None, "{wrong}");
        }
        let id = mia.trim_start_matches(PREFIX).split('_').next().expect("an id");
        assert!(revoke(folder.path(), id).expect("written") && !revoke(folder.path(), "none").expect("read"));
        assert_eq!(tokens.found(&mia), None);
    }

    #[cfg(unix)]
    #[test]
    fn only_the_owner_reads_the_file() {
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::tempdir().expect("a folder");
        create(folder.path(), &Wanted { name: "mia", admin: true, days: None }).expect("a token");
        let mode = fs::metadata(folder.path().join(FILE)).expect("the file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
    }
}
