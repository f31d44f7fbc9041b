"""A certificate authority for one sandbox: made when it opens, kept in memory, and good for the listed hosts alone."""

from __future__ import annotations

import datetime as dt
import ipaddress
import os
import ssl
from typing import TYPE_CHECKING

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

if TYPE_CHECKING:
    from collections.abc import Iterable

_DAYS = 365
NAME = "Crabpot, for one sandbox"


class Authority:
    """Answers for hosts whose TLS ends at the gateway. Its key never leaves the gateway's memory."""

    def __init__(self, hosts: Iterable[str], name: str = NAME) -> None:
        self.hosts = frozenset(hosts)
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._issuer = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self._contexts: dict[str, ssl.SSLContext] = {}
        made = _begin(self._issuer, self._issuer, self._key.public_key())
        constraints = x509.NameConstraints(
            permitted_subtrees=[_subtree(host) for host in sorted(self.hosts)], excluded_subtrees=None
        )
        made = made.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        made = made.add_extension(_usage(signs=True), critical=True)
        # Whoever trusts it trusts it for these hosts and no others, should its key ever be stolen.
        made = made.add_extension(constraints, critical=True)
        made = made.add_extension(x509.SubjectKeyIdentifier.from_public_key(self._key.public_key()), critical=False)
        self.certificate = made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)

    def context(self, host: str) -> ssl.SSLContext:
        """Return what a server for `host` shows; KeyError for a host that it does not answer for."""
        if host not in self.hosts:
            raise KeyError(host)
        if host not in self._contexts:
            self._contexts[host] = self._certify(host)
        return self._contexts[host]

    def _certify(self, host: str) -> ssl.SSLContext:
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, host[:64])])
        made = _begin(subject, self._issuer, key.public_key())
        made = made.add_extension(x509.SubjectAlternativeName([_name(host)]), critical=False)
        made = made.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
        made = made.add_extension(_usage(signs=False), critical=True)
        made = made.add_extension(x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH]), critical=False)
        issuer_key = x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key())
        made = made.add_extension(issuer_key, critical=False)
        certificate = made.sign(self._key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
        private = key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
        return _serving(certificate + private, host)


def _begin(subject: x509.Name, issuer: x509.Name, key: ec.EllipticCurvePublicKey) -> x509.CertificateBuilder:
    now = dt.datetime.now(dt.UTC)
    return (
        x509.CertificateBuilder(subject_name=subject, issuer_name=issuer, public_key=key)
        .serial_number(x509.random_serial_number())
        # Clocks differ, also between a machine and its containers.
        .not_valid_before(now - dt.timedelta(days=1))
        .not_valid_after(now + dt.timedelta(days=_DAYS))
    )


def _usage(*, signs: bool) -> x509.KeyUsage:
    return x509.KeyUsage(
        digital_signature=not signs,
        key_cert_sign=signs,
        crl_sign=signs,
        content_commitment=False,
        key_encipherment=False,
        data_encipherment=False,
        key_agreement=False,
        encipher_only=False,
        decipher_only=False,
    )


def _name(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _subtree(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_network(host))
    except ValueError:
        return x509.DNSName(host)


def _serving(pem: bytes, host: str) -> ssl.SSLContext:
    def check(_: object, named: str | None, __: object) -> int | None:
        # A tunnel to one host, and a hello for another: the server outside would never see the second name.
        wrong = named is not None and named.lower().removesuffix(".") != host
        return ssl.ALERT_DESCRIPTION_UNRECOGNIZED_NAME if wrong else None

    made = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    made.minimum_version = ssl.TLSVersion.TLSv1_2
    made.set_alpn_protocols(["http/1.1"])
    made.sni_callback = check
    # The library reads files only; this one is in memory, and gone at once.
    handle = os.memfd_create("certificate", os.MFD_CLOEXEC)
    try:
        os.write(handle, pem)
        made.load_cert_chain(f"/proc/self/fd/{handle}")
    finally:
        os.close(handle)
    return made
