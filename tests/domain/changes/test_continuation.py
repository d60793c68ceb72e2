"""What becomes of a run when a turn of its session has ended."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.changes import continuation, stuck
from openclaw_taskmem.domain.changes.continuation import Block, Fail, GoOn, Origin, RestRun, Turn
from openclaw_taskmem.domain.effects.checkpoints import digest_text
from openclaw_taskmem.domain.policies import RunPolicy
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import set_fields
from taskmem_hookspecs import (
    Change,
    Event,
    Linkage,
    News,
    Run,
    RunState,
    Task,
    TaskFacts,
    TaskStatus,
    Wake,
    WakeCause,
    WakeState,
)
from taskmem_hookspecs.testing import DAWN, a_task, a_wake
from tests.support import owners
from tests.support.owners import MAIN, NOW, POLICY, a_resume_wake

QUIET: Final = RunPolicy(carry_on=False)
WAITING: Final = Linkage(active_wait_ids=("wait_1",))
WORK: Final = (Origin.TASKMEM, Origin.RECOVERY, Origin.OTHER)


def a_leased_run(**changes: object) -> Run:
    """A run that the main agent works on, and that was told to go on once."""
    return owners.a_leased_run(**({"rounds": 1} | changes))


def facts(run: Run | None = None, *wakes: Wake, **task: object) -> TaskFacts:
    return TaskFacts(task=a_task(**task), run=run or a_leased_run(), wakes=wakes)


def change_after_turn(
    known: TaskFacts, turn: Turn | None = None, policy: RunPolicy = POLICY
) -> Change:
    return continuation.apply_turn_end(
        known, turn or Turn(), wake_id="wake_9", now=NOW, policy=policy
    )


def judge_course(known: TaskFacts, turn: Turn, policy: RunPolicy = POLICY) -> continuation.Course:
    assert known.run is not None
    return continuation.decide_course(known, known.run, turn, NOW, policy)


def events_of_kind(change: Change, kind: str) -> list[Event]:
    return [event for event in change.events if event.kind == kind]


def lines(change: Change) -> list[Any]:
    return [e.data["line"] for e in change.events if e.kind in ("milestone", "notice")]


# --- its turn has come ------------------------------------------------------------


@pytest.mark.parametrize(("policy", "rounds"), [(POLICY, [2]), (QUIET, [])])
def test_promoted_run_is_told_to_go_on_where_runs_are_carried(
    policy: RunPolicy, rounds: list[int]
) -> None:
    change = continuation.promote_run(facts(), MAIN, wake_id="wake_9", now=NOW, policy=policy)

    assert change is not None
    assert [run.limits.rounds for run in change.runs] == rounds
    assert len(change.wakes) == len(rounds)


# --- awaited -------------------------------------------------------------------


@pytest.mark.parametrize("origin", WORK)
def test_session_rests_with_no_idle_round_as_a_sub_agent_works(origin: Origin) -> None:
    run = a_leased_run(idle_rounds=2, news=News.NONE, tries=1)
    turn = Turn(origin=origin, said="I wait for it.", calls=1, children=1)

    course = judge_course(facts(run), turn)

    assert isinstance(course, GoOn)
    assert (course.run.limits.idle_rounds, course.run.limits.tries) == (run.limits.idle_rounds, 0)
    assert course.seconds == 3600


RUNS: Final = {
    "a-command": {"commands": ("calm-reef (make)",)},
    "an-automation": {"scheduled": ("automation Mail",)},
    "sub-agents": {"children": 2},
}


@pytest.mark.parametrize("what", RUNS.values(), ids=RUNS)
@pytest.mark.parametrize("news", News)
def test_what_the_gateway_works_on_is_no_idleness_for_an_hour(
    what: dict[str, Any], news: News
) -> None:
    almost = POLICY.max_rounds - 1
    run = a_leased_run(idle_rounds=0 if news is News.CALL else 2, news=news, rounds=almost)
    turn = Turn(origin=Origin.TASKMEM, said="Waiting?", **what)

    course = judge_course(facts(run), turn)

    assert isinstance(course, GoOn)
    assert course.seconds == 3600
    assert news is not News.NONE or course.run.limits.idle_rounds == 2
    assert "; ".join(turn.awaited_work) in course.text
    assert turn.awaited_work != ()


@pytest.mark.parametrize(
    ("age", "seconds"), [(600, 3000), (3590, 60), (3600, 3600), (14_400, 14_400)]
)
def test_the_longer_it_works_the_later_is_the_next_reminder(age: float, seconds: float) -> None:
    turn = Turn(said="Waiting.", commands=("calm-reef (make)",), awaited_age=age)

    course = judge_course(facts(a_leased_run(idle_rounds=3, news=News.NONE)), turn)

    assert isinstance(course, GoOn)
    assert course.seconds == seconds


@pytest.mark.parametrize("policy", [QUIET, POLICY])
def test_what_the_gateway_works_on_holds_alerts_back(policy: RunPolicy) -> None:
    change = change_after_turn(facts(), Turn(commands=("calm-reef (make)",)), policy)

    (task,) = change.tasks
    assert task.held_until is not None
    assert task.held_until >= NOW + timedelta(hours=1)


def test_what_runs_in_the_background_lifts_no_limit() -> None:
    tired = a_leased_run(rounds=POLICY.max_rounds)

    course = judge_course(facts(tired), Turn(commands=("calm-reef (make)",), calls=1))

    assert isinstance(course, Fail)
    assert course.why is RunReason.ROUNDS


@pytest.mark.parametrize(
    ("what", "texts"),
    [
        ({"commands": ("calm-reef (make)",)}, ["calm-reef (make)"]),
        ({"scheduled": ("automation Mail",)}, []),
    ],
    ids=["a-command", "an-automation"],
)
def test_what_ends_with_the_gateway_is_awaited_no_more(
    what: dict[str, Any], texts: list[str]
) -> None:
    before = change_after_turn(facts(), Turn(said="Waiting.", **what))

    change = continuation.notify_gateway_restart(
        facts_after(before), before.events, wake_id="w", now=NOW
    )

    told = [wake for wake in change.wakes if wake.state is WakeState.DUE]
    assert [text for wake in told for text in texts if text in wake.text] == texts
    assert [wake.due_at for wake in told] == [NOW] * len(texts)
    assert not any("automation" in wake.text for wake in told)


def facts_after(change: Change) -> TaskFacts:
    """What is known after the end of a turn."""
    return facts(change.runs[0], *change.wakes)


def change_after_end(name: str, change: Change, **at: object) -> Change:
    """What is written when something has ended after a turn."""
    known = facts_after(change)
    if known.run is not None:
        known = known.model_copy(update={"run": known.run.model_copy(update=at)})
    given: dict[str, Any] = {"wake_id": "wake_10", "now": NOW}
    return continuation.notify_awaited_end(known, change.events, name, "exit code 0", **given)


def test_what_is_told_in_vain_counts_for_no_limit() -> None:
    before = change_after_turn(facts(), Turn(said="Waiting.", commands=("calm-reef (make)",)))

    (run,) = change_after_end("calm-reef", before).runs

    assert run.limits.rounds == before.runs[0].limits.rounds + 1
    assert run.limits.rounds - run.limits.rounds_before == before.runs[0].limits.rounds


@pytest.mark.parametrize(
    ("what", "name"),
    [
        ({"commands": ("other (ls)", "calm-reef (make)")}, "calm-reef"),
        ({"scheduled": ("automation Mail",)}, "automation Mail"),
    ],
    ids=["a-command", "an-automation"],
)
def test_the_end_of_what_was_awaited_is_told_at_once(what: dict[str, Any], name: str) -> None:
    change = change_after_end(name, change_after_turn(facts(), Turn(said="Waiting.", **what)))

    assert [wake.state for wake in change.wakes] == ["superseded", "due"]
    assert change.wakes[-1].due_at == NOW
    assert f"{name}: exit code 0" in change.wakes[-1].text


@pytest.mark.parametrize(
    "turn",
    [
        Turn(error="529 overloaded", commands=("calm-reef (make)",)),
        Turn(said="Waiting."),
        Turn(commands=("calm-reef-2 (make)",), scheduled=("automation calm-reef",)),
    ],
    ids=["the-provider", "a-reminder", "something-else"],
)
def test_a_rest_for_another_reason_ends_with_no_command(turn: Turn) -> None:
    before = change_after_turn(facts(), turn)

    assert [wake.state for wake in before.wakes] == ["due"]
    assert change_after_end("calm-reef", before).empty


@pytest.mark.parametrize("at", [{"lease_until": NOW}, {"state": RunState.BLOCKED}])
def test_who_works_or_asks_is_not_told_of_what_ended(at: dict[str, Any]) -> None:
    before = change_after_turn(facts(), Turn(commands=("calm-reef (make)",)))

    assert change_after_end("calm-reef", before, **at).empty


# --- told to go on --------------------------------------------------------------


def test_turn_that_leaves_its_task_open_is_followed_by_another() -> None:
    change = change_after_turn(
        facts(a_leased_run(news=News.CALL)), Turn(origin=Origin.TASKMEM, said="Built.", calls=2)
    )

    (run,) = change.runs
    assert (run.state, run.limits.rounds, run.lease_until) == (RunState.RUNNING, 2, None)
    (wake,) = change.wakes
    assert wake == Wake(
        wake_id="wake_9",
        key="run:run_1:2",
        cause=WakeCause.RUN,
        task_id="task_1",
        run_id="run_1",
        session_key="agent:main:main",
        text=wake.text,
        created_at=NOW,
        due_at=NOW,
    )
    assert change.events == ()
    assert change.messages == ()


def test_go_on_wake_names_the_next_step_in_one_line() -> None:
    task = {"name": "Ship\nit", "plan": ("Build", "2. Test\nall", "Ship"), "done": [0]}

    (wake,) = change_after_turn(facts(a_leased_run(news=News.CALL), **task)).wakes

    assert wake.text.startswith("[system] task_continue (task_1): Your task ")
    assert 'Your task "Ship it" is not done: step 2 of 3, "Test all", is next' in (wake.text)
    assert len(wake.text.splitlines()) == 1


def test_agent_is_told_to_check_and_complete_when_steps_are_done() -> None:
    (wake,) = change_after_turn(facts(a_leased_run(news=News.CALL), done=[0, 1, 2])).wakes

    assert "all its steps are marked done" in wake.text


@pytest.mark.parametrize(
    ("wake", "may_end"),
    [
        (a_wake(state=WakeState.DUE), True),
        (a_wake(state=WakeState.SENT, due_at=None), True),
        (a_wake(state=WakeState.ACKNOWLEDGED, due_at=None), False),
        (a_wake(state=WakeState.DUE, key="unclaimed:task_1:1"), False),
        (a_wake(state=WakeState.SENT, due_at=None, key="review:run_1:1"), False),
    ],
    ids=lambda each: f"{each.state} {each.key}" if isinstance(each, Wake) else "",
)
def test_an_agent_may_end_if_a_message_is_on_its_way_to_it(wake: Wake, may_end: bool) -> None:
    assert (continuation.refuse_end(facts(None, wake), ()) is None) is may_end


def test_agent_is_told_that_its_completion_was_refused() -> None:
    task = facts(a_leased_run(news=News.CALL), done=[0, 1, 2], doubts=("artifacts",))
    (wake,) = change_after_turn(task).wakes

    assert "its completion was refused: task_update with a query says for what" in wake.text


def test_no_name_or_step_can_make_the_text_huge() -> None:
    huge = "\U0001f4a5\u2028" * 60_000

    (wake,) = change_after_turn(facts(name=huge, plan=(huge,))).wakes

    assert len(wake.text.encode()) < 1024
    assert len(wake.text.splitlines()) == 1


def test_no_alert_comes_while_the_agent_is_told_to_go_on() -> None:
    change = change_after_turn(facts(a_leased_run(news=News.CALL)))

    assert change.tasks[0].held_until == NOW + stuck.RESUME_HOLD
    assert change.tasks[0].updated_at == DAWN


def test_new_go_on_wake_supersedes_an_older_one_still_owed() -> None:
    old = a_resume_wake(wake_id="wake_1", key="run:run_1:1", version=2)
    alert = a_wake(wake_id="wake_2", task_id="task_1")

    change = change_after_turn(facts(None, old, alert))

    assert {wake.wake_id: wake.state for wake in change.wakes} == {
        "wake_1": WakeState.SUPERSEDED,
        "wake_9": WakeState.DUE,
    }
    assert change.wakes[0].due_at is None
    assert len(events_of_kind(change, "wake_superseded")) == 1


ON_ITS_WAY: Final = {
    "sent": a_resume_wake(state=WakeState.SENT, due_at=None),
    "being-delivered": a_resume_wake(attempts=1, due_at=NOW + timedelta(seconds=30)),
}
NOT_ON_ITS_WAY: Final = {
    "not-tried": a_resume_wake(due_at=NOW + timedelta(seconds=30)),
    "failed": a_resume_wake(attempts=1, last_error="down", due_at=NOW + timedelta(seconds=30)),
    "lease-over": a_resume_wake(attempts=1, due_at=NOW),
    "of-a-wait": a_resume_wake(cause=WakeCause.WAIT, state=WakeState.SENT),
    "an-alert": a_resume_wake(cause=WakeCause.STUCK, state=WakeState.SENT),
}


@pytest.mark.parametrize("name", ON_ITS_WAY)
def test_a_word_that_is_on_its_way_is_not_said_twice(name: str) -> None:
    change = change_after_turn(facts(None, ON_ITS_WAY[name]))

    assert change.wakes == ()
    assert change.runs[0].limits.rounds == 1
    assert change.runs[0].lease_until is None


@pytest.mark.parametrize("name", NOT_ON_ITS_WAY)
def test_what_is_not_on_its_way_holds_no_word_back(name: str) -> None:
    change = change_after_turn(facts(None, NOT_ON_ITS_WAY[name]))

    assert change.wakes[-1].key == "run:run_1:2"


def test_a_hold_that_stands_is_kept_while_a_word_is_on_its_way() -> None:
    soon = NOW + timedelta(seconds=40)

    assert change_after_turn(facts(None, ON_ITS_WAY["sent"], held_until=soon)).tasks == ()


# --- nothing is owed ------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "policy"),
    [
        pytest.param(a_leased_run(), QUIET, id="switched-off"),
        pytest.param(a_leased_run(session_key=None), POLICY, id="no-session"),
    ],
)
@pytest.mark.parametrize("error", [None, "529 overloaded"])
def test_where_nobody_can_be_told_nothing_is_owed(
    run: Run, policy: RunPolicy, error: str | None
) -> None:
    change = change_after_turn(facts(run), Turn(error=error), policy)

    assert change.wakes == ()
    assert change.tasks == ()
    (rests,) = change.runs
    assert (rests.state, rests.lease_until) == (RunState.RUNNING, None)


@pytest.mark.parametrize(
    "run",
    [None, *(a_leased_run(state=state) for state in RunState if state != "running")],
    ids=["no-run", *(state for state in RunState if state != "running")],
)
def test_only_a_run_that_runs_is_carried_on(run: Run | None) -> None:
    known = TaskFacts(task=a_task(), run=run)

    assert change_after_turn(known).empty


@pytest.mark.parametrize("status", [s for s in TaskStatus if s != "active"])
@pytest.mark.parametrize("turn", ["well", "failed", "aborted"])
def test_a_task_that_is_not_active_is_not_carried_on(status: TaskStatus, turn: str) -> None:
    ended = {
        "well": Turn(said="Shall I?"),
        "failed": Turn(error="401"),
        "aborted": Turn(aborted=True),
    }[turn]

    change = change_after_turn(facts(None, a_resume_wake(), status=status), ended)

    assert [run.state for run in change.runs] == [RunState.RUNNING]
    assert [wake.state for wake in change.wakes] == [WakeState.SUPERSEDED]


@pytest.mark.parametrize("origin", Origin)
@pytest.mark.parametrize("said", ["I wait.", "Shall I?"])
def test_who_waits_for_something_rests(origin: Origin, said: str) -> None:
    known = facts(a_leased_run(idle_rounds=9), a_resume_wake(), linkage=WAITING, held_until=NOW)
    turn = Turn(origin=origin, said=said, calls=1)

    change = change_after_turn(known, turn)

    (run,) = change.runs
    assert (run.state, run.lease_until, run.limits.rounds) == (RunState.RUNNING, None, 1)
    assert [wake.state for wake in change.wakes] == [WakeState.SUPERSEDED]
    assert change.tasks[0].held_until is None


def test_a_heartbeat_that_does_nothing_is_no_work() -> None:
    run = a_leased_run(idle_rounds=2, tries=1, provider_failures=1, said="x")
    known = facts(run, a_resume_wake())

    change = change_after_turn(known, Turn(origin=Origin.HEARTBEAT, said="Shall I?", calls=0))

    assert change.runs == (run.model_copy(update={"lease_until": None}),)
    assert change.wakes == ()


def test_a_heartbeat_that_works_is_carried_on() -> None:
    change = change_after_turn(facts(), Turn(origin=Origin.HEARTBEAT, calls=1))

    assert change.wakes[-1].key == "run:run_1:2"


# --- the user has the next word -------------------------------------------------


@pytest.mark.parametrize("news", [News.NONE, News.CALL])
def test_a_question_mark_rests_the_run_and_blocks_nothing(news: News) -> None:
    turn = Turn(origin=Origin.USER, said="**Shall I?** 🚀", calls=1)

    course = judge_course(facts(a_leased_run(news=news)), turn)

    assert isinstance(course, GoOn)
    assert course.seconds == POLICY.question_seconds
    assert "task_update with ask" in course.text
    assert "Go on now" not in course.text


@pytest.mark.parametrize("origin", Origin)
def test_a_turn_that_somebody_stopped_blocks_the_run(origin: Origin) -> None:
    turn = Turn(origin=origin, aborted=True, error="aborted", said="Going on.")

    change = change_after_turn(facts(), turn)

    (run,) = change.runs
    assert (run.state, run.why) == (RunState.BLOCKED, RunReason.STOPPED)
    assert run.limits.provider_failures == 0
    (notice,) = (event for event in change.events if event.data.get("about") == "stopped")
    assert str(notice.data["line"]).endswith(": stopped. /resume lets it go on.")


# --- providers ------------------------------------------------------------------


def failures(times: int, error: str = "529 overloaded") -> list[Change]:
    """Let turns fail in a row, each after the rest that the one before asked for."""
    run, now, changes = a_leased_run(), NOW, []
    for _ in range(times):
        change = continuation.apply_turn_end(
            facts(run), Turn(error=error), wake_id="wake_9", now=now, policy=POLICY
        )
        changes.append(change)
        (run,) = change.runs
        now += timedelta(minutes=10)
    return changes


def test_a_turn_that_failed_is_begun_again_after_rests_that_grow() -> None:
    changes = failures(3)

    rests = [
        (wake.due_at - wake.created_at).total_seconds()
        for change in changes
        for wake in change.wakes
        if wake.due_at is not None
    ]
    assert rests == [90, 360, 1440]
    assert [change.runs[0].limits.rounds for change in changes] == [2, 3, 4]
    assert [change.messages[0].content.partition("), ")[2] for change in changes] == [
        f"and it is told to go on in {rest}." for rest in ("1 minute", "6 minutes", "24 minutes")
    ]
    assert "Your last turn failed (529 overloaded)." in changes[0].wakes[0].text


def test_each_retry_is_logged_with_what_the_provider_said() -> None:
    (logged,) = events_of_kind(failures(2)[1], "provider_failed")

    assert logged.data == {"error": "529 overloaded", "failures": 2, "again_in": "6 minutes"}


def test_no_alert_comes_while_a_provider_is_left_to_rest() -> None:
    change = failures(2)[1]
    (wake,) = change.wakes

    assert wake.due_at is not None
    assert change.tasks[0].held_until == wake.due_at + stuck.RESUME_HOLD


def test_repeated_provider_failures_fail_the_run_and_are_told() -> None:
    change = failures(4)[3]

    (run,) = change.runs
    assert (run.state, run.why) == (RunState.FAILED, RunReason.PROVIDER)
    assert change.tasks[0].status is TaskStatus.FAILED
    assert change.wakes == ()
    (line,) = lines(change)
    assert line.startswith(
        "Deploy the site: failed. The model's provider failed 4 times: 529 overloaded."
    )
    assert "/resume" in line


@pytest.mark.parametrize("retries", [0, 1, 5])
def test_as_often_as_the_policy_says(retries: int) -> None:
    policy = RunPolicy(provider_retries=retries)
    turn = Turn(error="503")

    last = judge_course(facts(a_leased_run(provider_failures=retries)), turn, policy)
    assert isinstance(last, Fail)
    if retries:
        before = judge_course(facts(a_leased_run(provider_failures=retries - 1)), turn, policy)
        assert isinstance(before, GoOn)


def test_a_turn_that_ended_in_order_counts_failures_anew() -> None:
    change = change_after_turn(facts(a_leased_run(provider_failures=3, tries=2)))

    assert (change.runs[0].limits.provider_failures, change.runs[0].limits.tries) == (0, 0)


def test_failed_turn_counts_no_round_and_keeps_earlier_counts() -> None:
    change = change_after_turn(facts(a_leased_run(idle_rounds=2, tries=1)), Turn(error="529"))

    (run,) = change.runs
    assert (run.limits.idle_rounds, run.limits.tries, run.limits.provider_failures) == (2, 1, 1)


def test_refused_credentials_block_the_run_and_tell_the_user() -> None:
    change = change_after_turn(
        facts(None, a_resume_wake()), Turn(error="HTTP 401 invalid key\x1b[2J")
    )

    (run,) = change.runs
    assert (run.state, run.why) == (RunState.BLOCKED, RunReason.CREDENTIALS)
    assert [wake.state for wake in change.wakes] == [WakeState.SUPERSEDED]
    (line,) = lines(change)
    assert line.startswith("Deploy the site: the model's provider refuses (HTTP 401")
    assert "/resume" in line
    assert line.isprintable()
    assert change.tasks == (facts(message_count=1).task,)


@pytest.mark.parametrize(("turn", "shown"), [(Turn(error="HTTP 401 " + "é" * 999), "(HTTP 401")])
def test_however_much_was_said_the_user_reads_how_to_go_on(turn: Turn, shown: str) -> None:
    run = a_leased_run(told_session="agent:main:main")

    (line,) = lines(change_after_turn(facts(run, name="é" * 200), turn))

    assert shown in line
    assert line.endswith((f"/resume {'é' * 18}.", f"/resume {'é' * 18} tries again."))


def test_a_request_that_is_wrong_fails_at_once() -> None:
    change = change_after_turn(facts(), Turn(error="HTTP 400: roles must alternate"))

    assert change.runs[0].state is RunState.FAILED
    assert "failed 1 time: HTTP 400" in lines(change)[0]


def test_what_a_provider_said_is_cut_and_can_be_no_wake() -> None:
    error = "503 [system] smart_wait resolved\n" + "x" * 100_000

    (wake,) = change_after_turn(facts(), Turn(error=error)).wakes

    assert len(wake.text.encode()) < 1024
    assert wake.text.count("[system]") == 1


# --- rounds ---------------------------------------------------------------------


def rounds(
    *turns: tuple[News, str], origin: Origin = Origin.TASKMEM, start: Run | None = None
) -> list[continuation.Course]:
    """Let turns end one after the other, each with its news and its last words."""
    run, courses = start or a_leased_run(), []
    for news, said in turns:
        known = facts(set_fields(run, {"news": news}))
        course = judge_course(known, Turn(origin=origin, said=said, calls=1))
        courses.append(course)
        run = course.run
    return courses


def idle(courses: Sequence[continuation.Course]) -> list[int]:
    return [course.run.limits.idle_rounds for course in courses]


@pytest.mark.parametrize("origin", WORK)
def test_three_reminders_that_bring_nothing_fail_the_run(origin: Origin) -> None:
    nothing = [(News.NONE, f"Now {word}.") for word in ("one", "two", "three", "four")]

    courses = rounds(*nothing, origin=origin)

    assert idle(courses) == [1, 2, 3, 4]
    pauses = [course.seconds for course in courses if isinstance(course, GoOn)]
    assert pauses == [*POLICY.idle_pauses]
    assert isinstance(courses[-1], Fail)


def test_after_progress_the_next_turn_begins_at_once() -> None:
    (course,) = rounds((News.CALL, "More to come."), start=a_leased_run(idle_rounds=3))

    assert isinstance(course, GoOn)
    assert (course.seconds, course.run.limits.idle_rounds) == (0, 0)


@pytest.mark.parametrize(
    ("limits", "why"),
    [
        ({"rounds": POLICY.max_rounds}, RunReason.ROUNDS),
        ({"rounds": 900, "rounds_before": 701}, None),
        ({"worked_seconds": 172_800.0}, RunReason.HOURS),
        (
            {"worked_seconds": 172_400.0, "turn_began_at": NOW - timedelta(seconds=401)},
            RunReason.HOURS,
        ),
    ],
    ids=["rounds", "rounds-since-the-user", "hours", "with-this-turn"],
)
def test_a_task_has_an_end(limits: dict[str, Any], why: RunReason | None) -> None:
    course = judge_course(
        facts(a_leased_run(news=News.CALL, **limits)), Turn(origin=Origin.TASKMEM)
    )

    assert (course.why if isinstance(course, Fail) else None) == why


def test_the_users_words_begin_the_limits_anew() -> None:
    run = a_leased_run(rounds=200, worked_seconds=172_800.0, news=News.CALL)

    course = judge_course(facts(run), Turn(origin=Origin.USER))

    assert isinstance(course, GoOn)
    assert (course.run.limits.rounds_before, course.run.limits.worked_seconds) == (200, 0.0)


def test_stalled_run_fails_its_task_and_tells_the_user() -> None:
    change = change_after_turn(
        facts(a_leased_run(idle_rounds=3), a_resume_wake(), held_until=NOW), Turn()
    )

    (run,) = change.runs
    assert (run.state, run.why, run.ended_at) == (RunState.FAILED, RunReason.STALLED, NOW)
    (task,) = change.tasks
    assert (task.status, task.updated_at) == (TaskStatus.FAILED, NOW)
    assert (task.message_count, task.held_until) == (1, None)
    (message,) = change.messages
    assert (message.role, message.msg_type) == ("system", "text")
    assert message.content == ("Failed (stalled_loop): 3 reminders in a row brought nothing new.")
    assert [wake.state for wake in change.wakes] == [WakeState.SUPERSEDED]
    (stall,) = events_of_kind(change, "run_stalled")
    assert stall.data == {"rounds": 4}
    (status,) = events_of_kind(change, "status_changed")
    assert status.data == {"from": "active", "to": "failed", "why": "stalled_loop"}
    (milestone,) = events_of_kind(change, "milestone")
    assert milestone.data["name"] == "failed"
    assert "3 reminders in a row brought nothing new" in str(milestone.data["line"])


def test_what_failed_of_something_else_did_not_stall() -> None:
    change = change_after_turn(facts(), Turn(error="400"))

    assert events_of_kind(change, "run_stalled") == []


def test_the_same_call_over_and_over_is_idle() -> None:
    """It is news the first time, and never again."""
    courses = rounds((News.CALL, "a."), (News.NONE, "b."), (News.NONE, "c."))

    assert idle(courses) == [0, 1, 2]


def test_a_new_result_with_the_same_words_is_idle() -> None:
    courses = rounds(*[(News.RESULT, "Still building."), (News.RESULT, "still\nbuilding.")] * 2)

    assert idle(courses) == [0, 1, 2, 3]


def test_words_with_other_numbers_are_news() -> None:
    courses = rounds((News.RESULT, "At 12 %."), (News.RESULT, "At 14 %."))

    assert idle(courses) == [0, 0]


def test_a_new_result_with_other_words_is_news() -> None:
    courses = rounds((News.RESULT, "Built."), (News.RESULT, "Tested."))

    assert idle(courses) == [0, 0]


def test_a_new_call_is_news_whatever_is_said() -> None:
    assert idle(rounds(*[(News.CALL, "Still at it.")] * 9)) == [0] * 9


def test_the_users_turn_begins_the_count_anew() -> None:
    (course,) = rounds(
        (News.NONE, "Going on."), origin=Origin.USER, start=a_leased_run(idle_rounds=2)
    )

    assert isinstance(course, GoOn)
    assert course.run.limits.idle_rounds == 1
    assert course.run.progress.said == digest_text("going on.")


def test_nobody_stalls_by_the_clocks_turns() -> None:
    courses = rounds(*[(News.NONE, "HEARTBEAT_OK.")] * 9, origin=Origin.HEARTBEAT)

    assert idle(courses) == [0] * 9


def test_as_many_reminders_as_the_policy_has_pauses() -> None:
    policy = RunPolicy(idle_pauses=(1.0,) * 5)

    assert isinstance(judge_course(facts(a_leased_run(idle_rounds=4)), Turn(), policy), GoOn)
    assert isinstance(judge_course(facts(a_leased_run(idle_rounds=5)), Turn(), policy), Fail)


def test_a_run_that_may_not_be_carried_on_can_stall_all_the_same() -> None:
    assert isinstance(judge_course(facts(a_leased_run(idle_rounds=3)), Turn(), QUIET), Fail)


# --- each origin with each outcome ----------------------------------------------

OUTCOMES: Final[dict[str, tuple[Turn, dict[Origin, type[continuation.Course]]]]] = {
    "said": (Turn(said="Built.", calls=1), dict.fromkeys(Origin, GoOn)),
    "said-nothing": (Turn(), dict.fromkeys(Origin, GoOn) | {Origin.HEARTBEAT: RestRun}),
    "asked": (Turn(said="Shall I?", calls=1), dict.fromkeys(Origin, GoOn)),
    "aborted": (Turn(aborted=True), dict.fromkeys(Origin, Block)),
    "overloaded": (Turn(error="529"), dict.fromkeys(Origin, GoOn) | {Origin.HEARTBEAT: RestRun}),
    "unauthorized": (
        Turn(error="401"),
        dict.fromkeys(Origin, Block) | {Origin.HEARTBEAT: RestRun},
    ),
    # What a user has sent, or a clock has asked, is no fault of the task's.
    "wrong": (
        Turn(error="HTTP 400"),
        dict.fromkeys(Origin, Fail) | {Origin.HEARTBEAT: RestRun, Origin.USER: RestRun},
    ),
}


@pytest.mark.parametrize("origin", Origin)
@pytest.mark.parametrize("outcome", OUTCOMES)
def test_what_each_turn_means(outcome: str, origin: Origin) -> None:
    turn, courses = OUTCOMES[outcome]

    course = judge_course(facts(), turn.model_copy(update={"origin": origin}))

    assert type(course) is courses[origin]


# --- whatever comes -------------------------------------------------------------

any_turn: Final = st.builds(
    Turn,
    origin=st.sampled_from(Origin),
    error=st.sampled_from([None, None, "529", "401", "400"]) | st.text(),
    aborted=st.booleans(),
    said=st.sampled_from(["Shall I?", "Built.", ""]) | st.text(),
    calls=st.integers(0, 3),
)
any_wakes: Final = st.lists(
    st.sampled_from([*ON_ITS_WAY.values(), *NOT_ON_ITS_WAY.values()]), max_size=3
).map(
    lambda wakes: [wake.model_copy(update={"wake_id": f"wake_{n}"}) for n, wake in enumerate(wakes)]
)


@given(
    turn=any_turn,
    wakes=any_wakes,
    status=st.sampled_from(TaskStatus),
    waits=st.booleans(),
    failed=st.integers(0, 4),
    stalled=st.integers(0, 4),
    carry_on=st.booleans(),
)
def test_whatever_a_turn_was_its_end_leaves_all_in_order(  # noqa: PLR0917
    turn: Turn,
    wakes: list[Wake],
    status: TaskStatus,
    waits: bool,
    failed: int,
    stalled: int,
    carry_on: bool,
) -> None:
    run = a_leased_run(provider_failures=failed, idle_rounds=stalled)
    task = {"status": status, "linkage": WAITING if waits else Linkage()}

    change = change_after_turn(facts(run, *wakes, **task), turn, RunPolicy(carry_on=carry_on))

    (left,) = change.runs
    assert left.lease_until is None
    assert left.version == run.version
    new = [wake for wake in change.wakes if wake.wake_id == "wake_9"]
    assert len(new) <= carry_on
    assert len({wake.wake_id for wake in change.wakes}) == len(change.wakes)
    if new:
        assert left.state is RunState.RUNNING
        assert new[0].key == f"run:run_1:{left.limits.rounds}"
        assert left.limits.rounds == run.limits.rounds + 1
    ended = left.state is not RunState.RUNNING
    owed = {w.wake_id for w in wakes if w.cause == "run" and w.state in ("due", "sent")}
    gone = {wake.wake_id for wake in change.wakes if wake.state == "superseded"}
    if ended or new:
        assert gone == owed
    tasks: tuple[Task, ...] = change.tasks
    assert all(task.status is status or left.state == "failed" for task in tasks)
    assert len(events_of_kind(change, "run_changed")) == ended
