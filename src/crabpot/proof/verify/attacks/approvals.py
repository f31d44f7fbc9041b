"""Attacks on a person's answer: used twice, used for something else, given by the agent, or overtaken by its files."""

from __future__ import annotations

import os
import time
from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.approvals.requests import Answer, FolderIdentity, Request, new_id
from crabpot.errors import HostRefused
from crabpot.proof.verify.claims import HAND_OFF, Group, NotCarriedOut, Outcome, few
from crabpot.proof.verify.target import Agreeing

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

claim = Group(HAND_OFF)

_WAITS_S = 30.0
_NAME = "crabpot-verify-planted"


def _request(target: Target, *argv: str) -> Request:
    now = time.time()
    return Request(
        id=new_id(),
        session=target.session,
        agent=target.agent.id,
        scope_key=target.spec.scope_key,
        argv=argv,
        pattern="true *",
        source="crabpot verify",
        asked_at=now,
        deadline=now + _WAITS_S,
    )


@claim.about("sandbox", threats=("reused-approval",))
async def cannot_use_an_answer_twice(target: Target) -> Outcome:
    """One yes is for one run of one request, whoever asks again."""
    desk = target.desk()
    try:
        first = _request(target, "true", "once")
        detach = desk.attach(Agreeing(Answer(allowed=True, by="crabpot verify")))
        agreed = await desk.decide(first)
        detach()
        if not agreed.allowed:
            raise NotCarriedOut(f"the first request was not agreed to: {agreed.reason}")
        again = {
            "the same words": (await desk.decide(replace(first, id=new_id()))).allowed,
            "its answer once more": desk.store.use(first) is not None,
            "another answer to it": desk.answer(first.id, Answer(allowed=True, by="agent")),
        }
    finally:
        await desk.close()
    used = [what for what, worked in again.items() if worked]
    return Outcome(
        held=not used,
        tried=f"agreed once, then asked for {', '.join(again)}",
        came_back=f"WORKED: {few(used)}" if used else "none of them",
    )


@claim.about("sandbox", threats=("reused-approval", "disguised-command"))
async def cannot_use_an_answer_for_something_else(target: Target) -> Outcome:
    """An agreement for ten minutes covers this very command line, from this sandbox, sender and folder."""
    desk = target.desk()
    granted = _request(target, "true", "a b")
    others = {
        "words split otherwise": replace(granted, argv=("true", "a", "b")),
        "one more word": replace(granted, argv=("true", "a b", "")),
        "a word that looks alike": replace(granted, argv=("true", "\u0430 b")),
        "another sandbox": replace(granted, scope_key="agent:other:x"),
        "another sender": replace(granted, sender="somebody"),
        "another folder": replace(granted, folder=FolderIdentity(path="/", dev=1, ino=1)),
        "a danger that was not shown": replace(granted, dangers=("runs what the folder says",)),
    }
    try:
        detach = desk.attach(Agreeing(Answer(allowed=True, by="crabpot verify", grant="minutes", minutes=10)))
        await desk.decide(granted)
        detach()
        same = await desk.decide(replace(granted, id=new_id()))
        if not same.allowed:
            raise NotCarriedOut(f"the lease does not even hold for what it was given to: {same.reason}")
        used = [what for what, other in others.items() if (await desk.decide(replace(other, id=new_id()))).allowed]
    finally:
        await desk.close()
    return Outcome(
        held=not used,
        tried=f"agreed for ten minutes, then asked with {few(list(others))}",
        came_back=f"WORKED: {few(used)}" if used else "the very same request was let through, and none of these",
    )


@claim.about("sandbox", threats=("reused-approval", "own-files"))
async def cannot_answer_for_itself(target: Target) -> Outcome:
    """The answers lie in the state folder and behind its socket: neither is reachable inside, under any name."""
    state = target.gateway.execution.around.state
    desk = target.desk()
    try:
        desk.store.add(_request(target, "true", "mine"))
        return await target.attack(
            """
import socket, sqlite3
def write(path):
    with sqlite3.connect("file:%s?mode=rw" % path, uri=True) as base:
        base.execute("UPDATE requests SET answer = '{}'")
    return "written"
def reach(path):
    with socket.socket(socket.AF_UNIX) as one:
        one.settimeout(2)
        one.connect(path[:100])
        return "connected"
def refused(function, path):
    try:
        return function(path)
    except sqlite3.Error as error:
        raise OSError(str(error))
for root in ("", "/proc/1/root", "/proc/self/root", "/oldroot"):
    for name in ("approvals.sqlite", "approvals.sqlite-wal"):
        path = "%s%s/%s" % (root, given["state"], name)
        attempt("open " + path, opened, path, os.O_RDWR)
        attempt("write into " + path, refused, write, path)
    attempt("connect to %s%s/crabpot.sock" % (root, given["state"]), reach, root + given["state"] + "/crabpot.sock")
""",
            state=state,
        )
    finally:
        await desk.close()


@claim.about("filesystem", threats=("disguised-command", "host-git"))
async def cannot_have_a_program_of_its_own_run_on_the_host(target: Target) -> Outcome:
    """A `git` of the agent's own making, in its folder, under its name or by a path."""
    await target.must_run(f"printf '#!/bin/sh\\nid\\n' > {_NAME}; chmod 755 {_NAME}; cp {_NAME} git")
    workspace = target.spec.workspace
    words = (_NAME, f"./{_NAME}", f"/workspace/{_NAME}", f"{workspace}/{_NAME}", "./git", f"../workspace/{_NAME}", "")
    taken, said = [], []
    for word in (*words, "git"):
        try:
            plan = await target.plan(word, "status")
        except HostRefused as refusal:
            said.append(str(refusal))
            continue
        plan.close()
        if os.path.realpath(plan.binary.path).startswith(f"{os.path.realpath(workspace)}/"):
            taken.append(f"{word} as {plan.binary.path}")
    await target.shell(f"rm -f {_NAME} git")
    if not said:
        raise NotCarriedOut("not even a program that does not exist was refused")
    return Outcome(
        held=not taken,
        tried=f"{few([ascii(word) for word in words])} and a `git` in the workspace",
        came_back=f"TAKEN: {few(taken)}" if taken else few(list(dict.fromkeys(said)), 2),
    )


@claim.about("filesystem", threats=("reused-approval", "swapped-folder"))
async def cannot_swap_the_folder_that_was_agreed_to(target: Target) -> Outcome:
    """A person agrees to a command in one folder; before it starts, another one has that name."""
    if target.spec.remote:
        raise NotCarriedOut("a command of this session gets an empty folder, which nothing inside can name")
    await target.must_run("rm -rf agreed other; mkdir agreed other")
    plan = await target.plan("true", cwd="agreed")
    try:
        await target.must_run("mv agreed gone && ln -s / agreed")
        try:
            await target.look_again(plan)
            refused = None
        except HostRefused as refusal:
            refused = str(refusal)
        inside = os.path.realpath(plan.folder.entry)
    finally:
        plan.close()
        await target.shell("rm -rf agreed gone other")
    return Outcome(
        held=refused is not None and inside.startswith(f"{os.path.realpath(target.spec.workspace)}/"),
        tried="planned a command in a folder, and put a link to / in its place",
        came_back=refused or f"IT WOULD START in {inside}",
    )
