"""Every threat has a claim, every clause has a claim, and no claim names one that does not exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import crabpot.backends.bubblewrap.clauses as bubblewrap
import crabpot.backends.docker.clauses as docker
import crabpot.backends.kubernetes.clauses as kubernetes
from crabpot.backends import base
from crabpot.backends.linux import limits
from crabpot.proof.verify.catalogue import CLAIMS, GROUPS
from crabpot.proof.verify.threats import ROWS


def clauses() -> set[str]:
    """Read the names that the tables can yield off their source: no one machine yields all of them."""
    tables = (base, limits, bubblewrap, docker, kubernetes)
    text = "".join(Path(module.__file__ or "").read_text(encoding="utf-8") for module in tables)
    return set(re.findall(r'(?:yield|return)\s*\(?\s*"([a-zA-Z.-]+)",', text))


def test_the_tables_are_read() -> None:
    assert {"sandbox", "namespaces", "seccomp", "tmp", "image", "limits.disk", "limits.io"} <= clauses()


@pytest.mark.parametrize("row", ROWS)
def test_every_threat_is_tried(row: str) -> None:
    assert [claim.name for claim in CLAIMS if row in claim.threats]


@pytest.mark.parametrize("clause", sorted(clauses()))
def test_every_clause_is_tried(clause: str) -> None:
    assert [claim.name for claim in CLAIMS if clause in claim.clauses]


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.name)
def test_a_claim_names_only_what_there_is(claim) -> None:
    assert set(claim.threats) <= set(ROWS)
    assert set(claim.clauses) <= clauses()
    assert claim.clauses or claim.threats
    assert claim.group in GROUPS
