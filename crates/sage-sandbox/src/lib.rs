//! Runs one untrusted command in a sandbox and reports how it ended.
//!
//! The crate knows nothing about budgets, rows or bundles. Its input is a command, a folder with `rows/` and
//! `context.json`, and limits. The command sees both read-only, a pipe for messages and an output folder, all named in
//! its environment, and nothing else of the host but its programs and libraries.
//!
//! # Guaranteed
//!
//! Namespaces, mounts and a seccomp allowlist together, and Landlock as a second layer where the kernel supports it,
//! ensure that the command
//!
//! - has no network and no sockets except among its own processes;
//! - sees only the host's programs and libraries, the files it was given, and the files it writes; and writes only to
//!   the output folder and a temporary folder, which are in memory, bounded and discarded afterwards;
//! - sees, signals and traces only its own processes;
//! - has no capabilities and cannot gain any; a superuser's command runs as a different user;
//! - leaves no process behind, even if the caller is killed;
//! - cannot exceed its limits, including those on messages and printed output.
//!
//! If any of this cannot be set up, nothing is run and the error names the step ([`Sandbox::available`] checks
//! in advance). The exception is Landlock: the report states how much of it the kernel supports.
//!
//! # Not guaranteed
//!
//! - The output, the messages, the exit code and the duration of a run can reveal rows. The sandbox controls by which
//!   channels data leaves, not what leaves by them.
//! - A bug in the kernel can break the sandbox. So can a bug in its three setup stages, `outer`, `init` and `exec`.
//! - Timing, caches and load are shared with the host; other processes can be influenced and observed through them.
//! - The total memory of all processes is polled forty times a second, not enforced by a control group, and kernel
//!   buffers of pipes and sockets are bounded only by their number.
//! - Disk and processor shares are not limited: a command can be as busy as its limits on time and processes allow.
//! - With [`Containment::None`] there is no sandbox, only the protocol.
//!
//! # How it works
//!
//! `main` starts with [`enter_if_requested`]. [`Sandbox::run`] re-executes the program with an argument that this
//! function recognises. The new process, which has a single thread, sets up the sandbox around itself and becomes
//! the command.

//!
//! # Platforms
//!
//! The sandbox needs Linux. On other systems the crate has the same items, and every run is refused.

#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "used by the implementation for Linux alone"))]

mod command;
mod limits;
mod messages;
mod report;
mod tail;

#[cfg(target_os = "linux")]
mod bindings;
#[cfg(target_os = "linux")]
mod channel;
#[cfg(target_os = "linux")]
mod output;
#[cfg(target_os = "linux")]
mod protocol;
#[cfg(target_os = "linux")]
mod run;
#[cfg(target_os = "linux")]
mod stage;
#[cfg(target_os = "linux")]
mod supervise;
#[cfg(not(target_os = "linux"))]
mod unsupported;

/// The items that differ between systems.
mod platform {
    #[cfg(not(target_os = "linux"))]
    pub use crate::unsupported::{Output, Sandbox, enter_if_requested};
    #[cfg(target_os = "linux")]
    pub use crate::{output::Output, run::Sandbox, stage::enter_if_requested};
}

pub use command::{Containment, Observer, ReadOnlyMount, Run};
pub use limits::{Limit, Limits};
pub use messages::Line;
pub use platform::{Output, Sandbox, enter_if_requested};
pub use report::{Ending, Exit, Isolation, Landlock, Listing, OutputFile, Report, RunError};
pub use tail::Tail;
