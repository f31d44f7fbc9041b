"""YAML that no reader can take for something else."""

from __future__ import annotations

from crabpot.artefacts import yaml


def test_mappings_lists_and_what_is_in_them() -> None:
    made = yaml.document({"a": {"b": [1, {"c": True, "d": [["x", "y"], []]}], "e": {}}})
    assert made == (
        "a:\n"
        "  b:\n"
        "    - 1\n"
        "    - c: true\n"
        "      d:\n"
        '        - - "x"\n'
        '          - "y"\n'
        "        - []\n"
        "  e: {}\n"
    )  # fmt: skip


def test_texts_and_doubtful_keys_are_quoted() -> None:
    made = yaml.document({"on": "no", "1a": "1.10", "x: y": "- a\n#\u00e9", "max-size": "0o17"})
    assert made == '"on": "no"\n"1a": "1.10"\n"x: y": "- a\\n#\\u00e9"\nmax-size: "0o17"\n'
