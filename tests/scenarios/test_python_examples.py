"""The examples in the Python API's docstrings run as they are written, on the embedded backend."""

from __future__ import annotations

import asyncio
import doctest
import os

import pytest

import crabpot
import crabpot.sync

PUBLIC = [
    *(getattr(crabpot, name) for name in crabpot.__all__),
    crabpot.Gateway.call,
    crabpot.Gateway.open,
    crabpot.Gateway.register,
    crabpot.Gateway.session,
    crabpot.Box.fork,
    crabpot.Session.call,
    crabpot.Session.snapshot,
    crabpot.Session.exec,
    crabpot.Session.write,
    crabpot.sync,
]
DOCUMENTED = [
    "Answer",
    "ConfigError",
    "Gateway.call",
    "Gateway.open",
    "Gateway.register",
    "Request",
    "ToolResult",
    "sandbox",
    "named_sandboxes",
    "Gateway.session",
    "Session.call",
    "Session.exec",
    "Files.write",
    "crabpot.sync",
]


def examples() -> dict[str, doctest.DocTest]:
    finder = doctest.DocTestFinder(exclude_empty=True)
    found = [
        test
        for one in PUBLIC
        for test in finder.find(one, getattr(one, "__qualname__", None) or getattr(one, "__name__", None))
    ]
    return {test.name: test for test in found if test.examples}


EXAMPLES = examples()


@pytest.fixture(scope="module", autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory):
    """Return a home without a configuration, and skip, or fail where it is required, if no sandbox opens."""
    made = tmp_path_factory.mktemp("home")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(made))
        for name in [name for name in os.environ if name.startswith(("XDG_", "CRABPOT_CONFIG", "CRABPOT_STATE"))]:
            patch.delenv(name)
        result = asyncio.run(one_call())
        if result.error is not None and result.error.code == "sandbox_unavailable":
            required = "bubblewrap" in os.environ.get("CRABPOT_REQUIRE_BACKENDS", "")
            (pytest.fail if required else pytest.skip)(result.error.message)
        yield


async def one_call() -> crabpot.ToolResult:
    async with crabpot.sandbox(backend="bubblewrap") as box:
        return await box.call("exec", command="true")


@pytest.mark.parametrize("name", DOCUMENTED)
def test_what_a_program_calls_has_an_example(name: str) -> None:
    assert name in EXAMPLES


@pytest.mark.parametrize("name", sorted(EXAMPLES))
def test_the_example_runs_as_written(name: str) -> None:
    said: list[str] = []
    outcome = doctest.DocTestRunner().run(EXAMPLES[name], out=said.append)
    assert outcome.attempted > 0
    assert outcome.failed == 0, "".join(said)
