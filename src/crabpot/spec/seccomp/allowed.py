"""Which system calls a sandbox may make: an allow-list, as data. What it does not name does not exist.

Two kinds of refusal are kept apart, because programs tell them apart. ENOSYS says "this kernel does not have it", and
a C library falls back to an older call (clone3 to clone). EPERM says "you may not": for calls that an attacker wants
and an ordinary program does not need.
"""

from __future__ import annotations

from dataclasses import replace
from types import MappingProxyType

from crabpot.spec.seccomp.syscall_rules import Action, Arm, Bits, Condition, SyscallRules

ALLOWED = {
    "files: open, read, write": """
        open openat openat2 creat close close_range read write readv writev pread64 pwrite64 preadv pwritev
        preadv2 pwritev2 lseek sendfile copy_file_range splice tee vmsplice fallocate truncate ftruncate
        fsync fdatasync sync syncfs sync_file_range readahead fadvise64 flock dup dup2 dup3
        pipe pipe2""",
    "files: names and attributes": """
        stat fstat lstat newfstatat statx statfs fstatfs access faccessat faccessat2 getcwd chdir fchdir
        getdents getdents64 mkdir mkdirat rmdir rename renameat renameat2 link linkat unlink unlinkat symlink
        symlinkat readlink readlinkat chmod fchmod fchmodat fchmodat2 chown fchown lchown fchownat umask
        utime utimes futimesat utimensat getxattr lgetxattr fgetxattr listxattr llistxattr flistxattr
        setxattr lsetxattr fsetxattr removexattr lremovexattr fremovexattr""",
    # mkfifo is mknod; device nodes need a capability that no sandbox has, on a filesystem mounted nodev.
    "files: pipes with a name": "mknod mknodat",
    # memfd_create: JITs map one twice, runtimes hand one to a child. What runs from it is under these rules.
    "memory": """
        brk mmap munmap mremap mprotect madvise mincore msync mlock mlock2 munlock mlockall munlockall
        memfd_create mseal membarrier pkey_alloc pkey_free pkey_mprotect map_shadow_stack""",
    "processes and threads": """
        fork vfork execve execveat exit exit_group wait4 waitid getpid getppid gettid getpgid getpgrp setpgid
        getsid setsid set_tid_address set_robust_list futex futex_waitv rseq restart_syscall pidfd_open
        pidfd_send_signal""",
    # Start-up code of every process. prctl stays whole: what it sets applies to the caller alone, and what would
    # matter (PR_SET_MM's exe file, PR_SET_SECUREBITS) needs a capability.
    "process settings": """
        prctl arch_prctl getrlimit setrlimit prlimit64 getrusage times uname sysinfo getcpu getrandom""",
    # Without capabilities these only move between the ids that the process already has; ssh, tar and su call
    # them, and take a refusal for a broken system.
    "identity": """
        getuid geteuid getgid getegid getresuid getresgid getgroups setuid setgid setreuid setregid setresuid
        setresgid setfsuid setfsgid setgroups capget capset""",
    "signals": """
        rt_sigaction rt_sigprocmask rt_sigpending rt_sigqueueinfo rt_tgsigqueueinfo rt_sigreturn rt_sigsuspend
        rt_sigtimedwait sigaltstack signalfd signalfd4 kill tkill tgkill pause""",
    "time": """
        time gettimeofday clock_gettime clock_getres clock_nanosleep nanosleep alarm getitimer setitimer
        timer_settime timer_gettime timer_getoverrun timer_delete timerfd_create timerfd_settime timerfd_gettime""",
    "waiting for events": """
        poll ppoll select pselect6 epoll_create epoll_create1 epoll_ctl epoll_wait epoll_pwait epoll_pwait2
        eventfd eventfd2 inotify_init inotify_init1 inotify_add_watch inotify_rm_watch""",
    # nice, ionice, taskset, chrt, and every runtime that counts its processors.
    "scheduling": """
        sched_yield sched_getaffinity sched_setaffinity sched_getparam sched_setparam sched_getscheduler
        sched_setscheduler sched_getattr sched_setattr sched_get_priority_max sched_get_priority_min
        sched_rr_get_interval getpriority setpriority ioprio_get ioprio_set""",
    "sockets, once made": """
        bind listen accept accept4 connect shutdown getsockname getpeername getsockopt
        sendto sendmsg sendmmsg recvfrom recvmsg recvmmsg""",
    # Databases and multiprocessing; the sandbox has an ipc namespace of its own.
    "System V and POSIX ipc": """
        shmget shmat shmdt shmctl semget semop semtimedop semctl msgget msgsnd msgrcv msgctl
        mq_open mq_unlink mq_timedsend mq_timedreceive mq_getsetattr""",
    # They only take rights away: of stacked filters the strictest wins, and in Landlock every layer counts.
    "sandboxes in the sandbox": "seccomp landlock_create_ruleset landlock_add_rule landlock_restrict_self",
}

REFUSED = {
    "the tree of mounts": """
        mount umount2 pivot_root chroot open_tree open_tree_attr move_mount fsopen fsconfig fsmount fspick
        mount_setattr""",
    # A user namespace hands out capabilities, and with them most of the kernel's attack surface.
    "namespaces": "unshare setns",
    # The runner shares its uid with what it runs: these reach into its memory and its descriptors.
    "other processes": "ptrace process_vm_readv process_vm_writev pidfd_getfd kcmp",
    # Work that the kernel does on a ring's behalf passes no filter.
    "io_uring": "io_uring_setup io_uring_enter io_uring_register",
    # Programs and probes in the kernel; userfaultfd and fanotify can stop it halfway, which wins races.
    "machinery of the kernel": "bpf perf_event_open userfaultfd fanotify_init fanotify_mark lookup_dcookie",
    # Keyrings are not namespaced: they would be shared with the host and between sandboxes of one uid.
    "keyrings": "add_key request_key keyctl",
    "modules and other kernels": "init_module finit_module delete_module kexec_load kexec_file_load",
    # A handle opens a file by number, whatever is mounted over it (the "shocker" escape).
    "files by handle": "name_to_handle_at open_by_handle_at",
    "the machine": """
        reboot swapon swapoff quotactl quotactl_fd acct syslog vhangup iopl ioperm sethostname setdomainname
        settimeofday clock_settime clock_adjtime adjtimex""",
}

# ENOSYS like all that is not named. They are named because Docker before 23 has no default errno: what a profile
# leaves out is EPERM there, and clone3 would break every thread (moby pull request 42604).
ABSENT = {
    # Its flags lie in memory, where no filter can look for CLONE_NEWUSER. Libraries fall back to clone.
    "clone with hidden flags": "clone3",
    # libnuma and JVMs take ENOSYS for "no NUMA here", which is what a sandbox should look like.
    "NUMA": "mbind get_mempolicy set_mempolicy set_mempolicy_home_node migrate_pages move_pages",
    # They send any signal at a later time, even SIGCONT to a process that the gateway stopped while a host command
    # runs. timeout and runtimes fall back to alarm and timerfd.
    "signals from the kernel": "timer_create mq_notify",
    "asynchronous io": "io_setup io_destroy io_getevents io_pgetevents io_submit io_cancel",
    "rarely used, often broken": """
        remap_file_pages modify_ldt process_madvise process_mrelease memfd_secret get_robust_list cachestat
        futex_wake futex_wait futex_requeue uretprobe uprobe rseq_slice_yield""",
    "about mounts, namespaces and security modules": """
        statmount listmount listns lsm_get_self_attr lsm_set_self_attr lsm_list_modules""",
    "file attributes, in their newest form": """
        setxattrat getxattrat listxattrat removexattrat file_getattr file_setattr""",
    "dead, or never alive": """
        uselib ustat sysfs _sysctl create_module get_kernel_syms query_module nfsservctl getpmsg putpmsg
        afs_syscall tuxcall security set_thread_area get_thread_area epoll_ctl_old epoll_wait_old vserver""",
}

# CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. (CLONE_NEWTIME is 0x80, which in clone()
# is a part of the exit signal; only clone3 and unshare know it.)
NEW_NAMESPACES = 0x7E02_0000

AF_UNIX, AF_INET, AF_INET6, AF_NETLINK = 1, 2, 10, 16
IPPROTO_ANY, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6 = 0, 1, 6, 17, 58
NETLINK_ROUTE = 0
F_SETSIG = 10
TCP_ULP = 31
TIOCSTI, TIOCLINUX, TIOCSETD = 0x5412, 0x541C, 0x5423
PER_LINUX, ADDR_NO_RANDOMIZE, PERSONALITY_QUERY = 0, 0x0004_0000, 0xFFFF_FFFF


def _arm(answer: Action, *when: Bits) -> Arm:
    return Arm(when=when, answer=answer)


def _inet(family: int, *protocols: int) -> tuple[Arm, ...]:
    of_family = Bits(index=0, value=family)
    known = (_arm(Action.ALLOW, of_family, Bits(index=2, value=protocol)) for protocol in protocols)
    return (*known, _arm(Action.EPROTONOSUPPORT, of_family))


CONDITIONAL = {
    "clone": Condition(
        arms=(_arm(Action.ALLOW, Bits(index=0, mask=NEW_NAMESPACES, value=0)),),
        otherwise=Action.EPERM,
    ),
    # Any signal in place of SIGIO: SIGCONT would continue a stopped process, as above.
    "fcntl": Condition(
        arms=(_arm(Action.EPERM, Bits(index=1, value=F_SETSIG)),),
        otherwise=Action.ALLOW,
    ),
    # TIOCSTI and TIOCLINUX type into the terminal, for whoever reads it next; TIOCSETD loads line disciplines, a
    # frequent source of privilege escalations (n_hdlc, n_gsm) that only modems and serial mice need.
    "ioctl": Condition(
        arms=tuple(_arm(Action.EPERM, Bits(index=1, value=cmd)) for cmd in (TIOCSTI, TIOCLINUX, TIOCSETD)),
        otherwise=Action.ALLOW,
    ),
    # Debuggers and sanitizers turn address randomisation off for themselves; other personalities make a
    # process easier to attack (READ_IMPLIES_EXEC, ADDR_COMPAT_LAYOUT) or reach old emulations.
    "personality": Condition(
        arms=tuple(
            _arm(Action.ALLOW, Bits(index=0, value=value))
            for value in (PER_LINUX, ADDR_NO_RANDOMIZE, PERSONALITY_QUERY)
        ),
        otherwise=Action.EPERM,
    ),
    # TCP_ULP is another way to load a module that socket() below refuses: tls, smc, espintcp.
    "setsockopt": Condition(
        arms=(_arm(Action.EPERM, Bits(index=1, value=IPPROTO_TCP), Bits(index=2, value=TCP_ULP)),),
        otherwise=Action.ALLOW,
    ),
    # An address family or protocol that nobody uses is a kernel module that loads on demand, with its bugs: AF_VSOCK,
    # AF_ALG, AF_PACKET, AF_RDS, SCTP, DCCP, SMC. (AF_INET with SOCK_PACKET turns into AF_PACKET, past this
    # list; that and SOCK_RAW need CAP_NET_RAW, which no sandbox has.)
    "socket": Condition(
        arms=(
            _arm(Action.ALLOW, Bits(index=0, value=AF_UNIX)),
            *_inet(AF_INET, IPPROTO_ANY, IPPROTO_ICMP, IPPROTO_TCP, IPPROTO_UDP),
            *_inet(AF_INET6, IPPROTO_ANY, IPPROTO_TCP, IPPROTO_UDP, IPPROTO_ICMPV6),
            _arm(Action.ALLOW, Bits(index=0, value=AF_NETLINK), Bits(index=2, value=NETLINK_ROUTE)),
        ),
        otherwise=Action.EAFNOSUPPORT,
    ),
    # It takes a family too: AF_TIPC makes pairs.
    "socketpair": Condition(
        arms=(_arm(Action.ALLOW, Bits(index=0, value=AF_UNIX)),),
        otherwise=Action.EAFNOSUPPORT,
    ),
}


def _names(groups: dict[str, str]) -> frozenset[str]:
    return frozenset(name for names in groups.values() for name in names.split())


RULES = SyscallRules(
    allowed=_names(ALLOWED),
    conditional=MappingProxyType(CONDITIONAL),
    refused=_names(REFUSED),
    absent=_names(ABSENT),
)


def without_internet(rules: SyscallRules) -> SyscallRules:
    """Return stricter rules, for where no wall but this one keeps the network away: no internet socket at all.

    Not on the loopback either: a socket, once made, goes wherever the network lets it.
    """
    offline = Condition(
        arms=(
            _arm(Action.ALLOW, Bits(index=0, value=AF_UNIX)),
            _arm(Action.ALLOW, Bits(index=0, value=AF_NETLINK), Bits(index=2, value=NETLINK_ROUTE)),
        ),
        otherwise=Action.EAFNOSUPPORT,
    )
    return replace(rules, conditional=MappingProxyType({**rules.conditional, "socket": offline}))
