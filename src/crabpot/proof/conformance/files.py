"""Promises of `read`, `write` and `ls`."""

from __future__ import annotations

import base64
import hashlib
import os
from typing import TYPE_CHECKING

from crabpot.proof.conformance.promises import Chapter, bad, good, same, true
from crabpot.sandboxes.streams import Streams

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from crabpot.proof.conformance.harness import Harness

# ruff: noqa: D103, PLR2004  a promise's name is its sentence, and it states what it expects

promise = Chapter()

_MIB = 1024**2
_TEXT = "first\nzweite Zeile: äöü €\n\U0001f980 crab\n"


@promise
async def text_comes_back_as_it_was_written(harness: Harness) -> None:
    async with harness.open() as box:
        written = good(await box.call("write", path="notes/today.txt", content=_TEXT))
        same("write", written, {"size": len(_TEXT.encode()), "created": True})
        read = good(await box.call("read", path="notes/today.txt"))
        expected = {"content": _TEXT, "encoding": "utf-8", "size": len(_TEXT.encode()), "lines": 3, "truncated": False}
        same("read", read, expected)
        again = good(await box.call("write", path="notes/today.txt", content="new"))
        same("write again", again, {"size": 3, "created": False})


@promise
async def a_part_of_a_file_is_read_by_lines(harness: Harness) -> None:
    async with harness.open() as box:
        await box.call("write", path="lines", content="".join(f"{n}\n" for n in range(1, 101)))
        part = good(await box.call("read", path="lines", offset=10, limit=3))
        same("content", part["content"], "10\n11\n12\n")
        same("lines of the whole file", part["lines"], 100)


@promise
async def an_empty_file_is_read_as_empty(harness: Harness) -> None:
    async with harness.open() as box:
        good(await box.call("write", path="empty", content=""))
        read = good(await box.call("read", path="empty"))
        same("content and size", (read["content"], read["size"]), ("", 0))


@promise
async def every_byte_survives_both_ways(harness: Harness) -> None:
    data = bytes(range(256)) * 8
    async with harness.open() as box:
        coded = base64.b64encode(data).decode()
        same("size", good(await box.call("write", path="b", content=coded, encoding="base64"))["size"], len(data))
        read = good(await box.call("read", path="b", encoding="base64"))
        same("bytes", base64.b64decode(read["content"]), data)
        part = good(await box.call("read", path="b", encoding="base64", offset=250, limit=10))
        same("a part, by bytes", base64.b64decode(part["content"]), data[250:260])


@promise
async def a_large_file_goes_in_and_out_in_pieces(harness: Harness) -> None:
    piece = os.urandom(_MIB)
    sent, came = hashlib.sha256(), hashlib.sha256()

    async def pieces() -> AsyncIterator[bytes]:
        for _ in range(24):
            sent.update(piece)
            yield piece

    async def take(stream: str, data: bytes) -> None:
        same("stream", stream, "content")
        came.update(data)

    async with harness.open() as box:
        written = good(await box.call("write", path="large", streams=Streams(source=pieces())))
        same("size", written["size"], 24 * _MIB)
        good(await box.call("read", path="large", encoding="base64", streams=Streams(sink=take)))
        same("checksum", came.hexdigest(), sent.hexdigest())
        same("checksum inside", (await box.out("sha256sum large")).split()[0], sent.hexdigest())


@promise
async def a_large_text_in_the_arguments_arrives_whole(harness: Harness) -> None:
    text = "0123456789abcdef" * (3 * _MIB // 16)
    async with harness.open() as box:
        same("size", good(await box.call("write", path="text", content=text))["size"], len(text))
        same("size inside", (await box.out("wc -c < text")).strip(), str(len(text)))


@promise
async def a_read_that_is_too_large_is_cut_and_says_so(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("yes 0123456789 | head -c 3000000 > big")
        read = good(await box.call("read", path="big"))
        same("truncated", read["truncated"], True)
        true(
            "content up to a line's end, at most 1 MiB", read["content"].endswith("\n") and len(read["content"]) <= _MIB
        )


@promise
async def text_is_appended(harness: Harness) -> None:
    async with harness.open() as box:
        for word in ("one ", "two ", "three"):
            good(await box.call("write", path="log", content=word, append=True))
        same("content", good(await box.call("read", path="log"))["content"], "one two three")


@promise
async def a_replaced_file_keeps_its_mode(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("echo '#!/bin/sh' > run; chmod 750 run")
        good(await box.call("write", path="run", content="#!/bin/sh\necho hello\n"))
        same("mode", (await box.out("stat -c %a run")).strip(), "750")
        same("it runs", await box.out("./run"), "hello\n")


@promise
async def a_write_that_fails_changes_nothing(harness: Harness) -> None:
    async with harness.open() as box:
        await box.call("write", path="kept", content="kept")
        bad(await box.call("write", path="kept", content="%%%", encoding="base64"), "invalid_arguments")
        same("content", good(await box.call("read", path="kept"))["content"], "kept")
        same("nothing beside it", (await box.out("ls -A")).split(), ["kept"])


@promise
async def what_cannot_be_read_says_why(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("mkdir folder; mkfifo pipe")
        bad(await box.call("read", path="missing"), "not_found")
        bad(await box.call("read", path="folder"), "is_directory")
        bad(await box.call("read", path="pipe"), "not_a_file")
        bad(await box.call("read", path="../outside"), "outside")
        bad(await box.call("read", path="folder\0x"), "invalid_arguments")


@promise
async def what_cannot_be_written_says_why(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("mkdir folder; echo x > file")
        bad(await box.call("write", path="folder", content="x"), "is_directory")
        bad(await box.call("write", path="file/below", content="x"), "not_a_directory")
        bad(await box.call("read", path="file/below"), "not_a_directory")
        bad(await box.call("ls", path="file"), "not_a_directory")
        bad(await box.call("write", path="../outside", content="x"), "outside")


@promise
async def a_link_out_of_the_workspace_is_not_followed(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("ln -s /usr out; ln -s inner in; mkdir inner; echo x > inner/file; ln -s /etc/passwd names")
        bad(await box.call("read", path="names"), "outside")
        bad(await box.call("ls", path="out"), "outside")
        bad(await box.call("write", path="out/planted", content="x"), "outside")
        same("a link inside is followed", good(await box.call("read", path="in/file"))["content"], "x\n")


@promise
async def arguments_that_are_wrong_are_refused(harness: Harness) -> None:
    async with harness.open() as box:
        for args in ({}, {"path": 7}, {"path": ""}, {"path": "x", "offset": -1}, {"path": "x", "encoding": "latin-1"}):
            bad(await box.call("read", **args), "invalid_arguments")
        bad(await box.call("read", path="x", surprise=True), "invalid_arguments")
        bad(await box.call("write", path="x"), "invalid_arguments")


@promise
async def a_folder_is_listed(harness: Harness) -> None:
    async with harness.open() as box:
        await box.run("mkdir sub; printf 12345 > file; ln -s file link; touch .hidden")
        entries = good(await box.call("ls"))["entries"]
        shown = {entry["name"]: entry for entry in entries}
        same("names, in order", [entry["name"] for entry in entries], ["file", "link", "sub"])
        same("types", [entry["type"] for entry in entries], ["file", "link", "directory"])
        same("size", shown["file"]["size"], 5)
        true(
            "modified is a time", isinstance(shown["file"]["modified"], int | float) and shown["file"]["modified"] > 1e9
        )
        every = good(await box.call("ls", path=".", all=True))["entries"]
        true("hidden names with all", ".hidden" in [entry["name"] for entry in every])
        bad(await box.call("ls", path="missing"), "not_found")


@promise
async def both_ways_to_a_file_meet_as_one_user(harness: Harness) -> None:
    async with harness.open() as box:
        await box.call("write", path="ours", content="by write")
        same("exec reads it", await box.out("cat ours"), "by write")
        await box.run("printf ' and exec' >> ours")
        same("read sees it", good(await box.call("read", path="ours"))["content"], "by write and exec")
        same("one owner", (await box.out("stat -c %u ours")).strip(), (await box.out("id -u")).strip())
