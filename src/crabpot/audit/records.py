"""The records of a call: who, what, where, why and how it ended; never a file's content or a secret."""

from __future__ import annotations

import hashlib
import shlex
from functools import partial
from itertools import islice
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from crabpot.model import ToolCall, ToolResult, Verdict
    from crabpot.spec.spec import SandboxSpec

_LONGEST = 4096
_MOST_NAMES = 64
_LARGEST = 10**15
_NOTHING: Mapping[str, int] = MappingProxyType({})

# Arguments recorded as text. Of all others only the size is: they hold contents, input and environment.
_SHOWN = frozenset(
    {"command", "path", "pattern", "glob", "cwd", "action", "id", "timeout", "background", "detach", "to"}
)

# Arguments recorded with a digest. Never input or environment: a short secret could be guessed from its digest.
_PROVED = frozenset({"content", "patch"})


def of_intent(call: ToolCall, agent: str, verdict: Verdict[Any]) -> dict[str, Any]:
    """Describe a call that is about to touch the host."""
    return {"kind": "intent", **_who(call, agent, verdict)}


def of_call(
    call: ToolCall, agent: str, result: ToolResult, verdict: Verdict[Any], streamed: Mapping[str, int] = _NOTHING
) -> dict[str, Any]:
    """Describe a call that has ended; `streamed` is how many bytes of each stream were sent outside its result."""
    return ended(call, agent, result, verdict, streamed)()


def ended(
    call: ToolCall, agent: str, result: ToolResult, verdict: Verdict[Any], streamed: Mapping[str, int] = _NOTHING
) -> Callable[[], dict[str, Any]]:
    """Return what describes a call that has ended, for when nobody waits for it."""
    # Taken now: whoever gets the result may change its data.
    content = None if result.data is None else result.data.get("content")
    return partial(_described, content, call, agent, result, verdict, streamed=streamed)


def _described(  # noqa: PLR0913  what a record is made of
    content: Any,
    call: ToolCall,
    agent: str,
    result: ToolResult,
    verdict: Verdict[Any],
    *,
    streamed: Mapping[str, int],
) -> dict[str, Any]:
    # They prove what came back without storing it.
    sizes, digests = {"stdout": 0, "stderr": 0, **streamed}, {}
    for name, text in (("stdout", result.stdout), ("stderr", result.stderr), ("content", content)):
        if text and isinstance(text, str):
            data = _encode(text)
            sizes[name] = sizes.get(name, 0) + len(data)
            digests[name] = hashlib.sha256(data).hexdigest()
    return {
        "kind": "call",
        **_who(call, agent, verdict),
        "place": str(result.place),
        "success": result.success,
        "exit_code": result.exit_code,
        "error": None if result.error is None else result.error.code,
        "sizes": sizes,
        "digests": digests,
        "truncated": result.truncated,
        "duration_ms": result.duration_ms,
    }


def of_request(request: Mapping[str, Any]) -> dict[str, Any]:
    """Describe a request to an operator."""
    return {
        "kind": "request",
        **_request_fields(request),
        "sender": None if request["sender"] is None else readable(request["sender"]),
        **_displayed(request),
        "executes": [readable(one) for one in request["executes"][:_MOST_NAMES]],
        "dangers": list(request["dangers"]),
        "because": f'matches "{request["pattern"]}"',
        "rule": request["source"],
        "deadline": request["deadline"],
    }


def of_answer(request: Mapping[str, Any], answer: Mapping[str, Any]) -> dict[str, Any]:
    """Describe an answer, and who gave it."""
    reason = answer["reason"]
    given = {name: answer[name] for name in ("allowed", "grant", "minutes", "keep", "by")}
    return {
        "kind": "answer",
        **_request_fields(request),
        **given,
        "reason": None if reason is None else readable(reason),
    }


def of_elevated_command(
    call: ToolCall, agent: str, verdict: Verdict[Any], request: Mapping[str, Any], by: str
) -> dict[str, Any]:
    """Describe a command that is about to run on the host: who allowed it, which program, in which folder."""
    described = {**of_intent(call, agent, verdict), "request": request["id"], "by": by, **_displayed(request)}
    return described | {"warnings": ["nobody was asked: requireApproval is false"] if by == "config" else []}


def _request_fields(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"request": request["id"], "session": readable(request["session"]), "agent": request["agent"]}


def _displayed(request: Mapping[str, Any]) -> dict[str, Any]:
    folder, place = request["folder"], f"{request['host']}:{request['port']}" if request["host"] else None
    return {
        "shown": readable(request["shown"]),
        "binary": request["binary"],
        "folder": None if folder is None else readable(folder["path"]),
        "destination": place,
    }


def of_opening(
    spec: SandboxSpec, backend: str, clauses: list[dict[str, str]], facts: str | None = None
) -> dict[str, Any]:
    """Describe a sandbox that opened: its name, its backend, how each clause is enforced, and what is open in it.

    `facts` is the digest of what the kernel reports about it, None if that is unknown.
    """
    described = {"sandbox": spec.name, "hash_of_spec": spec.hash, "backend": backend, "clauses": clauses}
    return {"kind": "open", **described, "warnings": [readable(one) for one in spec.warnings], "facts": facts}


def of_connection(session: str, agent: str, destination: str, answer: str, **more: str) -> dict[str, Any]:
    """Describe a connection that a sandbox asked for: its destination and outcome, never what passed through."""
    return {
        "kind": "connection",
        "session": readable(session),
        "agent": agent,
        "destination": destination,
        "answer": answer,
        **{name: readable(value) for name, value in more.items()},
    }


def of_reload(config: str, because: str | None = None) -> dict[str, Any]:
    """Describe that a gateway read its configuration again: the digest, and why it was not adopted."""
    why = {} if because is None else {"because": readable(because)}
    return {"kind": "reload", "config": config, "adopted": because is None, **why}


def of_port(scope_key: str, agent: str, action: str, port: int, at: int | None) -> dict[str, Any]:
    """Describe a port of a sandbox that a person opened or closed: `at` is where on the host's loopback."""
    return {"kind": "port", "session": readable(scope_key), "agent": agent, "action": action, "port": port, "at": at}


def of_server(name: str, event: str, **more: Any) -> dict[str, Any]:
    """Describe what became of an MCP server: started, failed, approved, what is withheld, hidden characters."""
    return {"kind": "server", "server": name, "event": event, **{key: _told(value) for key, value in more.items()}}


def _told(value: Any) -> Any:
    if isinstance(value, dict):
        return {readable(key): readable(one) for key, one in islice(value.items(), _MOST_NAMES)}
    return [readable(one) for one in value[:_MOST_NAMES]] if isinstance(value, list) else readable(value)


def of_review(  # noqa: PLR0913  who did what to whose changes
    session: str,
    agent: str,
    action: str,
    by: str,
    *,
    folder: str,
    asked: Mapping[str, Any] | None = None,
    done: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Describe what a person does with the changes of a session: about to be done, or done; never a file's content."""
    who = {"session": readable(session), "agent": agent, "action": action, "by": readable(by)}
    return {
        "kind": "review",
        **who,
        "folder": readable(folder),
        **({} if asked is None else {"asked": _shortened(asked)}),
        **({} if done is None else {"done": _shortened(done)}),
    }


def of_snapshot(session: str, agent: str, action: str, by: str, **what: str) -> dict[str, Any]:
    """Describe what was done with a snapshot, by name, or that a session was forked, and to which."""
    who = {"session": readable(session), "agent": agent, "action": action, "by": readable(by)}
    return {"kind": "snapshot", **who, **{name: readable(text) for name, text in what.items()}}


def _shortened(told: Mapping[str, Any]) -> dict[str, Any]:
    """Return lists with their length, and the first of what is in them."""
    short: dict[str, Any] = {}
    for name, value in told.items():
        if isinstance(value, list):
            rows = [one["path"] if isinstance(one, dict) else one for one in value[:_MOST_NAMES]]
            short[name] = {"count": len(value), "first": [readable(row) for row in rows]}
        else:
            short[name] = value
    return short


def _encode(text: str) -> bytes:
    return text.encode("utf-8", "surrogatepass")


def _who(call: ToolCall, agent: str, verdict: Verdict[Any]) -> dict[str, Any]:
    return {
        "call": call.id,
        "session": readable(call.session),
        "agent": agent,
        "sender": None if call.sender is None else readable(call.sender),
        "tool": readable(call.tool),
        "args": shown_arguments(call.args),
        "because": verdict.because,
        "rule": verdict.source,
    }


def shown_arguments(args: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call as they may be shown: no contents, input or environment."""
    return {readable(name): _argument(name, value) for name, value in islice(args.items(), _MOST_NAMES)}


def _argument(name: str, value: Any) -> Any:
    if name in _SHOWN:
        if isinstance(value, str):
            return readable(value)
        if name == "command" and isinstance(value, list):
            return readable(shlex.join(word if isinstance(word, str) else type(word).__name__ for word in value))
        # JSON has no NaN and no infinity.
        return value if isinstance(value, int | float) and -_LARGEST < value < _LARGEST else None
    if isinstance(value, dict):
        return {"names": [readable(key) for key in islice(value, _MOST_NAMES)]}
    if name in _PROVED and isinstance(value, str):
        return {"size": len(value), "sha256": hashlib.sha256(_encode(value)).hexdigest()}
    return {"size": len(value)} if isinstance(value, str | bytes) else None


def readable(value: Any) -> str:
    """Return the text printable and short; halves of surrogate pairs cannot be stored."""
    if type(value) is str and len(value) <= _LONGEST and value.isascii():
        return value
    text = value if isinstance(value, str) else type(value).__name__
    whole = text if text.isascii() else text.encode("utf-8", "replace").decode("utf-8")
    return whole if len(whole) <= _LONGEST else f"{whole[:_LONGEST]}… ({len(whole)} characters)"
