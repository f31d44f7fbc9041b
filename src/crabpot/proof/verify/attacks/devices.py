"""Attacks through files that are not files: /proc, /sys, /dev, and the temporary folder."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.proof.verify.claims import Group, Outcome
from crabpot.spec import hardening

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

claim = Group("filesystem")

_MIB = 1024**2


@claim.about(excused_by="filesystem")
async def cannot_read_what_proc_tells_of_the_kernel(target: Target) -> Outcome:
    """Addresses of the kernel, keys and timers of the host: the first step of most kernel exploits."""
    return await target.attack(
        """
for path in given["masked"]:
    if not os.path.lexists(path):
        expect(path, True, "not there")
    elif os.path.isdir(path):
        attempt("list " + path, os.listdir, path)
        for name in os.listdir(path):
            attempt("open %s/%s for writing" % (path, name), opened, path + "/" + name, os.O_RDWR)
    else:
        attempt("read " + path, read, path)
""",
        masked=hardening.MASKED_PROC,
    )


@claim.about("filesystem")
async def cannot_change_a_setting_of_the_kernel(target: Target) -> Outcome:
    """/proc/sys is the kernel's control panel, and most of it belongs to no namespace."""
    return await target.attack("""
import itertools
paths = (os.path.join(folder, name) for folder, _, names in os.walk("/proc/sys") for name in names)
refusals = {}
for path in itertools.islice(paths, 4000):
    try:
        opened(path, os.O_WRONLY)
    except OSError as error:
        refusals[error.errno] = refusals.get(error.errno, 0) + 1
    else:
        attempt("open %s for writing" % path, lambda: "opened")
expect("open all of /proc/sys for writing", sum(refusals.values()) > 100,
       ", ".join("%s %d times" % (errno.errorcode[number], times) for number, times in refusals.items()))
""")


@claim.about("filesystem", threats=("container-runtime",))
async def cannot_name_a_program_that_the_kernel_starts(target: Target) -> Outcome:
    """The kernel runs core_pattern, modprobe, uevent_helper and release_agent as root, outside every namespace."""
    return await target.attack("""
for path in ("/proc/sys/kernel/core_pattern", "/proc/sys/kernel/modprobe", "/proc/sys/kernel/hotplug",
             "/sys/kernel/uevent_helper", "/proc/sys/fs/binfmt_misc/register", "/sys/fs/cgroup/release_agent",
             "/sys/fs/cgroup/memory/release_agent", "/sys/fs/cgroup/unified/cgroup.procs"):
    attempt("open %s for writing" % path, opened, path, os.O_WRONLY)
""")


@claim.about("filesystem")
async def cannot_press_the_kernels_emergency_keys(target: Target) -> Outcome:
    """One letter written to sysrq-trigger reboots or halts the machine."""
    return await target.attack("""
for path in ("/proc/sysrq-trigger", "/proc/sys/kernel/sysrq", "/proc/self/root/proc/sysrq-trigger"):
    attempt("open %s for writing" % path, opened, path, os.O_WRONLY)
""")


@claim.about("filesystem")
async def cannot_change_anything_in_sys(target: Target) -> Outcome:
    """Devices, firmware, security modules and control groups are files there."""
    return await target.attack("""
attempt("make a file in /sys", made, "/sys/planted")
found = []
for folder, folders, names in os.walk("/sys"):
    folders[:] = folders if folder.count("/") < 5 else []
    for path in [os.path.join(folder, name) for name in names][: 5000 - len(found)]:
        found.append(path)
        if os.access(path, os.W_OK):
            attempt("open %s for writing" % path, opened, path, os.O_WRONLY)
expect("look for what can be written below /sys", True, "%d files, none of them open to writing" % len(found))
for path in ("/sys/kernel/security", "/sys/firmware/efi/efivars", "/sys/kernel/debug", "/sys/kernel/tracing"):
    attempt("list " + path, os.listdir, path)
""")


@claim.about("filesystem", "capabilities")
async def cannot_make_a_device_node(target: Target) -> Outcome:
    """A device node of one's own is a way to the disk below every file permission."""
    return await target.attack("""
import stat
nodes = (("mem", stat.S_IFCHR, (1, 1)), ("disk", stat.S_IFBLK, (8, 0)), ("kmsg", stat.S_IFCHR, (1, 11)))
for folder in ("/workspace", "/tmp", "/var/tmp", "/dev/shm", "/dev"):
    for name, kind, number in nodes:
        path = os.path.join(folder, ".node-" + name)
        attempt("make %s in %s" % (name, folder), lambda: os.mknod(path, kind | 0o600, os.makedev(*number)) or "made")
        if os.path.lexists(path):
            os.unlink(path)
""")


@claim.about("filesystem")
async def finds_no_device_of_the_host(target: Target) -> Outcome:
    """Memory, disks, consoles, virtual machines: /dev has what every program needs and nothing else."""
    return await target.attack("""
import stat
known = set("null zero full random urandom tty ptmx pts shm mqueue fd stdin stdout stderr core".split())
expect("what lies in /dev", not set(os.listdir("/dev")) - known, " ".join(sorted(os.listdir("/dev"))))
for name in ("mem", "kmem", "port", "kmsg", "kvm", "fuse", "vda", "sda", "nvme0n1", "loop0", "loop-control",
             "mapper/control", "net/tun", "vhost-net", "vsock", "snapshot", "cpu/0/msr", "tty0", "hpet", "uinput"):
    attempt("open /dev/" + name, opened, "/dev/" + name, os.O_RDONLY)
""")


@claim.about(threats=("path-rules",), excused_by="tmp")
async def cannot_run_a_program_from_the_temporary_folder(target: Target) -> Outcome:
    """Downloading to /tmp and running it there is the oldest trick; calling the loader by name is the second oldest."""
    return await target.attack("""
import glob, mmap, shutil, subprocess
for folder in ("/tmp", "/var/tmp", "/dev/shm"):
    if not os.path.isdir(folder):
        continue
    copy = os.path.join(folder, "true")
    shutil.copy(shutil.which("true"), copy)
    os.chmod(copy, 0o755)
    attempt("run " + copy, lambda: subprocess.run([copy]) and "it ran")
    for loader in glob.glob("/lib*/ld-linux*") + glob.glob("/lib/ld-musl*"):
        ended = subprocess.run([loader, copy], capture_output=True).returncode
        expect("run %s by %s" % (copy, loader), ended != 0, "exit code %d" % ended)
    with open(copy, "rb") as stream:
        rights = mmap.PROT_READ | mmap.PROT_EXEC
        what, held = "map %s for running" % copy, stream.fileno()
        attempt(what, lambda: mmap.mmap(held, 4096, mmap.MAP_PRIVATE, rights) and "mapped")
    os.unlink(copy)
""")


@claim.about(excused_by="tmp")
async def has_a_private_temporary_folder_without_programs_or_devices(target: Target) -> Outcome:
    """Flags of the mounts, as the kernel has them, not as anybody claims."""
    return await target.attack("""
found = {place: (flags, kind) for place, flags, kind in mounts() if place in ("/tmp", "/var/tmp", "/dev/shm")}
for place in ("/tmp", "/var/tmp"):
    expect("%s is a mount" % place, place in found, " ".join(sorted(found)))
for place, (flags, kind) in found.items():
    for flag in ("nosuid", "nodev", "noexec"):
        expect("%s is %s" % (place, flag), flag in flags, "%s %s" % (kind, ",".join(flags)))
""")


@claim.about("limits.tmp", threats=("exhaustion",))
async def cannot_fill_the_temporary_folder_beyond_its_size(target: Target) -> Outcome:
    """It takes up the host's memory."""
    return await target.attack(
        """
limit, chunk = given["limit"], bytes(1 << 20)
for folder in ("/tmp", "/var/tmp", "/dev/shm"):
    if not os.path.isdir(folder):
        continue
    size, paths, stopped = 0, [], None
    space = os.statvfs(folder)
    expect("how many files %s takes" % folder, 0 < space.f_files < 1 << 24, "%d" % space.f_files)
    try:
        while size <= limit + len(chunk) and len(paths) < 64:
            paths.append(os.path.join(folder, "fill-%d" % len(paths)))
            with open(paths[-1], "wb", buffering=0) as stream:
                while size <= limit + len(chunk):
                    written = stream.write(chunk)
                    size += written
                    if written < len(chunk):
                        break
    except OSError as error:
        stopped = errno.errorcode[error.errno]
    for path in paths:
        os.unlink(path)
    expect("fill " + folder, stopped is not None and size <= limit, "%s after %d of %d bytes" % (stopped, size, limit))
""",
        limit=int(target.limits.tmp),
    )
