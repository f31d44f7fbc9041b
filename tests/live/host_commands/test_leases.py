"""What an agreement for longer covers: never what a program executes of the agent's folder."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING, Any

from crabpot.app import start
from crabpot.approvals.requests import Answer

if TYPE_CHECKING:
    from pathlib import Path

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
