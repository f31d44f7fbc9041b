"""What every test stands on: how tests are handed out, coroutines as tests, and the fixtures that several folders use."""

from __future__ import annotations

import asyncio
import gc
import inspect
import os
import tempfile
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings
from xdist.scheduler import LoadGroupScheduling

from crabpot.config.load import from_text
from crabpot.errors import ConfigError
from crabpot.spec.binds import Surroundings
from tests.support import doors, gateways
from tests.support.machines import Machine

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

    from xdist.remote import Producer

    from crabpot.settings import AgentSettings, Settings

PATIENCE_S = 240.0
# Whatever starts the command line with our environment leaves no gateway behind.
os.environ["CRABPOT_LINGER"] = "0"
# A busy machine is no failure of a property, so nothing here looks at the clock.
_BUSY = [HealthCheck.too_slow]
settings.register_profile("quick", max_examples=60, deadline=None, suppress_health_check=_BUSY)
settings.register_profile("thorough", max_examples=3000, deadline=None, suppress_health_check=_BUSY)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


class ByFile(LoadGroupScheduling):
    """A file stays with one worker, for what its tests share; `xdist_group` cuts a long file up, or keeps several together."""

    def _split_scope(self, nodeid: str) -> str:
        scope = super()._split_scope(nodeid)
        return nodeid.partition("::")[0] if scope == nodeid else scope


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> ByFile:
    """Hand tests out by file, in the order in which they were collected."""
    return ByFile(config, log)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Look for no garbage among the tests: all of it stays, and every search would go through ten thousand of them."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Run a test that is a coroutine. What asyncio would only have logged fails it."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    complaints: list[dict[str, Any]] = []

    async def bounded() -> None:
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        async with asyncio.timeout(PATIENCE_S):
            await pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames})

    if "shared_loop" in pyfuncitem.fixturenames:
        pyfuncitem._request.getfixturevalue("shared_loop").run(bounded())
    else:
        asyncio.run(bounded())
    assert complaints == []
    return True


@pytest.fixture(scope="module")
def shared_loop() -> Iterator[asyncio.Runner]:
    """Run a file's tests in one loop, for something that they share and that lives in a loop."""
    with asyncio.Runner() as runner:
        yield runner


@pytest.fixture(scope="session")
def around(tmp_path_factory: pytest.TempPathFactory) -> Surroundings:
    """Return a home of its own, with Crabpot's files where they usually are."""
    home = str(tmp_path_factory.mktemp("home"))
    return Surroundings(home=home, state=f"{home}/.local/state/crabpot", config=f"{home}/.config/crabpot/crabpot.json5")


@pytest.fixture(scope="session")
def load_text(around: Surroundings) -> Callable[..., Settings]:
    """Load a text as if it stood in the usual file."""

    def load(text: str, **environ: str) -> Settings:
        return from_text(text, around.config, around, environ)

    return load


@pytest.fixture(scope="session")
def agent_of(load_text: Callable[..., Settings]) -> Callable[..., AgentSettings]:
    """Load a text and give one agent's settings."""

    def agent(text: str, name: str = "main") -> AgentSettings:
        return load_text(text).agent(name)

    return agent


@pytest.fixture(scope="session")
def refused(load_text: Callable[..., Settings]) -> Callable[..., str]:
    """Load a text that must not load, and return what is said about it."""

    def refuse(text: str, **environ: str) -> str:
        with pytest.raises(ConfigError) as caught:
            load_text(text, **environ)
        return str(caught.value)

    return refuse


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """Return a folder that every user of the machine can reach and write, as tmp_path is not."""
    with tempfile.TemporaryDirectory(prefix="crabpot-test-") as made:
        folder = Path(made)
        folder.chmod(0o777)
        yield folder


@pytest.fixture
def bench(tmp_path: Path) -> Callable[..., Any]:
    """Open a gateway for as long as a block lasts."""
    return partial(gateways.opened, tmp_path)


@pytest.fixture
def door(bench: Callable[..., Any]) -> Callable[..., Any]:
    """Open a gateway's HTTP door for as long as a block lasts."""

    @asynccontextmanager
    async def make(*config: Any, limits: Any = None, **options: Any) -> AsyncIterator[doors.Door]:
        async with bench(*config, **options) as made, doors.opened(made, limits) as door:
            yield door

    return make


@pytest.fixture
def machine_with(tmp_path: Path) -> Iterator[Callable[..., Machine]]:
    """Return a host for elevated commands, of an agent with these sandbox settings."""
    made: list[Machine] = []

    def make(**sandbox: Any) -> Machine:
        made.append(Machine(tmp_path, **sandbox))
        return made[-1]

    yield make
    for machine in made:
        machine.close()


@pytest.fixture
def machine(machine_with: Callable[..., Machine]) -> Machine:
    """Return one whose agent has its workspace rw."""
    return machine_with()
