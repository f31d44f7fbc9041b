"""The certificate of a gateway that listens beyond the loopback: its names, and read again when it changes."""

from __future__ import annotations

import asyncio
import os
import ssl
from dataclasses import dataclass, field

from crabpot.errors import CrabpotError


@dataclass(frozen=True, slots=True, kw_only=True)
class Certificate:
    """Two files, as they are renewed in place by whoever issues certificates. Check it before it is used."""

    certificate: str
    key: str
    look_s: float = 2.0
    _context: ssl.SSLContext = field(default_factory=lambda: ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), repr=False)

    def load(self) -> ssl.SSLContext:
        """Load the files into the context that new connections use; CrabpotError if they cannot be used."""
        # Tried on another context first: a certificate whose key does not match must not replace one that works.
        for context in (ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER), self._context):
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            try:
                context.load_cert_chain(self.certificate, self.key)
            except (OSError, ssl.SSLError) as error:
                reason = getattr(error, "reason", None) or error.strerror or error
                raise CrabpotError(f"{self.certificate} and {self.key} cannot be used for TLS: {reason}") from None
        return self._context

    def names(self) -> frozenset[str]:
        """Return the names and addresses that it is for, in lower case; one may begin with `*.`."""
        from cryptography import x509  # noqa: PLC0415  only a gateway with TLS needs it

        with open(self.certificate, "rb") as file:
            found = x509.load_pem_x509_certificates(file.read())[0]
        try:
            said = found.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
        except x509.ExtensionNotFound:
            raise CrabpotError(f"{self.certificate} is for no name: it needs a subjectAltName") from None
        addresses = (str(one) for one in said.get_values_for_type(x509.IPAddress))
        return frozenset(name.lower() for name in (*said.get_values_for_type(x509.DNSName), *addresses))

    async def follow(self) -> None:
        """Load the files again whenever they change, until cancelled; those that cannot be used change nothing."""
        seen = self._identity()
        while True:
            await asyncio.sleep(self.look_s)
            now = self._identity()
            if now is not None and now != seen:
                try:
                    self.load()
                except CrabpotError:
                    continue  # Half written, perhaps: it is looked at again.
                seen = now

    def _identity(self) -> tuple[tuple[int, int, int], ...] | None:
        try:
            found = [os.stat(path) for path in (self.certificate, self.key)]
        except OSError:
            return None
        return tuple((one.st_ino, one.st_mtime_ns, one.st_size) for one in found)


@dataclass(frozen=True, slots=True, kw_only=True)
class Names:
    """The names by which a listener may be called: on the loopback with its port, beyond it those of a certificate."""

    listed: frozenset[str]
    secure: bool = False

    def takes(self, host: str | None) -> bool:
        """Return whether a Host header names this listener. Behind a service of a cluster, the port is another's."""
        if host is None or not self.secure:
            return host in self.listed
        name = (host.rpartition("]")[0].removeprefix("[") if host.startswith("[") else host.partition(":")[0]).lower()
        return name in self.listed or f"*.{name.partition('.')[2]}" in self.listed

    def is_origin(self, origin: str) -> bool:
        """Return whether a page is this listener's own."""
        scheme, _, host = origin.partition("://")
        return scheme == ("https" if self.secure else "http") and self.takes(host)

    @property
    def shown(self) -> str:
        """Return them for a person."""
        return " or ".join(sorted(self.listed))
