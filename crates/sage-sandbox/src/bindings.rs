//! The two system calls without a safe wrapper. Nothing else in this crate is unsafe.

#![expect(unsafe_code, reason = "the two calls of this file; each says why it is sound")]

use std::io;

use rustix::thread::UnshareFlags;

/// Moves this process into new namespaces. The descriptor table is never unshared.
pub(crate) fn unshare(flags: UnshareFlags) -> io::Result<()> {
    assert!(!flags.contains(UnshareFlags::FILES), "descriptors stay shared between threads");
    // SAFETY: the call is unsafe only because of `FILES`, which would give one thread descriptors that
    // another thread does not have.
    unsafe { rustix::thread::unshare_unsafe(flags) }.map_err(io::Error::from)
}

/// Marks all descriptors except the three standard ones close-on-exec, including those that this program inherited
/// without knowing about them.
pub(crate) fn close_others_on_exec() -> io::Result<()> {
    let (first, last, flags) = (3, libc::c_uint::MAX, libc::CLOSE_RANGE_CLOEXEC);
    // SAFETY: nothing is closed here, so no owner loses its descriptor; only a flag is set. The call is made by number
    // because older C libraries have no wrapper for it.
    match unsafe { libc::syscall(libc::SYS_close_range, first, last, flags) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
