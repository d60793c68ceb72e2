import asyncio
import threading

import pytest

from openclaw_taskmem.plugin_host.plugin_host import MOST_STRIKES
from taskmem_hookspecs import hookimpl
from tests.plugin_host.made import (
    COMPUTE,
    HOOKS,
    LIMIT,
    MANY,
    ONE,
    PROVIDE,
    TARGET,
    TELL,
    Everything,
    Good,
    ask,
    assert_costs_nothing_else,
    lazily,
    make_answering_plugin,
    make_raiser,
    nothing,
    plugin,
    row,
    seams_of,
)

# --- every hook -----------------------------------------------------------------


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize(
    "error",
    [
        *(ValueError("boom"), KeyError(), StopIteration(), TimeoutError("slow")),
        *(SystemExit(1), KeyboardInterrupt(), GeneratorExit()),
        asyncio.CancelledError(),
    ],
    ids=repr,
)
def test_a_plugin_that_raises_costs_nothing_but_its_own(hook, error, caplog):
    bad = plugin(**{hook: make_raiser(error)})
    said = assert_costs_nothing_else(bad, hook, caplog)
    assert type(error).__name__ in said


@pytest.mark.parametrize("hook", HOOKS)
def test_an_error_that_cannot_say_itself_is_named_all_the_same(hook, caplog):
    class Speechless(Exception):
        def __str__(self):
            raise ValueError

    bad = plugin(**{hook: make_raiser(Speechless())})
    assert "Speechless" in assert_costs_nothing_else(bad, hook, caplog)


@pytest.mark.parametrize("hook", HOOKS)
def test_a_plugin_that_hangs_costs_nothing_but_its_own(hook, hanging_hook, caplog):
    bad = plugin(**{hook: hanging_hook[0]})
    said = assert_costs_nothing_else(bad, hook, caplog, seconds=LIMIT)
    assert said == (
        f"{hook}: openclaw_taskmem.plugin_host.isolation.TookTooLong: no answer within 0.2 s"
    )


@pytest.mark.parametrize("hook", [*PROVIDE, COMPUTE])
def test_who_hangs_is_not_begun_again_until_it_returns(hook, hanging_hook):
    serve, begun = hanging_hook
    plugin_host = seams_of(LIMIT, bad=plugin(**{hook: serve}))
    for _ in range(4):
        ask(plugin_host, hook)
    assert len(begun) == 1


def test_who_hung_is_asked_again_once_it_has_returned():
    over = threading.Event()
    answers = iter([over.wait, lambda: None])
    plugin_host = seams_of(LIMIT, slow=plugin(wait_sensor=lambda: next(answers)()))  # noqa: PLW0108
    assert plugin_host.find_sensors(TARGET) == ()
    (thread,) = [t for t in threading.enumerate() if t.name == "slow.wait_sensor"]
    over.set()
    thread.join(30)
    assert plugin_host.find_sensors(TARGET) == ()
    assert next(answers, None) is None


NONSENSE = [object(), 0, "", "text", {}, [Everything()]]


@pytest.mark.parametrize(
    ("hook", "answer"),
    [(hook, answer) for hook in [*PROVIDE, COMPUTE] for answer in NONSENSE]
    + [(hook, []) for hook in [*ONE, COMPUTE]],
)
def test_plugin_with_a_wrong_answer_costs_only_its_own_answer(hook, answer, caplog):
    said = assert_costs_nothing_else(make_answering_plugin(hook, answer), hook, caplog)
    assert f"answered {type(answer).__name__}, which is" in said


@pytest.mark.parametrize("hook", [hook for hook in PROVIDE if hook != "task_store"])
def test_the_class_of_a_part_does_not_play_it(hook, caplog):
    said = assert_costs_nothing_else(make_answering_plugin(hook, Everything), hook, caplog)
    assert "answered the class Everything, not an object of it" in said


@pytest.mark.parametrize("hook", HOOKS)
@pytest.mark.parametrize(("promise", "kind"), [(nothing, "coroutine"), (lazily, "generator")])
def test_the_promise_of_an_answer_is_none(hook, promise, kind, caplog):
    bad = plugin(**{hook: lambda: promise()})  # noqa: PLW0108
    assert f"answered a {kind}" in assert_costs_nothing_else(bad, hook, caplog)


@pytest.mark.parametrize("hook", [*TELL, *MANY])
def test_wrapper_that_withholds_answers_counts_as_no_answer(hook):
    def wrap():
        yield

    good = Good(hook)
    silent = plugin(**{hook: hookimpl(wrap, wrapper=True)})
    plugin_host = seams_of(good=good.module, silent=silent)
    assert good.has_contributed(plugin_host)
    assert row(plugin_host, "silent").last_error is None


@pytest.mark.parametrize("hook", PROVIDE)
def test_an_ordinary_plugin_goes_before_the_built_ins(hook):
    built_in, ordinary = Good(hook), Good(hook)
    late = plugin(**{hook: hookimpl(lambda: built_in.part, trylast=True)})
    early = plugin(**{hook: hookimpl(lambda: ordinary.part)})
    for order in ({"a": late, "b": early}, {"a": early, "b": late}):
        found = ask(seams_of(**order), hook)
        assert (found[0] if hook in MANY else found) is ordinary.part


@pytest.mark.parametrize("hook", PROVIDE)
def test_who_passes_is_passed_over(hook):
    good = Good(hook)
    assert good.has_contributed(seams_of(good=good.module, shy=make_answering_plugin(hook, None)))


@pytest.mark.parametrize("hook", MANY)
def test_where_several_are_asked_all_are_kept(hook):
    first, second = Good(hook), Good(hook)
    plugin_host = seams_of(a=first.module, b=second.module)
    assert list(ask(plugin_host, hook)) == [second.part, first.part]


# --- tell -----------------------------------------------------------------------


class Listener:
    """Hears everything there is to hear."""

    def __init__(self):
        self.heard = []

    @hookimpl
    def on_task_registered(self, task):
        self.heard.append({"task": task})

    @hookimpl
    def on_wait_resolved(self, wait, outcome, task):
        self.heard.append({"wait": wait, "outcome": outcome, "task": task})

    @hookimpl
    def on_stuck(self, task, verdict, packet):
        self.heard.append({"task": task, "verdict": verdict, "packet": packet})

    @hookimpl
    def on_run_changed(self, run, task):
        self.heard.append({"run": run, "task": task})


@pytest.mark.parametrize("hook", TELL)
def test_every_plugin_hears_what_there_is_to_hear(hook):
    listeners = Listener(), Listener()
    plugin_host = seams_of(a=listeners[0], b=listeners[1])
    plugin_host.call_hook(hook, **TELL[hook])
    assert [listener.heard for listener in listeners] == [[TELL[hook]]] * 2


@pytest.mark.parametrize("hook", TELL)
def test_what_a_listener_answers_is_ignored(hook):
    plugin_host = seams_of(chatty=make_answering_plugin(hook, object()))
    plugin_host.call_hook(hook, **TELL[hook])
    assert row(plugin_host, "chatty").last_error is None


def test_whether_anyone_listens_is_known():
    plugin_host = seams_of(a=plugin(on_stuck=lambda: None))
    assert plugin_host.has_listeners("on_stuck")
    assert not plugin_host.has_listeners("on_task_registered")


@pytest.mark.parametrize("hook", TELL)
def test_three_failures_in_a_row_mute_a_listener(hook, caplog):
    good, calls = Good(hook), []

    def fail():
        calls.append(hook)
        raise ValueError

    plugin_host = seams_of(good=good.module, bad=plugin(**{hook: fail}))
    for n in range(1, MOST_STRIKES + 3):
        assert good.has_contributed(plugin_host)
        assert row(plugin_host).state == ("on" if n < MOST_STRIKES else "muted")
    assert len(calls) == MOST_STRIKES
    assert sum("does not tell it any more" in line for line in caplog.messages) == 1


def test_a_success_in_between_forgives():
    outcomes = iter([1, 1, 0, 1, 1, 0, 1, 1, 1])
    plugin_host = seams_of(bad=plugin(on_stuck=lambda: 1 // (1 - next(outcomes))))
    for _ in range(8):
        ask(plugin_host, "on_stuck")
        assert row(plugin_host).state == "on"
    ask(plugin_host, "on_stuck")
    assert row(plugin_host).state == "muted"
    assert not plugin_host.has_listeners("on_stuck")


def test_failures_in_different_hooks_are_not_in_a_row():
    boom = make_raiser(ValueError("boom"))
    plugin_host = seams_of(bad=plugin(on_stuck=boom, on_task_registered=boom))
    for hook in ("on_stuck", "on_task_registered") * (MOST_STRIKES - 1):
        ask(plugin_host, hook)
    assert row(plugin_host).state == "on"


def test_who_is_muted_in_one_hook_is_asked_in_all_others():
    heard, part = [], Everything()
    bad = plugin(
        on_stuck=make_raiser(ValueError("boom")),
        on_task_registered=lambda task: heard.append(task.name),
        wait_sensor=lambda: part,
    )
    plugin_host = seams_of(bad=bad)
    for _ in range(MOST_STRIKES):
        ask(plugin_host, "on_stuck")
    ask(plugin_host, "on_task_registered")
    assert heard == ["Deploy the site"]
    assert plugin_host.find_sensors(TARGET) == (part,)


def test_hanging_listener_is_called_at_most_three_times(hanging_hook):
    serve, begun = hanging_hook
    plugin_host = seams_of(0.05, bad=plugin(on_stuck=serve))
    for _ in range(MOST_STRIKES + 2):
        ask(plugin_host, "on_stuck")
    assert len(begun) == MOST_STRIKES
