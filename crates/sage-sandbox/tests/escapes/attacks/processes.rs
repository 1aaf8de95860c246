//! Attempts to see, stop and become others.

use super::Without::{Anyone, Superuser, Untried};
use super::{Attack, attack};

pub(super) const ATTACKS: &[Attack] = &[
    attack(
        "another's command line",
        Anyone,
        "for path in glob.glob('/proc/[0-9]*/cmdline'):\n    try:\n        if b'@MARK@' in read(path): escaped(path)\n    except OSError: pass",
    ),
    attack(
        "another's environment",
        Anyone,
        "for path in glob.glob('/proc/[0-9]*/environ'):\n    try:\n        if b'SECRET=' in read(path): escaped(path)\n    except OSError: pass",
    ),
    attack("another's memory map", Anyone, "escaped(read('/proc/@VICTIM@/maps')[:10])"),
    attack("another's memory", Anyone, "os.open('/proc/@VICTIM@/mem', os.O_RDWR)\nescaped()"),
    attack(
        "the first process's memory",
        Untried("some machines close it to superusers too"),
        "os.open('/proc/1/mem', os.O_RDWR)\nescaped()",
    ),
    attack("the first process's descriptors", Superuser, "escaped(os.listdir('/proc/1/fd'))"),
    attack(
        "the first process's program",
        Untried("some machines close it to superusers too"),
        "os.open('/proc/1/exe', os.O_RDONLY)\nescaped()",
    ),
    attack(
        "the first process's environment",
        Untried("some machines close it to superusers too"),
        "escaped(read('/proc/1/environ'))",
    ),
    attack("killing another", Anyone, "os.kill(@VICTIM@, signal.SIGKILL)\nescaped()"),
    attack("stopping the caller", Untried("it would stop the test"), "os.kill(@TEST@, signal.SIGSTOP)\nescaped()"),
    attack(
        "killing whoever started it",
        Untried("it would kill the test"),
        "for number in range(1, 65): os.kill(os.getppid(), number)\ntime.sleep(0.2)\nheld('still here')",
    ),
    attack(
        "killing every number",
        Untried("it would end the machine"),
        "for other in range(2, 100000):\n    if other != os.getpid():\n        try: os.kill(other, signal.SIGKILL)\n        except OSError: pass",
    ),
    attack(
        "killing everybody at once",
        Untried("it would end the machine"),
        "os.kill(-1, signal.SIGKILL)\nheld('alone')",
    ),
    attack("tracing another", Superuser, "taken('ptrace', 16, @VICTIM@, 0, 0)"),
    attack("being traced", Anyone, "taken('ptrace', 0, 0, 0, 0)"),
    attack("tracing the first process", Untried("it would stop the machine"), "taken('ptrace', 16, 1, 0, 0)"),
    attack("reading another's memory", Anyone, "taken('process_vm_readv', @VICTIM@, 0, 0, 0, 0, 0)"),
    attack("writing another's memory", Anyone, "taken('process_vm_writev', @VICTIM@, 0, 0, 0, 0, 0)"),
    attack("taking another's descriptor", Anyone, "taken('pidfd_getfd', -1, 0, 0)"),
    attack("comparing processes", Anyone, "taken('kcmp', os.getpid(), os.getpid(), 0, 0, 0)"),
    attack("moving another's pages", Anyone, "taken('migrate_pages', os.getpid(), 0, 0, 0)"),
    attack("becoming the superuser", Superuser, "taken('setresuid', 0, 0, 0)"),
    attack("the superuser's place in the queue", Superuser, "os.setpriority(os.PRIO_PROCESS, 0, -20)\nescaped()"),
    attack(
        "running before all others",
        Superuser,
        "os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(50))\nescaped()",
    ),
    attack(
        "more processes than allowed",
        Untried("its limits are there without walls too"),
        "most = resource.getrlimit(resource.RLIMIT_NPROC)[1]\n\
         resource.setrlimit(resource.RLIMIT_NPROC, (most + 1, most + 1))\nescaped()",
    ),
    attack(
        "more memory than allowed",
        Untried("its limits are there without walls too"),
        "resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))\nescaped()",
    ),
    attack("addresses without chance", Anyone, "taken('personality', 0x0040000)"),
    attack("another layout of its memory", Untried("not every superuser may"), "taken('prctl', 35, 9999, 0, 0, 0)"),
    attack("keeping capabilities", Anyone, "taken('prctl', 8, 1, 0, 0, 0)"),
    attack("bits of the superuser", Superuser, "taken('prctl', 28, 0, 0, 0, 0)"),
    attack("raising an ambient capability", Anyone, "taken('prctl', 47, 99, 99, 0, 0)"),
    attack("a filter of its own", Anyone, "taken('seccomp', 9999, 0, 0)"),
    attack(
        "a map of users of its own",
        Untried("it was written before there, too"),
        "os.write(os.open('/proc/self/uid_map', os.O_WRONLY), b'0 0 1')\nescaped()",
    ),
    attack(
        "being spared when memory runs out",
        Untried("not every superuser may"),
        "os.write(os.open('/proc/self/oom_score_adj', os.O_WRONLY), b'-500')\nescaped()",
    ),
    attack(
        "any capability at all",
        Superuser,
        "sets = [line for line in read('/proc/self/status').decode().split('\\n') if line.startswith('Cap')]\n\
         if any(int(line.split()[1], 16) for line in sets): escaped(sets)",
    ),
    attack("new privileges", Anyone, "if b'NoNewPrivs:\\t0' in read('/proc/self/status'): escaped()"),
];
