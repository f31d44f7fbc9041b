"""What a sandbox trusts beyond this machine's authorities: one of its own, where TLS inside ends at the gateway."""

from __future__ import annotations

import os
import ssl
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from crabpot.spec.network import AUTHORITIES, AUTHORITY
from crabpot.spec.spec import Mount
from crabpot.state.ownership import make_own

if TYPE_CHECKING:
    from collections.abc import Iterator

    from crabpot.egress.authority import Authority
    from crabpot.spec.spec import SandboxSpec


@contextmanager
def authority_for(spec: SandboxSpec, state: str) -> Iterator[tuple[SandboxSpec, Authority | None]]:
    """Make the authority of one sandbox, and show its certificate inside while the sandbox opens.

    The files are gone from the host afterwards: their mounts hold them for as long as the sandbox lives.
    """
    if not spec.network.terminated:
        yield spec, None
        return
    from crabpot.egress.authority import Authority  # noqa: PLC0415  few sandboxes have one, and it takes long to import

    made = Authority(spec.network.terminated)
    folder = f"{os.path.realpath(state)}/authorities"
    make_own(folder, 0o711 if os.geteuid() == 0 else 0o700)
    with ExitStack() as files:
        mounts = tuple(
            Mount(source=_write(folder, content, files), target=target, access="ro")
            for target, content in ((AUTHORITY, made.certificate), (AUTHORITIES, _machines() + made.certificate))
        )
        yield replace(spec, certificates=mounts), made


def _write(folder: str, content: bytes, files: ExitStack) -> str:
    path = f"{folder}/{os.urandom(8).hex()}.pem"
    with open(path, "xb") as file:
        files.callback(os.unlink, path)
        file.write(content)
    os.chmod(path, 0o644)
    return path


def _machines() -> bytes:
    """Return the authorities that this machine trusts, as far as they are in one file."""
    found = ssl.get_default_verify_paths()
    for path in (found.cafile, "/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt"):
        if path is not None and os.path.isfile(path):
            with open(path, "rb") as file:
                return file.read() + b"\n"
    return b""
