"""The benchmark page and its plots, made from raw results and from nothing else. Pure."""

from __future__ import annotations

from typing import TYPE_CHECKING

from bench import plots
from bench.figures import amount, shown

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from bench.figures import Comparison, Curve, Figure, Report, Series

FOLDER = "benchmarks"
_OURS = "crabpot"
_VERDICTS = {True: "held", False: "**missed**", None: "not measured"}
_HEAD = """# Benchmarks

Made from raw results by `crabpot bench --results FILE… --docs docs`; all of them are in [benchmarks.json](benchmarks.json).
`make bench-docs` measures everything in one run and writes this page: as root, with every peer in an environment of its own and a docker engine of
its own, and then the figures to hold once more as an ordinary user. It adds what was measured before on another machine (`docs/second-machine.json`) and
over 100,000 openings (`docs/endurance.json`). `make bench` does the same and writes below build/. `crabpot bench` measures the figures
at a small size, in a few minutes; `crabpot bench --only PART…` measures some parts alone (`crabpot bench --help` names them). Each exits with 1 where a figure is missed.

Calls, commands and searches that stand beside each other took turns in the same run. The ratios are of medians; the times are this machine's and move with it. "crabpot to it" is
Crabpot's time divided by that row's: 0.01 × means that Crabpot takes a hundredth of the time. `python -I -c pass` is the interpreter that runs Crabpot, started directly.
"""
_HONEST = """Crabpot's own figures include its policy, its limits and a record of every call in its audit log. Neither Crabpot's embedded
sandbox nor any of these peers as measured has the boundary of a virtual machine: where that is wanted, `docker.runtime` takes gVisor or Kata.
Hosted services (E2B, Daytona and others) run microVMs elsewhere, and cannot be measured on one machine.
"""
_WHERE = """## Where the time goes

Found once by profiling, on machines like these, and not measured anew by each run.

- **`exec true`**: about 0.15 ms of processor time in the gateway (decisions, wire, record) and 0.2 ms in the runner; the rest is the shell. Part of the
  runner's is glibc, which sets every signal's action before it starts a program: 64 system calls, about as many as a bare spawn from Python makes.
  An instruction of Python costs about 35 ns there, three times what it does in a loop, because what runs once in a millisecond is in no cache. So calls are made cheaper by taking steps away.
- **One processor or two**: some virtual machines put gateway, runner and shell on the same processor. Then each waits until the one before it is done, even with what it does after its answer. The same program took 1.26 × for `exec true` on
  one machine with two processors, and 1.5 × on another, whichever user ran it.
- **The shell itself**, by `perf record` over 1,500 of them in a virtual machine on an Intel Xeon: 59 % of its time is in the loader, and seven eighths of that in its look at the processor (`intel_check_word`, `init_cpu_features`): CPUID, which
  the hypervisor has to answer. Every program that is started pays that. An opening starts no program, its first command starts one, and a bare bwrap with a command starts two.
- **One `exec true`**, by the scheduler's own events (`perf record -e sched:*`): of 1.35 ms the shell has 0.9 (0.14 until it is started, 0.71 of its own, 0.05 to end), the runner 0.1 before it and 0.1 after it, the gateway 0.17, and each of the two wake-ups 0.03. Nobody waits for anything else:
  the runner sleeps once, and the shell inside takes as long as one outside.
- **A warm claim**: the call; 0.1 to 0.2 ms to decide about and describe a session that was never seen; 0.1 ms to pass the folder and its note on; and 0.25 ms more
  in a runner that has been idle.
- **100 MB in and out** stand beside a `cat` whose two ends run where the scheduler puts them, as Crabpot's do. With both ends on one processor `cat` copies from that processor's cache, at 3.8 GB/s in place of 1.4, and 100 MB in would be a third of that.
- **HTTP**: the record of a call is written before its answer leaves, and reaches the disk after it. Where a call touches the host it is on the disk before that begins. The first request to a gateway takes 0.2 s longer: its routes are imported then.
- **A `read` by HTTP** takes four and a half times the bytecode instructions of one without the door: a third of the difference is in the event loop's turns, the rest in the server (uvicorn) and our own checks of who comes, how often and with what. By MCP over standard input and output it takes six times as many, and over HTTP eighteen, nearly all of that in the protocol's SDK.
- **What a gateway keeps of sandboxes that are gone** has bounds. Two memories of at most 4,096 sessions take some 2 KB for each session never seen before, until they are full. What else grew was garbage in cycles, 139 KB for each opening,
  nearly all of it a buffer to read into, until Python looked for it. All sandboxes of a loop share one buffer now, and 10 KB are left.
- **`crabpot explain`**: a frozen class's methods are compiled at their first use (`frozen.py`, 100 lines), so a start compiles 98 texts in place of 523: 237 ms of processor time in place of 290 ms, on a very busy machine where `python -I -c pass` took 16 ms.
- **An opening**, by `strace -f` as root: 589 system calls with the closing and a first `read`, and no program started; by bwrap 1,600, and three programs. The gateway itself takes 30,500 bytecode instructions for it, and 17 more for each sandbox that lives.

### From machine to machine, and from run to run

The narrow rows move by a tenth and more on a shared machine: `exec true`, a warm claim, 100 at once, the doors, an MCP server's call, a search.

- **AMD EPYC, above**: of five full runs, three held every figure for both users, the last two among them. The other two missed one row each: a `grep` over 1,000 files (1.54 ×, when small folders were not yet searched without ripgrep) and a call of an MCP server's tool (2.2 ×, when it was still measured one by one, between others' blocks).
- **Another EPYC**, where a bare spawn takes a fifth longer, missed three of an ordinary user's figures by 2 % at most: `exec true`, a warm claim and MCP over standard input and output. The raw results of that run were not kept.
- **Intel Xeon, above**: a virtual machine within another, where each page that is touched first costs 2.4 µs. Whatever copies memory (100 MB in and out), starts processes or runs cold code pays for that, and most of what is missed there is of these kinds.

### Opening, before and after

By bwrap and by a fork server ([decision 19](decisions/0019-fork-server.md)), in turns in one process, as root with control groups, on a machine that was not quite idle. A bare bwrap with a shell took 4.7 ms there, and 3.9 ms at best.

| what | by bwrap | by a fork server | what did it |
|---|---|---|---|
| an opening to its first result, median of 80 · the least | 20.8 · 16.6 ms | 10.0 · 7.6 ms | no program is started, and the runner is loaded already: 860 lines more in all |
| 100 at once, three rounds | 1,009–1,101 ms | 546–576 ms | the same |
| memory of a sandbox that ran one command (proportional share) | 3.45 MB | 2.06 MB | what was loaded before the fork is shared |
| system calls of an opening, its first `read` and its closing | 1,600 | 584 | the same, and mounts by descriptor |
| first `read` · first `grep` of a sandbox | file tools are imported then | they are there | loaded before the fork: 25 lines more |

Before there was a fork server, on another machine (busy, Intel Xeon, with real-time priority, which makes it look idle, without control groups). A bare bwrap took 4.0 ms there, with a bare interpreter 11 ms, and that interpreter alone 7.5 ms.
The parts were timed in a run of their own, so they do not add up to the opening in the table below:

| from the call to its result, by bwrap | ms |
|---|---|
| the gateway decides, holds the folder, and starts bwrap | 1.8 |
| `chroot`, bwrap and the interpreter's own start, up to the seal's first line (in processor time some 0.8, 3 and 6) | 10.6 |
| the seal's mounts, capabilities and filter | 0.5 |
| the runner is loaded | 1.9 |
| the gateway looks at it from outside, and records the opening | 0.8 |
| the greeting, with limits and Landlock | 0.8 |
| the first command | 1.7 |

| what | before | after | what did it |
|---|---|---|---|
| an opening to its first result | 16.8 ms | 16.5 ms | the runner is loaded without its annotations, and without looking for garbage meanwhile: 14 lines more |
| instructions in the gateway | 37,238 | 34,470 | folders above a path are worked out once, the kernel's words are cut by one expression: 12 lines more |
| memory that waits for the collector, for each sandbox that is gone | 139 KB | 10 KB | one buffer for all sandboxes of a loop: 10 lines more |
| forking a session, before its first call, as root · as an ordinary user (on the AMD EPYC) | 3.3 · 4.8 ms | 3.0 · 4.4 ms | the note of a layer's mounts is written once, and not twice: one word fewer |
| not taken: an `encodings` module of our own for the inside | 6.0 ms for a bare start | 5.4 ms | some 40 lines that depend on the version of Python |
| not taken: no docstrings inside · another locale · another allocator | | 0.03 · 0.1 · 0 ms less | |
| not taken: fewer mounts | | 0.3 ms less at most | bwrap reads the list of mounts after each: a tenth of its time |
| not taken: bwrap around the child of a process that forks | 17.6 ms · 100 at once 1.69–1.85 × | 13.1 ms · 1.25–1.46 × | a prototype |

### Calls and doors, before and after

Instructions are bytecode instructions, counted as in `tests/cost`; processor times are the least of several runs on a busy machine, of both versions in turns. The rows of a step are changes of the same days, and the steps are in order. Each row was counted
before and after its own change: what others changed in between is not shown, and from the third step on the wait for the result counts too, so one row need not begin where another ended. The ratios to hold were not measured anew for this table.

| step | what | before | after | what did it |
|---|---|---|---|---|
| 1 | `read` in the gateway | 4,750 instructions, 150 µs of them on the way of the call | 4,280, and 70 µs | a call is described for the log in the loop's next turn, while nobody waits for it, and its frame is sent before it is noted down; blocks without generators: 90 lines more |
| 1 | `exec` in the gateway · in the runner | 4,505 · 2,711 instructions | 4,270 · 2,580 | these 90 lines |
| 1 | `read` in the runner | 1,609 instructions, 6 system calls for the file | 1,490, and 5 | a frame that comes alone passes no buffer, and a file that was as long as it said is not asked for more: 30 lines more |
| 1 | 100 MB file in | 104 ms of processor time in the gateway, 140 ms in the runner | 40 ms, 72 ms | sent as it is, and written to the file from where the kernel put it; room for a whole window in the socket: 60 lines more |
| 1 | a record, on disk | 500 µs, the median of a busy disk 2.7 ms | 215 µs, and 0.4 ms | who waits often gets a write-ahead log of its full length, so that no commit makes the file longer: 40 lines more |
| 1 | `read` by HTTP | 29,600 instructions, 16 turns of the loop | 21,400, 12 | plain calls of built-in tools do not pass through the framework, and no task waits for their client to leave: 60 lines more |
| 1 | `read` by MCP | 19,700 instructions | 18,400 | no tasks that wait for signs |
| 1 | first call of a session that gets a spare | 11,700 instructions | 9,700 | its digest is made without a copy of its description: 2 lines more |
| 2 | `exec` · `read` in the gateway | 4,069 · 4,255 instructions | 3,608 · 3,788 | one timer for all calls of a sandbox, and not one for each; a reply is a tuple; what only folders under review need is asked of those alone; an agent's settings are the same object in every decision: 36 lines more |
| 2 | `exec` in the runner | 2,611 instructions, 166 system calls with the gateway's | 2,419, and 113 | glibc is told of every signal, and asks about none; what most calls do not have is not looked for: 15 lines more |
| 2 | `read` in the runner | 1,487 instructions | 1,364 | these 15 lines |
| 2 | first call of a session that gets a spare | 9,284 instructions | 6,254 | the 36 lines; a description's fields are read at once (12 lines more); what waits is taken at once, without a task, and without a line for openings (30 lines more) |
| 2 | an opening, in the gateway | 32,984 instructions | 31,823 | the 36 lines, and slots are set by their own setters: 7 lines more |
| 2 | `read` by HTTP · MCP · MCP over HTTP | 21,204 · 18,333 · 60,250 instructions | 20,416 · 17,890 · 56,664 | the 36 lines, and an operator, who never waits for a turn, takes none |
| 2 | `read` by HTTP · MCP over HTTP, by another parser | 20,416 · 56,664 instructions | 13,277 · 47,800 | `httptools` in place of h11 (some 5,700 of it; 90 lines more, nearly all against what it lets pass), an answer in one piece (30 lines more), a call in its request's own task (20 lines more), no counting in short bodies (10 lines more), blocks without generators (20 lines more) |
| 2 | a record that is waited for, in writes and locks | 8 and 9 | 4 and 6 | the session that called last is written once a second, and the log's length is known without asking: 15 lines more |
| 3 | on the way of an `exec` · a `read` in the gateway | 2,986 · 3,140 instructions, in 125 and 128 functions | 2,711 · 2,767, in 98 | one step takes a slot or says who is full; an answer is checked where it is read; layers between the gateway's page and the wire are gone: 6 lines fewer |
| 3 | the same with its record | 4,695 · 4,903 instructions | 4,189 · 4,300 | eight calls, or those of 5 ms, are described together, and a record is put into words once: some 40 lines more |
| 3 | `exec` · `read` in the runner | 2,419 · 1,364 instructions | 1,945 · 1,248 | a command is started before its job is made, nothing is kept of a stream that stays silent, nobody is asked for children where there are none: 22 lines fewer |
| 3 | first call of a session that gets a spare | 6,931 instructions, in 308 functions | 4,376, in 157 | the policy is asked once about a tool of an agent, and an agent's next sandbox is described by what differs from the last: some 90 lines more |
| 3 | an opening, in the gateway | 32,781 instructions | 30,600 | these 90 lines |
| | not taken: `_posixsubprocess.fork_exec` in the place of `posix_spawn` | 87 µs to start a shell | 66 µs | private to CPython, with three signatures since 3.10 |
| | not taken: a shell that waits for its command | some 500 µs | some 100 µs | not the same shell: `$0`, `$-`, `$OLDPWD`, error messages, and a last command that is not the shell's own process |
| | not taken: parent and child on one processor | | nothing | the parent then waits for the child's end |

The second step was also timed, both versions in turns in five and six runs on the same busy machine, with real-time priority and without control groups as above, beside the same bare spawns (1.1 ms): `exec true` 1.34–1.36 × before and 1.32 × after,
a warm claim 2.05–2.14 × and 1.90 ×, `read` of 4 KiB 0.19 × both times. An opening took 18 ms before and after.
Its two last rows, in the same way and on a busy disk, four runs each: `exec true` by HTTP took 2.13–2.22 × `Gateway.call` before and 1.90–2.06 × after by the Unix socket, 2.19–2.22 × and 1.98–2.07 × by the loopback, and MCP over HTTP 2.96–3.12 × and 2.79–2.90 ×.
With the log in memory it was 1.88 × and 1.76–1.78 ×. After that, answers by HTTP no longer waited for the disk.

### Searches, before and after

Over trees of 1,000 and 100,000 files of 40 lines, of which 50 match; instructions as in `tests/cost`. Times are processor time on a busy machine where a row says nothing else, and the two sides of a row were measured together.

| what | before | after | what did it |
|---|---|---|---|
| `glob`, for each file that does not match | 182 instructions | 55 instructions | one expression for the names in each state, and no path for a name that has no place in the answer: 20 lines more |
| `glob` over 100,000 files | 289 ms, 2.4 × `rg --files` (119 ms) | 177 ms, 1.3 × `rg --files` (133 ms this time) | the same |
| `grep` over 1,000 files, the process of the search alone, without `rg` and the forks | 3.4 ms | 2.4 ms | a text without special characters is searched for as it is and never compiled; only lines that hold it are decoded |
| the same, with `rg` and the forks, through the runner | 15.9 ms | 14.7 ms, before the row above | `openat2` is loaded before the fork, and `rg` is started by vfork: a second fork made every page of the search be copied twice |
| `grep` over 1,000 files without ripgrep | 11.0 ms, 1.7 × `rg` | 8.2 ms | a file that is read whole and does not hold the text ends there: one `fstat`, one `read`, no path in words |
| `grep` over 100,000 files without ripgrep | 1.25 s, 2.6 × `rg` | 0.81 s, 1.7 × | the same |
| the same, for each file that does not match | 495 instructions | 371 instructions | the same |
| `glob` over 100,000 files in 1,000 folders, through the runner: wall time on two processors, in two runs, each beside `rg --files` | 147 ms, 2.65 × `rg` (55.5 ms) | 72.9 ms, 1.3 × (56 ms) | a tree of more than 256 folders is shared among up to four processes, each of which takes the next of 256 parts when it is done with one; nothing is sorted or asked for its time that has no place in the answer: 174 lines more |
| the same by one process | 129 ms | 106 ms | a file's name is looked at first, by one expression for its folder |
| the same, with three rules in a `.gitignore` at the top | 223 ms | 116 ms | the same: a file that does not match is never compared with the rules |
| `glob`, for each file that does not match | 55 instructions | 26 instructions | the same |
| `glob` over 1,000 files, the process of the search alone | 1.45 ms | 1.13 ms | the same |
| `grep` over 1,000 files for a plain text, through the runner: wall time, medians of eight runs in turns | 9.3 ms | 7.7 ms | a tree of few names (2,048 shared among the processors) is searched without starting ripgrep: 60 lines more, with those of the row below |
| `grep` without ripgrep, for each file that does not match | 372 instructions | 282 instructions | nothing is asked about a file before it is read |
| not taken: an answer that is passed on while the process of its search still ends | 7.7 ms | 8.1 ms | that process counts towards the sandbox's limit, so that the next call may be refused |

`rg --files` was not taken for `glob`: it lists no links and no pipes, which belong to the answer, and no times, so the walk would still have to be made for those. Threads share one
interpreter. A process that takes part and is killed makes the search begin again alone, and where no more processes are allowed one does it all, so the answers do not depend on them.

What is left of a search beside `rg` is mostly the fork: some 400 pages of the runner are copied in each, at two to three microseconds. A search process that stays was not
built: it would have to be told apart from what a command leaves behind at the end of every `exec`.
"""
_COUNTED = """## What noise cannot change

Times move with the machine, so the tests hold counted numbers instead (`tests/cost`, a part of `make test`): the bytecode instructions that a
call or an opening takes in the gateway, a call also by HTTP and by MCP, a call in the runner, and a search for each file; the wake-ups of the gateway's loop; the system calls of a call, of a search for each file and of an opening, with its mounts and programs, as root
and as an ordinary user; the modules that each start imports, and the texts that it compiles. What a shell, or the interpreter inside, does by itself is subtracted, since it is the machine's.
The numbers are what was counted last. The margin is 3 % for instructions (30 % on a Python other than 3.11, which compiles to others), 1.5 % for the system calls of an opening, 0.6 for those of a `read` and 2.6 for those of an `exec`.

Each of these deliberate regressions failed it:

| regression | what failed |
|---|---|
| one `stat`, or 1 ms of sleep, more in the runner for each call | the system calls of a `read`: 12.1 and 12.2, held at 11.6 |
| arguments to JSON and back in `Gateway.call` | 2,900 instructions, held at 2,685 |
| one wake-up more in `Gateway.call` | 3 wake-ups, held at 2 |
| one `fstat` more for each file of a `grep` | the system calls of two searches for each file: 10, held at 8.5 |
| ten `stat` more for an opening | 600.5 system calls, held at 589 |
| one module more in the runner · in the thin client | the modules of a start, held exactly |
| a settings class made by the standard library | the texts that a start compiles |

What they do not see: work and memory of the interpreter's own C code that make no system call, and less than 80 instructions.
"""
# ruff: noqa: E501  the page's own lines


def files(reports: Sequence[Report]) -> dict[str, str]:
    """Return every file of the page by name; of what two reports measured, the plot is that of the first."""
    made = {"benchmarks.md": "\n".join(_page(reports)).rstrip() + "\n"}
    for comparison in _comparisons(reports):
        made[f"{FOLDER}/{comparison.id}.svg"] = plots.bars(comparison)
    for curve in _curves(reports):
        made[f"{FOLDER}/{curve.id}.svg"] = plots.lines(curve)
    return made


def _curves(reports: Sequence[Report]) -> list[Curve]:
    """Return each curve once, the first that goes furthest: one may be of a longer run of its own."""
    found: dict[str, Curve] = {}
    for curve in (one for report in reports for one in report.curves):
        if curve.id not in found or _end(curve) > _end(found[curve.id]):
            found[curve.id] = curve
    return list(found.values())


def _end(curve: Curve) -> float:
    return max(x for points in curve.lines.values() for x, _ in points)


def _comparisons(reports: Sequence[Report]) -> list[Comparison]:
    """Return each comparison once: a later report may have measured one thing alone."""
    found: dict[str, Comparison] = {}
    for report in reports:
        for one in report.comparisons:
            found.setdefault(one.id, one)
    return list(found.values())


def _page(reports: Sequence[Report]) -> Iterator[str]:
    yield _HEAD
    for report in (one for one in reports if one.figures):
        yield f"## Figures to hold, as {report.machine['user']}, on {report.machine['processor']}\n"
        yield "; ".join(f"{name}: {value}" for name, value in report.machine.items()) + ".\n"
        yield from _figures(report.figures)
    yield "## Who took part\n"
    yield from _peers(reports)
    yield "## Beside the limit and the peers\n"
    for comparison in _comparisons(reports):
        yield from _comparison(comparison)
    yield "## How it grows\n"
    for curve in _curves(reports):
        yield from _curve(curve)
    yield _WHERE
    yield _COUNTED


def _figures(figures: Sequence[Figure]) -> Iterator[str]:
    yield "| what | ours | beside | ratio | hold | |"
    yield "|---|---|---|---|---|---|"
    for one in figures:
        beside = one.missing if one.other is None else f"{one.other.name}: {amount(one.other)}"
        ours = "" if one.other is None else amount(one.ours)
        ratio = "" if one.ratio is None else _times(one.ratio)
        yield _row([one.what, ours, beside, ratio, one.hold(), _VERDICTS[one.holds]])
    yield ""


def _peers(reports: Sequence[Report]) -> Iterator[str]:
    found: dict[str, dict[str, str]] = {}
    for report in reports:
        for name, peer in report.peers.items():
            # Why a backend of ours, or a door, was not measured is said by the first, which measured everything.
            if report is reports[0] or "beyond" in peer:
                found.setdefault(name, peer)
    yield "| who | version | what it does that Crabpot does not, and what its figures leave out |"
    yield "|---|---|---|"
    for name, peer in found.items():
        took_part = peer.get("version") or f"could not take part: {peer.get('absent', 'unknown')}"
        if "version" in peer and "absent" in peer:
            took_part += f" (dropped out: {peer['absent']})"
        yield _row([name, _cell(took_part), _cell(peer.get("beyond", ""))])
    yield ""
    yield _HONEST


def _cell(text: str) -> str:
    return " ".join(text.replace("|", "\\|").replace("<", "&lt;").split())


def _comparison(comparison: Comparison) -> Iterator[str]:
    yield f"### {comparison.what}\n"
    if comparison.note:
        yield f"{comparison.note}\n"
    plain = comparison.what.replace("`", "")
    yield f"![{plain}]({FOLDER}/{comparison.id}.svg)\n"
    limit = comparison.find(comparison.limit) if comparison.limit else None
    ours = comparison.find(_OURS)
    heads = ["", "median", "p99", "n"]
    heads += [] if limit is None else [f"to {limit.name}"]
    heads += [] if ours is None else [f"{_OURS} to it"]
    yield _row(heads)
    yield "|" + "---|" * len(heads)
    for one in sorted(comparison.series, key=lambda one: one.median):
        cells = [one.name, amount(one), shown(one.p99, one.unit), str(len(one.values))]
        cells += [] if limit is None else [_times(one.median / limit.median)]
        cells += [] if ours is None else [_times(ours.median / one.median)]
        yield _row(cells)
    yield ""


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _times(ratio: float) -> str:
    return f"{ratio:.3g} ×"


def _curve(curve: Curve) -> Iterator[str]:
    yield f"### {curve.what}\n"
    if curve.note:
        yield f"{curve.note}\n"
    yield f"![{curve.what}]({FOLDER}/{curve.id}.svg)\n"
    names = list(curve.lines)
    yield _row([curve.along, *names])
    yield "|---|" + "---|" * len(names)
    points = {name: dict(curve.lines[name]) for name in names}
    for x in sorted({x for found in points.values() for x in found}):
        cells = [_point(points[name].get(x)) for name in names]
        yield _row([f"{x:,.0f}", *cells])
    yield ""


def _point(series: Series | None) -> str:
    if series is None:
        return ""
    return amount(series) if len(series.values) == 1 else f"{amount(series)} (p99 {shown(series.p99, series.unit)})"
