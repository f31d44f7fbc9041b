"""A scripted model for real agents: it speaks to them in their own protocols, over TLS, and remembers who paid."""

from __future__ import annotations

import itertools
import json
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import ssl
    from collections.abc import Iterator

DONE = "the script is over"


class Script:
    """What the model says, turn by turn: shell commands for the agent's own tool, then a last word."""

    def __init__(self, *commands: str) -> None:
        self.commands = commands
        self.keys: list[str] = []
        self.results: list[str] = []
        self.port = 0

    def next(self, turn: int) -> str | None:
        """Return the command of a turn; None when the script is over."""
        return self.commands[turn] if turn < len(self.commands) else None


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    script: Script
    numbers = itertools.count()

    def log_message(self, *_: Any) -> None:
        """Keep quiet."""

    def do_GET(self) -> None:
        self._answer({"object": "list", "data": [], "models": []})

    def do_HEAD(self) -> None:
        self._answer({})

    def do_POST(self) -> None:
        self.script.keys.append(self.headers.get("x-api-key") or self.headers.get("authorization") or "")
        said = json.loads(self._body() or b"{}")
        path = self.path.split("?")[0]
        kinds = {"/messages": self._anthropic, "/responses": self._responses, "/chat/completions": self._chat}
        for ending, speak in kinds.items():
            if path.endswith(ending):
                speak(said)
                return
        self._answer({"input_tokens": 1})

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
        tools = {tool.get("name") for tool in said.get("tools", [])}
        name = next((one for one in ("Bash", "bash") if one in tools), None)
        command = None if name is None else self.script.next(len(turns))
        number = next(self.numbers)
        whole: dict[str, Any] = {
            "id": f"msg_{number}", "type": "message", "role": "assistant", "model": said.get("model"), "content": [],
            "stop_reason": None, "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
        }  # fmt: skip
        if command is None:
            block: dict[str, Any] = {"type": "text", "text": ""}
            delta: dict[str, Any] = {"type": "text_delta", "text": DONE}
            full: dict[str, Any] = {"type": "text", "text": DONE}
        else:
            asked = {"command": command, "description": "as the script says"}
            block = {"type": "tool_use", "id": f"toolu_{number}", "name": name, "input": {}}
            delta = {"type": "input_json_delta", "partial_json": json.dumps(asked)}
            full = {**block, "input": asked}
        stop = "end_turn" if command is None else "tool_use"
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
        tools = {tool.get("name") or tool.get("type") for tool in said.get("tools", [])}
        command = self.script.next(len(results)) if tools & {"exec_command", "shell", "shell_command"} else None
        number = next(self.numbers)
        if command is None:
            text = {"type": "output_text", "text": DONE, "annotations": []}
            item: dict[str, Any] = {"type": "message", "id": f"m_{number}", "role": "assistant", "content": [text]}
        else:
            name = next(one for one in ("exec_command", "shell_command", "shell") if one in tools)
            words: Any = {"cmd": command} if name == "exec_command" else {"command": command}
            words = {"command": ["bash", "-c", command]} if name == "shell" else words
            item = {"type": "function_call", "id": f"fc_{number}", "call_id": f"call_{number}", "name": name}
            item["arguments"] = json.dumps(words)
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
        tools = {(tool.get("function") or {}).get("name") for tool in said.get("tools", [])}
        command = self.script.next(len(turns)) if "bash" in tools else None
        number = next(self.numbers)
        base = {"id": f"c_{number}", "object": "chat.completion.chunk", "created": 1, "model": said.get("model")}
        if command is None:
            delta: dict[str, Any] = {"role": "assistant", "content": DONE}
        else:
            asked = {"name": "bash", "arguments": json.dumps({"command": command, "description": "as scripted"})}
            call = {"index": 0, "id": f"call_{number}", "type": "function", "function": asked}
            delta = {"role": "assistant", "content": None, "tool_calls": [call]}
        why = "stop" if command is None else "tool_calls"
        self._stream(
            {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]},
            {**base, "choices": [{"index": 0, "delta": {}, "finish_reason": why}]},
            "[DONE]",
        )

    def _heard(self, message: dict[str, Any], kind: str) -> None:
        content = message.get("content")
        found = (
            [one for one in content if isinstance(one, dict) and one.get("type") == kind]
            if isinstance(content, list)
            else []
        )
        self.script.results += [json.dumps(one) for one in found]


def _holds(message: dict[str, Any], kind: str) -> bool:
    content = message.get("content")
    return isinstance(content, list) and any(isinstance(one, dict) and one.get("type") == kind for one in content)


class _Listening(ThreadingHTTPServer):
    daemon_threads = True


@contextmanager
def scripted(script: Script, context: ssl.SSLContext) -> Iterator[Script]:
    """Let a script be spoken on a port of the loopback, for as long as a block lasts."""
    handler = type("Handler", (_Handler,), {"script": script})
    server = _Listening(("127.0.0.1", 0), handler)
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
