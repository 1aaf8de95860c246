//! The log after a process is killed, a system call fails or the power goes: everything that was acknowledged is there.

mod child;
mod disk;
mod faults;
mod kill;
mod power;
#[path = "../log/world.rs"]
mod world;

/// Not a test by itself: the task of a child process, which runs this program with this test's name.
#[test]
fn act_as_child() {
    child::run_child();
}
