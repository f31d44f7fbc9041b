"""What goes into a sandbox, made ready once."""

from __future__ import annotations

import ast
import asyncio
import os
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from crabpot.backends.bubblewrap import bundle, forks, seal, tree
from crabpot.errors import SandboxUnavailable
from crabpot.spec.seccomp.bpf import assemble


def _prepare(home: Path) -> bundle.Bundle:
    return asyncio.run(bundle.prepare(str(home)))


def test_the_kit_holds_the_runner_the_seal_and_the_filter_and_is_made_once(tmp_path: Path) -> None:
    home = tmp_path / "bubblewrap"
    first = _prepare(home)
    made = Path(first.folder).stat().st_ino
    assert _prepare(home) == first
    assert Path(first.folder).stat().st_ino == made
    assert [path.name for path in home.iterdir()] == [Path(first.folder).name]
    assert Path(first.folder, bundle.FILTER).read_bytes() == assemble(os.uname().machine)
    assert Path(first.folder, bundle.SEAL).exists()
    assert {"core", "start.bin", "__pycache__"} <= set(os.listdir(f"{first.folder}/runner"))


def test_a_kit_that_was_made_is_found_without_waiting_and_one_that_was_not_is_not_made(tmp_path: Path) -> None:
    home = str(tmp_path / "bubblewrap")
    assert bundle.find(home) is None
    assert os.listdir(home) == []
    assert _prepare(Path(home)) == bundle.find(home)


def test_whatever_the_umask_the_sandboxes_user_reads_it_and_nobody_writes_it(tmp_path: Path) -> None:
    before = os.umask(0o077)
    try:
        made = _prepare(tmp_path / "bubblewrap")
    finally:
        os.umask(before)
    for folder, _, files in os.walk(made.folder):
        assert Path(folder).stat().st_mode & 0o777 == 0o755
        assert all(Path(folder, name).stat().st_mode & 0o777 == 0o644 for name in files)


def test_two_gateways_at_once_make_the_same_bundle(tmp_path: Path) -> None:
    async def both() -> list[bundle.Bundle]:
        return await asyncio.gather(*(bundle.prepare(str(tmp_path)) for _ in range(2)))

    first, second = asyncio.run(both())
    assert first == second
    assert len(list(tmp_path.iterdir())) == 1


def test_a_kit_that_nobody_used_for_a_month_is_removed_when_a_new_one_is_made(tmp_path: Path) -> None:
    old, recent = tmp_path / "bundle-old", tmp_path / "bundle-recent"
    for folder, age_s in ((old, 40 * 86_400), (recent, 10 * 86_400)):
        folder.mkdir(parents=True)
        os.utime(folder, (time.time() - age_s,) * 2)
    _prepare(tmp_path)
    assert not old.exists()
    assert recent.exists()


def test_a_folder_of_somebody_elses_in_its_place_is_not_used(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        pytest.skip("needs to be root")
    made = _prepare(tmp_path)
    os.chown(made.folder, 4321, 4321)
    with pytest.raises(SandboxUnavailable):
        _prepare(tmp_path)


def test_the_interpreter_inside_lies_under_usr_or_brings_its_prefix() -> None:
    for interpreter in bundle.interpreters():
        assert interpreter.path.startswith("/usr/" if interpreter.prefix is None else f"{interpreter.prefix}/")


def test_the_seal_is_written_for_python_3_9_and_imports_next_to_nothing() -> None:
    source = Path(seal.__file__).read_text()
    ast.parse(source, feature_version=(3, 9))
    code = "import sys; before = set(sys.modules); import seal; print(*sorted(set(sys.modules) - before))"
    done = subprocess.run(
        ["/usr/bin/python3", "-S", "-c", code],
        cwd=Path(seal.__file__).parent,
        env={"PYTHONDONTWRITEBYTECODE": "1", "PYTHONPATH": "."},
        capture_output=True,
        text=True,
        check=True,
    )
    allowed = {"__future__", "_ctypes", "_struct", "gc", "marshal", "posix", "seal", "struct"}
    assert set(done.stdout.split()) <= allowed


@pytest.mark.parametrize("module", [tree, forks])
def test_the_fork_server_is_written_for_python_3_9_and_imports_what_is_part_of_the_interpreter(module: Any) -> None:
    parsed = ast.parse(Path(module.__file__).read_text(), feature_version=(3, 9))
    imported = {name.name for node in parsed.body if isinstance(node, ast.Import) for name in node.names}
    assert imported <= {"_signal", "_socket", "fcntl", "gc", "posix", "select", "sys"}


def test_a_call_that_the_kernel_refuses_is_noticed_whatever_it_returns() -> None:
    # prctl(2) returns an int, umount2(2) what the kernel says: to an ordinary user that neither is permitted.
    with pytest.raises(OSError, match=r"prctl.*(Invalid argument|not permitted)"):
        seal.call("prctl", 24, 999, 0, 0, 0)
    with pytest.raises(OSError, match="umount2"):
        seal.call("umount2", b"/nowhere", 2)
    assert seal.call("getpid") == os.getpid()


def test_an_order_that_the_seal_does_not_know_ends_it(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyError):
        seal.main(["3", "unknown=1"])
    assert seal.READY.decode() not in capfd.readouterr().err
