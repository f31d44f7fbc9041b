"""`image build`, `image list` and `render dockerfile`."""

from __future__ import annotations

import asyncio
import json
import os
import shlex
import sys
import time
from typing import TYPE_CHECKING, TypeVar

from crabpot.backends.docker import folders, location
from crabpot.backends.docker.engine import Engine, EngineError
from crabpot.backends.linux.limits import amount
from crabpot.decide.sessions import parse as parse_session
from crabpot.doors.cli.frame import OK, UsageError, note
from crabpot.doors.cli.show import visible
from crabpot.errors import CrabpotError
from crabpot.images import building, dockerfile, listing, packages
from crabpot.images.recipe import Recipe
from crabpot.spec import binds, network
from crabpot.spec.build import parse_user
from crabpot.spec.naming import is_docker_word, is_package_name
from crabpot.spec.spec import User

if TYPE_CHECKING:
    from argparse import Namespace
    from collections.abc import Awaitable, Callable

    from crabpot.app import App
    from crabpot.doors.cli.frame import Frame
    from crabpot.settings import AgentSettings

Answer = TypeVar("Answer")

_USUAL = User(uid=1000, gid=1000)


def as_dockerfile(frame: Frame, options: Namespace) -> int:
    """Print the Dockerfile of the image of a session's sandboxes."""
    app = frame.app()
    recipe = _recipe(app, _agent(app, options.session), options)
    sys.stdout.write(dockerfile.text(recipe, base=_word(options.base or packages.BASE)))
    return OK


def build(frame: Frame, options: Namespace) -> int:
    """Build the image, and print its name."""
    if options.from_packages and (options.base is not None or options.network is not None):
        raise UsageError("--from-packages does not build with an engine: drop --base and --network")
    if options.output is not None and not options.from_packages:
        raise UsageError("--output is for an image that no engine builds: add --from-packages")
    if options.network is not None and (wrong := network.problem_with_name(options.network)):
        raise UsageError(wrong)
    app = frame.app()
    agent = _agent(app, options.session)
    recipe = _recipe(app, agent, options)
    tag = _word(options.tag or agent.sandbox.docker.image)
    order = building.Order(
        recipe=recipe,
        tag=tag if ":" in tag.rpartition("/")[2] else f"{tag}:latest",
        cache=options.cache,
        base=None if options.base is None else _word(options.base),
        network=options.network,
        checked=not options.anyway,
        again=options.again,
    )
    _look_at_workspace(app, agent, recipe.user)
    if options.output is not None:
        asyncio.run(building.to_archive(order, options.output, _progress()))
    else:
        make = building.from_packages if options.from_packages else building.from_dockerfile
        asyncio.run(_with_engine(app, lambda engine: make(engine, order, _progress())))
    print(f"{order.tag}: {recipe.labels['crabpot.image.groups']}, user {recipe.user.uid}:{recipe.user.gid}")
    return OK


def list_images(frame: Frame, options: Namespace) -> int:
    """List the images that Crabpot built."""
    made = asyncio.run(_with_engine(frame.app(), listing.made))
    if options.json:
        print(json.dumps([one.as_json() for one in made], indent=1))
        return OK
    if not made:
        print("no images; build one with: crabpot image build")
    for one in made:
        contents = "+".join((*one.groups, *one.extra))
        name = one.name or f"(no name) {one.id.removeprefix('sha256:')[:12]}"
        print(visible(f"{name:<32} {_age(one.created):>10} {amount(one.size_bytes):>10}  {one.user:<12} {contents}"))
    return OK


async def _with_engine(app: App, work: Callable[[Engine], Awaitable[Answer]]) -> Answer:
    engine = Engine(location.find(app.environ, app.around.home))
    try:
        await engine.negotiate()
        return await work(engine)
    except EngineError as error:
        raise CrabpotError(str(error)) from None


def _progress() -> Callable[[str], None]:
    began = time.monotonic()

    def tell(text: str) -> None:
        print(f"crabpot: {time.monotonic() - began:5.0f} s  {visible(text)}", file=sys.stderr, flush=True)

    return tell


def _agent(app: App, session: str) -> AgentSettings:
    settings = app.settings()
    return settings.agent(parse_session(session, default_agent=settings.default_agent).agent)


def _recipe(app: App, agent: AgentSettings, options: Namespace) -> Recipe:
    chosen = agent.sandbox.docker.packages
    extra = tuple(options.package) or chosen.extra
    for name in extra:
        if not is_package_name(name):
            raise UsageError(f'"{name}" cannot be the name of a Debian package')
    try:
        user = _user(app, agent) if options.user is None else parse_user(options.user)
    except ValueError as error:
        raise UsageError(f"--user: {error}") from None
    return Recipe(groups=tuple(options.group) or chosen.groups, extra=extra, user=user)


def _user(app: App, agent: AgentSettings) -> User:
    """Return the user of the sandboxes: as configured, the owner of a writable workspace, or the caller. Never root."""
    if agent.sandbox.user is not None:
        return parse_user(agent.sandbox.user)
    owner = _owner(app, agent)
    own = User(uid=os.geteuid(), gid=os.getegid())
    return next((one for one in (owner, own) if one is not None and one.uid and one.gid), _USUAL)


def _owner(app: App, agent: AgentSettings) -> User | None:
    found = (
        folders.owner_of(binds.expand(agent.workspace, app.around.home)) if agent.sandbox.workspace == "rw" else None
    )
    return None if found is None else User(uid=found.uid, gid=found.gid)


def _look_at_workspace(app: App, agent: AgentSettings, user: User) -> None:
    owner = _owner(app, agent)
    if owner is not None and owner.uid != user.uid:
        folder = shlex.quote(binds.expand(agent.workspace, app.around.home))
        note(
            f"the workspace {folder} belongs to {owner.uid}:{owner.gid}, the image's user is {user.uid}:{user.gid}: "
            f"chown -R {user.uid}:{user.gid} {folder}, or --user {owner.uid}:{owner.gid}"
        )


def _word(name: str) -> str:
    if not is_docker_word(name):
        raise UsageError(f'"{name}" cannot be the name of an image')
    return name


def _age(created: int) -> str:
    seconds = max(time.time() - created, 0)
    for unit, length in (("days", 86_400), ("hours", 3600), ("minutes", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"
