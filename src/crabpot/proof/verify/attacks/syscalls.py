"""Attacks by system calls that no ordinary program needs. Arguments are chosen so that only the filter can refuse."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.proof.verify.claims import Group, Outcome

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

claim = Group("system calls")


@claim.about("seccomp", threats=("kernel-surface",))
async def cannot_mount_anything(target: Target) -> Outcome:
    """The old calls and the new ones: mounts are the walls of the sandbox."""
    return await target.attack("""
# No address, and no place: a kernel that looked would say so, and nothing is mounted if it does more than look.
nowhere, place = 8, b"/nowhere/at/all"
attempt("mount", filtered, "mount", nowhere, nowhere, nowhere, 0, 0)
attempt("mount a cgroup tree", filtered, "mount", b"cgroup", place, b"cgroup", 0, b"memory")
attempt("mount /proc anew", filtered, "mount", b"proc", place, b"proc", 0, 0)
attempt("remount writable", filtered, "mount", 0, place, 0, 32 | 4096, 0)
attempt("bind /", filtered, "mount", b"/", place, 0, 4096, 0)
attempt("umount2", filtered, "umount2", nowhere, 2)
attempt("fsopen", filtered, "fsopen", nowhere, 0)
attempt("fsmount", filtered, "fsmount", -1, 0, 0)
attempt("fspick", filtered, "fspick", -1, nowhere, 0)
attempt("fsconfig", filtered, "fsconfig", -1, 0, 0, 0, 0)
attempt("open_tree", filtered, "open_tree", -100, b"/", 1)
attempt("move_mount", filtered, "move_mount", -1, nowhere, -1, nowhere, 0)
attempt("mount_setattr", filtered, "mount_setattr", -1, nowhere, 0, 0, 0)
""")


@claim.about("seccomp", threats=("kernel-surface",))
async def cannot_change_its_root(target: Target) -> Outcome:
    """A root of one's own is the way back out of chroot; a pivot shows what lies below."""
    return await target.attack("""
attempt("chroot", filtered, "chroot", 8)
attempt("chroot to the workspace", filtered, "chroot", b"/workspace")
attempt("pivot_root", filtered, "pivot_root", 8, 8)
attempt("pivot_root to nowhere", filtered, "pivot_root", b"/nowhere", b"/nowhere")
for place in ("/oldroot", "/newroot", "/.pivot_root", "/put_old"):
    attempt("list " + place, os.listdir, place)
os.chdir("/")
for _ in range(64):
    os.chdir("..")
expect("climb 64 folders up from /", os.stat(".").st_ino == os.stat("/").st_ino, "still at /")
""")


@claim.about("seccomp", threats=("kernel-surface",))
async def cannot_open_a_file_by_its_number(target: Target) -> Outcome:
    """A handle opens what lies below a mount ("shocker", the first escape from Docker)."""
    return await target.attack("""
handle = (ctypes.c_char * 136)()
handle[0] = 128
attempt("name_to_handle_at", filtered, "name_to_handle_at", -100, b"/", ctypes.byref(handle), ctypes.byref(handle), 0)
attempt("open_by_handle_at", filtered, "open_by_handle_at", -1, 8, 0)
""")


@claim.about("seccomp", threats=("kernel-surface",))
async def cannot_use_io_uring(target: Target) -> Outcome:
    """Work that the kernel does on a ring's behalf passes no filter."""
    return await target.attack("""
attempt("io_uring_setup", filtered, "io_uring_setup", 0, 8)
attempt("io_uring_enter", filtered, "io_uring_enter", -1, 0, 0, 0, 0, 0)
attempt("io_uring_register", filtered, "io_uring_register", -1, 0, 0, 0)
""")


@claim.about("seccomp", threats=("kernel-surface",))
async def cannot_load_programs_or_probes_into_the_kernel(target: Target) -> Outcome:
    """In bpf and perf lie the bugs of the verifier, and of the counters."""
    return await target.attack("""
attempt("bpf", filtered, "bpf", 0, 8, 0)
attempt("load a socket filter program", filtered, "bpf", 5, 8, 128)
attempt("perf_event_open", filtered, "perf_event_open", 8, 0, -1, -1, 0)
""")


@claim.about("seccomp", threats=("kernel-surface",))
async def cannot_hold_the_kernel_halfway(target: Target) -> Outcome:
    """With userfaultfd and fanotify the kernel waits in the middle of its work, which wins every race."""
    return await target.attack("""
attempt("userfaultfd", filtered, "userfaultfd", 0)
attempt("userfaultfd for user mode only", filtered, "userfaultfd", 1)
attempt("fanotify_init", filtered, "fanotify_init", 0, 0)
attempt("fanotify_mark", filtered, "fanotify_mark", -1, 0, 0, 0, 0)
""")


@claim.about("seccomp", threats=("kernel-surface",))
async def cannot_use_the_kernels_keyrings(target: Target) -> Outcome:
    """They belong to no namespace: a sandbox would share them with every process of its uid."""
    return await target.attack("""
attempt("ask for the session's keyring", filtered, "keyctl", 0, -3, 0)
attempt("join a session's keyring", filtered, "keyctl", 1, 0)
attempt("add_key", filtered, "add_key", 8, 8, 0, 0, -3)
attempt("request_key", filtered, "request_key", 8, 8, 0, -3)
""")


@claim.about("seccomp", threats=("kernel-surface",))
async def cannot_load_a_kernel_module_or_another_kernel(target: Target) -> Outcome:
    """The shortest way to everything."""
    return await target.attack("""
attempt("init_module", filtered, "init_module", 8, 0, 8)
attempt("finit_module", filtered, "finit_module", -1, 8, 0)
attempt("delete_module", filtered, "delete_module", 8, 0)
attempt("kexec_load", filtered, "kexec_load", 0, 0, 0, 0xFFFF)
attempt("kexec_file_load", filtered, "kexec_file_load", -1, -1, 0, 8, 0)
""")


@claim.about("seccomp", threats=("kernel-surface",))
async def cannot_command_the_machine(target: Target) -> Outcome:
    """Its clock, its name, its swap, its log, its ports. A kernel that got these requests would find them wrong."""
    return await target.attack("""
attempt("reboot", filtered, "reboot", 0, 0, 0, 0)
attempt("settimeofday", filtered, "settimeofday", 8, 0)
attempt("clock_settime", filtered, "clock_settime", 99, 8)
attempt("clock_adjtime", filtered, "clock_adjtime", 99, 8)
attempt("adjtimex", filtered, "adjtimex", 8)
attempt("sethostname", filtered, "sethostname", 8, 1)
attempt("setdomainname", filtered, "setdomainname", 8, 1)
attempt("swapon", filtered, "swapon", 8, 0)
attempt("swapoff", filtered, "swapoff", 8)
attempt("acct", filtered, "acct", 8)
attempt("syslog", filtered, "syslog", 10, 0, 0)
attempt("quotactl", filtered, "quotactl", 0, 8, 0, 0)
attempt("vhangup", filtered, "vhangup")
for name in ("iopl", "ioperm"):
    if name in given["numbers"]:
        attempt(name, filtered, name, 0, 0, 0)
""")


@claim.about("seccomp", threats=("kernel-surface",))
async def cannot_make_a_system_call_by_another_entry(target: Target) -> Outcome:
    """The 32-bit and x32 entries have other call numbers: a filter that forgets them filters nothing."""
    return await target.attack("""
import mmap, platform, signal
if platform.machine() != "x86_64":
    expect("other entries", True, "a 64-bit process has none on " + platform.machine())
else:
    page = mmap.mmap(-1, 4096, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS, mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(page)))
    calls = {
        "getpid by int 0x80": b"\\xb8\\x14\\x00\\x00\\x00\\xcd\\x80\\xc3",
        "mount by int 0x80": b"\\xb8\\x15\\x00\\x00\\x00\\x31\\xdb\\x31\\xc9\\x31\\xd2\\xcd\\x80\\xc3",
        "getpid by x32": b"\\xb8\\x27\\x00\\x00\\x40\\x0f\\x05\\xc3",
        "ptrace by x32": b"\\xb8\\x09\\x02\\x00\\x40\\x31\\xff\\x31\\xf6\\x0f\\x05\\xc3",
    }
    for what, machine_code in calls.items():
        page[: len(machine_code)] = machine_code
        # Exit code 7 is for an answer that says "no such call" or "not permitted".
        how, code_of = in_a_child(lambda: 7 if ctypes.c_int(code()).value in (-errno.ENOSYS, -errno.EPERM) else 0)
        refused = (how, code_of) == ("exit", 7) or (how == "signal" and code_of in (signal.SIGSYS, signal.SIGSEGV))
        expect(what, refused, "%s %d" % (how, code_of))
    page[:1] = b"\\xc3"
    if in_a_child(lambda: code() and 0) != ("exit", 0):
        raise SystemExit("machine code of one's own does not run here, so none of this was tried")
""")


@claim.about("seccomp", threats=("kernel-surface",))
async def is_told_that_unknown_calls_do_not_exist(target: Target) -> Outcome:
    """An allow-list: tomorrow's system call is refused today, and programs take it for an older kernel."""
    return await target.attack("""
given["numbers"].update({"clone3": 435, "call 470": 470, "call 600": 600, "call 5000": 5000})
for name in ("clone3", "call 470", "call 600", "call 5000"):
    try:
        answered = "answered %d" % syscall(name, 0, 0, 0, 0)
    except OSError as error:
        answered = errno.errorcode[error.errno]
    expect(name, answered == "ENOSYS", answered)
""")


@claim.about("seccomp", threats=("kernel-surface",))
async def cannot_have_the_kernel_speak_a_protocol_on_its_socket(target: Target) -> Outcome:
    """TCP_ULP loads a module (tls, smc, espintcp) into the path of a socket, and each has had its escapes."""
    return await target.attack("""
import socket
TCP_ULP = 31
listener = socket.socket()
listener.bind(("127.0.0.1", 0))
listener.listen()
client = socket.socket()
client.connect(listener.getsockname())
server, _ = listener.accept()
for name in (b"tls", b"smc", b"espintcp", b"mptcp"):
    text = ctypes.create_string_buffer(name)
    for level in (socket.SOL_TCP, socket.SOL_TCP | 1 << 32):
        for fd in (client.fileno(), server.fileno()):
            what = (fd, level, TCP_ULP, ctypes.byref(text), len(name))
            attempt("TCP_ULP %s" % name.decode(), filtered, "setsockopt", *what)
client.setsockopt(socket.SOL_TCP, socket.TCP_NODELAY, 1)
""")


@claim.about("seccomp", threats=("terminal-injection",))
async def has_no_terminal_of_the_callers(target: Target) -> Outcome:
    """Whoever has the terminal of the person outside can read what is typed there, and type (CVE-2017-5226)."""
    return await target.attack(
        """
attempt("open /dev/tty", opened, "/dev/tty", os.O_RDWR)
attempt("open a terminal of the host", opened, given["terminal"], os.O_RDWR)
for number in (0, 1, 2):
    expect("descriptor %d" % number, not os.isatty(number), "no terminal")
for name in os.listdir("/dev/pts") if os.path.isdir("/dev/pts") else []:
    if name != "ptmx":
        attempt("open /dev/pts/" + name, opened, "/dev/pts/" + name, os.O_RDWR)
expect("the terminal of this session", read("/proc/self/stat").rpartition(b")")[2].split()[4] == b"0", "none")
""",
        terminal=target.bait.terminal,
    )


_TYPING = """
import fcntl, pty
STI, LINUX, SETD = 0x5412, 0x541C, 0x5423
terminals = [0] if os.isatty(0) else []
terminals += pty.openpty()
for fd in terminals:
    for name, request in (("TIOCSTI", STI), ("TIOCLINUX", LINUX), ("TIOCSETD", SETD)):
        text = ctypes.create_string_buffer(b" ")
        attempt("%s on descriptor %d" % (name, fd), filtered, "ioctl", fd, request, ctypes.byref(text))
        # The kernel drops the upper half of the request; a filter that compares all of it lets this through.
        what = "%s with high bits on descriptor %d" % (name, fd)
        attempt(what, filtered, "ioctl", fd, request | 1 << 32, ctypes.byref(text))
"""


@claim.about("seccomp", threats=("terminal-injection",))
async def cannot_type_into_a_terminal(target: Target) -> Outcome:
    """Typed by a program, run by whoever reads the terminal next."""
    return await target.attack(_TYPING)


@claim.about("seccomp", threats=("terminal-injection",))
async def cannot_type_into_the_terminal_that_it_was_given(target: Target) -> Outcome:
    """With `tty` the command has a terminal: a new one, of the sandbox's own, and not to be typed into."""
    return await target.attack(_TYPING, tty=True)
