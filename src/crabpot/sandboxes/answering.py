"""Answer what sandboxes ask for on behalf of their scope, and only so many at a time of one agent."""

from __future__ import annotations

from typing import TYPE_CHECKING

from crabpot.decide.scope import Account, acting_for, called_with
from crabpot.scheduling.fairness import Allowance, Line

if TYPE_CHECKING:
    from crabpot.decide.scope import Scope
    from crabpot.wire.upcalls import Answer, Answers, Upcall

# Each may hold 256 KiB of what it was sent, and a socket: a hundred sandboxes of one agent, with as many upcalls each
# as a wire may have, would hold gigabytes and every descriptor that the gateway has.
_AT_ONCE = Allowance(scope=256, agent=1024, agents=8192, own=0)


class Answering:
    """The upcalls of all sandboxes of one gateway."""

    def __init__(self, allowed: Allowance = _AT_ONCE) -> None:
        self._underway: Line[Upcall] = Line(allowed)

    def on_behalf_of(self, scope: Scope, answers: Answers) -> Answers:
        """Charge the work of answering a sandbox to its scope; one upcall too many fails at once."""
        return {kind: self._counted(scope, answer) for kind, answer in answers.items()}

    def _counted(self, scope: Scope, answer: Answer) -> Answer:
        whose = Account(scope.agent.id, scope.key)

        async def answering(upcall: Upcall) -> None:
            taken = self._underway.enter(whose)
            if taken is not None:
                # Not left to wait: while it does, it holds what it was sent.
                message = f"{taken} has as many connections and host commands open as it may have"
                scope.hint(message)
                upcall.fail("process_limit", message)
                return
            try:
                with acting_for(*whose), called_with(scope.variables):
                    await answer(upcall)
            finally:
                self._underway.leave(whose)

        return answering
