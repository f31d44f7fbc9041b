"""A program that outlives the gateway: it waits for its death, removes the containers that it left, and ends.

Started as `python -I -S watchdog.py SOCKET API OWNER` with the read end of a pipe as its standard input; only the
gateway has the other end. It imports nothing of Crabpot, and nothing heavy before there is something to do.
"""

from __future__ import annotations

import os
import signal
import sys

_LONGEST_S = 300.0
# A restarting engine is back sooner; one that was stopped has ended its containers, or the next gateway finds them.
_AWAY_S = 60.0
_POLL_S = 0.5
_NOT_FOUND = 404
# A creation that was under way when the gateway died may show up after the first look.
_EMPTY_LOOKS = 4


def main(socket_path: str, api: str, owner: str) -> None:
    """Wait, then clean up."""
    # Detached: not the gateway's child, which would have to reap it, and deaf to signals to a terminal or a service.
    if os.fork():
        os._exit(0)
    os.setsid()
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT):
        signal.signal(number, signal.SIG_IGN)
    os.chdir("/")
    null = os.open(os.devnull, os.O_RDWR)
    for fd in (1, 2):
        os.dup2(null, fd)
    _await_death(int(owner.partition(":")[0]))
    clean_up(socket_path, api, owner)


def _await_death(pid: int) -> None:
    import select  # noqa: PLC0415

    poll = select.poll()
    poll.register(0, select.POLLIN)
    try:  # noqa: SIM105  contextlib would stay in memory for as long as the gateway lives
        # A child that the gateway forked may hold its end of the pipe for longer than the gateway lives.
        poll.register(os.pidfd_open(pid), select.POLLIN)
    except OSError:
        pass  # It is gone already, and the pipe says so; or the kernel is older than 5.3.
    poll.poll()


def clean_up(socket_path: str, api: str, owner: str, away_s: float = _AWAY_S) -> None:
    """Remove until there is nothing left to remove; wait for an engine that restarts meanwhile."""
    import time  # noqa: PLC0415

    answered = time.monotonic()
    deadline, empty = answered + _LONGEST_S, 0
    killed: set[str] = set()
    while empty < _EMPTY_LOOKS and time.monotonic() < min(deadline, answered + away_s):
        # Most of them end with their stream, and the engine removes what ended: two removals at once confuse it.
        time.sleep(_POLL_S)
        try:
            left = [
                one for one in _list(socket_path, api, owner) if _end(socket_path, f"{api}/containers/{one}", killed)
            ]
            empty, answered = (0 if left else empty + 1), time.monotonic()
        except (OSError, ValueError, KeyError, TypeError):
            empty = 0
            if not os.path.isdir(os.path.dirname(socket_path)):
                return  # It was removed altogether, and will not come back.


def _end(socket_path: str, path: str, killed: set[str]) -> bool:
    """Kill a container, and remove it if that was not enough; return False if it does not really exist."""
    if path in killed:
        status, _ = ask(socket_path, "DELETE", f"{path}?force=1&v=1")
    else:
        status, _ = ask(socket_path, "POST", f"{path}/kill")
        killed.add(path)
    return status != _NOT_FOUND


def _list(socket_path: str, api: str, owner: str) -> list[str]:
    import json  # noqa: PLC0415
    from urllib.parse import quote  # noqa: PLC0415

    filters = quote(json.dumps({"label": [f"crabpot.owner={owner}"]}))
    status, content = ask(socket_path, "GET", f"{api}/containers/json?all=1&filters={filters}")
    if status != 200:  # noqa: PLR2004
        raise OSError(content)
    return [str(one["Id"]) for one in json.loads(content) if _is_ours(one.get("Names") or ())]


def _is_ours(names: list[str] | tuple[()]) -> bool:
    # A stranger's container has our labels if its image was made of a sandbox, and then a name of its own.
    return any(name.startswith(("/crabpot-", "/spare-")) for name in names)


def ask(socket_path: str, method: str, target: str, timeout_s: float = 60.0) -> tuple[int, bytes]:
    """Send one request and wait for the answer; OSError if there is none."""
    import http.client  # noqa: PLC0415
    import socket  # noqa: PLC0415

    connection = http.client.HTTPConnection("docker")
    connection.sock = socket.socket(socket.AF_UNIX)
    try:
        connection.sock.settimeout(timeout_s)
        connection.sock.connect(socket_path)
        connection.request(method, target)
        answer = connection.getresponse()
        return answer.status, answer.read()
    except http.client.HTTPException as error:
        raise OSError(str(error)) from error
    finally:
        connection.close()


if __name__ == "__main__":
    main(*sys.argv[1:4])
