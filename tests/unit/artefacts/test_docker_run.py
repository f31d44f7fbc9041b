"""The `docker run` command: one simple command, whatever is in it."""

from __future__ import annotations

import csv
import shlex
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.artefacts import docker_run
from crabpot.artefacts.container import body
from crabpot.artefacts.ports import Port
from crabpot.artefacts.volumes import Volume
from crabpot.settings import MIB, Docker, Io, Limits, Size
from tests.unit.artefacts.make import make_spec, make_wanted

PLAIN = """\
docker run --detach \\
  --name pot \\
  --user 1000:1000 \\
  --cap-drop ALL \\
  --security-opt no-new-privileges \\
  --security-opt seccomp=/state/seccomp.json \\
  --read-only \\
  --tmpfs /tmp:rw,noexec,nosuid,nodev,size=100m,nr_inodes=25600,mode=1777 \\
  --tmpfs /var/run:rw,noexec,nosuid,nodev,size=10m,nr_inodes=2560,mode=1777 \\
  --ipc private \\
  --cgroupns private \\
  --shm-size 100m \\
  --init \\
  --network none \\
  --memory 2g \\
  --memory-swap 2g \\
  --memory-reservation 1g \\
  --cpus 2 \\
  --pids-limit 100 \\
  --ulimit nofile=1024:1024 \\
  --ulimit fsize=1073741824:1073741824 \\
  --ulimit core=0:0 \\
  --log-driver json-file \\
  --log-opt max-size=10m \\
  --log-opt max-file=3 \\
  --restart unless-stopped \\
  crabpot-sandbox:latest \\
  sleep infinity
"""


def test_the_plain_command_is_to_the_letter() -> None:
    assert docker_run.command("pot", body(make_spec(), make_wanted())) == PLAIN


def test_everything_that_can_be_asked_for_is_there() -> None:
    spec = make_spec(
        limits=Limits(cpu_shares=512, io=Io(read=Size(10 * MIB), write=Size(20 * MIB))),
        docker=Docker(runtime="runsc", apparmor="crabpot"),
    )
    wanted = make_wanted(
        ports=(Port(host=8080, container=80),),
        volumes=(Volume(source="/srv/a", target="/a", access="ro"),),
        health="curl -f http://localhost:80/health",
        env={"LANG": "C.UTF-8"},
        disk="/dev/sda",
    )
    words = shlex.split(docker_run.command("pot", body(spec, wanted)).replace("\\\n", ""))
    pairs = set(pairwise(words))
    assert {
        ("--publish", "127.0.0.1:8080:80/tcp"),
        ("--cap-add", "NET_BIND_SERVICE"),
        ("--security-opt", "apparmor=crabpot"),
        ("--runtime", "runsc"),
        ("--cpu-shares", "512"),
        ("--device-read-bps", "/dev/sda:10m"),
        ("--device-write-bps", "/dev/sda:20m"),
        ("--health-cmd", "curl -f http://localhost:80/health"),
        ("--health-start-period", "40s"),
        ("--env", "LANG=C.UTF-8"),
        ("--mount", "type=bind,source=/srv/a,target=/a,bind-propagation=rprivate,bind-nonrecursive=true,readonly"),
    } <= pairs


@pytest.mark.parametrize(("cpus", "spelled"), [(2.0, "2"), (0.5, "0.5"), (10 / 3, "3.333333333"), (100.0, "100")])
def test_processors_are_counted_to_the_last_digit(cpus: float, spelled: str) -> None:
    made = docker_run.command("pot", body(make_spec(limits=Limits(cpus=cpus)), make_wanted()))
    assert f"--cpus {spelled} " in made


def test_the_name_of_an_image_stays_one_word() -> None:
    made = docker_run.command("pot", body(make_spec(), make_wanted(image="a;b c", command=())))
    assert shlex.split(made.replace("\\\n", ""))[-1] == "a;b c"


def test_the_flags_of_a_volume_are_kept_by_the_engines_local_driver() -> None:
    volume = Volume(source="/srv/logs", target="/app/logs", access="rw", flags=("nosuid", "nodev"))
    words = shlex.split(
        docker_run.command("pot", body(make_spec(), make_wanted(volumes=(volume,)))).replace("\\\n", "")
    )
    fields = next(csv.reader([words[words.index("--mount") + 1]]))
    assert "volume-opt=o=bind,rw,nosuid,nodev" in fields
    assert "volume-opt=device=/srv/logs" in fields
    assert "volume-nocopy=true" in fields


SEEN = st.text(st.characters(min_codepoint=32, max_codepoint=126), min_size=1)


@given(words=st.lists(SEEN), health=SEEN, value=SEEN, folder=SEEN)
def test_no_word_gets_out_of_its_quotes(words: list[str], health: str, value: str, folder: str) -> None:
    volume = Volume(source=f"/srv/{folder}", target="/data", access="ro")
    wanted = make_wanted(command=tuple(words), health=health, env={"A": value}, volumes=(volume,))
    read = shlex.split(docker_run.command("pot", body(make_spec(), wanted)).replace("\\\n", ""))
    assert read[read.index(wanted.image) + 1 :] == words
    assert read[read.index("--health-cmd") + 1] == health
    assert read[read.index("--env") + 1] == f"A={value}"
    assert f"source=/srv/{folder}" in next(csv.reader([read[read.index("--mount") + 1]]))
