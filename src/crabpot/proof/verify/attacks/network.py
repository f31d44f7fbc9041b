"""Attacks over the network: out to the world, back to the host, and around through sockets that are not a network."""

from __future__ import annotations

import asyncio
import os
from typing import TYPE_CHECKING, Any

from crabpot.proof.verify.claims import Group, Outcome
from crabpot.spec.network import PROXY_PORT

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

claim = Group("network")

_REACH = """
import socket
def reach(family, address, kind=socket.SOCK_STREAM):
    with socket.socket(family, kind) as one:
        one.settimeout(3)
        one.connect(address)
        if kind == socket.SOCK_DGRAM:
            one.send(b"x")
        return "connected"
"""


async def _without_a_knock(target: Target, source: str, **given: Any) -> Outcome:
    """Attack, and check the host's own listeners too: they know what nobody inside can deny."""
    before = len(target.bait.knocks)
    outcome = await target.attack(_REACH + source, **given)
    await asyncio.sleep(0)
    knocks = target.bait.knocks[before:]
    came_back = "; ".join([outcome.came_back, *(f"the host was reached at {knock}" for knock in knocks)])
    return Outcome(held=outcome.held and not knocks, tried=outcome.tried, came_back=came_back)


@claim.about("network", open_on=("host", "bridge", "named"), excused_by="interfaces")
async def has_no_network_interface_but_loopback(target: Target) -> Outcome:
    """What has no interface needs no firewall."""
    return await target.attack("""
import socket
with open("/proc/net/dev") as stream:
    names = [line.split(":")[0].strip() for line in stream if ":" in line]
expect("interfaces in /proc/net/dev", names == ["lo"], " ".join(names))
with open("/proc/net/route") as stream:
    routes = stream.read().splitlines()[1:]
expect("routes in /proc/net/route", not routes, "%d routes" % len(routes))
attempt("list /sys/class/net", lambda: [name for name in os.listdir("/sys/class/net") if name != "lo"])
try:
    shown = [name for _, name in socket.if_nameindex()]
except OSError:
    shown = []
expect("interfaces by netlink", set(shown) <= {"lo"}, " ".join(shown))
""")


@claim.about("network", threats=("host-names",), open_on=("host",))
async def cannot_connect_to_the_hosts_loopback(target: Target) -> Outcome:
    """Databases and agents listen there, believing that only the host can reach it."""
    return await _without_a_knock(
        target,
        """
for host, port in given["ports"]:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    attempt("connect to %s port %d" % (host, port), reach, family, (host, port))
host, port = given["ports"][0]
attempt("connect to 0.0.0.0", reach, socket.AF_INET, ("0.0.0.0", port))
attempt("connect to 127.1.2.3", reach, socket.AF_INET, ("127.1.2.3", port))
attempt("connect to ::ffff:127.0.0.1", reach, socket.AF_INET6, ("::ffff:127.0.0.1", port))
""",
        ports=target.bait.ports,
    )


@claim.about("network", threats=("host-names",), open_on=("host",))
async def cannot_talk_the_gateway_into_reaching_the_host(target: Target) -> Outcome:
    """Where the gateway connects for a sandbox, other spellings of the loopback are attempts at its own services."""
    return await _without_a_knock(
        target,
        """
def asks(first, *more):
    with socket.create_connection(("127.0.0.1", given["proxy"]), 10) as one:
        one.sendall(first)
        answer = one.recv(4096)
        for then in more:
            one.sendall(then)
            answer = one.recv(4096)
        if answer[:12] in (b"HTTP/1.1 200", b"HTTP/1.1 101") or answer[:2] == bytes((5, 0)) and len(answer) > 2:
            return "connected"
        raise OSError("refused: %.60r" % answer)
hosts = ["127.0.0.1", "localhost", "LOCALHOST.", "127.1", "127.0.1", "2130706433", "0x7f000001", "0177.0.0.1",
         "0.0.0.0", "127.255.255.254", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::127.0.0.1]", "[64:ff9b::7f00:1]",
         "[2002:7f00:1::]", "[fe80::1%lo]", "localhost\\0.example.com", "example.com@127.0.0.1", "169.254.169.254",
         "[fd00:ec2::254]", "\\uff11\\uff12\\uff17.0.0.1"]
for _, port in given["ports"]:
    for host in hosts:
        place = ("%s:%d" % (host, port)).encode()
        attempt("CONNECT %s" % ascii(place), asks, b"CONNECT " + place + b" HTTP/1.1\\r\\n\\r\\n")
        attempt("GET http://%s" % ascii(place), asks, b"GET http://" + place + b"/ HTTP/1.1\\r\\n\\r\\n")
        name = host.strip("[]").encode()
        asked = bytes((5, 1, 0, 3, len(name))) + name + port.to_bytes(2, "big")
        attempt("SOCKS %s" % ascii(place), asks, bytes((5, 1, 0)), asked)
""",
        ports=target.bait.ports,
        proxy=PROXY_PORT,
    )


@claim.about("network", threats=("host-names",), open_on=("host", "bridge", "named"), excused_by="interfaces")
async def has_no_way_to_the_world(target: Target) -> Outcome:
    """Nor to the local network: the metadata service of a cloud gives out its keys to whoever asks.

    Connecting a datagram socket asks the kernel for a route and sends nothing, so not even a broken wall would let
    this disturb anybody. A pod has a route by its cluster's interface, which no packet passes: the clause
    `interfaces`.
    """
    return await target.attack("""
import socket
def route(family, host):
    with socket.socket(family, socket.SOCK_DGRAM) as asking:
        asking.connect((host, 53))
        return "from " + asking.getsockname()[0]
for host in ("1.1.1.1", "8.8.8.8", "169.254.169.254", "192.168.0.1", "10.0.0.1", "172.17.0.1", "100.100.100.200"):
    attempt("find a route to " + host, route, socket.AF_INET, host)
for host in ("2606:4700:4700::1111", "fd00:ec2::254"):
    attempt("find a route to " + host, route, socket.AF_INET6, host)
""")


@claim.about("network", threats=("host-names",), open_on=("host", "bridge", "named"))
async def cannot_resolve_a_name(target: Target) -> Outcome:
    """A resolver is a way out: names carry data."""
    return await target.attack(
        """
import socket
socket.setdefaulttimeout(3)
for name in ("example.com", "metadata.google.internal", "host.docker.internal", "secret.example", given["host"]):
    def ask():
        try:
            return socket.getaddrinfo(name, 80)
        except socket.gaierror as error:
            raise OSError(str(error))
    attempt("resolve " + name, ask)
""",
        host=os.uname().nodename,
    )


@claim.about("network", "namespaces", threats=("host-sockets",), open_on=("host",))
async def cannot_reach_an_abstract_socket_of_the_host(target: Target) -> Outcome:
    """They have no file and no permissions; only a network namespace keeps them apart."""
    return await _without_a_knock(
        target,
        """
attempt("connect to @" + given["name"], reach, socket.AF_UNIX, chr(0) + given["name"])
for name in ("/tmp/.X11-unix/X0", "/tmp/dbus-test", "/containerd-shim/x"):
    attempt("connect to @" + name, reach, socket.AF_UNIX, chr(0) + name)
listed = read("/proc/net/unix", 1 << 16).decode("utf-8", "replace")
expect("find it in /proc/net/unix", given["name"] not in listed, "not there")
""",
        name=target.bait.abstract_socket,
    )


@claim.about("filesystem", threats=("host-sockets",))
async def cannot_reach_a_socket_file_of_the_host(target: Target) -> Outcome:
    """A container runtime's socket is the whole host; D-Bus, X11 and an ssh agent are most of it."""
    own = f"{target.gateway.execution.around.state}/crabpot.sock"
    return await _without_a_knock(
        target,
        """
for path in [*given["paths"], "/run/docker.sock", "/var/run/docker.sock", "/run/containerd/containerd.sock",
             "/run/podman/podman.sock", "/run/dbus/system_bus_socket", "/tmp/.X11-unix/X0", "/run/systemd/private",
             "/run/user/1000/bus", "/run/user/0/bus", "/dev/log", "/run/systemd/journal/stdout", "/run/nscd/socket"]:
    for root in ("", "/proc/1/root"):
        attempt("connect to " + root + path, reach, socket.AF_UNIX, (root + path)[:100])
""",
        paths=[path for path in (target.bait.socket_file, own, os.environ.get("SSH_AUTH_SOCK", "")) if path],
    )


@claim.about("seccomp", threats=("kernel-surface",))
async def cannot_open_a_socket_below_or_beside_the_network(target: Target) -> Outcome:
    """Raw packets, kernel crypto, virtual machines' own sockets: families that no ordinary program needs."""
    return await target.attack("""
import socket
families = {"packet": 17, "vsock": 40, "alg": 38, "key": 15, "rds": 21, "tipc": 30, "bluetooth": 31, "can": 29,
            "xdp": 44, "smc": 43, "qipcrtr": 42, "nfc": 39, "x25": 9, "ax25": 3, "llc": 26, "phonet": 35}
for name, family in families.items():
    for kind in (socket.SOCK_STREAM, socket.SOCK_DGRAM, socket.SOCK_RAW, socket.SOCK_SEQPACKET):
        attempt("socket(%s, %d)" % (name, kind), lambda: socket.socket(family, kind).close() or "made")
def make(*kind):
    socket.socket(*kind).close()
    return "made"
for number in (1, 6, 17, 255):
    attempt("raw IPv4 socket %d" % number, make, socket.AF_INET, socket.SOCK_RAW, number)
for name, number in (("audit", 9), ("netfilter", 12), ("uevent", 15), ("generic", 16), ("xfrm", 6), ("connector", 11)):
    attempt("netlink " + name, make, socket.AF_NETLINK, socket.SOCK_RAW, number)
for name, number in (("sctp", 132), ("dccp", 33), ("udplite", 136), ("mptcp", 262)):
    attempt(name, make, socket.AF_INET, socket.SOCK_STREAM, number)
""")


@claim.about("network", open_on=("host",))
async def cannot_be_heard_on_the_host(target: Target) -> Outcome:
    """A server inside is for the sandbox alone; the host's programs must not find it on their loopback."""
    listener = (
        'exec python3 -I -c \'import socket, sys; s = socket.create_server(("127.0.0.1", 0)); '
        "print(s.getsockname()[1], flush=True); sys.stdin.read()'"
    )
    process = await target.start(listener)
    port = await target.line_from(process)
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", int(port))
        writer.close()
        came_back = "the host connected to it"
    except OSError as error:
        came_back = f"the host: {error.strerror or error}"
    await target.end(process)
    heard = "connected" in came_back
    return Outcome(held=not heard, tried=f"listened on 127.0.0.1 port {port} inside", came_back=came_back)
