//! System calls that could break isolation. The arguments are invalid, so the calls have no effect; the tests check
//! whether the kernel evaluates them.

use super::SucceedsFor::{AnyUser, Superuser, Untested};
use super::{Attack, attack};

pub(super) const ATTACKS: &[Attack] = &[
    attack("keyctl", AnyUser, "reaches_kernel('keyctl', 0, -3, 0, 0, 0)"),
    attack("add_key", AnyUser, "reaches_kernel('add_key', 0, 0, 0, 0, 0)"),
    attack("request_key", AnyUser, "reaches_kernel('request_key', 0, 0, 0, 0)"),
    attack("io_uring_setup", AnyUser, "reaches_kernel('io_uring_setup', 1, 0)"),
    attack("io_uring_enter", AnyUser, "reaches_kernel('io_uring_enter', -1, 0, 0, 0, 0, 0)"),
    attack("userfaultfd", AnyUser, "reaches_kernel('userfaultfd', 1)"),
    attack("bpf", Superuser, "reaches_kernel('bpf', 9999, 0, 0)"),
    attack("perf_event_open", Superuser, "reaches_kernel('perf_event_open', 0, 0, -1, -1, 0)"),
    attack("mount", AnyUser, "reaches_kernel('mount', 0, 0, 0, 0, 0)"),
    attack("remounting the image writable", Superuser, "reaches_kernel('mount', 0, 0, 0, 0x1020, 0)"),
    attack("umount", Superuser, "reaches_kernel('umount2', 0, 0)"),
    attack("pivot_root", Superuser, "reaches_kernel('pivot_root', 0, 0)"),
    attack("chroot", Superuser, "os.chroot('/')\nescaped()"),
    attack("fsopen", Superuser, "reaches_kernel('fsopen', 0, 0)"),
    attack("fsmount", Superuser, "reaches_kernel('fsmount', -1, 0, 0)"),
    attack("open_tree", AnyUser, "reaches_kernel('open_tree', -1, 0, 0)"),
    attack("move_mount", Superuser, "reaches_kernel('move_mount', -1, 0, -1, 0, 0)"),
    attack("mount_setattr", Superuser, "reaches_kernel('mount_setattr', -1, 0, 0, 0, 0)"),
    attack("unshare of the user namespace", AnyUser, "reaches_kernel('unshare', 0x10000000)"),
    attack("unshare of the network namespace", Superuser, "reaches_kernel('unshare', 0x40000000)"),
    attack("unshare of the mount namespace", Superuser, "reaches_kernel('unshare', 0x00020000)"),
    attack(
        "clone with a user namespace",
        AnyUser,
        "result, error = call('clone', 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)\n\
         if result == 0: os._exit(0)\nif result > 0: escaped()\nblocked(errno.errorcode[error])",
    ),
    attack(
        "clone3 with a user namespace",
        AnyUser,
        "wanted = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)\n\
         result, error = call('clone3', ctypes.addressof(wanted), 64)\n\
         if result == 0: os._exit(0)\nif result > 0: escaped()\nblocked(errno.errorcode[error])",
    ),
    attack("setns", AnyUser, "reaches_kernel('setns', -1, 0)"),
    attack("fanotify", Superuser, "reaches_kernel('fanotify_init', 0, 0)"),
    attack("an anonymous memory file", AnyUser, "reaches_kernel('memfd_create', 0, 0)"),
    attack("System V shared memory", AnyUser, "reaches_kernel('shmget', 0, 0, 0o1000)"),
    attack("System V semaphores", AnyUser, "reaches_kernel('semget', 0, -1, 0o1000)"),
    attack("a System V message queue", AnyUser, "reaches_kernel('msgget', 99, 0)"),
    attack("a POSIX message queue", AnyUser, "reaches_kernel('mq_open', 0, 0, 0, 0)"),
    attack("sethostname", Superuser, "reaches_kernel('sethostname', 0, 5)"),
    attack("setdomainname", Superuser, "reaches_kernel('setdomainname', 0, 5)"),
    attack("setting the clock", AnyUser, "reaches_kernel('clock_settime', 0, 0)"),
    attack("setting the time of day", AnyUser, "reaches_kernel('settimeofday', 1, 0)"),
    attack("tuning the clock", AnyUser, "reaches_kernel('adjtimex', 0)"),
    attack("loading a module", Untested("not every kernel has modules"), "reaches_kernel('init_module', 0, 0, 0)"),
    attack(
        "loading a module from a file",
        Untested("not every kernel has modules"),
        "reaches_kernel('finit_module', -1, 0, 0)",
    ),
    attack("unloading a module", Untested("not every kernel has modules"), "reaches_kernel('delete_module', 0, 0)"),
    attack("reboot", Superuser, "reaches_kernel('reboot', 0, 0, 0, 0)"),
    attack("quotas", Untested("not every kernel has them"), "reaches_kernel('quotactl', 0, 0, 0, 0)"),
    attack("accounting", Untested("not every kernel has it"), "reaches_kernel('acct', 1)"),
    attack("swapon", Superuser, "reaches_kernel('swapon', 0, 0)"),
    attack("swapoff", Superuser, "reaches_kernel('swapoff', 0)"),
    attack("the kernel's log", Superuser, "reaches_kernel('syslog', 10, 0, 0)"),
    attack(
        "typing into a terminal",
        Untested("the tests may have no terminal"),
        "fcntl.ioctl(1, 0x5412, b'x')\nescaped()",
    ),
];
