//! Idempotent submissions: repeated requests with the same key have the same run.
//!
//! Before a pipeline is submitted, its key is stored durably with the submission time. The log stores that time with
//! the run. So after a failure at any point, a repeated request finds the run, or submits it for the first time, but
//! never twice.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::{Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use sage_engine::{Engine, EngineError, Principal, Shown};
use serde::{Deserialize, Serialize};

use crate::clock::now;
use crate::problem::Problem;

#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Intent {
    by: String,
    key: String,
    /// The digest of the request with this key.
    body: String,
    /// The time that the run has, in milliseconds since 1970.
    at: u64,
}

/// All keys that were ever used.
pub(crate) struct Submissions {
    inner: Mutex<Inner>,
}

struct Inner {
    file: File,
    /// The length of the valid part of the file. A partial write after it is overwritten.
    whole: u64,
    known: BTreeMap<(String, String), Intent>,
    /// The newest submission time.
    latest: u64,
}

/// A submitted pipeline.
#[derive(Clone, Copy)]
pub(crate) struct Submission<'sent> {
    /// The text of its file.
    pub(crate) text: &'sent str,
    /// The folder of its code, if it has one.
    pub(crate) code: Option<&'sent Path>,
    /// The whole body, to recognise a repeated request.
    pub(crate) sent: &'sent [u8],
}

/// The longest key.
const LONGEST: usize = 200;

impl Submissions {
    pub(crate) fn open(directory: &Path) -> io::Result<Self> {
        let path = directory.join("submissions.jsonl");
        let bytes = match fs::read(&path) {
            Ok(bytes) => bytes,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Vec::new(),
            Err(error) => return Err(error),
        };
        // A record that a crash cut off was never acknowledged, and nothing was submitted with it.
        let whole = bytes.iter().rposition(|byte| *byte == b'\n').map_or(0, |end| end + 1);
        let mut known = BTreeMap::new();
        for line in bytes[..whole].split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            let intent: Intent = serde_json::from_slice(line)?;
            known.insert((intent.by.clone(), intent.key.clone()), intent);
        }
        let file = crate::tokens::private(&path)?;
        file.sync_all()?;
        File::open(directory)?.sync_all()?;
        let latest = known.values().map(|intent| intent.at).max().unwrap_or(0);
        Ok(Self { inner: Mutex::new(Inner { file, whole: whole as u64, known, latest }) })
    }

    /// Submits a pipeline, once for each key. Returns the run and whether it is new.
    pub(crate) fn submit(
        &self, engine: &Engine, by: &Principal, key: Option<&str>, submission: &Submission<'_>, shown: &Shown<'_>,
    ) -> Result<(u64, bool), Problem> {
        let Submission { text, code, sent } = *submission;
        let Some(key) = key else { return Ok((engine.submit_shown(by, text, code, now(), shown)?, true)) };
        if key.is_empty() || key.len() > LONGEST {
            return Err(Problem::wrong(format!("Idempotency-Key has from 1 to {LONGEST} signs")));
        }
        // Locked until the end, so that two requests with one key cannot both find no run.
        let mut inner = self.inner.lock().unwrap_or_else(PoisonError::into_inner);
        let body = blake3::hash(sent).to_hex().to_string();
        let used = inner.known.get(&(by.name().to_owned(), key.to_owned())).cloned();
        let at = match used {
            Some(intent) if intent.body != body => {
                let detail = "this Idempotency-Key was used with another pipeline; use a new key for a new submission";
                return Err(Problem::key_reused(detail));
            }
            Some(intent) => {
                let own = |run: &sage_engine::RunView| run.by == by.name() && run.submitted == intent.at;
                if let Some(run) = engine.runs().into_iter().find(own) {
                    return Ok((run.number, false));
                }
                intent.at
            }
            None => {
                // A pipeline that is refused leaves no key.
                engine.preview_shown(by, text, shown)?;
                inner.write(by, key, body).map_err(|error| EngineError::File("submissions.jsonl".to_owned(), error))?
            }
        };
        Ok((engine.submit_shown(by, text, code, at, shown)?, true))
    }
}

impl Inner {
    /// Stores a key, and returns its submission time, which no other key has.
    fn write(&mut self, by: &Principal, key: &str, body: String) -> io::Result<u64> {
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let at = u64::try_from(since.as_millis()).unwrap_or(u64::MAX).max(self.latest.saturating_add(1));
        let intent = Intent { by: by.name().to_owned(), key: key.to_owned(), body, at };
        let mut line = serde_json::to_vec(&intent)?;
        line.push(b'\n');
        self.file.set_len(self.whole)?;
        self.file.seek(SeekFrom::Start(self.whole))?;
        self.file.write_all(&line)?;
        self.file.sync_all()?;
        self.whole += line.len() as u64;
        self.latest = at;
        self.known.insert((intent.by.clone(), intent.key.clone()), intent);
        Ok(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_crash_cut_off_is_passed_over_and_written_over() {
        let folder = tempfile::tempdir().expect("a folder");
        let mia = Principal::named("mia").expect("a name");
        let write = |requests: &Submissions, key: &str| {
            let mut inner = requests.inner.lock().expect("a lock");
            inner.write(&mia, key, "digest".to_owned()).expect("written")
        };
        let first = write(&Submissions::open(folder.path()).expect("a new file"), "one");
        let path = folder.path().join("submissions.jsonl");
        let mut cut = fs::read(&path).expect("the file");
        cut.extend(b"{\"by\":\"m\xc3");
        fs::write(&path, cut).expect("written");
        let requests = Submissions::open(folder.path()).expect("the same file");
        let second = write(&requests, "two");
        assert!(second > first);
        let known = Submissions::open(folder.path()).expect("the same file").inner.into_inner().expect("a lock").known;
        let times: Vec<u64> = known.values().map(|intent| intent.at).collect();
        assert_eq!(times, [first, second]);
    }
}
