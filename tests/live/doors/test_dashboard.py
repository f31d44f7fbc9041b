"""The dashboard in a real browser: it shows what happens, answers requests, and nothing that it shows can act."""

from __future__ import annotations

import asyncio
import json
import shlex
from contextlib import asynccontextmanager

import pytest

from crabpot.approvals.requests import FolderIdentity, Request, new_id
from crabpot.backends.linux import usage
from crabpot.doors.http.access.principals import Role
from crabpot.layers import history
from crabpot.sandboxes.streams import Streams
from tests.support.layers import over

HOSTILE = "<img src=x onerror=\"document.title='owned'\"><script>document.title='owned'</script>"
PATIENCE_MS = 10_000
SESSION = "agent:main:main"


def request(**more):
    import time

    now = time.time()
    given = {
        "id": new_id(),
        "session": SESSION,
        "agent": "main",
        "scope_key": SESSION,
        "argv": ("git", "push"),
        "folder": FolderIdentity(path="/srv/agent", dev=1, ino=2),
        "pattern": "git push *",
        "source": "tools.elevated.patterns[0]",
        "asked_at": now,
        "deadline": now + 120,
    }
    return Request(**{**given, **more})


def operators_token(door):
    with open(door.tokens.need_operator()) as file:
        return file.read().strip()


class Never:
    """Somebody who is there and does not answer."""

    async def ask(self, _request):
        await asyncio.Event().wait()


@pytest.fixture
def page(door, browser):
    @asynccontextmanager
    async def make(*config, token="operator", **options):
        async with door(*config) as open_door, await browser.new_context(**options) as context:
            open_door.desk.attach(Never())
            shown = await context.new_page()
            shown.set_default_timeout(PATIENCE_MS)
            faults: list[str] = []
            vars(shown)["faults"] = faults
            shown.on("console", lambda message: faults.append(message.text))
            shown.on("pageerror", lambda error: faults.append(str(error)))
            shown.on("dialog", lambda dialog: faults.append(dialog.message))
            known = operators_token(open_door)
            hash_ = "" if token is None else f"#token={known if token == 'operator' else token}"
            await shown.goto(f"{open_door.url}/{hash_}")
            if token == "operator":
                await shown.wait_for_selector("#main:not([hidden])")
            yield open_door, shown

    return make


async def test_calls_appear_as_they_happen_with_their_place_verdict_and_rule(page):
    async with page() as (door, shown):
        await door.made.gateway.call(SESSION, "exec", command="echo fed")
        row = shown.locator("#feed tr", has_text="exec echo fed")
        await row.wait_for()
        text = await row.inner_text()
        assert "ok" in text
        assert SESSION in text
        assert " ms" in text
        await door.made.gateway.call(SESSION, "browser")
        await shown.locator("#feed tr", has_text="browser").first.wait_for()
        assert shown.faults == []


async def test_the_overview_counts_what_waits_what_was_called_and_what_was_refused(page):
    async with page() as (door, shown):
        await door.made.gateway.call(SESSION, "exec", command="echo fed")
        await door.made.gateway.call(SESSION, "no_such_tool")
        await shown.locator("#refusals-seen", has_text="1").wait_for()
        await shown.locator("#calls-seen", has_text="2").wait_for()
        assert await shown.locator("#refusals-chart rect").count() == 1
        asking = asyncio.create_task(door.desk.decide(request()))
        await shown.locator("#waits", has_text="1").wait_for()
        await shown.locator("article progress").wait_for()
        asking.cancel()
        assert shown.faults == []


FORM = {
    "type": "object",
    "required": ["name", "age", "tags"],
    "properties": {
        "name": {"type": "string", "title": "Your name", "description": HOSTILE, "default": "set by the server"},
        "age": {"type": "integer"},
        "weight": {"type": "number"},
        "sure": {"type": "boolean", "default": True},
        "left": {"type": "boolean"},
        "size": {"type": "string", "enum": ["small", "large"]},
        "colour": {"type": "string", "oneOf": [{"const": "#f00", "title": "red"}, {"const": "#0f0", "title": "green"}]},
        "tags": {"type": "array", "items": {"type": "string", "enum": ["a", "b", "c"]}},
        "odd": {"type": "object"},
    },
}


def question(**more):
    more = {"form": FORM, "server": "far", "question": f"Who are you? {HOSTILE}", **more}
    return request(kind="question", argv=(), folder=None, pattern="elicitation/create", lasting=False, **more)


async def test_the_form_of_a_question_has_a_field_of_each_type_and_sends_what_a_person_filled_in(page):
    async with page() as (door, shown):
        asking = asyncio.create_task(door.desk.decide(question()))
        card = shown.locator("article")
        answer = card.get_by_role("button", name="Answer")
        # A card that has just moved takes no press.
        await answer.scroll_into_view_if_needed()
        await answer.click()
        await shown.locator("#answered", has_text="the form needs: name, age").wait_for()
        assert not asking.done(), "nothing that the server set was sent for a person"
        await card.get_by_label("name", exact=True).fill("Ada")
        await card.get_by_label("age", exact=True).fill("36")
        await card.get_by_label("weight", exact=True).fill("0.5")
        await card.get_by_label("sure", exact=True).select_option("no")
        await card.get_by_label("size", exact=True).select_option("large")
        await card.get_by_label("colour", exact=True).select_option("green")
        for tag in ("a", "c"):
            await card.get_by_label(f"tags: {tag}", exact=True).check()
        await answer.scroll_into_view_if_needed()
        await answer.click()
        content = {"name": "Ada", "age": 36, "weight": 0.5, "sure": False, "size": "large", "colour": "#0f0"}
        given = await asking
        assert (given.allowed, given.content) == (True, {**content, "tags": ["a", "c"]})
        assert await shown.title() != "owned"


async def test_a_question_is_declined_and_its_card_goes_with_the_call_that_was_cancelled(page):
    async with page() as (door, shown):
        asking = asyncio.create_task(door.desk.decide(question()))
        decline = shown.locator("article").get_by_role("button", name="Decline")
        await decline.scroll_into_view_if_needed()
        await decline.click()
        given = await asking
        assert (given.allowed, given.content) == (False, None)
        await shown.locator("#answered", has_text="declined").wait_for()
        asking = asyncio.create_task(door.desk.decide(question(question="Once more?")))
        card = shown.locator("article", has_text="Once more?")
        await card.wait_for()
        asking.cancel()
        await shown.locator("article.gone", has_text="Once more?").wait_for()
        assert shown.faults == []


@pytest.mark.parametrize(
    ("key", "allowed", "grant"), [("a", True, "once"), ("s", True, "session"), ("d", False, "once")]
)
async def test_a_request_is_answered_by_a_key(page, key, allowed, grant):
    async with page() as (door, shown):
        deciding = asyncio.create_task(door.desk.decide(request()))
        card = shown.locator("article")
        await card.wait_for()
        for said in (
            "git push",
            "git push * (tools.elevated.patterns[0])",
            "/srv/agent",
            SESSION,
            "s left, then denied",
        ):
            assert said in await card.inner_text()
        await shown.wait_for_timeout(800)
        await shown.keyboard.press("j")
        await shown.keyboard.press(key)
        answer = await deciding
        assert (answer.allowed, answer.grant) == (allowed, grant)
        assert answer.by.startswith("http ")
        await card.wait_for(state="detached")


async def test_a_request_is_answered_by_buttons_with_minutes_and_with_a_reason(page):
    async with page() as (door, shown):
        deciding = asyncio.create_task(door.desk.decide(request()))
        await shown.click("text=Allow more")
        await shown.fill("article input[type=number]", "7")
        await shown.click("text=Allow for minutes")
        assert (await deciding).minutes == 7
        deciding = asyncio.create_task(door.desk.decide(request(argv=("git", "fetch"))))
        card = shown.locator("article", has_text="git fetch")
        await card.locator(".reason").fill("not today")
        # A press counts only on what has stood still: whoever scrolls waits a moment.
        await card.locator("button.deny").scroll_into_view_if_needed()
        await shown.wait_for_timeout(800)
        await card.locator("button.deny").click()
        answer = await deciding
        assert (answer.allowed, answer.reason) == (False, "not today")


async def test_what_may_execute_the_agents_files_is_offered_once_and_its_confinement_is_shown(page):
    async with page() as (door, shown):
        asked = request(
            argv=("make",), lasting=False, writes=("/srv/agent",), credentials=("ssh",), effects=("pushes x",)
        )
        deciding = asyncio.create_task(door.desk.decide(asked))
        card = shown.locator("article", has_text="make")
        await card.wait_for()
        text = await card.inner_text()
        for said in ("in a guard", "/srv/agent", "ssh", "pushes x"):
            assert said in text
        assert await card.locator("button").all_inner_texts() == ["Allow once", "Deny"]
        await shown.wait_for_timeout(800)
        await shown.keyboard.press("j")
        await shown.keyboard.press("s")
        await shown.keyboard.press("d")
        assert not (await deciding).allowed


async def test_a_connection_can_be_written_into_the_configuration(page):
    async with page() as (door, shown):
        asked = request(kind="connection", argv=(), folder=None, host="api.example.com", port=443)
        deciding = asyncio.create_task(door.desk.decide(asked))
        await shown.locator("article", has_text="api.example.com:443").wait_for()
        assert await shown.locator("article button:visible").all_inner_texts() == ["Allow once", "Deny"]
        await shown.click("text=Allow more")
        await shown.click("text=Allow and add to the configuration")
        answer = await deciding
        assert (answer.allowed, answer.grant) == (True, "config")


async def test_a_request_that_is_taken_back_moves_no_other_one_under_the_mouse(page):
    async with page() as (door, shown):
        first = asyncio.create_task(door.desk.decide(request()))
        await shown.locator("article").first.wait_for()
        second = asyncio.create_task(door.desk.decide(request(argv=("sh", "-c", "evil"))))
        await shown.locator("article", has_text="evil").wait_for()
        await shown.locator("article").first.locator("button", has_text="Allow once").hover()
        await shown.locator("article").last.locator("button:enabled", has_text="Allow once").wait_for()
        first.cancel()
        await shown.locator("article.gone").wait_for()
        await shown.mouse.down()
        await shown.mouse.up()
        assert [one.argv for one in door.desk.pending()] == [("sh", "-c", "evil")]
        await shown.mouse.move(0, 0)
        await shown.locator("article.gone").wait_for(state="detached")
        await shown.locator("article button", has_text="Deny").click()
        assert not (await second).allowed


TAP_LATER = """([x, y]) => {
    const tapped = { times: 0, under: null };
    new MutationObserver((_, observer) => {
        if (document.querySelectorAll("article:not(.gone)").length > 1) return;
        observer.disconnect();
        setTimeout(() => {
            tapped.under = document.elementFromPoint(x, y)?.closest("article")?.innerText ?? "";
            document.elementFromPoint(x, y)?.click();
            tapped.times += 1;
        }, 150);
    }).observe(document.body, { childList: true, subtree: true, attributes: true });
    return tapped;
}"""


async def test_a_request_that_is_withdrawn_puts_no_other_one_under_the_finger(page):
    # A finger, unlike a mouse, hovers over nothing before it presses: there is no sign of where it is going.
    async with page(has_touch=True) as (door, shown):
        first = asyncio.create_task(door.desk.decide(request()))
        await shown.locator("article").first.wait_for()
        second = asyncio.create_task(door.desk.decide(request(argv=("sh", "-c", "evil"))))
        button = shown.locator("article", has_text="evil").locator("button:enabled", has_text="Allow once")
        await button.wait_for()
        aimed = await shown.locator("article").first.locator("button", has_text="Allow once").bounding_box()
        point = [aimed["x"] + aimed["width"] / 2, aimed["y"] + aimed["height"] / 2]
        tapped = await shown.evaluate_handle(TAP_LATER, point)
        first.cancel()
        await shown.wait_for_function("tapped => tapped.times", arg=tapped)
        assert "evil" not in await tapped.evaluate("tapped => tapped.under")
        assert [one.argv for one in door.desk.pending()] == [("sh", "-c", "evil")]
        # It goes when nobody points there, and the other one, in its place now, does not count at once either.
        await shown.evaluate(
            """([x, y]) => new MutationObserver((_, observer) => {
                if (document.querySelector("article.gone")) return;
                observer.disconnect();
                document.elementFromPoint(x, y)?.click();
                setTimeout(() => { document.elementFromPoint(x, y)?.click(); document.body.dataset.tried = "yes"; }, 150);
            }).observe(document.body, { childList: true, subtree: true })""",
            point,
        )
        await shown.locator("article.gone").wait_for(state="detached")
        await shown.locator("body[data-tried]").wait_for()
        assert not second.done()
        await button.tap()
        assert (await second).allowed


async def test_a_button_does_not_count_while_the_page_moves_under_it(page):
    async with page() as (door, shown):
        deciding = asyncio.create_task(door.desk.decide(request()))
        button = shown.locator("article button:enabled", has_text="Allow once")
        await button.wait_for()
        # Whatever moves it: here, something above it grows, and the press comes before the next frame does.
        await shown.evaluate(
            """() => {
                document.querySelector("header").style.paddingBottom = "90px";
                [...document.querySelectorAll("article button")].find(one => one.textContent == "Allow once").click();
            }"""
        )
        await shown.locator("article button:disabled", has_text="Allow once").wait_for()
        assert not deciding.done()
        await button.click()
        assert (await deciding).allowed


DECEIVING = "m\u0430in"  # with a Cyrillic letter


async def test_letters_that_imitate_others_stand_by_their_numbers_wherever_they_are_shown(page):
    async with page() as (door, shown):
        gateway = door.made.gateway
        await gateway.call(f"agent:main:{DECEIVING}", "exec", command=f"echo {DECEIVING} привет", sender=DECEIVING)
        await gateway.call(f"agent:main:{DECEIVING}", "read", path=f"{DECEIVING}/x")
        asked = (
            request(
                argv=("git", "push", DECEIVING),
                session=f"agent:main:{DECEIVING}",
                sender=DECEIVING,
                folder=FolderIdentity(path=f"/srv/{DECEIVING}", dev=1, ino=2),
                pattern=f"git {DECEIVING}",
                executes=(f"{DECEIVING}/Makefile",),
                dangers=(f"it is {DECEIVING}",),
            ),
            request(kind="connection", argv=(), folder=None, host=f"{DECEIVING}.example", port=443),
        )
        asking = [asyncio.create_task(door.desk.decide(one)) for one in asked]
        cards = shown.locator("article")
        await cards.nth(1).wait_for()
        text = " ".join(await cards.all_inner_texts())
        assert text.count("m\\u0430in") == 8
        await shown.locator("#feed tr", has_text="echo m\\u0430in привет").wait_for()
        await shown.locator("#living tr", has_text="agent:main:m\\u0430in").wait_for()
        await shown.click("#search button >> nth=0")
        await shown.locator("#records summary").first.click()
        await shown.locator("#records pre", has_text="m\\u0430in").first.wait_for()
        await shown.fill("#session", f"agent:main:{DECEIVING}")
        await shown.fill("#command", f'git "{DECEIVING}"')
        await shown.click("#ask button")
        await shown.locator("ol.path >> nth=1").wait_for()
        assert 'READ AS "git" "m\\u0430in"' in " ".join((await shown.locator("ol.path").nth(1).inner_text()).split())
        assert DECEIVING not in await shown.content()
        assert "привет" in await shown.content(), "an honest word stays readable"
        assert shown.faults == []
        for one in asking:
            one.cancel()


DENY_AT_ONCE = """() => {
    const clicked = { times: 0 };
    new MutationObserver((_, observer) => {
        for (const button of document.querySelectorAll("article button.deny")) {
            button.click();
            clicked.times += 1;
        }
        if (clicked.times) observer.disconnect();
    }).observe(document.body, { childList: true, subtree: true });
    return clicked;
}"""


async def test_a_request_that_has_just_come_is_not_answered_by_a_click(page):
    async with page() as (door, shown):
        # In the page itself: on a busy machine a click from here may come late.
        clicked = await shown.evaluate_handle(DENY_AT_ONCE)
        deciding = asyncio.create_task(door.desk.decide(request()))
        button = shown.locator("article button", has_text="Allow once")
        await button.wait_for()
        assert await clicked.evaluate("clicked => clicked.times") > 0
        assert len(door.desk.pending()) == 1
        await button.click()
        # Had the first click counted, it would have come first.
        assert (await deciding).allowed


async def test_a_key_that_was_meant_for_something_else_answers_nothing(page):
    async with page() as (door, shown):
        await shown.keyboard.press("a")
        deciding = asyncio.create_task(door.desk.decide(request()))
        await shown.locator("article").wait_for()
        # Typed before the request could be read, not on it, or into a field of it.
        await shown.locator("article").focus()
        await shown.keyboard.press("a")
        await shown.locator("body").click(position={"x": 1, "y": 1})
        await shown.keyboard.press("a")
        await shown.locator("article .reason").focus()
        await shown.keyboard.press("a")
        await shown.wait_for_timeout(500)
        assert not deciding.done()
        assert [one.argv for one in door.desk.pending()] == [("git", "push")]
        deciding.cancel()


async def test_what_comes_from_sandboxes_is_text_and_never_markup(page):
    async with page() as (door, shown):
        await door.made.gateway.call(SESSION, "exec", command=f"echo '{HOSTILE}'")
        await door.made.gateway.call(f"agent:main:{HOSTILE}", "read", path=HOSTILE)
        asking = asyncio.create_task(
            door.desk.decide(
                request(argv=("git", HOSTILE, "\u202egpj\x1b[2J"), dangers=(HOSTILE,), executes=(HOSTILE,))
            )
        )
        card = shown.locator("article")
        await card.wait_for()
        assert HOSTILE in await card.inner_text()
        assert "\u202e" not in await shown.content()
        assert "\x1b" not in await shown.content()
        await shown.locator("#feed tr", has_text=HOSTILE).first.wait_for()
        await shown.fill("#text", "onerror")
        await shown.click("#search button >> nth=0")
        await shown.locator("#records summary").first.click()
        await shown.fill("#session", f"agent:main:{HOSTILE}")
        await shown.fill("#command", HOSTILE)
        await shown.click("#ask button")
        await shown.locator("ol.path").first.wait_for()
        assert await shown.locator("main script, main img, main iframe").count() == 0
        assert "owned" not in await shown.title()
        assert shown.faults == []
        asking.cancel()


async def test_what_runs_is_shown_with_its_output_as_it_comes_and_nothing_in_it_acts(page):
    async with page() as (door, shown):
        more = asyncio.Event()

        async def source():
            await more.wait()
            yield b"second\n"

        taken: list[bytes] = []

        async def sink(_stream, data):
            taken.append(data)

        streams = Streams(source=source(), sink=sink)
        command = f"echo {shlex.quote(HOSTILE)}; read -r line; echo $line; sleep 1000"
        call = asyncio.create_task(door.made.gateway.call(SESSION, "exec", command=command, streams=streams))
        running = shown.locator("#running li")
        await running.locator("pre", has_text="<img src=x").wait_for()
        await shown.locator("#runs", has_text="1").wait_for()
        more.set()
        await running.locator("pre", has_text="second").wait_for()
        assert "for " in await running.inner_text()
        call.cancel()
        await asyncio.gather(call, return_exceptions=True)
        await shown.locator("#runs", has_text="0").wait_for()
        await running.wait_for(state="detached")
        assert await shown.title() == "Crabpot"
        assert shown.faults == []


async def test_the_name_of_a_session_leads_to_its_story(page):
    async with page() as (door, shown):
        await door.made.gateway.call(SESSION, "exec", command="echo once upon a time")
        await door.made.gateway.call(SESSION, "exec", command="exit 3")
        await door.made.gateway.call(SESSION, "no_such_tool")
        await shown.locator("#feed tr", has_text="no_such_tool").locator("button.link").click()
        chapters = shown.locator("#story > li")
        await chapters.nth(2).wait_for()
        told = await chapters.all_inner_texts()
        assert ["once upon a time" in told[0], "exit 3" in told[1], "denied" in told[2]] == [True] * 3
        assert [await one.get_attribute("class") for one in await chapters.all()] == ["good", "warn", "bad"]
        assert shown.faults == []


async def test_live_sandboxes_show_their_use_and_can_be_stopped(page):
    async with page() as (door, shown):
        started = await door.made.gateway.call(SESSION, "exec", command="sleep 1000", background=True)
        assert started.success
        row = shown.locator("#living tr", has_text="agent:main:main")
        await row.wait_for()
        if await row.locator("meter").count():
            assert "of 100" in await row.inner_text()


async def test_explain_is_a_picture_of_three_questions_and_the_path_of_a_command(page):
    elevated = {"tools": {"elevated": {"enabled": True, "patterns": ["git push *"]}}}
    async with page(json.dumps(elevated)) as (_, shown):
        await shown.fill("#command", "git push origin main")
        await shown.click("#ask button")
        pictures = shown.locator("ol.path")
        await pictures.first.wait_for()
        questions = await pictures.nth(0).inner_text()
        for said in ("which tools", "where", "when out", "git push *"):
            assert said in questions.lower()
        path = await pictures.nth(1).inner_text()
        assert '"git" "push" "origin" "main"' in path
        assert "must agree" in path
        assert "it runs on the host" in path
        await shown.fill("#command", "git push; id")
        await shown.click("#ask button")
        await shown.locator("text=it stays in the sandbox").wait_for()


async def test_the_last_report_of_verify_is_shown(page):
    async with page() as (door, shown):
        await shown.locator("text=Nobody has attacked").wait_for()
        door.made.gateway.audit.record(
            {
                "kind": "verify",
                "held": False,
                "claims": {"held": 97, "degraded": 2, "open": 0, "broken": 1, "error": 0},
                "failed": ["cannot_fly"],
                "backend": "b",
            }
        )
        await shown.locator("text=Not every claim held.").wait_for()
        told = await shown.inner_text("#report")
        assert "cannot fly" in told
        assert "1 broken, 2 degraded, 97 held; b" in told


async def test_without_a_right_token_nobody_sees_anything(page):
    async with page(token="wrong") as (door, shown):
        await shown.locator("text=This token is not known here.").wait_for()
        assert not await shown.locator("#main").is_visible()
        agent = door.tokens.add("one", Role.AGENT, sessions=("agent:main:*",))
        await shown.fill("#token", agent)
        await shown.click("#login button")
        await shown.locator("text=this is for operators").wait_for()
        await shown.fill("#token", operators_token(door))
        await shown.keyboard.press("Enter")
        await shown.locator("#main:not([hidden])").wait_for()
        assert "token" not in shown.url


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_it_fits_a_phone_in_light_and_dark(page, scheme):
    options = {"viewport": {"width": 360, "height": 740}, "color_scheme": scheme}
    async with page(**options) as (door, shown):
        asking = asyncio.create_task(door.desk.decide(request(argv=("git", "push", "x" * 200))))
        await shown.locator("article").wait_for()
        assert await shown.evaluate("document.documentElement.scrollWidth <= window.innerWidth")
        colours = await shown.evaluate(
            "[getComputedStyle(document.body).color, getComputedStyle(document.body).backgroundColor]"
        )
        ink, paper = (sum(int(part) for part in one[4:-1].split(",")) for one in colours)
        assert (ink > paper) == (scheme == "dark")
        asking.cancel()


async def test_every_control_has_a_name_and_the_sections_are_landmarks(page):
    async with page() as (door, shown):
        asking = asyncio.create_task(door.desk.decide(request()))
        await shown.locator("article").wait_for()
        nameless = await shown.evaluate(
            """[...document.querySelectorAll("input, button")].filter(one => !(one.labels?.length
               || one.getAttribute("aria-label") || one.textContent.trim())).map(one => one.outerHTML)"""
        )
        assert nameless == []
        regions = await shown.get_by_role("region").all()
        assert len(regions) == 7
        assert await shown.get_by_role("banner").count() == 1
        assert await shown.get_by_role("navigation").count() == 1
        asking.cancel()


async def test_the_page_may_load_and_send_nothing_elsewhere(door):
    async with door() as open_door:
        for path in ("/", "/dashboard.css", "/dashboard.js", "/dashboard.svg"):
            answer = await open_door.stranger.get(path)
            assert answer.status_code == 200
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert "frame-ancestors 'none'" in policy
            assert "http" not in policy
        assert (await open_door.stranger.get("/dashboard.py")).status_code in (401, 404)
        assert (await open_door.stranger.get("/v1/events")).status_code == 401
        agent = open_door.client(open_door.tokens.add("one", Role.AGENT, sessions=("agent:main:*",)))
        assert (await agent.get("/v1/events")).status_code == 403


async def test_what_a_tree_of_processes_uses_is_added_up():
    process = await asyncio.create_subprocess_exec("sh", "-c", "sleep 100 & sleep 100 & wait")
    try:
        found = usage.of(process.pid)
        for _ in range(200):
            if found.processes == 3:
                break
            await asyncio.sleep(0.02)
            found = usage.of(process.pid)
        assert found.processes == 3
        assert 0 < found.memory_bytes < 10**8
    finally:
        for child in usage_children(process.pid):
            import os
            import signal

            os.kill(child, signal.SIGKILL)
        process.kill()
        await process.wait()
    assert usage.of(process.pid) == usage.Usage(memory_bytes=0, processes=0, cpu_s=0.0)


def usage_children(pid):
    with open(f"/proc/{pid}/task/{pid}/children") as file:
        return [int(one) for one in file.read().split()]


async def test_changes_are_compared_side_by_side_applied_and_discarded_by_file(page):
    config = '{agents: {defaults: {workspace: "WS", sandbox: {workspace: "review"}}}}'
    async with page(config) as (door, shown):
        door.made.workspace.mkdir()
        (door.made.workspace / "a.txt").write_text("one\n")
        project = over(door.made.workspace, door.made.folder / "state", "overlay")
        project.agent("echo two >> a.txt; echo x > .envrc; echo no > unwanted; echo '<script>' > hostile")
        await shown.fill("#reviewed", SESSION)
        await shown.click("#review button:has-text('Show')")
        row = shown.locator("#changed tr", has_text="a.txt")
        await row.locator("text=Compare").click()
        await shown.locator(".sides td.more", has_text="two").wait_for()
        await row.locator("button.allow").click()
        await shown.locator("#reviewing", has_text="apply: 1 path").wait_for()
        assert (door.made.workspace / "a.txt").read_text() == "one\ntwo\n"
        assert await shown.locator("#changed tr", has_text="a.txt").count() == 0
        held = shown.locator("#changed tr", has_text=".envrc")
        assert "on entering the folder" in await held.inner_text()
        await shown.locator("#changed tr", has_text="unwanted").locator("text=Discard").click()
        await shown.locator("#reviewing", has_text="discard: 1 path").wait_for()
        await shown.click("#apply-all")
        await shown.locator("#reviewing", has_text="1 path left (gate)").wait_for()
        assert sorted(one.name for one in door.made.workspace.iterdir()) == ["a.txt", "hostile"]
        await held.locator("text=Apply, though").click()
        await held.wait_for(state="detached")
        assert (door.made.workspace / ".envrc").exists()
        await shown.click("#undo-last")
        await shown.locator("#reviewing", has_text="undo: 1 path").wait_for()
        assert not (door.made.workspace / ".envrc").exists()
        assert shown.faults == []


async def test_a_conflict_is_compared_with_what_the_host_and_what_the_agent_made_of_it(page):
    config = '{agents: {defaults: {workspace: "WS", sandbox: {workspace: "review"}}}}'
    async with page(config) as (door, shown):
        door.made.workspace.mkdir()
        project = over(door.made.workspace, door.made.folder / "state", "overlay")
        project.agent("echo the agent > again.txt")
        history.look(project.layer)
        (door.made.workspace / "again.txt").write_text("the person\n")
        await shown.fill("#reviewed", SESSION)
        await shown.click("#review button:has-text('Show')")
        row = shown.locator("#changed tr", has_text="again.txt")
        await row.locator("text=changed on the host too").wait_for()
        await row.locator("text=Compare").click()
        await shown.locator("#sides h4").nth(1).wait_for()
        assert await shown.locator("#sides h4").all_inner_texts() == [
            "What the host made of it",
            "What the agent made of it",
        ]
        tables = shown.locator("#sides table.sides")
        assert await tables.count() == 3
        assert "the person" in await tables.nth(1).locator("td.more").inner_text()
        assert "the agent" in await tables.nth(2).locator("td.more").inner_text()
        assert shown.faults == []
