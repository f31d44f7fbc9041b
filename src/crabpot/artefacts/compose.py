"""A container's description as a compose file, for compose 1.27 and newer, version 2 included.

Limits are the service's own keys: of those under `deploy`, version 1 has none for processes, and version 2 accepts no
other value there than here. CPU reservations exist under `deploy` alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabpot.artefacts import yaml
from crabpot.settings import Size

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

_NANO = 10**9


def file(name: str, body: Mapping[str, Any]) -> str:
    """Return the file, with one service."""
    host = body["HostConfig"]
    mounts = [_mount(one) for one in host["Mounts"]]
    document: dict[str, Any] = {"services": {name: service(name, body, [mount for mount, _ in mounts])}}
    named = {key: value for _, volume in mounts for key, value in volume.items()}
    if named:
        document["volumes"] = named
    if host["NetworkMode"] not in ("none", "bridge", "host"):
        document["networks"] = {host["NetworkMode"]: {"external": True}}
    return spelled(document)


def spelled(document: Mapping[str, Any]) -> str:
    """Return a document escaped so that compose reads just that."""
    return yaml.document(_escaped(document))


def service(name: str, body: Mapping[str, Any], mounts: Sequence[Mapping[str, Any] | str]) -> dict[str, Any]:
    """Return the service of a container, with its mounts as compose spells them."""
    host = body["HostConfig"]
    made: dict[str, Any] = {
        "image": body["Image"],
        "container_name": name,
        "command": body["Cmd"],
        "user": body["User"],
        "cap_drop": host["CapDrop"],
        "cap_add": host["CapAdd"],
        "security_opt": [_option(one) for one in host["SecurityOpt"]],
        "read_only": host["ReadonlyRootfs"],
        "tmpfs": [f"{path}:{options}" for path, options in host["Tmpfs"].items()],
        "ipc": host["IpcMode"],
        "shm_size": _size(host["ShmSize"]),
        "init": host["Init"],
        "runtime": host.get("Runtime"),
        "volumes": list(mounts),
        **_network(host),
        **_limits(host),
        "environment": body["Env"],
        "healthcheck": _health(body.get("Healthcheck")),
        "logging": {"driver": host["LogConfig"]["Type"], "options": host["LogConfig"]["Config"]},
        "restart": host["RestartPolicy"]["Name"],
    }
    return {key: value for key, value in made.items() if value not in (None, [], {})}


def _option(option: str) -> str:
    name, _, value = option.partition("=")
    return f"{name}:{value or 'true'}"


def _network(host: Mapping[str, Any]) -> dict[str, Any]:
    mode = host["NetworkMode"]
    published = [
        f"{one['HostIp']}:{one['HostPort']}:{inside}" for inside, all_ in host["PortBindings"].items() for one in all_
    ]
    return {
        **({"network_mode": mode} if mode in ("none", "bridge", "host") else {"networks": [mode]}),
        "ports": published,
    }


def _limits(host: Mapping[str, Any]) -> dict[str, Any]:
    cpus = host["NanoCpus"] / _NANO
    memory, kept = _size(host["Memory"]), _size(host["MemoryReservation"])
    made = {
        "mem_limit": memory,
        "memswap_limit": _size(host["MemorySwap"]),
        "mem_reservation": kept,
        "cpus": cpus,
        "cpu_shares": host.get("CpuShares"),
        "pids_limit": host["PidsLimit"],
        "ulimits": {one["Name"]: {"soft": one["Soft"], "hard": one["Hard"]} for one in host["Ulimits"]},
        "deploy": {"resources": {"reservations": {"cpus": f"{cpus / 2:g}", "memory": kept}}},
    }
    rates = {"BlkioDeviceReadBps": "device_read_bps", "BlkioDeviceWriteBps": "device_write_bps"}
    made["blkio_config"] = {
        spelled: [{"path": one["Path"], "rate": _size(one["Rate"])} for one in host[key]]
        for key, spelled in rates.items()
        if key in host
    }
    return made


def _health(check: Mapping[str, Any] | None) -> dict[str, Any] | None:
    if check is None:
        return None
    return {
        "test": check["Test"],
        "interval": f"{check['Interval'] // _NANO}s",
        "timeout": f"{check['Timeout'] // _NANO}s",
        "retries": check["Retries"],
        "start_period": f"{check['StartPeriod'] // _NANO}s",
    }


def _mount(mount: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a mount, and the named volume that it needs, if any."""
    spelled = {"type": mount["Type"], "target": mount["Target"], "read_only": mount["ReadOnly"]}
    if mount["Type"] == "bind":
        options = {"propagation": mount["BindOptions"]["Propagation"]}
        return {**spelled, "source": mount["Source"], "bind": options}, {}
    driver = mount["VolumeOptions"]["DriverConfig"]
    volume = {mount["Source"]: {"driver": driver["Name"], "driver_opts": driver["Options"]}}
    return {**spelled, "source": mount["Source"], "volume": {"nocopy": mount["VolumeOptions"]["NoCopy"]}}, volume


def _escaped(value: Any) -> Any:
    """Escape `$`, which compose would expand from the variables of whoever starts it."""
    if isinstance(value, dict):
        return {key: _escaped(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_escaped(item) for item in value]
    return value.replace("$", "$$") if isinstance(value, str) else value


def _size(size_bytes: int) -> str:
    return Size(size_bytes).written()
