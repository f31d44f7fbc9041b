"""Values of added headers: from where the configuration says, in a form that can stand in a header, or not at all."""

from __future__ import annotations

import os

import pytest

from crabpot.egress.secrets import Secrets, SecretUnavailable
from crabpot.settings import ValueFrom

SECRET = "Bearer s3cret"


def secrets(tmp_path, **more):
    return Secrets(
        {"TOKEN": SECRET, "EMPTY": "", "LINES": "a\r\nX: y", "PATH": os.environ["PATH"]}, str(tmp_path), **more
    )


async def refused(source, tmp_path, **more):
    with pytest.raises(SecretUnavailable) as told:
        await secrets(tmp_path, **more).value(source)
    assert "s3cret" not in str(told.value)
    return str(told.value)


async def test_a_variable_of_the_gateway(tmp_path):
    assert await secrets(tmp_path).value(ValueFrom(env="TOKEN")) == SECRET.encode()
    assert "no MISSING" in await refused(ValueFrom(env="MISSING"), tmp_path)
    assert "no EMPTY" in await refused(ValueFrom(env="EMPTY"), tmp_path)


async def test_a_line_break_in_a_value_begins_no_header_of_its_own(tmp_path):
    assert "cannot be the value" in await refused(ValueFrom(env="LINES"), tmp_path)


async def test_a_file_of_the_gateways_user_alone(tmp_path):
    file = tmp_path / "token"
    file.write_text(f"{SECRET}\n")
    file.chmod(0o600)
    for written in (str(file), "~/token"):
        assert await secrets(tmp_path).value(ValueFrom(file=written)) == SECRET.encode()
    for mode in (0o644, 0o640, 0o602):
        file.chmod(mode)
        assert "chmod 600" in await refused(ValueFrom(file=str(file)), tmp_path)


async def test_what_is_no_file_of_ones_own_is_refused(tmp_path):
    real = tmp_path / "real"
    real.write_text(SECRET)
    real.chmod(0o600)
    (tmp_path / "link").symlink_to(real)
    (tmp_path / "folder").mkdir(mode=0o700)
    os.mkfifo(tmp_path / "pipe", 0o600)
    (tmp_path / "large").write_text(SECRET + "x" * 10_000)
    (tmp_path / "large").chmod(0o600)
    for name in ("link", "folder", "pipe", "large", "missing"):
        await refused(ValueFrom(file=f"{tmp_path}/{name}"), tmp_path)
    if os.geteuid() == 0:
        os.chown(real, 12345, 12345)
        await refused(ValueFrom(file=str(real)), tmp_path)


def keyring(tmp_path, script):
    """Make a program that stands in for secret-tool."""
    program = tmp_path / "secret-tool"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o755)
    return str(program)


async def test_the_desktops_keyring_is_asked_through_its_own_program(tmp_path):
    script = f'test "$*" = "lookup service api username me" && printf "{SECRET}"'
    assert (
        await secrets(tmp_path, keyring=keyring(tmp_path, script)).value(ValueFrom(keyring="api/me")) == SECRET.encode()
    )
    script = f'test "$*" = "lookup service api" && echo "{SECRET}"'
    assert await secrets(tmp_path, keyring=keyring(tmp_path, script)).value(ValueFrom(keyring="api")) == SECRET.encode()


async def test_a_keyring_that_has_nothing_or_is_not_there_is_told(tmp_path):
    empty = keyring(tmp_path, f"echo {SECRET} >&2; exit 1")
    assert "nothing under api/me" in await refused(ValueFrom(keyring="api/me"), tmp_path, keyring=empty)
    missing = f"{tmp_path}/nowhere"
    assert "not installed" in await refused(ValueFrom(keyring="api"), tmp_path, keyring=missing)
