"""The lifecycle: what is read once from the engine, what is judged for each spec, and opening a sandbox."""

from __future__ import annotations

import asyncio
import os
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from crabpot.backends.base import greeting
from crabpot.backends.docker import bundle, folders, image, location, orphans, owner, profile, remedy, render, watching
from crabpot.backends.docker import clauses as table
from crabpot.backends.docker import facts as machine
from crabpot.backends.docker import user as users
from crabpot.backends.docker.engine import Engine, EngineAway, EngineError, EngineRefused
from crabpot.backends.docker.opening import Opening
from crabpot.backends.linux import held_files
from crabpot.errors import SandboxUnavailable
from crabpot.spec.spec import User

if TYPE_CHECKING:
    from collections.abc import Mapping

    from crabpot.backends.base import Clause
    from crabpot.backends.docker.facts import Facts
    from crabpot.backends.docker.sandbox import DockerSandbox
    from crabpot.layers.layer import Mechanism
    from crabpot.spec.spec import SandboxSpec

# An engine starts containers one after the other anyway; more at once only makes each of them time out.
_AT_ONCE = 8
_NOT_FOUND = 404


class Docker:
    """Makes sandboxes on the local engine. Does not contact it before the first probe or opening."""

    name = "docker"

    def __init__(self, *, state: str, environ: Mapping[str, str], home: str) -> None:
        self._home = f"{os.path.realpath(state)}/docker"
        self._state = state
        self._environ = environ
        self._user_home = home
        self._interpreters = image.Interpreters(self._home)
        self._known: tuple[Engine, Facts] | None = None
        self._looking = asyncio.Lock()
        self._trying = asyncio.Lock()
        self._turn = asyncio.Semaphore(_AT_ONCE)

    async def probe(self, spec: SandboxSpec) -> tuple[Clause, ...]:
        """Return for each clause of the spec whether this engine enforces, degrades or refuses it."""
        return table.clauses(spec, (await self._judge(spec))[1])

    async def mechanism(self, spec: SandboxSpec) -> Mechanism:  # noqa: ARG002  the same for every folder
        """Return that a folder is put under review as a copy: an engine mounts no overlay of ours."""
        return "copy"

    async def close(self) -> None:
        """Do nothing: it keeps nothing between openings."""

    async def open(self, spec: SandboxSpec) -> DockerSandbox:
        """Make the sandbox and start its runner, or raise SandboxUnavailable."""
        engine, found = await self._judge(spec)
        refused = [clause for clause in table.clauses(spec, found) if clause.state == "refused"]
        user = None if found.choice is None else found.choice.user
        if engine is None or refused or isinstance(found.facts, str) or isinstance(found.image, str) or user is None:
            reasons = "; ".join(f"{clause.name}: {clause.how}" for clause in refused)
            raise SandboxUnavailable(f"docker cannot open this sandbox: {reasons}")
        try:
            async with self._turn:
                return await self._open(engine, spec, found.facts, found.image, user, found.disk)
        except EngineError as error:
            raise self._failed(error, spec) from None
        except OSError as error:
            raise SandboxUnavailable(f"the sandbox could not be opened: {error}") from error

    async def _open(  # noqa: PLR0913, PLR0917  all that was found out
        self, engine: Engine, spec: SandboxSpec, facts: Facts, found: image.Image, user: User, disk: str | None
    ) -> DockerSandbox:
        await watching.ensure(engine)
        runner = bundle.runner(self._home)
        plan = render.ContainerPlan(
            image_id=found.id,
            interpreter="",
            user=user,
            binds=(runner,),
            seccomp=profile.read(spec.docker.seccomp),
            cpus=facts.cpus,
            apparmor=spec.docker.apparmor if "apparmor" in facts.security else None,
            disk=disk,
            image_env=found.env,
            image_volumes=found.volumes,
            gvisor=spec.docker.runtime in facts.gvisor,
            labels=render.labels(spec, owned_by=owner.own(), state=owner.state_label(self._state)),
        )
        async with self._trying:
            interpreter = await self._interpreters.of(engine, spec, plan)
        with held_files.Fds() as fds:
            keeper = users.outside(user, gateway=_gateway(), mapping=_mapping(facts))
            held = held_files.hold_all(spec, keeper, fds)
            if facts.remapped and spec.kept is not None and keeper == _gateway():
                # A folder that ids inside cannot own is opened to all of them; it lies where only the gateway can go.
                os.chmod(spec.kept, 0o777)  # noqa: S103  as above
            shown = tuple(render.Bind(source=one.path, target=one.target, access=one.access) for one in held)
            own = [
                runner,
                *bundle.names(self._home, user, home_inside=spec.home_at),
                *bundle.commands(self._home, spec.host_commands, interpreter),
                bundle.fallbacks(self._home, interpreter),
            ]
            if spec.network.proxied:
                own.append(bundle.ssh(self._home, interpreter))
            plan = replace(plan, interpreter=interpreter, binds=(*shown, *own))
            return await Opening(engine, facts, spec, _hello(spec)).run(plan, held)

    async def look_at(self, name: str) -> tuple[Facts, str | None]:
        """Return what is known of the engine, and when an image was made; None if it has none of that name."""
        try:
            engine, facts = await self._look()
            found = await image.find(engine, name)
        except EngineError as error:
            raise self._failed(error, None) from None
        return facts, None if isinstance(found, str) else found.created

    async def _judge(self, spec: SandboxSpec) -> tuple[Engine | None, table.Findings]:
        try:
            engine, facts = await self._look()
            found = await image.find(engine, spec.docker.image)
            network = await _network(engine, spec)
        except SandboxUnavailable as refusal:
            return None, table.Findings(facts=str(refusal))
        except EngineError as error:
            return None, table.Findings(facts=str(self._failed(error, None)))
        folder = None if spec.kept is not None else folders.owner_of(spec.workspace)
        return engine, table.Findings(
            facts=facts,
            image=found,
            choice=users.choose(spec, gateway=_gateway(), folder=folder, mapping=_mapping(facts)),
            network=network,
            seccomp=profile.problem(spec.docker.seccomp),
            disk=folders.disk_of(spec.kept or spec.workspace),
        )

    async def _look(self) -> tuple[Engine, Facts]:
        """Find the engine and its facts, once: a hundred concurrent openings wait for one lookup."""
        async with self._looking:
            if self._known is None:
                engine = Engine(location.find(self._environ, self._user_home))
                facts = await machine.find_out(engine)
                # If the state folder cannot be written, no sandbox was ever made from it.
                with suppress(OSError):
                    await orphans.reap(engine, owner.state_label(self._state))
                self._known = engine, facts
            return self._known

    def _failed(self, error: EngineError, spec: SandboxSpec | None) -> SandboxUnavailable:
        if isinstance(error, EngineAway):
            self._known = None  # It may come back as another engine.
        return remedy.explain(error, spec)


def _gateway() -> User:
    return User(uid=os.geteuid(), gid=os.getegid())


def _mapping(facts: Facts) -> users.Mapping | None:
    return users.Mapping(first_ids=facts.first_ids) if facts.remapped else None


def _hello(spec: SandboxSpec) -> dict[str, Any]:
    """Return the runner's greeting. The cgroup counts its processes; an rlimit would count that user's on the host."""
    hello = greeting(spec)
    hello["limits"]["processes"] = None
    return hello


async def _network(engine: Engine, spec: SandboxSpec) -> str | None:
    """Return why a network of docker's own cannot be used, or None."""
    if spec.network.kind != "named":
        return None
    name = spec.network.name
    try:
        said = await engine.get(f"/networks/{name}")
    except EngineRefused as error:
        if error.status == _NOT_FOUND:
            return f"the engine has no network {name}: docker network create {name}, or choose another"
        raise
    if said.get("Driver") in ("host", "null") or said.get("Name") != name:
        # By its id the host's own network could be used under a name that warns nobody.
        return (
            f'"{name}" is not the name of a network that a container can join; write "none", "bridge", "host" or a name'
        )
    return None
