"""Forms of questions: what they want in words, and which answers fit."""

from __future__ import annotations

import pytest

from crabpot.approvals import forms
from crabpot.approvals.requests import Answer, Request

FORM = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "title": "Name", "pattern": "(a+)+$"},
        "age": {"type": "integer"},
        "share": {"type": "number"},
        "yes": {"type": "boolean"},
        "colour": {"type": "string", "enum": ["red", "blue"]},
        "size": {"oneOf": [{"const": "s", "title": "Small"}], "type": "string"},
        "many": {"type": "array", "items": {"anyOf": [{"const": "a"}, {"const": "b"}]}},
        "odd": {"type": "object"},
    },
    "required": ["name"],
}


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ({"name": "Ada", "age": 3, "share": 0.5, "yes": True, "colour": "red", "size": "s", "many": ["a"]}, None),
        ({"name": "a" * 40 + "b"}, None),
        ({}, "the form needs: name"),
        ({"name": "x", "nobody": 1}, "has no field 'nobody'"),
        ({"name": 3}, "name must be of the type string"),
        ({"name": "x", "age": True}, "age must be of the type integer"),
        ({"name": "x", "age": 1.5}, "age must be of the type integer"),
        ({"name": "x", "yes": 1}, "yes must be of the type boolean"),
        ({"name": "x", "colour": "green"}, "colour is one of: red, blue"),
        ({"name": "x", "size": "m"}, "size is one of: s"),
        ({"name": "x", "many": ["c"]}, "many is a list of: a, b"),
        ({"name": "x", "odd": {}}, "odd is of a kind that no form has"),
        ({"name": "x" * 5000}, "more than 4096 characters"),
    ],
)
def test_an_answer_fits_its_form_or_is_told_why_not(content, said):
    found = forms.problem(FORM, content)
    assert found is None if said is None else said in found


@pytest.mark.parametrize("form", [{}, {"properties": 3}, {"properties": {"a": 3}}, {"required": ["x"]}])
def test_a_form_without_fields_is_agreed_to_with_nothing(form):
    assert (list(forms.fields(form)), forms.problem(form, {})) == ([], None)


def test_fields_say_what_they_want():
    assert dict(forms.fields(FORM))["name"] == "string: Name"
    assert dict(forms.fields(FORM))["colour"] == "red or blue, may be left out"


def test_a_question_is_kept_sent_and_shown_as_it_is():
    request = Request(
        id="5f0c", kind="question", session="s", agent="main", scope_key="k", server="fs", question="Name\u202e?",
        form=FORM, pattern="p", source="c", lasting=False, asked_at=0, deadline=1,
    )  # fmt: skip
    assert Request.from_json(request.as_json()) == request
    assert request.shown == "fs asks: Name\\u202e?"
    assert (
        request.problem_with(Answer(allowed=True, grant="session", by="me")) == "a question is answered once at a time"
    )
    assert "--answer JSON" in (request.problem_with(Answer(allowed=True, by="me")) or "")
    given = Answer(allowed=True, by="me", content={"name": "x"})
    assert (request.problem_with(given), Answer.from_json(given.as_json())) == (None, given)
    command = Request(
        id="1", session="s", agent="a", scope_key="k", argv=("ls",), pattern="p", source="c", asked_at=0, deadline=1
    )
    assert "only a question" in (command.problem_with(given) or "")
    with pytest.raises(ValueError, match="a denial answers no question"):
        Answer(allowed=False, by="me", content={})
