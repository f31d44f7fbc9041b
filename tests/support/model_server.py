"""A scripted model for real agents: it speaks to them in their own protocols, and remembers who paid."""

from __future__ import annotations

import itertools
import json
import threading
import time
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterable, Iterator

DONE = "the script is over"


@dataclass(frozen=True)
class Use:
    """One tool that the model asks for, by a part of its name, and its arguments. A text instead of them is free-form."""

    name: str
    args: dict[str, Any] | str


class Script:
    """What the model says, turn by turn: tools, or shell commands for the agent's own tool; then a last word.

    `tools` are those of the last request, `results` what the model was sent, `seconds` what each turn took the agent,
    `bodies` all that it was asked.
    """

    def __init__(self, *steps: str | Use, last: str = DONE) -> None:
        self.steps = steps
        self.last = last
        self.keys: list[str] = []
        self.results: list[str] = []
        self.bodies: list[bytes] = []
        self.tools: list[dict[str, Any]] = []
        self.seconds: list[float] = []
        self.answered_at: float | None = None
        self.port = 0

    def next(self, turn: int, tools: Iterable[str | None], *shells: str) -> tuple[str, dict[str, Any] | str] | None:
        """Return the tool of a turn and its arguments; None when the script is over or the agent has no such tool."""
        step = self.steps[turn] if turn < len(self.steps) else None
        offered = [name for name in tools if name]
        if step is None:
            return None
        if isinstance(step, str):
            named = next((shell for shell in shells if shell in offered), None)
            return None if named is None else (named, _shell_arguments(named, step))
        exact = [name for name in offered if name == step.name]
        named = next(iter(exact or [name for name in offered if name.endswith(f"__{step.name}")]), None)
        return None if named is None else (named, step.args)

    def timed(self) -> None:
        """Note how long the agent took since the model's last word."""
        if self.answered_at is not None:
            self.seconds.append(time.monotonic() - self.answered_at)


# Agents go on without a slow command, or end it: not within ten minutes, or the most that each takes.
_PATIENCE: dict[str, dict[str, Any]] = {
    "exec_command": {"yield_time_ms": 30_000},
    "shell_command": {"timeout_ms": 600_000},
    "shell": {"timeout_ms": 600_000},
    "exec": {"yieldMs": 600_000},
    "run_shell_command": {},
}


def _shell_arguments(tool: str, command: str) -> dict[str, Any]:
    named = {"exec_command": "cmd"}.get(tool, "command")
    given = ["bash", "-c", command] if tool == "shell" else command
    return {named: given, **_PATIENCE.get(tool, {"description": "as scripted", "timeout": 600_000})}


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script
    numbers = itertools.count()

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        self._paid()
        self._answer({"object": "list", "data": [], "models": []})

    def do_HEAD(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self._paid()
        body = self._body() or b"{}"
        self.script.bodies.append(body)
        said = json.loads(body)
        self.script.timed()
        path = self.path.split("?")[0]
        kinds = {"/messages": self._anthropic, "/responses": self._responses, "/chat/completions": self._chat}
        kinds |= dict.fromkeys((":streamGenerateContent", ":generateContent"), self._gemini)
        for ending, speak in kinds.items():
            if path.endswith(ending):
                speak(said)
                self.script.answered_at = time.monotonic()
                return
        self._answer({"input_tokens": 1})

    def _paid(self) -> None:
        named = ("x-api-key", "x-goog-api-key", "authorization")
        self.script.keys.append(next(filter(None, map(self.headers.get, named)), ""))

    def _body(self) -> bytes:
        if self.headers.get("transfer-encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("content-length") or 0))
        whole = b""
        while size := int(self.rfile.readline().strip() or b"0", 16):
            whole += self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()
        return whole

    def _answer(self, data: Any) -> None:
        body = b"" if self.command == "HEAD" else json.dumps(data).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.write(body)
        self.close_connection = True

    def _stream(self, *events: dict[str, Any] | str) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        for event in events:
            named = f"event: {event['type']}\n" if isinstance(event, dict) and "type" in event else ""
            text = event if isinstance(event, str) else json.dumps(event)
            self.wfile.write(f"{named}data: {text}\n\n".encode())
            self.wfile.flush()
        self.close_connection = True

    # --- each agent's own words -------------------------------------------------------------------------------------

    def _anthropic(self, said: dict[str, Any]) -> None:
        turns = [one for one in said["messages"] if _holds(one, "tool_use")]
        self._heard(said["messages"][-1], "tool_result")
        self.script.tools = said.get("tools", []) or self.script.tools
        asked = self.script.next(len(turns), [tool.get("name") for tool in said.get("tools", [])], "Bash", "bash")
        number = next(self.numbers)
        whole: dict[str, Any] = {
            "id": f"msg_{number}", "type": "message", "role": "assistant", "model": said.get("model"), "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        if asked is None:
            block: dict[str, Any] = {"type": "text", "text": ""}
            delta: dict[str, Any] = {"type": "text_delta", "text": self.script.last}
            full: dict[str, Any] = {"type": "text", "text": self.script.last}
        else:
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": asked[0], "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(asked[1])}
            full = {**block, "input": asked[1]}
        stop = "end_turn" if asked is None else "tool_use"
        if not said.get("stream"):
            self._answer({**whole, "content": [full], "stop_reason": stop})
            return
        self._stream(
            {"type": "message_start", "message": whole},
            {"type": "content_block_start", "index": 0, "content_block": block},
            {"type": "content_block_delta", "index": 0, "delta": delta},
            {"type": "content_block_stop", "index": 0},
            {
                "type": "message_delta",
                "delta": {"stop_reason": stop, "stop_sequence": None},
                "usage": {"output_tokens": 1},
            },
            {"type": "message_stop"},
        )

    def _responses(self, said: dict[str, Any]) -> None:
        given = said.get("input") or []
        results = [one for one in given if isinstance(one, dict) and str(one.get("type", "")).endswith("_output")]
        self.script.results += [json.dumps(one) for one in results[-1:]]
        self.script.tools = said.get("tools", []) or self.script.tools
        names = [tool.get("name") or tool.get("type") for tool in _flat(said.get("tools", []))]
        asked = self.script.next(len(results), names, "exec_command", "shell_command", "shell")
        number = next(self.numbers)
        if asked is None:
            text = {"type": "output_text", "text": self.script.last, "annotations": []}
            item: dict[str, Any] = {"type": "message", "id": f"m_{number}", "role": "assistant", "content": [text]}
        else:
            free = isinstance(asked[1], str)
            item = {"type": "custom_tool_call" if free else "function_call", "id": f"fc_{number}"}
            item |= {"call_id": f"call_{number}", **_called(asked[0], said.get("tools", []))}
            item |= {"input": asked[1]} if free else {"arguments": json.dumps(asked[1])}
        usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
        whole = {"id": f"resp_{number}", "object": "response", "created_at": 1, "model": said.get("model")}
        self._stream(
            {"type": "response.created", "response": {**whole, "status": "in_progress", "output": []}},
            {"type": "response.output_item.added", "output_index": 0, "item": item},
            {"type": "response.output_item.done", "output_index": 0, "item": item},
            {"type": "response.completed",
             "response": {**whole, "status": "completed", "output": [item], "usage": usage}},
        )  # fmt: skip

    def _chat(self, said: dict[str, Any]) -> None:
        turns = [one for one in said["messages"] if one.get("tool_calls")]
        self.script.tools = said.get("tools", []) or self.script.tools
        names = [(tool.get("function") or {}).get("name") for tool in said.get("tools", [])]
        asked = self.script.next(len(turns), names, "bash", "exec")
        heard = [one for one in said["messages"] if one.get("role") == "tool"]
        self.script.results += [json.dumps(one) for one in heard[len(self.script.results) :]]
        number = next(self.numbers)
        base = {"id": f"c_{number}", "object": "chat.completion.chunk", "created": 1, "model": said.get("model")}
        if asked is None:
            delta: dict[str, Any] = {"role": "assistant", "content": self.script.last}
        else:
            function = {"name": asked[0], "arguments": json.dumps(asked[1])}
            call = {"index": 0, "id": f"call_{number}", "type": "function", "function": function}
            delta = {"role": "assistant", "content": None, "tool_calls": [call]}
        why = "stop" if asked is None else "tool_calls"
        self._stream(
            {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": why}]},
            "[DONE]",
        )

    def _gemini(self, said: dict[str, Any]) -> None:
        parts = [part for one in said["contents"] for part in one.get("parts", [])]
        results = [part for part in parts if "functionResponse" in part]
        self.script.results += [json.dumps(one) for one in results[len(self.script.results) :]]
        offered = [one for tool in said.get("tools", []) for one in tool.get("functionDeclarations", [])]
        asked = self.script.next(len(results), [one.get("name") for one in offered], "run_shell_command")
        part: dict[str, Any] = {"text": self.script.last}
        if asked is not None:
            part = {"functionCall": {"name": asked[0], "args": asked[1]}}
        whole = {
            "candidates": [{"content": {"role": "model", "parts": [part]}, "finishReason": "STOP", "index": 0}],
            "usageMetadata": {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2},
        }
        if "stream" in self.path:
            self._stream(whole)
        else:
            self._answer(whole)

    def _heard(self, message: dict[str, Any], kind: str) -> None:
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        self.script.results += [json.dumps(one) for one in blocks if isinstance(one, dict) and one.get("type") == kind]


def _holds(message: dict[str, Any], kind: str) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(isinstance(one, dict) and one.get("type") == kind for one in content)


def _flat(tools: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield every tool, those of a namespace by both names together."""
    for tool in tools:
        if tool.get("type") == "namespace":
            yield from ({**one, "name": f"{tool['name']}__{one['name']}"} for one in tool["tools"])
        else:
            yield tool


def _called(name: str, tools: list[dict[str, Any]]) -> dict[str, str]:
    """Return how a tool is named in a call: by itself, or by its namespace and its own name."""
    spaces = [tool["name"] for tool in tools if tool.get("type") == "namespace"]
    space = next((one for one in spaces if name.startswith(f"{one}__")), None)
    return {"name": name} if space is None else {"namespace": space, "name": name.removeprefix(f"{space}__")}


class _Listening(ThreadingHTTPServer):
    daemon_threads = True


@contextmanager
def scripted(script: Script, context: ssl.SSLContext | None, address: str = "127.0.0.1") -> Iterator[Script]:
    """Let a script be spoken on a port, over TLS or plain HTTP, for as long as a block lasts."""
    handler = type("Handler", (_Handler,), {"script": script})
    server = _Listening((address, 0), handler)
    if context is not None:
        server.socket = context.wrap_socket(server.socket, server_side=True)
    script.port = server.server_address[1]
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield script
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
