//! The last stage: drops the remaining privileges and becomes the command.

use std::fs::{self, File};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::FileTypeExt;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};

use super::{privileges, seccomp};
use crate::limits::Limits;
use crate::protocol::{RUN_ROOT, SetupFailure, StageEvent, StageRequest, StepContext, Task};
use crate::report::Landlock;
use crate::{bindings, channel};

/// Threads reserve address space that they never use; the memory they use counts as data.
const RESERVED_BYTES: u64 = 64 << 30;

/// Applies limits, capabilities, Landlock and seccomp, and executes the command.
pub(super) fn run_isolated(request: &StageRequest, control: &OwnedFd) -> Result<(), SetupFailure> {
    set_limits(&request.limits)?;
    // The init process counts as well.
    set_limit(Resource::Nproc, request.limits.processes.saturating_add(1))?;
    privileges::drop_capabilities()?;
    let landlock = privileges::landlock(request)?;
    if request.task == Task::Isolated {
        check_readable(request)?;
    }
    seccomp::apply_allowlist()?;
    channel::send(control, &StageEvent::Started { landlock }, &[]).step("reporting to the caller")?;
    match request.task {
        Task::Probe => Ok(()),
        Task::Isolated | Task::Unisolated => become_command(request),
    }
}

/// Executes the command without isolation.
pub(super) fn run_unisolated(request: &StageRequest, control: &OwnedFd) -> Result<(), SetupFailure> {
    super::die_with_parent(control.as_fd())?;
    bindings::close_others_on_exec().step("closing other descriptors")?;
    rustix::process::setsid().step("starting a session")?;
    set_limits(&request.limits)?;
    channel::send(control, &StageEvent::Started { landlock: Landlock::Absent }, &[]).step("reporting to the caller")?;
    become_command(request)
}

fn become_command(request: &StageRequest) -> Result<(), SetupFailure> {
    let [program, arguments @ ..] = request.command.as_slice() else {
        return Err("the command is empty").step("reading the command");
    };
    let mut command = Command::new(program);
    command.args(arguments).env_clear().envs(request.environment.iter().map(|(name, value)| (name, value)));
    command.current_dir(&request.work_folder).stdin(Stdio::null());
    // The exec closes our copy of the channel, and descriptor 0 is replaced before it.
    Err(command.exec()).step(format!("starting `{program}`"))
}

fn set_limits(limits: &Limits) -> Result<(), SetupFailure> {
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
        set_limit(resource, most)?;
    }
    // The soft limit sends a signal that identifies the cause, the hard limit kills.
    let hard = getrlimit(Resource::Cpu).maximum.map_or(seconds + 1, |hard| hard.min(seconds + 1));
    setrlimit(Resource::Cpu, Rlimit { current: Some(seconds.min(hard)), maximum: Some(hard) })
        .step("limiting processor time")
}

fn set_limit(resource: Resource, most: u64) -> Result<(), SetupFailure> {
    let most = getrlimit(resource).maximum.map_or(most, |hard| hard.min(most));
    setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) }).step(format!("limiting {resource:?}"))
}

/// Checks that the command's user can read everything that is mounted. It may be a different user from the superuser who
/// wrote the rows.
fn check_readable(request: &StageRequest) -> Result<(), SetupFailure> {
    let step = || "reading the mounted files as the user of the sandbox";
    let mut files: Vec<_> = request.mounts.iter().map(|mount| mount.target.clone()).collect();
    for entry in fs::read_dir(Path::new(RUN_ROOT).join("rows")).step(step())? {
        files.push(entry.step(step())?.path());
    }
    for file in files {
        if fs::metadata(&file).is_ok_and(|status| status.file_type().is_socket()) {
            // A socket is connected to, not opened.
            continue;
        }
        File::open(&file).map_err(|error| format!("{}: {error}", file.display())).step(step())?;
    }
    Ok(())
}
