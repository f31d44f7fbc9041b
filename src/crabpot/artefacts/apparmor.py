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


def profile() -> str:
    """Return the profile, with how to load it."""
    hidden = "".join(f"  deny {path}{{,/**}} rwklx,\n" for path in hardening.MASKED_PROC)
    kept = "".join(f"  deny {path}{{,/**}} w,\n" for path in hardening.READ_ONLY_PROC)
    return f"{_HEAD}\n  # What reveals or changes the host's kernel.\n{hidden}{kept}{_TAIL}"
