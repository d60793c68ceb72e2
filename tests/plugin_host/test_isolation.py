import asyncio
import threading

import pytest

from openclaw_taskmem.plugin_host.isolation import TookTooLong, TriedToEnd, run_with_timeout


def apart(call, seconds=30.0):
    return run_with_timeout(call, seconds, "made-up")


def make_raiser(error):
    def call():
        raise error

    return call


def test_a_call_gives_its_result():
    assert apart(lambda: 7) == 7


def test_a_call_runs_in_a_thread_that_holds_nothing_up():
    def call():
        thread = threading.current_thread()
        return thread.name, thread.daemon

    assert apart(call) == ("made-up", True)


def test_calls_one_after_the_other_share_a_thread():
    first, second = apart(threading.get_ident), apart(threading.get_ident)
    assert first == second


def test_a_thread_whose_call_hangs_is_not_waited_for_by_the_next():
    release = threading.Event()
    with pytest.raises(TookTooLong):
        apart(release.wait, seconds=0.05)
    assert apart(lambda: 7) == 7
    release.set()


def test_a_thread_that_nobody_needs_ends():
    thread = apart(threading.current_thread)
    thread.join(30)
    assert not thread.is_alive()


def test_an_error_comes_through_as_it_is():
    error = ValueError("boom")
    with pytest.raises(ValueError, match="boom") as raised:
        apart(make_raiser(error))
    assert raised.value is error


def test_a_timeout_of_the_call_itself_is_no_overrun():
    error = TimeoutError("the server is slow")
    with pytest.raises(TimeoutError) as raised:
        apart(make_raiser(error))
    assert raised.value is error


@pytest.mark.parametrize(
    "error", [SystemExit(1), KeyboardInterrupt(), asyncio.CancelledError()], ids=repr
)
def test_what_would_end_the_program_ends_nothing(error):
    with pytest.raises(TriedToEnd, match=type(error).__name__) as raised:
        apart(make_raiser(error))
    assert "call" in [entry.name for entry in raised.traceback]


def test_who_does_not_return_in_time_is_left_behind():
    release = threading.Event()
    with pytest.raises(TookTooLong, match=r"no answer within 0.05 s") as raised:
        apart(lambda: release.wait() and "late", seconds=0.05)
    assert not raised.value.call.done()
    release.set()
    assert raised.value.call.result(30) == "late"
