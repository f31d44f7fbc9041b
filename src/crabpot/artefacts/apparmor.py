"""An AppArmor profile for our containers: what a container itself needs, and nothing of the host's kernel."""

from __future__ import annotations

from crabpot.spec import hardening

NAME = "crabpot"

_HEAD = f"""\
# AppArmor profile "{NAME}": for Crabpot's sandboxes, and for the containers that `crabpot render` describes.
#
# Load it, as root, on the machine of the engine:
#   crabpot render apparmor > /etc/apparmor.d/{NAME}
#   apparmor_parser --replace /etc/apparmor.d/{NAME}
# Use it, in the configuration:
#   sandbox: {{ docker: {{ apparmor: "{NAME}" }} }}
# Remove it:
#   apparmor_parser --remove /etc/apparmor.d/{NAME}

#include <tunables/global>

profile {NAME} flags=(attach_disconnected,mediate_deleted) {{
  #include <abstractions/base>

  # The root is read-only, and what may be written is mounted for it: permissions decide about files.
  file,

  # Sockets of the ordinary kinds; raw and packet sockets are not listed, and so refused.
  unix,
  network unix,
  network inet stream,
  network inet dgram,
  network inet6 stream,
  network inet6 dgram,
  network netlink raw,

  # The engine ends a container; its own processes signal and list each other, and trace nobody.
  signal (receive),
  signal (send) peer={NAME},
  ptrace (read,readby) peer={NAME},

  # The one capability that a rendered container may have, for a port below 1024.
  capability net_bind_service,

  deny mount,
  deny umount,
  deny pivot_root,
"""
_TAIL = """
  # The machine's own files.
  deny /sys/** w,
  deny /sys/firmware/** rwklx,
  deny /sys/kernel/security/** rwklx,
  deny /boot/** rwklx,

  # Nothing runs that was written to memory.
  deny /tmp/** x,
  deny /var/tmp/** x,
  deny /run/** x,
  deny /var/run/** x,
  deny /dev/shm/** x,
}
"""


_BWRAP = """\
# AppArmor profile "{name}": lets bwrap make the namespaces of a sandbox where programs without a profile may not
# (Ubuntu from 23.10 on, kernel.apparmor_restrict_unprivileged_userns=1).
#
# Load it, as root:
#   crabpot render apparmor --for bwrap > /etc/apparmor.d/{name}
#   apparmor_parser --replace /etc/apparmor.d/{name}
# Remove it:
#   apparmor_parser --remove /etc/apparmor.d/{name}
#
# What it opens: whoever may start {path} may make user namespaces through it, as on other distributions.
# What bwrap starts is confined by Crabpot, not by this profile. Another profile for the same program must be removed
# first: aa-disable {path}

abi <abi/4.0>,
include <tunables/global>

profile {name} {path} flags=(unconfined) {{
  userns,
}}
"""


def for_bwrap(path: str) -> str:
    """Return the profile that lets the bwrap at a path make sandboxes, with how to load it."""
    return _BWRAP.format(name="crabpot-bwrap", path=path)


def profile() -> str:
    """Return the profile of containers, with how to load it."""
    hidden = "".join(f"  deny {path}{{,/**}} rwklx,\n" for path in hardening.MASKED_PROC)
    kept = "".join(f"  deny {path}{{,/**}} w,\n" for path in hardening.READ_ONLY_PROC)
    return f"{_HEAD}\n  # What reveals or changes the host's kernel.\n{hidden}{kept}{_TAIL}"
