//! The attacks: what each one tries, and for which users it succeeds without a sandbox.

mod calls;
mod files;
mod network;
mod processes;

/// The users for whom an attack succeeds without a sandbox. An attack that never succeeds would show nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum SucceedsFor {
    /// Every user.
    AnyUser,
    /// The superuser.
    Superuser,
    /// Not tested without a sandbox, with the reason.
    Untested(&'static str),
}

/// One attack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Lines of Python that call `escaped` if the attack succeeds.
    pub(crate) body: &'static str,
    pub(crate) succeeds_for: SucceedsFor,
}

/// A row of a table of attacks.
const fn attack(name: &'static str, succeeds_for: SucceedsFor, body: &'static str) -> Attack {
    Attack { name, body, succeeds_for }
}

/// All of them.
pub(crate) fn all() -> Vec<Attack> {
    [network::ATTACKS, files::ATTACKS, processes::ATTACKS, calls::ATTACKS].concat()
}
