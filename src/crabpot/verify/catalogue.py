"""Every claim, in the order in which a report shows them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.errors import CrabpotError
from crabpot.suggest import closest
from crabpot.verify import (
    arguments,
    devices,
    filesystem,
    floods,
    hogs,
    leaving,
    neighbours,
    network,
    privileges,
    processes,
    resources,
    syscalls,
)

if TYPE_CHECKING:
    from collections.abc import Collection

    from crabpot.verify.claims import Claim

MODULES = (
    filesystem,
    devices,
    processes,
    neighbours,
    privileges,
    syscalls,
    network,
    resources,
    floods,
    hogs,
    arguments,
    leaving,
)

CLAIMS: tuple[Claim, ...] = tuple(claim for module in MODULES for claim in module.claim.claims)


def chosen(only: Collection[str] | None) -> tuple[Claim, ...]:
    """Give the claims of these names or groups; all of them for None. A name that is none is an error."""
    if only is None:
        return CLAIMS
    known = {claim.name for claim in CLAIMS} | {claim.group for claim in CLAIMS}
    for name in only:
        if name not in known:
            raise CrabpotError(f'there is no claim and no group "{name}"{closest(name, known)}')
    return tuple(claim for claim in CLAIMS if claim.name in only or claim.group in only)
