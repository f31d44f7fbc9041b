"""The container of a runner on a socket, after ClawFactory's: its Dockerfile, and its compose file. Pure.

It sees two folders and the volume of its socket. What else that deployment has (`brain_ro`, `secrets`, docker's
socket) is not mounted, and there is no network over which to ask for it.
"""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crabpot.artefacts import compose, container
from crabpot.artefacts.container import Wanted
from crabpot.spec.network import NetworkSpec

if TYPE_CHECKING:
    from collections.abc import Sequence

    from crabpot.spec.spec import SandboxSpec, User

SERVICE = "runner"
NAME = "clawfactory-runner"
SOCKET = "/run/clawfactory/runner.sock"
ROOTS = ("/workspace/brain_work", "/workspace/brain.git")
HEALTH = f"test -S {SOCKET}"

_HOME = "/opt/crabpot/runner"
# Where the runner's files lie, beside the Dockerfile.
COPIED = "files"
_SOCKET_VOLUME = "socket-volume"
_SOCKET_FOLDER = "/run/clawfactory"
_VOLUMES = (
    "./data/brain_work:/workspace/brain_work:rw",
    "./data/brain.git:/workspace/brain.git:rw",
    f"{_SOCKET_VOLUME}:{_SOCKET_FOLDER}",
)
_VAR_RUN = "/var/run"

_DOCKERFILE = """\
# A runner on a socket of its own. Build it in a folder that has the runner's files in {copied}/ beside this one, which
#   crabpot render runner-dockerfile --out runner
# writes; the user must be the owner of what is mounted at {roots}.
ARG BASE=debian:12-slim
FROM ${{BASE}}
ARG UID={uid}
ARG GID={gid}
USER 0:0
RUN for program in python3 git jq diff; do command -v "$program" >/dev/null || missing=yes; done; \\
    if [ -n "$missing" ]; then \\
      apt-get update \\
      && apt-get install --yes --no-install-recommends python3-minimal libpython3-stdlib git jq diffutils \\
      && rm -rf /var/lib/apt/lists/*; \\
    fi
RUN mkdir -p {home} {roots} {socket_folder} \\
    && chown "${{UID}}:${{GID}}" {roots} {socket_folder} \\
    && chmod 0750 {socket_folder}
COPY {copied} {home}/
RUN chmod -R a+rX,go-w {home}
USER ${{UID}}:${{GID}}
WORKDIR {first}
ENTRYPOINT ["python3", "-I", "-S", "{home}"]
CMD {command}
"""


def dockerfile(user: User, commands: Sequence[str]) -> str:
    """Return the Dockerfile; its base is a build argument, and what that has already is not installed."""
    words = ["--socket", SOCKET, "--root", *ROOTS, f"--allow={','.join(commands)}"]
    return _DOCKERFILE.format(
        roots=" ".join(ROOTS),
        first=ROOTS[0],
        uid=user.uid,
        gid=user.gid,
        home=_HOME,
        copied=COPIED,
        socket_folder=_SOCKET_FOLDER,
        command=json.dumps(words),
    )


def compose_file(spec: SandboxSpec, *, user: User, seccomp: str, context: str) -> str:
    """Return the compose file, with the walls and limits of a live sandbox."""
    wanted = Wanted(
        name=NAME,
        image=f"{NAME}:latest",
        command=(),
        user=user,
        env={},
        volumes=(),
        ports=(),
        health=HEALTH,
        seccomp=seccomp,
    )
    body = container.body(replace(spec, network=NetworkSpec(kind="none")), wanted)
    host = body["HostConfig"]
    # A folder in memory over /var/run, which is /run in most images, would hide the socket's.
    memory = {path: options for path, options in host["Tmpfs"].items() if path != _VAR_RUN}
    # As pid 1 the runner knows that every visible process is its own, and reaps what its commands leave behind.
    body = {**body, "HostConfig": {**host, "Tmpfs": memory, "Init": False}}
    service: dict[str, Any] = compose.service(NAME, body, _VOLUMES)
    build = {"context": context, "args": {"UID": str(user.uid), "GID": str(user.gid)}}
    return compose.spelled({"services": {SERVICE: {"build": build, **service}}, "volumes": {_SOCKET_VOLUME: {}}})
