"""Claims about the runner's loop: its timers run when they are due, and what it watches is gone after a fork."""

from __future__ import annotations

import os

import pytest

from crabpot.runner.core.loop import READ, Loop


@pytest.fixture
def loop() -> Loop:
    return Loop()


def test_timers_run_in_time_whichever_was_set_first(loop: Loop) -> None:
    ran: list[str] = []
    loop.set_timer("last", 0.06, loop.stop)
    loop.set_timer("second", 0.03, lambda: ran.append("second"))
    loop.set_timer("first", 0.01, lambda: ran.append("first"))
    loop.run()
    assert ran == ["first", "second"]


def test_a_timer_that_was_cleared_or_moved_does_not_run_and_holds_up_no_other(loop: Loop) -> None:
    ran: list[str] = []
    loop.set_timer("cleared", 0.01, lambda: ran.append("cleared"))
    loop.set_timer("moved", 0.01, lambda: ran.append("too soon"))
    loop.set_timer("moved", 0.03, lambda: ran.append("moved"))
    loop.set_timer("last", 0.06, loop.stop)
    loop.clear_timer("cleared")
    loop.run()
    assert ran == ["moved"]


def test_a_timer_that_was_set_by_another_runs(loop: Loop) -> None:
    loop.set_timer("far", 60, loop.stop)
    loop.set_timer("first", 0.01, lambda: loop.set_timer("second", 0.01, loop.stop))
    loop.run()


def test_a_timer_that_was_held_runs_after_the_rest_of_its_time(loop: Loop) -> None:
    ran: list[str] = []
    loop.set_timer("held", 0.02, lambda: ran.append("held"))
    loop.hold_timer("held")
    loop.set_timer("between", 0.04, lambda: ran.append("between"))
    loop.set_timer("resuming", 0.06, lambda: loop.resume_timer("held"))
    loop.set_timer("last", 0.12, loop.stop)
    loop.run()
    assert ran == ["between", "held"]


def test_a_loop_without_timers_waits_for_one_that_is_set_again(loop: Loop) -> None:
    loop.set_timer("early", 0.0, loop.stop)
    loop.run()
    ran: list[str] = []
    again = Loop()
    again.set_timer("cleared", 0.0, lambda: ran.append("cleared"))
    again.clear_timer("cleared")
    again.set_timer("late", 0.02, again.stop)
    again.run()
    assert ran == []


def test_what_is_watched_is_released_in_a_forked_child(loop: Loop) -> None:
    reader, writer = os.pipe()
    loop.watch(reader, READ, loop.stop)
    child = os.fork()
    if child == 0:
        code = 1
        try:
            loop.abandon()
            os.fstat(reader)
        except OSError:
            code = 0
        finally:
            os._exit(code)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    loop.close(reader)
    os.close(writer)
