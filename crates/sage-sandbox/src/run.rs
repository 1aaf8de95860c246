//! What a caller asks for: a command, its folder, its limits, and how closed the box is to be.

use std::fs::{self, File, Permissions};
use std::io;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Component, Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, mkfifoat, open};

use crate::follow::Following;
use crate::limits::Limits;
use crate::messages::Line;
use crate::order::{INSIDE, Orders, Shown, Task};
use crate::report::{Ending, Report, RunError, Walls};

/// Whoever a superuser's commands become: the machine's user for nobody, who should own nothing.
const NOBODY: u32 = 65534;

/// Places in the box that nothing may be shown over.
const TAKEN: &[&str] = &["/proc", "/sys", "/dev", "/tmp", "/etc", "/old", "/scratch", INSIDE];

/// The name of the socket in the box.
const SOCKET: &str = "socket";

/// How closed the box is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Containment {
    /// All walls, or the command is not run.
    Closed,
    /// No walls. The command can do whatever the caller's user can. Limits are those of single processes.
    None {
        /// Who decided that; the report repeats it.
        allowed_by: String,
    },
}

/// One command to run once.
#[derive(Clone, Debug)]
pub struct Run {
    /// The program and its arguments. The program is looked for in `/usr/local/bin`, `/usr/bin` and `/bin`.
    pub command: Vec<String>,
    /// A folder of this run alone, with `rows/` and `context.json`, neither of which contains symbolic links. A
    /// superuser makes both readable for everybody and the folder itself closed to all others.
    pub folder: PathBuf,
    /// A folder with the command's own files, read-only, in which it starts.
    pub code: Option<PathBuf>,
    /// Other folders that it can read, such as an environment of Python.
    pub shown: Vec<Shown>,
    /// A socket that somebody listens at, the only one from outside that it can connect to.
    pub socket: Option<PathBuf>,
    /// How much it may use.
    pub limits: Limits,
}

/// Whoever looks on while a command runs.
pub trait Watch {
    /// A message came.
    fn message(&mut self, line: Line);

    /// Asked several times a second: whether the command is to be ended.
    fn stop(&mut self) -> bool {
        false
    }
}

impl<F: FnMut(Line)> Watch for F {
    fn message(&mut self, line: Line) {
        self(line);
    }
}

/// Runs commands.
#[derive(Clone, Debug)]
pub struct Sandbox {
    containment: Containment,
    program: PathBuf,
}

impl Sandbox {
    /// Boxes made by this very program, whose `main` begins with [`crate::enter_if_asked`].
    pub fn new(containment: Containment) -> Self {
        Self::made_by(containment, PathBuf::from("/proc/self/exe"))
    }

    /// Boxes made by another program whose `main` begins with [`crate::enter_if_asked`].
    pub fn made_by(containment: Containment, program: PathBuf) -> Self {
        Self { containment, program }
    }

    /// Whether a box can be closed here, by closing one. The error names the step at which it cannot.
    pub fn available(&self) -> Result<Walls, RunError> {
        if let Containment::None { allowed_by } = &self.containment {
            return Ok(Walls::None { allowed_by: allowed_by.clone() });
        }
        let orders = Orders {
            task: Task::Probe,
            command: Vec::new(),
            environment: Vec::new(),
            work_folder: PathBuf::from("/"),
            shown: Vec::new(),
            limits: Limits::default(),
            become_user: become_user()?,
        };
        let mut following = Following::start(&self.program, &orders)?;
        match following.follow(&mut |_: Line| ())? {
            Ending::Exit(_) => following.walls().ok_or(RunError::NoAnswer),
            _ => Err(RunError::NoAnswer),
        }
    }

    /// Where the command will find its rows: `context.json` can say so.
    pub fn rows_inside(&self, folder: &Path) -> PathBuf {
        match self.containment {
            Containment::Closed => Path::new(INSIDE).join("rows"),
            Containment::None { .. } => folder.join("rows"),
        }
    }

    /// Where the command will find the socket that it is given.
    pub fn socket_inside(&self, socket: &Path) -> PathBuf {
        match self.containment {
            Containment::Closed => Path::new(INSIDE).join(SOCKET),
            Containment::None { .. } => socket.to_owned(),
        }
    }

    /// Runs a command until it ends, goes over a limit or is stopped. When this returns nothing of it is left.
    /// The calling thread must not end before that: the box dies with it.
    pub fn run(&self, run: &Run, watch: &mut dyn Watch) -> Result<Report, RunError> {
        let folder = real(&run.folder)?;
        let rows = real(&folder.join("rows"))?;
        let context = real(&folder.join("context.json"))?;
        if !rows.is_dir() || !context.is_file() {
            return Err(RunError::Order("its folder lacks rows/ or context.json".to_owned()));
        }
        if run.command.is_empty() {
            return Err(RunError::Order("it is empty".to_owned()));
        }
        match &self.containment {
            Containment::Closed => self.run_closed(run, &rows, &context, watch),
            Containment::None { allowed_by } => self.run_bare(run, &folder, allowed_by, watch),
        }
    }

    fn run_closed(&self, run: &Run, rows: &Path, context: &Path, watch: &mut dyn Watch) -> Result<Report, RunError> {
        let inside = Path::new(INSIDE);
        let mut shown = vec![
            Shown { folder: rows.to_owned(), inside: inside.join("rows") },
            Shown { folder: context.to_owned(), inside: inside.join("context.json") },
        ];
        if let Some(code) = &run.code {
            shown.push(Shown { folder: real(code)?, inside: inside.join("code") });
        }
        if let Some(socket) = &run.socket {
            let socket = real(socket)?;
            if !fs::metadata(&socket)?.file_type().is_socket() {
                return Err(RunError::Order(format!("{} is no socket", socket.display())));
            }
            shown.push(Shown { folder: socket, inside: inside.join(SOCKET) });
        }
        for Shown { folder, inside } in &run.shown {
            shown.push(Shown { folder: real(folder)?, inside: free_place(inside)? });
        }
        let orders = Orders {
            task: Task::Closed,
            command: run.command.clone(),
            environment: environment(inside, Path::new("/tmp")),
            work_folder: run.code.as_ref().map_or(PathBuf::from("/tmp"), |_| inside.join("code")),
            shown,
            limits: run.limits.clone(),
            become_user: become_user()?,
        };
        let mut following = Following::start(&self.program, &orders)?;
        let ending = following.follow(watch)?;
        following.report(ending, watch)
    }

    fn run_bare(&self, run: &Run, folder: &Path, by: &str, watch: &mut dyn Watch) -> Result<Report, RunError> {
        let (output, scratch, messages) = (folder.join("output"), folder.join("tmp"), folder.join("messages"));
        fs::create_dir_all(&output)?;
        fs::create_dir_all(&scratch)?;
        mkfifoat(CWD, &messages, Mode::RUSR)?;
        fs::set_permissions(&messages, Permissions::from_mode(0o600))?;
        let pipe = open(&messages, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
        let orders = Orders {
            task: Task::Bare,
            command: run.command.clone(),
            environment: environment(folder, &scratch),
            work_folder: run.code.as_deref().map_or(Ok(scratch), real)?,
            shown: Vec::new(),
            limits: run.limits.clone(),
            become_user: None,
        };
        let mut following = Following::start(&self.program, &orders)?;
        following.without_walls(by, pipe, File::open(&output)?.into());
        let ending = following.follow(watch)?;
        following.report(ending, watch)
    }
}

/// A superuser's commands become somebody else, because the kernel holds the superuser to fewer limits. Whoever is
/// a superuser in a user namespace alone is an ordinary user of the machine.
fn become_user() -> Result<Option<u32>, RunError> {
    if !rustix::process::geteuid().is_root() {
        return Ok(None);
    }
    match superuser(&fs::read_to_string("/proc/self/uid_map")?) {
        Superuser::OfTheMachine => Ok(Some(NOBODY)),
        Superuser::OfANamespace => Ok(None),
        Superuser::Alone => Err(RunError::Refused {
            step: "becoming another user than the superuser".to_owned(),
            reason: format!("user {NOBODY} is not known in this user namespace"),
        }),
    }
}

/// What the superuser of a map of users can do.
#[derive(Debug, PartialEq, Eq)]
enum Superuser {
    /// Become nobody.
    OfTheMachine,
    /// Not that, but it is somebody else outside, whom the kernel holds to every limit.
    OfANamespace,
    /// Not that, and it may be the machine's.
    Alone,
}

fn superuser(map: &str) -> Superuser {
    let ranges = map.lines().filter_map(|line| {
        let mut numbers = line.split_whitespace().map(|number| number.parse::<u64>().ok());
        Some((numbers.next()??, numbers.next()??, numbers.next()??))
    });
    let ranges: Vec<_> = ranges.collect();
    if ranges.iter().any(|(inside, _, count)| (*inside..inside + count).contains(&u64::from(NOBODY))) {
        return Superuser::OfTheMachine;
    }
    match ranges.iter().any(|(inside, outside, _)| *inside == 0 && *outside != 0) {
        true => Superuser::OfANamespace,
        false => Superuser::Alone,
    }
}

/// Everything that the command finds in its environment.
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

/// A path without symbolic links, which would lead elsewhere from inside.
fn real(path: &Path) -> Result<PathBuf, RunError> {
    let unusable = |reason: String| RunError::Order(format!("{}: {reason}", path.display()));
    let real = fs::canonicalize(path).map_err(|error: io::Error| unusable(error.to_string()))?;
    if real.to_str().is_none() {
        return Err(unusable("its path is not text".to_owned()));
    }
    Ok(real)
}

fn free_place(inside: &Path) -> Result<PathBuf, RunError> {
    let plain = inside.components().skip(1).all(|part| matches!(part, Component::Normal(_)));
    let taken = TAKEN.iter().any(|taken| inside.starts_with(taken));
    if inside.is_absolute() && plain && !taken && inside != Path::new("/") {
        return Ok(inside.to_owned());
    }
    Err(RunError::Order(format!("nothing can be shown at {}", inside.display())))
}

#[cfg(test)]
mod tests {
    use super::{Superuser, free_place, superuser};
    use std::path::Path;

    #[test]
    fn a_superuser_of_a_namespace_is_known() {
        for (map, expected) in [
            ("         0          0 4294967295\n", Superuser::OfTheMachine),
            ("0 100000 65536\n", Superuser::OfTheMachine),
            ("0 1000 1\n", Superuser::OfANamespace),
            ("0 1000 1\n1 100000 65533\n", Superuser::OfANamespace),
            ("0 0 1\n", Superuser::Alone),
            ("", Superuser::Alone),
        ] {
            assert_eq!(superuser(map), expected, "{map}");
        }
    }

    #[test]
    fn nothing_is_shown_over_the_box_itself() {
        for place in ["/opt/environment", "/data", "/tmpfiles"] {
            assert!(free_place(Path::new(place)).is_ok(), "{place}");
        }
        for place in ["/", "opt", "/proc/1", "/sage/rows", "/tmp", "/opt/../etc", "/dev/x"] {
            assert!(free_place(Path::new(place)).is_err(), "{place}");
        }
    }
}
