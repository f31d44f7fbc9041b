"""Units for `crabpot serve`: a socket, and a service with control groups of its own. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Kind = Literal["user", "system"]

SERVICE, SOCKET = "crabpot.service", "crabpot.socket"
ACCOUNT = "crabpot"
# Beside the agents' folders in that account's home, and not around them: what lies in the state is never shown.
HOME = f"/var/lib/{ACCOUNT}"
STATE = f"{HOME}/state"

_SOCKET = """\
[Unit]
Description=Crabpot's gateway, started by its first call

[Socket]
ListenStream={socket}
# Nobody but the gateway's own user is served, whatever the mode.
SocketMode=0600
DirectoryMode=0700
{owner}RemoveOnStop=yes

[Install]
WantedBy=sockets.target
"""

_SERVICE = """\
[Unit]
Description=Crabpot's gateway
Requires={socket_unit}
After={socket_unit}

[Service]
Type=notify
ExecStart={command}
{account}Restart=on-failure
RestartSec=2
# It ends its sandboxes itself, within 30 s.
KillMode=mixed
TimeoutStopSec=45
TimeoutStartSec=300
StandardOutput=journal
StandardError=journal
SyslogIdentifier=crabpot

# Limits of memory, CPU time and processes: each sandbox gets a control group below this unit's. The gateway's own is
# beside them (systemd before 254 does not know DelegateSubgroup=; there the gateway moves itself).
Delegate=yes
DelegateSubgroup=gateway
TasksMax=infinity

# Every sandbox inherits these.
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
SystemCallArchitectures=native
UMask=0077
{hardening}
# Do not add: RestrictNamespaces, SystemCallFilter, ProtectHostname, RestrictSUIDSGID (filters that sandboxes inherit,
# and that some or every bwrap fails under), ProtectKernelTunables, ProtectKernelLogs, ProcSubset (they mask /proc, and
# then no other can be mounted), ProtectControlGroups (read-only groups), PrivateUsers (no other owner's folders),
# MemoryDenyWriteExecute (no node inside). Each sandbox has stricter walls of its own.

[Install]
WantedBy={target}
"""

_SYSTEM_HARDENING = """\
ProtectSystem=full
PrivateTmp=yes
PrivateDevices=yes
RemoveIPC=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6 AF_NETLINK
ProtectClock=yes
ProtectKernelModules=yes
CapabilityBoundingSet=
"""
_ROOT_HARDENING = """\
ProtectSystem=full
ProtectClock=yes
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Service:
    """What a gateway's units are about. With the account "root" each sandbox is dropped to another user."""

    kind: Kind
    argv: tuple[str, ...]
    state: str
    account: str = ACCOUNT
    listens: bool = False
    """Whether it has a port too: no call to a port starts it, so it starts with the machine."""


def units(service: Service) -> dict[str, str]:
    """Return the text of each unit by its file name."""
    return {SOCKET: _socket(service), SERVICE: _service(service)}


def _socket(service: Service) -> str:
    owned = service.kind == "system" and service.account != "root"
    owner = f"SocketUser={service.account}\nSocketGroup={service.account}\n" if owned else ""
    return _SOCKET.format(socket=_plain(f"{service.state}/serve.sock"), owner=owner)


def _service(service: Service) -> str:
    account, hardening = "", ""
    if service.kind == "system":
        own = service.account != "root"
        account = f"User={service.account}\nGroup={service.account}\n" if own else ""
        hardening = _SYSTEM_HARDENING if own else _ROOT_HARDENING
    return _SERVICE.format(
        socket_unit=SOCKET,
        command=" ".join(_quoted(word) for word in service.argv),
        account=account,
        hardening=hardening,
        target="default.target" if service.kind == "user" else "multi-user.target",
    )


def _plain(text: str) -> str:
    """Return a text in which systemd replaces nothing."""
    return text.replace("%", "%%")


def _quoted(word: str) -> str:
    text = _plain(word).replace("\\", "\\\\").replace('"', '\\"').replace("$", "$$")
    return text if text and not set(text) & set(" '\";") else f'"{text}"'


def steps(service: Service, folder: str | None) -> str:
    """Return how to install them, as comments."""
    if service.kind == "user":
        place, ctl = folder or "~/.config/systemd/user", "systemctl --user"
        first = ["loginctl enable-linger   (without it the gateway ends with your last session)"]
    else:
        place, ctl = folder or "/etc/systemd/system", "sudo systemctl"
        name = service.account
        useradd = f"sudo useradd --system --create-home --home-dir {HOME} --shell /usr/sbin/nologin {name}"
        own = f"sudo install -d -m 700 -o {name} -g {name} {service.state}"
        first = [] if name == "root" else [useradd, own]
    started = f"{SOCKET} {SERVICE}" if service.listens else SOCKET
    lines = [*first, f"put both into {place}", f"{ctl} daemon-reload", f"{ctl} enable --now {started}"]
    return "".join(f"#   {line}\n" for line in lines)
