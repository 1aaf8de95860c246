//! The files of the box: a root of its own, in memory and read-only, into which what may be seen is mounted.
//!
//! What is not mounted does not exist there. Everything that comes from the machine is read-only and without
//! set-user bits and devices; what can be written is in memory, bounded by the kernel in bytes and in number,
//! and gone with the box.

use std::ffi::CString;
use std::fs::{self, File, Permissions};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use rustix::fs::{
    CWD, FileType, Mode, OFlags, ResolveFlags, StatVfsMountFlags, fstat, mkfifoat, open, openat2, statvfs,
};
use rustix::mount::{MountFlags, MountPropagationFlags, UnmountFlags};
use rustix::mount::{mount, mount_bind, mount_bind_recursive, mount_change, mount_remount, unmount};

use crate::order::{INSIDE, Orders, Refusal, Step};

/// Where the machine's root is while the box is being built.
const OLD: &str = "/old";

/// What a program needs of the machine to run at all, if it is there.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// Of the settings only what the loader of programs and the clock's zone need.
const SETTINGS: &[&str] =
    &["/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime"];

const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

const WRITTEN: &[(&str, &str)] = &[
    ("/etc/passwd", "sage:x:1000:1000:sage:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    ("/etc/group", "sage:x:1000:\nnogroup:x:65534:\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ("/etc/hosts", "127.0.0.1 localhost sage\n"),
];

/// Flags of everything that comes from the machine.
fn read_only() -> MountFlags {
    MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV
}

/// Builds the root and moves into it. Gives the pipe of messages, to be read, and the output folder.
pub(super) fn build(orders: &Orders) -> Result<(OwnedFd, OwnedFd), Refusal> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).step("parting from the mounts")?;
    memory_folder("/tmp", "size=4m,nr_inodes=4096,mode=0755").step("mounting a root")?;
    fs::create_dir(format!("/tmp{OLD}")).step("mounting a root")?;
    rustix::process::pivot_root("/tmp", format!("/tmp{OLD}")).step("changing the root")?;
    rustix::process::chdir("/").step("changing the root")?;
    processes().step("mounting /proc")?;
    system()?;
    devices()?;
    scratch(orders).step("mounting the temporary folder")?;
    let run = run_folder(orders).step("mounting the output folder")?;
    for shown in &orders.shown {
        let step = || format!("showing {}", shown.inside.display());
        bind(&shown.folder, &shown.inside, read_only()).step(step())?;
    }
    unmount(OLD, UnmountFlags::DETACH).step("leaving the machine's files")?;
    fs::remove_dir(OLD).step("leaving the machine's files")?;
    mount_remount("/", MountFlags::BIND | read_only(), "").step("making the root read-only")?;
    Ok(run)
}

fn memory_folder(place: &str, options: &str) -> io::Result<()> {
    let options = CString::new(options)?;
    Ok(mount("tmpfs", place, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

/// Only processes, and only those of the box: no settings of the kernel, which would be there else.
fn processes() -> io::Result<()> {
    fs::create_dir("/proc")?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("proc", "/proc", "proc", flags, c"subset=pid")?)
}

fn system() -> Result<(), Refusal> {
    fs::create_dir("/etc").step("making /etc")?;
    for path in SYSTEM.iter().chain(SETTINGS) {
        let place = Path::new(path);
        let Ok(status) = fs::symlink_metadata(old(place)) else { continue };
        if status.is_symlink() {
            fs::read_link(old(place))
                .and_then(|target| symlink(target, place))
                .step(format!("copying the link {path}"))?;
        } else {
            bind(place, place, read_only()).step(format!("showing {path}"))?;
        }
    }
    for (path, text) in WRITTEN {
        fs::write(path, text).step(format!("writing {path}"))?;
    }
    Ok(())
}

fn devices() -> Result<(), Refusal> {
    fs::create_dir("/dev").step("making /dev")?;
    for path in DEVICES {
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC;
        bind(Path::new(path), Path::new(path), flags).step(format!("showing {path}"))?;
    }
    let links = [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")];
    for (name, number) in links {
        symlink(format!("/proc/self/fd{number}"), format!("/dev/{name}")).step("making /dev")?;
    }
    Ok(())
}

/// One bounded folder in memory, seen as `/tmp` and as `/dev/shm`.
fn scratch(orders: &Orders) -> io::Result<()> {
    let hidden = "/scratch";
    fs::create_dir(hidden)?;
    // A page for each file at least, so that many small files are bounded too.
    let files = (orders.limits.scratch_bytes / 4096).max(16);
    memory_folder(hidden, &format!("size={},nr_inodes={files},mode=0755", orders.limits.scratch_bytes))?;
    for (name, place) in [("tmp", "/tmp"), ("shm", "/dev/shm")] {
        let source = format!("{hidden}/{name}");
        fs::create_dir(&source)?;
        fs::set_permissions(&source, Permissions::from_mode(0o1777))?;
        fs::create_dir(place)?;
        mount_bind(&source, place)?;
    }
    unmount(hidden, UnmountFlags::DETACH)?;
    fs::remove_dir(hidden)
}

fn run_folder(orders: &Orders) -> io::Result<(OwnedFd, OwnedFd)> {
    fs::create_dir(INSIDE)?;
    let messages = format!("{INSIDE}/messages");
    mkfifoat(CWD, &messages, Mode::RUSR)?;
    fs::set_permissions(&messages, Permissions::from_mode(0o666))?;
    // Open for both, the pipe never ends and never breaks, whoever opens and closes it inside.
    let pipe = open(&messages, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let output = format!("{INSIDE}/output");
    fs::create_dir(&output)?;
    let owner = orders.become_user.map_or(String::new(), |user| format!(",uid={user},gid={user}"));
    // The folder itself is a file too.
    let files = orders.limits.output_files.saturating_add(1);
    memory_folder(&output, &format!("size={},nr_inodes={files},mode=0700{owner}", orders.limits.output_bytes))?;
    Ok((pipe, File::open(&output)?.into()))
}

fn old(path: &Path) -> PathBuf {
    Path::new(OLD).join(path.strip_prefix("/").unwrap_or(path))
}

/// Shows a file or folder of the machine, with everything that is mounted below it.
fn bind(source: &Path, place: &Path, flags: MountFlags) -> io::Result<()> {
    // Opened first, following no link: the path was real when the caller looked, and who may write there could
    // have changed it since.
    let root = open(OLD, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = source.strip_prefix("/").unwrap_or(source);
    let flags_of_path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = openat2(&root, path, flags_of_path, Mode::empty(), resolve)?;
    if FileType::from_raw_mode(fstat(&opened)?.st_mode) == FileType::Directory {
        fs::create_dir_all(place)?;
    } else if !place.exists() {
        File::create(place)?;
    }
    mount_bind_recursive(format!("/proc/self/fd/{}", opened.as_raw_fd()), place)?;
    for mounted in mounts_below(&fs::read("/proc/self/mountinfo")?, place) {
        // What the machine has forbidden there may not be allowed here, nor can it.
        let kept = statvfs(&mounted)?.f_flag;
        let mut all = MountFlags::BIND | flags;
        for (has, keeps) in [
            (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
            (StatVfsMountFlags::NODEV, MountFlags::NODEV),
            (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
            (StatVfsMountFlags::NODIRATIME, MountFlags::NODIRATIME),
            (StatVfsMountFlags::RELATIME, MountFlags::RELATIME),
        ] {
            if kept.contains(has) {
                all |= keeps;
            }
        }
        mount_remount(&mounted, all, "")?;
    }
    Ok(())
}

/// The places of the mounts at and below a path, as `/proc/self/mountinfo` lists them.
fn mounts_below(list: &[u8], place: &Path) -> Vec<PathBuf> {
    let lines = list.split(|byte| *byte == b'\n');
    let places = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(plain);
    places.filter(|mounted| mounted.starts_with(place)).collect()
}

/// A path in which space, tab, newline and backslash are written as three octal digits.
fn plain(written: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = written;
    while let [byte, after @ ..] = rest {
        let digits = after.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        match digits.and_then(|digits| u8::from_str_radix(digits, 8).ok()) {
            Some(value) if *byte == b'\\' => {
                bytes.push(value);
                rest = &after[3..];
            }
            _ => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    PathBuf::from(std::ffi::OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::mounts_below;
    use std::path::{Path, PathBuf};

    #[test]
    fn mounts_are_found_with_odd_names() {
        let list = b"1 0 8:1 / / rw - ext4 x rw\n2 1 8:1 / /usr rw - ext4 x rw\n3 2 8:1 / /usr/a\\040b rw\n4 1 8:1 / /usrs rw\n";
        let expected = [PathBuf::from("/usr"), PathBuf::from("/usr/a b")];
        assert_eq!(mounts_below(list, Path::new("/usr")), expected);
        assert_eq!(mounts_below(b"", Path::new("/usr")).len(), 0);
    }
}
