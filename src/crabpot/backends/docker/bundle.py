"""What of Crabpot goes into a container, stored in the state folder: the runner and two small files of /etc.

Copies, because the package may be readable by its owner alone, and a mount keeps the permissions of its source.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import shlex
import shutil
import time
from typing import TYPE_CHECKING

from crabpot.backends import runner_source
from crabpot.backends.docker import render
from crabpot.backends.docker.render import Bind
from crabpot.backends.linux import etc
from crabpot.spec import hardening, shims

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.spec.spec import User

# Far beyond the age at which sandboxes are pruned: a live one imports from its copy as it goes.
_UNUSED_S = 30 * 86_400


def runner(home: str) -> Bind:
    """Return the bind of this version's runner."""
    files = {}
    for name, path in runner_source.files().items():
        with open(path, "rb") as file:
            files[name] = file.read()
    made = _store(home, "runner", files)
    return Bind(source=made, target=render.RUNNER, access="ro")


def names(home: str, user: User, *, home_inside: str) -> tuple[Bind, ...]:
    """Return the binds of a user's passwd and group files: ssh and others look up the user; no image has every uid."""
    written = etc.written(user, resolves=True, home=home_inside)
    shown = {name: written[f"/etc/{name}"] for name in ("passwd", "group")}
    made = _store(home, "etc", shown)
    return tuple(Bind(source=f"{made}/{name}", target=f"/etc/{name}", access="ro") for name in shown)


def ssh(home: str, interpreter: str) -> Bind:
    """Return the bind of ssh's configuration for a sandbox whose connections go through the gateway."""
    made = _store(home, "ssh", {"ssh_config": etc.ssh_config(interpreter, render.RUNNER)})
    return Bind(source=f"{made}/ssh_config", target=etc.SSH_CONFIG, access="ro")


def commands(home: str, hosts: tuple[str, ...], interpreter: str) -> tuple[Bind, ...]:
    """Return the binds of the shims of host commands, if there are any."""
    if not hosts:
        return ()
    written = shims.written(hosts, interpreter=interpreter, runner=render.RUNNER)
    made = _store(home, "bin", {os.path.basename(path): text for path, text in written.items()}, mode=0o755)
    return (Bind(source=made, target=hardening.SHIMS, access="ro"),)


def fallbacks(home: str, interpreter: str) -> Bind:
    """Return the bind of programs for images that have none of their name."""
    text = f'#!/bin/sh\nexec {shlex.quote(interpreter)} "$@"\n'.encode()
    made = _store(home, "fallback", {"python": text, "python3": text}, mode=0o755)
    return Bind(source=made, target=hardening.FALLBACKS, access="ro")


def _store(home: str, kind: str, files: Mapping[str, bytes], mode: int = 0o644) -> str:
    """Find a folder with just these files, named after their content, or make it; whole or not at all."""
    digest = hashlib.sha256()
    for name, content in files.items():
        digest.update(f"{name}\0{len(content)}\0".encode() + content)
    folder = f"{home}/{kind}-{digest.hexdigest()[:32]}"
    if os.path.isdir(folder):
        os.utime(folder)
        return folder
    os.makedirs(home, mode=0o700, exist_ok=True)
    made = f"{home}/making-{os.urandom(8).hex()}"
    os.mkdir(made, 0o755)
    try:
        for name, content in files.items():
            os.makedirs(os.path.dirname(f"{made}/{name}"), exist_ok=True)
            with open(f"{made}/{name}", "xb") as file:
                file.write(content)
            os.chmod(f"{made}/{name}", mode)
        for folder_path, _, _ in os.walk(made):
            os.chmod(folder_path, 0o755)  # noqa: S103  whatever the umask; nothing in it is secret
        with contextlib.suppress(OSError):  # Another gateway was first; its copy is the same.
            os.rename(made, folder)
    finally:
        shutil.rmtree(made, ignore_errors=True)
    _forget_old(home)
    return folder


def _forget_old(home: str) -> None:
    for entry in list(os.scandir(home)):
        with contextlib.suppress(FileNotFoundError):
            if entry.is_dir(follow_symlinks=False) and time.time() - entry.stat().st_mtime > _UNUSED_S:
                shutil.rmtree(entry.path, ignore_errors=True)
