"""Whose a gateway is: another place of credentials, another engine or another configuration is another gateway."""

from __future__ import annotations

import hashlib

from crabpot.config import places
from crabpot.doors.local.identity import DECISIVE, digest, of_code, of_config


def test_every_variable_that_names_a_place_of_credentials_counts():
    assert set(places._CREDENTIALS) <= set(DECISIVE)
    assert of_code({}) == of_code({"TERM": "xterm"})
    for name in (*DECISIVE, "OTEL_EXPORTER_OTLP_ENDPOINT"):
        assert of_code({name: "/x"}) not in (of_code({}), of_code({name: "/y"})), name


def test_a_configuration_is_its_place_and_its_text():
    assert of_config(None, b"") == "defaults"
    assert len({of_config("/a", b"{}"), of_config("/b", b"{}"), of_config("/a", b"{ }")}) == 3
    assert digest(b"crab") == hashlib.sha256(b"crab").hexdigest()
