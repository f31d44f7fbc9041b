"""Claims about commands in the background."""

from __future__ import annotations

import uuid

import pytest

from tests.unit.runner.driver import RunnerProcess, eventually, processes_with


@pytest.fixture
def runner():
    with RunnerProcess() as process:
        yield process


def start(runner, command, **args):
    result = runner.run(command, background=True, **args)
    assert result["success"], result
    return result["data"]["process"]


def ask(runner, action, process=None, **args):
    fields = {"timeout": args.pop("timeout")} if "timeout" in args else {}
    return runner.call("process", {"action": action, **({"id": process} if process else {}), **args}, **fields)


def test_a_background_command_outlives_its_call_and_is_polled(runner):
    process = start(runner, "echo one; read line; echo got $line; echo err >&2; exit 4")
    collected = ""

    def polled(wanted):
        nonlocal collected
        answer = ask(runner, "poll", process)
        collected += answer["stdout"]
        return wanted in collected

    eventually(lambda: polled("one\n"), "the first line")
    assert ask(runner, "poll", process)["data"] == {
        "id": process,
        "command": "echo one; read line; echo got $line; echo err >&2; exit 4",
        "running": True,
        "exit_code": None,
    }
    assert ask(runner, "write", process, data="é\n")["success"]
    answer = ask(runner, "wait", process)
    assert collected + answer["stdout"] == "one\ngot é\n"
    assert answer["stderr"] == "err\n"
    assert (answer["data"]["running"], answer["data"]["exit_code"]) == (False, 4)
    assert answer["success"]


@pytest.mark.parametrize(("command", "how"), [("echo once; exit 3", "wait"), ("echo once; sleep 60", "kill")])
def test_a_process_whose_end_was_reported_is_not_listed_and_can_be_asked_about_again(command, how, runner):
    process = start(runner, command)
    told = ask(runner, how, process)["data"]
    assert (told["running"], told["exit_code"]) == (False, 3 if how == "wait" else 143)
    assert ask(runner, "list")["data"] == {"processes": []}
    for action in ("poll", "wait", "kill"):
        again = ask(runner, action, process)
        assert (again["data"], again["stdout"]) == (told, "")
    assert ask(runner, "write", process, data="late")["error"]["code"] == "conflict"


def test_only_the_last_that_were_reported_are_remembered(runner):
    first, *others = [start(runner, "true") for _ in range(32)]
    for process in (first, *others):
        ask(runner, "wait", process)
    for _ in range(33):
        ask(runner, "wait", start(runner, "true"))
    assert ask(runner, "poll", first)["error"]["code"] == "not_found"
    assert ask(runner, "poll", others[0])["data"]["exit_code"] == 0


def test_the_list_shows_what_runs_and_what_ended_unheard(runner):
    lasting, brief = start(runner, "sleep 60"), start(runner, "exit 9")

    def shown():
        return {
            entry["id"]: (entry["running"], entry["exit_code"]) for entry in ask(runner, "list")["data"]["processes"]
        }

    eventually(lambda: shown() == {lasting: (True, None), brief: (False, 9)}, "both are listed")


def test_output_is_given_once_and_the_newest_is_kept():
    with RunnerProcess(limits={"output": 4000}) as runner:
        process = start(runner, "seq 1 100000; sleep 60")
        text = ""

        def polled():
            nonlocal text
            answer = ask(runner, "poll", process)
            text += answer["stdout"]
            assert len(answer["stdout"]) < 2100
            return text.endswith("\n100000\n")

        eventually(polled, "all of it went by")
        assert ask(runner, "poll", process)["stdout"] == ""


def test_a_process_that_is_killed_goes_with_its_whole_tree(runner):
    marker = f"marker-{uuid.uuid4()}"
    process = start(runner, f"(setsid sh -c 'sleep 1000; : {marker}' &) ; sh -c 'sleep 1000; : {marker}'")
    eventually(lambda: len(processes_with(marker)) >= 2, "both run")
    answer = ask(runner, "kill", process)
    assert (answer["data"]["running"], answer["data"]["signal"]) == (False, "SIGTERM")
    assert processes_with(marker) == []


def test_a_process_that_ignores_the_request_is_killed_all_the_same(runner):
    process = start(runner, "trap '' TERM; echo ready; while :; do sleep 0.05; done")
    eventually(lambda: "ready" in ask(runner, "poll", process)["stdout"], "it ignores")
    assert ask(runner, "kill", process)["data"]["signal"] == "SIGKILL"


def test_waiting_ends_with_the_time_of_the_call(runner):
    process = start(runner, "echo on; sleep 60")
    answer = ask(runner, "wait", process, timeout=0.2)
    assert answer["success"]
    assert answer["data"]["running"]
    assert answer["stdout"] == "on\n"


def test_waiting_can_be_cancelled_and_the_process_goes_on(runner):
    process = start(runner, "sleep 60")
    call = runner.begin("process", {"action": "wait", "id": process})
    runner.send({"op": "cancel", "id": call})
    assert runner.result(call)["error"]["code"] == "cancelled"
    assert ask(runner, "poll", process)["data"]["running"]


def test_several_may_wait_for_one_process(runner):
    process = start(runner, "read line; exit 2")
    calls = [runner.begin("process", {"action": "wait", "id": process}) for _ in range(3)]
    runner.begin("process", {"action": "write", "id": process, "data": "go\n"})
    assert [runner.result(call)["data"]["exit_code"] for call in calls] == [2, 2, 2]


def test_its_input_can_be_closed(runner):
    process = start(runner, "cat; echo end")
    ask(runner, "write", process, data="text")
    ask(runner, "write", process, data=None)
    assert ask(runner, "wait", process)["stdout"].endswith("end\n")


def test_input_given_at_the_start_is_all_of_it(runner):
    assert ask(runner, "wait", start(runner, "cat", stdin="given"))["stdout"] == "given"


def test_a_process_on_a_terminal_is_fed_and_shows_what_it_echoes(runner):
    process = start(runner, "stty size; read line; echo got $line", tty={"rows": 10, "cols": 20})
    text = ask(runner, "write", process, data="x\n")["stdout"]

    def polled():
        nonlocal text
        text += ask(runner, "wait", process, timeout=0.2)["stdout"]
        return "got x" in text

    eventually(polled, "its answer")
    assert "10 20\r\n" in text


def test_input_that_is_never_read_is_refused_at_some_point(runner):
    process = start(runner, "sleep 60")
    answers = [ask(runner, "write", process, data="x" * 500_000) for _ in range(4)]
    assert answers[0]["success"]
    assert answers[-1]["error"]["code"] == "conflict"


def test_there_are_not_more_than_thirty_two_at_once(runner):
    for _ in range(32):
        start(runner, "sleep 60")
    assert runner.run("sleep 60", background=True)["error"]["code"] == "process_limit"
    ask(runner, "kill", "p7")
    assert start(runner, "sleep 60") == "p33"


def test_of_those_that_ended_unheard_the_oldest_are_forgotten(runner):
    for _ in range(70):
        start(runner, "true")
    eventually(lambda: not any(entry["running"] for entry in ask(runner, "list")["data"]["processes"]), "all ended")
    assert len(ask(runner, "list")["data"]["processes"]) == 64


@pytest.mark.parametrize(
    ("args", "code"),
    [
        ({}, "invalid_arguments"),
        ({"action": "dance"}, "invalid_arguments"),
        ({"action": ["list"]}, "invalid_arguments"),
        ({"action": "poll"}, "not_found"),
        ({"action": "poll", "id": "p9"}, "not_found"),
        ({"action": "kill", "id": 1}, "invalid_arguments"),
        ({"action": "list", "id": 1}, "invalid_arguments"),
        ({"action": "list", "signal": "KILL"}, "invalid_arguments"),
        ({"action": "write", "id": "p1"}, "invalid_arguments"),
        ({"action": "write", "id": "p1", "data": 1}, "invalid_arguments"),
        ({"action": "write", "id": "p1", "data": "\ud800"}, "invalid_arguments"),
    ],
)
def test_arguments_that_make_no_sense_are_refused(runner, args, code):
    start(runner, "sleep 60")
    assert runner.call("process", args)["error"]["code"] == code


def test_a_command_that_cannot_start_in_the_background_is_an_error():
    with RunnerProcess(shell=["/does/not/exist"]) as runner:
        assert runner.run("true", background=True)["error"]["code"] == "not_found"
        assert ask(runner, "list")["data"] == {"processes": []}


def test_everything_in_the_background_ends_with_the_stream():
    marker = f"marker-{uuid.uuid4()}"
    with RunnerProcess() as runner:
        for _ in range(3):
            start(
                runner,
                f"trap '' TERM HUP; (setsid sh -c 'sleep 1000; : {marker}' &); sh -c 'sleep 1000; : {marker}'; :",
            )
        eventually(lambda: len(processes_with(marker)) >= 6, "all run")
        assert runner.close() == 0
        assert processes_with(marker) == []
