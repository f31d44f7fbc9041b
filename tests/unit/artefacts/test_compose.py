"""The compose file: the same container as the command, with nothing that compose would replace or read otherwise."""

from __future__ import annotations

from crabpot.artefacts import compose
from crabpot.artefacts.container import body
from crabpot.artefacts.ports import Port
from crabpot.artefacts.volumes import Volume
from crabpot.settings import MIB, Docker, Io, Limits, Size
from crabpot.spec.network import NetworkSpec
from tests.unit.artefacts.make import make_spec, make_wanted

PLAIN = """\
services:
  pot:
    image: "crabpot-sandbox:latest"
    container_name: "pot"
    command:
      - "sleep"
      - "infinity"
    user: "1000:1000"
    cap_drop:
      - "ALL"
    security_opt:
      - "no-new-privileges:true"
      - "seccomp:/state/seccomp.json"
    read_only: true
    tmpfs:
      - "/tmp:rw,noexec,nosuid,nodev,size=100m,nr_inodes=25600,mode=1777"
      - "/var/run:rw,noexec,nosuid,nodev,size=10m,nr_inodes=2560,mode=1777"
    ipc: "private"
    shm_size: "100m"
    init: true
    network_mode: "none"
    mem_limit: "2g"
    memswap_limit: "2g"
    mem_reservation: "1g"
    cpus: 2.0
    pids_limit: 100
    ulimits:
      nofile:
        soft: 1024
        hard: 1024
      fsize:
        soft: 1073741824
        hard: 1073741824
      core:
        soft: 0
        hard: 0
    deploy:
      resources:
        reservations:
          cpus: "1"
          memory: "1g"
    logging:
      driver: "json-file"
      options:
        max-size: "10m"
        max-file: "3"
    restart: "unless-stopped"
"""


def test_the_plain_file_is_to_the_letter() -> None:
    assert compose.file("pot", body(make_spec(), make_wanted())) == PLAIN


def test_nothing_is_left_for_compose_to_replace() -> None:
    wanted = make_wanted(command=("echo", "$HOME ${SECRET:-x}"), env={"A": "$$"}, health="test $USER")
    made = compose.file("pot", body(make_spec(), wanted))
    assert '"$$HOME $${SECRET:-x}"' in made
    assert '"A=$$$$"' in made
    assert '"test $$USER"' in made


def test_ports_volumes_networks_and_wishes_are_there() -> None:
    spec = make_spec(
        network=NetworkSpec(kind="named", name="lab"),
        limits=Limits(cpu_shares=512, io=Io(read=Size(10 * MIB))),
        docker=Docker(runtime="runsc", apparmor="crabpot"),
    )
    wanted = make_wanted(
        ports=(Port(host=8080, container=80),),
        volumes=(
            Volume(source="/srv/a", target="/a", access="ro"),
            Volume(source="/srv/logs", target="/logs", access="rw", flags=("nosuid", "nodev")),
        ),
        health="true",
        disk="/dev/sda",
    )
    made = compose.file("pot", body(spec, wanted))
    for piece in (
        'ports:\n      - "127.0.0.1:8080:80/tcp"\n',
        'cap_add:\n      - "NET_BIND_SERVICE"\n',
        'networks:\n      - "lab"\n',
        "\nnetworks:\n  lab:\n    external: true\n",
        'runtime: "runsc"\n',
        '- "apparmor:crabpot"\n',
        "cpu_shares: 512\n",
        'blkio_config:\n      device_read_bps:\n        - path: "/dev/sda"\n          rate: "10m"\n',
        'healthcheck:\n      test:\n        - "CMD-SHELL"\n        - "true"\n      interval: "30s"\n',
        'source: "/srv/a"\n        bind:\n          propagation: "rprivate"\n',
        'driver_opts:\n      type: "none"\n      o: "bind,rw,nosuid,nodev"\n      device: "/srv/logs"\n',
    ):
        assert piece in made, piece
    assert "network_mode" not in made


def test_a_volume_of_another_folder_has_another_name() -> None:
    def name(source: str) -> str:
        volume = Volume(source=source, target="/logs", access="rw", flags=("nosuid",))
        made = compose.file("pot", body(make_spec(), make_wanted(volumes=(volume,))))
        return made.split("volumes:\n")[-1].split(":")[0]

    assert name("/srv/a") != name("/srv/b")
