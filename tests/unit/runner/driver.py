"""A runner under test: started as a process of its own, driven over its wire as a gateway would."""

from __future__ import annotations

import os
import pathlib
import shutil
import socket
import subprocess
import sys
import time
from typing import TYPE_CHECKING, Any

from crabpot.runner.core import frames
from crabpot.runner.core.frames import FrameReader, encode

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from typing import Self

FOLDER = pathlib.Path(frames.__file__).parent.parent
MAIN = str(FOLDER / "__main__.py")
FAKE_TOOLS = str(pathlib.Path(__file__).with_name("fake_tools.py"))
PYTHON = os.environ.get("CRABPOT_RUNNER_PYTHON", sys.executable)
# One that an unprivileged user can read too, which a private interpreter in somebody's home is not.
SYSTEM_PYTHON = "/usr/bin/python3"
NOBODY = 65534
PATIENCE_S = 60.0

ENV = {"PATH": "/usr/bin:/bin", "HOME": "/", "USER": "agent", "LANG": "C.UTF-8"}


class RunnerProcess:
    """A context that starts a runner, greets it, and makes sure that it is gone at the end."""

    def __init__(
        self,
        *,
        start: Sequence[str] = (PYTHON, "-I", "-S", MAIN),
        limits: dict[str, int | None] | None = None,
        contained: bool = False,
        user: int | None = None,
        **hello: Any,
    ) -> None:
        ours, theirs = socket.socketpair()
        self.socket = ours
        self.socket.settimeout(PATIENCE_S)
        with theirs:
            self.process = subprocess.Popen(
                [*start, "--fd", str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                user=user,
                start_new_session=True,
            )
        self._reader = FrameReader()
        self._frames: list[tuple[dict[str, Any], bytes]] = []
        self._ids = 0
        self._ended: dict[str, dict[str, Any]] = {}
        self.output: dict[tuple[str, str], bytearray] = {}
        self.acknowledged: dict[str, int] = {}
        self.hello = {
            "op": "hello",
            "workspace": "/tmp",
            "roots": ["/tmp"],
            "env": ENV,
            "shell": ["/bin/sh"],
            "limits": {"output": 1 << 20, "open_files": 1024, "file_size": None, "processes": None, **(limits or {})},
            "contained": contained,
            "shims": [],
            **hello,
        }

    def __enter__(self) -> Self:
        self.send(self.hello)
        self.ready = self.receive()[0]
        assert self.ready["op"] == "ready"
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> int:
        """Ends the stream; the exit status of the runner, which follows it at once."""
        self.socket.close()
        try:
            return self.wait()
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def wait(self) -> int:
        """The exit status of a runner that ends by itself."""
        self.complaint = self.process.stderr.read().decode() if self.process.stderr else ""
        if self.process.stderr:
            self.process.stderr.close()
            self.process.stderr = None
        return self.process.wait(PATIENCE_S)

    # --- the wire -------------------------------------------------------------------------------------------------

    def send(self, header: dict[str, Any], payload: bytes = b"") -> None:
        """One frame to the runner."""
        self.socket.sendall(encode(header, payload))

    def receive(self) -> tuple[dict[str, Any], bytes]:
        """The next frame, or EOFError."""
        while not self._frames:
            try:
                data = self.socket.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                raise EOFError
            self._frames += self._reader.feed(data)
        return self._frames.pop(0)

    def begin(self, tool: str, args: Any = None, **fields: Any) -> str:
        """Starts a call and returns its id."""
        self._ids += 1
        call_id = str(self._ids)
        self.send({"id": call_id, "tool": tool, "args": {} if args is None else args, **fields})
        return call_id

    def result(self, call_id: str, *, acknowledge: bool = True) -> dict[str, Any]:
        """The result of a call; output frames on the way are kept in `output`, and taken unless told otherwise."""
        while call_id not in self._ended:
            header, payload = self.receive()
            if header.get("op") == "output":
                self.output.setdefault((header["id"], header["stream"]), bytearray()).extend(payload)
                if acknowledge:
                    self.send({"op": "ack", "id": header["id"], "n": len(payload)})
            elif header.get("op") == "ack" and "id" in header:
                self.acknowledged[header["id"]] = self.acknowledged.get(header["id"], 0) + header["n"]
            elif "op" not in header:
                # Calls end in any order: what one call does may end another before itself.
                self._ended[header["id"]] = {**header, "payload": payload}
        return self._ended.pop(call_id)

    def call(self, tool: str, args: Any = None, **fields: Any) -> dict[str, Any]:
        """One call from its start to its result."""
        return self.result(self.begin(tool, args, **fields))

    def run(self, command: Any, **args: Any) -> dict[str, Any]:
        """An exec in the foreground."""
        timeout = args.pop("timeout", None)
        return self.call("exec", {"command": command, **args}, timeout=timeout)

    def until_output(self, call_id: str, wanted: bytes) -> bytes:
        """Takes frames until a call's stdout has `wanted` in it."""
        seen = bytearray()
        while wanted not in seen:
            header, payload = self.receive()
            assert header.get("op") == "output", header
            if header["id"] == call_id:
                seen += payload
                self.send({"op": "ack", "id": call_id, "n": len(payload)})
        return bytes(seen)


def eventually(claim: Callable[[], object], what: str) -> None:
    """Waits until `claim` holds, within bounds."""
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline, what
        time.sleep(0.005)


def processes_with(marker: str, *, program: str = "") -> list[int]:
    """All processes that have `marker` in their command line, and run `program`."""
    found = []
    for entry in pathlib.Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                line = (entry / "cmdline").read_bytes()
            except OSError:
                continue
            if marker.encode() in line and line.startswith(program.encode()) and int(entry.name) != os.getpid():
                found.append(int(entry.name))
    return found


def in_own_pid_namespace() -> list[str] | None:
    """How to start a runner as pid 1 of its own namespace, seeing only its own processes; None where that is impossible."""
    unshare = shutil.which("unshare")
    if unshare is None:
        return None
    prefix = [
        unshare,
        "--user",
        "--map-user=1000",
        "--map-group=1000",
        "--pid",
        "--fork",
        "--mount-proc",
        "--kill-child",
    ]
    probe = subprocess.run(
        [*prefix, "true"], capture_output=True, check=False, user=NOBODY if os.getuid() == 0 else None
    )
    return prefix if probe.returncode == 0 else None
