//! The program started again, as one of the processes that close the box.
//!
//! Three of them follow each other, each started from the last by exec, so that no code runs between fork and exec
//! in a process with threads: `outer` leaves the namespaces of the machine, `first` is the first process of
//! the new ones, makes the files and watches, and `door` gives up what is left of its rights and becomes the
//! command. Each reads its orders as one packet from descriptor 0, which the command never gets. If the
//! caller dies, that channel ends, and the first process with it, and the kernel kills all others of the box.

mod calls;
mod door;
mod files;
mod first;
mod memory;
mod outer;
mod rights;

use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::process::{Child, Command, Stdio};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::Signal;

use crate::channel;
use crate::order::{Answer, MARKER, Orders, Refusal, Step};

/// A stage that cannot go on ends with this code. Nobody reads it: the reason went through the channel.
const REFUSED: i32 = 70;

/// Turns the program into a stage of the box if it was started as one, and then never returns.
///
/// To be called first in `main`, before anything starts a thread or opens a file.
pub fn enter_if_asked() {
    let mut arguments = std::env::args_os().skip(1);
    if arguments.next().is_none_or(|argument| argument != MARKER) {
        return;
    }
    let name = arguments.next().unwrap_or_default();
    let Ok(control) = std::io::stdin().as_fd().try_clone_to_owned() else {
        std::process::exit(REFUSED);
    };
    let done = match name.to_str() {
        Some("outer") => orders(&control).and_then(|orders| outer::outer(&orders, &control)),
        Some("first") => orders(&control).and_then(|orders| first::first(&orders, &control)),
        Some("door") => orders(&control).and_then(|orders| door::door(&orders, &control)),
        Some("bare") => orders(&control).and_then(|orders| door::bare(&orders, &control)),
        _ => std::process::exit(REFUSED),
    };
    match done {
        Ok(()) => std::process::exit(0),
        Err(Refusal { step, reason }) => {
            // If nobody listens any more, nobody wants to know.
            drop(channel::send(&control, &Answer::Refused { step, reason }, &[]));
            std::process::exit(REFUSED)
        }
    }
}

fn orders(control: &OwnedFd) -> Result<Orders, Refusal> {
    let received = channel::receive::<Orders>(control).step("reading the orders")?;
    received.map(|(orders, _)| orders).ok_or("the caller has gone").step("reading the orders")
}

/// Starts this very program as the next stage, which reads the next packet of the same channel.
fn start(stage: &str) -> Result<Child, Refusal> {
    let mut command = Command::new("/proc/self/exe");
    command.arg(MARKER).arg(stage).env_clear().stdin(Stdio::inherit());
    command.spawn().step(format!("starting the stage `{stage}`"))
}

/// From here on the death of the process that started this one is its own.
fn die_with_parent(control: BorrowedFd<'_>) -> Result<(), Refusal> {
    rustix::process::set_parent_process_death_signal(Some(Signal::KILL)).step("asking to die with the caller")?;
    // It may have died just before; then the channel has ended too.
    match caller_gone(control) {
        true => Err("it has gone already").step("asking to die with the caller"),
        false => Ok(()),
    }
}

/// Whether the caller has closed its end.
fn caller_gone(control: BorrowedFd<'_>) -> bool {
    let mut watched = [PollFd::from_borrowed_fd(control, PollFlags::RDHUP)];
    let at_once = Timespec { tv_sec: 0, tv_nsec: 0 };
    let result = poll(&mut watched, Some(&at_once));
    result.is_err() || watched[0].revents().intersects(PollFlags::RDHUP | PollFlags::HUP | PollFlags::ERR)
}
