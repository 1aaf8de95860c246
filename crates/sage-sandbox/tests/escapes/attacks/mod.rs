//! The attacks, one by one: what each tries, and who succeeds with it where there is no box.

mod calls;
mod files;
mod network;
mod processes;

/// Who comes through without a box. A test that nobody could pass would show nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Without {
    /// Every user.
    Anyone,
    /// The superuser.
    Superuser,
    /// It is not tried, and why.
    Untried(&'static str),
}

/// One attack.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attack {
    pub(crate) name: &'static str,
    /// Lines of Python that say `escaped` if they come through.
    pub(crate) body: &'static str,
    pub(crate) without: Without,
}

/// A row of a table of attacks.
const fn attack(name: &'static str, without: Without, body: &'static str) -> Attack {
    Attack { name, body, without }
}

/// All of them.
pub(crate) fn all() -> Vec<Attack> {
    [network::ATTACKS, files::ATTACKS, processes::ATTACKS, calls::ATTACKS].concat()
}
