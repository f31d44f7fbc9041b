"""Which host paths a sandbox may have: judged as written and as resolved, in every spelling."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.spec.binds import (
    BindRefused,
    Surroundings,
    check_target,
    expand,
    mount,
    parse,
    refuse_source,
    refuse_workspace,
)
from crabpot.spec.hardening import RESERVED_TARGETS

if TYPE_CHECKING:
    from pathlib import Path

SYSTEM = ["/etc", "/proc", "/sys", "/dev", "/boot", "/run", "/var/run", "/root"]
CREDENTIALS = (
    ".ssh .aws .azure .gnupg .docker .kube .netrc .npmrc .pypirc .config .git-credentials .bashrc .local/bin".split()
)


@pytest.fixture
def home(tmp_path: Path) -> Surroundings:
    folder = tmp_path / "home"
    (folder / "projects").mkdir(parents=True)
    return Surroundings(
        home=str(folder), state=str(tmp_path / "state/crabpot"), config=str(tmp_path / "conf/crabpot.json5")
    )


def refuses(source: str | Path, around: Surroundings) -> str:
    with pytest.raises(BindRefused) as caught:
        mount(f"{source}:/x:ro", around)
    return str(caught.value)


SPELLINGS = ["{}", "{}/", "/{}", "//{}", "{}/.", "/.{}", "/srv/..{}", "{}/x/..", "{}//", "/srv/../srv/..{}", "/./{}/./"]


@pytest.mark.parametrize("spelling", SPELLINGS)
@pytest.mark.parametrize(
    "path", [*SYSTEM, "/etc/passwd", "/proc/self/root", "/dev/fd/0", "/run/user/1000", "/var/run/x", "/root/x"]
)
def test_a_system_folder_is_refused_however_it_is_spelt(path: str, spelling: str, home: Surroundings) -> None:
    assert "is refused: it " in refuses(spelling.format(path), home)


@pytest.mark.parametrize(
    "spelling", ["/", "//", "///", "/.", "/..", "/../..", "/srv/..", "/etc/..", "/./.", "~/../../../../../../../../.."]
)
def test_the_whole_host_is_refused_however_it_is_spelt(spelling: str, home: Surroundings) -> None:
    assert "it is the whole host" in refuses(spelling, home)


@pytest.mark.parametrize(
    "path", ["/var", "/var/lib", "/var/lib/docker", "/var/lib/docker/volumes/x", "/var/lib/kubelet"]
)
def test_what_contains_a_system_folder_or_a_runtimes_own_is_refused(path: str, home: Surroundings) -> None:
    assert "is refused" in refuses(path, home)


@pytest.mark.parametrize(
    "path",
    [
        *("/var/run/docker.sock", "/run/docker.sock", "//var//run//docker.sock", "/var/run/../run/docker.sock"),
        *("/srv/docker.sock", "/srv/x/podman.sock", "/tmp/containerd.sock", "/opt/crio.sock", "~/projects/docker.sock"),
        *(
            "/run/user/1000/docker.sock",
            "/run/containerd/containerd.sock",
            "~/.docker/run/docker.sock",
            "/srv/docker.sock/",
        ),
    ],
)
def test_a_runtimes_socket_is_refused_wherever_it_lies(path: str, home: Surroundings) -> None:
    assert "is refused" in refuses(path, home)


@pytest.mark.parametrize("name", CREDENTIALS)
def test_a_place_of_credentials_is_refused_with_what_lies_under_it(name: str, home: Surroundings) -> None:
    for path in (f"~/{name}", f"{home.home}/{name}", f"~/{name}/deeper", f"~/projects/../{name}"):
        assert "a place of credentials" in refuses(path, home)


@pytest.mark.parametrize("path", ["~", "~/", "~/.", "~/projects/..", "{home}", "{home}/", "{home}/../home", "{parent}"])
def test_the_home_and_what_contains_it_is_refused(path: str, home: Surroundings) -> None:
    assert "is refused" in refuses(path.format(home=home.home, parent=os.path.dirname(home.home)), home)


def test_crabpots_own_files_are_refused(home: Surroundings) -> None:
    for path in (home.state, f"{home.state}/sandboxes/x", os.path.dirname(home.state)):
        assert "Crabpot's own state" in refuses(path, home)
    for path in (home.config, os.path.dirname(home.config)):
        assert "Crabpot's own configuration" in refuses(path, home)


@pytest.mark.parametrize(
    "path",
    [
        "/srv",
        "/srv/ref",
        "/opt/tool",
        "/mnt/data",
        "/usr/share/doc",
        "/home/somebody/projects",
        "/tmp/x",
        "/etcetera",
        "/runner",
        "/proc2",
        "/varnish",
        "/rooted",
    ],
)
def test_what_gives_nothing_away_may_be_bound(path: str, home: Surroundings) -> None:
    made = mount(f"{path}/:/x", home)
    assert (made.source, made.target, made.access) == (os.path.realpath(path), "/x", "ro")


def test_a_folder_of_the_home_may_be_bound(home: Surroundings) -> None:
    made = mount("~/projects:/projects:rw", home)
    assert (made.source, made.access) == (f"{home.home}/projects", "rw")
    assert mount("~/.sshfs:/x", home).source == f"{home.home}/.sshfs"


@pytest.mark.parametrize("source", ["srv", "./srv", "../srv", "", " /srv", "~root/x", "~bob", "$HOME/x", "C", "file"])
def test_a_source_is_absolute(source: str, home: Surroundings) -> None:
    assert refuses(source, home)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "/srv",
        "/srv:",
        ":/x",
        "/srv::ro",
        "/srv:/x:",
        "/srv:/x:ro:z",
        "/srv:/x:RO",
        "/srv:/x:rw,exec",
        "/srv:/x:w",
        "/srv:/x:ro ",
        "/srv:/x\0:ro",
    ],
)
def test_a_bind_reads_host_container_and_ro_or_rw(text: str, home: Surroundings) -> None:
    with pytest.raises(BindRefused):
        mount(text, home)


def test_a_bind_is_read_only_unless_it_says_otherwise() -> None:
    assert parse("/a:/b") == ("/a", "/b", "ro")
    assert parse("/a:/b:ro") == ("/a", "/b", "ro")
    assert parse("/a:/b:rw") == ("/a", "/b", "rw")


@pytest.mark.parametrize("spelling", ["{}", "{}/", "/{}", "{}/x", "{}/x/y/", "{}//x", "/.{}"])
@pytest.mark.parametrize("target", RESERVED_TARGETS)
def test_a_reserved_target_and_what_lies_under_it_is_refused(target: str, spelling: str) -> None:
    with pytest.raises(BindRefused, match="reserved inside the sandbox"):
        check_target(spelling.format(target))


@pytest.mark.parametrize("target", ["/var", "/var/", "//var"])
def test_a_target_that_would_hide_a_reserved_one_is_refused(target: str) -> None:
    with pytest.raises(BindRefused, match="would hide /var/tmp, reserved"):
        check_target(target)


def test_the_reserved_targets_are_those_of_the_contract() -> None:
    assert {"/workspace", "/agent", "/proc", "/sys", "/dev", "/tmp", "/etc", "/usr", "/crabpot"} <= set(
        RESERVED_TARGETS
    )


@pytest.mark.parametrize("target", ["/", "//", "/.", "/x/..", "/x/../workspace", "/../etc", "x", "./x", "", "~/x"])
def test_a_target_is_absolute_and_does_not_climb(target: str) -> None:
    with pytest.raises(BindRefused):
        check_target(target)


@pytest.mark.parametrize(
    ("target", "normal"),
    [
        ("/ref", "/ref"),
        ("//ref/", "/ref"),
        ("/a/./b", "/a/b"),
        ("/workspaces", "/workspaces"),
        ("/agents/x", "/agents/x"),
        ("/opt", "/opt"),
        ("/var/lib/x", "/var/lib/x"),
        ("/...", "/..."),
    ],
)
def test_other_targets_are_normalised(target: str, normal: str) -> None:
    assert check_target(target) == normal


def test_the_workspace_may_lie_under_roots_home_when_that_is_the_gateways_own(tmp_path: Path) -> None:
    root = Surroundings(home="/root", state="/root/.local/state/crabpot")
    assert refuse_workspace("/root/agent", root) is None
    assert refuse_workspace("/root/.ssh", root)
    assert refuse_workspace("/root", root)
    assert refuse_source("/root/agent", root), "a bind may not"
    assert refuse_workspace("/root/agent", Surroundings(home=str(tmp_path), state="/s")), "nor may anybody else's"


def test_a_tilde_is_the_gateways_home_and_nobody_elses() -> None:
    assert [expand(path, "/h") for path in ("~", "~/x", "~x", "/~", "x~")] == ["/h", "/h/x", "~x", "/~", "x~"]


PARTS = st.sampled_from(["etc", "proc", "..", ".", "", "srv", "home", ".ssh", "run", "x", "link", "var"])


@given(parts=st.lists(PARTS, max_size=6))
def test_no_spelling_reaches_what_its_resolved_path_may_not(parts: list[str]) -> None:
    home = Surroundings(home="/home/somebody", state="/srv/state")
    source = "/" + "/".join(parts)
    if refuse_source(source, home) is None:
        resolved = os.path.realpath(source)
        assert refuse_source(resolved, home) is None
        assert resolved != "/"
        assert not any(
            resolved == tree or resolved.startswith(f"{tree}/") or tree.startswith(f"{resolved}/") for tree in SYSTEM
        )
