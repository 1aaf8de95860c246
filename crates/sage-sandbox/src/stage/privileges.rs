//! Drops the privileges that remain after the namespaces: capabilities, and through Landlock all access to paths and
//! sockets that the command does not need. Landlock is a second layer: each of its rules repeats what the namespaces and
//! the mounts already enforce.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::protocol::{RUN_ROOT, SetupFailure, StageRequest, StepContext};
use crate::report::Landlock;

/// The rules of Linux 6.12. An older kernel supports fewer, and the report states so.
const RULES: ABI = ABI::V6;

/// Makes the capabilities of the user namespace ambient, so that they survive the next exec: the next stage needs them
/// to build the sandbox, and the last one to drop them for good.
pub(super) fn keep_capabilities_over_exec() -> Result<(), SetupFailure> {
    let step = "keeping capabilities for the next stage";
    let have = rustix::thread::capabilities(None).step(step)?;
    rustix::thread::set_capabilities(None, CapabilitySets { inheritable: have.permitted, ..have }).step(step)?;
    for capability in have.permitted.iter() {
        rustix::thread::configure_capability_in_ambient_set(capability, true).step(step)?;
    }
    Ok(())
}

pub(super) fn drop_capabilities() -> Result<(), SetupFailure> {
    rustix::thread::set_no_new_privs(true).step("setting no_new_privs")?;
    rustix::thread::clear_ambient_capability_set().step("dropping capabilities")?;
    for number in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << number);
        // The kernel has fewer than 64 and returns EINVAL for the first that it does not know.
        match rustix::thread::remove_capability_from_bounding_set(capability) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error).step("dropping capabilities"),
        }
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).step("dropping capabilities")
}

pub(super) fn landlock(request: &StageRequest) -> Result<Landlock, SetupFailure> {
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let read_and_execute = read | AccessFs::Execute;
    let write_existing: BitFlags<AccessFs> = AccessFs::WriteFile | AccessFs::Truncate;
    let write = AccessFs::from_all(RULES) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let mounts = request.mounts.iter().map(|mount| mount.target.clone());
    let rules = || -> Result<RulesetStatus, landlock::RulesetError> {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(RULES))?
            .handle_access(AccessNet::from_all(RULES))?
            .scope(Scope::from_all(RULES))?
            .create()?
            .add_rules(path_beneath_rules(
                ["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"],
                read_and_execute,
            ))?
            .add_rules(path_beneath_rules(["/etc", "/proc"], read))?
            .add_rules(path_beneath_rules(["/dev/null", "/dev/zero", "/dev/full"], read | write_existing))?
            .add_rules(path_beneath_rules(["/dev/random", "/dev/urandom"], read))?
            .add_rules(path_beneath_rules(mounts, read_and_execute))?
            .add_rules(path_beneath_rules(
                [format!("{RUN_ROOT}/messages")],
                write_existing & AccessFs::from_file(RULES),
            ))?
            .add_rules(path_beneath_rules(["/tmp", "/dev/shm", &format!("{RUN_ROOT}/output")], write))?;
        Ok(ruleset.restrict_self()?.ruleset)
    };
    Ok(match rules().step("setting up Landlock")? {
        RulesetStatus::FullyEnforced => Landlock::Full,
        RulesetStatus::PartiallyEnforced => Landlock::Partial,
        RulesetStatus::NotEnforced => Landlock::Absent,
    })
}
