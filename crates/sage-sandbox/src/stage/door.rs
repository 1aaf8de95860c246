//! The last stage: gives up what is left of its rights and becomes the command.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{calls, rights};
use crate::limits::Limits;
use crate::order::{Answer, INSIDE, Orders, Refusal, Step, Task};
use crate::report::Landlock;
use crate::{bindings, channel};

/// Threads reserve address space that they never use; what they use is counted as data.
const RESERVED_BYTES: u64 = 64 << 30;

pub(super) fn door(orders: &Orders, control: &OwnedFd) -> Result<(), Refusal> {
    limit(&orders.limits)?;
    // Besides the command's own, the first process counts.
    at_most(Resource::Nproc, orders.limits.processes.saturating_add(1))?;
    rights::drop_capabilities()?;
    let landlock = rights::landlock(orders)?;
    if orders.task == Task::Closed {
        readable(orders)?;
    }
    calls::refuse_others()?;
    channel::send(control, &Answer::Started { landlock }, &[]).step("answering")?;
    match orders.task {
        Task::Probe => Ok(()),
        Task::Closed | Task::Bare => become_command(orders),
    }
}

/// The door of a box without walls.
pub(super) fn bare(orders: &Orders, control: &OwnedFd) -> Result<(), Refusal> {
    super::die_with_parent(control.as_fd())?;
    bindings::close_others_on_exec().step("closing other descriptors")?;
    rustix::process::setsid().step("starting a session")?;
    limit(&orders.limits)?;
    channel::send(control, &Answer::Started { landlock: Landlock::Absent }, &[]).step("answering")?;
    become_command(orders)
}

fn become_command(orders: &Orders) -> Result<(), Refusal> {
    let [program, arguments @ ..] = orders.command.as_slice() else {
        return Err("it is empty").step("reading the command");
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(orders.environment.iter().map(|(name, value)| (name, value)));
    command.current_dir(&orders.work_folder).stdin(Stdio::null());
    // Our copy of the channel is closed by the exec, and descriptor 0 is replaced before it.
    Err(command.exec()).step(format!("starting `{program}`"))
}

fn limit(limits: &Limits) -> Result<(), Refusal> {
    let seconds = limits.processor_time.max(Duration::from_secs(1)).as_secs();
    let largest_file = limits.output_bytes.max(limits.scratch_bytes);
    for (resource, most) in [
        (Resource::Core, 0),
        (Resource::Fsize, largest_file),
        (Resource::Data, limits.memory_bytes),
        (Resource::As, limits.memory_bytes.saturating_mul(2).saturating_add(RESERVED_BYTES)),
        (Resource::Stack, limits.memory_bytes.min(8 << 20)),
        (Resource::Nofile, limits.open_files),
        (Resource::Memlock, 64 << 10),
        (Resource::Msgqueue, 0),
        (Resource::Rtprio, 0),
        (Resource::Nice, 0),
    ] {
        at_most(resource, most)?;
    }
    // The soft one is a signal that says what it is about, the hard one a kill.
    let hard = getrlimit(Resource::Cpu).maximum.map_or(seconds + 1, |hard| hard.min(seconds + 1));
    setrlimit(Resource::Cpu, Rlimit { current: Some(seconds.min(hard)), maximum: Some(hard) })
        .step("limiting processor time")
}

fn at_most(resource: Resource, most: u64) -> Result<(), Refusal> {
    let most = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).step(format!("limiting {resource:?}"))
}

/// The command is another user than a superuser who wrote the rows: better said now than found out by it.
fn readable(orders: &Orders) -> Result<(), Refusal> {
    let step = || "reading what is shown as the user of the box";
    let mut files: Vec<_> = orders.shown.iter().map(|shown| shown.inside.clone()).collect();
    for entry in fs::read_dir(Path::new(INSIDE).join("rows")).step(step())? {
        files.push(entry.step(step())?.path());
    }
    for file in files {
        if fs::metadata(&file).is_ok_and(|status| status.file_type().is_socket()) {
            // It is connected to, not opened.
            continue;
        }
        File::open(&file).map_err(|error| format!("{}: {error}", file.display())).step(step())?;
    }
    Ok(())
}
