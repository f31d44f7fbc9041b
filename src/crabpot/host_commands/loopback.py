"""Run a command as another user of this machine, over ssh to the loopback: ssh's arguments, and the checks before."""

from __future__ import annotations

import os
import re
import secrets
import shlex
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from crabpot.decide.ssh_key import problem_with_key
from crabpot.errors import HostRefused
from crabpot.host_commands import trusted
from crabpot.spec.binds import expand

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from crabpot.approvals.identity import Identity
    from crabpot.host_commands.folders import Folder

HOST, PORT = "127.0.0.1", 22
# Inherited by all processes that the command starts, so that they can be found again.
MARK = "CRABPOT_RUN"

_ACCOUNT = re.compile(r"([A-Za-z_][A-Za-z0-9_.-]{0,31})(?::([0-9]{1,5}))?", re.ASCII)
_HIGHEST_PORT = 65535
# From this port on, any user of the machine can listen.
_FIRST_OPEN_PORT = 1024

_OPTIONS = (
    "BatchMode=yes",
    "IdentitiesOnly=yes",
    "IdentityAgent=none",
    "PreferredAuthentications=publickey",
    "GlobalKnownHostsFile=/dev/null",
    "UpdateHostKeys=no",
    "CheckHostIP=no",
    "ClearAllForwardings=yes",
    "ForwardAgent=no",
    "ForwardX11=no",
    "PermitLocalCommand=no",
    "ControlMaster=no",
    "ControlPath=none",
    "EscapeChar=none",
    "RequestTTY=no",
    "LogLevel=ERROR",
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Hop:
    """How to reach another user: the ssh program, the user, and the keys of both sides."""

    ssh: Identity
    user: str
    port: int
    key: str
    known_hosts: str
    mark: str = field(default_factory=lambda: secrets.token_hex(16), compare=False)

    def argv(self, script: str) -> tuple[str, ...]:
        """Return the argv that runs a script in a POSIX shell as that user, whatever the user's login shell is."""
        # Where only root can listen, the first key seen is recorded and no other is ever accepted.
        checking = "accept-new" if self.port < _FIRST_OPEN_PORT else "yes"
        options = (
            *_OPTIONS,
            f"StrictHostKeyChecking={checking}",
            f"UserKnownHostsFile={self.known_hosts}",
            f"IdentityFile={self.key}",
            f"Port={self.port}",
        )
        flags = [flag for option in options for flag in ("-o", option)]
        # No configuration file: it could name programs, or another machine.
        return (
            "ssh",
            "-F",
            "none",
            "-T",
            *flags,
            "-l",
            self.user,
            "--",
            HOST,
            f"exec /bin/sh -c {shlex.quote(script)}",
        )

    def start(self, argv: Sequence[str], binary: Identity, folder: Folder, env: Mapping[str, str]) -> str:
        """Return the script that enters exactly the shown folder and executes the command."""
        given = [f"{name}={value}" for name, value in {**env, MARK: self.mark}.items()]
        command = shlex.join([*given, binary.path, *argv[1:]])
        lost = "echo 'crabpot: the folder is not the one that was shown' >&2; exit 125"
        here = f'cd -P -- {shlex.quote(folder.path)} && [ "$(stat -c %d:%i .)" = {folder.dev}:{folder.ino} ]'
        return f'{here} || {{ {lost}; }}; exec env -i HOME="$HOME" USER="$USER" {command}'

    def signal(self, name: str) -> str:
        """Return the script that signals every process of the command."""
        wanted = shlex.quote(f"{MARK}={self.mark}")
        return (
            f"for one in /proc/[0-9]*; do grep -qsxzF {wanted} $one/environ && kill -{name} ${{one#/proc/}}; done; true"
        )


def parse_user(text: str) -> tuple[str, int]:
    """Parse `name` or `name:port`, or raise ValueError with what would be right."""
    match = _ACCOUNT.fullmatch(text)
    port = PORT if match is None or match[2] is None else int(match[2])
    if match is None or not 0 < port <= _HIGHEST_PORT:
        raise ValueError(f'"{text}" cannot be the name of a user, or name:port; ssh might read it as an option')
    return match[1], port


def find(  # noqa: PLR0913  everything it depends on
    *, host_user: str, ssh_key: str, home: str, path: str, state: str, shown: Sequence[str]
) -> Hop:
    """Check the key and find ssh. `shown` lists the folders that sandboxes see: the key must not be in one."""
    user, port = parse_user(host_user)
    key = expand(ssh_key, home)
    _check_key(key, shown)
    known_hosts = f"{state}/loopback_host_keys"
    _check_server(port, known_hosts)
    return Hop(ssh=trusted.find("ssh", path, shown), user=user, port=port, key=key, known_hosts=known_hosts)


def _check_server(port: int, known_hosts: str) -> None:
    """Refuse a server that anybody could have started, unless the operator recorded its key."""
    name = f"[{HOST}]:{port} "
    if port < _FIRST_OPEN_PORT:
        return
    try:
        with open(known_hosts, encoding="utf-8", errors="replace") as file:
            if any(line.startswith(name) for line in file):
                return
    except FileNotFoundError:
        pass
    note = f"ssh-keyscan -p {port} {HOST} >> {shlex.quote(known_hosts)}"
    raise HostRefused(
        "denied",
        f"any user can listen on port {port} (sandbox.hostUser), and its key is not recorded; check it, then: {note}",
    )


def _check_key(key: str, shown: Sequence[str]) -> None:
    if not os.path.isfile(key):
        raise HostRefused("not_found", f"the key {key} does not exist (sandbox.sshKey)")
    problem = problem_with_key(key, shown)
    if problem is not None:
        raise HostRefused("denied", f"the key {key} (sandbox.sshKey) {problem}")
