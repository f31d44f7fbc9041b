"""What the kernel says of a process from outside, in a form that is the same at every opening."""

from __future__ import annotations

import os
import subprocess

from crabpot.backends import sighting


def test_a_process_of_the_gateways_own_shares_everything() -> None:
    seen = sighting.look(os.getpid())
    assert seen["Uid"] == " ".join([str(os.geteuid())] * 4)
    assert {seen[f"{name} namespace"] for name in sighting.NAMESPACES} == {"shared"}


def test_a_process_that_is_gone_or_of_another_kernel_is_not_seen() -> None:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    assert sighting.look(process.pid) == {}
    assert sighting.look(None) == {}
    assert sighting.digest({}) is None


def test_the_digest_is_of_what_was_seen_and_not_of_the_process() -> None:
    with subprocess.Popen(["sleep", "60"]) as one, subprocess.Popen(["sleep", "60"]) as other:
        try:
            assert sighting.digest(sighting.look(one.pid)) == sighting.digest(sighting.look(other.pid))
        finally:
            one.kill()
            other.kill()
    assert sighting.digest({"Seccomp": "2"}) != sighting.digest({"Seccomp": "0"})
