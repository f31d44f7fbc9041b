"""What an agreement for longer covers: never what a program executes of the agent's folder."""

from __future__ import annotations

import asyncio
import os
import shutil
from typing import TYPE_CHECKING, Any

from crabpot.app import start
from crabpot.approvals import desk as desks
from crabpot.approvals.requests import Answer
from crabpot.audit.reading import AuditReader
from crabpot.host_commands.host import Host
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path

    import pytest

    from crabpot.approvals.requests import Request

CONFIG = """{
  agents: { defaults: { workspace: "WS", sandbox: { workspace: "rw", backend: "bubblewrap" } } },
  tools: { elevated: { enabled: true, patterns: ["make *", "ls *"] } },
}"""


class Person:
    """An operator who agrees for the whole session."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.answer = Answer(allowed=True, grant="session", by="person")

    async def ask(self, request: Request) -> Answer:
        self.asked.append(request)
        return self.answer


async def test_a_build_elsewhere_in_the_folder_is_asked_about_again_and_what_executes_nothing_is_not(
    folder: Path,
) -> None:
    """`make -C sub` obeys a file that no list of the folder's own files has."""
    (folder / "ws" / "sub").mkdir(parents=True)
    if os.geteuid() == 0:
        for one in (folder / "ws", folder / "ws" / "sub"):
            shutil.chown(one, 1000, 1000)
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    app = start(config=None, state=str(folder / "state"), environ=environ)
    gateway = app.gateway(CONFIG.replace("WS", str(folder / "ws")))
    person = Person()
    gateway.desk.attach(person)

    async def run(command: str) -> Any:
        return await gateway.call("agent:main:x", "exec", command=command, timeout=60)

    try:
        await gateway.call("agent:main:x", "write", path="sub/Makefile", content="all:\n\t@echo agreed to\n")
        first = await run("make -C sub all")
        assert (first.place, "agreed to" in first.stdout) == ("host", True), first
        for _ in range(2):
            assert (await run("ls sub")).success
        assert [asked.argv[0] for asked in person.asked] == ["make", "ls"]
        assert [asked.lasting for asked in person.asked] == [False, True]
        await gateway.call("agent:main:x", "write", path="sub/Makefile", content="all:\n\t@echo something else\n")
        person.answer = Answer(allowed=False, by="person")
        second = await run("make -C sub all")
        assert second.error.code == "approval_denied"
        assert "something else" not in second.stdout
        assert len(person.asked) == 3
    finally:
        await gateway.close()


class Silent:
    """An operator who is there, and does not answer."""

    async def ask(self, _request: Request) -> Answer:
        return await asyncio.Future()


async def test_a_command_that_nobody_will_be_asked_about_is_refused_before_its_guard_is_made(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Making a guard takes milliseconds of the gateway, and an agent may try without end."""
    monkeypatch.setattr(desks, "_MOST_OF_A_SCOPE", 1)
    planned: list[tuple[str, ...]] = []
    prepare = Host.prepare

    async def counted(host: Host, argv: tuple[str, ...], *args: Any, **more: Any) -> Any:
        planned.append(argv)
        return await prepare(host, argv, *args, **more)

    monkeypatch.setattr(Host, "prepare", counted)
    app = start(config=None, state=str(folder / "state"), environ={"PATH": os.environ["PATH"], "HOME": str(folder)})
    gateway = app.gateway(CONFIG.replace("WS", str(folder / "ws")).replace('"rw"', '"none"'))
    gateway.desk.attach(Silent())
    try:
        waiting = asyncio.create_task(gateway.call("agent:main:x", "exec", command="ls -l"))
        await until(gateway.desk.pending)
        refused = await gateway.call("agent:main:x", "exec", command="ls -a")
        assert refused.error is not None
        assert (refused.error.code, refused.place) == ("approval_denied", "none"), refused
        assert "too many requests of agent:main:x are already waiting" in refused.error.message
        assert planned == [("ls", "-l")]
        assert gateway.desk.answer(gateway.desk.pending()[0].id, Answer(allowed=False, by="person"))
        await waiting
    finally:
        await gateway.close()
    calls = [record for record in AuditReader(str(folder / "state")).last(20) if record["kind"] == "call"]
    assert [record["error"] for record in calls] == ["approval_denied"] * 2
