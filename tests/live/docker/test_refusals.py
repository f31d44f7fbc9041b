"""What a real engine cannot do: each refusal says what to do, and leaves nothing behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest

from crabpot.errors import SandboxUnavailable
from crabpot.settings import Docker
from crabpot.spec.network import NetworkSpec
from crabpot.spec.spec import Mount
from tests.live.docker.live import backend, derived_image, gateway, make_image, nothing_left, spec_in

if TYPE_CHECKING:
    from pathlib import Path

    from crabpot.backends.docker.engine import Engine


async def test_a_bind_that_vanished_or_became_a_link_is_refused(engine: Engine, tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to("/usr")
    for name, message in (("gone", "mkdir -p"), ("link", "replaced by a link")):
        mounts = (Mount(source=str(tmp_path / name), target="/data", access="ro"),)
        with pytest.raises(SandboxUnavailable, match=message):
            await backend(engine, tmp_path).open(spec_in(tmp_path, mounts=mounts))
    await nothing_left(engine, tmp_path)


async def test_a_setup_that_fails_is_told_with_its_output(engine: Engine, tmp_path: Path) -> None:
    spec = spec_in(tmp_path, docker=Docker(setup="echo some words; echo more >&2; exit 7"))
    with pytest.raises(SandboxUnavailable, match=r"docker\.setup failed: it ended with 7: some words\nmore"):
        await backend(engine, tmp_path).open(spec)
    await nothing_left(engine, tmp_path)


async def refusal(engine: Engine, folder: Path, **changes: Any) -> str:
    """Return why a sandbox does not open, and see that nothing of the try is left."""
    with pytest.raises(SandboxUnavailable) as caught:
        await backend(engine, folder).open(spec_in(folder, **changes))
    await nothing_left(engine, folder)
    return str(caught.value)


async def test_a_missing_image_says_what_to_do(engine: Engine, tmp_path: Path) -> None:
    said = await refusal(engine, tmp_path, docker=Docker(image="crabpot/none:1"))
    assert "the engine has no image crabpot/none:1: crabpot image build" in said


async def test_an_image_without_python_says_what_to_do(engine: Engine, tmp_path: Path) -> None:
    make_image(engine, "crabpot-test-empty", {"etc/issue": b"nothing"})
    said = await refusal(engine, tmp_path, docker=Docker(image="crabpot-test-empty"))
    assert "has no Python for the runner, 3.9 or newer" in said
    assert "/usr/bin/python3: it does not exist; /usr/local/bin/python3: it does not exist" in said


async def test_an_image_whose_python_does_not_work_says_why(engine: Engine, tmp_path: Path) -> None:
    script = "#!/bin/sh\necho it is Python 2.7 >&2\nexit 1"
    async with derived_image(
        engine, f"rm /usr/bin/python3; echo '{script}' > /usr/bin/python3; chmod 755 /usr/bin/python3"
    ) as name:
        said = await refusal(engine, tmp_path, docker=Docker(image=name))
    assert "/usr/bin/python3: it is Python 2.7; /usr/local/bin/python3: it does not exist" in said


async def test_a_missing_network_says_what_to_do(engine: Engine, tmp_path: Path) -> None:
    said = await refusal(engine, tmp_path, network=NetworkSpec(kind="named", name="crabpot-none"))
    assert "docker network create crabpot-none" in said


async def test_the_hosts_network_does_not_come_in_by_its_id(engine: Engine, tmp_path: Path) -> None:
    found = (await engine.get("/networks/host"))["Id"]
    assert "is not the name of a network" in await refusal(
        engine, tmp_path, network=NetworkSpec(kind="named", name=found)
    )


async def test_an_engine_that_is_not_there_says_what_to_do(tmp_path: Path) -> None:
    from crabpot.backends.docker.engine import Engine

    made = backend(Engine(str(tmp_path / "none.sock")), tmp_path)
    with pytest.raises(SandboxUnavailable, match="is it running"):
        await made.open(spec_in(tmp_path))
    assert [clause.state for clause in await made.probe(spec_in(tmp_path))] == ["refused"]


async def test_sessions_on_the_host_never_ask_the_engine_anything(tmp_path: Path) -> None:
    asked = []

    async def answer(_reader: Any, writer: Any) -> None:
        asked.append(1)
        writer.close()

    path = str(tmp_path / "docker.sock")
    server = await asyncio.start_unix_server(answer, path)
    try:
        made = gateway(tmp_path, f"unix://{path}", mode="non-main")
        try:
            on_host = await made.call("agent:main:main", "exec", {"command": "echo here"})
            assert (on_host.stdout, on_host.place, asked) == ("here\n", "host", [])
            inside = await made.call("agent:main:other", "exec", {"command": "echo here"})
            assert inside.error is not None
            assert inside.error.code == "sandbox_unavailable"
            assert asked
        finally:
            await made.close()
    finally:
        server.close()
        await server.wait_closed()
