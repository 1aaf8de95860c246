//! Attempts to make system calls that open boxes. The arguments are such that nothing comes of them; the question
//! is whether the kernel looks at them.

use super::Without::{Anyone, Superuser, Untried};
use super::{Attack, attack};

pub(super) const ATTACKS: &[Attack] = &[
    attack("keyctl", Anyone, "taken('keyctl', 0, -3, 0, 0, 0)"),
    attack("add_key", Anyone, "taken('add_key', 0, 0, 0, 0, 0)"),
    attack("request_key", Anyone, "taken('request_key', 0, 0, 0, 0)"),
    attack("io_uring_setup", Anyone, "taken('io_uring_setup', 1, 0)"),
    attack("io_uring_enter", Anyone, "taken('io_uring_enter', -1, 0, 0, 0, 0, 0)"),
    attack("userfaultfd", Anyone, "taken('userfaultfd', 1)"),
    attack("bpf", Superuser, "taken('bpf', 9999, 0, 0)"),
    attack("perf_event_open", Superuser, "taken('perf_event_open', 0, 0, -1, -1, 0)"),
    attack("mount", Anyone, "taken('mount', 0, 0, 0, 0, 0)"),
    attack("mount of the image again, to write", Superuser, "taken('mount', 0, 0, 0, 0x1020, 0)"),
    attack("umount", Superuser, "taken('umount2', 0, 0)"),
    attack("pivot_root", Superuser, "taken('pivot_root', 0, 0)"),
    attack("chroot", Superuser, "os.chroot('/')\nescaped()"),
    attack("fsopen", Superuser, "taken('fsopen', 0, 0)"),
    attack("fsmount", Superuser, "taken('fsmount', -1, 0, 0)"),
    attack("open_tree", Anyone, "taken('open_tree', -1, 0, 0)"),
    attack("move_mount", Superuser, "taken('move_mount', -1, 0, -1, 0, 0)"),
    attack("mount_setattr", Superuser, "taken('mount_setattr', -1, 0, 0, 0, 0)"),
    attack("unshare of users", Anyone, "taken('unshare', 0x10000000)"),
    attack("unshare of the network", Superuser, "taken('unshare', 0x40000000)"),
    attack("unshare of mounts", Superuser, "taken('unshare', 0x00020000)"),
    attack(
        "clone with a user namespace",
        Anyone,
        "result, error = call('clone', 0x10000000 | signal.SIGCHLD, 0, 0, 0, 0)\n\
         if result == 0: os._exit(0)\nif result > 0: escaped()\nheld(errno.errorcode[error])",
    ),
    attack(
        "clone3 with a user namespace",
        Anyone,
        "wanted = (ctypes.c_uint64 * 8)(0x10000000, 0, 0, 0, signal.SIGCHLD, 0, 0, 0)\n\
         result, error = call('clone3', ctypes.addressof(wanted), 64)\n\
         if result == 0: os._exit(0)\nif result > 0: escaped()\nheld(errno.errorcode[error])",
    ),
    attack("setns", Anyone, "taken('setns', -1, 0)"),
    attack("fanotify", Superuser, "taken('fanotify_init', 0, 0)"),
    attack("memory of a file without a name", Anyone, "taken('memfd_create', 0, 0)"),
    attack("shared memory of System V", Anyone, "taken('shmget', 0, 0, 0o1000)"),
    attack("semaphores of System V", Anyone, "taken('semget', 0, -1, 0o1000)"),
    attack("a queue of System V", Anyone, "taken('msgget', 99, 0)"),
    attack("a queue of POSIX", Anyone, "taken('mq_open', 0, 0, 0, 0)"),
    attack("sethostname", Superuser, "taken('sethostname', 0, 5)"),
    attack("setdomainname", Superuser, "taken('setdomainname', 0, 5)"),
    attack("setting the clock", Anyone, "taken('clock_settime', 0, 0)"),
    attack("setting the time of day", Anyone, "taken('settimeofday', 1, 0)"),
    attack("tuning the clock", Anyone, "taken('adjtimex', 0)"),
    attack("loading a module", Untried("not every kernel has modules"), "taken('init_module', 0, 0, 0)"),
    attack("loading a module from a file", Untried("not every kernel has modules"), "taken('finit_module', -1, 0, 0)"),
    attack("unloading a module", Untried("not every kernel has modules"), "taken('delete_module', 0, 0)"),
    attack("reboot", Superuser, "taken('reboot', 0, 0, 0, 0)"),
    attack("quotas", Untried("not every kernel has them"), "taken('quotactl', 0, 0, 0, 0)"),
    attack("accounting", Untried("not every kernel has it"), "taken('acct', 1)"),
    attack("swapon", Superuser, "taken('swapon', 0, 0)"),
    attack("swapoff", Superuser, "taken('swapoff', 0)"),
    attack("the kernel's log", Superuser, "taken('syslog', 10, 0, 0)"),
    attack(
        "typing into a terminal",
        Untried("the tests may have no terminal"),
        "fcntl.ioctl(1, 0x5412, b'x')\nescaped()",
    ),
];
