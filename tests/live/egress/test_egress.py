"""Real sandboxes of every backend, real programs in them, and real servers on this machine's loopback."""

from __future__ import annotations

import asyncio
import base64
import ensurepip
import getpass
import json
import os
import shutil
import ssl
import subprocess
import sysconfig
import tempfile
import zipfile
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from types import SimpleNamespace

import pytest

from crabpot.egress.outside import system_trust
from crabpot.egress.proxy import serve
from crabpot.egress.reaching import Egress, EgressContext
from crabpot.egress.secrets import Secrets
from tests.support.backends import need
from tests.support.places import Names, Server, certified, serving
from tests.support.suites import open_gateway

# Debian keeps the wheels of ensurepip in a folder of their own.
_WHEELS = Path(sysconfig.get_config_var("WHEEL_PKG_DIR") or Path(ensurepip.__file__).parent / "_bundled")

SECRET = "s3cret-t0ken-of-the-gateway"
SESSION = "agent:main:egress"


@pytest.fixture(params=["bubblewrap", "docker"])
def backend(request):
    need(request.param)
    return request.param


@pytest.fixture
def opened(backend):
    """Return a sandbox over a network's settings, for as long as a block lasts."""

    @asynccontextmanager
    async def make(network, names=None, trust=system_trust):
        with tempfile.TemporaryDirectory(prefix="crabpot-egress-") as folder:
            Path(folder).chmod(0o711)
            sandbox = {"backend": backend, "network": network, "limits": {"pids": 400}}
            gateway = open_gateway(json.dumps({"agents": {"defaults": {"sandbox": sandbox}}}), f"{folder}/state")
            if names is not None:
                ground = EgressContext(
                    resolver=names,
                    secrets=Secrets({"TOKEN": SECRET}, folder),
                    record=gateway.audit.record,
                    trust=trust,
                )
                gateway.execution.opener.answering = lambda scope, authority: {
                    "connect": partial(serve, Egress(scope, ground, authority))
                }

            async def run(command, **args):
                return await gateway.call(SESSION, "exec", command=command, **args)

            async def put(path, content):
                done = await gateway.call(SESSION, "write", path=path, content=content)
                assert done.success, done.error

            try:
                yield SimpleNamespace(gateway=gateway, run=run, put=put, folder=folder)
            finally:
                await gateway.close()

    return make


async def test_what_is_listed_is_reached_by_every_way_in_and_nothing_else(opened):
    async with serving(Server()) as web, serving(Server()) as other:
        at, beside = web.port, other.port
        names = Names(ok_example="127.0.0.1", a_wild_example="127.0.0.1", wild_example="127.0.0.1")
        places = [f"127.0.0.1:{at}", f"ok.example:{at}", f"*.wild.example:{at}", f"127.0.0.2/31:{at}"]
        async with opened({"allow": places}, names) as box:
            for url in (f"127.0.0.1:{at}", f"ok.example:{at}", f"OK.Example.:{at}", f"a.wild.example:{at}"):
                for option in ("", "-p", "-x socks5h://127.0.0.1:3128"):
                    done = await box.run(f"curl -sS -m 20 {option} http://{url}/x")
                    assert done.stdout.startswith("GET /x HTTP/1.1"), (url, option, done)
            refused = (
                f"127.0.0.1:{beside}",
                f"ok.example:{beside}",
                f"wild.example:{at}",
                f"evilwild.example:{at}",
                f"nowhere.example:{at}",
                f"127.0.0.4:{at}",
                f"[::1]:{at}",
                f"localhost:{at}",
            )
            for url in refused:
                done = await box.run(f"curl -gsS -m 20 -p http://{url}/x")
                assert done.exit_code == 56, (url, done)
                assert "crabpot: the connection to" in done.stderr or "400" in done.stderr
            done = await box.run(f"curl -sS -m 20 http://nowhere.example:{at}/")
            assert "not listed (agents.defaults.sandbox.network.allow)" in done.stdout
            assert f'add "nowhere.example:{at}" to network.allow' in done.stderr
            assert other.connections == 0
            assert names.asked.count("ok.example") == 6
            assert not {"nowhere.example", "wild.example", "evilwild.example"} & set(names.asked)


async def test_nothing_resolves_names_inside_and_no_other_way_leads_out(opened):
    async with serving(Server()) as web, opened({"allow": [f"127.0.0.1:{web.port}"]}) as box:
        done = await box.run("getent ahosts example.com; getent ahosts localhost | head -1; ls /sys/class/net 2>&1")
        assert "example.com" not in done.stdout
        for command in (
            f"curl -sS -m 5 --noproxy '*' http://127.0.0.1:{web.port}/",
            "curl -sS -m 5 --noproxy '*' http://192.0.2.1/",
            "python3 -c 'import socket; socket.getaddrinfo(\"example.com\", 80)'",
            'python3 -c \'import socket; s=socket.socket(2,2); s.connect(("8.8.8.8", 53)); s.send(b"x")\'',
        ):
            assert not (await box.run(command)).success, command
        assert web.connections == 0


async def test_tls_is_checked_by_the_name_inside(opened, tmp_path):
    async with serving(Server(), certified(tmp_path, "ok.example")) as web:
        names = Names(ok_example="127.0.0.1")
        async with opened({"allow": [f"ok.example:{web.port}", f"127.0.0.1:{web.port}"]}, names) as box:
            await box.put("cert.pem", (tmp_path / "cert.pem").read_text())
            place = f"https://ok.example:{web.port}/"
            done = await box.run(f"curl -sS -m 20 --cacert cert.pem {place}")
            assert done.stdout.startswith("GET / HTTP/1.1"), done
            hidden = f"curl -sSk -m 20 --connect-to evil.example:{web.port}:ok.example:{web.port}"
            done = await box.run(f"{hidden} https://evil.example:{web.port}/")
            assert not done.success
            assert "(SNI)" in done.stderr
            assert len(web.heads) == 1


async def test_two_hundred_connections_at_once_are_each_answered_while_calls_go_on(opened):
    program = """
import socket, sys
port, count = int(sys.argv[1]), 200
made = []
for number in range(count):
    s = socket.create_connection(("127.0.0.1", 3128))
    s.sendall(b"CONNECT 127.0.0.1:%d HTTP/1.1\\r\\n\\r\\n" % port)
    made.append(s)
def line(s):
    got = b""
    while not got.endswith(b"\\n"):
        piece = s.recv(1)
        assert piece
        got += piece
    return got
for s in made:
    assert line(s).startswith(b"HTTP/1.1 200") and line(s) == b"\\r\\n" and line(s) == b"hello\\n"
print("all open", flush=True)
sys.stdin.readline()
for number, s in enumerate(made):
    s.sendall(b"%d\\n" % number)
for number, s in enumerate(made):
    assert line(s) == b"you said %d\\n" % number
print("all answered")
"""
    async with serving(Server(b"hello\n")) as web, opened({"raw": [f"127.0.0.1:{web.port}"]}) as box:
        await box.put("many.py", program)
        started = await box.run(f"python3 many.py {web.port}", background=True)
        process = started.data["process"]

        async def said(text):
            heard = ""
            while text not in heard:
                polled = await box.gateway.call(SESSION, "process", action="poll", id=process)
                heard += polled.stdout + polled.stderr
                assert polled.data["running"] or text in heard, heard

        await said("all open")
        assert web.connections == 200
        assert (await box.run("echo fine")).stdout == "fine\n"
        await box.gateway.call(SESSION, "process", action="write", id=process, data="go\n")
        await said("all answered")


async def test_a_download_that_nobody_reads_stops_no_call(opened):
    sent = []

    async def endless(_reader, writer):
        try:
            while True:
                writer.write(b"x" * 65536)
                await writer.drain()
                sent.append(65536)
        except ConnectionError:
            pass

    server = await asyncio.start_server(endless, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    stall = "import socket, time\ns = socket.create_connection(('127.0.0.1', 3128))\n"
    stall += f"s.sendall(b'CONNECT 127.0.0.1:{port} HTTP/1.1\\r\\n\\r\\n')\ns.recv(10)\ntime.sleep(300)\n"
    async with opened({"allow": [f"127.0.0.1:{port}"]}) as box:
        await box.put("stall.py", stall)
        for _ in range(20):
            await box.run("python3 stall.py", background=True)
        while len(sent) < 100:
            await asyncio.sleep(0.01)
        for number in range(30):
            assert (await box.run(f"echo {number}")).stdout == f"{number}\n"
        big = await box.run("head -c 3000000 /dev/zero | wc -c")
        assert big.stdout.strip() == "3000000"
        held = sum(sent)
        await box.run("true")
        # Twenty windows, the buffers of the kernel on the way, and no more: what nobody reads is not fetched.
        assert held < 20 * (12 << 20)
    server.close()


async def test_a_secret_is_added_on_the_way_and_is_nowhere_inside(opened):
    async with serving(Server()) as web:
        rule = {"host": f"api.example:{web.port}", "header": "Authorization", "valueFrom": {"env": "TOKEN"}}
        places = [f"127.0.0.1:{web.port}", f"api.example:{web.port}"]
        async with opened({"allow": places, "inject": [rule]}, Names(api_example="127.0.0.1")) as box:
            done = await box.run(f"curl -sS -o /dev/null -w '%{{http_code}}' http://api.example:{web.port}/")
            assert done.stdout == "200"
            assert f"Authorization: {SECRET}".encode() in web.heads[0]
            # As a pattern that does not match itself on a command line. What is under /usr is the system's own.
            pattern = f"'[{SECRET[0]}]{SECRET[1:]}'"
            apart = " ".join(f"--exclude-dir={name}" for name in ("usr", "sys", "proc", "dev"))
            inside = f"cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n' | grep -c {pattern}"
            found = await box.run(f"grep -rsl {apart} {pattern} /; {inside}")
            assert [line for line in found.stdout.split() if line != "0"] == [], found.stdout
            assert SECRET not in json.dumps(found.as_json()) + json.dumps(done.as_json())
            await box.gateway.audit.durable()
        for path in Path(box.folder).rglob("*"):
            assert not path.is_file() or SECRET.encode() not in path.read_bytes()


class Quiet(Server):
    """A server that repeats nothing of what it is told."""

    async def _answer(self, reader, writer):
        self.heads.append(await reader.readuntil(b"\r\n\r\n"))
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok")
        await writer.drain()


FETCHES = {
    "upgrade": ("curl -sS http://{place}/", "python3 -c 'import urllib.request as r; r.urlopen(\"http://{place}/\")'"),
    "terminate": (
        "curl -sS https://{place}/",
        "python3 -c 'import urllib.request as r; r.urlopen(\"https://{place}/\")'",
        "git ls-remote https://{place}/x 2>&1 | grep -v certificate",
    ),
}


@pytest.mark.parametrize("tls", ["upgrade", "terminate"])
async def test_ordinary_programs_get_a_key_through_tls_that_is_nowhere_inside(opened, tls):
    with tempfile.TemporaryDirectory() as folder:
        own = Path(folder)
        async with serving(Quiet(), certified(own, "api.example")) as web:
            place = f"api.example:{web.port}"
            source = {"header": "Authorization", "valueFrom": {"env": "TOKEN"}, "format": "Bearer {}"}
            network = {"allow": [f"127.0.0.1:{web.port}", place], "inject": [{"host": place, "tls": tls, **source}]}
            trust = partial(ssl.create_default_context, cafile=str(own / "cert.pem"))
            async with opened(network, Names(api_example="127.0.0.1"), trust) as box:
                for number, fetch in enumerate(FETCHES[tls], 1):
                    done = await box.run(fetch.format(place=place))
                    assert len(web.heads) >= number, (fetch, done)
                    assert f"Authorization: Bearer {SECRET}".encode() in web.heads[-1]
                pattern = f"'[{SECRET[0]}]{SECRET[1:]}'"
                apart = " ".join(f"--exclude-dir={name}" for name in ("usr", "sys", "proc", "dev"))
                inside = f"cat /proc/*/environ /proc/*/cmdline | tr '\\0' '\\n' | grep -c {pattern}"
                found = await box.run(f"grep -rsl {apart} {pattern} /; {inside}; grep -rsl 'PRIVATE KEY' /crabpot")
                assert [line for line in found.stdout.split() if line != "0"] == [], found.stdout
                assert list(Path(box.folder, "state/authorities").glob("*")) == [], "nothing of it is left on the host"


@asynccontextmanager
async def sshd(folder: Path):
    """Start a real sshd for this user alone, and give its port and the key that it lets in."""
    program = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
    if program is None:
        pytest.skip("no sshd: scripts/test-machine installs it")
    for name in ("host", "key"):
        words = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", f"{folder}/{name}"]
        await asyncio.to_thread(subprocess.run, words, check=True)
    shutil.copy(f"{folder}/key.pub", f"{folder}/allowed")
    async with serving(Server()) as free:
        port = free.port
    if os.geteuid() == 0:
        Path("/run/sshd").mkdir(mode=0o755, exist_ok=True)
    words = [
        *("-D", "-e", "-p", str(port), "-f", "/dev/null", "-h", f"{folder}/host"),
        *("-o", "ListenAddress=127.0.0.1", "-o", "UsePAM=no", "-o", "StrictModes=no", "-o", "PidFile=none"),
        *("-o", f"AuthorizedKeysFile={folder}/allowed", "-o", "PermitRootLogin=yes"),
    ]
    with Path(folder, "log").open("wb") as log:
        running = subprocess.Popen([program, *words], stderr=log)
    try:
        while b"listening" not in Path(folder, "log").read_bytes():
            assert running.poll() is None, Path(folder, "log").read_text()
            await asyncio.sleep(0.02)
        yield port
    finally:
        running.terminate()
        await asyncio.to_thread(running.wait)


async def test_ssh_works_as_it_is_to_the_one_port_that_is_listed_and_to_nothing_else(opened, tmp_path):
    names = Names(pi_example="127.0.0.1")
    async with sshd(tmp_path) as port, serving(Server(b"SSH-2.0-other\r\n")) as other:
        network = {"allow": [f"pi.example:{port}", f"127.0.0.1:{port}"]}
        async with opened(network, names) as box:
            await box.put("key", (tmp_path / "key").read_text())
            ssh = "ssh -i key -o BatchMode=yes -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"
            await box.run("chmod 600 key")
            for host in ("127.0.0.1", "pi.example"):
                done = await box.run(f"{ssh} -p {port} {getpass.getuser()}@{host} 'echo reached $((6*7))'")
                assert done.stdout == "reached 42\n", done
            for host, at in (("127.0.0.1", other.port), ("other.example", port), ("127.0.0.2", port)):
                done = await box.run(f"{ssh} -p {at} {getpass.getuser()}@{host} true")
                assert done.exit_code == 255
                assert "(agents.defaults.sandbox.network.allow); to allow it" in done.stderr
            assert other.connections == 0


async def test_pip_installs_a_wheel_from_a_listed_index(opened, tmp_path):
    name = "crabpot_demo-1.0-py3-none-any.whl"
    with zipfile.ZipFile(tmp_path / name, "w") as wheel:
        wheel.writestr("crabpot_demo.py", "print('installed through the gateway')\n")
        wheel.writestr(
            "crabpot_demo-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: crabpot-demo\nVersion: 1.0\n"
        )
        wheel.writestr(
            "crabpot_demo-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        wheel.writestr("crabpot_demo-1.0.dist-info/RECORD", "")
    files = {
        f"/{name}": (tmp_path / name).read_bytes(),
        "/simple/crabpot-demo/": f'<a href="/{name}">{name}</a>'.encode(),
    }

    async def index(reader, writer):
        path = (await reader.readuntil(b"\r\n\r\n")).split()[1].decode()
        body = files.get(path)
        status, kind = ("404 Not Found", "text/plain") if body is None else ("200 OK", "text/html")
        head = f"HTTP/1.1 {status}\r\nContent-Type: {kind}\r\nContent-Length: {len(body or b'')}\r\n\r\n"
        writer.write(head.encode() + (body or b""))
        await writer.drain()
        writer.close()

    server = await asyncio.start_server(index, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    (bundled,) = _WHEELS.glob("pip-*.whl")
    async with opened({"allow": [f"127.0.0.1:{port}"]}) as box:
        content = base64.b64encode(bundled.read_bytes()).decode()
        put = await box.gateway.call(SESSION, "write", path="pip.whl", content=content, encoding="base64")
        assert put.success
        place = f"--index-url http://127.0.0.1:{port}/simple --no-cache-dir --disable-pip-version-check --target here"
        done = await box.run(
            f"python3 pip.whl/pip install -q {place} crabpot-demo && PYTHONPATH=here python3 -m crabpot_demo"
        )
        assert done.stdout == "installed through the gateway\n", done
        done = await box.run(
            "python3 pip.whl/pip install -q --retries 0 --timeout 5 --trusted-host pypi.example --target here --index-url http://pypi.example/ x"
        )
        assert not done.success
        assert "pypi.example:80 is not listed" in done.stderr
    server.close()
