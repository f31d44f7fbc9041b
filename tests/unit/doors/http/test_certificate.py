"""Listening beyond the loopback: only with TLS and tokens, under the certificate's names, and with renewed files."""

from __future__ import annotations

import datetime as dt
import os
import ssl
from dataclasses import replace
from typing import TYPE_CHECKING

import httpx
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from crabpot.doors.http import door as doors
from crabpot.doors.http.certificate import Certificate, Names
from crabpot.doors.http.listening import address
from crabpot.errors import CrabpotError
from tests.support.waiting import until

if TYPE_CHECKING:
    from pathlib import Path


def issue(folder: Path, *names: str) -> Certificate:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = dt.datetime.now(dt.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - dt.timedelta(minutes=5))
        .not_valid_after(now + dt.timedelta(days=1))
    )
    if names:
        made = made.add_extension(x509.SubjectAlternativeName([x509.DNSName(one) for one in names]), critical=False)
    text = made.sign(key, hashes.SHA256()).public_bytes(serialization.Encoding.PEM)
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    for file, content in (("tls.crt", text), ("tls.key", private)):
        (folder / f"{file}.new").write_bytes(content)
    for file in ("tls.crt", "tls.key"):
        os.replace(folder / f"{file}.new", folder / file)
    return Certificate(certificate=str(folder / "tls.crt"), key=str(folder / "tls.key"))


def trusting(folder: Path) -> ssl.SSLContext:
    return ssl.create_default_context(cafile=str(folder / "tls.crt"))


def test_an_address_beyond_the_loopback_needs_a_certificate(tmp_path: Path) -> None:
    with pytest.raises(CrabpotError, match="--tls-cert FILE and --tls-key FILE"):
        address("0.0.0.0:8443")
    assert address("0.0.0.0:8443", issue(tmp_path, "pot")).host == "0.0.0.0"


def test_files_that_cannot_be_used_are_told(tmp_path: Path) -> None:
    nowhere = Certificate(certificate=str(tmp_path / "none"), key=str(tmp_path / "none"))
    with pytest.raises(CrabpotError, match="cannot be used for TLS"):
        nowhere.load()
    good = issue(tmp_path, "pot")
    (tmp_path / "other").mkdir()
    mixed = Certificate(certificate=good.certificate, key=issue(tmp_path / "other", "pot").key)
    with pytest.raises(CrabpotError, match="cannot be used for TLS"):
        mixed.load()
    with pytest.raises(CrabpotError, match="subjectAltName"):
        issue(tmp_path).names()


def test_a_host_is_one_of_the_certificates_names_whatever_the_port() -> None:
    names = Names(listed=frozenset({"pot.example.com", "*.pots.example.com", "10.0.0.7", "::1"}), secure=True)
    taken = ["pot.example.com", "POT.example.com:8443", "a.pots.example.com:1", "10.0.0.7:8443", "[::1]:8443"]
    refused = [None, "", "example.com", "pots.example.com", "a.b.pots.example.com", "evil.com:8443", "10.0.0.8", "*"]
    assert [names.takes(one) for one in taken] == [True] * len(taken)
    assert [names.takes(one) for one in refused] == [False] * len(refused)
    assert names.is_origin("https://pot.example.com")
    assert not names.is_origin("http://pot.example.com")
    assert not names.is_origin("https://evil.com")


async def test_only_tls_tokens_and_the_right_name_are_served(bench, tmp_path: Path) -> None:
    certificate = issue(tmp_path, "localhost")
    async with bench() as made, doors.opened(made.gateway, address("0.0.0.0:0", certificate)) as listeners:
        url = listeners.where[1].replace("0.0.0.0", "localhost")
        port = url.rpartition(":")[2]
        assert url.startswith("https://")
        async with httpx.AsyncClient(verify=trusting(tmp_path)) as client:
            assert (await client.get(f"{url}/health")).status_code == 200
            assert (await client.post(f"{url}/v1/sessions/main/tools/ls", json={})).status_code == 401
            wrong = await client.get(f"{url}/health", headers={"Host": f"evil.example:{port}"})
            assert wrong.status_code == 421
        async with httpx.AsyncClient() as plain:
            with pytest.raises(httpx.HTTPError):
                await plain.get(f"http://localhost:{port}/health")


async def test_a_renewed_certificate_is_used_and_a_broken_one_is_not(bench, tmp_path: Path) -> None:
    certificate = replace(issue(tmp_path, "localhost"), look_s=0.01)
    async with bench() as made, doors.opened(made.gateway, address("127.0.0.1:0", certificate)) as listeners:
        url = listeners.where[1].replace("127.0.0.1", "localhost")

        async def served() -> bool:
            async with httpx.AsyncClient(verify=trusting(tmp_path)) as client:
                try:
                    return (await client.get(f"{url}/health")).status_code == 200
                except httpx.ConnectError:
                    return False

        assert await served()
        before = (tmp_path / "tls.crt").read_bytes()
        (tmp_path / "tls.key").write_text("broken")
        assert await served()
        issue(tmp_path, "localhost")
        assert (tmp_path / "tls.crt").read_bytes() != before
        await until(served)
