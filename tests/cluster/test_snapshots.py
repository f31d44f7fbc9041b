"""Snapshots and forks of a folder under review in a pod, and an approval that a command in one waits for."""

from __future__ import annotations

import json
import os
import subprocess
from typing import TYPE_CHECKING

from crabpot.approvals.requests import Answer
from crabpot.sandboxes.snapshots import Snapshots
from tests.support.suites import TOLD, open_gateway

if TYPE_CHECKING:
    from pathlib import Path

    from crabpot.approvals.requests import Request
    from crabpot.gateway import Gateway


async def out(gateway: Gateway, session: str, command: str) -> str:
    result = await gateway.call(session, "exec", command=command)
    assert (result.exit_code, result.error) == (0, None), result
    return result.stdout


async def test_a_reviewed_folder_is_kept_put_back_and_forked(tmp_path: Path) -> None:
    folder = tmp_path / "project"
    folder.mkdir()
    (folder / "file").write_text("the host's\n")
    sandbox = {"backend": "kubernetes", "workspace": "review", **TOLD["kubernetes"]}
    text = json.dumps({"agents": {"defaults": {"workspace": str(folder), "sandbox": sandbox}}})
    one, two = (f"agent:main:{os.urandom(4).hex()}" for _ in range(2))
    gateway = open_gateway(text, str(tmp_path / "state"))
    try:
        snapshots = Snapshots(gateway.execution, gateway.settings, gateway.audit)
        await out(gateway, one, "echo first > file; echo new > added; ln -s file link; chmod 700 added")
        await snapshots.save(one, "before")
        await out(gateway, one, "echo second > file; rm added link")
        await snapshots.fork(one, two)
        # The other pod goes on from the second state, and neither sees what the other does then.
        assert await out(gateway, two, "cat file; ls") == "second\nfile\n"
        await out(gateway, two, "echo third > file")
        await snapshots.restore(one, "before")
        assert await out(gateway, one, "cat file added link; stat -c %a added") == "first\nnew\nfirst\n700\n"
        assert await out(gateway, two, "cat file") == "third\n"
        assert (folder / "file").read_text() == "the host's\n"
    finally:
        await gateway.close()


def bare(folder: Path) -> Path:
    subprocess.run(["git", "init", "-q", "--bare", folder], check=True)
    return folder


class Person:
    """An operator who says no until told otherwise, and remembers what was asked."""

    def __init__(self) -> None:
        self.asked: list[Request] = []
        self.agrees = False

    async def ask(self, request: Request) -> Answer | None:
        self.asked.append(request)
        return Answer(allowed=self.agrees, by="person")


async def test_a_shim_in_a_pod_waits_for_a_person_and_is_relayed_when_they_agree(tmp_path: Path) -> None:
    remote = bare(tmp_path / "remote.git")
    sandbox = {"backend": "kubernetes", "hostCommands": ["git"], **TOLD["kubernetes"]}
    gateway = open_gateway(json.dumps({"agents": {"defaults": {"sandbox": sandbox}}}), str(tmp_path / "state"))
    person, session = Person(), f"agent:main:{os.urandom(4).hex()}"
    gateway.desk.attach(person)
    # A program of the pod's starts it, so it is no command of the agent's but an upcall of the runner's.
    script = f"sh -c 'git clone -q {remote} cloned; echo $?'; ls"
    try:
        assert await out(gateway, session, script) != "0\ncloned\n"
        person.agrees = True
        assert await out(gateway, session, script) == "0\ncloned\n"
        assert {one.argv[:2] for one in person.asked} == {("git", "clone")}
        assert len(person.asked) == 2
    finally:
        await gateway.close()
