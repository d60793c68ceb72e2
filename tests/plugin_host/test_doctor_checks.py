"""Checks of plug-ins: what goes wrong with one is a row, and never a crash."""

from __future__ import annotations

import asyncio
import threading
from contextlib import closing
from typing import Any

import pytest

from openclaw_taskmem.plugin_host import doctor_checks
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import DoctorRow, DoctorState
from tests.plugin_host.made import LIMIT, make_answering_plugin, plugin, row

GOOD = DoctorRow(id="made.up", state=DoctorState.OK, detail="It is there.")
CHECKUP: Any = object()


class Check:
    """Plays `DoctorCheck` with whatever `look` is given."""

    name = "made"
    costs = False

    def __init__(self, look: Any = None) -> None:
        self._look = look or well

    def look(self, checkup):
        return self._look(checkup)


async def well(_):
    yield GOOD


def rows_of(look, seconds=30.0, tidy_seconds=30.0):
    found = doctor_checks.run_check(
        "bad", Check(look), CHECKUP, seconds=seconds, tidy_seconds=tidy_seconds
    )
    return list(found)


def find_failed_row(look, **limits):
    """The one row that says that the check failed, after those it gave before."""
    *_, failed = rows_of(look, **limits)
    assert (failed.id, failed.state) == ("made", DoctorState.FAIL)
    assert "plug-in bad" in failed.detail
    assert "TASKMEM_DISABLED_PLUGINS=bad" in failed.cure
    return failed.detail


def test_check_gets_its_checkup_and_gives_its_rows_in_order():
    async def look(checkup):
        assert checkup is CHECKUP
        yield GOOD
        yield GOOD.model_copy(update={"id": "second"})

    assert [row.id for row in rows_of(look)] == ["made.up", "second"]


def test_a_row_is_there_as_soon_as_it_is_yielded():
    go_on = threading.Event()

    async def look(_):
        yield GOOD
        assert await asyncio.to_thread(go_on.wait, 30)
        yield GOOD

    with closing(doctor_checks.run_check("good", Check(look), CHECKUP)) as found:
        assert next(found) == GOOD
        go_on.set()
        assert list(found) == [GOOD]


@pytest.mark.parametrize(
    "error",
    [
        *(ValueError("boom"), KeyError(), TimeoutError("slow"), SystemExit(1)),
        *(KeyboardInterrupt(), asyncio.CancelledError(), GeneratorExit()),
    ],
    ids=repr,
)
def test_a_check_that_raises_is_a_row_behind_those_it_gave(error):
    async def look(_):
        yield GOOD
        raise error

    assert rows_of(look)[0] == GOOD
    assert type(error).__name__ in find_failed_row(look)


def raise_error(_):
    raise ValueError("boom")


async def answer_list(_):
    return [GOOD]


def plainly(_):
    return [GOOD]


async def rubbish(_):
    yield "a text"


async def unsound(_):
    yield DoctorRow.model_construct(id=1, state="well", detail=None)


async def class_of_it(_):
    yield DoctorRow


@pytest.mark.parametrize(
    ("look", "said"),
    [
        (raise_error, "boom"),
        (answer_list, "coroutine"),
        (plainly, "answered list"),
        (rubbish, "answered str"),
        (unsound, "nonsense as detail, id, state"),
        (class_of_it, "the class DoctorRow"),
    ],
)
def test_a_check_that_answers_nonsense_is_a_row(look, said):
    assert said in find_failed_row(look)


def test_a_check_that_never_ends_is_cut_off():
    async def look(_):
        while True:
            yield GOOD

    assert f"after {doctor_checks.MOST_ROWS} rows" in find_failed_row(look)
    assert len(rows_of(look)) == doctor_checks.MOST_ROWS + 1


def test_check_silent_for_too_long_is_cancelled_and_cleans_up():
    tidied = threading.Event()

    async def look(_):
        yield GOOD
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            tidied.set()

    assert f"silent for {LIMIT:g} s" in find_failed_row(look, seconds=LIMIT)
    assert tidied.is_set()


def test_a_check_that_blocks_its_thread_is_left_behind():
    over = threading.Event()

    async def look(_):
        over.wait(30)
        yield GOOD

    try:
        assert "silent" in find_failed_row(look, seconds=LIMIT, tidy_seconds=LIMIT)
    finally:
        over.set()


def test_who_stops_listening_waits_until_the_check_has_tidied_up():
    begun, tidied = threading.Event(), threading.Event()

    async def look(_):
        try:
            yield GOOD
            begun.set()
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            tidied.set()

    with closing(doctor_checks.run_check("good", Check(look), CHECKUP)) as found:
        next(found)
        assert begun.wait(30)
    assert tidied.is_set()


@pytest.mark.parametrize(
    ("costs", "seconds"),
    [(False, doctor_checks.CHECK_SECONDS), (True, doctor_checks.COSTLY_SECONDS)],
)
def test_a_check_that_costs_something_may_be_silent_for_longer(costs, seconds, monkeypatch):
    waited = []

    def silent(_, limit):
        waited.append(limit)
        raise TimeoutError

    monkeypatch.setattr(doctor_checks._RunningCheck, "next_row", silent)
    check = Check()
    check.costs = costs
    assert [found.state for found in doctor_checks.run_check("slow", check, CHECKUP)] == ["fail"]
    assert waited == [seconds]


# --- the hook -------------------------------------------------------------------


def seams_of(**modules: Any) -> PluginHost:
    return PluginHost(entries=[], extra=list(modules.items()))


def test_the_checks_of_all_plugins_are_kept_each_with_its_name():
    one, two, three = Check(), Check(), Check()
    plugin_host = seams_of(
        a=make_answering_plugin("health_checks", [one, two]),
        b=make_answering_plugin("health_checks", (three,)),
    )
    assert plugin_host.find_doctor_checks() == [("b", three), ("a", one), ("a", two)]


def test_who_has_no_check_is_passed_over():
    plugin_host = seams_of(
        a=make_answering_plugin("health_checks", None), b=make_answering_plugin("health_checks", [])
    )
    assert plugin_host.find_doctor_checks() == []


class Nameless(Check):
    name = " "


class Costless:
    name = "made"

    def look(self, checkup):
        return well(checkup)


@pytest.mark.parametrize(
    "answer",
    [
        *(Check(), [Check], [object()], [Check(), None], "text", b"x", 1),
        *([Nameless()], [Costless()]),
    ],
    ids=[
        *("one", "a class", "an object", "a hole", "text", "bytes", "a number"),
        *("nameless", "costless"),
    ],
)
def test_what_is_no_sequence_of_checks_costs_nothing_but_its_own(answer):
    good = Check()
    plugin_host = seams_of(
        good=make_answering_plugin("health_checks", [good]),
        bad=make_answering_plugin("health_checks", answer),
    )
    assert plugin_host.find_doctor_checks() == [("good", good)]
    assert row(plugin_host).last_error.startswith("health_checks: ")


def test_a_plugin_that_raises_has_no_check_and_is_named():
    def raises():
        raise ValueError("boom")

    plugin_host = seams_of(bad=plugin(health_checks=raises))
    assert plugin_host.find_doctor_checks() == []
    assert "boom" in row(plugin_host).last_error
