//! A simulated disk: built from the system calls of a run, it gives the possible contents of the real disk after a
//! power failure at any point.
//!
//! Flushed data survives. Of other writes any subset may survive, and of a write any subset of its sectors. A name
//! survives for certain only if its directory was flushed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::world::Random;

/// The unit that the disk writes atomically, in bytes.
const SECTOR: usize = 512;

/// A system call of a process.
#[derive(Clone, Debug)]
pub(crate) enum Call {
    Open(PathBuf),
    OpenEmpty(PathBuf),
    Write(PathBuf, usize, Vec<u8>),
    /// A write at the current position of the file.
    Append(PathBuf, Vec<u8>),
    Truncate(PathBuf, usize),
    Flush(PathBuf),
    Rename(PathBuf, PathBuf),
    Remove(PathBuf),
    Print(String),
}

/// The options of `strace` for output that [`parse`] reads.
pub(crate) const TRACE: [&str; 9] = [
    "-f",
    "--seccomp-bpf",
    "-qq",
    "-y",
    "-xx",
    "-s",
    "4000000",
    "-e",
    "trace=openat,pwrite64,write,fdatasync,fsync,ftruncate,rename,unlink",
];

/// The calls of a trace that concern files below the root, with paths relative to it, and the printed lines.
pub(crate) fn parse(trace: &str, root: &Path) -> Vec<Call> {
    trace.lines().filter_map(|line| parse_line(line, root)).collect()
}

fn parse_line(line: &str, root: &Path) -> Option<Call> {
    let (_, call) = line.split_once(' ')?;
    let (name, rest) = call.trim_start().split_once('(')?;
    let (arguments, result) = rest.rsplit_once(" = ")?;
    if result.starts_with('-') {
        return None;
    }
    let arguments = arguments.trim_end().strip_suffix(')')?;
    let quoted = || arguments.split('"').skip(1).step_by(2).map(unescape);
    let below = |path: Vec<u8>| {
        let path = PathBuf::from(String::from_utf8(path).ok()?);
        let below = path.strip_prefix(root).ok()?.to_owned();
        // The shared-memory file is rebuilt by the first handle that opens the log.
        (!below.to_string_lossy().ends_with("-shm")).then_some(below)
    };
    let opened = || below(unescape(arguments.split_once('<')?.1.split_once('>')?.0));
    let last_number = || arguments.rsplit_once(", ")?.1.parse().ok();
    Some(match name {
        "openat" if arguments.contains("O_CREAT") => {
            let path = below(quoted().next()?)?;
            if arguments.contains("O_TRUNC") { Call::OpenEmpty(path) } else { Call::Open(path) }
        }
        "pwrite64" => Call::Write(opened()?, last_number()?, quoted().next()?),
        "write" if arguments.starts_with("1<") => Call::Print(String::from_utf8(quoted().next()?).ok()?),
        "write" => Call::Append(opened()?, quoted().next()?),
        "ftruncate" => Call::Truncate(opened()?, last_number()?),
        "fdatasync" | "fsync" => Call::Flush(opened()?),
        "rename" => {
            let mut paths = quoted();
            Call::Rename(below(paths.next()?)?, below(paths.next()?)?)
        }
        "unlink" => Call::Remove(below(quoted().next()?)?),
        _ => return None,
    })
}

/// The bytes of a string in which each is written as `\xhh`.
fn unescape(text: &str) -> Vec<u8> {
    text.split("\\x").skip(1).map(|byte| u8::from_str_radix(&byte[..2], 16).expect("two digits")).collect()
}

/// The flushed bytes of a file, and the changes since the last flush.
#[derive(Clone, Debug, Default)]
struct Content {
    flushed: Vec<u8>,
    pending: Vec<Change>,
    position: usize,
}

#[derive(Clone, Debug)]
enum Change {
    Write(usize, Vec<u8>),
    Truncate(usize),
}

fn apply(bytes: &mut Vec<u8>, change: &Change) {
    match change {
        Change::Truncate(length) => bytes.resize(*length, 0),
        Change::Write(offset, written) => {
            let end = offset + written.len();
            bytes.resize(bytes.len().max(end), 0);
            bytes[*offset..end].copy_from_slice(written);
        }
    }
}

/// Paths with the indices of their contents.
type Names = BTreeMap<PathBuf, usize>;

/// Files as processes see them, and as they are on the disk.
#[derive(Clone, Debug, Default)]
pub(crate) struct Disk {
    contents: Vec<Content>,
    /// The names that processes see.
    names: Names,
    /// The flushed names, and their later states.
    flushed_names: Names,
    later_names: Vec<Names>,
}

impl Disk {
    /// A disk with all files below the root, flushed.
    pub(crate) fn read_from(root: &Path) -> Self {
        let mut disk = Self::default();
        let mut folders = vec![root.to_owned()];
        while let Some(folder) = folders.pop() {
            for entry in fs::read_dir(folder).expect("a directory") {
                let path = entry.expect("an entry").path();
                if path.is_dir() {
                    folders.push(path);
                    continue;
                }
                let below = path.strip_prefix(root).expect("found below it").to_owned();
                disk.names.insert(below, disk.contents.len());
                let flushed = fs::read(path).expect("a file");
                disk.contents.push(Content { flushed, ..Content::default() });
            }
        }
        disk.flushed_names = disk.names.clone();
        disk
    }

    /// Applies a system call.
    pub(crate) fn apply(&mut self, call: &Call) {
        match call {
            Call::Open(path) => {
                self.content(path).position = 0;
            }
            Call::OpenEmpty(path) => {
                let content = self.content(path);
                content.position = 0;
                content.pending.push(Change::Truncate(0));
            }
            Call::Write(path, offset, bytes) => {
                self.content(path).pending.push(Change::Write(*offset, bytes.clone()));
            }
            Call::Append(path, bytes) => {
                let content = self.content(path);
                content.pending.push(Change::Write(content.position, bytes.clone()));
                content.position += bytes.len();
            }
            Call::Truncate(path, length) => self.content(path).pending.push(Change::Truncate(*length)),
            Call::Flush(path) => self.flush(path),
            Call::Rename(from, to) => {
                if let Some(content) = self.names.remove(from) {
                    self.names.insert(to.clone(), content);
                }
                self.later_names.push(self.names.clone());
            }
            Call::Remove(path) => {
                self.names.remove(path);
                self.later_names.push(self.names.clone());
            }
            Call::Print(_) => {}
        }
    }

    fn content(&mut self, path: &Path) -> &mut Content {
        let index = *self.names.entry(path.to_owned()).or_insert_with(|| {
            self.contents.push(Content::default());
            self.contents.len() - 1
        });
        if self.later_names.last().unwrap_or(&self.flushed_names).get(path) != Some(&index) {
            self.later_names.push(self.names.clone());
        }
        &mut self.contents[index]
    }

    fn flush(&mut self, path: &Path) {
        // The trace does not tell directories from files. A path with names below it is a directory.
        let is_folder = self.names.keys().any(|name| name.parent() == Some(path) && name != path);
        if is_folder {
            let inside = |name: &Path| name.parent() == Some(path);
            self.flushed_names.retain(|name, _| !inside(name));
            self.flushed_names
                .extend(self.names.iter().filter(|(name, _)| inside(name)).map(|(name, &index)| (name.clone(), index)));
            self.later_names = vec![self.names.clone()];
            return;
        }
        if let Some(&index) = self.names.get(path) {
            let content = &mut self.contents[index];
            for change in std::mem::take(&mut content.pending) {
                apply(&mut content.flushed, &change);
            }
        }
    }

    /// A possible state of the disk after a power failure now.
    pub(crate) fn crash(&self, random: &mut Random) -> Self {
        let choice = random.below(1 + self.later_names.len() as u64) as usize;
        let names = if choice == 0 { &self.flushed_names } else { &self.later_names[choice - 1] };
        let mut image = Self::default();
        for (name, &index) in names {
            let content = &self.contents[index];
            image.names.insert(name.clone(), image.contents.len());
            image.contents.push(Content { flushed: surviving_bytes(content, random), ..Content::default() });
        }
        image.flushed_names = image.names.clone();
        image
    }

    /// Writes the files below the root.
    pub(crate) fn write_to(&self, root: &Path) {
        for (name, &content) in &self.names {
            let path = root.join(name);
            fs::create_dir_all(path.parent().expect("it has one")).expect("made");
            fs::write(path, &self.contents[content].flushed).expect("written");
        }
    }
}

/// A possible state of a file after a power failure.
fn surviving_bytes(content: &Content, random: &mut Random) -> Vec<u8> {
    let mut bytes = content.flushed.clone();
    let count = content.pending.len() as u64;
    let mode = random.below(5);
    let prefix = random.below(count + 1);
    for (number, change) in content.pending.iter().enumerate() {
        let survives = match mode {
            0 => false,
            1 => true,
            2 => (number as u64) < prefix,
            _ => random.below(2) == 0,
        };
        match change {
            Change::Write(offset, written) if mode == 4 => write_torn(&mut bytes, *offset, written, random),
            _ if survives => apply(&mut bytes, change),
            _ => {}
        }
    }
    bytes
}

/// Applies a random subset of the sectors of a write.
fn write_torn(bytes: &mut Vec<u8>, offset: usize, written: &[u8], random: &mut Random) {
    let mut from = 0;
    while from < written.len() {
        let to = (from + SECTOR - (offset + from) % SECTOR).min(written.len());
        if random.below(2) == 0 {
            apply(bytes, &Change::Write(offset + from, written[from..to].to_vec()));
        }
        from = to;
    }
}
