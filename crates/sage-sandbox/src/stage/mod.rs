//! The setup stages: the program re-executed as one of the processes that set up the sandbox.
//!
//! There are three, each started by the one before with exec, so that no code runs between fork and exec in a process
//! with threads. `outer` leaves the namespaces of the host. `init` is the first process of the new ones, builds the file
//! system and supervises. `exec` drops the remaining privileges and becomes the command. Each stage reads its request as
//! one packet from descriptor 0, which the command never gets. If the caller dies, that channel closes, `init` exits, and
//! the kernel kills all other processes of the sandbox.

mod exec;
mod files;
mod init;
mod memory;
mod outer;
mod privileges;
mod seccomp;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::channel;
use crate::protocol::{MARKER, SetupFailure, StageEvent, StageRequest, StepContext};

/// The exit code of a stage that failed. It is not evaluated: the reason is sent through the channel.
const REFUSED: i32 = 70;

/// Runs a setup stage and never returns, if the program was started as one; otherwise does nothing.
///
/// Must be called first in `main`, before anything starts a thread or opens a file.
pub fn enter_if_requested() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|argument| argument != MARKER) {
        return;
    }
    let name = arguments.next().unwrap_or_default();
    let Ok(control) = std::io::stdin().as_fd().try_clone_to_owned() else {
        std::process::exit(REFUSED);
    };
    let done = match name.to_str() {
        Some("outer") => read_request(&control).and_then(|request| outer::run(&request, &control)),
        Some("init") => read_request(&control).and_then(|request| init::run(&request, &control)),
        Some("exec") => read_request(&control).and_then(|request| exec::run_isolated(&request, &control)),
        Some("unisolated") => read_request(&control).and_then(|request| exec::run_unisolated(&request, &control)),
        _ => std::process::exit(REFUSED),
    };
    match done {
        Ok(()) => std::process::exit(0),
        Err(SetupFailure { step, reason }) => {
            // If the caller has closed its end, nobody needs the reason.
            drop(channel::send(&control, &StageEvent::Refused { step, reason }, &[]));
            std::process::exit(REFUSED)
        }
    }
}

fn read_request(control: &OwnedFd) -> Result<StageRequest, SetupFailure> {
    let received = channel::receive::<StageRequest>(control).step("reading the request")?;
    received.map(|(request, _)| request).ok_or("the caller has exited").step("reading the request")
}

/// Starts this program as the next stage, which reads the next packet of the same channel.
fn start(stage: &str) -> Result<Child, SetupFailure> {
    let mut command = Command::new("/proc/self/exe");
    command.arg(MARKER).arg(stage).env_clear().stdin(Stdio::inherit());
    command.spawn().step(format!("starting the stage `{stage}`"))
}

/// Makes this process die with the one that started it.
fn die_with_parent(control: BorrowedFd<'_>) -> Result<(), SetupFailure> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).step("asking to die with the caller")?;
    // The parent may have died just before; then the channel is closed too.
    match caller_gone(control) {
        true => Err("it has exited already").step("asking to die with the caller"),
        false => Ok(()),
    }
}

/// Whether the caller has closed its end.
fn caller_gone(control: BorrowedFd<'_>) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(control, PollFlags::RDHUP)];
    let no_wait = Timespec { tv_sec: 0, tv_nsec: 0 };
    let result = poll(&mut polled, Some(&no_wait));
    result.is_err() || polled[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
}
