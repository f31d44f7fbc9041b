"""The units of `crabpot serve` as text; `make test-vm` installs and attacks them."""

from __future__ import annotations

import pytest

from crabpot.artefacts.systemd import SERVICE, SOCKET, Kind, Service, steps, units

ARGV = ("/opt/v/bin/python", "-P", "-m", "crabpot", "--state", "/s", "serve")


def settings(text: str) -> list[str]:
    """Return the lines that systemd reads."""
    return [line for line in text.splitlines() if line and not line.startswith(("#", "["))]


@pytest.mark.parametrize("kind", ["user", "system"])
def test_a_gateway_gets_control_groups_of_its_own_and_starts_by_its_socket(kind: Kind) -> None:
    made = units(Service(kind=kind, argv=ARGV, state="/s"))
    service = settings(made[SERVICE])
    assert {"Type=notify", "Delegate=yes", "DelegateSubgroup=gateway", "NoNewPrivileges=yes"} <= set(service)
    assert f"ExecStart={' '.join(ARGV)}" in service
    assert {"ListenStream=/s/serve.sock", "SocketMode=0600", "DirectoryMode=0700"} <= set(settings(made[SOCKET]))


def test_nothing_is_set_that_no_sandbox_can_be_made_under() -> None:
    forbidden = ("RestrictNamespaces", "RestrictSUIDSGID", "SystemCallFilter", "ProtectKernelTunables", "ProtectProc")
    for service in (Service(kind="user", argv=ARGV, state="/s"), Service(kind="system", argv=ARGV, state="/s")):
        assert not [line for line in settings(units(service)[SERVICE]) if line.startswith(forbidden)]


def test_the_machines_service_has_an_account_of_its_own_unless_it_is_roots() -> None:
    own = units(Service(kind="system", argv=ARGV, state="/s"))
    assert "User=crabpot" in settings(own[SERVICE])
    assert "SocketUser=crabpot" in settings(own[SOCKET])
    root = Service(kind="system", argv=ARGV, state="/s", account="root")
    assert not [line for line in settings(units(root)[SERVICE]) if line.startswith("User=")]
    assert "useradd" not in steps(root, None)


def test_a_gateway_with_a_port_starts_with_the_machine() -> None:
    quiet = Service(kind="system", argv=ARGV, state="/s")
    listening = Service(kind="system", argv=(*ARGV, "--listen", "127.0.0.1:8787"), state="/s", listens=True)
    assert steps(quiet, None).endswith("enable --now crabpot.socket\n")
    assert steps(listening, None).endswith("enable --now crabpot.socket crabpot.service\n")
    assert units(listening)[SERVICE].count("--listen 127.0.0.1:8787") == 1


def test_systemd_replaces_nothing_in_a_path() -> None:
    odd = Service(kind="user", argv=("/a b/py%n", "$HOME", 'q"q'), state="/s%h")
    made = units(odd)
    assert 'ExecStart="/a b/py%%n" $$HOME "q\\"q"' in settings(made[SERVICE])
    assert "ListenStream=/s%%h/serve.sock" in settings(made[SOCKET])
