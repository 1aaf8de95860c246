//! The file system of the sandbox: its own read-only root in memory, into which the visible files are mounted.
//!
//! What is not mounted does not exist there. Everything from the host is mounted read-only, without set-user bits and
//! devices. What the command can write is in memory, limited by the kernel in bytes and number of files, and discarded
//! with the sandbox.

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

use crate::protocol::{RUN_ROOT, SetupFailure, StageRequest, StepContext};

/// Where the host's root is mounted while the sandbox is being built.
const HOST_ROOT: &str = "/old";

/// The folders of the host that a program needs to run, if they exist.
const SYSTEM: &[&str] = &["/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32"];

/// The only settings: those of the dynamic loader and the time zone.
const SETTINGS: &[&str] =
    &["/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime"];

const DEVICES: &[&str] = &["/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom"];

const WRITTEN: &[(&str, &str)] = &[
    ("/etc/passwd", "sage:x:1000:1000:sage:/tmp:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n"),
    ("/etc/group", "sage:x:1000:\nnogroup:x:65534:\n"),
    ("/etc/nsswitch.conf", "passwd: files\ngroup: files\nhosts: files\n"),
    ("/etc/hosts", "127.0.0.1 localhost sage\n"),
];

/// Mount flags of everything that comes from the host.
fn read_only() -> MountFlags {
    MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NODEV
}

/// Builds the root and moves into it. Returns the message pipe, for reading, and the output folder.
pub(super) fn build(request: &StageRequest) -> Result<(OwnedFd, OwnedFd), SetupFailure> {
    mount_change("/", MountPropagationFlags::PRIVATE | MountPropagationFlags::REC).step("making the mounts private")?;
    mount_tmpfs("/tmp", "size=4m,nr_inodes=4096,mode=0755").step("mounting a root")?;
    fs::create_dir(format!("/tmp{HOST_ROOT}")).step("mounting a root")?;
    rustix::process::pivot_root("/tmp", format!("/tmp{HOST_ROOT}")).step("changing the root")?;
    rustix::process::chdir("/").step("changing the root")?;
    mount_proc().step("mounting /proc")?;
    mount_system()?;
    mount_devices()?;
    mount_scratch(request).step("mounting the temporary folder")?;
    let run = mount_run_folder(request).step("mounting the output folder")?;
    for mount in &request.mounts {
        let step = || format!("mounting {}", mount.target.display());
        bind(&mount.source, &mount.target, read_only()).step(step())?;
    }
    unmount(HOST_ROOT, UnmountFlags::DETACH).step("unmounting the host's files")?;
    fs::remove_dir(HOST_ROOT).step("unmounting the host's files")?;
    mount_remount("/", MountFlags::BIND | read_only(), "").step("making the root read-only")?;
    Ok(run)
}

fn mount_tmpfs(target: &str, options: &str) -> io::Result<()> {
    let options = CString::new(options)?;
    Ok(mount("tmpfs", target, "tmpfs", MountFlags::NOSUID | MountFlags::NODEV, options.as_c_str())?)
}

/// Mounts `/proc` with the processes of the sandbox only, without kernel settings.
fn mount_proc() -> io::Result<()> {
    fs::create_dir("/proc")?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV | MountFlags::NOEXEC;
    Ok(mount("proc", "/proc", "proc", flags, c"subset=pid")?)
}

fn mount_system() -> Result<(), SetupFailure> {
    fs::create_dir("/etc").step("making /etc")?;
    for path in SYSTEM.iter().chain(SETTINGS) {
        let target = Path::new(path);
        let Ok(status) = fs::symlink_metadata(on_host(target)) else { continue };
        if status.is_symlink() {
            fs::read_link(on_host(target))
                .and_then(|link| symlink(link, target))
                .step(format!("copying the link {path}"))?;
        } else {
            bind(target, target, read_only()).step(format!("mounting {path}"))?;
        }
    }
    for (path, text) in WRITTEN {
        fs::write(path, text).step(format!("writing {path}"))?;
    }
    Ok(())
}

fn mount_devices() -> Result<(), SetupFailure> {
    fs::create_dir("/dev").step("making /dev")?;
    for path in DEVICES {
        let flags = MountFlags::RDONLY | MountFlags::NOSUID | MountFlags::NOEXEC;
        bind(Path::new(path), Path::new(path), flags).step(format!("mounting {path}"))?;
    }
    let links = [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")];
    for (name, number) in links {
        symlink(format!("/proc/self/fd{number}"), format!("/dev/{name}")).step("making /dev")?;
    }
    Ok(())
}

/// One bounded in-memory folder, mounted as `/tmp` and as `/dev/shm`.
fn mount_scratch(request: &StageRequest) -> io::Result<()> {
    let hidden = "/scratch";
    fs::create_dir(hidden)?;
    // At least one page per file, so that the number of small files is bounded too.
    let files = (request.limits.scratch_bytes / 4096).max(16);
    mount_tmpfs(hidden, &format!("size={},nr_inodes={files},mode=0755", request.limits.scratch_bytes))?;
    for (name, target) in [("tmp", "/tmp"), ("shm", "/dev/shm")] {
        let source = format!("{hidden}/{name}");
        fs::create_dir(&source)?;
        fs::set_permissions(&source, Permissions::from_mode(0o1777))?;
        fs::create_dir(target)?;
        mount_bind(&source, target)?;
    }
    unmount(hidden, UnmountFlags::DETACH)?;
    fs::remove_dir(hidden)
}

fn mount_run_folder(request: &StageRequest) -> io::Result<(OwnedFd, OwnedFd)> {
    fs::create_dir(RUN_ROOT)?;
    let messages = format!("{RUN_ROOT}/messages");
    mkfifoat(CWD, &messages, Mode::RUSR)?;
    fs::set_permissions(&messages, Permissions::from_mode(0o666))?;
    // Opened for reading and writing, the pipe never reports an end or an error when the command opens and closes it.
    let pipe = open(&messages, OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC, Mode::empty())?;
    let output = format!("{RUN_ROOT}/output");
    fs::create_dir(&output)?;
    let owner = request.become_user.map_or(String::new(), |user| format!(",uid={user},gid={user}"));
    // The folder itself counts as a file.
    let files = request.limits.output_files.saturating_add(1);
    mount_tmpfs(&output, &format!("size={},nr_inodes={files},mode=0700{owner}", request.limits.output_bytes))?;
    Ok((pipe, File::open(&output)?.into()))
}

fn on_host(path: &Path) -> PathBuf {
    Path::new(HOST_ROOT).join(path.strip_prefix("/").unwrap_or(path))
}

/// Mounts a file or folder of the host, with everything that is mounted below it.
fn bind(source: &Path, target: &Path, flags: MountFlags) -> io::Result<()> {
    // Opened first without following links: the path had none when the caller checked it, but it could have been changed
    // since.
    let root = open(HOST_ROOT, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let path = source.strip_prefix("/").unwrap_or(source);
    let flags_of_path = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
    let opened = openat2(&root, path, flags_of_path, Mode::empty(), resolve)?;
    if FileType::from_raw_mode(fstat(&opened)?.st_mode) == FileType::Directory {
        fs::create_dir_all(target)?;
    } else if !target.exists() {
        File::create(target)?;
    }
    mount_bind_recursive(format!("/proc/self/fd/{}", opened.as_raw_fd()), target)?;
    for mounted in mounts_below(&fs::read("/proc/self/mountinfo")?, target) {
        // Restrictions of the host's mount must be kept; the kernel does not allow dropping them.
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

/// The mount points at and below a path, from `/proc/self/mountinfo`.
fn mounts_below(list: &[u8], target: &Path) -> Vec<PathBuf> {
    let lines = list.split(|byte| *byte == b'\n');
    let targets = lines.filter_map(|line| line.split(|byte| *byte == b' ').nth(4)).map(unescape);
    targets.filter(|mounted| mounted.starts_with(target)).collect()
}

/// Decodes a path in which space, tab, newline and backslash are octal escapes.
fn unescape(escaped: &[u8]) -> PathBuf {
    let mut bytes = Vec::new();
    let mut rest = escaped;
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
