"""What the kernel says of a process from outside, in a form that is the same at every opening."""

from __future__ import annotations

import os
import subprocess

from crabpot.backends.linux import procs


def test_a_process_of_the_gateways_own_shares_everything() -> None:
    seen = procs.look(os.getpid())
    assert seen["Uid"] == " ".join([str(os.geteuid())] * 4)
    assert {seen[f"{name} namespace"] for name in procs.NAMESPACES} == {"shared"}


def test_a_process_that_is_gone_or_of_another_kernel_is_not_seen() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert procs.look(process.pid) == {}
    assert procs.look(None) == {}
    assert procs.digest({}) is None


def test_the_digest_is_of_what_was_seen_and_not_of_the_process() -> None:
    with subprocess.Popen(["sleep", "60"]) as one, subprocess.Popen(["sleep", "60"]) as other:
        try:
            assert procs.digest(procs.look(one.pid)) == procs.digest(procs.look(other.pid))
        finally:
            one.kill()
            other.kill()
    assert procs.digest({"Seccomp": "2"}) != procs.digest({"Seccomp": "0"})
