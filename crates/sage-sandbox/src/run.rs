//! The entry point on Linux: checks a run, and starts its setup stages.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};

use crate::command::{Containment, Observer, ReadOnlyMount, Run};
use crate::limits::Limits;
use crate::messages::Line;
use crate::protocol::{RUN_ROOT, StageRequest, Task};
use crate::report::{Ending, Isolation, Report, RunError};
use crate::supervise::SupervisedRun;

/// The user that a superuser's command runs as: `nobody`, who should own no files.
const NOBODY: u32 = 65534;

/// Paths in the sandbox that nothing may be mounted over.
const RESERVED: &[&str] = &["/proc", "/sys", "/dev", "/tmp", "/etc", "/old", "/scratch", RUN_ROOT];

/// The name of the socket in the sandbox.
const SOCKET: &str = "socket";

/// Runs commands with one kind of containment.
#[derive(Clone, Debug)]
pub struct Sandbox {
    containment: Containment,
    program: PathBuf,
}

impl Sandbox {
    /// A sandbox set up by this program, whose `main` starts with [`crate::enter_if_requested`].
    pub fn new(containment: Containment) -> Self {
        Self::with_program(containment, PathBuf::from("/proc/self/exe"))
    }

    /// A sandbox set up by another program whose `main` starts with [`crate::enter_if_requested`].
    pub fn with_program(containment: Containment, program: PathBuf) -> Self {
        Self { containment, program }
    }

    /// Checks that a sandbox can be set up here, by setting one up. The error names the step that failed.
    pub fn available(&self) -> Result<Isolation, RunError> {
        if let Containment::None { allowed_by } = &self.containment {
            return Ok(Isolation::None { allowed_by: allowed_by.clone() });
        }
        let request = StageRequest {
            task: Task::Probe,
            command: Vec::new(),
            environment: Vec::new(),
            work_folder: PathBuf::from("/"),
            mounts: Vec::new(),
            limits: Limits::default(),
            become_user: become_user()?,
        };
        let mut supervised = SupervisedRun::start(&self.program, &request)?;
        match supervised.follow(&mut |_: Line| ())? {
            Ending::Exit(_) => supervised.isolation().ok_or(RunError::NoResponse),
            _ => Err(RunError::NoResponse),
        }
    }

    /// The path of the rows as the command sees it, for `context.json`.
    pub fn rows_path(&self, folder: &Path) -> PathBuf {
        match self.containment {
            Containment::Isolated => Path::new(RUN_ROOT).join("rows"),
            Containment::None { .. } => folder.join("rows"),
        }
    }

    /// The path of the socket as the command sees it.
    pub fn socket_path(&self, socket: &Path) -> PathBuf {
        match self.containment {
            Containment::Isolated => Path::new(RUN_ROOT).join(SOCKET),
            Containment::None { .. } => socket.to_owned(),
        }
    }

    /// Runs a command until it ends, exceeds a limit or is stopped. No process of it is left when this returns.
    /// The sandbox is killed if the calling thread ends earlier.
    pub fn run(&self, run: &Run, observer: &mut dyn Observer) -> Result<Report, RunError> {
        let folder = canonical_path(&run.folder)?;
        let rows = canonical_path(&folder.join("rows"))?;
        let context = canonical_path(&folder.join("context.json"))?;
        if !rows.is_dir() || !context.is_file() {
            return Err(RunError::Invalid("the run folder has no rows/ or no context.json".to_owned()));
        }
        if run.command.is_empty() {
            return Err(RunError::Invalid("the command is empty".to_owned()));
        }
        match &self.containment {
            Containment::Isolated => self.run_isolated(run, &rows, &context, observer),
            Containment::None { allowed_by } => self.run_unisolated(run, &folder, allowed_by, observer),
        }
    }

    fn run_isolated(
        &self, run: &Run, rows: &Path, context: &Path, observer: &mut dyn Observer,
    ) -> Result<Report, RunError> {
        let root = Path::new(RUN_ROOT);
        let mut mounts = vec![
            ReadOnlyMount { source: rows.to_owned(), target: root.join("rows") },
            ReadOnlyMount { source: context.to_owned(), target: root.join("context.json") },
        ];
        if let Some(code) = &run.code {
            mounts.push(ReadOnlyMount { source: canonical_path(code)?, target: root.join("code") });
        }
        if let Some(socket) = &run.socket {
            let socket = canonical_path(socket)?;
            if !fs::metadata(&socket)?.file_type().is_socket() {
                return Err(RunError::Invalid(format!("{} is not a socket", socket.display())));
            }
            mounts.push(ReadOnlyMount { source: socket, target: root.join(SOCKET) });
        }
        for ReadOnlyMount { source, target } in &run.mounts {
            mounts.push(ReadOnlyMount { source: canonical_path(source)?, target: check_mount_target(target)? });
        }
        let request = StageRequest {
            task: Task::Isolated,
            command: run.command.clone(),
            environment: environment(root, Path::new("/tmp")),
            work_folder: run.code.as_ref().map_or(PathBuf::from("/tmp"), |_| root.join("code")),
            mounts,
            limits: run.limits.clone(),
            become_user: become_user()?,
        };
        let mut supervised = SupervisedRun::start(&self.program, &request)?;
        let ending = supervised.follow(observer)?;
        supervised.report(ending, observer)
    }

    fn run_unisolated(
        &self, run: &Run, folder: &Path, by: &str, observer: &mut dyn Observer,
    ) -> Result<Report, RunError> {
        let (output, scratch, messages) = (folder.join("output"), folder.join("tmp"), folder.join("messages"));
        fs::create_dir_all(&output)?;
        fs::create_dir_all(&scratch)?;
        mkfifoat(CWD, &messages, Mode::RUSR)?;
        fs::set_permissions(&messages, Permissions::from_mode(0o600))?;
        let pipe = open(&messages, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
        let request = StageRequest {
            task: Task::Unisolated,
            command: run.command.clone(),
            environment: environment(folder, &scratch),
            work_folder: run.code.as_deref().map_or(Ok(scratch), canonical_path)?,
            mounts: Vec::new(),
            limits: run.limits.clone(),
            become_user: None,
        };
        let mut supervised = SupervisedRun::start(&self.program, &request)?;
        supervised.set_unisolated(by, pipe, File::open(&output)?.into());
        let ending = supervised.follow(observer)?;
        supervised.report(ending, observer)
    }
}

/// The user that the command runs as. A superuser's command changes its user, because the kernel enforces fewer limits
/// on the superuser. The superuser of a user namespace is an ordinary user of the host.
fn become_user() -> Result<Option<u32>, RunError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    match superuser(&fs::read_to_string("/proc/self/uid_map")?) {
        Superuser::CanBecomeNobody => Ok(Some(NOBODY)),
        Superuser::Namespaced => Ok(None),
        Superuser::Unmapped => Err(RunError::Refused {
            step: "changing from the superuser to another user".to_owned(),
            reason: format!("user {NOBODY} is not known in this user namespace"),
        }),
    }
}

/// What the superuser can do, according to the user namespace's `uid_map`.
#[derive(Debug, PartialEq, Eq)]
enum Superuser {
    /// Change to the user `nobody`.
    CanBecomeNobody,
    /// Not that, but it is an ordinary user of the host, on whom the kernel enforces every limit.
    Namespaced,
    /// Not that, and it may be the superuser of the host.
    Unmapped,
}

fn superuser(map: &str) -> Superuser {
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next()??))
    });
    let ranges: Vec<_> = ranges.collect();
    if ranges.iter().any(|(inside, _, count)| (*inside..inside + count).contains(&u64::from(NOBODY))) {
        return Superuser::CanBecomeNobody;
    }
    match ranges.iter().any(|(inside, outside, _)| *inside == 0 && *outside != 0) {
        true => Superuser::Namespaced,
        false => Superuser::Unmapped,
    }
}

/// The complete environment of the command.
fn environment(run: &Path, scratch: &Path) -> Vec<(String, String)> {
    let path = |name: &str| run.join(name).to_string_lossy().into_owned();
    let scratch = scratch.to_string_lossy().into_owned();
    let entries = [
        ("SAGE_CONTEXT", path("context.json")),
        ("SAGE_MESSAGES", path("messages")),
        ("SAGE_OUTPUT", path("output")),
        ("PATH", "/usr/local/bin:/usr/bin:/bin".to_owned()),
        ("LANG", "C.UTF-8".to_owned()),
        ("HOME", scratch.clone()),
        ("TMPDIR", scratch),
    ];
    entries.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}

impl From<rustix::io::Errno> for RunError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

/// Resolves symbolic links, which would point elsewhere inside the sandbox.
fn canonical_path(path: &Path) -> Result<PathBuf, RunError> {
    let unusable = |reason: String| RunError::Invalid(format!("{}: {reason}", path.display()));
    let canonical = fs::canonicalize(path).map_err(|error: io::Error| unusable(error.to_string()))?;
    if canonical.to_str().is_none() {
        return Err(unusable("the path is not valid UTF-8".to_owned()));
    }
    Ok(canonical)
}

fn check_mount_target(target: &Path) -> Result<PathBuf, RunError> {
    let plain = target.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
    let reserved = RESERVED.iter().any(|reserved| target.starts_with(reserved));
    if target.is_absolute() && plain && !reserved && target != Path::new("/") {
        return Ok(target.to_owned());
    }
    Err(RunError::Invalid(format!("nothing can be mounted at {}", target.display())))
}

#[cfg(test)]
mod tests {
    use super::{Superuser, check_mount_target, superuser};
    use std::path::Path;

    #[test]
    fn the_superuser_of_a_namespace_is_recognised() {
        for (map, expected) in [
            ("         0          0 4294967295\n", Superuser::CanBecomeNobody),
            ("0 100000 65536\n", Superuser::CanBecomeNobody),
            ("0 1000 1\n", Superuser::Namespaced),
            ("0 1000 1\n1 100000 65533\n", Superuser::Namespaced),
            ("0 0 1\n", Superuser::Unmapped),
            ("", Superuser::Unmapped),
        ] {
            assert_eq!(superuser(map), expected, "{map}");
        }
    }

    #[test]
    fn reserved_paths_are_not_mounted_over() {
        for path in ["/opt/environment", "/data", "/tmpfiles"] {
            assert!(check_mount_target(Path::new(path)).is_ok(), "{path}");
        }
        for path in ["/", "opt", "/proc/1", "/sage/rows", "/tmp", "/opt/../etc", "/dev/x"] {
            assert!(check_mount_target(Path::new(path)).is_err(), "{path}");
        }
    }
}
