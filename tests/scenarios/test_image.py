"""`crabpot image` and `render dockerfile`: an image is made, found again, and a sandbox in it can be worked in."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import zipfile
from pathlib import Path

import pytest

# Where scripts/test-image keeps what it made, so that the packages are fetched once.
CACHE = Path("/var/tmp/crabpot-docker")
OF_THE_TESTS = ("--group", "minimal", "--package", "libcap2-bin", "--package", "python3-pip", "--package", "stress")

BASE = ("--build-arg", "BASE=crabpot-sandbox:latest")


@pytest.fixture
def tag(docker):
    made = f"crabpot-test:{os.urandom(4).hex()}"
    yield made
    docker("rmi", "--force", made)


def row(crabpot, docker, tag):
    listed = crabpot("image", "list", "--json", DOCKER_HOST=docker.host)
    assert listed.code == 0, listed.err
    (found,) = [one for one in listed.json if one["name"] == tag]
    return found


def test_the_dockerfile_is_built_by_the_engine_layer_by_layer(crabpot, docker, tag):
    """On the image of the tests, which has every package: no registry of images and no mirror is within reach here."""
    base = ("--base", "crabpot-sandbox:latest", "--group", "minimal", "--network", "none")
    first = crabpot("image", "build", *base, "--tag", tag, "--user", "1234:1235", DOCKER_HOST=docker.host)
    assert first.code == 0, first.err
    assert "step 1 of " in first.err
    found = row(crabpot, docker, tag)
    assert (found["groups"], found["extra"], found["user"]) == (["minimal"], [], "1234:1235")
    said = docker(
        "run", "--rm", "--network=none", tag, "sh", "-c", "id -u; id -g; id -un; stat -c %u:%g /workspace; pwd"
    )
    assert said.stdout.split() == ["1234", "1235", "agent", "1234:1235", "/workspace"]
    layers = docker.inspect(tag)["RootFS"]["Layers"]
    more = ("--package", "python3-pip", "--user", "1234:1235")
    second = crabpot("image", "build", *base, *more, "--tag", tag, DOCKER_HOST=docker.host)
    assert second.code == 0, second.err
    kept = docker.inspect(tag)["RootFS"]["Layers"]
    # The user's layer comes last; all before it are taken as they are.
    assert kept[: len(layers) - 2] == layers[: len(layers) - 2]
    assert len(kept) == len(layers) + 1


def test_a_build_that_fails_says_what_the_builder_said(crabpot, docker, tag):
    wrong = ("--group", "minimal", "--package", "no-such-package-anywhere", "--tag", tag, "--network", "none")
    ended = crabpot("image", "build", "--base", "crabpot-sandbox:latest", *wrong, DOCKER_HOST=docker.host)
    assert ended.code == 1
    assert "no-such-package-anywhere" in ended.err
    assert "Unable to locate package" in ended.err
    assert "U+001B" not in ended.err
    assert docker("image", "inspect", tag).returncode != 0


def test_the_printed_dockerfile_is_what_the_engine_takes_by_hand(crabpot, docker, tag):
    printed = crabpot("render", "dockerfile", "--group", "minimal", "--user", "1000:1000")
    assert (printed.code, printed.err) == (0, "")
    built = subprocess.run(
        ["docker", "--host", docker.host, "build", "--tag", tag, "--network=none", *BASE, "-"],
        input=printed.out,
        env={**os.environ, "DOCKER_BUILDKIT": "0"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    assert row(crabpot, docker, tag)["user"] == "1000:1000"


@pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="apt-get install mmdebstrap")
def test_an_image_from_packages_is_made_once_and_known_again(crabpot, docker, tag):
    if not os.access(CACHE, os.W_OK):
        pytest.skip(f"{CACHE}, where scripts/test-image keeps what it made, is not ours to write")
    order = (
        "image",
        "build",
        "--from-packages",
        *OF_THE_TESTS,
        "--user",
        "1000:1000",
        "--tag",
        tag,
        "--cache",
        str(CACHE),
    )
    made = crabpot(*order, DOCKER_HOST=docker.host)
    assert made.code == 0, made.err
    assert "to the engine" in made.err
    found = row(crabpot, docker, tag)
    assert found["groups"] == ["minimal"]
    assert found["size"] > 50 * 1024**2
    assert f"{tag} " in crabpot("image", "list", DOCKER_HOST=docker.host).out
    again = crabpot(*order, DOCKER_HOST=docker.host)
    assert "exists already" in again.err


@pytest.mark.skipif(shutil.which("mmdebstrap") is None, reason="apt-get install mmdebstrap")
def test_an_image_is_written_to_a_file_without_an_engine_and_loads(crabpot, docker, tag, tmp_path):
    if not os.access(CACHE, os.W_OK):
        pytest.skip(f"{CACHE}, where scripts/test-image keeps what it made, is not ours to write")
    made = tmp_path / "image.tar"
    order = (
        "image",
        "build",
        "--from-packages",
        *OF_THE_TESTS,
        "--user",
        "1000:1000",
        "--tag",
        tag,
        "--cache",
        str(CACHE),
    )
    ended = crabpot(*order, "--output", str(made), DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert ended.code == 0, ended.err
    loaded = docker("load", "--input", str(made))
    assert loaded.returncode == 0, loaded.stderr
    assert row(crabpot, docker, tag)["user"] == "1000:1000"
    said = docker("run", "--rm", "--network=none", tag, "sh", "-c", "id -u; pwd; command -v rg")
    assert said.stdout.split() == ["1000", "/workspace", "/usr/bin/rg"]


def test_only_an_image_from_packages_is_written_to_a_file(crabpot):
    ended = crabpot("image", "build", "--output", "image.tar")
    assert (ended.code, ended.out) == (2, "")
    assert "--from-packages" in ended.err


def test_pip_installs_into_the_workspace_and_ssh_knows_who_it_is(crabpot, docker):
    """Under the walls of a live sandbox: the root is read-only, and nothing runs from /tmp."""
    crabpot.configure(
        '{agents: {defaults: {sandbox: {backend: "docker", workspace: "rw", user: "1000:1000",'
        ' docker: {image: "crabpot-sandbox:latest"}}}}}'
    )
    crabpot.workspace.mkdir()
    _wheel(crabpot.workspace / "tiny-1.0-py3-none-any.whl")
    for folder in (crabpot.workspace, *crabpot.workspace.iterdir()):
        os.chown(folder, 1000, 1000)
    script = "pip install --no-index ./tiny-1.0-py3-none-any.whl && python3 -c 'import tiny; print(tiny.__file__)' && tiny-says"
    ended = crabpot(
        "exec", "--", f"PATH=$PATH:~/.local/bin; {script}; ssh -G host | grep ^user", DOCKER_HOST=docker.host
    )
    assert ended.code == 0, ended.out + ended.err
    assert "externally-managed" not in ended.out + ended.err
    assert "/workspace/.local/lib/python3" in ended.out
    assert "hello from tiny" in ended.out
    assert "user agent" in ended.out
    assert (crabpot.workspace / ".local").stat().st_uid == 1000


def _wheel(path):
    files = {
        "tiny.py": "def main():\n    print('hello from tiny')\n",
        "tiny-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: tiny\nVersion: 1.0\n",
        "tiny-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        "tiny-1.0.dist-info/entry_points.txt": "[console_scripts]\ntiny-says = tiny:main\n",
    }
    files["tiny-1.0.dist-info/RECORD"] = "".join(f"{name},,\n" for name in (*files, "tiny-1.0.dist-info/RECORD"))
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


def test_without_an_engine_the_image_commands_say_what_to_do(crabpot):
    for command in (("image", "list"), ("image", "build", "--group", "minimal")):
        ended = crabpot(*command, DOCKER_HOST="unix:///nonexistent/docker.sock")
        assert ended.code == 1
        assert "is it running?" in ended.said()


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--group", "everything"], "invalid choice"),
        (["--package", "a;b"], "cannot be the name of a Debian package"),
        (["--user", "0:0"], "root"),
        (["--base=--x"], "cannot be the name of an image"),
    ],
)
def test_what_is_no_recipe_is_refused(crabpot, arguments, why):
    ended = crabpot("render", "dockerfile", *arguments)
    assert (ended.code, ended.out) == (2, "")
    assert why in ended.err


def test_the_configuration_chooses_the_packages_and_flags_choose_otherwise(crabpot):
    crabpot.configure(
        '{agents: {defaults: {sandbox: {user: "2000:2001", docker: {packages: {groups: ["docs"], extra: ["tmux"]}}}}}}'
    )
    written = crabpot("render", "dockerfile").out
    assert all(piece in written for piece in ("pandoc", "tmux", "USER 2000:2001"))
    assert "ffmpeg" not in written
    chosen = crabpot("render", "dockerfile", "--group", "media", "--package", "tree", "--user", "3000").out
    assert all(piece in chosen for piece in ("ffmpeg", "tree", "USER 3000:3000"))
    assert not any(piece in chosen for piece in ("pandoc", "tmux"))
    assert json.loads(crabpot("config", "get", "agents.defaults.sandbox.docker.packages.groups").out) == ["docs"]


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_workspace_of_another_user_is_told_before_the_image_is_made(crabpot):
    crabpot.configure('{agents: {defaults: {sandbox: {workspace: "rw"}}}}')
    crabpot.workspace.mkdir()
    os.chown(crabpot.workspace, 1234, 1235)
    assert "USER 1234:1235" in crabpot("render", "dockerfile").out
    other = crabpot("image", "build", "--user", "1000:1000", DOCKER_HOST="unix:///nonexistent/docker.sock")
    assert f"chown -R 1000:1000 {crabpot.workspace}" in other.err
