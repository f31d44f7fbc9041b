"""A runner with a table of small tools of its own, so that the server is tried without the file tools."""

from __future__ import annotations

import sys

folder, *arguments = sys.argv[1:]
package = type(sys)("crabpot_runner")
package.__path__ = [folder]
sys.modules["crabpot_runner"] = package

from crabpot_runner.core import server, tools  # type: ignore[import-not-found]  # noqa: E402
from crabpot_runner.core.failure import ToolError  # type: ignore[import-not-found]  # noqa: E402


def echo(args, ctx):
    return {"data": {"args": args, "workspace": ctx["workspace"]}, "payload": b"echo"}


def refuse(args, ctx):
    raise ToolError("no_match", "refused")


def crash(args, ctx):
    return 1 // 0


def exhaust(args, ctx):
    raise MemoryError


def vanish(args, ctx):
    with open("/does/not/exist") as file:
        return file.read()


def huge(args, ctx):
    return {"data": {"text": "x" * (2 << 20)}}


def spin(args, ctx):
    while True:
        pass


def descriptors(args, ctx):
    import os

    held = []
    for fd in os.listdir("/proc/self/fd"):
        if int(fd) <= 2:
            continue
        try:
            held.append(os.readlink("/proc/self/fd/" + fd))
        except OSError:
            continue  # The listing's own.
    return {"data": {"fds": held}}


class Writer:
    def __init__(self, args):
        self.path = args["path"]
        self.size = 0
        self.file = open(self.path + ".part", "wb")  # noqa: SIM115

    def write(self, data):
        if data == b"full":
            raise OSError(28, "No space left on device")
        self.size += len(data)
        self.file.write(data)

    def commit(self):
        import os

        self.file.close()
        os.rename(self.path + ".part", self.path)
        return {"size": self.size}

    def abort(self):
        import os

        self.file.close()
        os.unlink(self.path + ".part")


class FakeTools(tools.Tools):
    inline = ("echo", "refuse", "crash", "exhaust", "vanish", "huge")
    forked = ("forked_echo", "forked_refuse", "forked_huge", "spin", "descriptors")

    def function(self, name):
        return globals()[name.replace("forked_", "")]

    def context(self, workspace, roots):
        return {"workspace": workspace, "roots": roots}

    def open_directory(self, _context, path):
        import os

        return os.open(path, os.O_RDONLY | os.O_DIRECTORY)

    def stream_read(self, args, _context):
        for number in range(args["pieces"]):
            yield bytes([number % 256]) * (256 << 10)
        if args.get("broken"):
            raise ToolError("not_found", "it went away")
        return {"size": args["pieces"] * (256 << 10)}

    def input_writer(self, args, _context):
        return Writer(args)


sys.exit(server.main(arguments, FakeTools()))
