"""The composition root: the only place that wires settings, state, backends and machine together."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from functools import cache, partial
from typing import TYPE_CHECKING

from crabpot.config.places import find_config, find_homes, find_keys, find_sockets, find_state
from crabpot.frozen import dataclass
from crabpot.spec.binds import Surroundings
from crabpot.spec.network import describe

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crabpot.approvals.desk import Desk
    from crabpot.audit.store import AuditLog
    from crabpot.backends.base import Backend, Clause
    from crabpot.backends.registry import OnOpened, Registry
    from crabpot.decide.scope import Scope
    from crabpot.egress.authority import Authority
    from crabpot.egress.reaching import Egress, EgressContext
    from crabpot.explain import Explainer
    from crabpot.gateway import Gateway
    from crabpot.host_commands.elevated import ElevatedCommands
    from crabpot.host_commands.host import Host
    from crabpot.host_commands.shims import HostCommands
    from crabpot.proof.doctor.examination import Doctor
    from crabpot.settings import Settings
    from crabpot.spec.spec import SandboxSpec
    from crabpot.wire.upcalls import Answers

    Connecting = Callable[[Scope, Authority | None], Egress]

# Says it for one shell or one job of a CI, over `gateway.linger`.
LINGER = "CRABPOT_LINGER"

# Each part is imported when it is wired: a command pays only for what it uses.
# ruff: noqa: PLC0415


@dataclass(frozen=True, slots=True, kw_only=True)
class App:
    """One invocation: which configuration, which state, on which machine."""

    config: str | None
    around: Surroundings
    environ: Mapping[str, str]
    # What host commands and secrets see: the variables of each caller, where a gateway has many.
    callers: Mapping[str, str] | None = None

    def with_callers(self, names: frozenset[str]) -> App:
        """Return the same app for a gateway whose callers bring the variables of these names."""
        from crabpot.sandboxes.callers import CallersEnvironment

        callers = CallersEnvironment(self.environ, names)
        return replace(self, environ=callers.own, callers=callers)

    def linger(self, settings: Settings) -> float:
        """Return for how many seconds a gateway stays after its last call."""
        from crabpot.errors import CrabpotError
        from crabpot.settings import Duration

        given = self.environ.get(LINGER)
        try:
            return settings.gateway.linger if given is None else Duration.parse(given)
        except ValueError as error:
            raise CrabpotError(f"{LINGER} {error}") from None

    def again(self) -> App:
        """Return the same app with the configuration that is found now: one may have been written since."""
        return replace(self, config=self.config or find_config(None, self.environ, self.around.home))

    def settings(self) -> Settings:
        """Load the configuration, or raise ConfigError."""
        from crabpot.config.load import load

        return load(self.config, self.around, self.environ)

    def registry(self, on_opened: OnOpened | None = None) -> Registry:
        """Return the backends of this build; `on_opened` is called for each sandbox that opens."""
        from crabpot.backends.bubblewrap.backend import Bubblewrap
        from crabpot.backends.registry import Deferred, Registry

        backends: dict[str, Backend] = {
            "bubblewrap": Bubblewrap(state=self.around.state),
            "docker": Deferred("docker", self._docker),
            "kubernetes": Deferred("kubernetes", self._kubernetes),
            "socket": Deferred("socket", self._socket),
        }
        return Registry(backends, on_opened)

    def _docker(self) -> Backend:
        from crabpot.backends.docker.backend import Docker

        return Docker(state=self.around.state, environ=self.environ, home=self.around.home)

    def _kubernetes(self) -> Backend:
        from crabpot.backends.kubernetes.backend import Kubernetes

        return Kubernetes(environ=self.environ, home=self.around.home)

    def _socket(self) -> Backend:
        from crabpot.backends.socket.backend import Socket

        return Socket(home=self.around.home)

    def explainer(self) -> Explainer:
        """Wire the explainer behind `explain`."""
        from crabpot.explain import Explainer

        return Explainer(settings=self.settings(), around=self.around, registry=self.registry())

    def doctor(self) -> Doctor:
        """Wire the doctor; a configuration that does not load is one of its findings, and does not stop it."""
        from crabpot.backends.bubblewrap.backend import Bubblewrap
        from crabpot.backends.docker.backend import Docker
        from crabpot.backends.kubernetes.backend import Kubernetes
        from crabpot.errors import CrabpotError
        from crabpot.proof.doctor.examination import Doctor

        settings: Settings | CrabpotError
        try:
            settings = self.settings()
        except CrabpotError as error:
            settings = error
        return Doctor(
            settings=settings,
            around=self.around,
            registry=self.registry(),
            bubblewrap=Bubblewrap(state=self.around.state),
            docker=Docker(state=self.around.state, environ=self.environ, home=self.around.home),
            kubernetes=Kubernetes(environ=self.environ, home=self.around.home),
        )

    def gateway(
        self, text: str | None = None, settings: Settings | None = None, *, kind: type[Gateway] | None = None
    ) -> Gateway:
        """Wire the gateway, over the configuration file or over one that a program passes as text or settings.

        `kind` is what is made of it, for a door that adds to it.
        """
        from crabpot import tracing
        from crabpot.approvals.desk import Desk
        from crabpot.audit.records import of_opening
        from crabpot.audit.store import AuditLog
        from crabpot.backends.linux import procs
        from crabpot.config.load import from_text
        from crabpot.gateway import Gateway
        from crabpot.host_commands.elevated import ElevatedCommands
        from crabpot.sandboxes.answering import Answering
        from crabpot.sandboxes.execution import Execution
        from crabpot.sandboxes.fleet import Fleet
        from crabpot.state.ownership import take

        if settings is None:
            settings = self.settings() if text is None else from_text(text, None, self.around, self.environ)
        take(self.around.state)
        _allow_many_files()
        audit = AuditLog(self.around.state, settings.audit)
        audit.open()

        def on_opened(spec: SandboxSpec, backend: str, clauses: tuple[Clause, ...], seen: Mapping[str, str]) -> None:
            kept = [clause.as_json() for clause in clauses]
            audit.record(of_opening(spec, backend, kept, procs.digest(seen)))

        fleet = Fleet(limits=settings.gateway)
        execution = Execution(around=self.around, registry=self.registry(on_opened), environ=self.environ, fleet=fleet)
        desk = Desk(self.around.state)
        elevated = ElevatedCommands(desk=desk, audit=audit, execution=execution, host=self._host(settings))
        egress = self._egress(audit, desk, lambda: gateway.settings.file)
        commands = _commands(elevated)
        answering = Answering()
        execution.opener.answering = lambda scope, authority: answering.on_behalf_of(
            scope, {**_connections(egress, scope, authority), **commands(scope)}
        )
        gateway = (kind or Gateway)(settings=settings, execution=execution, elevated=elevated, audit=audit)
        self._serve_servers(gateway, egress)
        tracing.trace(gateway, self.environ)
        return gateway

    async def adopt(self, gateway: Gateway, settings: Settings) -> None:
        """Have a gateway that this app wired go on with other settings."""
        await gateway.adopt(settings)
        if gateway.servers is None:
            self._serve_servers(gateway, self._egress(gateway.audit, gateway.desk, lambda: gateway.settings.file))
        else:
            await gateway.servers.adopt(settings)
        gateway.execution.warm_up(settings)

    def _serve_servers(self, gateway: Gateway, egress: Connecting) -> None:
        settings, execution, record = gateway.settings, gateway.execution, gateway.audit.record
        if settings.mcp.servers:
            from crabpot.servers.pool import Servers

            gateway.servers = Servers(
                settings=settings,
                execution=execution,
                environ=self.environ,
                record=record,
                egress=egress,
                desk=gateway.desk,
            )

    def _host(self, settings: Settings) -> Callable[[], Host]:
        @cache
        def host() -> Host:
            from crabpot.host_commands.host import Host

            return Host(settings=settings, around=self.around, environ=self.callers or self.environ)

        return host

    def _egress(self, audit: AuditLog, desk: Desk, file: Callable[[], str | None]) -> Connecting:
        """Return what makes the connections of a scope."""

        @cache
        def context() -> EgressContext:
            from crabpot.egress.reaching import EgressContext
            from crabpot.egress.resolving import SystemResolver
            from crabpot.egress.secrets import Secrets

            secrets = Secrets(self.callers or self.environ, self.around.home)
            return EgressContext(
                resolver=SystemResolver(), secrets=secrets, record=audit.record, desk=desk, config=file
            )

        def of_scope(scope: Scope, authority: Authority | None) -> Egress:
            from crabpot.egress.reaching import Egress

            return Egress(scope, context(), authority)

        return of_scope

    def elsewhere(self, state: str) -> App:
        """Return the same app on another state folder: what is tried there leaves no trace in this one."""
        return replace(self, around=replace(self.around, state=state))

    def sessions_seen(self) -> list[str]:
        """List the sessions that ever called: no program's own sandboxes, refused keys or installations."""
        from crabpot.audit import FILE_NAME

        if not os.path.exists(os.path.join(self.around.state, FILE_NAME)):
            return []
        from crabpot.audit.tables import sessions
        from crabpot.decide.servers import is_installation
        from crabpot.decide.sessions import is_box, names_a_session

        seen = [key for key in sessions(self.around.state) if names_a_session(key) and not is_box(key)]
        return [key for key in seen if not is_installation(key)]


def start(
    *, config: str | os.PathLike[str] | None, state: str | os.PathLike[str] | None, environ: Mapping[str, str]
) -> App:
    """Locate the configuration and the state folder without reading either."""
    home = environ.get("HOME") or os.path.expanduser("~")
    file = find_config(None if config is None else os.fspath(config), environ, home)
    around = Surroundings(
        home=home,
        state=find_state(None if state is None else os.fspath(state), environ, home),
        config=file or "",
        runtime_sockets=find_sockets(environ),
        other_homes=find_homes(home),
        code=(os.path.dirname(os.path.abspath(__file__)), sys.prefix),
        keys=find_keys(environ, home),
    )
    return App(config=file, around=around, environ=environ)


def _connections(egress: Connecting, scope: Scope, authority: Authority | None) -> Answers:
    """Return what answers the `connect` upcalls of a scope's sandboxes."""
    if not describe(scope.agent.sandbox.network).proxied:
        return {}
    from crabpot.egress.proxy import serve

    return {"connect": partial(serve, egress(scope, authority))}


def _commands(elevated: ElevatedCommands) -> Callable[[Scope], Answers]:
    """Return what answers the host command upcalls of a scope's sandboxes."""

    @cache
    def commands() -> HostCommands:
        from crabpot.host_commands.shims import HostCommands

        return HostCommands(elevated=elevated)

    return lambda scope: commands().answers(scope) if scope.agent.sandbox.host_commands else {}


def _allow_many_files() -> None:
    """Raise the limit of open files to its maximum: a gateway holds a few descriptors for each sandbox."""
    import resource

    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
