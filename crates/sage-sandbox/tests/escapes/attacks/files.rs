//! Attempts to read files that are not mounted and to write files that are read-only.

use super::SucceedsFor::{AnyUser, Superuser, Untested};
use super::{Attack, attack};

pub(super) const ATTACKS: &[Attack] = &[
    attack("a file of another run by its path", AnyUser, "escaped(read('@SECRET@'))"),
    attack("the folder of another run", AnyUser, "escaped(os.listdir(os.path.dirname('@SECRET@')))"),
    attack(
        "a link in the output folder",
        AnyUser,
        "os.symlink('@SECRET@', output + '/link')\nescaped(read(output + '/link'))",
    ),
    attack(
        "a hard link in the output folder",
        AnyUser,
        "os.link('@SECRET@', output + '/hard')\nescaped(read(output + '/hard'))",
    ),
    attack("the temporary folder of the machine", AnyUser, "os.stat('@SECRET@')\nescaped()"),
    attack("a relative path out of the root", AnyUser, "os.chdir('/tmp')\nescaped(read('../' * 40 + '@SECRET@'))"),
    attack(
        "the first process's root",
        Untested("some machines close it to superusers too"),
        "escaped(read('/proc/1/root@SECRET@'))",
    ),
    attack("the caller's root", AnyUser, "escaped(read('/proc/@TEST@/root@SECRET@'))"),
    attack("a descriptor of the caller", AnyUser, "escaped(read('/proc/@TEST@/fd/@DESCRIPTOR@'))"),
    attack("the caller's working folder", AnyUser, "escaped(os.listdir('/proc/@TEST@/cwd'))"),
    attack("home folders", Superuser, "escaped(os.listdir('/root'))"),
    attack("the host's password hashes", Superuser, "escaped(read('/etc/shadow'))"),
    attack("the machine's identity", Untested("not every machine has one"), "escaped(read('/etc/machine-id'))"),
    attack(
        "anything else in the root",
        AnyUser,
        "known = {'bin', 'dev', 'etc', 'lib', 'lib32', 'lib64', 'libx32', 'proc', 'sage', 'sbin', 'tmp', 'usr'}\n\
         others = set(os.listdir('/')) - known\nif others: escaped(others)",
    ),
    attack("sysfs", AnyUser, "escaped(os.listdir('/sys'))"),
    attack("control groups", AnyUser, "escaped(os.listdir('/sys/fs/cgroup'))"),
    attack("a kernel setting", Superuser, "os.open('/proc/sys/kernel/core_pattern', os.O_WRONLY)\nescaped()"),
    attack(
        "the SysRq trigger",
        Untested("not every kernel has one"),
        "os.open('/proc/sysrq-trigger', os.O_WRONLY)\nescaped()",
    ),
    attack("the kernel's memory", Untested("not every kernel has it"), "escaped(read('/proc/kcore')[:10])"),
    attack("the kernel's symbols", AnyUser, "escaped(read('/proc/kallsyms')[:10])"),
    attack("the kernel's messages", Superuser, "os.open('/dev/kmsg', os.O_RDONLY)\nescaped()"),
    attack("the machine's memory", Untested("not every kernel has it"), "os.open('/dev/mem', os.O_RDONLY)\nescaped()"),
    attack(
        "a disk",
        Untested("not every machine has one of these names"),
        "names = ['/dev/sda', '/dev/vda', '/dev/xvda', '/dev/nvme0n1'] + glob.glob('/dev/[svx]d*')\n\
         for name in names:\n    try: os.open(name, os.O_RDONLY); escaped(name)\n    except OSError: pass",
    ),
    attack(
        "other devices",
        AnyUser,
        "known = {'fd', 'full', 'null', 'random', 'shm', 'stderr', 'stdin', 'stdout', 'urandom', 'zero'}\nothers = set(os.listdir('/dev')) - known\nif others: escaped(others)",
    ),
    attack("making a disk", Superuser, "os.mknod('made', stat.S_IFBLK | 0o600, os.makedev(8, 0))\nescaped()"),
    attack(
        "making a device in the output",
        Superuser,
        "os.mknod(output + '/made', stat.S_IFCHR | 0o600, os.makedev(1, 3))\nescaped()",
    ),
    attack("a new file among the rows", AnyUser, "open(rows + '/new', 'w')\nescaped()"),
    attack("changing a row", AnyUser, "open(rows + '/part-0.csv', 'r+').write('9')\nescaped()"),
    attack("removing a row", AnyUser, "os.unlink(rows + '/part-0.csv')\nescaped()"),
    attack("the mode of the rows", AnyUser, "os.chmod(rows, 0o777)\nescaped()"),
    attack("the mode of a row", AnyUser, "os.chmod(rows + '/part-0.csv', 0o777)\nescaped()"),
    attack("the time of a row", AnyUser, "os.utime(rows + '/part-0.csv', (1, 1))\nescaped()"),
    attack("changing the context", AnyUser, "open(os.environ['SAGE_CONTEXT'], 'a').write(' ')\nescaped()"),
    attack(
        "replacing the context",
        AnyUser,
        "other = os.path.dirname(os.environ['SAGE_CONTEXT']) + '/other'\nopen(other, 'w')\n\
         os.replace(other, os.environ['SAGE_CONTEXT'])\nescaped()",
    ),
    attack("removing the pipe of messages", AnyUser, "os.unlink(os.environ['SAGE_MESSAGES'])\nescaped()"),
    attack("changing its own code", AnyUser, "open('program.py', 'a').write('#')\nescaped()"),
    attack("a file in the image", Superuser, "os.open('/usr', os.O_TMPFILE | os.O_RDWR)\nescaped()"),
    attack("a program of the image", Superuser, "os.open('/usr/bin/env', os.O_RDWR)\nescaped()"),
    attack("a file in the root", Superuser, "os.open('/', os.O_TMPFILE | os.O_RDWR)\nescaped()"),
    attack("the list of users", Superuser, "os.open('/etc/passwd', os.O_RDWR)\nescaped()"),
    attack("a file by its handle", Superuser, "reaches_kernel('open_by_handle_at', -1, 0, 0)"),
    attack("a handle of a file", AnyUser, "reaches_kernel('name_to_handle_at', -1, 0, 0, 0, 0)"),
];
