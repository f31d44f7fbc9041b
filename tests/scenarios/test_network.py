"""A network of listed places, from the command line: asked about beforehand, refused with a reason, agreed to, and used."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from tests.support.waiting import wait_until

CURL = "curl -sS -m 60"


class Page(BaseHTTPRequestHandler):
    def do_GET(self):  # the name that http.server looks for
        body = b"the page\n"
        self.send_response(200)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_):
        """Say nothing."""


@contextmanager
def website():
    server = ThreadingHTTPServer(("127.0.0.1", 0), Page)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    try:
        yield server.server_address[1]
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


def configure(crabpot, network):
    crabpot.workspace.mkdir(exist_ok=True)
    return crabpot.configure(json.dumps({"agents": {"defaults": {"sandbox": {"network": network}}}}, indent=2))


def test_a_refusal_names_the_setting_and_following_it_opens_the_way(crabpot):
    with website() as port:
        file = configure(crabpot, {"allow": ["example.com"]})
        page = f"{CURL} --noproxy '' http://127.0.0.1:{port}/"
        refused = crabpot("exec", "--", page)
        assert f'add "127.0.0.1:{port}" to network.allow' in refused.err
        assert "agents.defaults.sandbox.network.allow" in refused.err
        assert "the page" not in refused.out
        told = crabpot("audit", "tail").out
        assert f"refused  127.0.0.1:{port}" in told
        assert crabpot("config", "set", "agents.defaults.sandbox.network.allow[+]", f"127.0.0.1:{port}").code == 0
        assert "example.com" in file.read_text()
        allowed = crabpot("exec", "--", page)
        assert (allowed.out, allowed.err) == ("the page\n", "")


@pytest.mark.parametrize(
    ("network", "place", "answer", "because"),
    [
        ({"allow": ["example.com"]}, "example.com:443", "allowed", 'listed as "example.com"'),
        ({"allow": ["example.com"]}, "EXAMPLE.COM.:80", "allowed", 'listed as "example.com"'),
        ({"allow": ["example.com"]}, "example.com:22", "refused", "not for 22"),
        ({"allow": ["*.example.org"]}, "example.org", "refused", "not for that name itself"),
        ({"allow": []}, "example.com:443", "refused", "empty"),
        ({"allow": [], "ask": True}, "example.com:443", "asks", "a person is asked"),
        ({"allow": ["127.0.0.1:22"]}, "127.0.0.1:22", "allowed", "listed as"),
        ({"allow": ["0.0.0.0/1:22"]}, "10.0.0.1:22", "refused", "private"),
        ("internet", "example.com:25", "allowed", "internet"),
        ("internet", "192.168.1.1:80", "refused", "private"),
        ("internet", "0x7f000001:80", "refused", "four decimal numbers"),
        ("internet", "example.com\x1b[31m:80", "refused", "no host name has"),
        ("none", "example.com:443", "refused", "no network"),
        ("host", "10.0.0.1:22", "unchecked", "not checked"),
    ],
)
def test_explain_answers_beforehand(crabpot, network, place, answer, because):
    configure(crabpot, network)
    told = crabpot("explain", "--connect", place, "--json").json["connect"]
    assert told["answer"] == answer
    assert because in told["because"]
    plain = crabpot("explain", "--connect", place).out
    assert f"→ {answer}" in plain
    assert "\x1b" not in plain


def test_an_unlisted_place_is_asked_for_reached_once_agreed_to_and_written_down(crabpot):
    with website() as port:
        file = configure(crabpot, {"allow": [f"127.0.0.1:{port}", f"[::1]:{port}"], "ask": True})
        running = crabpot.start("exec", "--", f"{CURL} -p http://localhost:{port}/", stdout=-1, stderr=-1)

        def waiting():
            return crabpot("approvals", "list", "--json").json

        (request,) = wait_until(waiting, 60)
        assert (request["kind"], request["host"], request["port"]) == ("connection", "localhost", port)
        assert f"localhost:{port}" in crabpot("approvals", "list").out
        allowed = crabpot("approvals", "allow", request["id"], "--list")
        assert "written into the configuration" in allowed.out
        assert "for the agent main alone: agents.entries.main" in allowed.out
        out, err = running.communicate(timeout=60)
        assert out == b"the page\n", err
        assert request["id"].encode() in err
        assert f'"localhost:{port}"' in file.read_text()
        again = crabpot("exec", "--", f"{CURL} -p http://localhost:{port}/")
        assert again.out == "the page\n"
        assert [line.split()[2] for line in crabpot("audit", "tail").out.splitlines()].count("request") == 1


def test_a_place_that_is_written_down_under_serve_is_reached_at_once_by_clients_that_stay_attached(crabpot):
    with website() as port, crabpot.serving():
        page = f"{CURL} -p http://localhost:{port}/"
        configure(crabpot, {"allow": [f"127.0.0.1:{port}", f"[::1]:{port}"], "ask": True})
        crabpot("exec", "--", "echo kept > /tmp/note")
        # Attached before, to another sandbox of the agent's, and on its way through all of it.
        other = ("--session", "agent:main:other", "--", f"echo begun; read -r _; {page}")
        attached = crabpot.start("exec", *other, stdin=-1, stdout=-1, stderr=-1)
        assert attached.stdout.readline() == b"begun\n"
        asking = crabpot.start("exec", "--", page, stdout=-1, stderr=-1)
        try:
            (request,) = wait_until(lambda: crabpot("approvals", "list", "--json").json, 60)
            assert crabpot("approvals", "allow", request["id"], "--list").code == 0
            assert asking.communicate(timeout=60)[0] == b"the page\n"
            again = crabpot("exec", "--", f"cat /tmp/note; {page}")
            assert (again.code, again.out, again.err) == (0, "kept\nthe page\n", "")
            out, err = attached.communicate(b"go on\n", timeout=60)
            assert (attached.returncode, out, err) == (0, b"the page\n", b"")
        finally:
            for one in (attached, asking):
                one.kill()
                one.communicate()
        records = [json.loads(line) for line in crabpot("audit", "export").out.splitlines()]
        assert [one["kind"] for one in records].count("request") == 1
        assert all(one["adopted"] for one in records if one["kind"] == "reload")


def test_a_denied_place_is_not_reached(crabpot):
    with website() as port:
        configure(crabpot, {"allow": [f"127.0.0.1:{port}", f"[::1]:{port}"], "ask": True})
        running = crabpot.start("exec", "--", f"{CURL} -p http://localhost:{port}/", stdout=-1, stderr=-1)
        (request,) = wait_until(lambda: crabpot("approvals", "list", "--json").json, 60)
        crabpot("approvals", "deny", request["id"], "--reason", "not today")
        out, err = running.communicate(timeout=60)
        assert out == b""
        assert b"not today" in err


def test_a_secret_for_an_encrypted_host_alone_is_an_error_that_says_so(crabpot):
    rule = {"host": "api.example.com", "header": "Authorization", "valueFrom": {"env": "API_TOKEN"}}
    configure(crabpot, {"allow": ["api.example.com:443"], "inject": [rule]})
    told = crabpot("check")
    assert told.code == 2
    assert 'set tls: "upgrade" or "terminate"' in told.err
    configure(crabpot, {"allow": ["api.example.com"], "inject": [rule]})
    shown = crabpot("explain", "--json")
    assert shown.code == 0
    assert "API_TOKEN" not in shown.out


def test_a_bridge_of_the_embedded_backend_is_an_error_that_names_internet(crabpot):
    crabpot.configure('{agents: {defaults: {sandbox: {backend: "bubblewrap", network: "bridge"}}}}')
    ended = crabpot("exec", "--", "true")
    assert ended.code == 125
    assert '"internet"' in ended.err


# --- in network namespaces --------------------------------------------------------------------------------------------

OURS, PUBLIC, LAN = "93.184.216.33", "93.184.216.34", "10.99.0.2"
_SERVE = """
import http.server, socket, sys, threading
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(b"from " + self.client_address[0].encode())
    def log_message(self, *_): pass
made = [http.server.ThreadingHTTPServer((place, 80), Page) for place in sys.argv[1:]]
for one in made: threading.Thread(target=one.serve_forever, daemon=True).start()
print("serving", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def machines():
    """Two network namespaces: a machine with a public and a private neighbour. Nothing in them leads anywhere else."""
    if os.geteuid() != 0:
        pytest.skip("only root makes network namespaces")
    mark = os.urandom(3).hex()
    here, there = f"crabpot-{mark}-a", f"crabpot-{mark}-b"

    def ip(*words):
        subprocess.run(["ip", *words], check=True, capture_output=True)

    servers = []
    try:
        for name in (here, there):
            ip("netns", "add", name)
            ip("-n", name, "link", "set", "lo", "up")
        ip("-n", here, "link", "add", "v", "type", "veth", "peer", "name", "v", "netns", there)
        for name, public, lan in ((here, OURS, "10.99.0.1"), (there, PUBLIC, LAN)):
            ip("-n", name, "addr", "add", f"{public}/24", "dev", "v")
            ip("-n", name, "addr", "add", f"{lan}/24", "dev", "v")
            ip("-n", name, "link", "set", "v", "up")
        for name, places in ((there, (PUBLIC, LAN)), (here, (OURS, "10.99.0.1", "127.0.0.1"))):
            words = ["ip", "netns", "exec", name, sys.executable, "-c", _SERVE, *places]
            servers.append(subprocess.Popen(words, stdin=-1, stdout=-1))
            assert servers[-1].stdout.readline() == b"serving\n"
        yield here
    finally:
        for server in servers:
            server.communicate(b"")
        for name in (here, there):
            subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)


@pytest.mark.parametrize(
    ("network", "reached"),
    [
        ("internet", [PUBLIC]),
        ({"allow": [f"{LAN}:80"]}, [LAN]),
        ({"allow": ["10.99.0.0/24:80"]}, [LAN]),
        ({"allow": ["93.184.216.0/24:80"]}, [PUBLIC]),
        ({"allow": [f"{OURS}:80", f"{PUBLIC}:80"]}, [PUBLIC, OURS]),
        ({"allow": ["0.0.0.0/1:80"]}, [PUBLIC]),
        ({"allow": []}, []),
    ],
    ids=str,
)
def test_the_internet_is_not_the_lan_and_neither_is_the_host(crabpot, machines, network, reached):
    configure(crabpot, network)
    places = (PUBLIC, LAN, OURS, "10.99.0.1", "127.0.0.1", "169.254.169.254")
    script = "; ".join(f"echo {place} $({CURL} -p --noproxy '' http://{place}/)" for place in places)
    inside = crabpot.__class__(home=crabpot.home, argv=("ip", "netns", "exec", machines, *crabpot.argv))
    ended = inside("exec", "--", script)
    got = [line.split()[0] for line in ended.out.splitlines() if " from " in line]
    assert got == reached, ended
    if network == "internet":
        assert "10.99.0.2 is private" in ended.err


def test_names_are_resolved_by_the_gateway_through_the_hosts_own_files(crabpot, machines):
    # `ip netns exec` shows a namespace's own /etc/hosts where there is one.
    folder = f"/etc/netns/{machines}"
    os.makedirs(folder)
    try:
        with open(f"{folder}/hosts", "w", encoding="utf-8") as file:
            file.write(f"{PUBLIC} good.example\n{LAN} lan.example\n{OURS} own.example\n{PUBLIC} both.example\n")
            file.write(f"{LAN} both.example\n127.0.0.1 loop.example\n")
        configure(crabpot, {"allow": ["*.example:80"]})
        names = ("good", "lan", "own", "both", "loop")
        script = "; ".join(f"echo {name} $({CURL} -p http://{name}.example/)" for name in names)
        inside = crabpot.__class__(home=crabpot.home, argv=("ip", "netns", "exec", machines, *crabpot.argv))
        ended = inside("exec", "--", script)
        assert [line for line in ended.out.splitlines() if " from " in line] == [f"good from {OURS}"], ended
        assert "lan.example leads to 10.99.0.2" in ended.err
        assert "address of this machine itself" in ended.err
    finally:
        os.unlink(f"{folder}/hosts")
        os.rmdir(folder)


def test_no_port_of_the_host_is_taken_by_a_proxy_inside(crabpot):
    configure(crabpot, {"allow": ["example.com"]})
    with socket.socket() as taken:
        # The same port of the host's own loopback: the sandbox's is another.
        taken.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        taken.bind(("127.0.0.1", 3128))
        taken.listen()
        assert crabpot("exec", "--", "echo fine").out == "fine\n"


@pytest.mark.parametrize("network", ["internet", {"allow": ["*.example", "localhost:1"]}], ids=str)
def test_every_claim_about_the_network_holds_where_the_gateway_connects_for_the_sandbox(crabpot, network):
    configure(crabpot, network)
    ended = crabpot("verify", "--only", "network", "--json")
    assert ended.code == 0, ended
    assert ended.json["claims"]["held"] >= 10
