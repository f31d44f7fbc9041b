"""Which network a sandbox has: the names, and the places of an allow-list in one canonical form."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Literal

from crabpot.frozen import dataclass
from crabpot.wording import closest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.settings import Inject, Network, ValueFrom

Kind = Literal["none", "internet", "host", "bridge", "named", "allow"]

NAMES: tuple[Kind, ...] = ("none", "internet", "host", "bridge")
WEB_PORTS = (80, 443)
HTTP_PORT, HTTPS_PORT = WEB_PORTS

# On the sandbox's own loopback, where nothing else listens; an HTTP proxy and SOCKS 5 at once.
PROXY_PORT = 3128

_NAMED = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,127}", re.ASCII)
_LABEL = re.compile(r"[a-z0-9_](?:[a-z0-9_-]{0,61}[a-z0-9_])?", re.ASCII)
_PLAIN = re.compile(r"[\x20-\x7e]+", re.ASCII)
_HEADER = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+", re.ASCII)


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkSpec:
    """A network by kind; `name` for one of docker's own, `allow` and `raw` in canonical form for lists of places."""

    kind: Kind
    name: str = ""
    allow: tuple[str, ...] = ()
    raw: tuple[str, ...] = ()
    ask: bool = False
    inject: tuple[tuple[str, ...], ...] = ()
    # The hosts whose TLS ends at the gateway.
    terminated: tuple[str, ...] = ()

    @property
    def proxied(self) -> bool:
        """Return whether the sandbox has no network of its own and reaches places through the gateway."""
        return self.kind in ("internet", "allow")


def proxy_environment(network: NetworkSpec) -> dict[str, str]:
    """Return the variables by which ordinary programs find the proxy.

    ALL_PROXY is an HTTP proxy too: several libraries reject a SOCKS scheme unless another library is installed.
    Programs reach their own loopback without it, unless the host's is what was listed.
    """
    listed = any(re.match(r"127\.|\[::1[]/]|localhost:", place) for place in (*network.allow, *network.raw))
    proxy, direct = f"http://127.0.0.1:{PROXY_PORT}", "" if listed else "localhost,127.0.0.1,::1"
    named = {"HTTP_PROXY": proxy, "HTTPS_PROXY": proxy, "ALL_PROXY": proxy, "NO_PROXY": direct}
    return named | {name.lower(): value for name, value in named.items()} | {"NODE_USE_ENV_PROXY": "1"}


AUTHORITY, AUTHORITIES = "/crabpot/authority.pem", "/crabpot/authorities.pem"


def certificate_environment(network: NetworkSpec) -> dict[str, str]:
    """Return the variables by which ordinary programs find the sandbox's own authority, beside those of the machine."""
    if not network.terminated:
        return {}
    names = "SSL_CERT_FILE CURL_CA_BUNDLE REQUESTS_CA_BUNDLE PIP_CERT GIT_SSL_CAINFO CARGO_HTTP_CAINFO AWS_CA_BUNDLE"
    # npm heeds no other variable where the machine's own npmrc has a cafile.
    return {**dict.fromkeys((*names.split(), "npm_config_cafile"), AUTHORITIES), "NODE_EXTRA_CA_CERTS": AUTHORITY}


def describe(network: Network) -> NetworkSpec:
    """Return checked settings in the spec's form."""
    if network.name == "allow":
        allow = tuple(canonical_place(place) for place in network.allow)
        inject = tuple(_described(rule) for rule in network.inject)
        ended = dict.fromkeys(name_of(rule) for rule in network.inject if rule.tls == "terminate")
        raw = tuple(canonical_place(place) for place in network.raw)
        return NetworkSpec(kind="allow", allow=allow, raw=raw, ask=network.ask, inject=inject, terminated=tuple(ended))
    kind = next((kind for kind in NAMES if kind == network.name.lower()), None)
    return NetworkSpec(kind="named", name=network.name) if kind is None else NetworkSpec(kind=kind)


def _described(rule: Inject) -> tuple[str, ...]:
    more = (rule.tls or "", rule.format) if rule.tls is not None or rule.format != "{}" else ()
    return (canonical_place(rule.host), rule.header, _mark(rule.value_from), *more)


def name_of(rule: Inject) -> str:
    """Return the one host that a rule is for, an IPv6 address without its brackets."""
    return split_place(canonical_place(rule.host))[0].strip("[]")


def ports_of(rule: Inject) -> dict[int, int]:
    """Return the ports inside at which a rule holds, each with the port that is dialled for it."""
    _, ports = split_place(canonical_place(rule.host))
    web = set(ports) <= set(WEB_PORTS)
    if rule.tls == "upgrade":
        return {HTTP_PORT: HTTPS_PORT} if web else {port: port for port in ports}
    if rule.tls == "terminate":
        return {HTTPS_PORT: HTTPS_PORT} if web else {port: port for port in ports}
    return {port: port for port in ports if port != HTTPS_PORT}


def _mark(source: ValueFrom) -> str:
    """Return a digest of a source: only the gateway may know where a secret lies."""
    import hashlib  # noqa: PLC0415  only who injects something pays for it

    return hashlib.sha256(source.shown.encode("utf-8", "surrogatepass")).hexdigest()[:16]


def problems(chosen: Network) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with an agent's network, as (merged path, message)."""
    if chosen.name != "allow" and (wrong := problem_with_name(chosen.name)):
        yield "sandbox.network", wrong
    for key, places in (("allow", chosen.allow), ("raw", chosen.raw)):
        for index, place in enumerate(places):
            if wrong := _problem_with_place(place):
                yield f"sandbox.network.{key}[{index}]", wrong
    for index, rule in enumerate(chosen.inject):
        yield from ((f"sandbox.network.inject[{index}]{key}", wrong) for key, wrong in _problems_with(rule, chosen))


def _problems_with(rule: Inject, chosen: Network) -> Iterator[tuple[str, str]]:
    given = [name for name in (rule.value_from.env, rule.value_from.file, rule.value_from.keyring) if name]
    if len(given) != 1:
        yield ".valueFrom", "needs exactly one of env, file and keyring"
    if wrong := problem_with_header(rule.header):
        yield ".header", wrong
    if wrong := _problem_with_place(rule.host) or problem_with_injection(rule, chosen):
        yield ".host", wrong
    if rule.format.count("{}") != 1 or not _PLAIN.fullmatch(rule.format):
        yield ".format", 'must be plain text with {} once, where the value goes, such as "Bearer {}"'
    file = rule.value_from.file
    if file is not None and not file.startswith(("/", "~/")):
        yield ".valueFrom.file", f'"{file}" must be an absolute path or start with ~/'


def _problem_with_place(text: str) -> str | None:
    try:
        canonical_place(text)
    except ValueError as error:
        return str(error)
    return None


def problem_with_name(name: str) -> str | None:
    """Return why this is not a network, or None. Joining another container's network is refused in any letter case."""
    if name.lower().startswith("container:"):
        return f'"{name}" would join another container\'s network, which no configuration allows'
    if name == "*":
        return '"*" is not a network; write "internet" for any public address'
    if name.lower() == "default":
        return '"default" is docker\'s word for its bridge; write "bridge"'
    if not _NAMED.fullmatch(name):
        return f'"{name}" is neither {", ".join(NAMES)}, nor a name that a docker network can have'
    return None


def suspicion_about_name(name: str) -> str | None:
    """Return that a docker network's name looks like a misspelt keyword, or None."""
    near = "" if name.lower() in NAMES else closest(name, NAMES)
    return f'network "{name}" is taken as a docker network of that name{near}' if near else None


def problem_with_header(header: str) -> str | None:
    """Return why this cannot be a header's name, or None."""
    return None if _HEADER.fullmatch(header) else f"{header!r} cannot be the name of a header"


def problem_with_injection(rule: Inject, network: Network) -> str | None:
    """Return why no request to a host could get its header, or None."""
    wanted, _ = split_place(canonical_place(rule.host))
    if wanted.startswith("*."):
        return f'"{rule.host}": a secret is for one host, not for whatever a wildcard stands for'
    dialled = ports_of(rule).values()
    for place in network.allow:
        try:
            listed, open_ports = split_place(canonical_place(place))
        except ValueError:
            continue  # Reported where it is written.
        below = listed.startswith("*.") and wanted.endswith(listed[1:])
        if (listed == wanted or below) and any(port in open_ports for port in dialled):
            return None
    if rule.tls is not None:
        port = next(iter(dialled))
        return f'"{rule.host}" is not listed for port {port}: add "{wanted}:{port}" to network.allow'
    fix = f'list it for plain HTTP ("{wanted}:80" in network.allow), or set tls: "upgrade" or "terminate"'
    return f'"{rule.host}" is not listed for plain HTTP, and an encrypted request is not changed without tls: {fix}'


def canonical_place(text: str) -> str:
    """Return `host:port`, `host:80,443`, `address:port` or `network/prefix:port` in one form; ValueError if not."""
    host, ports = _split(text)
    return f"{_canonical_host(host, text)}:{','.join(map(str, ports))}"


def split_place(place: str) -> tuple[str, tuple[int, ...]]:
    """Split a canonical place into its host, an IPv6 one in brackets, and its ports."""
    host, _, ports = place.rpartition(":")
    return host, tuple(int(port) for port in ports.split(","))


def _split(text: str) -> tuple[str, tuple[int, ...]]:
    if text.startswith("["):
        host, bracket, tail = text[1:].partition("]")
        if not bracket or (tail and not tail.startswith(":")):
            raise ValueError(f'"{text}": an IPv6 address is written [address]:port')
        host, port = f"[{host}]", tail[1:] if tail else None
    elif text.count(":") == 1:
        host, _, port = text.partition(":")
    elif ":" in text:
        raise ValueError(f'"{text}": an IPv6 address is written [address] or [address]:port')
    else:
        host, port = text, None
    if port is None:
        return host, WEB_PORTS
    if not (port.isascii() and port.isdigit() and 0 < int(port) < 65536):  # noqa: PLR2004  the largest port
        raise ValueError(f'"{text}": the port must be a number from 1 to 65535')
    return host, (int(port),)


def _canonical_host(host: str, text: str) -> str:
    if host == "*":
        raise ValueError('"*" is every host: write network: "internet" for any public address')
    if host.startswith("[") or "/" in host or re.fullmatch(r"[0-9.]+", host):
        return _canonical_address(host, text)
    if not host.isascii():
        raise ValueError(f'"{text}": write an international name in its xn-- form')
    name = host.lower()
    try:
        plain = canonical_name(name.removeprefix("*."))
    except ValueError:
        raise ValueError(f'"{text}" is not a host name') from None
    if re.fullmatch(r"(?:0x[0-9a-f]*|[0-9]+)", plain.rpartition(".")[2]):
        raise ValueError(f'"{text}": write an address as four decimal numbers')
    return f"*.{plain}" if name.startswith("*.") else plain


def canonical_name(name: str) -> str:
    """Return a host name in lower-case ASCII without a trailing dot; ValueError if it is not one."""
    plain = name.removesuffix(".")
    if not all(_LABEL.fullmatch(label) for label in plain.split(".")) or len(plain) > 253:  # noqa: PLR2004  DNS's limit
        raise ValueError("not a host name")
    return plain


def _canonical_address(host: str, text: str) -> str:
    import ipaddress  # noqa: PLC0415  only an address in an allow list pays for it

    bare = host[1:-1] if host.startswith("[") else host
    if "%" in bare:
        raise ValueError(f'"{text}": a zone belongs to one machine\'s interfaces')
    try:
        network = ipaddress.ip_network(bare) if "/" in bare else None
        address = ipaddress.ip_address(bare) if network is None else network.network_address
    except ValueError as error:
        raise ValueError(f'"{text}" is not an address: {error}') from None
    if network is not None and network.prefixlen == 0:
        raise ValueError(f'"{text}" is every address: write network: "internet" for any public one')
    if network is not None:
        return f"[{network}]" if network.version == 6 else str(network)  # noqa: PLR2004
    if isinstance(address, ipaddress.IPv6Address):
        # ::ffff:127.0.0.1 is dialled as 127.0.0.1, so it is matched as that.
        return f"[{address}]" if address.ipv4_mapped is None else str(address.ipv4_mapped)
    return str(address)
