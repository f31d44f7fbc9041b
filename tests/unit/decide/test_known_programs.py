"""What known programs need, hand over, and may be allowed for longer."""

from __future__ import annotations

import pytest

from crabpot.decide.known_programs import danger, executes_nothing, needs


@pytest.mark.parametrize(
    "pattern",
    [
        *(
            "sh *",
            "bash -c *",
            "python3 *",
            "python3.11 *",
            "node ?",
            "sudo *",
            "env *",
            "xargs *",
            "docker *",
            "podman *",
        ),
        *("make", "make *", "npm run *", "cargo build", "python3 build.py", "kubectl *"),
        *("brew *", "terraform *", "ansible-playbook *", "curl *", "psql *", "gh *", "nobody-knows-this *", "ip *"),
        *("cat *", "head -n 5 *", "tail *", "date *", "cp *"),
    ],
)
def test_a_pattern_that_hands_more_over_than_it_says_is_dangerous(pattern: str) -> None:
    assert danger(pattern)


@pytest.mark.parametrize(
    "pattern",
    [
        "",
        "git push *",
        "git *",
        "ls *",
        "journalctl *",
        "systemctl status *",
        "brew upgrade",
        "curl",
        "sh",
        "docker ps",
        "env",
    ],
)
def test_what_is_known_to_be_harmless_or_names_its_words_is_not(pattern: str) -> None:
    assert danger(pattern) is None


@pytest.mark.parametrize(
    "argv", [("journalctl", "-u", "x"), ("systemctl", "status", "ssh"), ("ls",), ("df", "-h"), ("cat", "x")]
)
def test_a_program_known_to_execute_nothing_of_the_folder_may_be_allowed_for_longer(argv: tuple[str, ...]) -> None:
    assert executes_nothing(argv)


@pytest.mark.parametrize(
    "argv", [("make",), ("git", "status"), ("npm", "i"), ("systemctl", "restart", "x"), ("systemctl",), ("unknown",)]
)
def test_every_other_program_is_allowed_once_at_a_time(argv: tuple[str, ...]) -> None:
    assert not executes_nothing(argv)


def test_git_in_a_guard_has_no_network_and_an_unknown_program_gets_nothing_more() -> None:
    assert not needs(("git", "status")).network
    assert needs(("nobody-knows-this",)) == needs(("ls",))
