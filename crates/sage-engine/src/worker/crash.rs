//! Records which runs this process works on, so that the next start knows what a crash interrupted.
//!
//! Before a run is planned or one of its attempts is performed, an entry is written to a small file; afterwards it is
//! removed. A process that aborts in between leaves the entry behind. A run with [`MOST_CRASHES`] such entries in a row
//! is quarantined: it ends with [`End::Crashed`](crate::adapt::End::Crashed) instead of crashing the process at every
//! start. A single crash proves nothing: the machine may have lost power, or another thread may have failed.
//!
//! The file is written without a flush: it must survive the process only, since a power failure is not caused by a run.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, File};
use std::io::{self, Seek, SeekFrom, Write};
use std::path::Path;
use std::sync::Mutex;

use crate::api::lock;
use crate::private;

/// The number of consecutive crashes that ends a run.
pub(crate) const MOST_CRASHES: u32 = 3;

const FILE: &str = "working";

/// The kind of work that the process does for a run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// Plans the next attempt, or how to resume one. Nothing is charged.
    Planning,
    /// Performs a charged attempt.
    Attempt,
}

/// A run that is, or was, worked on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Entry {
    /// The work in progress.
    now: Option<Work>,
    /// Consecutive crashes during planning, and during attempts.
    crashes: [u32; 2],
}

/// The runs that this process works on.
#[derive(Debug)]
pub(crate) struct CrashGuard {
    inner: Mutex<Inner>,
}

#[derive(Debug)]
struct Inner {
    file: File,
    /// The length of the text in the file.
    length: usize,
    entries: BTreeMap<u64, Entry>,
}

/// Work in progress; it counts as finished when this value is dropped.
#[derive(Debug)]
pub(crate) struct Working<'guard> {
    guard: &'guard CrashGuard,
    run: u64,
    work: Work,
}

impl CrashGuard {
    /// Reads the file of the previous process, and returns the runs to quarantine.
    pub(crate) fn open(directory: &Path) -> io::Result<(Self, Vec<u64>)> {
        let path = directory.join(FILE);
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => String::new(),
            // The file is only a hint: unreadable lines are ignored.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => String::new(),
            Err(error) => return Err(error),
        };
        let mut entries: BTreeMap<u64, Entry> = text.lines().filter_map(parse).collect();
        for entry in entries.values_mut() {
            if let Some(work) = entry.now.take() {
                entry.crashes[work as usize] += 1;
            }
        }
        let crashed = |entry: &Entry| entry.crashes.iter().any(|count| *count >= MOST_CRASHES);
        let quarantined = entries.iter().filter(|(_, entry)| crashed(entry)).map(|(run, _)| *run).collect();
        entries.retain(|_, entry| !crashed(entry));
        let mut inner = Inner { file: private::open_or_create(&path)?, length: text.len(), entries };
        inner.save()?;
        Ok((Self { inner: Mutex::new(inner) }, quarantined))
    }

    /// Records that a run is worked on until the returned value is dropped.
    pub(crate) fn enter(&self, run: u64, work: Work) -> Working<'_> {
        let mut inner = lock(&self.inner);
        inner.entries.entry(run).or_default().now = Some(work);
        // A full disk stops the loop at its next event; it is no reason to lose an attempt here.
        drop(inner.save());
        Working { guard: self, run, work }
    }
}

impl Working<'_> {
    /// Runs a wait that cannot crash the process, with no work recorded meanwhile. Earlier crashes still count, since
    /// the work is not finished.
    pub(crate) fn pause(&self, wait: impl FnOnce()) {
        self.set(None);
        wait();
        self.set(Some(self.work));
    }

    fn set(&self, now: Option<Work>) {
        let mut inner = lock(&self.guard.inner);
        inner.entries.entry(self.run).or_default().now = now;
        drop(inner.save());
    }
}

impl Drop for Working<'_> {
    fn drop(&mut self) {
        let mut inner = lock(&self.guard.inner);
        if let Some(entry) = inner.entries.get_mut(&self.run) {
            entry.now = None;
            match self.work {
                Work::Planning => entry.crashes[Work::Planning as usize] = 0,
                Work::Attempt => entry.crashes = [0, 0],
            }
            if entry.crashes == [0, 0] {
                inner.entries.remove(&self.run);
            }
        }
        drop(inner.save());
    }
}

impl Inner {
    /// Rewrites the whole file, and overwrites the rest of a longer text with blanks.
    fn save(&mut self) -> io::Result<()> {
        let mut text = String::new();
        for (run, Entry { now, crashes: [planning, attempt] }) in &self.entries {
            let now = match now {
                None => "-",
                Some(Work::Planning) => "planning",
                Some(Work::Attempt) => "attempt",
            };
            // Writing to a string does not fail.
            let _ = writeln!(text, "{run} {now} {planning} {attempt}");
        }
        let length = text.len();
        if length < self.length {
            text.extend(std::iter::repeat_n(' ', self.length - length));
        }
        self.length = self.length.max(length);
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(text.as_bytes())
    }
}

fn parse(line: &str) -> Option<(u64, Entry)> {
    let mut words = line.split_whitespace();
    let run = words.next()?.parse().ok()?;
    let now = match words.next()? {
        "planning" => Some(Work::Planning),
        "attempt" => Some(Work::Attempt),
        "-" => None,
        _ => return None,
    };
    Some((run, Entry { now, crashes: [words.next()?.parse().ok()?, words.next()?.parse().ok()?] }))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open(folder: &Path) -> (CrashGuard, Vec<u64>) {
        CrashGuard::open(folder).expect("a file")
    }

    /// Leaves work in progress, like a process that aborts.
    fn abort(folder: &Path, run: u64, work: Work) -> Vec<u64> {
        let (guard, quarantined) = open(folder);
        std::mem::forget(guard.enter(run, work));
        quarantined
    }

    #[test]
    fn a_run_is_quarantined_after_three_crashes_in_a_row() {
        for work in [Work::Planning, Work::Attempt] {
            let folder = tempfile::tempdir().expect("a folder");
            for _ in 0..MOST_CRASHES {
                assert_eq!(abort(folder.path(), 7, work), Vec::<u64>::new());
            }
            assert_eq!(open(folder.path()).1, [7]);
            assert_eq!(open(folder.path()).1, Vec::<u64>::new(), "it is quarantined once");
        }
    }

    #[test]
    fn work_that_is_finished_clears_its_run() {
        let folder = tempfile::tempdir().expect("a folder");
        for work in [Work::Planning, Work::Attempt] {
            for _ in 0..2 * MOST_CRASHES {
                assert_eq!(abort(folder.path(), 7, work), Vec::<u64>::new());
                drop(open(folder.path()).0.enter(7, work));
            }
        }
        // A run that is always planned successfully and crashes in its attempt is found as well.
        for _ in 0..MOST_CRASHES {
            let (guard, quarantined) = open(folder.path());
            assert_eq!(quarantined, Vec::<u64>::new());
            drop(guard.enter(7, Work::Planning));
            drop(guard.enter(8, Work::Attempt));
            std::mem::forget(guard.enter(7, Work::Attempt));
        }
        assert_eq!(open(folder.path()).1, [7]);
    }

    /// Regression: killing a process that waited for the end of a disclosure interval counted as a crash.
    #[test]
    fn a_process_that_ends_while_an_attempt_waits_did_not_crash() {
        let folder = tempfile::tempdir().expect("a folder");
        for _ in 0..2 * MOST_CRASHES {
            let (guard, quarantined) = open(folder.path());
            assert_eq!(quarantined, Vec::<u64>::new());
            let working = guard.enter(7, Work::Attempt);
            let mut left = Vec::new();
            working.pause(|| left = fs::read(folder.path().join(FILE)).expect("a file"));
            std::mem::forget(working);
            // The process ended during the wait; this is the file it left.
            fs::write(folder.path().join(FILE), left).expect("written");
        }
        assert_eq!(open(folder.path()).1, Vec::<u64>::new());
        // A wait does not clear earlier crashes.
        for _ in 0..MOST_CRASHES {
            let (guard, quarantined) = open(folder.path());
            assert_eq!(quarantined, Vec::<u64>::new());
            let working = guard.enter(7, Work::Attempt);
            working.pause(|| {});
            std::mem::forget(working);
        }
        assert_eq!(open(folder.path()).1, [7]);
    }

    #[test]
    fn a_file_that_says_something_else_is_overwritten() {
        let folder = tempfile::tempdir().expect("a folder");
        fs::write(folder.path().join(FILE), b"\xff7 attempt 9 9\n").expect("written");
        assert_eq!(open(folder.path()).1, Vec::<u64>::new());
        fs::write(folder.path().join(FILE), "x attempt 9 9\n7 none 9 9\n8 attempt\n").expect("written");
        assert_eq!(open(folder.path()).1, Vec::<u64>::new());
    }
}
