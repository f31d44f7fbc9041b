"""Changes under review over HTTP: for operators only, with every refusal in one format."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from crabpot.doors.http.access.principals import Role
from tests.support.layers import Project, over

if TYPE_CHECKING:
    from collections.abc import Callable

REVIEWED = '{agents: {defaults: {workspace: "WS", sandbox: {workspace: "review"}}}}'
SESSION = "agent:main:main"
CHANGES = f"/v1/sessions/{SESSION}/changes"


def worked_on(made: Any) -> Project:
    """Return a project over which an agent has worked."""
    made.workspace.mkdir()
    (made.workspace / "a.txt").write_text("one\n")
    one = over(made.workspace, made.folder / "state", "overlay")
    one.agent("echo two >> a.txt; echo x > .envrc; printf 'b\\342\\200\\256d' > bidi; echo n > new")
    return one


async def test_an_operator_lists_compares_applies_undoes_and_discards(door: Callable[..., Any]) -> None:
    async with door(REVIEWED) as opened:
        folder = worked_on(opened.made).folder
        ask = opened.operator
        assert (await ask.get("/v1/layers")).json()["layers"] == [
            {"session": SESSION, "folder": str(folder), "mechanism": "overlay"}
        ]
        told = (await ask.get(CHANGES, params={"shown": "1"})).json()
        assert [one["path"] for one in told["files"]] == [".envrc", "a.txt", "bidi", "new"]
        assert {one["shown"] for one in told["files"]} == {".envrc", "a.txt", "bidi", "new"}
        diff = (await ask.get(f"{CHANGES}/diff", params={"path": ["a.txt", "bidi"], "shown": "1"})).json()["diff"]
        assert "+two\n" in diff
        assert "b<U+202E>d" in diff
        assert ".envrc" not in diff

        done = (await ask.post(f"{CHANGES}/apply", json={"paths": ["a.txt", ".envrc"]})).json()
        assert done["applied"] == ["a.txt"]
        assert [(one["path"], one["why"]) for one in done["left"]] == [(".envrc", "gate")]
        assert (folder / "a.txt").read_text() == "one\ntwo\n"
        assert (await ask.post(f"{CHANGES}/undo")).json()["applied"] == ["a.txt"]
        assert (folder / "a.txt").read_text() == "one\n"
        assert (await ask.post(f"{CHANGES}/discard", json={"paths": ["new"]})).json() == {"discarded": ["new"]}
        done = (await ask.post(f"{CHANGES}/apply", json={"gated": True})).json()
        assert done["applied"] == [".envrc", "a.txt", "bidi"]
        await ask.post(f"{CHANGES}/discard")
        assert (await ask.get("/v1/layers")).json() == {"layers": []}


async def test_nobody_but_an_operator_sees_or_applies_changes(door: Callable[..., Any]) -> None:
    async with door(REVIEWED) as opened:
        folder = worked_on(opened.made).folder
        secret = opened.tokens.add("bot", role=Role.AGENT, sessions=(SESSION,))
        agent = opened.client(secret)
        for answer in (
            await agent.get(CHANGES),
            await agent.get(f"{CHANGES}/diff"),
            await agent.get("/v1/layers"),
            *[await agent.post(f"{CHANGES}/{deed}") for deed in ("apply", "undo", "discard")],
        ):
            assert answer.status_code == 403
        assert (await opened.stranger.post(f"{CHANGES}/apply")).status_code == 401
        assert sorted(path.name for path in folder.iterdir()) == ["a.txt"]


async def test_bad_requests_and_layers_in_use_get_a_clear_answer(door: Callable[..., Any]) -> None:
    async with door(REVIEWED) as opened:
        one = worked_on(opened.made)
        ask = opened.operator
        assert (await ask.post(f"{CHANGES}/apply", json={"paths": "a"})).status_code == 400
        assert (await ask.post(f"{CHANGES}/apply", json={"force": True})).status_code == 400
        assert (await ask.post(f"{CHANGES}/apply", json={"paths": ["nowhere"]})).status_code == 400
        assert (await ask.post("/v1/sessions/agent:main:other/changes/apply")).status_code == 404
        with one.store.hold(one.layer):
            answer = await ask.post(f"{CHANGES}/apply")
        assert answer.status_code == 409
        assert "in use" in answer.json()["error"]["message"]
