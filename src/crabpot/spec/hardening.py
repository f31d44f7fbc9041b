"""The promises that hold for every sandbox, whatever the configuration says: constants that backends render."""

from __future__ import annotations

WORKSPACE = "/workspace"
AGENT_WORKSPACE = "/agent"
# Where programs written for E2B expect their files: the workspace of sandboxes that its API created.
E2B_HOME = "/home/user"
# The private home, where the configuration names one.
HOME = "/home/agent"
RUNNER = "/crabpot"
# Shims of host commands.
SHIMS = f"{RUNNER}/bin"

# The layer over a folder under review while the sandbox opens: gone before anything of the agent's runs.
LAYER = f"{RUNNER}/layer"

USER = "agent"
NOBODY = 65534

# Programs that are found only where the system has none of their name: `python`, for one, beside python3.
FALLBACKS = f"{RUNNER}/fallback"

PATH = "/usr/local/bin:/usr/bin:/bin"
LANG = "C.UTF-8"

# A mount here would replace what the sandbox relies on, or what its promises are about.
RESERVED_TARGETS = (
    WORKSPACE,
    AGENT_WORKSPACE,
    RUNNER,
    "/proc",
    "/sys",
    "/dev",
    "/tmp",  # noqa: S108  a name inside the sandbox
    "/var/tmp",  # noqa: S108  as above
    "/etc",
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
)

# Where an agent's own folder must not appear: the interpreter, the libraries and the walls would be the agent's.
OVER_WHICH_NOTHING = (
    *(place for place in RESERVED_TARGETS if place not in (WORKSPACE, AGENT_WORKSPACE, "/tmp", "/var/tmp")),  # noqa: S108
    "/run",
)

# Writable, beside the workspace and rw binds. Of /proc and /dev little is, by their own rules.
WRITABLE = ("/tmp", "/var/tmp", "/dev", "/proc")  # noqa: S108  names inside the sandbox

# Masked or read-only in /proc: what reveals or changes the host's kernel.
MASKED_PROC = (
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kallsyms",
    "/proc/kcore",
    "/proc/keys",
    "/proc/kmsg",
    "/proc/latency_stats",
    # Opened for writing, each file of it keeps a kernel thread busy for whoever watches.
    "/proc/pressure",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
)
READ_ONLY_PROC = ("/proc/bus", "/proc/fs", "/proc/irq", "/proc/sys", "/proc/sysrq-trigger")
