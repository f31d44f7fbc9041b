"""A runner that listens on a socket of its own, and clients that speak its plain protocol."""

from __future__ import annotations

import json
import os
import socket
import subprocess
from typing import TYPE_CHECKING, Any

from tests.unit.runner.driver import MAIN, PATIENCE_S, PYTHON, eventually

if TYPE_CHECKING:
    import pathlib
    from typing import Self


class Listener:
    """A context that starts a runner on a socket, and makes sure that it is gone at the end."""

    def __init__(self, folder: pathlib.Path, *options: str, roots: tuple[pathlib.Path, ...] = ()) -> None:
        self.path = str(folder / "runner.sock")
        self.root = folder / "brain_work"
        self.bare = folder / "brain.git"
        for made in (self.root, self.bare):
            made.mkdir(exist_ok=True)
        shown = [str(root) for root in roots or (self.root, self.bare)]
        self.start = [PYTHON, "-I", "-S", MAIN, "--socket", self.path, "--root", *shown, *options]

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(self.start, stdin=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        assert self.process.stderr is not None
        self.told = ""
        while "listening on" not in self.told:
            line = self.process.stderr.readline()
            assert line, self.told
            self.told += line
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def end(self) -> int:
        self.process.terminate()
        assert self.process.stderr is not None
        try:
            return self.process.wait(PATIENCE_S)
        finally:
            self.process.stderr.close()

    def connect(self) -> Client:
        return Client(self.path)

    def ask(self, tool: str, args: Any = None, **fields: Any) -> dict[str, Any]:
        """One request on a connection of its own."""
        with self.connect() as client:
            return client.ask(tool, args, **fields)

    def git(self, *args: str, cwd: str | None = None) -> dict[str, Any]:
        return self.ask("git", list(args), **({} if cwd is None else {"cwd": cwd}))


class Client:
    """Sends a line and reads a line."""

    def __init__(self, path: str) -> None:
        self.socket = socket.socket(socket.AF_UNIX)
        self.socket.connect(path)
        self.socket.settimeout(PATIENCE_S)
        self._rest = b""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def begin(self, tool: str, args: Any = None, **fields: Any) -> None:
        self.send(_encoded(tool, args, fields))

    def line(self) -> dict[str, Any] | None:
        """The next answer, or None at the end of the stream."""
        while b"\n" not in self._rest:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionResetError:
                data = b""
            if not data:
                return None
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def ask(self, tool: str, args: Any = None, **fields: Any) -> dict[str, Any]:
        return self.ask_as_it_is(_encoded(tool, args, fields))

    def ask_as_it_is(self, line: bytes) -> dict[str, Any]:
        """One request in the bytes of one's own choice."""
        self.send(line)
        answer = self.line()
        assert answer is not None, "it hung up"
        return answer

    def until_cut_off(self) -> list[dict[str, Any]]:
        """All that still comes before the runner hangs up."""
        lines = []
        while (line := self.line()) is not None:
            lines.append(line)
        return lines


def _encoded(tool: str, args: Any, fields: dict[str, Any]) -> bytes:
    return json.dumps({"id": "uuid", "tool": tool, "args": args, **fields}).encode() + b"\n"


def descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


__all__ = ["Client", "Listener", "descriptors", "eventually"]
