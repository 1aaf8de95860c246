//! The first stage: leaves the namespaces of the machine.
//!
//! An ordinary user gets a user namespace, in which it may do the rest. The superuser needs none for that; it
//! gives up its identity in the next stage, after the files are in place.

use std::fs;
use std::os::fd::{AsFd, OwnedFd};

use rustix::thread::UnshareFlags;

use super::rights;
use crate::bindings;
use crate::order::{Orders, Refusal, Step};

/// The user and group that the command sees itself as.
const INSIDE_ID: u32 = 1000;

/// Settings that switch user namespaces off, and the value that does.
const SWITCHES: &[(&str, &str)] = &[
    ("/proc/sys/user/max_user_namespaces", "0"),
    ("/proc/sys/kernel/unprivileged_userns_clone", "0"),
    ("/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1"),
];

pub(super) fn outer(orders: &Orders, control: &OwnedFd) -> Result<(), Refusal> {
    super::die_with_parent(control.as_fd())?;
    bindings::close_others_on_exec().step("closing other descriptors")?;
    // A terminal of its own, which is none: keys typed there are not for the command, and it can type none.
    rustix::process::setsid().step("starting a session")?;
    rustix::process::umask(rustix::fs::Mode::WGRP | rustix::fs::Mode::WOTH);
    // If memory runs out the box goes first. A kernel that does not let us say so is no reason to refuse.
    drop(fs::write("/proc/self/oom_score_adj", "1000"));
    let spaces = UnshareFlags::NEWNS
        | UnshareFlags::NEWPID
        | UnshareFlags::NEWNET
        | UnshareFlags::NEWIPC
        | UnshareFlags::NEWUTS
        | UnshareFlags::NEWCGROUP;
    if orders.become_user.is_some() {
        bindings::unshare(spaces).step("leaving the machine's namespaces")?;
    } else {
        let (user, group) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        bindings::unshare(spaces | UnshareFlags::NEWUSER).step(user_namespace_step())?;
        map_identity(user, group)?;
        rights::keep_capabilities_over_exec()?;
    }
    let mut first = super::start("first")?;
    // The first process of a process namespace ends after all others: when this returns the box is empty.
    first.wait().step("waiting for the box")?;
    Ok(())
}

/// Makes a user and a group of the machine known in the new user namespace, and no others.
pub(super) fn map_identity(user: u32, group: u32) -> Result<(), Refusal> {
    let files = [
        ("setgroups", "deny".to_owned()),
        ("uid_map", format!("{INSIDE_ID} {user} 1")),
        ("gid_map", format!("{INSIDE_ID} {group} 1")),
    ];
    for (file, text) in files {
        fs::write(format!("/proc/self/{file}"), text).step(format!("writing the user namespace's {file}"))?;
    }
    Ok(())
}

/// Names the step and, where one is, the setting that stands against it.
pub(super) fn user_namespace_step() -> String {
    let against = SWITCHES.iter().find(|(path, off)| fs::read_to_string(path).is_ok_and(|text| text.trim() == *off));
    match against {
        Some((path, value)) => format!("making a user namespace, while {path} is {value}"),
        None => "making a user namespace".to_owned(),
    }
}
