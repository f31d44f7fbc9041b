"""Which failures of a guarded command are put down to its guard, and what is said of them."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from crabpot.host_commands.guard.view import Mount, View
from crabpot.host_commands.hints import Listening, hint

HIDDEN = ("/home/x/.ssh", "/home/x/.netrc", "/run")


def told(printed: str, **fields: Any) -> str:
    view = View(
        **{
            "hides": tuple(Mount(path=path) for path in HIDDEN),
            "shows": (Mount(path="/home/x/.ssh/config"),),
            "writes": (Mount(path="/tmp/w"),),
            **fields,
        }
    )
    plan: Any = SimpleNamespace(guard=SimpleNamespace(view=view), grants="S", env={"HOME": "/home/x"})
    return (hint(printed, plan) or "").replace("crabpot: it ran in a guard, ", "")


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (
            "touch: cannot touch '/etc/x': Read-only file system",
            "which may write /tmp/w, a private /tmp; to add a place, name it in `writes` of S",
        ),
        ("[Errno 30] EROFS: x", "which may write /tmp/w, a private /tmp; to add a place, name it in `writes` of S"),
        (
            "cat: /home/x/.ssh/id: No such file or directory",
            "where /home/x/.ssh/id is absent; name it in `credentials` of S",
        ),
        ("failed to load ~/.ssh/id.", "where /home/x/.ssh/id is absent; name it in `credentials` of S"),
        ("curl -n: no login in /home/x/.netrc", "where /home/x/.netrc is absent; name it in `credentials` of S"),
        (
            "a: /home/x/.ssh/id b: /home/x/.netrc a: /home/x/.ssh/id",
            "where /home/x/.ssh/id, /home/x/.netrc are absent; name what it needs in `credentials` of S",
        ),
        ("/tmp/y: No such file or directory", "where /tmp/y is absent; name it in `credentials` of S"),
        ("/var/run/x.sock: refused", "where /run/x.sock is absent; name it in `credentials` of S"),
        ("EAFNOSUPPORT", "which reaches no socket; to show one, name it in `credentials` of S"),
        (
            "Cannot connect to the Docker daemon at unix:///var/run/docker.sock. Is the docker daemon running?",
            'where the container engine is absent; name in `credentials` of S "docker", which hands over the whole host',
        ),
    ],
)
def test_what_the_guard_made_fail_is_told_with_the_setting(printed: str, expected: str) -> None:
    assert told(printed) == expected


@pytest.mark.parametrize(
    "printed",
    [
        "Failed to connect to bus: No medium found",
        "Failed to connect to bus: Address family not supported by protocol",
        "Failed to connect to user scope bus via local transport: $DBUS_SESSION_BUS_ADDRESS not defined",
        "Failed to set bus address: $XDG_RUNTIME_DIR not defined",
        'Failed to open connection to "session" message bus: Unable to autolaunch',
        "connect: /run/user/1000/bus: D-Bus is gone",
    ],
)
def test_an_absent_bus_is_told_once_however_its_clients_complain(printed: str) -> None:
    said = told(printed)
    assert said.startswith("where the bus is absent; name in `credentials` of S its socket")
    assert len(said.splitlines()) == 1
    assert told(printed, sockets=True, hides=()) == ""


@pytest.mark.parametrize(
    "printed",
    [
        "Could not open a connection to your authentication agent.",
        "git@example.com: Permission denied (publickey).",
        "Host key verification failed.".lower(),
    ],
)
def test_absent_ssh_keys_are_told_by_what_ssh_prints(printed: str) -> None:
    assert told(printed).startswith('where ~/.ssh and the ssh agent are absent; name in `credentials` of S "ssh"')


@pytest.mark.parametrize(
    "printed",
    [
        "x.c:1: fatal error: y.h: No such file or directory",
        "src/run/x.c: No such file or directory",
        "/home/x/.ssh/config: bad option",
        "/home/x/.sshd/y: No such file or directory",
        "/tmp/cc123.o: undefined reference to `main'",
        "/tmp/w/x: No such file or directory",
        "https://run/x: 404",
        "could not resolve host",
        "",
    ],
)
def test_what_has_other_causes_is_left_to_the_programs_own_words(printed: str) -> None:
    assert told(printed) == ""


def test_every_cause_has_a_line_and_git_without_a_network_is_told() -> None:
    said = told("Read-only file system\n/home/x/.netrc\nfatal: could not resolve host", network=False).splitlines()
    assert [line.split()[0] for line in said] == ["which", "where", "and"]


def test_a_command_without_a_guard_gets_no_hint() -> None:
    plan: Any = SimpleNamespace(guard=None)
    assert hint("Read-only file system", plan) is None


async def test_the_end_of_both_streams_is_kept_while_they_pass() -> None:
    passed: list[tuple[str, bytes]] = []

    async def sink(stream: str, data: bytes) -> None:
        passed.append((stream, data))

    heard = Listening(sink)
    for stream, data in (("stdout", b"a" * 20000), ("stderr", b"x"), ("stdout", b"end"), ("stderr", b"y\xff")):
        await heard(stream, data)
    assert len(passed) == 4
    assert (len(heard.end("stdout")), heard.end("stdout")[-3:], heard.end("stderr")) == (16384, "end", "xy\ufffd")
