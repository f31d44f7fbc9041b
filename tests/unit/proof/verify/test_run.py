"""What is made of an attack's outcome, and which attacks are chosen."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from crabpot.errors import CrabpotError
from crabpot.proof.verify.catalogue import CLAIMS, chosen
from crabpot.proof.verify.claims import Claim, Finding, Group, NotCarriedOut, Outcome, few
from crabpot.proof.verify.run import carry_out, to_its_end


class Announcing:
    """A target whose backend keeps `limits.disk` only in part."""

    pace = 1.0

    def gives_away(self, claim: Claim) -> str | None:
        return "as configured" if "host" in claim.open_on else None

    async def degraded(self, clause: str | None) -> str | None:
        return "no quota" if clause == "limits.disk" else None


def finding(attack, clause: str | None = None, open_on: tuple[str, ...] = ()) -> Finding:
    claim = Claim(name="cannot_do_it", group="g", attack=attack, excused_by=clause, open_on=open_on)
    target: Any = Announcing()
    return asyncio.run(carry_out(claim, target))


class Slowing(Announcing):
    """A target on a machine that became slower after its clocks were set."""

    def __init__(self, paces: list[float]) -> None:
        self.paces = paces
        self.attacked: list[float] = []

    async def measure(self) -> None:
        self.pace = self.paces.pop(0)


def findings_at(paces: list[float], outcome) -> tuple[Finding, list[float]]:
    """Return what comes of an attack that ends only on clocks for a machine three times slower, and when it was made."""
    target: Any = Slowing(paces)

    async def attack(_target) -> Outcome:
        target.attacked.append(target.pace)
        if target.pace < 3:
            raise NotCarriedOut("the time limit was reached")
        return await outcome(target)

    claim = Claim(name="cannot_do_it", group="g", attack=attack)
    return asyncio.run(to_its_end(claim, target)), target.attacked


async def held(_target) -> Outcome:
    return Outcome(held=True, tried="t", came_back="EPERM")


async def broken(_target) -> Outcome:
    return Outcome(held=False, tried="t", came_back="the secret")


async def impossible(_target) -> Outcome:
    raise NotCarriedOut("no python3 inside")


async def mistaken(_target) -> Outcome:
    raise KeyError("typo")


def test_a_claim_that_held_does_not_fail() -> None:
    assert (finding(held).state, finding(held).failed) == ("held", False)


def test_a_claim_that_did_not_hold_fails() -> None:
    assert (finding(broken).state, finding(broken).failed) == ("broken", True)


def test_an_announced_weakness_is_told_and_is_no_failure() -> None:
    found = finding(broken, "limits.disk")
    assert (found.state, found.failed, found.degraded) == ("degraded", False, "no quota")


def test_a_weakness_of_another_clause_excuses_nothing() -> None:
    assert finding(broken, "limits.memory").state == "broken"


@pytest.mark.parametrize("attack", [impossible, mistaken])
def test_an_attack_that_could_not_be_made_is_an_error_even_where_a_weakness_is_announced(attack) -> None:
    found = finding(attack, "limits.disk")
    assert (found.state, found.failed) == ("error", True)


@pytest.mark.parametrize("outcome", [held, broken])
def test_an_attack_that_a_slower_machine_cut_short_is_made_again_on_its_clocks(outcome) -> None:
    found, attacked = findings_at([4.0], outcome)
    assert (found.state, attacked) == (outcome.__name__, [1.0, 4.0])


@pytest.mark.parametrize("pace", [1.0, 2.0])
def test_what_is_cut_short_on_clocks_that_are_right_stays_an_error(pace: float) -> None:
    found, attacked = findings_at([pace], held)
    assert (found.state, found.failed) == ("error", True)
    assert attacked == ([1.0] if pace == 1.0 else [1.0, 2.0])


def test_a_claim_reads_as_its_functions_name() -> None:
    group = Group("g")
    group.about("user", threats=["environment"])(held)
    group.about("user", excused_by="tmp", open_on=["host"])(broken)
    assert [(claim.text, claim.clauses, claim.excused_by) for claim in group.claims] == [
        ("held", ("user",), None),
        ("broken", ("user", "tmp"), "tmp"),
    ]
    assert [(claim.threats, claim.open_on) for claim in group.claims] == [(("environment",), ()), ((), ("host",))]


def test_what_the_configuration_gives_away_is_not_attacked_and_no_failure() -> None:
    found = finding(broken, open_on=("host",))
    assert (found.state, found.failed, found.came_back) == ("open", False, "as configured")


def test_a_claim_reads_as_a_person_would_say_it() -> None:
    assert chosen(["cannot_see_the_hosts_processes"])[0].text == "cannot see the host's processes"


def test_claims_are_chosen_by_name_or_group() -> None:
    network = {claim.name for claim in CLAIMS if claim.group == "network"}
    assert {claim.name for claim in chosen(["network"])} == network
    assert [claim.name for claim in chosen(["is_not_root"])] == ["is_not_root"]
    assert {claim.name for claim in chosen(["net*"])} == network
    assert chosen(["cannot see the host's processes"]) == chosen(["cannot_see_the_hosts_processes"])
    assert set(chosen(["cannot write*"])) == {claim for claim in CLAIMS if claim.name.startswith("cannot_write")}
    assert chosen(["*"]) == chosen(None) == CLAIMS


def test_a_claim_that_does_not_exist_is_an_error_with_a_hint() -> None:
    with pytest.raises(CrabpotError, match=r'did you mean "is[_ ]not[_ ]root"'):
        chosen(["is_not_rot"])
    with pytest.raises(CrabpotError, match="the groups are: filesystem, "):
        chosen(["nonsense"])


def test_few_words_of_many() -> None:
    assert few(["a", "b"]) == "a, b"
    assert few([str(n) for n in range(14)]).endswith("11 and 2 more")
