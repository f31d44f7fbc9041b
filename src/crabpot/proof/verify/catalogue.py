"""Every claim, in the order in which a report shows them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from crabpot.errors import CrabpotError
from crabpot.proof.verify import live
from crabpot.proof.verify.attacks import (
    applies,
    approvals,
    arguments,
    configuration,
    devices,
    elevation,
    encrypted,
    filesystem,
    floods,
    git,
    guard,
    keys,
    listed,
    listening,
    memory,
    neighbours,
    network,
    planting,
    policy,
    privileges,
    processes,
    resources,
    reviewing,
    runners,
    servers,
    syscalls,
)
from crabpot.proof.verify.claims import HAND_OFF, Group
from crabpot.wording import closest

if TYPE_CHECKING:
    from collections.abc import Collection
    from types import ModuleType

    from crabpot.proof.verify.claims import Claim

MODULES = (
    filesystem,
    reviewing,
    devices,
    processes,
    neighbours,
    privileges,
    syscalls,
    network,
    listed,
    keys,
    encrypted,
    resources,
    floods,
    memory,
    arguments,
    configuration,
    policy,
    live,
    elevation,
    approvals,
    planting,
    guard,
    git,
    applies,
    listening,
    runners,
    servers,
)

# The order in which a report shows them.
GROUPS = (
    "filesystem",
    "processes",
    "privileges",
    "system calls",
    "network",
    "resources",
    "escape by tool arguments",
    "escape by configuration",
    HAND_OFF,
    "gateway under a hostile runner",
    "MCP servers",
)


def _written(module: ModuleType) -> list[Claim]:
    return [claim for group in vars(module).values() if isinstance(group, Group) for claim in group.claims]


CLAIMS: tuple[Claim, ...] = tuple(
    sorted((claim for module in MODULES for claim in _written(module)), key=lambda claim: GROUPS.index(claim.group))
)


def chosen(only: Collection[str] | None) -> tuple[Claim, ...]:
    """Return the claims of these names (as in code, or as shown) or groups, where `*` is a wildcard; all for None.

    A word that is neither is an error: nobody may believe that something was tried that does not exist.
    """
    if only is None:
        return CLAIMS
    known = {name: None for claim in CLAIMS for name in (claim.text, claim.name, claim.group)}
    wanted = []
    for word in only:
        pattern = re.compile(".*".join(map(re.escape, word.split("*"))))
        if not any(pattern.fullmatch(name) for name in known):
            groups = f"; the groups are: {', '.join(GROUPS)}"
            raise CrabpotError(f'there is no claim and no group "{word}"{closest(word, known) or groups}')
        wanted.append(pattern)
    return tuple(
        claim
        for claim in CLAIMS
        if any(pattern.fullmatch(name) for pattern in wanted for name in (claim.text, claim.name, claim.group))
    )
