//! Export of log heads, and their comparison with the log at the next start.
//!
//! A hash chain cannot show that its end is missing: a directory that was restored from an old copy verifies, and its
//! budgets would be granted twice. A head that was exported to another machine shows it. Heads are signed, so that
//! their keeper knows which directory exported them. Granting needs a [`SoundGate`], and there are two ways to get one:
//! the log contains every exported head, or an officer acknowledges in the log that records are missing. An exported
//! head must never be replaced by an older one without that acknowledgement.

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

/// The first word of an exported head, and that of heads from before they were signed.
const MARK: &str = "sage-head-2";
const UNSIGNED: &str = "sage-head-1";

/// An exported head with the time of its export. The time is informative only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ExportedHead {
    /// The head.
    pub head: Head,
    /// Milliseconds since 1970.
    pub time: u64,
}

impl ExportedHead {
    /// The line up to the time, which starts with a mark.
    fn unsigned_text(self, mark: &str) -> String {
        format!("{mark} {} {} {}", self.head.length, hexadecimal(&self.head.hash), self.time)
    }

    /// The line without a signature, for files that are stored with the log.
    pub fn unsigned_line(self) -> String {
        format!("{}\n", self.unsigned_text(UNSIGNED))
    }

    fn to_line(self, key: &HeadKey) -> String {
        let message = format!("{} {}", self.unsigned_text(MARK), hexadecimal(key.public()));
        format!("{message} {}\n", hexadecimal(&key.sign(&message)))
    }

    /// Parses a line and checks its signature. A directory without a key accepts the key in the line.
    fn parse_line(line: &str, key: Option<&HeadKey>) -> Option<(Self, Signature)> {
        let line = line.strip_suffix('\n')?;
        let words: Vec<&str> = line.split(' ').collect();
        let [mark, length, hash, time] = *words.first_chunk()?;
        let hash = blake3::Hash::from_hex(hash).ok()?.into();
        let exported = Self { head: Head { length: length.parse().ok()?, hash }, time: time.parse().ok()? };
        // The line must be in the canonical form.
        let text = exported.unsigned_text(mark);
        let signed = match (mark, &words[4..]) {
            (UNSIGNED, []) if text == line => key.is_none(),
            (MARK, [public, signature]) if line.starts_with(&text) => {
                let message = format!("{text} {public}");
                let (public, signature) = (from_hexadecimal(public)?, from_hexadecimal(signature)?);
                is_signed(&public, &message, &signature) && key.is_none_or(|key| key.public() == public)
            }
            _ => return None,
        };
        Some((exported, if signed { Signature::Valid } else { Signature::Invalid }))
    }
}

/// Whether a head has a valid signature of this directory's key.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Signature {
    Valid,
    Invalid,
}

/// The body, as TOML, of the note by which an officer acknowledges a rollback.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Acknowledgement {
    /// The officer.
    pub principal: String,
    /// The length of the newest exported head.
    pub known_length: u64,
    /// Its hash, in hexadecimal.
    pub known_hash: String,
    /// The length of the log as it was found.
    pub present_length: u64,
    /// Its hash, in hexadecimal.
    pub present_hash: String,
}

/// An officer's statement about the time between a backup and its restore.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SinceBackup {
    /// The original granted nothing after the backup.
    Nothing,
    /// The original may have granted something, so every existing block is retired.
    Unknown,
}

/// The body, as TOML, of the note by which an officer lets a restored directory grant again.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RestoreAcknowledgement {
    /// The officer, who confirms that the original is out of service.
    pub principal: String,
    /// What the original granted after the backup.
    pub since: SinceBackup,
    /// The length of the log as it was restored.
    pub present_length: u64,
    /// Its hash, in hexadecimal.
    pub present_hash: String,
}

/// Why heads could not be compared or exported.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HeadsError {
    /// The file does not contain a head.
    #[error(
        "{} does not contain an exported head, so a rollback could not be detected; restore the right file, or remove \
         it if the log is known to be complete",
        .0.display()
    )]
    Malformed(PathBuf),
    /// The file contains a head that the directory's key has not signed.
    #[error(
        "{} contains a head that is not signed by the key of this directory, so nothing is granted; restore the right \
         file, or the right head-key beside the log",
        .0.display()
    )]
    Forged(PathBuf),
    /// The file system failed.
    #[error("the head of the log in {path}: {error}", path = .0.display(), error = .1)]
    File(PathBuf, #[source] io::Error),
    /// The log could not be read.
    #[error(transparent)]
    Log(LogError),
    /// The acknowledgement could not be appended to the log.
    #[error(transparent)]
    Gate(GateError),
    /// The acknowledgement names no officer.
    #[error("an acknowledgement needs the name of the officer who gives it")]
    MissingOfficer,
}

/// The export of log heads: the files and how often they are written.
#[derive(Clone, Debug)]
pub struct Heads {
    files: Vec<PathBuf>,
    every: NonZeroU64,
    /// The directory with the signing key.
    directory: PathBuf,
    /// The length of the last exported head.
    exported: u64,
}

impl Heads {
    /// Exports to these files, preferably on other machines, whenever the log has grown by `every` events. Heads are
    /// signed with the key of this directory, which is created if it has none.
    pub fn new(files: Vec<PathBuf>, every: NonZeroU64, directory: &Path) -> Self {
        Self { files, every, directory: directory.to_owned(), exported: 0 }
    }

    /// Exports nothing, so a rollback is not detected. For logs in memory, and for operators who accept the risk.
    pub fn none() -> Self {
        Self::new(Vec::new(), NonZeroU64::MAX, Path::new(""))
    }

    /// Checks that the log contains every exported head.
    ///
    /// A file that does not exist counts as no head, so a person who can remove it can hide a rollback. A directory
    /// without a key accepts every head: it is new, was restored, or is of an earlier release.
    ///
    /// # Errors
    /// When a file does not contain a head, or one that the directory's key has not signed, or a read fails.
    pub fn check<L: Log>(self, gate: Gate<L>) -> Result<HeadCheck<L>, HeadsError> {
        let mut missing: Option<ExportedHead> = None;
        let key = self.key()?;
        for file in &self.files {
            let Some(exported) = read(file, key.as_ref())? else { continue };
            let newer = missing.is_none_or(|before| before.head.length < exported.head.length);
            if newer && !contains(&gate, exported.head)? {
                missing = Some(exported);
            }
        }
        Ok(match missing {
            None => HeadCheck::Sound(SoundGate { gate, heads: self }),
            Some(known) => HeadCheck::RolledBack(RolledBackGate { gate, heads: self, known }),
        })
    }

    /// The key of the directory, if heads are exported and it has one.
    fn key(&self) -> Result<Option<HeadKey>, HeadsError> {
        match &self.files[..] {
            [] => Ok(None),
            _ => HeadKey::find(&self.directory).map_err(|error| HeadsError::File(self.directory.clone(), error)),
        }
    }

    /// All exported heads, each with its file and whether the log contains it.
    ///
    /// # Errors
    /// As for [`Heads::check`].
    pub fn compare<L: Log>(&self, gate: &Gate<L>) -> Result<Vec<(PathBuf, ExportedHead, bool)>, HeadsError> {
        let key = self.key()?;
        let mut compared = Vec::new();
        for file in &self.files {
            if let Some(exported) = read(file, key.as_ref())? {
                compared.push((file.clone(), exported, contains(gate, exported.head)?));
            }
        }
        Ok(compared)
    }

    /// Exports the head if the log has grown enough since the last export.
    pub(super) fn export_if_due(&mut self, head: Head, time: u64) -> Result<(), HeadsError> {
        if head.length.saturating_sub(self.exported) < self.every.get() {
            return Ok(());
        }
        self.export(head, time)
    }

    /// Exports the head.
    pub(super) fn export(&mut self, head: Head, time: u64) -> Result<(), HeadsError> {
        if !self.files.is_empty() {
            let key = HeadKey::find_or_create(&self.directory);
            let key = key.map_err(|error| HeadsError::File(self.directory.clone(), error))?;
            self.write(&ExportedHead { head, time }.to_line(&key))?;
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

/// Reads an exported head, or returns `None` if the file does not exist.
fn read(file: &PathBuf, key: Option<&HeadKey>) -> Result<Option<ExportedHead>, HeadsError> {
    match fs::read(file) {
        Ok(bytes) => {
            let parsed = String::from_utf8(bytes).ok().and_then(|line| ExportedHead::parse_line(&line, key));
            match parsed {
                Some((exported, Signature::Valid)) => Ok(Some(exported)),
                Some((_, Signature::Invalid)) => Err(HeadsError::Forged(file.clone())),
                None => Err(HeadsError::Malformed(file.clone())),
            }
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(HeadsError::File(file.clone(), error)),
    }
}

/// Whether the log had this head at some point. The gate has verified the hash chain.
fn contains<L: Log>(gate: &Gate<L>, known: Head) -> Result<bool, HeadsError> {
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

/// The result of [`Heads::check`].
pub enum HeadCheck<L> {
    /// The log contains every exported head.
    Sound(SoundGate<L>),
    /// At least one exported head is missing.
    RolledBack(RolledBackGate<L>),
}

/// A gate that may grant: its log contains every exported head, or an officer has acknowledged the rollback.
pub struct SoundGate<L> {
    pub(super) gate: Gate<L>,
    pub(super) heads: Heads,
}

impl<L: Log> SoundGate<L> {
    /// Burns every grant that was started and not ended, and returns them.
    ///
    /// The owner of a log calls this before it serves requests: no session of an earlier process is alive, and what it
    /// may have read cannot be undone.
    ///
    /// # Errors
    /// When the log fails.
    pub fn burn_running(&mut self, time: u64) -> Result<Vec<GrantId>, GateError> {
        let running: Vec<GrantId> = self.gate.ledger().running().collect();
        running.iter().try_for_each(|&grant| self.gate.burn(time, grant))?;
        Ok(running)
    }

    /// Records in the log that an officer lets a restored directory grant again. If it is unknown what was granted
    /// since the backup, every block is retired first.
    ///
    /// # Errors
    /// When no officer is named, or the log fails.
    pub fn acknowledge_restore(&mut self, time: u64, principal: &str, since: SinceBackup) -> Result<(), HeadsError> {
        if principal.trim().is_empty() {
            return Err(HeadsError::MissingOfficer);
        }
        let present = self.gate.head();
        if since == SinceBackup::Unknown {
            let ledger = self.gate.ledger();
            let streams = (0..).map_while(|index| Some((StreamId(index), ledger.stream(StreamId(index))?)));
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

/// A gate whose log lacks an exported head, because it is older or another log. It can be read and grants nothing.
pub struct RolledBackGate<L> {
    gate: Gate<L>,
    heads: Heads,
    known: ExportedHead,
}

impl<L: Log> RolledBackGate<L> {
    /// The state of the log, which may show less spending than took place.
    pub const fn ledger(&self) -> &Ledger {
        self.gate.ledger()
    }

    /// Where the log ends.
    pub const fn head(&self) -> Head {
        self.gate.head()
    }

    /// The newest exported head that the log does not contain.
    pub const fn known(&self) -> ExportedHead {
        self.known
    }

    /// Records in the log that an officer acknowledges the rollback, exports the new head, and returns a gate that may
    /// grant.
    ///
    /// # Errors
    /// When no officer is named, or the note or the head cannot be written. Then nothing is granted, and the next start
    /// reports the rollback again.
    pub fn acknowledge(mut self, time: u64, principal: &str) -> Result<SoundGate<L>, HeadsError> {
        if principal.trim().is_empty() {
            return Err(HeadsError::MissingOfficer);
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
        Ok(SoundGate { gate: self.gate, heads: self.heads })
    }
}

/// Formats bytes in lower-case hexadecimal.
pub fn hexadecimal(bytes: &[u8]) -> String {
    let digit = |number: u8| char::from(b"0123456789abcdef"[usize::from(number)]);
    bytes.iter().flat_map(|byte| [digit(byte >> 4), digit(byte & 15)]).collect()
}

/// Parses what [`hexadecimal`] formats. Upper-case digits are not accepted.
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
