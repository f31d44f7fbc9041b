"""Attacks on the way out: commands that only look like one that a person would agree to."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.decide.elevation import rules
from crabpot.model import Place
from crabpot.proof.verify.claims import HAND_OFF, Group, Outcome, few

if TYPE_CHECKING:
    from crabpot.proof.verify.target import Target

claim = Group(HAND_OFF)

# Each is more than one simple command, or not the command that it looks like. {0} is one that a pattern matches.
_DISGUISES = (
    "{0}; id",
    "{0} && id",
    "{0} || id",
    "{0} | cat",
    "{0} & id",
    "{0}\nid",
    "{0}\r\nid",
    "{0} $(id)",
    "{0} `id`",
    "{0} ${{HOME}}",
    "{0} > planted",
    "{0} < /etc/passwd",
    "{0} <<x\nid\nx",
    "{0} <(id)",
    "{0} # harmless",
    "{0} \\\n; id",
    "{0} *",
    "{0} ~",
    "{0} {{a,b}}",
    "PATH=/workspace {0}",
    "env {0}",
    "env -S '{0}'",
    "sh -c '{0}'",
    "command {0}",
    "exec {0}",
    "nice {0}",
    "/usr/bin/{0}",
    "./{0}",
    "! {0}",
    "( {0} )",
    "if true; then {0}; fi",
    "\u200b{0}",
    "{0}\u202e",
    "{0}\u00a0x",
    " '' {0}",
)


def _allowed(target: Target) -> str:
    """Return a command that matches the session's first pattern, or a usual one."""
    pattern = next((rule.pattern for rule in rules(target.agent)), "git push *")
    return pattern.replace("*", "x").replace("?", "x")


@claim.about("sandbox", threats=("disguised-command",))
async def cannot_leave_by_a_command_that_only_looks_allowed(target: Target) -> Outcome:
    """Chains, substitutions, wrappers, other paths and invisible characters: all of them stay inside."""
    plain = _allowed(target)
    left, asked = [], []
    for disguise in _DISGUISES:
        result = await target.shell(disguise.format(plain), timeout_s=5.0)
        if result.place is Place.HOST:
            left.append(disguise.format(plain))
        elif result.place is not Place.SANDBOX:
            asked.append(f"{disguise.format(plain)!r}: {result.error.code if result.error else 'nowhere'}")
    appeared = await target.shell("rm -f /workspace/planted")
    return Outcome(
        held=not left and not asked and appeared.success,
        tried=f"{len(_DISGUISES)} disguises of `{plain}`",
        came_back="; ".join(
            filter(None, (few(left) and f"LEFT: {few(left)}", few(asked) and f"taken for it: {few(asked)}"))
        )
        or "each ran in the sandbox",
    )


@claim.about("sandbox", threats=("disguised-command", "reused-approval"))
async def cannot_leave_with_an_environment_an_input_or_a_terminal_of_its_own(target: Target) -> Outcome:
    """A person is shown the command alone; a call that brings more than that does not leave."""
    plain = _allowed(target)
    extras: tuple[dict[str, object], ...] = (
        {"env": {"GIT_SSH_COMMAND": "id"}},
        {"stdin": "x"},
        {"tty": True},
        {"env": {"LD_PRELOAD": "/workspace/x.so"}, "stdin": "x"},
    )
    places = [(await target.call("exec", command=plain, timeout=5.0, **extra)).place for extra in extras]
    return Outcome(
        held=all(place is Place.SANDBOX for place in places),
        tried=f"`{plain}` with {', '.join(' and '.join(extra) for extra in extras)}",
        came_back=f"ran in: {', '.join(place.value for place in places)}",
    )
