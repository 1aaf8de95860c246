//! Runs one command that nobody vouches for in a closed box, and says how it ended.
//!
//! It knows nothing of budgets, rows or bundles. It is given a command, a folder with `rows/` and `context.json`,
//! and limits; the command finds both read-only, a pipe for messages and an output folder, all named in its
//! environment, and nothing else of the machine but its programs and libraries.
//!
//! # Promised
//!
//! By namespaces, mounts and a list of allowed system calls together, and by Landlock as a second wall where the
//! kernel has it, the command
//!
//! - has no network and no socket but those among its own processes;
//! - sees no file but `/usr` and what belongs to it, what it was given, and what it writes; and writes only into
//!   the output folder and a temporary one, which are in memory, bounded and gone afterwards;
//! - sees, signals and traces no process but its own;
//! - has no capability, and no program can give it one; as a superuser's command it is another user;
//! - leaves no process behind, also if the caller is killed;
//! - is held to its limits, and its messages and what it prints to theirs.
//!
//! If any of that cannot be set up, nothing is run and the error names the step ([`Sandbox::available`] asks
//! beforehand), but for Landlock, whose part the report states.
//!
//! # Not promised
//!
//! - Whoever gets the output, the messages, the exit code or the time of a run can learn rows from them: the box
//!   has one way out, and what leaves by it is the author's word.
//! - A mistake in the kernel opens the box. So does one in `outer`, `first` and `door`, our own three stages.
//! - Timing, caches and load are shared with the machine; another process can be influenced and observed by
//!   them.
//! - Memory of all processes together is looked at forty times a second, not enforced by a control group, and
//!   buffers of pipes and sockets in the kernel are bounded by their number only.
//! - Disks and processors are not shared out: a command can be as busy as its limits of time and processes let
//!   it.
//! - With [`Containment::None`] there is no box, only the protocol.
//!
//! # How
//!
//! `main` begins with [`enter_if_asked`]. [`Sandbox::run`] starts the program anew with an argument that this
//! function knows, and the new process, which has one thread, closes the box around itself and becomes the
//! command.

#[cfg(not(target_os = "linux"))]
compile_error!("the box is made of parts of Linux");

mod bindings;
mod channel;
mod follow;
mod limits;
mod messages;
mod order;
mod output;
mod printed;
mod report;
mod run;
mod stage;

pub use limits::{Limit, Limits};
pub use messages::Line;
pub use order::Shown;
pub use output::{Listing, Output, OutputFile};
pub use printed::Tail;
pub use report::{Ending, Exit, Landlock, Report, RunError, Walls};
pub use run::{Containment, Run, Sandbox, Watch};
pub use stage::enter_if_asked;
