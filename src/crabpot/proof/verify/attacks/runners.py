"""Attacks on the gateway by a compromised runner: killed, stopped, or another program in its place."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from crabpot.proof.verify import witness
from crabpot.proof.verify.claims import Group, Outcome, few

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

claim = Group("gateway under a hostile runner")

# A call's limit, its grace and the end of its sandbox.
_ENDS_S = 12.0


@claim.about("sandbox", threats=("hostile-runner", "shared-uid"))
async def harms_only_itself_by_killing_the_runner(target: Target) -> Outcome:
    """The runner shares its uid with what it runs: it may be killed, and then only this sandbox is lost."""
    killed = await target.shell("kill -KILL $PPID; kill -TERM $PPID; kill -HUP $PPID; sleep 3", timeout_s=5.0)
    neighbour, again = await target.other.answers(), await target.answers()
    ended = killed.error.code if killed.error else f"exit code {killed.exit_code}"
    answers = f"neighbour {'answers' if neighbour else 'IS GONE'}, next call {'answered' if again else 'FAILED'}"
    return Outcome(
        held=neighbour and again and not killed.success,
        tried="sent KILL, TERM and HUP to the runner",
        came_back=f"that call: {ended}; {answers}",
    )


@claim.about("limits.timeLimit", threats=("hostile-runner",))
async def cannot_hold_the_gateway_by_stopping_the_runner(target: Target) -> Outcome:
    """A runner that never answers again must not keep a call open for ever."""
    loop = asyncio.get_running_loop()
    began = loop.time()
    stopped = await target.shell("kill -STOP $PPID; sleep 600", timeout_s=1.0)
    took = loop.time() - began
    neighbour, again = await target.other.answers(), await target.answers()
    ended = stopped.error.code if stopped.error else f"exit code {stopped.exit_code}"
    return Outcome(
        held=took < _ENDS_S * target.pace and stopped.error is not None and neighbour and again,
        tried="stopped the runner in a call with a time limit of 1 s",
        came_back=f"{ended} after {took:.1f} s; neighbour {'answers' if neighbour else 'IS GONE'}, "
        f"next call {'answered' if again else 'FAILED'}",
    )


_MAY_GROW = 96 * 1024**2


async def _each(target: Target, scripts: dict[str, str], *, timeout_s: float = 5.0) -> Outcome:
    """Let a hostile runner answer one call in each of these ways: it must cost its own sandbox, and nobody anything."""
    wrong: list[str] = []
    answers: dict[str, list[str]] = {}
    before = witness.memory_bytes()
    loop = asyncio.get_running_loop()
    for what, script in scripts.items():
        await target.replace_runner(script)
        began = loop.time()
        calling = asyncio.create_task(target.shell("true", timeout_s=timeout_s))
        neighbour = await target.other.answers()
        result = await calling
        took = loop.time() - began
        code = result.error.code if result.error else "an answer"
        answers.setdefault(code, []).append(what)
        slow = took > _ENDS_S * target.pace
        if code != "sandbox_lost" or slow or not neighbour or target.bait.secret in str(result.data):
            wrong.append(f"{what}: {code} after {took:.1f} s, neighbour {'answers' if neighbour else 'IS SILENT'}")
    grown = witness.memory_bytes() - before
    again = await target.answers()
    codes = "; ".join(f"{code} ({few(whats, 4)})" for code, whats in answers.items())
    after = f"the gateway grew by {max(grown, 0) // 1024**2} MiB; next call {'answered' if again else 'FAILED'}"
    return Outcome(
        held=not wrong and grown < _MAY_GROW and again,
        tried=few(list(scripts)),
        came_back=f"{f'TAKEN: {few(wrong)}' if wrong else codes}; {after}",
    )


@claim.about("sandbox", threats=("hostile-runner",))
async def cannot_break_the_gateway_by_frames_of_any_size(target: Target) -> Outcome:
    """The runner chooses what the gateway reads into memory."""
    return await _each(
        target,
        {
            "a line of 8 MiB": 'call(); raw(b"{" + b"x" * (8 << 20) + b"\\n")',
            "a line without an end": 'call()\nwhile True: raw(b"x" * 65536)',
            "a payload of a terabyte": 'raw(b\'{"op":"output","id":"%s","stream":"stdout","bytes":1099511627776}\\n\''
            " % call().encode())",
            "a payload of less than nothing": 'raw(b\'{"id":"%s","bytes":-1}\\n\' % call().encode())',
            "500,000 brackets": 'call(); raw(b"[" * 500000 + b"\\n")',
            "100,000 objects in each other": 'call(); raw(b\'{"a":\' * 100000 + b"\\n")',
            "a number of a million digits": "raw(b'{\"id\":\"1\",\"exit_code\":' + b'9' * 1000000 + b'}\\n')",
            "data 200 deep": 'answer(call(), data=json.loads(\'{"a":\' * 200 + "0" + "}" * 200))',
        },
    )


@claim.about("sandbox", threats=("hostile-runner",))
async def cannot_break_the_gateway_by_what_is_no_frame(target: Target) -> Outcome:
    """Invalid text, values that are not objects, half a frame and the end."""
    return await _each(
        target,
        {
            "invalid UTF-8": 'call(); raw(b\'{"id":"\\xff\\xfe"}\\n\')',
            "a NUL byte": 'call(); raw(b"\\0\\n")',
            "no JSON": 'call(); raw(b"hello, gateway\\n")',
            "two objects on one line": 'call(); raw(b\'{"id":"1"}{"id":"1"}\\n\')',
            "a list": 'call(); raw(b"[1]\\n")',
            "not a number": 'call(); raw(b\'{"id":"1","exit_code":NaN}\\n\')',
            "an operation of nobody": 'send({"op": "exec", "id": call(), "command": "id"})',
            "half of an answer": "raw(json.dumps(dict(DONE, id=call())).encode()[:-10]); sock.shutdown(1)",
        },
    )


@claim.about("sandbox", threats=("hostile-runner",))
async def cannot_answer_for_another_call(target: Target) -> Outcome:
    """An answer with somebody else's id, without one, or twice."""
    return await _each(
        target,
        {
            "an unknown number": "call(); answer('999999')",
            "no number": "call(); send(DONE)",
            "a number that is a list": "call(); answer([])",
            "a number that is a number": "answer(int(call()))",
            "output for nobody": 'call(); send({"op": "output", "id": "7", "stream": "stdout"}, b"x")',
            "ready once more": 'call(); send({"op": "ready", "protocol": 1})',
        },
    )


@claim.about("sandbox", threats=("hostile-runner", "reused-approval"))
async def cannot_forge_a_decision_of_the_gateway(target: Target) -> Outcome:
    """Who was denied, who agreed, whether a sandbox lives: only the gateway knows. Types do not cross the wire."""
    codes = ("denied", "approval_denied", "approval_timeout", "sandbox_lost", "sandbox_unavailable", "sudo")
    forged = {
        f"an error that says {code}": f'answer(call(), success=False, error={{"code": "{code}", "message": "x"}})'
        for code in codes
    }
    return await _each(
        target,
        {
            **forged,
            "success with an error": 'answer(call(), error={"code": "timeout", "message": "x"})',
            "an exception's class": 'answer(call(), success=False, error={"type": "builtins.SystemExit", "args": [0]})',
            "an exit code of its own kind": 'answer(call(), success=False, exit_code="0")',
            "success that is text": 'answer(call(), success="yes")',
        },
    )


@claim.about("sandbox", threats=("hostile-runner", "exhaustion"))
async def cannot_flood_the_gateway_from_the_runners_place(target: Target) -> Outcome:
    """More output than the limit, in large pieces and in single bytes, on a stream that exists or not."""
    return await _each(
        target,
        {
            "output without end": 'one = {"op": "output", "id": call(), "stream": "stdout"}\n'
            'while True: send(one, b"x" * 60000)',
            "single bytes without end": 'one = {"op": "output", "id": call(), "stream": "stderr", "bytes": 1}\n'
            'one = json.dumps(one)\nmany = (one.encode() + b"\\nx") * 1000\nwhile True: raw(many)',
            "a stream that is none": 'send({"op": "output", "id": call(), "stream": "stdlog"}, b"x")',
            "content that was not asked for": 'send({"op": "output", "id": call(), "stream": "content"}, b"x")',
        },
    )


@claim.about("sandbox", "limits.timeLimit", threats=("hostile-runner",))
async def cannot_hold_a_call_by_silence(target: Target) -> Outcome:
    """A runner that takes a call and never answers."""
    return await _each(target, {"silence": "call()"}, timeout_s=0.5)


@claim.about("sandbox", threats=("hostile-runner", "child-on-the-host"))
async def cannot_hold_upcalls_beyond_measure(target: Target) -> Outcome:
    """What a sandbox may ask the gateway for is a short list, and few at once."""
    return await _each(
        target,
        {
            "a thousand questions at once": 'call()\nfor up in range(1, 100000): send({"op": "upcall", "up": str(up), '
            '"kind": "run"}, b"/\\0id")\nstream.read()',
            "questions of a mebibyte of nested values": "call()\nfor up in range(1, 200): "
            'raw(b\'{"op":"upcall","up":"%d",\' '
            'b\'"kind":"run","x":[%s{}]}\\n\' % (up, b\'{},\' * 300000))\nstream.read()',
            "a question without a number": 'call(); send({"op": "upcall", "kind": "run"})',
            "a question of no kind": 'call(); send({"op": "upcall", "up": "1"})',
            "data for no question": 'call(); send({"op": "data", "up": "77"}, b"x")',
            "an answer to itself": 'call(); send({"op": "reply", "up": "1", "success": True})',
        },
    )
