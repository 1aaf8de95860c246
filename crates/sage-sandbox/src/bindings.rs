//! The two calls for which no safe interface exists. Nothing else in this crate is unsafe.

#![expect(unsafe_code, reason = "the two calls of this file; each says why it is sound")]

use std::io;

use rustix::thread::UnshareFlags;

/// Moves this process into new namespaces. The table of descriptors is never among them.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    assert!(!flags.contains(UnshareFlags::FILES), "descriptors stay shared between threads");
    // SAFETY: the call is unsafe only because of `FILES`, which would give one thread descriptors that
    // another does not have.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// Marks every descriptor but the three standard ones to be closed at the next exec, those included that
/// were open when this program was started and that no variable of it knows.
pub(crate) fn close_others_on_exec() -> io::Result<()> {
    let (first, last, flags) = (3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: nothing is closed here, so no owner of a descriptor loses it; a flag is set on each. By its number,
    // because older C libraries have no function for it.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
