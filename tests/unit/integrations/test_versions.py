"""A framework of another version, or none at all, is refused by a sentence that names the range."""

from __future__ import annotations

import importlib
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from crabpot.errors import CrabpotError, UnsupportedFramework
from crabpot.integrations.versions import require

ROOT = Path(__file__).parents[3]
PACKAGES = {
    "ag2": "ag2",
    "google_adk": "google-adk",
    "inspect": "inspect-ai",
    "langchain": "deepagents",
    "mini_swe_agent": "mini-swe-agent",
    "openai_agents": "openai-agents",
    "pydantic_ai": "pydantic-ai-slim",
    "smolagents": "smolagents",
    "strands": "strands-agents",
}

# It needs another version of a package that the MCP door needs.
WITHOUT_EXTRA = ("strands",)


def install(folder: Path, package: str, version: str) -> None:
    """Make it look installed, in this version."""
    info = folder / f"{package.replace('-', '_')}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n")


def test_every_integration_is_here() -> None:
    folder = ROOT / "src" / "crabpot" / "integrations"
    found = {path.name.removesuffix(".py") for path in folder.iterdir() if not path.name.startswith("_")}
    assert found - {"versions"} == set(PACKAGES)


@pytest.mark.parametrize("module", PACKAGES)
def test_another_version_is_refused_by_the_range(module: str, tmp_path: Path) -> None:
    package, extra = PACKAGES[module], module.replace("_", "-")
    install(tmp_path, package, "99.1")
    done = subprocess.run(
        [sys.executable, "-c", f"import crabpot.integrations.{module}"],
        env={**os.environ, "PYTHONPATH": f"{ROOT / 'src'}:{tmp_path}"},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = done.stderr.strip().splitlines()[-1]
    found = re.fullmatch(
        rf"crabpot\.errors\.UnsupportedFramework: {package} 99\.1 is installed; this integration needs {package} "
        r"from ([0-9.]+), below ([0-9.]+): (pip install .+)",
        said,
    )
    assert found is not None, said
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    if module in WITHOUT_EXTRA:
        assert extra not in extras
        assert "--no-deps crabpot" in found[3]
    else:
        assert found[3] == f"pip install 'crabpot[{extra}]'"
        assert extras[extra] == [f"{package}>={found[1]},<{found[2]}"]


@pytest.mark.parametrize(
    ("installed", "fits"),
    [
        ("1.9.9", False),
        ("2.0", True),
        ("2.0.1rc1", True),
        ("2.9", True),
        ("3.0.0a1", False),
        ("3", False),
        ("0", False),
    ],
)
def test_the_range_is_from_its_least_on_and_below_its_end(
    installed: str, fits: object, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, "some-framework", installed)
    monkeypatch.syspath_prepend(tmp_path)
    if fits:
        require("some-framework", "2.0", "3", extra="some")
    else:
        with pytest.raises(CrabpotError, match=r"from 2\.0, below 3"):
            require("some-framework", "2.0", "3", extra="some")


def test_a_program_that_can_do_without_a_framework_catches_an_ordinary_import_error() -> None:
    with pytest.raises(ImportError):
        importlib.import_module("crabpot.integrations.strands")
    assert issubclass(UnsupportedFramework, CrabpotError)


def test_one_that_is_not_installed_is_named_with_what_installs_it() -> None:
    with pytest.raises(CrabpotError, match=r"no-such-framework is not installed.*pip install 'crabpot\[none\]'"):
        require("no-such-framework", "1", "2", extra="none")
