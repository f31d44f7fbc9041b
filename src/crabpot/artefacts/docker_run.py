"""A container's description as a `docker run` command that can be pasted into any shell."""

from __future__ import annotations

import csv
import io
import shlex
from typing import TYPE_CHECKING, Any

from crabpot.settings import Size

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

_NANO = 10**9


def command(name: str, body: Mapping[str, Any]) -> str:
    """Return the command, one option per line. No comments in between: a shell would end the command there."""
    lines = ["docker run --detach", *(_line(option) for option in _options(name, body)), shlex.quote(body["Image"])]
    if body["Cmd"]:
        lines.append(shlex.join(body["Cmd"]))
    return " \\\n  ".join(lines) + "\n"


def _line(option: tuple[str, ...]) -> str:
    return " ".join((f"--{option[0]}", *map(shlex.quote, option[1:])))


def _options(name: str, body: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    host = body["HostConfig"]
    yield "name", name
    yield "user", body["User"]
    yield from _walls(host)
    yield from (("mount", _mount(one)) for one in host["Mounts"])
    yield "network", host["NetworkMode"]
    for inside, outside in host["PortBindings"].items():
        yield from (("publish", f"{one['HostIp']}:{one['HostPort']}:{inside}") for one in outside)
    yield from _limits(host)
    yield from (("env", one) for one in body["Env"])
    if "Healthcheck" in body:
        yield from _health(body["Healthcheck"])
    yield "log-driver", host["LogConfig"]["Type"]
    yield from (("log-opt", f"{key}={value}") for key, value in host["LogConfig"]["Config"].items())
    yield "restart", host["RestartPolicy"]["Name"]


def _walls(host: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    yield from (("cap-drop", one) for one in host["CapDrop"])
    yield from (("cap-add", one) for one in host["CapAdd"])
    yield from (("security-opt", one) for one in host["SecurityOpt"])
    if host["ReadonlyRootfs"]:
        yield ("read-only",)
    yield from (("tmpfs", f"{path}:{options}") for path, options in host["Tmpfs"].items())
    yield "ipc", host["IpcMode"]
    yield "cgroupns", host["CgroupnsMode"]
    yield "shm-size", _size(host["ShmSize"])
    if host["Init"]:
        yield ("init",)
    if "Runtime" in host:
        yield "runtime", host["Runtime"]


def _limits(host: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    yield "memory", _size(host["Memory"])
    yield "memory-swap", _size(host["MemorySwap"])
    yield "memory-reservation", _size(host["MemoryReservation"])
    yield "cpus", _cpus(host["NanoCpus"])
    if "CpuShares" in host:
        yield "cpu-shares", str(host["CpuShares"])
    yield "pids-limit", str(host["PidsLimit"])
    yield from (("ulimit", f"{one['Name']}={one['Soft']}:{one['Hard']}") for one in host["Ulimits"])
    for key, option in (("BlkioDeviceReadBps", "device-read-bps"), ("BlkioDeviceWriteBps", "device-write-bps")):
        yield from ((option, f"{one['Path']}:{_size(one['Rate'])}") for one in host.get(key, ()))


def _cpus(nano: int) -> str:
    return f"{nano // _NANO}.{nano % _NANO:09d}".rstrip("0").rstrip(".")


def _size(size_bytes: int) -> str:
    return Size(size_bytes).written()


def _health(check: Mapping[str, Any]) -> Iterator[tuple[str, ...]]:
    yield "health-cmd", check["Test"][1]
    yield "health-interval", f"{check['Interval'] // _NANO}s"
    yield "health-timeout", f"{check['Timeout'] // _NANO}s"
    yield "health-retries", str(check["Retries"])
    yield "health-start-period", f"{check['StartPeriod'] // _NANO}s"


def _mount(mount: Mapping[str, Any]) -> str:
    """Return a mount as the client reads it: a line of CSV, so that a path may contain a comma."""
    fields = [f"type={mount['Type']}", f"source={mount['Source']}", f"target={mount['Target']}"]
    if mount["Type"] == "bind":
        options = mount["BindOptions"]
        fields.append(f"bind-propagation={options['Propagation']}")
        fields += ["bind-nonrecursive=true"] if options["NonRecursive"] else []
    else:
        driver = mount["VolumeOptions"]["DriverConfig"]
        fields += ["volume-nocopy=true", f"volume-driver={driver['Name']}"]
        fields += [f"volume-opt={key}={value}" for key, value in driver["Options"].items()]
    if mount["ReadOnly"]:
        fields.append("readonly")
    line = io.StringIO()
    csv.writer(line, lineterminator="").writerow(fields)
    return line.getvalue()
