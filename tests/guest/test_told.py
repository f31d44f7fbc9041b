"""What Crabpot says about this place is true: clauses, groups, doctor, the journal."""

from __future__ import annotations

import grp
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.guest.place import KEY, PLACE, sandbox_of
from tests.guest.test_limits import SLOW_S, clauses_of

if TYPE_CHECKING:
    from collections.abc import Callable

# Made by the lane: root's, and readable for the group adm.
OF_ADM = "/srv/crabpot-adm"


async def test_a_group_of_the_users_is_gone_inside_or_is_named_in_the_clause(opened: Callable[..., Any]) -> None:
    async with opened(binds=[f"{OF_ADM}:/adm:ro"]) as gateway:
        pid = await sandbox_of(gateway)
        told = (await clauses_of(gateway))["user"]
        status = Path(f"/proc/{pid}/status").read_text(encoding="ascii")
        groups = next(line.split()[1:] for line in status.splitlines() if line.startswith("Groups:"))
        others = [int(gid) for gid in groups if int(gid) != os.getegid() or os.geteuid() == 0]
        read = await gateway.call(KEY, "exec", command="cat /adm/secret", timeout=SLOW_S)
        if told.state == "enforced":
            assert others == []
            assert not read.success, "a file of the group adm was read"
        else:
            assert all(grp.getgrgid(gid).gr_name in told.how for gid in others), told
        assert read.success == ("adm" in [grp.getgrgid(gid).gr_name for gid in others])


def crabpot(*words: str, state: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "crabpot", "--state", str(state), *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)


def test_the_doctor_says_where_control_groups_come_from(state: Path) -> None:
    done = crabpot("doctor", "--json", state=state)
    lines = {line["name"]: line for line in json.loads(done.stdout)}
    told = lines["control groups"]
    by = "a systemd user scope" if PLACE in ("ssh", "desktop") else "version 2"
    assert told["state"] == "ok", told
    assert told["says"].startswith(by), told
    assert all(name in told["says"] for name in ("cpu", "memory", "pids"))
    assert lines["user namespaces"]["state"] == "ok"
    assert not [line for line in lines.values() if line["area"] == "kernel" and line["state"] == "problem"]


def test_the_table_of_this_place(state: Path) -> None:
    done = crabpot("explain", "--json", "--session", KEY, state=state)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout)["sandbox"]["clauses"]
    shown = "".join(f"{one['name']:<20} {one['state']:<9} {one['how']}\n" for one in told)
    Path(os.environ.get("CRABPOT_GUEST_TABLES", "/tmp"), f"clauses-{PLACE}.txt").write_text(shown, encoding="utf-8")
    weak = {one["name"] for one in told if one["state"] != "enforced"}
    assert weak <= {"limits.disk", "user"}, weak
