//! The numbers of the system calls that the attacks make, as a Python dictionary.

/// Names with their numbers on this architecture.
macro_rules! numbers {
    ($($name:ident = $number:ident),* $(,)?) => { &[$((stringify!($name), libc::$number)),*] };
}

const NUMBERS: &[(&str, i64)] = numbers![
    acct = SYS_acct,
    add_key = SYS_add_key,
    adjtimex = SYS_adjtimex,
    bpf = SYS_bpf,
    chroot = SYS_chroot,
    clock_settime = SYS_clock_settime,
    clone = SYS_clone,
    clone3 = SYS_clone3,
    delete_module = SYS_delete_module,
    fanotify_init = SYS_fanotify_init,
    finit_module = SYS_finit_module,
    fsopen = SYS_fsopen,
    fsmount = SYS_fsmount,
    init_module = SYS_init_module,
    io_uring_enter = SYS_io_uring_enter,
    io_uring_setup = SYS_io_uring_setup,
    kcmp = SYS_kcmp,
    keyctl = SYS_keyctl,
    memfd_create = SYS_memfd_create,
    migrate_pages = SYS_migrate_pages,
    mount = SYS_mount,
    mount_setattr = SYS_mount_setattr,
    move_mount = SYS_move_mount,
    mq_open = SYS_mq_open,
    msgget = SYS_msgget,
    name_to_handle_at = SYS_name_to_handle_at,
    open_by_handle_at = SYS_open_by_handle_at,
    open_tree = SYS_open_tree,
    perf_event_open = SYS_perf_event_open,
    personality = SYS_personality,
    pidfd_getfd = SYS_pidfd_getfd,
    pivot_root = SYS_pivot_root,
    prctl = SYS_prctl,
    process_vm_readv = SYS_process_vm_readv,
    process_vm_writev = SYS_process_vm_writev,
    ptrace = SYS_ptrace,
    quotactl = SYS_quotactl,
    reboot = SYS_reboot,
    request_key = SYS_request_key,
    seccomp = SYS_seccomp,
    semget = SYS_semget,
    setdomainname = SYS_setdomainname,
    sethostname = SYS_sethostname,
    setns = SYS_setns,
    settimeofday = SYS_settimeofday,
    setresuid = SYS_setresuid,
    shmget = SYS_shmget,
    swapoff = SYS_swapoff,
    swapon = SYS_swapon,
    syslog = SYS_syslog,
    umount2 = SYS_umount2,
    unshare = SYS_unshare,
    userfaultfd = SYS_userfaultfd,
];

/// The line of the prelude that defines them.
pub(crate) fn python() -> String {
    let entries: Vec<String> = NUMBERS.iter().map(|(name, number)| format!("'{name}': {number}")).collect();
    format!("NUMBERS = {{{}}}", entries.join(", "))
}
