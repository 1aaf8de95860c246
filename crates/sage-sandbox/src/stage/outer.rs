//! The first stage: leaves the namespaces of the host.
//!
//! An ordinary user gets a user namespace, in which it may do the rest. The superuser does not need one; it
//! changes its user in the next stage, after the file system is built.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use rustix::thread::UnshareFlags;

use super::privileges;
use crate::bindings;
use crate::protocol::{SetupFailure, StageRequest, StepContext};

/// The user and group ID of the command inside the sandbox.
const SANDBOX_ID: u32 = 1000;

/// Kernel settings that disable user namespaces, with the disabling value.
const SWITCHES: &[(&str, &str)] = &[
    ("/proc/sys/user/max_user_namespaces", "0"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
];

pub(super) fn run(request: &StageRequest, control: &OwnedFd) -> Result<(), SetupFailure> {
    super::die_with_parent(control.as_fd())?;
    bindings::close_others_on_exec().step("closing other descriptors")?;
    // A session without a terminal: the command can neither read from the caller's terminal nor write to it.
    rustix::process::setsid().step("starting a session")?;
    rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
    // If memory runs out, the sandbox is killed first. A kernel that refuses this setting is no reason to fail.
    drop(fs::write("/proc/self/oom_score_adj", "1000"));
    let namespaces = UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    if request.become_user.is_some() {
        bindings::unshare(namespaces).step("leaving the host's namespaces")?;
    } else {
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        bindings::unshare(namespaces | UnshareFlags::NEWUSER).step(user_namespace_step())?;
        map_identity(user, group)?;
        privileges::keep_capabilities_over_exec()?;
    }
    let mut init = super::start("init")?;
    // The init process of a PID namespace ends after all others, so the sandbox is empty when this returns.
    init.wait().step("waiting for the sandbox")?;
    Ok(())
}

/// Maps one user and one group of the host into the new user namespace, and no others.
pub(super) fn map_identity(user: u32, group: u32) -> Result<(), SetupFailure> {
    let files = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{SANDBOX_ID} {user} 1")),
        ("gid_map", format!("{SANDBOX_ID} {group} 1")),
    ];
    for (file, text) in files {
        fs::write(format!("/proc/self/{file}"), text).step(format!("writing the user namespace's {file}"))?;
    }
    Ok(())
}

/// The name of the step, with the kernel setting that prevents it, if there is one.
pub(super) fn user_namespace_step() -> String {
    let disabled = SWITCHES.iter().find(|(path, off)| fs::read_to_string(path).is_ok_and(|text| text.trim() == *off));
    match disabled {
        Some((path, value)) => format!("making a user namespace, while {path} is {value}"),
        None => "making a user namespace".to_owned(),
    }
}
