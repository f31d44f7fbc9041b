"""The AppArmor profile: Debian's own parser takes it, and it names what it promises."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from crabpot.artefacts import apparmor
from crabpot.spec import hardening


def test_the_parser_takes_it_and_makes_rules_of_it(tmp_path) -> None:
    parser = shutil.which("apparmor_parser", path="/usr/sbin:/sbin:/usr/bin")
    if parser is None:
        pytest.skip("apparmor_parser is not here: apt-get install apparmor")
    file = tmp_path / "crabpot"
    file.write_text(apparmor.profile())
    # A kernel without AppArmor loads nothing; the text is read and compiled all the same.
    done = subprocess.run(
        [parser, "--skip-kernel-load", "--skip-cache", "--stdout", str(file)], capture_output=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert len(done.stdout) > 1000
    broken = subprocess.run(
        [parser, "--skip-kernel-load", "--skip-cache", "--stdout"],
        input=apparmor.profile().replace("deny mount,", "deny mont,").encode(),
        capture_output=True,
        check=False,
    )
    assert broken.returncode != 0, "the parser would have noticed"


def test_it_hides_what_a_sandbox_hides_and_says_how_to_load_it() -> None:
    text = apparmor.profile()
    assert all(f"deny {path}{{,/**}} rwklx," in text for path in hardening.MASKED_PROC)
    assert all(f"deny {path}{{,/**}} w," in text for path in hardening.READ_ONLY_PROC)
    assert "deny /tmp/** x," in text
    assert "apparmor_parser --replace /etc/apparmor.d/crabpot" in text
