"""Attacks by host commands: what an agent's files would make a host program do beyond the agent's folder."""

from __future__ import annotations

import os
import shutil
from shlex import quote
from typing import TYPE_CHECKING

from crabpot.approvals.requests import Answer
from crabpot.host_commands.guard.view import PRIVATE
from crabpot.model import Place
from crabpot.proof.verify.claims import HAND_OFF, Group, NotCarriedOut, Outcome, few

if TYPE_CHECKING:
    from crabpot.model import ToolResult
    from crabpot.proof.verify.target import Target
    from crabpot.spec.binds import Surroundings

claim = Group(HAND_OFF)

# Moved away, not removed: a root gateway leaves files of root's in it.
_REPOSITORY = (
    "for one in .git sub; do [ ! -e $one ] || mv $one .old-$one-$(date +%N); done;"
    " git init -q . && git config user.name x && git config user.email x@x"
)
_MOST_TRIED = 40
_COMMIT = "git add -A && git commit -qm first"


async def _leave(target: Target, script: str) -> ToolResult:
    """Run a script of the agent's on the host, with an operator's agreement; NotCarriedOut if it never ran there."""
    await target.call("write", path="attack.sh", content=script)
    result = await target.leave("sh attack.sh")
    if result.place is not Place.HOST:
        raise NotCarriedOut(f"the command did not run on the host: {result.error}")
    return result


def _traces(target: Target) -> tuple[str, ...]:
    """Return files of the host that an attack would make: one where all may write, one in the operator's own home."""
    name = f"crabpot-verify-{target.bait.token}"
    return f"{target.bait.open_folder}/{name}", f"{os.path.expanduser('~')}/.{name}"


def _appeared(target: Target) -> list[str]:
    """Return those that exist now, and remove them."""
    found = [path for path in _traces(target) if os.path.lexists(path)]
    for path in found:
        shutil.rmtree(path) if os.path.isdir(path) and not os.path.islink(path) else os.unlink(path)
    return found


def _outcome(target: Target, tried: str, result: ToolResult) -> Outcome:
    found = _appeared(target)
    said = (result.stderr.strip().splitlines() or [result.stdout.strip()[:200] or "nothing"])[-1]
    return Outcome(held=not found, tried=tried, came_back=f"WRITTEN: {few(found)}" if found else said)


@claim.about("sandbox", threats=("hatch", "host-git"))
async def cannot_write_beyond_its_folder_by_a_command_that_left(target: Target) -> Outcome:
    """A build file says where a build tool writes; a copy, a link and a path through /proc lead to the same place."""
    lines = []
    for path in _traces(target):
        lines += [f"echo x > {path}", f"cp attack.sh {path}", f"ln -sf {path} link; echo x > link"]
        lines += [f"echo x > /proc/self/root{path}", f"echo x > /proc/self/cwd/../../../../../../../..{path}"]
    result = await _leave(target, "\n".join(lines))
    await target.shell("rm -f link")
    return _outcome(target, f"{len(lines)} ways to write {few(list(_traces(target)))}", result)


@claim.about("sandbox", threats=("hatch", "host-git"))
async def cannot_have_host_git_write_through_a_link_that_it_planted(target: Target) -> Outcome:
    """Links at reflogs, below a folder called objects, at COMMIT_EDITMSG in a folder made unreadable, and by /proc."""
    open_trace, home_trace = _traces(target)
    plant = (
        f"{_REPOSITORY} && echo x > f && {_COMMIT} && git checkout -qb objects/fix"
        f" && ln -sf {home_trace} .git/logs/refs/heads/objects/fix && ln -sf {open_trace} .git/COMMIT_EDITMSG"
        " && git remote add origin . && git config core.logAllRefUpdates true"
        " && mkdir -p .git/logs/refs/remotes/origin/objects/f"
        f" && ln -sf {home_trace} .git/logs/refs/remotes/origin/objects/f/fix"
        f" && ln -sf /proc/self/cwd/../../../../../..{open_trace} .git/ORIG_HEAD"
        " && echo y >> f && git add f && chmod 0311 .git"
    )
    await target.must_run(plant)
    commands = (
        "git commit -m planted",
        "git update-ref refs/remotes/origin/objects/f/fix HEAD",
        "git reset --soft HEAD~1",
    )
    results = [await target.leave(command) for command in (*commands, "git push origin HEAD:refs/heads/objects/f/fix")]
    await target.shell("chmod 0755 .git; rm -rf .git f")
    return _outcome(target, f"links in .git, then {few(list(commands))} and git push on the host", results[0])


@claim.about("sandbox", threats=("hatch", "host-git", "git-drivers"))
async def cannot_have_a_repository_that_it_hid_run_programs_beyond_its_folder(target: Target) -> Outcome:
    """A nested repository in a folder that cannot be listed, and one below a junk HEAD, with filters of their own."""
    open_trace, home_trace = _traces(target)
    await target.call(
        "write", path="filter.sh", content=f"#!/bin/sh\necho x > {open_trace}\necho x > {home_trace}\ncat\n"
    )
    inner = (
        "git init -q sub/inner && cd sub/inner && git config user.name x && git config user.email x@x && echo x > f"
        " && git add f && git commit -qm x && git config filter.x.clean ../../filter.sh"
        " && git config core.fsmonitor ../../filter.sh && echo '* filter=x' > .git/info/attributes && echo y > f"
    )
    await target.must_run(f"{_REPOSITORY} && chmod 755 filter.sh && mkdir sub && ({inner})")
    await target.must_run("git add sub/inner 2>/dev/null && git commit -qm x && echo junk > sub/HEAD && chmod 0311 sub")
    commands = ("git status", "git diff", "git add -A", "git -C sub/inner status")
    results = [await target.leave(command) for command in commands]
    await target.shell("chmod 0755 sub; rm -rf sub .git filter.sh")
    return _outcome(target, f"hidden repositories, then {few(list(commands))} on the host", results[-1])


@claim.about("sandbox", threats=("hatch", "host-git"))
async def cannot_have_host_git_write_a_file_that_its_words_name(target: Target) -> Outcome:
    """`git archive -o`, `format-patch -o`, `config --file` and `bundle create` write where they are told."""
    open_trace, home_trace = _traces(target)
    await target.must_run(f"{_REPOSITORY} && echo x > f && {_COMMIT}")
    commands = [
        f"git archive -o {open_trace} HEAD",
        f"git config --file {home_trace} a.b c",
        f"git bundle create {open_trace} HEAD",
        f"git diff --output={home_trace} HEAD",
        f"git format-patch -1 --root -o {home_trace} HEAD",
    ]
    results = [await target.leave(command) for command in commands]
    await target.shell("rm -rf .git f")
    return _outcome(target, few(commands), results[-1])


@claim.about("sandbox", threats=("hatch-socket", "host-sockets"))
async def cannot_reach_a_socket_of_the_host_by_a_command_that_left(target: Target) -> Outcome:
    """The user's bus starts programs outside; a socket file and an abstract socket are reached without writing."""
    bait = target.bait
    before = len(bait.knocks)
    program = (
        "import socket\n"
        f"for address in ({bait.socket_file!r}, {chr(0) + bait.abstract_socket!r}):\n"
        "    try:\n        socket.socket(socket.AF_UNIX).connect(address); print('reached', repr(address))\n"
        "    except OSError as error:\n        print(error)\n"
    )
    await target.call("write", path="connect.py", content=program)
    result = await _leave(target, "python3 -I connect.py; systemd-run --user true 2>&1; busctl --user list 2>&1")
    await target.shell("rm -f connect.py")
    reached = bait.knocks[before:]
    return Outcome(
        held=not reached and "reached" not in result.stdout,
        tried="a socket file, an abstract socket and the user's bus",
        came_back=f"REACHED: {few(reached)}" if reached else few(result.stdout.strip().splitlines()),
    )


def _secrets(around: Surroundings) -> list[str]:
    """List the places of credentials of this very machine; those below /tmp or /var/tmp are hidden in any case."""
    found = [os.path.realpath(one) for one in around.secrets() if one != around.state]
    return [one for one in dict.fromkeys(found) if os.path.exists(one) and not one.startswith(PRIVATE)][:_MOST_TRIED]


@claim.about("sandbox", threats=("hatch", "own-files"))
async def cannot_read_crabpots_own_files_or_keys_by_a_command_that_left(target: Target) -> Outcome:
    """Answers are in the state folder, keys in the home: a host command of the operator's could read both."""
    around = target.gateway.execution.around
    places = [f"{around.state}/approvals.sqlite", f"{around.state}/audit.sqlite", *_secrets(around)]
    result = await _leave(
        target, "\n".join(f"find {quote(one)} -maxdepth 2 -type f -exec wc -c {{}} +" for one in places)
    )
    # `wc` prints a size for what it can read; an agent's own folder below the state is not tried here.
    read = [line for line in result.stdout.splitlines() if line.split()[0] not in ("0", "total")]
    return Outcome(
        held=not read,
        tried=few(places),
        came_back=f"READ: {few(read)}" if read else (result.stderr.strip().splitlines() or ["they are empty"])[-1],
    )


@claim.about("sandbox", threats=("hatch-socket",))
async def cannot_see_or_signal_a_process_of_the_host_by_a_command_that_left(target: Target) -> Outcome:
    """A debugger on the operator's shell, or a signal to it, leaves the guard without writing a file."""
    process = target.bait.process
    result = await _leave(target, f"cat /proc/{process}/environ | tr '\\0' '\\n'; kill -9 {process}")
    seen = target.bait.secret in result.stdout
    return Outcome(
        held=not seen and target.bait.is_alive(),
        tried=f"the environment of process {process}, and SIGKILL",
        came_back="SEEN" if seen else (result.stderr.strip().splitlines() or ["nothing"])[-1],
    )


@claim.about("sandbox", threats=("reused-approval", "hatch-lease"))
async def cannot_have_another_build_run_by_what_was_allowed_for_longer(target: Target) -> Outcome:
    """A build that was agreed to for the session, whose file then says something else."""
    agreed = Answer(allowed=True, grant="session", by="crabpot verify")
    await target.call("write", path="attack.sh", content=". ./other.sh\n")
    await target.call("write", path="other.sh", content="echo harmless\n")
    first = await target.leave("sh attack.sh", answer=agreed)
    await target.call("write", path="other.sh", content="echo changed\n")
    second = await target.leave("sh attack.sh", answer=Answer(allowed=False, by="crabpot verify"))
    await target.shell("rm -f attack.sh other.sh")
    if first.place is not Place.HOST:
        raise NotCarriedOut(f"the first build did not run on the host: {first.error}")
    ran = second.place is Place.HOST
    return Outcome(
        held=not ran,
        tried="`sh attack.sh` allowed for the session, then another content of what it reads",
        came_back=f"RAN UNASKED: {second.stdout.strip()}" if ran else "it was asked about again",
    )
