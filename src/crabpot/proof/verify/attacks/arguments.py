"""Attacks by the arguments of tool calls: paths, folders, patches and patterns that lead elsewhere."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from crabpot.model import Place
from crabpot.proof.verify.claims import Group, NotCarriedOut, Outcome, few

if TYPE_CHECKING:
    from crabpot.model import ToolResult
    from crabpot.proof.verify.target import Target

claim = Group("escape by tool arguments")

_SWAPS = 10_000


def _told(results: list[tuple[str, ToolResult]]) -> str:
    shown: dict[str, list[str]] = {}
    for what, result in results:
        answer = result.error.code if result.error else "answered from inside" if result.success else "failed"
        shown.setdefault(answer, []).append(what)
    return "; ".join(f"{answer} ({few(whats, 3)})" for answer, whats in shown.items())


async def _each(target: Target, calls: list[tuple[str, dict[str, Any]]]) -> Outcome:
    """Make calls that must not show the host's secret, nor change anything on the host, nor run there."""
    results = []
    before = target.bait.planted()
    for tool, args in calls:
        results.append((f"{tool} {_shown(args)!r}", await target.call(tool, **args)))
    leaks = [what for what, result in results if target.bait.secret in f"{result.stdout}{result.stderr}{result.data}"]
    outside = [what for what, result in results if result.place is Place.HOST]
    harm = [*(f"the secret came back by {what}" for what in leaks), *(f"on the host: {what}" for what in outside)]
    harm += [f"{name} appeared on the host" for name in target.bait.planted() - before]
    tried = few([what for what, _ in results])
    return Outcome(held=not harm, tried=tried, came_back="; ".join(harm) or _told(results))


def _shown(args: dict[str, Any]) -> str:
    """Return the part of a call's arguments that is hostile."""
    if "patch" in args:
        return next(line for line in reversed(str(args["patch"]).split("\n")) if ": " in line)
    return str(args.get("path") or args.get("cwd") or args.get("pattern") or sorted(set(args) - {"command"}))


def _ways_to(path: str) -> list[str]:
    climb = "../" * 12
    return [
        path,
        climb + path.lstrip("/"),
        f"/workspace/{climb}{path.lstrip('/')}",
        f"/proc/self/root{path}",
        f"/proc/1/root{path}",
        f"/proc/self/cwd/../{path.lstrip('/')}",
        f"//proc//self//root/{path}",
        f"/dev/fd/../../root{path}",
        path + "\u0000.txt",
    ]


@claim.about("filesystem", threats=("path-rules",))
async def cannot_read_a_file_of_the_host_by_a_path(target: Target) -> Outcome:
    """Dots, magic links and odd spellings."""
    return await _each(target, [("read", {"path": path}) for path in _ways_to(target.bait.secret_file)])


@claim.about("filesystem", threats=("path-rules",))
async def cannot_write_a_file_of_the_host_by_a_path(target: Target) -> Outcome:
    """The same, into a folder that anybody may write to."""
    paths = _ways_to(f"{target.bait.open_folder}/planted.txt")
    return await _each(
        target,
        [("write", {"path": path, "content": "planted"}) for path in paths]
        + [("edit", {"path": path, "old": "secret", "new": "planted"}) for path in _ways_to(target.bait.secret_file)],
    )


@claim.about("filesystem", threats=("path-rules",))
async def cannot_patch_a_file_of_the_host(target: Target) -> Outcome:
    """Paths hide inside patches too, and moves have two."""
    paths = _ways_to(f"{target.bait.open_folder}/patched.txt")[:-1]
    patches = [f"*** Begin Patch\n*** Add File: {path}\n+planted\n*** End Patch" for path in paths]
    await target.call("write", path=".moved.txt", content="planted\n")
    patches += [
        f"*** Begin Patch\n*** Update File: .moved.txt\n*** Move to: {path}\n@@\n-planted\n+moved\n*** End Patch"
        for path in paths
    ]
    return await _each(target, [("apply_patch", {"patch": patch}) for patch in patches])


@claim.about("filesystem", threats=("path-rules",))
async def cannot_search_the_host(target: Target) -> Outcome:
    """What grep finds it shows, and glob and ls list what there is."""
    folder = target.bait.folder
    calls: list[tuple[str, dict[str, Any]]] = []
    for path in _ways_to(folder)[:-1]:
        calls += [
            ("grep", {"pattern": "secret-", "path": path}),
            ("glob", {"pattern": "**/*.txt", "path": path}),
            ("ls", {"path": path, "all": True}),
        ]
    calls += [("glob", {"pattern": f"{'../' * 12}{folder.lstrip('/')}/*"}), ("glob", {"pattern": f"{folder}/*"})]
    return await _each(target, calls)


@claim.about("filesystem", threats=("swapped-folder", "path-rules"))
async def cannot_reach_the_host_through_a_link_in_the_workspace(target: Target) -> Outcome:
    """The agent makes any link that it likes; no file tool follows it out."""
    folder = target.bait.folder
    links = {
        "file": target.bait.secret_file,
        "folder": folder,
        "root": "/",
        "magic": f"/proc/self/root{folder}",
        "one": f"/proc/1/root{folder}",
        "climb": "../../../../../../../.." + folder,
        "descriptor": "/proc/self/fd",
    }
    made = "; ".join(f"ln -sfn '{to}' .leads/{name}" for name, to in links.items())
    await target.must_run(f"mkdir -p .leads; {made}; ln -sfn . .leads/itself; ln -sfn .leads/folder .chain")
    # By the root it goes on to the folder: a search of all that lies below would take a minute where nothing stops it.
    ways = {name: f".leads/{name}" for name in links} | {"root": f".leads/root{folder}"}
    below = [*ways.values(), ".chain", ".leads/itself/folder"]
    calls: list[tuple[str, dict[str, Any]]] = [("read", {"path": ".leads/file"}), ("ls", {"path": ".leads/root"})]
    for path in below:
        calls += [
            ("read", {"path": f"{path}/secret.txt"}),
            ("write", {"path": f"{path}/open/planted.txt", "content": "planted"}),
            ("grep", {"pattern": "secret-", "path": path}),
            ("ls", {"path": path}),
            ("apply_patch", {"patch": f"*** Begin Patch\n*** Delete File: {path}/secret.txt\n*** End Patch"}),
        ]
    outcome = await _each(target, calls)
    await target.shell("rm -rf .leads .chain")
    return outcome


@claim.about("filesystem", threats=("container-runtime",))
async def cannot_start_a_command_in_a_folder_of_the_host(target: Target) -> Outcome:
    """A descriptor of the host, left open in the runner, as working folder: CVE-2024-21626."""
    folders = [f"/proc/self/fd/{number}" for number in range(12)] + [f"/proc/1/fd/{number}" for number in range(8)]
    folders += [
        "/proc/1/cwd",
        "/proc/1/root",
        "/proc/self/cwd/../..",
        "../../..",
        target.bait.folder,
        "/proc/self/root",
    ]
    calls = [
        ("exec", {"command": "cat secret.txt open/* ../secret.txt; pwd -P; ls", "cwd": folder}) for folder in folders
    ]
    return await _each(target, calls)


@claim.about("filesystem", threats=("swapped-folder",))
async def cannot_win_a_race_against_the_file_tools(target: Target) -> Outcome:
    """A folder swapped for a link, over and over, while the tools write and read through it (CVE-2026-44112, 44113)."""
    prepared = await target.must_run(
        "rm -rf race /tmp/race-outside && mkdir -p race/real /tmp/race-outside && echo inside > race/real/file && "
        f"echo {target.bait.secret} > /tmp/race-outside/file && ln -s /tmp/race-outside race/link && "
        "mv race/real race/d && echo ready"
    )
    if prepared != "ready\n":
        raise NotCarriedOut("the race could not be prepared")
    # RENAME_EXCHANGE: there is always something of that name, now the folder, now the link.
    process = await target.start(
        'exec python3 -I -c \'import ctypes\nc = ctypes.CDLL(None)\nprint("swapping", flush=True)\n'
        'while True: c.renameat2(-100, b"race/d", -100, b"race/link", 2)\''
    )
    try:
        await target.line_from(process)
        leaks, inside, refused = await _race(target)
    finally:
        # Whoever is cut short would leave a swapper that no second attempt, and no rm, wins against.
        await target.end(process)
    outside = (await target.must_run("ls /tmp/race-outside")).split()
    await target.shell("rm -rf race /tmp/race-outside")
    if not leaks and outside == ["file"] and not (inside and refused):
        raise NotCarriedOut(f"the race was never close: {inside} calls went in, {refused} were refused")
    return Outcome(
        held=not leaks and outside == ["file"],
        tried=f"{inside + refused} reads and writes through a folder that was a link half of the time",
        came_back=f"{inside} went in, {refused} were refused; outside: {leaks} read, {len(outside) - 1} written",
    )


async def _race(target: Target) -> tuple[int, int, int]:
    """Read and write through what is swapped; return how often that leaked, went in and was refused."""
    leaks, inside, refused = 0, 0, 0
    for index in range(0, _SWAPS, 20):
        reads = [target.call("read", path="race/d/file") for _ in range(10)]
        writes = [target.call("write", path=f"race/d/w{index + n}", content="inside") for n in range(10)]
        for result in await asyncio.gather(*reads, *writes):
            leaks += target.bait.secret in str(result.data)
            inside += result.success
            refused += result.error is not None
        if leaks:
            # It is lost, however often it would be.
            break
    return leaks, inside, refused


@claim.about("sandbox", threats=("child-on-the-host", "one-gateway"))
async def cannot_name_its_own_place_or_sender(target: Target) -> Outcome:
    """Who asks is for the door to say, and where it runs for the gateway to decide; never for the arguments."""
    calls = [
        ("exec", {"command": f"cat {target.bait.secret_file}", **extra})
        for extra in (
            {"place": "host"},
            {"sender": "operator"},
            {"session": "agent:main:main"},
            {"elevated": True},
            {"host": True},
            {"sandbox": "off"},
            {"contained": False},
        )
    ]
    return await _each(target, calls)
