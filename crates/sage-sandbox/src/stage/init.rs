//! The second stage, the init process of the sandbox: builds the file system, gives up the superuser's identity, starts
//! the `exec` stage and supervises the command.
//!
//! The command cannot send it signals, because it is PID 1 of its namespace, and cannot access its memory and
//! descriptors, because it is not dumpable. When it exits, the kernel kills all remaining processes.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Gid, Uid, fchown};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, WaitOptions, WaitStatus, pidfd_open, wait};
use rustix::thread::UnshareFlags;

use super::{files, memory, outer, privileges};
use crate::protocol::{ExitCause, SetupFailure, StageEvent, StageRequest, StepContext};
use crate::{bindings, channel};

/// How often memory usage is polled.
const POLL_INTERVAL: Duration = Duration::from_millis(25);

pub(super) fn run(request: &StageRequest, control: &OwnedFd) -> Result<(), SetupFailure> {
    super::die_with_parent(control.as_fd())?;
    if rustix::process::getpid() != Pid::INIT {
        return Err("it is not the first process of its namespace").step("starting the sandbox");
    }
    rustix::system::sethostname(b"sage").step("setting the host name")?;
    let (messages, output) = files::build(request)?;
    if let Some(user) = request.become_user {
        give_up_identity(user)?;
    }
    // Changing the user has reset it.
    super::die_with_parent(control.as_fd())?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).step("protecting the memory of init")?;
    channel::send(control, &StageEvent::Built, &[messages.as_fd(), output.as_fd()]).step("reporting to the caller")?;
    drop((messages, output));
    let command = super::start("exec")?;
    let command = Pid::from_child(&command);
    if let Some(cause) = supervise(command, request, control)? {
        channel::send(control, &StageEvent::Ended(cause), &[]).step("reporting to the caller")?;
    }
    Ok(())
}

/// Changes to a user that owns nothing, in its own user namespace, so that the limit on processes counts only this
/// sandbox.
fn give_up_identity(user: u32) -> Result<(), SetupFailure> {
    let (owner, group) = (Uid::from_raw(user), Gid::from_raw(user));
    // Otherwise the two pipes could not be opened as `/dev/stdout`, as shell scripts do.
    for pipe in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
        let _ = fchown(pipe, Some(owner), Some(group));
    }
    rustix::thread::set_thread_groups(&[]).step("giving up groups")?;
    rustix::thread::set_thread_res_gid(group, group, group).step("changing the group")?;
    rustix::thread::set_thread_res_uid(owner, owner, owner).step("changing the user")?;
    // A process that changed its user may not write its own uid_map without this.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).step("regaining access to its own process")?;
    bindings::unshare(UnshareFlags::NEWUSER).step(outer::user_namespace_step())?;
    outer::map_identity(user, user)?;
    privileges::keep_capabilities_over_exec()
}

/// Waits for the command and returns how it ended; `None` if the caller has closed its end.
fn supervise(command: Pid, request: &StageRequest, control: &OwnedFd) -> Result<Option<ExitCause>, SetupFailure> {
    let ended = pidfd_open(command, PidfdFlags::empty()).step("supervising the command")?;
    let interval = Timespec::try_from(POLL_INTERVAL).step("supervising the command")?;
    loop {
        let mut polled =
            [PollFd::new(&ended, PollFlags::IN), PollFd::from_borrowed_fd(control.as_fd(), PollFlags::RDHUP)];
        match poll(&mut polled, Some(&interval)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).step("supervising the command"),
        }
        if super::caller_gone(control.as_fd()) {
            return Ok(None);
        }
        if let Some(status) = reap(command) {
            return Ok(Some(exit_cause(status)));
        }
        if memory::exceeds(request.limits.memory_bytes) {
            return Ok(Some(ExitCause::Memory));
        }
    }
}

/// Reaps every process that has ended, including orphans of the command, and returns the command's status.
fn reap(command: Pid) -> Option<WaitStatus> {
    while let Ok(Some((process, status))) = wait(WaitOptions::NOHANG) {
        if process == command {
            return Some(status);
        }
    }
    None
}

fn exit_cause(status: WaitStatus) -> ExitCause {
    match status.terminating_signal() {
        Some(signal) => ExitCause::Signal(signal),
        None => ExitCause::Code(status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)),
    }
}
