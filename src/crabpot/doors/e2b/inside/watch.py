"""Print what happens in a folder as lines of JSON, by inotify; argv: the folder, and "1" to look below it too."""

import ctypes
import json
import os
import struct
import sys

CREATE, WRITE, REMOVE, RENAME, CHMOD, MOVED_TO = 0x100, 0x2, 0x200, 0x40, 0x4, 0x80
FOLDER, OVERFLOW, ONLY_FOLDER = 0x40000000, 0x4000, 0x01000000
NAMES = {CREATE: "CREATE", WRITE: "WRITE", REMOVE: "REMOVE", RENAME: "RENAME", CHMOD: "CHMOD", MOVED_TO: "CREATE"}


def main() -> None:
    """Watch until the input ends."""
    root, recursive = sys.argv[1], sys.argv[2] == "1"
    libc = ctypes.CDLL(None, use_errno=True)
    handle = libc.inotify_init1(os.O_CLOEXEC)
    if handle < 0:
        raise OSError(ctypes.get_errno(), "inotify")
    known = {}

    def add(below: str) -> None:
        path = os.path.join(root, below) if below else root
        number = libc.inotify_add_watch(handle, os.fsencode(path), sum(NAMES) | ONLY_FOLDER)
        if number < 0:
            if not below:
                raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()), path)
            return
        known[number] = below
        if recursive:
            for entry in os.scandir(path):
                if entry.is_dir(follow_symlinks=False):
                    add(os.path.join(below, entry.name))

    def say(**words: str) -> None:
        print(json.dumps(words), flush=True)

    try:
        add("")
    except OSError as error:
        say(error=os.strerror(error.errno or 0))
        return
    say(ready="yes")
    while True:
        data, at = os.read(handle, 65536), 0
        while at < len(data):
            number, mask, _, length = struct.unpack_from("iIII", data, at)
            name = os.fsdecode(data[at + 16 : at + 16 + length].rstrip(b"\0"))
            at += 16 + length
            below = known.get(number)
            if below is None or not name:
                continue
            path = os.path.join(below, name)
            if recursive and mask & FOLDER and mask & (CREATE | MOVED_TO):
                add(path)
            for bit, word in NAMES.items():
                if mask & bit:
                    say(name=path, type=word)


main()
