"""Scenarios: an agent is left alone while it waits, and nobody's consent is assumed."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from openclaw_taskmem.domain.changes import continuation, task_runs
from openclaw_taskmem.domain.policies import RUN_POLICY, RunPolicy
from tests.support import scenarios as played
from tests.support.scenarios import Player, Scenario, ScenarioResult, loops, scenarios
from tests.support.world import World

SCENARIOS = {scenario.name: scenario for scenario in scenarios()}
LOOPS = {scenario.name: scenario for scenario in loops()}
Count = Callable[[ScenarioResult], list[str]]


@pytest.mark.parametrize("scenario", SCENARIOS.values(), ids=SCENARIOS)
def test_a_scenario_ends_as_it_should(scenario: Scenario) -> None:
    assert Player(scenario).play().wrong == []


@pytest.mark.parametrize("scenario", LOOPS.values(), ids=LOOPS)
def test_a_loop_is_ended_within_its_cap_and_told_once(scenario: Scenario) -> None:
    seen = Player(scenario).play()

    assert seen.wrong == []
    assert 0 < seen.told <= RUN_POLICY.max_rounds


def nothing_runs(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(continuation.Turn, "awaited_work", ())


def a_minute_is_an_hour(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(continuation, "LONGEST_AWAIT", continuation.LONGEST_AWAIT / 60)


def nobody_rests(patch: pytest.MonkeyPatch) -> None:
    policy = RunPolicy(idle_pauses=(1.0,) * 3, question_seconds=1.0)
    patch.setattr(played, "World", lambda: World(runs=policy))


def ends_are_orders(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(continuation, "remind_of_end", lambda task, _: "Go on now.")


def any_word_is_consent(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(task_runs.current_run, "is_waiting_for_word", lambda _: False)


def questions_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(task_runs, "ask_user", lambda _task, moved, *_: moved)


@pytest.mark.parametrize(
    ("mutation", "counts"),
    [
        (nothing_runs, lambda seen: seen.reminders),
        (nothing_runs, lambda seen: seen.failures),
        (a_minute_is_an_hour, lambda seen: seen.reminders),
        (nobody_rests, lambda seen: seen.reminders),
        (ends_are_orders, lambda seen: seen.reminders),
        (any_word_is_consent, lambda seen: seen.consents),
        (questions_are_forgotten, lambda seen: seen.otherwise),
    ],
)
def test_a_scenario_shows_a_rule_that_is_broken(
    mutation: Callable[[pytest.MonkeyPatch], None], counts: Count, monkeypatch: pytest.MonkeyPatch
) -> None:
    mutation(monkeypatch)

    assert any(counts(Player(each).play()) for each in scenarios())
