//! Everything that can be observed of an action, with released noise masked by [`crate::noise`].

use std::path::Path;

use sage_kernel::Event;

use crate::noise::{masked_note, without_digests};
use crate::pair::Side;

/// What was observed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Observation {
    /// Success, or the error message of a command.
    pub(crate) end: Result<(), String>,
    /// What is shown to the user, without noisy numbers.
    pub(crate) shown: Vec<String>,
    /// The events of the log with their contents, in order.
    pub(crate) events: Vec<String>,
    /// The stages of attempts that were reported while they ran, in order.
    pub(crate) progress: Vec<String>,
    /// The files of the directory and their sizes.
    pub(crate) files: Vec<(String, u64)>,
}

/// Observes an action on one side.
pub(crate) fn observed(side: &Side, action: impl FnOnce(&Side) -> Result<Vec<String>, String>) -> Observation {
    let before = side.engine.log_length().expect("the log can be read");
    let progress = side.engine.progress_length();
    let result = action(side);
    let progress = side.engine.progress(progress, usize::MAX);
    let progress = progress
        .iter()
        .map(|one| format!("{} {} {} {:?} {:?}", one.stream, one.run, one.attempt, one.stage, one.percent));
    let (end, shown) = match result {
        Ok(shown) => (Ok(()), shown),
        Err(message) => (Err(message), Vec::new()),
    };
    let mut files = Vec::new();
    list(&side.path(), &side.path(), &mut files);
    files.sort_unstable();
    Observation { end, shown, events: events(side, before), progress: progress.collect(), files }
}

/// The events of the log from a number on: as they are listed for users, and as their bodies say.
pub(crate) fn events(side: &Side, from: u64) -> Vec<String> {
    let listed = side.engine.events(from, 1_000_000).expect("the log can be read");
    let bodies = side.log.bodies(from);
    assert_eq!(listed.len(), bodies.len(), "both readers see the same events");
    let both = listed.iter().zip(bodies);
    both.map(|(event, body)| {
        let (kind, stream, run, release) = (event.kind, &event.stream, event.run, &event.release);
        format!("{kind} {stream:?} {run:?} {release:?} {:?} {}", event.by, content(&body))
    })
    .collect()
}

/// The content of an event, without noise.
fn content(body: &[u8]) -> String {
    match Event::from_bytes(body).expect("an event") {
        Event::Note { kind, body } => match serde_json::from_slice(&body) {
            Ok(note) => format!("{kind} {}", masked_note(&note)),
            Err(_) => format!("{kind} {body:?}"),
        },
        Event::Released { grant, digest: _ } => format!("released under {grant:?}"),
        Event::Snapshot { digest: _ } => "snapshot".to_owned(),
        other => format!("{other:?}"),
    }
}

/// The paths below a folder. Digests and random names are replaced, since noise and salts are in them.
fn list(top: &Path, folder: &Path, files: &mut Vec<(String, u64)>) {
    for entry in std::fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            list(top, &path, files);
        } else {
            let name = path.strip_prefix(top).expect("below").to_string_lossy().into_owned();
            // A file of the log may be moved into another while it is listed.
            let size = path.metadata().map_or(0, |file| file.len());
            files.push((without_digests(&name), size));
        }
    }
}

/// How far the sizes of a file may differ: not at all, unless rows or noisy numbers are in it.
fn slack(name: &str, size: u64) -> u64 {
    match name {
        // Rows themselves, and their number: files of the data's owner, which no user of the stream sees.
        _ if name.starts_with("blocks/") => u64::MAX,
        // Pages of noisy numbers in decimal digits.
        _ if name.starts_with("log.db") => (1 << 16) + size / 4,
        // Noisy numbers in decimal digits.
        _ if name.ends_with(".json") || name.ends_with(".md") || name.ends_with(".parquet") => 256,
        _ => 0,
    }
}

/// How two observations differ; `None` if they do not.
pub(crate) fn difference(one: &Observation, two: &Observation) -> Option<String> {
    if one.end != two.end {
        return Some(format!("the end: {:?} and {:?}", one.end, two.end));
    }
    let lists = [
        ("shown", &one.shown, &two.shown),
        ("events", &one.events, &two.events),
        ("progress", &one.progress, &two.progress),
    ];
    for (what, left, right) in lists {
        if left != right {
            let first = left.iter().zip(right).find(|(left, right)| left != right);
            return Some(format!("{what}: {} and {} entries, first {first:?}", left.len(), right.len()));
        }
    }
    let names = |files: &[(String, u64)]| files.iter().map(|(name, _)| name.clone()).collect::<Vec<String>>();
    let (left, right) = (names(&one.files), names(&two.files));
    if left != right {
        let first = left.iter().zip(&right).find(|(left, right)| left != right);
        return Some(format!("files: {} and {}, first {first:?}", left.len(), right.len()));
    }
    let mut sizes = one.files.iter().zip(&two.files);
    let other = sizes.find(|((name, left), (_, right))| left.abs_diff(*right) > slack(name, *left));
    other.map(|(left, right)| format!("the size of a file: {left:?} and {right:?}"))
}
