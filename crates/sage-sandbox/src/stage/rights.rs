//! What is left of rights after the namespaces, given up: capabilities, and by Landlock every path and socket
//! that the command has no business with. It is the second wall: each of its rules says again what the
//! namespaces and the mounts said first.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, Ruleset, RulesetAttr, RulesetCreatedAttr,
    RulesetStatus, Scope, path_beneath_rules,
};
use rustix::thread::{CapabilitySet, CapabilitySets};

use crate::order::{INSIDE, Orders, Refusal, Step};
use crate::report::Landlock;

/// The rules are those of Linux 6.12; an older kernel has fewer, and the report says so.
const RULES: ABI = ABI::V6;

/// The kernel takes the capabilities of a user namespace away at the next exec unless they are ambient; the next
/// stage needs them to build the box, and the last one to give them up for good.
pub(super) fn keep_capabilities_over_exec() -> Result<(), Refusal> {
    let step = "keeping capabilities for the next stage";
    let have = rustix::thread::capabilities(None).step(step)?;
    rustix::thread::set_capabilities(None, CapabilitySets { inheritable: have.permitted, ..have }).step(step)?;
    for one in have.permitted.iter() {
        rustix::thread::configure_capability_in_ambient_set(one, true).step(step)?;
    }
    Ok(())
}

pub(super) fn drop_capabilities() -> Result<(), Refusal> {
    rustix::thread::set_no_new_privs(true).step("giving up new privileges")?;
    rustix::thread::clear_ambient_capability_set().step("giving up capabilities")?;
    for number in 0..u64::BITS {
        let one = CapabilitySet::from_bits_retain(1 << number);
        // The kernel knows fewer than 64 and says so at the first that it does not know.
        match rustix::thread::remove_capability_from_bounding_set(one) {
            Ok(()) => {}
            Err(rustix::io::Errno::INVAL) => break,
            Err(error) => return Err(error).step("giving up capabilities"),
        }
    }
    let none = CapabilitySet::empty();
    let sets = CapabilitySets { effective: none, permitted: none, inheritable: none };
    rustix::thread::set_capabilities(None, sets).step("giving up capabilities")
}

pub(super) fn landlock(orders: &Orders) -> Result<Landlock, Refusal> {
    let read: BitFlags<AccessFs> = AccessFs::ReadFile | AccessFs::ReadDir;
    let run = read | AccessFs::Execute;
    let say: BitFlags<AccessFs> = AccessFs::WriteFile | AccessFs::Truncate;
    let write = AccessFs::from_all(RULES) & !(AccessFs::MakeChar | AccessFs::MakeBlock | AccessFs::IoctlDev);
    let shown = orders.shown.iter().map(|shown| shown.inside.clone());
    let rules = || -> Result<RulesetStatus, landlock::RulesetError> {
        let ruleset = Ruleset::default()
            .set_compatibility(CompatLevel::BestEffort)
            .handle_access(AccessFs::from_all(RULES))?
            .handle_access(AccessNet::from_all(RULES))?
            .scope(Scope::from_all(RULES))?
            .create()?
            .add_rules(path_beneath_rules(["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"], run))?
            .add_rules(path_beneath_rules(["/etc", "/proc"], read))?
            .add_rules(path_beneath_rules(["/dev/null", "/dev/zero", "/dev/full"], read | say))?
            .add_rules(path_beneath_rules(["/dev/random", "/dev/urandom"], read))?
            .add_rules(path_beneath_rules(shown, run))?
            .add_rules(path_beneath_rules([format!("{INSIDE}/messages")], say & AccessFs::from_file(RULES)))?
            .add_rules(path_beneath_rules(["/tmp", "/dev/shm", &format!("{INSIDE}/output")], write))?;
        Ok(ruleset.restrict_self()?.ruleset)
    };
    Ok(match rules().step("setting up Landlock")? {
        RulesetStatus::FullyEnforced => Landlock::Full,
        RulesetStatus::PartiallyEnforced => Landlock::Partial,
        RulesetStatus::NotEnforced => Landlock::Absent,
    })
}
