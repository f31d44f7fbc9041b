"""What the doctor makes of bwraps, engines and runcs."""

from __future__ import annotations

from dataclasses import replace

import pytest

from crabpot.proof.doctor.programs import Bwrap, DockerEngine, bubblewraps, engine

DAY_S = 86400.0
BWRAP = Bwrap(path="/usr/bin/bwrap", version="0.12.0", chosen=True, seals=True, safe_below_links=True)
ENGINE = DockerEngine(
    version="28.1.0",
    socket="/run/docker.sock",
    components={"runc": "1.3.3"},
    rootless=False,
    remapped=False,
    runtimes=frozenset({"runc", "runsc"}),
    image="crabpot-sandbox:latest",
    image_age_s=3 * DAY_S,
)


def judged(found, name, **more):
    lines = [line for line in engine(found, needed=True, **more) if line.name == name]
    assert len(lines) == 1
    return lines[0]


def test_all_is_well_where_it_is():
    assert {line.state for line in bubblewraps((BWRAP,), None)} == {"ok"}
    assert {line.state for line in engine(ENGINE, needed=True)} == {"ok"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"privileged": "/usr/bin/bwrap is setuid: chmod u-s /usr/bin/bwrap"}, "chmod u-s"),
        ({"seals": False}, "AppArmor"),
        ({"safe_below_links": False}, "0.12"),
    ],
)
def test_a_bwrap_that_is_open_to_attack_is_a_warning_with_its_fix(change, said):
    (line,) = bubblewraps((replace(BWRAP, **change),), None)
    assert line.state == "warning"
    assert said in line.fix


def test_what_an_old_bwrap_means_depends_on_who_mounts():
    old = replace(BWRAP, safe_below_links=False)
    (line,) = bubblewraps((old,), None)
    assert "no bind inside another" in line.says
    (line,) = bubblewraps((replace(old, attaches=True),), None)
    assert "Crabpot mounts without it" in line.says


def test_one_that_is_not_chosen_is_no_fault():
    (line,) = bubblewraps((replace(BWRAP, chosen=False, seals=False, safe_below_links=False),), None)
    assert line.state == "ok"


def test_one_that_fails_is_not_called_unneeded_and_says_why():
    failing = replace(BWRAP, chosen=False, failure="AppArmor's profile: sudo aa-disable /usr/bin/bwrap")
    (line,) = bubblewraps((failing,), None)
    assert (line.state, line.fix) == ("warning", failing.failure)
    assert "opens no sandbox" in line.says
    first, last = bubblewraps((failing,), failing.failure)
    assert (first.state, first.fix, last.fix) == ("warning", None, failing.failure)


def test_that_none_opens_a_sandbox_is_a_problem_that_says_why():
    *_, line = bubblewraps((), "no bwrap on this machine: apt-get install bubblewrap")
    assert (line.state, line.fix) == ("problem", "no bwrap on this machine: apt-get install bubblewrap")


@pytest.mark.parametrize(
    ("version", "state", "holes"),
    [
        ("1.4.0", "ok", ()),
        ("1.3.3", "ok", ()),
        ("1.2.8", "ok", ()),
        ("1.3.2", "warning", ("CVE-2025-31133",)),
        ("1.2.7", "warning", ("CVE-2025-52881",)),
        ("1.1.15", "warning", ("CVE-2025-52565",)),
        ("1.1.5+ds1", "warning", ("CVE-2024-21626", "CVE-2025-31133")),
        ("1.0.0", "warning", ("CVE-2024-21626",)),
        ("", "warning", ()),
    ],
)
def test_an_old_runc_is_named_with_its_holes(version, state, holes):
    line = judged(replace(ENGINE, components={"runc": version}), "runc")
    assert line.state == state
    assert all(hole in line.says for hole in holes)
    assert ("CVE-2024-21626" in line.says) == ("CVE-2024-21626" in holes)


def test_how_an_engine_runs_is_said():
    assert "run by root" in judged(ENGINE, "engine").says
    assert "rootless" in judged(replace(ENGINE, rootless=True), "engine").says
    assert "remapped" in judged(replace(ENGINE, remapped=True), "engine").says
    assert judged(replace(ENGINE, version="20.10.5"), "engine").state == "warning"


def test_an_image_that_is_missing_or_old_is_a_warning():
    assert judged(replace(ENGINE, image_age_s=None), "image").fix == "crabpot image build"
    assert judged(replace(ENGINE, image_age_s=90 * DAY_S), "image").state == "warning"


def test_without_a_second_kernel_the_doctor_says_what_that_means():
    assert "a bug in the kernel" in judged(replace(ENGINE, runtimes=frozenset()), "gVisor, Kata").says
    assert 'docker.runtime "runsc"' in judged(ENGINE, "gVisor, Kata").says


def test_no_engine_is_a_problem_only_where_one_is_needed():
    (line,) = engine("no docker engine was found: start it", needed=False)
    assert (line.state, line.fix) == ("ok", None)
    (line,) = engine("no docker engine was found: start it", needed=True)
    assert (line.state, line.fix) == ("problem", "no docker engine was found: start it")
