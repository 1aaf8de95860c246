//! Attempts to inspect, stop and impersonate other processes, and to gain privileges.

use super::SucceedsFor::{AnyUser, Superuser, Untested};
use super::{Attack, attack};

pub(super) const ATTACKS: &[Attack] = &[
    attack(
        "another process's command line",
        AnyUser,
        "for path in glob.glob('/proc/[0-9]*/cmdline'):\n    try:\n        if b'@MARK@' in read(path): escaped(path)\n    except OSError: pass",
    ),
    attack(
        "another process's environment",
        AnyUser,
        "for path in glob.glob('/proc/[0-9]*/environ'):\n    try:\n        if b'SECRET=' in read(path): escaped(path)\n    except OSError: pass",
    ),
    attack("another process's memory map", AnyUser, "escaped(read('/proc/@VICTIM@/maps')[:10])"),
    attack("another process's memory", AnyUser, "os.open('/proc/@VICTIM@/mem', os.O_RDWR)\nescaped()"),
    attack(
        "the first process's memory",
        Untested("some machines close it to superusers too"),
        "os.open('/proc/1/mem', os.O_RDWR)\nescaped()",
    ),
    attack("the first process's descriptors", Superuser, "escaped(os.listdir('/proc/1/fd'))"),
    attack(
        "the first process's program",
        Untested("some machines close it to superusers too"),
        "os.open('/proc/1/exe', os.O_RDONLY)\nescaped()",
    ),
    attack(
        "the first process's environment",
        Untested("some machines close it to superusers too"),
        "escaped(read('/proc/1/environ'))",
    ),
    attack("killing another", AnyUser, "os.kill(@VICTIM@, signal.SIGKILL)\nescaped()"),
    attack("stopping the caller", Untested("it would stop the test"), "os.kill(@TEST@, signal.SIGSTOP)\nescaped()"),
    attack(
        "killing its parent",
        Untested("it would kill the test"),
        "for number in range(1, 65): os.kill(os.getppid(), number)\ntime.sleep(0.2)\nblocked('still here')",
    ),
    attack(
        "killing every process ID",
        Untested("it would end the machine"),
        "for other in range(2, 100000):\n    if other != os.getpid():\n        try: os.kill(other, signal.SIGKILL)\n        except OSError: pass",
    ),
    attack(
        "killing all processes at once",
        Untested("it would end the machine"),
        "os.kill(-1, signal.SIGKILL)\nblocked('alone')",
    ),
    attack("tracing another", Superuser, "reaches_kernel('ptrace', 16, @VICTIM@, 0, 0)"),
    attack("being traced", AnyUser, "reaches_kernel('ptrace', 0, 0, 0, 0)"),
    attack("tracing the first process", Untested("it would stop the machine"), "reaches_kernel('ptrace', 16, 1, 0, 0)"),
    attack("reading another's memory", AnyUser, "reaches_kernel('process_vm_readv', @VICTIM@, 0, 0, 0, 0, 0)"),
    attack("writing another's memory", AnyUser, "reaches_kernel('process_vm_writev', @VICTIM@, 0, 0, 0, 0, 0)"),
    attack("taking another's descriptor", AnyUser, "reaches_kernel('pidfd_getfd', -1, 0, 0)"),
    attack("comparing processes", AnyUser, "reaches_kernel('kcmp', os.getpid(), os.getpid(), 0, 0, 0)"),
    attack("moving another's pages", AnyUser, "reaches_kernel('migrate_pages', os.getpid(), 0, 0, 0)"),
    attack("becoming the superuser", Superuser, "reaches_kernel('setresuid', 0, 0, 0)"),
    attack("a higher priority", Superuser, "os.setpriority(os.PRIO_PROCESS, 0, -20)\nescaped()"),
    attack("real-time scheduling", Superuser, "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))\nescaped()"),
    attack(
        "more processes than allowed",
        Untested("its limits apply without isolation too"),
        "most = resource.getrlimit(resource.RLIMIT_NPROC)[1]\n\
         resource.setrlimit(resource.RLIMIT_NPROC, (most + 1, most + 1))\nescaped()",
    ),
    attack(
        "more memory than allowed",
        Untested("its limits apply without isolation too"),
        "resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\nescaped()",
    ),
    attack("disabling address randomisation", AnyUser, "reaches_kernel('personality', 0x0040000)"),
    attack(
        "another layout of its memory",
        Untested("not every superuser may"),
        "reaches_kernel('prctl', 35, 9999, 0, 0, 0)",
    ),
    attack("keeping capabilities", AnyUser, "reaches_kernel('prctl', 8, 1, 0, 0, 0)"),
    attack("secure bits", Superuser, "reaches_kernel('prctl', 28, 0, 0, 0, 0)"),
    attack("raising an ambient capability", AnyUser, "reaches_kernel('prctl', 47, 99, 99, 0, 0)"),
    attack("its own seccomp filter", AnyUser, "reaches_kernel('seccomp', 9999, 0, 0)"),
    attack(
        "its own uid_map",
        Untested("the map is already written there too"),
        "os.write(os.open('/proc/self/uid_map', os.O_WRONLY), b'0 0 1')\nescaped()",
    ),
    attack(
        "protection from the OOM killer",
        Untested("not every superuser may"),
        "os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-500')\nescaped()",
    ),
    attack(
        "any capability at all",
        Superuser,
        "sets = [line for line in read('/proc/self/status').decode().split('\\n') if line.startswith('Cap')]\n\
         if any(int(line.split()[1], 16) for line in sets): escaped(sets)",
    ),
    attack("new privileges", AnyUser, "if b'NoNewPrivs:\\t0' in read('/proc/self/status'): escaped()"),
];
