"""A page with a websocket, served inside, and the little of a client that speaks to it."""

from __future__ import annotations

import os
import socket

# A page whose websocket says back what it hears: the handshake and short frames of RFC 6455.
SERVER = r"""
import base64, hashlib, socket, sys, threading
page = b'''<!doctype html><title>waiting</title><script>
const socket = new WebSocket("ws://" + location.host + "/echo");
socket.onopen = () => socket.send("crab");
socket.onmessage = (event) => { document.title = "heard " + event.data; };
</script>'''
def serve(one):
    head = b""
    while b"\r\n\r\n" not in head:
        head += one.recv(4096) or sys.exit()
    fields = dict(line.split(b": ", 1) for line in head.split(b"\r\n")[1:] if b": " in line)
    key = {name.lower(): value for name, value in fields.items()}.get(b"sec-websocket-key")
    if key is None:
        one.sendall(b"HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nConnection: close\r\nContent-Length: %d\r\n\r\n" % len(page) + page)
        return one.close()
    accept = base64.b64encode(hashlib.sha1(key + b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11").digest())
    one.sendall(b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Accept: " + accept + b"\r\n\r\n")
    frame = one.recv(4096)
    size, mask = frame[1] & 127, frame[2:6]
    said = bytes(byte ^ mask[at % 4] for at, byte in enumerate(frame[6:6 + size]))
    one.sendall(bytes((0x81, len(said))) + said)
    one.recv(1)
listening = socket.create_server(("127.0.0.1", 3000))
print("up", flush=True)
while True:
    threading.Thread(target=serve, args=(listening.accept()[0],), daemon=True).start()
"""


def said_back(port: int, text: bytes) -> bytes:
    """Say a short text to the websocket at a port of the loopback, and return what it answers."""
    with socket.create_connection(("127.0.0.1", port), 60) as one, one.makefile("rb") as answers:
        one.sendall(
            b"GET /echo HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
        )
        head = b"".join(iter(answers.readline, b"\r\n"))
        # The answer to this key, as RFC 6455 has it in its first example.
        assert b"101 Switching Protocols" in head, head
        assert b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo=" in head, head
        mask = os.urandom(4)
        masked = bytes(byte ^ mask[at % 4] for at, byte in enumerate(text))
        one.sendall(bytes((0x81, 0x80 | len(text))) + mask + masked)
        kind, size = answers.read(2)
        assert kind == 0x81
        return answers.read(size)
