//! Heads that leave the machine, and what is made of them at the next start.
//!
//! A chain of hashes cannot show that its end was cut off: a directory put back from an old copy verifies,
//! and its budgets would be given out twice. A head written elsewhere shows it, and is signed, so that whoever
//! keeps it knows who said it. Granting needs a [`Sound`] gate, and there are two ways to one: every head ever
//! exported is in the log, or an officer has said in the log itself that what is missing is known to be. Nothing
//! here must ever replace an exported head by an older one, but for that sentence.

use std::fmt;
use std::fs;
use std::io;
use std::num::NonZeroU64;
use std::path::{Path, PathBuf};

use sage_kernel::{Blocks, Gate, GateError, GrantId, Head, Ledger, Log, LogError, Stream, StreamId};
use serde::{Deserialize, Serialize};

use super::durable;
use super::sign::{HeadKey, is_signed};

/// The kind of the note by which an officer acknowledges a rollback.
pub const ROLLBACK_NOTE: &str = "rollback acknowledged";

/// The kind of the note by which an officer lets a restored directory grant again.
pub const RESTORE_NOTE: &str = "restore acknowledged";

/// What an exported head begins with, and what it began with before heads were signed.
const MARK: &str = "sage-head-2";
const UNSIGNED: &str = "sage-head-1";

/// A head that was exported, and when by the exporter's clock. Nothing depends on the time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KnownHead {
    /// The head.
    pub head: Head,
    /// Milliseconds since 1970.
    pub time: u64,
}

impl KnownHead {
    fn after(self, mark: &str) -> String {
        format!("{mark} {} {} {}", self.head.length, hexadecimal(&self.head.hash), self.time)
    }

    /// The line without a signature, for who has the log beside it.
    pub fn unsigned_line(self) -> String {
        format!("{}\n", self.after(UNSIGNED))
    }

    fn to_line(self, key: &HeadKey) -> String {
        let said = format!("{} {}", self.after(MARK), hexadecimal(key.public()));
        format!("{said} {}\n", hexadecimal(&key.sign(&said)))
    }

    /// The head in a line, and whether it may be believed in a directory with this key, or none.
    fn from_line(line: &str, key: Option<&HeadKey>) -> Option<(Self, Belief)> {
        let line = line.strip_suffix('\n')?;
        let words: Vec<&str> = line.split(' ').collect();
        let [mark, length, hash, time] = *words.first_chunk()?;
        let hash = blake3::Hash::from_hex(hash).ok()?.into();
        let known = Self { head: Head { length: length.parse().ok()?, hash }, time: time.parse().ok()? };
        // Only what we would have written ourselves is taken for ours.
        let said = known.after(mark);
        let signed = match (mark, &words[4..]) {
            (UNSIGNED, []) if said == line => key.is_none(),
            (MARK, [public, signature]) if line.starts_with(&said) => {
                let whole = format!("{said} {public}");
                let (public, signature) = (from_hexadecimal(public)?, from_hexadecimal(signature)?);
                is_signed(&public, &whole, &signature) && key.is_none_or(|key| key.public() == public)
            }
            _ => return None,
        };
        Some((known, if signed { Belief::Ours } else { Belief::Forged }))
    }
}

/// Whether a head was signed as heads of this directory are.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Belief {
    Ours,
    Forged,
}

/// The body of the note by which an officer acknowledges a rollback, written as TOML.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// The officer.
    pub principal: String,
    /// The length of the newest head that was exported.
    pub known_length: u64,
    /// Its hash, in hexadecimal.
    pub known_hash: String,
    /// The length of the log as it was found.
    pub present_length: u64,
    /// Its hash, in hexadecimal.
    pub present_hash: String,
}

/// What an officer says of the time between a backup and its restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Since {
    /// The original granted nothing after the backup was made.
    Nothing,
    /// It may have: so every block there is was retired.
    Unknown,
}

/// The body of the note by which an officer lets a restored directory grant again, written as TOML.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreAcknowledgement {
    /// The officer, who says that the original is out of service.
    pub principal: String,
    /// What was granted after the backup.
    pub since: Since,
    /// The length of the log as it was restored.
    pub present_length: u64,
    /// Its hash, in hexadecimal.
    pub present_hash: String,
}

/// Why heads could not be compared or exported.
#[derive(Debug)]
#[non_exhaustive]
pub enum HeadsError {
    /// The file is there and holds no head.
    Malformed(PathBuf),
    /// The file holds a head that the key of the directory has not signed.
    Forged(PathBuf),
    /// The file system failed.
    File(PathBuf, io::Error),
    /// The log could not be read.
    Log(LogError),
    /// The acknowledgement could not be written into the log.
    Gate(GateError),
    /// An acknowledgement names no officer.
    Nobody,
}

impl fmt::Display for HeadsError {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed(path) => write!(
                out,
                "{} holds no exported head, so a rollback could not be seen; put the right file back, or remove it if \
                 the log is known to be whole",
                path.display()
            ),
            Self::Forged(path) => write!(
                out,
                "{} holds a head that is not signed by the key of this directory, so nothing is granted; put the right \
                 file back, or the right head-key beside the log",
                path.display()
            ),
            Self::File(path, error) => write!(out, "the head of the log in {}: {error}", path.display()),
            Self::Log(error) => error.fmt(out),
            Self::Gate(error) => error.fmt(out),
            Self::Nobody => write!(out, "an acknowledgement needs the name of the officer who gives it"),
        }
    }
}

impl std::error::Error for HeadsError {}

/// Where heads are exported to, and how often.
#[derive(Clone, Debug)]
pub struct Heads {
    files: Vec<PathBuf>,
    every: NonZeroU64,
    /// Where the key lies that signs them.
    directory: PathBuf,
    /// The length that was exported last.
    exported: u64,
}

impl Heads {
    /// Exports to these files, best on other machines, whenever the log has grown by so many events. What is
    /// exported is signed with the key of this directory, which is made if it has none.
    pub fn new(files: Vec<PathBuf>, every: NonZeroU64, directory: &Path) -> Self {
        Self { files, every, directory: directory.to_owned(), exported: 0 }
    }

    /// Exports nowhere: a rollback will not be seen. For logs in memory, and for whoever accepts that.
    pub fn none() -> Self {
        Self::new(Vec::new(), NonZeroU64::MAX, Path::new(""))
    }

    /// Compares every exported head with the log.
    ///
    /// # Errors
    /// When a file holds something else, or a head that the key of the directory has not signed, or something
    /// cannot be read. A file that does not exist holds no head: whoever can remove it can hide a rollback. A
    /// directory without a key believes every head; it is new, was put back, or is of an earlier release.
    pub fn check<L: Log>(self, gate: Gate<L>) -> Result<Checked<L>, HeadsError> {
        let mut missing: Option<KnownHead> = None;
        let key = self.key()?;
        for file in &self.files {
            let Some(known) = read(file, key.as_ref())? else { continue };
            let newer = missing.is_none_or(|before| before.head.length < known.head.length);
            if newer && !holds(&gate, known.head)? {
                missing = Some(known);
            }
        }
        Ok(match missing {
            None => Checked::Sound(Sound { gate, heads: self }),
            Some(known) => Checked::RolledBack(RolledBack { gate, heads: self, known }),
        })
    }

    /// The key of the directory, if heads are exported and it has one.
    fn key(&self) -> Result<Option<HeadKey>, HeadsError> {
        match &self.files[..] {
            [] => Ok(None),
            _ => HeadKey::find(&self.directory).map_err(|error| HeadsError::File(self.directory.clone(), error)),
        }
    }

    /// Every exported head that there is, and whether the log holds it.
    ///
    /// # Errors
    /// When a file holds something else, or something cannot be read.
    pub fn compare<L: Log>(&self, gate: &Gate<L>) -> Result<Vec<(PathBuf, KnownHead, bool)>, HeadsError> {
        let key = self.key()?;
        let mut compared = Vec::new();
        for file in &self.files {
            if let Some(known) = read(file, key.as_ref())? {
                compared.push((file.clone(), known, holds(gate, known.head)?));
            }
        }
        Ok(compared)
    }

    /// Exports the head if the log has grown enough since the last time.
    pub(super) fn export_if_due(&mut self, head: Head, time: u64) -> Result<(), HeadsError> {
        if head.length.saturating_sub(self.exported) < self.every.get() {
            return Ok(());
        }
        self.export(head, time)
    }

    /// Exports the head.
    pub(super) fn export(&mut self, head: Head, time: u64) -> Result<(), HeadsError> {
        if !self.files.is_empty() {
            let key = HeadKey::find_or_make(&self.directory);
            let key = key.map_err(|error| HeadsError::File(self.directory.clone(), error))?;
            self.write(&KnownHead { head, time }.to_line(&key))?;
        }
        self.exported = head.length;
        Ok(())
    }

    fn write(&self, line: &str) -> Result<(), HeadsError> {
        for file in &self.files {
            durable::replace(file, line.as_bytes()).map_err(|error| HeadsError::File(file.clone(), error))?;
        }
        Ok(())
    }
}

fn read(file: &PathBuf, key: Option<&HeadKey>) -> Result<Option<KnownHead>, HeadsError> {
    match fs::read(file) {
        Ok(bytes) => {
            let known = String::from_utf8(bytes).ok().and_then(|line| KnownHead::from_line(&line, key));
            match known {
                Some((known, Belief::Ours)) => Ok(Some(known)),
                Some((_, Belief::Forged)) => Err(HeadsError::Forged(file.clone())),
                None => Err(HeadsError::Malformed(file.clone())),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HeadsError::File(file.clone(), error)),
    }
}

/// Whether the log went through this head. The gate has verified how its records hang together.
fn holds<L: Log>(gate: &Gate<L>, known: Head) -> Result<bool, HeadsError> {
    let Some(number) = known.length.checked_sub(1) else { return Ok(known == Head::EMPTY) };
    if known.length > gate.head().length {
        return Ok(false);
    }
    let records = gate.log().read(number, 1).map_err(HeadsError::Log)?;
    Ok(records.first().is_some_and(|record| {
        let before = Head { length: number, hash: record.previous };
        record.verify(before).is_ok_and(|(_, head)| head == known)
    }))
}

/// What the comparison came to.
pub enum Checked<L> {
    /// Every exported head is in the log.
    Sound(Sound<L>),
    /// One is not.
    RolledBack(RolledBack<L>),
}

/// A gate that may grant: its log holds every head that was exported, or an officer has said that it need not.
pub struct Sound<L> {
    pub(super) gate: Gate<L>,
    pub(super) heads: Heads,
}

impl<L: Log> Sound<L> {
    /// Burns every grant that was started and not ended, and names them.
    ///
    /// For the single owner of a log, before it serves anybody: no session of an earlier process is alive,
    /// and what it may have read cannot be unread.
    ///
    /// # Errors
    /// When the log fails.
    pub fn burn_running(&mut self, time: u64) -> Result<Vec<GrantId>, GateError> {
        let running: Vec<GrantId> = self.gate.ledger().running().collect();
        running.iter().try_for_each(|&grant| self.gate.burn(time, grant))?;
        Ok(running)
    }

    /// Writes into the log that an officer lets a restored directory grant again. Where it is not known what was
    /// granted since the backup, every block is retired first.
    ///
    /// # Errors
    /// When no officer is named, or the log fails.
    pub fn acknowledge_restore(&mut self, time: u64, principal: &str, since: Since) -> Result<(), HeadsError> {
        if principal.trim().is_empty() {
            return Err(HeadsError::Nobody);
        }
        let present = self.gate.head();
        if since == Since::Unknown {
            let ledger = self.gate.ledger();
            let streams = (0..).map_while(|place| Some((StreamId(place), ledger.stream(StreamId(place))?)));
            let blocks = |stream: &Stream| u32::try_from(stream.block_keys().len()).ok()?.checked_sub(1);
            let all: Vec<(StreamId, u32)> = streams.filter_map(|(id, stream)| Some((id, blocks(stream)?))).collect();
            for (id, last) in all {
                let Ok(blocks) = Blocks::range(0, last) else { continue };
                self.gate.retire(time, id, blocks).map_err(HeadsError::Gate)?;
            }
        }
        let note = RestoreAcknowledgement {
            principal: principal.to_owned(),
            since,
            present_length: present.length,
            present_hash: hexadecimal(&present.hash),
        };
        let body = toml::to_string(&note).expect("numbers and text can be written as TOML");
        self.gate.note(time, RESTORE_NOTE, body.into_bytes()).map_err(HeadsError::Gate)?;
        self.heads.export(self.gate.head(), time)
    }

    /// The state of the log.
    pub const fn ledger(&self) -> &Ledger {
        self.gate.ledger()
    }

    /// Where the log ends.
    pub const fn head(&self) -> Head {
        self.gate.head()
    }
}

/// A gate whose log is older than a head that was exported, or another one. It can be read and grants nothing.
pub struct RolledBack<L> {
    gate: Gate<L>,
    heads: Heads,
    known: KnownHead,
}

impl<L: Log> RolledBack<L> {
    /// The state of the log, which may show less than was spent.
    pub const fn ledger(&self) -> &Ledger {
        self.gate.ledger()
    }

    /// Where the log ends.
    pub const fn head(&self) -> Head {
        self.gate.head()
    }

    /// The newest exported head that the log does not hold.
    pub const fn known(&self) -> KnownHead {
        self.known
    }

    /// Writes into the log that an officer knows of the rollback, exports the head after it, and goes on.
    ///
    /// # Errors
    /// When no officer is named, or the note or the head cannot be written. Nothing is granted then, and the
    /// next start asks again.
    pub fn acknowledge(mut self, time: u64, principal: &str) -> Result<Sound<L>, HeadsError> {
        if principal.trim().is_empty() {
            return Err(HeadsError::Nobody);
        }
        let (known, present) = (self.known.head, self.gate.head());
        let note = Acknowledgement {
            principal: principal.to_owned(),
            known_length: known.length,
            known_hash: hexadecimal(&known.hash),
            present_length: present.length,
            present_hash: hexadecimal(&present.hash),
        };
        let body = toml::to_string(&note).expect("numbers and text can be written as TOML");
        self.gate.note(time, ROLLBACK_NOTE, body.into_bytes()).map_err(HeadsError::Gate)?;
        self.heads.export(self.gate.head(), time)?;
        Ok(Sound { gate: self.gate, heads: self.heads })
    }
}

/// Bytes in small hexadecimal digits.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |number: u8| char::from(b"0123456789abcdef"[usize::from(number)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// The bytes that [`hexadecimal`] would write so.
pub fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digit = |character: u8| match character {
        b'0'..=b'9' => Some(character - b'0'),
        b'a'..=b'f' => Some(character - b'a' + 10),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let bytes = pairs.iter().map(|pair| Some(digit(pair[0])? << 4 | digit(pair[1])?)).collect();
    if rest.is_empty() { bytes } else { None }
}
