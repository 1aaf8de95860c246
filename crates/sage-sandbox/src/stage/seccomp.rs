//! The seccomp allowlist of system calls. All other calls fail with ENOSYS, as on an older kernel: mounts, namespaces,
//! tracing, keys, io_uring, bpf, modules, clocks, and calls of newer kernels.
//!
//! The list is chosen so that Python, its libraries, shells and compiled programs run.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition, SeccompFilter, SeccompRule, TargetArch,
};

use crate::protocol::{SetupFailure, StepContext};

/// Files and folders.
const FILES: &[i64] = &[
    libc::SYS_read,
    libc::SYS_write,
    libc::SYS_readv,
    libc::SYS_writev,
    libc::SYS_pread64,
    libc::SYS_pwrite64,
    libc::SYS_preadv,
    libc::SYS_pwritev,
    libc::SYS_preadv2,
    libc::SYS_pwritev2,
    libc::SYS_close,
    libc::SYS_close_range,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_lseek,
    libc::SYS_fstat,
    libc::SYS_newfstatat,
    libc::SYS_statx,
    libc::SYS_truncate,
    libc::SYS_ftruncate,
    libc::SYS_fallocate,
    libc::SYS_fadvise64,
    libc::SYS_readahead,
    libc::SYS_fsync,
    libc::SYS_fdatasync,
    libc::SYS_sync_file_range,
    libc::SYS_flock,
    libc::SYS_fcntl,
    libc::SYS_dup,
    libc::SYS_dup3,
    libc::SYS_pipe2,
    libc::SYS_getdents64,
    libc::SYS_getcwd,
    libc::SYS_chdir,
    libc::SYS_fchdir,
    libc::SYS_mkdirat,
    libc::SYS_unlinkat,
    libc::SYS_renameat2,
    libc::SYS_linkat,
    libc::SYS_symlinkat,
    libc::SYS_readlinkat,
    libc::SYS_fchmod,
    libc::SYS_fchmodat,
    libc::SYS_fchmodat2,
    libc::SYS_fchown,
    libc::SYS_fchownat,
    libc::SYS_faccessat,
    libc::SYS_faccessat2,
    libc::SYS_utimensat,
    libc::SYS_umask,
    libc::SYS_statfs,
    libc::SYS_fstatfs,
    libc::SYS_copy_file_range,
    libc::SYS_sendfile,
    libc::SYS_splice,
    libc::SYS_tee,
    libc::SYS_getxattr,
    libc::SYS_lgetxattr,
    libc::SYS_fgetxattr,
    libc::SYS_listxattr,
    libc::SYS_llistxattr,
    libc::SYS_flistxattr,
    libc::SYS_inotify_init1,
    libc::SYS_inotify_add_watch,
    libc::SYS_inotify_rm_watch,
];

/// Events, and operations on existing sockets.
const EVENTS: &[i64] = &[
    libc::SYS_ppoll,
    libc::SYS_pselect6,
    libc::SYS_epoll_create1,
    libc::SYS_epoll_ctl,
    libc::SYS_epoll_pwait,
    libc::SYS_epoll_pwait2,
    libc::SYS_eventfd2,
    libc::SYS_signalfd4,
    libc::SYS_timerfd_create,
    libc::SYS_timerfd_settime,
    libc::SYS_timerfd_gettime,
    libc::SYS_bind,
    libc::SYS_connect,
    libc::SYS_listen,
    libc::SYS_accept,
    libc::SYS_accept4,
    libc::SYS_getsockname,
    libc::SYS_getpeername,
    libc::SYS_sendto,
    libc::SYS_recvfrom,
    libc::SYS_sendmsg,
    libc::SYS_recvmsg,
    libc::SYS_sendmmsg,
    libc::SYS_recvmmsg,
    libc::SYS_shutdown,
    libc::SYS_setsockopt,
    libc::SYS_getsockopt,
];

/// Memory. Without `memfd_create` and System V shared memory, whose pages belong to no process and would not be counted.
const MEMORY: &[i64] = &[
    libc::SYS_mmap,
    libc::SYS_munmap,
    libc::SYS_mprotect,
    libc::SYS_mremap,
    libc::SYS_brk,
    libc::SYS_madvise,
    libc::SYS_mlock,
    libc::SYS_mlock2,
    libc::SYS_munlock,
    libc::SYS_mlockall,
    libc::SYS_munlockall,
    libc::SYS_msync,
    libc::SYS_mincore,
    libc::SYS_membarrier,
    libc::SYS_pkey_alloc,
    libc::SYS_pkey_free,
    libc::SYS_pkey_mprotect,
];

/// Processes, threads and signals, all of which stay in the sandbox.
const PROCESSES: &[i64] = &[
    libc::SYS_rt_sigaction,
    libc::SYS_rt_sigprocmask,
    libc::SYS_rt_sigreturn,
    libc::SYS_rt_sigpending,
    libc::SYS_rt_sigsuspend,
    libc::SYS_rt_sigtimedwait,
    libc::SYS_rt_sigqueueinfo,
    libc::SYS_rt_tgsigqueueinfo,
    libc::SYS_sigaltstack,
    libc::SYS_kill,
    libc::SYS_tkill,
    libc::SYS_tgkill,
    libc::SYS_restart_syscall,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_wait4,
    libc::SYS_waitid,
    libc::SYS_exit,
    libc::SYS_exit_group,
    libc::SYS_set_tid_address,
    libc::SYS_set_robust_list,
    libc::SYS_get_robust_list,
    libc::SYS_futex,
    libc::SYS_futex_waitv,
    libc::SYS_rseq,
    libc::SYS_gettid,
    libc::SYS_getpid,
    libc::SYS_getppid,
    libc::SYS_getpgid,
    libc::SYS_setpgid,
    libc::SYS_getsid,
    libc::SYS_setsid,
    libc::SYS_getuid,
    libc::SYS_geteuid,
    libc::SYS_getgid,
    libc::SYS_getegid,
    libc::SYS_getresuid,
    libc::SYS_getresgid,
    libc::SYS_getgroups,
    libc::SYS_capget,
    libc::SYS_prlimit64,
    libc::SYS_getrusage,
    libc::SYS_times,
    libc::SYS_getpriority,
    libc::SYS_setpriority,
    libc::SYS_sched_yield,
    libc::SYS_sched_getaffinity,
    libc::SYS_sched_setaffinity,
    libc::SYS_sched_getparam,
    libc::SYS_sched_getscheduler,
    libc::SYS_sched_setscheduler,
    libc::SYS_sched_get_priority_max,
    libc::SYS_sched_get_priority_min,
    libc::SYS_sched_getattr,
    libc::SYS_sched_rr_get_interval,
    libc::SYS_getcpu,
    libc::SYS_pidfd_open,
    libc::SYS_pidfd_send_signal,
];

/// Reading the time, waiting, and the rest.
const REST: &[i64] = &[
    libc::SYS_clock_gettime,
    libc::SYS_clock_getres,
    libc::SYS_clock_nanosleep,
    libc::SYS_gettimeofday,
    libc::SYS_nanosleep,
    libc::SYS_getitimer,
    libc::SYS_setitimer,
    libc::SYS_timer_create,
    libc::SYS_timer_settime,
    libc::SYS_timer_gettime,
    libc::SYS_timer_getoverrun,
    libc::SYS_timer_delete,
    libc::SYS_uname,
    libc::SYS_sysinfo,
    libc::SYS_getrandom,
    libc::SYS_landlock_create_ruleset,
    libc::SYS_landlock_add_rule,
    libc::SYS_landlock_restrict_self,
];

/// Older variants of calls that exist only on this architecture.
#[cfg(target_arch = "x86_64")]
const OLDER: &[i64] = &[
    libc::SYS_open,
    libc::SYS_stat,
    libc::SYS_lstat,
    libc::SYS_access,
    libc::SYS_pipe,
    libc::SYS_select,
    libc::SYS_poll,
    libc::SYS_dup2,
    libc::SYS_fork,
    libc::SYS_vfork,
    libc::SYS_getdents,
    libc::SYS_mkdir,
    libc::SYS_rmdir,
    libc::SYS_creat,
    libc::SYS_link,
    libc::SYS_unlink,
    libc::SYS_symlink,
    libc::SYS_readlink,
    libc::SYS_chmod,
    libc::SYS_chown,
    libc::SYS_lchown,
    libc::SYS_rename,
    libc::SYS_renameat,
    libc::SYS_utime,
    libc::SYS_utimes,
    libc::SYS_futimesat,
    libc::SYS_alarm,
    libc::SYS_pause,
    libc::SYS_time,
    libc::SYS_getpgrp,
    libc::SYS_epoll_create,
    libc::SYS_epoll_wait,
    libc::SYS_inotify_init,
    libc::SYS_eventfd,
    libc::SYS_signalfd,
    libc::SYS_getrlimit,
    libc::SYS_setrlimit,
    libc::SYS_arch_prctl,
];
#[cfg(not(target_arch = "x86_64"))]
const OLDER: &[i64] = &[];

/// Every flag of `clone` that makes a namespace.
const NAMESPACES: i32 = libc::CLONE_NEWNS
    | libc::CLONE_NEWCGROUP
    | libc::CLONE_NEWUTS
    | libc::CLONE_NEWIPC
    | libc::CLONE_NEWUSER
    | libc::CLONE_NEWPID
    | libc::CLONE_NEWNET;

/// The `prctl` options that programs need, such as names, parent-death signals and timer slack.
const PROCESS_SETTINGS: &[i32] = &[
    libc::PR_SET_NAME,
    libc::PR_GET_NAME,
    libc::PR_SET_PDEATHSIG,
    libc::PR_GET_PDEATHSIG,
    libc::PR_SET_DUMPABLE,
    libc::PR_GET_DUMPABLE,
    libc::PR_GET_SECCOMP,
    libc::PR_CAPBSET_READ,
    libc::PR_GET_SECUREBITS,
    libc::PR_SET_TIMERSLACK,
    libc::PR_GET_TIMERSLACK,
    libc::PR_SET_CHILD_SUBREAPER,
    libc::PR_GET_CHILD_SUBREAPER,
    libc::PR_SET_NO_NEW_PRIVS,
    libc::PR_GET_NO_NEW_PRIVS,
    libc::PR_SET_THP_DISABLE,
    libc::PR_GET_THP_DISABLE,
    libc::PR_SET_VMA,
];

/// The `personality` value that only queries, and the default one.
const PERSONALITIES: &[i32] = &[-1, 0];

/// Restricts this process and all its descendants to the allowlist.
pub(super) fn apply_allowlist() -> Result<(), SetupFailure> {
    let filter = filter().step("compiling the seccomp filter")?;
    seccompiler::apply_filter(&filter).step("applying the seccomp filter")
}

fn filter() -> Result<BpfProgram, seccompiler::BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    // ENOSYS makes libraries fall back to the older call, whose flags a filter can inspect.
    let missing = SeccompAction::Errno(libc::ENOSYS.cast_unsigned());
    SeccompFilter::new(rules()?, missing, SeccompAction::Allow, arch)?.try_into()
}

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

fn rules() -> Result<Rules, seccompiler::BackendError> {
    let whole = [FILES, EVENTS, MEMORY, PROCESSES, REST, OLDER];
    let mut rules: Rules = whole.into_iter().flatten().map(|call| (*call, Vec::new())).collect();
    let namespaces = u64::from(NAMESPACES.cast_unsigned());
    rules.insert(libc::SYS_clone, vec![one(0, SeccompCmpOp::MaskedEq(namespaces), 0)?]);
    for call in [libc::SYS_socket, libc::SYS_socketpair] {
        rules.insert(call, vec![one(0, SeccompCmpOp::Eq, libc::AF_UNIX)?]);
    }
    // No injected terminal input and no drawing on the console.
    let requests = [libc::TIOCSTI, libc::TIOCLINUX].map(|request| condition(1, SeccompCmpOp::Ne, low(request)));
    let requests = requests.into_iter().collect::<Result<Vec<_>, _>>()?;
    rules.insert(libc::SYS_ioctl, vec![SeccompRule::new(requests)?]);
    rules.insert(libc::SYS_prctl, any(PROCESS_SETTINGS)?);
    rules.insert(libc::SYS_personality, any(PERSONALITIES)?);
    // Pipes and regular files, but no devices.
    let kind = SeccompCmpOp::MaskedEq(u64::from(libc::S_IFMT));
    let kinds = [libc::S_IFIFO.cast_signed(), libc::S_IFREG.cast_signed()];
    let made = |index| kinds.iter().map(|made| one(index, kind.clone(), *made)).collect::<Result<Vec<_>, _>>();
    rules.insert(libc::SYS_mknodat, made(2)?);
    #[cfg(target_arch = "x86_64")]
    rules.insert(libc::SYS_mknod, made(1)?);
    Ok(rules)
}

fn low(request: libc::Ioctl) -> u64 {
    u64::from(request as u32)
}

fn any(values: &[i32]) -> Result<Vec<SeccompRule>, seccompiler::BackendError> {
    values.iter().map(|value| one(0, SeccompCmpOp::Eq, *value)).collect()
}

fn one(index: u8, operator: SeccompCmpOp, value: i32) -> Result<SeccompRule, seccompiler::BackendError> {
    SeccompRule::new(vec![condition(index, operator, u64::from(value.cast_unsigned()))?])
}

fn condition(index: u8, operator: SeccompCmpOp, value: u64) -> Result<SeccompCondition, seccompiler::BackendError> {
    SeccompCondition::new(index, SeccompCmpArgLen::Dword, operator, value)
}

#[cfg(test)]
mod tests {
    use super::{filter, rules};

    #[test]
    fn the_filter_compiles_and_excludes_calls_that_break_isolation() {
        assert!(filter().expect("a filter").len() > 100);
        let rules = rules().expect("rules");
        for call in [
            libc::SYS_mount,
            libc::SYS_umount2,
            libc::SYS_pivot_root,
            libc::SYS_chroot,
            libc::SYS_unshare,
            libc::SYS_setns,
            libc::SYS_clone3,
            libc::SYS_ptrace,
            libc::SYS_process_vm_readv,
            libc::SYS_bpf,
            libc::SYS_keyctl,
            libc::SYS_io_uring_setup,
            libc::SYS_userfaultfd,
            libc::SYS_open_by_handle_at,
            libc::SYS_pidfd_getfd,
            libc::SYS_kexec_load,
            libc::SYS_init_module,
            libc::SYS_memfd_create,
            libc::SYS_fsopen,
            libc::SYS_move_mount,
            libc::SYS_perf_event_open,
            libc::SYS_seccomp,
        ] {
            assert!(!rules.contains_key(&call), "{call}");
        }
    }
}
