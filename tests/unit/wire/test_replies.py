"""A runner's answer is taken field by field, or not at all."""

from __future__ import annotations

import base64
import json
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from crabpot.model import Failure, Place, ToolResult
from crabpot.runner.core.frames import FrameError, FrameReader, encode
from crabpot.wire.replies import CODES, FROM_RUNNER, BadReply, check, check_runner, clean

DONE = {"success": True}

# Blueprint §9, to the letter.
PUBLISHED = (
    "denied approval_denied approval_timeout invalid_arguments not_found is_directory not_a_directory not_a_file exists "
    "permission_denied read_only no_match ambiguous_match conflict outside timeout cancelled output_limit memory_limit process_limit "
    "disk_limit sandbox_lost sandbox_unavailable internal"
)


def test_the_codes_are_those_that_were_published():
    assert set(PUBLISHED.split()) == CODES


@pytest.mark.parametrize("code", sorted(FROM_RUNNER))
def test_a_runner_may_tell_what_happened_in_its_own_calls(code):
    reply = check_runner({"success": False, "error": {"code": code, "message": "why"}}, b"", b"", b"")
    assert reply.error == (code, "why")


@pytest.mark.parametrize("code", sorted(CODES - FROM_RUNNER))
def test_a_runner_may_not_speak_for_the_gateway_but_a_gateway_may(code):
    header = {"success": False, "error": {"code": code, "message": "why"}}
    with pytest.raises(BadReply):
        check_runner(header, b"", b"", b"")
    assert check(header, b"", b"", b"").error == (code, "why")


def test_what_is_left_out_is_empty():
    reply = check_runner(DONE, b"", b"", b"")
    assert (reply.stdout, reply.stderr, reply.exit_code, reply.error) == ("", "", None, None)
    assert (reply.truncated, reply.data) == (False, None)


def test_success_is_never_left_out():
    with pytest.raises(BadReply, match="success"):
        check_runner({}, b"", b"", b"")


def test_text_that_came_ahead_stands_before_the_rest():
    reply = check_runner({**DONE, "stdout": "c", "stderr": "d"}, b"", b"ab", b"\xff")
    assert (reply.stdout, reply.stderr) == ("abc", "\ufffdd")


def test_a_payload_is_the_content_in_the_encoding_that_the_data_names():
    binary = bytes(range(256))
    reply = check_runner({**DONE, "data": {"encoding": "base64"}}, binary, b"", b"")
    assert base64.b64decode(reply.data["content"]) == binary
    reply = check_runner({**DONE, "data": {"encoding": "utf-8"}}, "café".encode(), b"", b"")
    assert reply.data == {"encoding": "utf-8", "content": "café"}
    assert check_runner(DONE, b"plain", b"", b"").data == {"content": "plain"}


@pytest.mark.parametrize("encoding", [[], {}, 5, None, "utf-16", "rot13"])
def test_a_payload_of_another_encoding_is_text_without_invalid_bytes(encoding):
    reply = check_runner({**DONE, "data": {"encoding": encoding}}, b"a\xffb", b"", b"")
    assert reply.data["content"] == "a\ufffdb"


def test_a_bad_reply_is_a_broken_frame():
    assert issubclass(BadReply, FrameError)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(10**19), 10**19) | st.floats() | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(st.characters()), inner, max_size=4),
    max_leaves=12,
)
FIELDS = ["success", "stdout", "stderr", "exit_code", "error", "truncated", "data", "op", "id"]


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(max_size=5), json_values), st.binary(max_size=64))
def test_anything_is_either_a_reply_that_can_be_sent_on_or_refused(header, payload):
    try:
        reply = check_runner(header, payload, payload, b"")
    except BadReply:
        return
    assert type(reply.success) is bool
    assert reply.exit_code is None or reply.exit_code in range(256)
    for text in (reply.stdout, reply.stderr, *(reply.error or ())):
        text.encode()
    json.dumps(reply.data).encode()


@given(st.binary(max_size=400))
def test_any_bytes_are_frames_or_a_frame_error_and_nothing_else(data):
    reader = FrameReader()
    try:
        for header, payload in reader.feed(data):
            check_runner(header, payload, b"", b"")
    except FrameError:
        pass


def test_data_as_deep_as_the_stack_is_refused_not_a_fault():
    value: Any = "x"
    for _ in range(sys.getrecursionlimit() * 2):
        value = [value]
    with pytest.raises(BadReply, match="nested"):
        clean({"a": value})


def test_what_any_tool_gives_is_not_too_deep():
    matches = {"matches": [{"path": "a", "before": [{"line": 1, "text": ["x"]}]}]}
    assert clean(matches) == matches


def test_a_name_that_is_no_unicode_survives_the_frame_and_is_replaced_in_the_reply():
    ((header, _),) = FrameReader().feed(encode({**DONE, "data": {"entries": [{"name": "caf\udce9"}]}}))
    assert check_runner(header, b"", b"", b"").data == {"entries": [{"name": "caf?"}]}


def test_a_reply_becomes_a_result_field_by_field():
    reply = check(
        {"success": False, "stderr": "no", "exit_code": 3, "truncated": True, "data": {"a": 1}}, b"", b"ahead", b""
    )
    assert reply.as_result("c-1", Place.HOST, 1.5) == ToolResult(
        id="c-1",
        success=False,
        stdout="ahead",
        stderr="no",
        exit_code=3,
        truncated=True,
        data={"a": 1},
        place=Place.HOST,
        duration_ms=1.5,
    )
    failed = check({"success": False, "error": {"code": "timeout", "message": "late"}}, b"", b"", b"")
    assert failed.as_result("c-2", Place.NONE, 0.0).error == Failure(code="timeout", message="late")
