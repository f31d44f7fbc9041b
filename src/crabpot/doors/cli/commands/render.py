"""`render`: files and commands for use without Crabpot, from the same spec as the live sandbox."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
import sys
from typing import TYPE_CHECKING, Any

from crabpot.artefacts import apparmor, compose, container, docker_run, kubernetes, ports, runner, systemd, volumes
from crabpot.artefacts.container import NotRenderable, Wanted
from crabpot.artefacts.volumes import Volume
from crabpot.backends import runner_source
from crabpot.backends.bubblewrap import candidates
from crabpot.backends.docker import folders, profile
from crabpot.backends.docker import user as users
from crabpot.config.edit import write_atomically
from crabpot.decide.placement import scope_key
from crabpot.decide.sessions import parse as parse_session
from crabpot.doors.cli.frame import OK, UsageError, note
from crabpot.errors import CrabpotError
from crabpot.spec import hardening
from crabpot.spec.build import build
from crabpot.spec.naming import is_docker_word
from crabpot.spec.spec import User
from crabpot.state import ownership

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Iterator

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.settings import AgentSettings
    from crabpot.spec.spec import SandboxSpec


def as_docker_run(frame: Frame, options: Namespace) -> int:
    """Print a command that starts the container."""
    name, body = _container(frame.app(), options)
    return _print(docker_run.command(name, body))


def as_compose(frame: Frame, options: Namespace) -> int:
    """Print a compose file with the container as its one service."""
    name, body = _container(frame.app(), options)
    return _print(compose.file(name, body))


def as_seccomp(frame: Frame, options: Namespace) -> int:
    """Print the seccomp profile of a session's sandboxes."""
    _, spec = _described(frame.app(), options.session)
    return _print(json.dumps(json.loads(profile.read(spec.docker.seccomp)), indent=1) + "\n")


def as_apparmor(_frame: Frame, options: Namespace) -> int:
    """Print the AppArmor profile for containers, or the one for bwrap, and how to load it."""
    if options.program != "bwrap":
        return _print(apparmor.profile())
    system = next((one.path for one in candidates.candidates() if one.libraries is None), "/usr/bin/bwrap")
    return _print(apparmor.for_bwrap(system))


def as_systemd(frame: Frame, options: Namespace) -> int:
    """Print the units of `crabpot serve`, or write them, ready to be enabled."""
    service = _service(frame, options)
    units = systemd.units(service)
    if options.out is None:
        texts = [f"# {name}\n{text}" for name, text in units.items()]
        return _print(f"# Install:\n{systemd.steps(service, None)}\n" + "\n".join(texts))
    for name, text in units.items():
        write_atomically(os.path.join(options.out, name), text)
        # They hold no secret, and systemd complains about a unit that only its owner may read.
        os.chmod(os.path.join(options.out, name), 0o644)
    note(f"{options.out} has {' and '.join(units)}; next:\n{systemd.steps(service, options.out).rstrip()}")
    return OK


def as_kubernetes(frame: Frame, options: Namespace) -> int:
    """Print a gateway in a cluster, with the namespace of its sandboxes and the rights in it."""
    _, spec = _described(frame.app(), options.session)
    if options.sandboxes < 1:
        raise UsageError("--sandboxes must be 1 or more")
    deployed = kubernetes.Deployed(
        settings=spec.kubernetes,
        image=options.image,
        sandboxes=options.sandboxes,
        claim=None if options.no_claim else options.claim,
    )
    return _print(kubernetes.file(deployed))


def _service(frame: Frame, options: Namespace) -> systemd.Service:
    """Return what the units are about: this very program, over the configuration and state of this command line."""
    app = frame.app()
    own = options.kind == "system" and options.account != "root"
    if options.account is not None and options.kind == "user":
        raise UsageError("--account is for --system: a user's units run as that user")
    # A system account's state lies where systemd keeps such, unless it was named.
    state = os.path.realpath(app.around.state) if frame.state or not own else systemd.STATE
    config = () if app.config is None else ("--config", os.path.realpath(app.config))
    argv = (sys.executable, "-P", "-m", "crabpot", *config, "--state", state, "serve", *_port(options.listen))
    account = options.account or systemd.ACCOUNT
    return systemd.Service(kind=options.kind, argv=argv, state=state, account=account, listens=bool(options.listen))


def _port(listen: str | None) -> tuple[str, ...]:
    if listen is None:
        return ()
    from crabpot.doors.http.listening import address  # noqa: PLC0415  slow to import

    try:
        address(listen)
    except CrabpotError as error:
        raise UsageError(str(error)) from None
    return ("--listen", listen)


def as_runner_dockerfile(frame: Frame, options: Namespace) -> int:
    """Print the Dockerfile of a runner on a socket, or write it with the runner's files, ready to build."""
    app = frame.app()
    _, spec = _described(app, options.session)
    text = runner.dockerfile(_runner_user(spec), app.settings().runner.commands)
    if options.out is None:
        return _print(text)
    files = runner_source.files()
    copied = os.path.join(options.out, runner.COPIED)
    stray = runner_source.files(copied).keys() - files
    if stray:
        raise UsageError(f"{copied} contains {min(stray)}, which would be copied too; choose another folder")
    for name, path in files.items():
        os.makedirs(os.path.dirname(os.path.join(copied, name)), exist_ok=True)
        with open(path, encoding="utf-8") as file:
            write_atomically(os.path.join(copied, name), file.read())
    write_atomically(os.path.join(options.out, "Dockerfile"), text)
    note(f"{options.out} is ready: docker build {shlex.quote(options.out)}")
    return OK


def as_runner_compose(frame: Frame, options: Namespace) -> int:
    """Print a compose file with a runner on a socket as its service."""
    app = frame.app()
    _, spec = _described(app, options.session)
    seccomp = _seccomp(app, spec, options.seccomp)
    return _print(runner.compose_file(spec, user=_runner_user(spec), seccomp=seccomp, context=options.context))


def _runner_user(spec: SandboxSpec) -> User:
    return spec.user or container.DEFAULT_USER


def _print(text: str) -> int:
    sys.stdout.write(text)
    return OK


def _container(app: App, options: Namespace) -> tuple[str, dict[str, Any]]:
    agent, spec = _described(app, options.session)
    wanted = _wanted(app, agent, spec, options)
    body = container.body(spec, wanted)
    if body["HostConfig"]["NetworkMode"] == "bridge" and spec.network.kind == "none":
        note(
            "a published port needs a network: this container is on docker's bridge, which reaches the "
            "internet and, on most machines, the LAN"
        )
    return wanted.name, body


def _described(app: App, key: str) -> tuple[AgentSettings, SandboxSpec]:
    """Return the spec of a session's sandbox, wherever the session's calls are placed."""
    settings = app.settings()
    session = parse_session(key, default_agent=settings.default_agent)
    agent = settings.agent(session.agent)
    try:
        return agent, build(agent, scope_key(session, agent), app.around)
    except ValueError as error:
        raise NotRenderable(f"the sandbox cannot be created as configured: {error}") from None


def _wanted(app: App, agent: AgentSettings, spec: SandboxSpec, options: Namespace) -> Wanted:
    image = options.image or spec.docker.image
    if not is_docker_word(image):
        raise UsageError(f'"{image}" cannot be the name of an image; docker might read it as an option')
    idle = options.image is None and options.command is None
    try:
        asked = [volumes.parse(text, app.around) for text in options.volume]
        published = tuple(ports.parse(text) for text in options.port)
        words = _split(options.command or "")
    except ValueError as error:
        raise UsageError(str(error)) from None
    return Wanted(
        name=options.name,
        image=image,
        command=container.IDLE if idle else tuple(words),
        user=_user(spec),
        env=agent.sandbox.env,
        volumes=volumes.gathered((*_workspace(spec), *asked), spec.mounts),
        ports=published,
        health=options.health or (container.IDLE_HEALTH if idle else None),
        seccomp=_seccomp(app, spec, options.seccomp),
        disk=folders.disk_of(spec.workspace),
    )


def _split(text: str) -> list[str]:
    try:
        return shlex.split(text)
    except ValueError as error:
        raise ValueError(f"--command {text}: {error}") from None


def _user(spec: SandboxSpec) -> User:
    if spec.private:
        return spec.user or container.DEFAULT_USER
    gateway = User(uid=os.geteuid(), gid=os.getegid())
    choice = users.choose(spec, gateway=gateway, folder=folders.owner_of(spec.workspace))
    if choice.user is None:
        raise NotRenderable(choice.because)
    return choice.user


def _workspace(spec: SandboxSpec) -> Iterator[Volume]:
    """Return the agent's workspace if it is mounted. A private folder belongs to Crabpot, not to another program."""
    if not spec.private:
        yield Volume(source=spec.workspace, target=spec.workspace_at, access="rw")
    if spec.agent_workspace is not None:
        yield Volume(source=spec.agent_workspace, target=hardening.AGENT_WORKSPACE, access="ro")


def _seccomp(app: App, spec: SandboxSpec, given: str | None) -> str:
    """Return the path of the profile. Ours is written to the state folder, named after its content."""
    if given is not None:
        if given.strip().lower() == "unconfined":
            raise UsageError("unconfined removes a wall, which Crabpot never does")
        return os.path.abspath(given)
    text = profile.read(spec.docker.seccomp)
    if spec.docker.seccomp != "default":
        return spec.docker.seccomp
    ownership.take(app.around.state)
    digest = hashlib.sha256(text.encode()).hexdigest()
    path = f"{os.path.realpath(app.around.state)}/artefacts/seccomp-{digest[:16]}.json"
    if not os.path.exists(path):
        write_atomically(path, text)
    return path
