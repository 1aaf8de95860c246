//! The second stage, the first process of the box: makes the files, gives up the superuser's identity, starts
//! the door and watches.
//!
//! Signals from inside cannot reach it, because it is the first of its namespace; its memory and descriptors
//! are closed to the command, because it is not dumpable. When it ends the kernel kills whatever is left.

use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{Gid, Uid, fchown};
use rustix::process::{DumpableBehavior, Pid, PidfdFlags, WaitOptions, WaitStatus, pidfd_open, wait};
use rustix::thread::UnshareFlags;

use super::{files, memory, outer, rights};
use crate::order::{Answer, How, Orders, Refusal, Step};
use crate::{bindings, channel};

/// How often memory is looked at.
const TICK: Duration = Duration::from_millis(25);

pub(super) fn first(orders: &Orders, control: &OwnedFd) -> Result<(), Refusal> {
    super::die_with_parent(control.as_fd())?;
    if rustix::process::getpid() != Pid::INIT {
        return Err("it is not the first process of its namespace").step("starting the box");
    }
    rustix::system::sethostname(b"sage").step("naming the box")?;
    let (messages, output) = files::build(orders)?;
    if let Some(user) = orders.become_user {
        give_up_identity(user)?;
    }
    // Changing the identity has undone it.
    super::die_with_parent(control.as_fd())?;
    rustix::process::set_dumpable_behavior(DumpableBehavior::NotDumpable).step("closing our own memory")?;
    channel::send(control, &Answer::Built, &[messages.as_fd(), output.as_fd()]).step("answering")?;
    drop((messages, output));
    let door = super::start("door")?;
    let door = Pid::from_child(&door);
    if let Some(how) = watch(door, orders, control)? {
        channel::send(control, &Answer::Ended(how), &[]).step("answering")?;
    }
    Ok(())
}

/// Becomes a user that owns nothing. Own namespace too, so that the limit on processes counts this box alone.
fn give_up_identity(user: u32) -> Result<(), Refusal> {
    let (owner, group) = (Uid::from_raw(user), Gid::from_raw(user));
    // The two pipes would else not open as `/dev/stdout`, which shell scripts do.
    for pipe in [rustix::stdio::stdout(), rustix::stdio::stderr()] {
        let _ = fchown(pipe, Some(owner), Some(group));
    }
    rustix::thread::set_thread_groups(&[]).step("giving up groups")?;
    rustix::thread::set_thread_res_gid(group, group, group).step("changing the group")?;
    rustix::thread::set_thread_res_uid(owner, owner, owner).step("changing the user")?;
    // A process that changed its user may not write its own maps before this.
    rustix::process::set_dumpable_behavior(DumpableBehavior::Dumpable).step("owning our own process again")?;
    bindings::unshare(UnshareFlags::NEWUSER).step(outer::user_namespace_step())?;
    outer::map_identity(user, user)?;
    rights::keep_capabilities_over_exec()
}

/// How the command ended; nothing if the caller wants it no more.
fn watch(door: Pid, orders: &Orders, control: &OwnedFd) -> Result<Option<How>, Refusal> {
    let ended = pidfd_open(door, PidfdFlags::empty()).step("watching the command")?;
    let tick = Timespec::try_from(TICK).step("watching the command")?;
    loop {
        let mut watched =
            [PollFd::new(&ended, PollFlags::IN), PollFd::from_borrowed_fd(control.as_fd(), PollFlags::RDHUP)];
        match poll(&mut watched, Some(&tick)) {
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error).step("watching the command"),
        }
        if super::caller_gone(control.as_fd()) {
            return Ok(None);
        }
        if let Some(status) = reap(door) {
            return Ok(Some(how(status)));
        }
        if memory::is_over(orders.limits.memory_bytes) {
            return Ok(Some(How::Memory));
        }
    }
}

/// Takes leave of every process that has ended. Those that the command left behind are ours.
fn reap(door: Pid) -> Option<WaitStatus> {
    while let Ok(Some((process, status))) = wait(WaitOptions::NOHANG) {
        if process == door {
            return Some(status);
        }
    }
    None
}

fn how(status: WaitStatus) -> How {
    match status.terminating_signal() {
        Some(signal) => How::Signal(signal),
        None => How::Code(status.exit_status().and_then(|code| u8::try_from(code).ok()).unwrap_or(u8::MAX)),
    }
}
