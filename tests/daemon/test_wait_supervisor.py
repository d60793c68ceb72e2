"""The life of waits in one daemon, on a stage that does as it is told."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from openclaw_taskmem.daemon import target_watchers
from openclaw_taskmem.domain.errors import LookFailed, TaskEnded
from openclaw_taskmem.engine import waits
from taskmem_hookspecs import (
    Change,
    Condition,
    ConditionUnclear,
    EventQuery,
    Frame,
    InvalidArguments,
    JudgeUnavailable,
    Met,
    NotAllowed,
    Ruling,
    StoreFull,
    Target,
    TargetGone,
    TargetNotFound,
    TaskNotFound,
    WaitQuery,
    WaitStatus,
    WakeCause,
)
from taskmem_hookspecs.errors import NoProvider
from taskmem_hookspecs.testing import DAWN, FakeClock, a_wait
from tests.daemon.watched import watch_world
from tests.support.memory_store import MemoryStore
from tests.support.stage import ScriptedJudge, ScriptedWatch, Stage, a_plugin

# --- the four endings ---------------------------------------------------------


async def test_a_wait_resolves_when_its_condition_is_seen(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        task = room.world.register()
        wait = await room.wait(task_id=task)
        await room.clock.advance(47)
        stage.scene("build").show("READY\n")

        ended = await room.wait_for_end(wait)

        assert ended.status is WaitStatus.RESOLVED
        (wake,) = room.world.wakes()
        assert wake.cause is WakeCause.WAIT
        assert wake.text == (
            f"[system] smart_wait resolved ({wait}): READY was shown. Elapsed: 47s."
        )
        (line,) = [m for m in room.world.thread(task) if m[1] == "wait"]
        assert line[2] == wake.text.removeprefix("[system] ")
        linkage = room.world.task(task).linkage
        assert linkage.active_wait_ids == ()
        assert linkage.last_wait_state is WaitStatus.RESOLVED


async def test_a_wait_times_out_and_tells_what_was_seen_last(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(timeout=60)
        stage.scene("build").show("at 85%")
        await room.until(lambda: "85%" in (room.room.read_observation(wait) or ""))
        await room.pass_time(59)
        assert room.row(wait).status is WaitStatus.WATCHING

        await room.pass_time(2)

        assert (await room.wait_for_end(wait)).status is WaitStatus.TIMEOUT
        (wake,) = room.world.wakes()
        assert wake.text == (
            f"[system] smart_wait timeout ({wait}): Condition not met after 60s. "
            "Last observation: Last seen: 'at 85%'."
        )


async def test_a_timeout_tells_the_last_line_where_nothing_new_came(stage: Stage) -> None:
    async def rule_no(_: str, frame: Frame) -> Ruling:
        return Ruling(met=Met.NO, observation="")

    stage.rules["READY"] = rule_no
    stage.scene("build").text = "GITHUB_TOKEN=hunter22\n"
    async with watch_world(("stage", stage.plugin())) as room:
        silent = await room.wait(timeout=60)
        await room.pass_time(61)
        assert (await room.wait_for_end(silent)).last_observation == (
            'Nothing new; the last line is "GITHUB_TOKEN=[secret removed]".'
        )

        await room.call("wait_update", wait_id=silent, timeout=60)
        stage.scene("build").show("at 85 %\n")
        await room.pass_time(61)
        ended = await room.wait_for_end(silent)
        assert ended.last_observation == "Nothing was seen yet."


async def test_a_target_that_goes_away_ends_the_wait_at_once(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(timeout=3600)
        stage.scene("build").leave("The command ended with status 1.")

        ended = await room.wait_for_end(wait)

        assert ended.status is WaitStatus.ERROR
        assert "The command ended with status 1." in str(ended.last_observation)


async def test_what_comes_with_the_end_of_a_target_still_counts(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait()
        scene = stage.scene("build")
        scene.text = "READY\n"
        scene.leave("The command ended with status 0.")

        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


async def test_a_cancelled_wait_owes_no_wake_and_is_not_watched(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        task = room.world.register()
        wait = await room.wait(task_id=task)

        answer = await room.call("wait_cancel", wait_id=wait, reason="not needed")
        assert answer["status"] == "cancelled"
        assert answer["message"] == "Wait cancelled. Reason: not needed"
        await room.until(lambda: room.room.read_observation(wait) is None)
        stage.scene("build").show("READY\n")
        await room.settle()

        assert room.row(wait).status is WaitStatus.CANCELLED
        assert room.world.wakes() == []
        again = await room.call("wait_cancel", wait_id=wait)
        assert again["status"] == "cancelled"
        assert "had ended as cancelled already" in again["message"]


async def test_what_holds_already_resolves_at_once(stage: Stage) -> None:
    async def holds(_: str, frame: Frame) -> Ruling:
        return Ruling(met=Met.YES, observation="It holds already")

    stage.rules["it holds"] = holds
    async with watch_world(("stage", stage.plugin())) as room:
        answer = await room.call("smart_wait", target="pty:build", wake_when="it holds")

        assert answer["status"] == "watching"
        assert (await room.wait_for_end(answer["wait_id"])).status is WaitStatus.RESOLVED


async def test_time_that_is_up_looks_once_more(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(timeout=60)
        stage.scene("build").text += "READY\n"  # and nobody says that it changed
        await room.clock.advance(60)

        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


# --- refused ------------------------------------------------------------------


async def test_what_is_not_there_is_refused_in_the_answer(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        with pytest.raises(TargetNotFound, match="there is build"):
            await room.wait("pty:bild")
        assert room.world.store.find_waits(WaitQuery()) == []


async def test_what_nothing_watches_is_refused() -> None:
    judge = a_plugin(
        wait_judge=lambda wake_when: ScriptedJudge(Stage(), wake_when),
        wait_target_forms=lambda: ["tab:NAME, a tab"],
    )
    async with watch_world(("judge", judge)) as room:
        with pytest.raises(NoProvider, match="Nothing here can watch window") as refused:
            await room.wait("window:Firefox")
    assert str(refused.value).endswith("or what a plug-in adds: tab:NAME, a tab.")


async def test_what_cannot_be_watched_is_refused_whatever_it_waits_for() -> None:
    def unclear(wake_when: str) -> None:
        raise ConditionUnclear("Quote the text.")

    async with watch_world(("judge", a_plugin(wait_judge=unclear))) as room:
        with pytest.raises(NoProvider, match="Nothing here can watch window"):
            await room.wait("window:Firefox", wake_when="it looks odd")


async def test_what_no_judge_can_tell_is_refused_with_what_would_help() -> None:
    stage = Stage()
    stage.scene("build")

    def unclear(wake_when: str) -> None:
        raise ConditionUnclear(f"Quote the text instead of {wake_when!r}.")

    plugin = a_plugin(wait_sensor=lambda: stage, wait_judge=unclear)
    async with watch_world(("stage", plugin)) as room:
        with pytest.raises(ConditionUnclear, match="Quote the text instead of 'blue'"):
            await room.wait(wake_when="blue")
        assert room.world.store.find_waits(WaitQuery()) == []


async def test_a_condition_that_any_secret_would_meet_is_refused(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        with pytest.raises(InvalidArguments, match="words around it"):
            await room.wait(wake_when="ghp_" + "a1B2" * 9 + " appears")
        wait = await room.wait()
        with pytest.raises(InvalidArguments, match="words around it"):
            await room.call("wait_update", wait_id=wait, wake_when="ghp_" + "a1B2" * 9)


async def test_a_task_that_is_unknown_or_ended_takes_no_wait(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        with pytest.raises(TaskNotFound):
            await room.wait(task_id="task_nobody")
        task = room.world.register()
        room.world.call("task_update", task_id=task, status="completed")
        with pytest.raises(TaskEnded):
            await room.wait(task_id=task)
        assert stage.watched["build"] == 0


# --- sent back ----------------------------------------------------------------


async def test_a_wait_that_woke_too_early_is_sent_back(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        task = room.world.register()
        wait = await room.wait(task_id=task)
        stage.scene("build").show("READY\n")
        await room.wait_for_end(wait)

        answer = await room.call(
            "wait_update", wait_id=wait, wake_when="ROWS", timeout=60, message="early"
        )
        assert answer["status"] == "watching"
        assert "it had ended as resolved: READY was shown" in answer["message"]
        stage.scene("build").show("ROWS\n")
        await room.wait_for_end(wait)

        assert [w.key for w in room.world.wakes()] == [f"wait:{wait}:2", f"wait:{wait}:1"]
        assert room.row(wait).task_id == task
        kinds = [e.kind for e in room.world.store.find_events(EventQuery(wait_id=wait))]
        assert kinds == [
            *("wait_opened", "wait_ended"),
            *("wait_updated", "wake_superseded", "wait_ended"),
        ]


@pytest.mark.parametrize("whole", [False, True])
async def test_what_resolved_a_wait_does_not_resolve_it_again(stage: Stage, *, whole: bool) -> None:
    stage.scene("build").whole = whole
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait()
        stage.scene("build").show("READY\n")
        await room.wait_for_end(wait)

        await room.call("wait_update", wait_id=wait)
        await room.until(lambda: room.room.read_observation(wait) is not None)
        await room.settle()
        assert room.row(wait).status is WaitStatus.WATCHING

        stage.scene("build").show("READY\n")
        assert (await room.wait_for_end(wait)).round == 2


async def test_target_that_ended_and_was_read_is_not_waited_for_again(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait()
        scene = stage.scene("build")
        scene.text = "READY\n"
        scene.leave("The command ended with status 0.")
        await room.wait_for_end(wait)

        with pytest.raises(TargetNotFound, match=r"status 0\. Nothing more will come"):
            await room.call("wait_update", wait_id=wait)

        assert room.row(wait).status is WaitStatus.RESOLVED
        assert room.row(wait).round == 1


async def test_another_condition_sees_all_that_came_since_a_wait_began(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait()
        stage.scene("build").show("ROWS\nREADY\n")
        await room.wait_for_end(wait)
        await room.call("wait_update", wait_id=wait)
        await room.until(lambda: room.room.read_observation(wait) is not None)

        await room.call("wait_update", wait_id=wait, wake_when="ROWS")

        assert (await room.wait_for_end(wait)).round == 3


@pytest.mark.parametrize("given_later", [False, True])
async def test_a_wait_for_what_is_new_reads_from_the_end(
    stage: Stage, *, given_later: bool
) -> None:
    words = 'new "READY" appears'

    async def see_ready(_: str, frame: Frame) -> Ruling:
        met = Met.YES if "READY" in (frame.text or "") else Met.NO
        return Ruling(met=met, observation="seen")

    stage.rules[words] = see_ready
    stage.scene("build").whole = True
    stage.scene("build").show("READY\n")
    async with watch_world(("stage", stage.plugin())) as room:
        if given_later:
            wait = await room.wait(wake_when="OTHER")
            await room.call("wait_update", wait_id=wait, wake_when=words)
        else:
            wait = await room.wait(wake_when=words)
        await room.settle()
        assert room.row(wait).status is WaitStatus.WATCHING

        stage.scene("build").show("READY\n")
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


async def test_what_came_after_a_timeout_counts_when_it_is_sent_back(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(timeout=5)
        await room.pass_time(6)
        await room.wait_for_end(wait)
        stage.scene("build").show("READY\n")

        await room.call("wait_update", wait_id=wait, timeout=60)

        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


async def test_a_finer_condition_replaces_the_one_that_is_watched(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait()
        await room.call("wait_update", wait_id=wait, wake_when="ROWS")
        await room.until(lambda: stage.asked["ROWS"] > 0)
        stage.scene("build").show("READY\n")
        await room.until(lambda: "READY" in (room.room.read_observation(wait) or ""))
        assert room.row(wait).status is WaitStatus.WATCHING
        stage.scene("build").show("ROWS\n")
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


# --- one watcher, many waits --------------------------------------------------


async def test_however_many_waits_share_a_target_it_is_watched_once(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        waits = [await room.wait(wake_when=f"READY {n}.") for n in range(20)]
        assert stage.watched["build"] == 1

        stage.scene("build").show("".join(f"READY {n}.\n" for n in range(0, 20, 2)))
        for wait in waits[::2]:
            assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED
        for wait in waits[1::2]:
            assert room.row(wait).status is WaitStatus.WATCHING
        assert len(room.world.wakes()) == 10


async def test_nothing_of_a_watch_that_is_let_go_runs_on(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_taskmem.daemon.target_watchers.LINGER_SECONDS", 0.01)
    scene = stage.scene("build")
    async with watch_world(("stage", stage.plugin())) as room:
        await room.settle()
        before = asyncio.all_tasks()
        wait = await room.wait()
        await room.until(lambda: scene.attending == 1)

        await room.call("wait_cancel", wait_id=wait)

        await room.until(lambda: scene.closed == 1)
        await room.until(lambda: scene.attending == 0)
        await room.until(lambda: asyncio.all_tasks() <= before)


async def test_a_target_that_is_slow_to_answer_is_not_let_go(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("openclaw_taskmem.daemon.target_watchers.LINGER_SECONDS", 0.01)
    scene, answer = stage.scene("build"), ScriptedWatch.here
    closed: list[int] = []

    async def answer_late(watch: ScriptedWatch) -> Frame:
        """Answer long after an idle target would have been let go."""
        with suppress(TimeoutError):
            await asyncio.wait_for(asyncio.Event().wait(), 0.1)
        closed.append(scene.closed)
        return await answer(watch)

    monkeypatch.setattr(ScriptedWatch, "here", answer_late)
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait()
        scene.show("READY\n")
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED
    assert closed[0] == 0


async def test_a_new_target_of_an_old_name_is_watched_anew(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        first = await room.wait()
        stage.scene("build").leave("The command ended with status 1.")
        await room.wait_for_end(first)
        stage.scenes["build"] = type(stage.scene("build"))(stage, "build")

        second = await room.wait()
        stage.scene("build").show("READY\n")

        assert (await room.wait_for_end(second)).status is WaitStatus.RESOLVED


async def test_nothing_is_judged_while_nothing_changes(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        await room.wait(poll_interval=2, timeout=3600)
        await room.pass_time(10)
        before = stage.asked["READY"]
        looks = stage.scene("build").looks

        await room.pass_time(60)

        assert stage.asked["READY"] == before
        assert stage.scene("build").looks - looks <= 31


async def test_a_change_that_nobody_told_of_is_found_by_the_poll(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(poll_interval=2)
        await room.pass_time(5)
        stage.scene("build").text += "READY\n"

        await room.pass_time(3)

        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


# --- one bad wait -------------------------------------------------------------


async def hang(_: str, __: Frame) -> Ruling:
    await asyncio.Event().wait()
    raise AssertionError


async def test_a_judge_that_hangs_delays_neither_timeouts_nor_others(stage: Stage) -> None:
    stage.rules["HANG"] = hang
    async with watch_world(("stage", stage.plugin())) as room:
        made = await room.call("smart_wait", target="pty:build", wake_when="HANG", timeout=8)
        other = await room.wait()
        stage.scene("build").show("READY\n")
        assert (await room.wait_for_end(other)).status is WaitStatus.RESOLVED

        await room.pass_time(8)
        assert (await room.wait_for_end(made["wait_id"])).status is WaitStatus.TIMEOUT


async def test_look_begun_before_the_timeout_may_still_resolve_a_wait(stage: Stage) -> None:
    begun, go_on = threading.Event(), threading.Event()

    async def slowly(_: str, frame: Frame) -> Ruling:
        begun.set()
        await asyncio.to_thread(go_on.wait, 30)
        met = Met.YES if "READY" in (frame.text or "") else Met.NO
        return Ruling(met=met, observation="seen at last")

    stage.rules["SLOW"] = slowly
    async with watch_world(("stage", stage.plugin())) as room:
        stage.scene("build").whole = True
        stage.scene("build").show("READY\n")
        made = await room.call("smart_wait", target="pty:build", wake_when="SLOW", timeout=8)
        await room.until(begun.is_set)
        await room.clock.advance(8)
        go_on.set()
        assert (await room.wait_for_end(made["wait_id"])).status is WaitStatus.RESOLVED
        assert stage.asked["SLOW"] == 1


async def test_a_judge_that_was_given_up_is_not_asked_twice_at_once(stage: Stage) -> None:
    stage.rules["HANG"] = hang
    async with watch_world(("stage", stage.plugin())) as room:
        made = await room.call("smart_wait", target="pty:build", wake_when="HANG", timeout=8)
        await room.until(lambda: stage.asked["HANG"] == 1)
        await room.clock.advance(8)
        await room.wait_for_end(made["wait_id"])
        assert stage.asked["HANG"] == 1


async def test_a_judge_that_rests_is_left_alone_whatever_comes(stage: Stage) -> None:
    async def down(_: str, __: Frame) -> Ruling:
        raise JudgeUnavailable("down", 60)

    stage.rules["X"] = down
    async with watch_world(("stage", stage.plugin())) as room:
        await room.wait(wake_when="X")
        looks = stage.scene("build").looks
        for _ in range(5):
            stage.scene("build").show("more\n")
            await room.settle()
        assert stage.asked["X"] == 1
        assert stage.scene("build").looks - looks <= 1


async def test_a_judge_that_blocks_its_thread_delays_no_timeout(stage: Stage) -> None:
    over = threading.Event()

    async def block(_: str, __: Frame) -> Ruling:
        over.wait(60)
        return Ruling(met=Met.NO, observation="late")

    stage.rules["BLOCK"] = block
    async with watch_world(("stage", stage.plugin())) as room:
        made = await room.call("smart_wait", target="pty:build", wake_when="BLOCK", timeout=8)
        await room.until(lambda: stage.asked["BLOCK"] > 0)
        await room.clock.advance(8)
        try:
            assert (await room.wait_for_end(made["wait_id"])).status is WaitStatus.TIMEOUT
        finally:
            over.set()


async def test_judge_that_answers_too_late_is_reported_and_asked_again(stage: Stage) -> None:
    stage.rules["HANG"] = hang
    async with watch_world(("stage", stage.plugin()), judge_seconds=0.05) as room:
        wait = await room.wait(wake_when="HANG", timeout=3600)
        assert "script is in trouble: no answer within 0.05 s" in str(
            room.room.read_observation(wait)
        )
        asked = stage.asked["HANG"]
        await room.settle()
        assert stage.asked["HANG"] == asked  # it rests
        await room.pass_time(1.5)
        await room.until(lambda: stage.asked["HANG"] > asked)
        del stage.rules["HANG"]
        stage.scene("build").show("HANG\n")
        await room.pass_time(31)
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


@pytest.mark.parametrize("nonsense", [None, "yes", {"met": True}, Met.YES, RuntimeError("down")])
async def test_a_judge_that_talks_nonsense_never_resolves_a_wait(
    stage: Stage, nonsense: object
) -> None:
    async def rule(_: str, __: Frame) -> Ruling:
        if isinstance(nonsense, Exception):
            raise nonsense
        return nonsense  # type: ignore[return-value]

    stage.rules["X"] = rule
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(wake_when="X", timeout=30)
        assert "script is in trouble" in str(room.room.read_observation(wait))
        await room.pass_time(31)
        ended = await room.wait_for_end(wait)
        assert ended.status is WaitStatus.TIMEOUT
        assert "script is in trouble" in str(ended.last_observation)


async def test_judge_that_cancels_its_own_call_counts_as_in_trouble(stage: Stage) -> None:
    async def give_up(_: str, __: Frame) -> Ruling:
        raise asyncio.CancelledError

    stage.rules["X"] = give_up
    async with watch_world(("stage", stage.plugin())) as room:
        made = await room.call("smart_wait", target="pty:build", wake_when="X", timeout=30)
        await room.settle()
        await room.pass_time(31)
        ended = await room.wait_for_end(made["wait_id"])
        assert ended.status is WaitStatus.TIMEOUT
        assert ended.last_observation == (
            "Could not be judged since 06:00 UTC: script is in trouble: it gave up its own call."
        )


async def test_a_watch_is_told_what_each_judge_has_not_read(stage: Stage) -> None:
    async def down(_: str, __: Frame) -> Ruling:
        raise JudgeUnavailable("down", 60)

    stage.rules["slow"] = down
    async with watch_world(("stage", stage.plugin())) as room:
        slow = await room.wait(wake_when="slow", timeout=600)
        await room.wait(wake_when="X", timeout=600)
        stage.scene("build").show("one\n")
        await room.until(lambda: stage.asked["X"] == 2)
        stage.scene("build").show("two\n")
        await room.until(lambda: stage.scene("build").unread == {"0", "4"})
        room.world.call("wait_cancel", wait_id=slow)
        stage.scene("build").show("three\n")
        await room.until(lambda: stage.scene("build").unread == {"8"})


async def test_a_judge_says_itself_when_it_can_be_asked_again(stage: Stage) -> None:
    async def refuse_for_quota(_: str, __: Frame) -> Ruling:
        raise JudgeUnavailable("The quota is used up.", 25)

    stage.rules["X"] = refuse_for_quota
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(wake_when="X", timeout=300)
        assert "The quota is used up" in str(room.room.read_observation(wait))
        await room.pass_time(20)
        assert stage.asked["X"] == 1
        await room.pass_time(6)
        await room.until(lambda: stage.asked["X"] == 2)


@pytest.mark.parametrize(
    ("said", "rests"),
    [(3600, 300), (float("inf"), 1), (float("nan"), 1), ("an hour", 1)],
    ids=["an hour", "for ever", "no number", "a word"],
)
async def test_no_judge_is_left_alone_for_ever_whatever_it_says(
    stage: Stage, said: Any, rests: int
) -> None:
    async def refuse_for_quota(_: str, __: Frame) -> Ruling:
        raise JudgeUnavailable("The quota is used up.", said)

    stage.rules["X"] = refuse_for_quota
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(wake_when="X", timeout=3600)
        assert "The quota is used up" in str(room.room.read_observation(wait))
        await room.pass_time(rests - 0.5, step=5)
        assert stage.asked["X"] == 1
        await room.pass_time(1)
        await room.until(lambda: stage.asked["X"] == 2)


async def test_a_wait_tells_when_its_judge_could_not_be_asked(stage: Stage) -> None:
    down = False

    async def rule(_: str, frame: Frame) -> Ruling:
        if down:
            raise JudgeUnavailable("The model is away.")
        return Ruling(met=Met.NO, observation=f"It says {frame.text!r}")

    stage.rules["X"] = rule
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(wake_when="X", timeout=600)
        await room.pass_time(120)
        down = True
        stage.scene("build").show("at 85%")
        await room.until(lambda: "away" in (room.room.read_observation(wait) or ""))
        await room.pass_time(60, step=5)
        down = False
        await room.pass_time(480, step=30)
        ended = await room.wait_for_end(wait)
    assert str(ended.last_observation).startswith(
        "Could not be judged from 06:02 to 06:03 UTC (The model is away). It says "
    )


async def test_text_missed_by_a_failing_judge_is_shown_to_it_again(stage: Stage) -> None:
    down = True

    async def sometimes(wanted: str, frame: Frame) -> Ruling:
        if down:
            raise RuntimeError("down")
        met = Met.YES if "MARK" in (frame.text or "") else Met.NO
        return Ruling(met=met, observation=frame.text or "nothing")

    stage.rules["X"] = sometimes
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(wake_when="X")
        stage.scene("build").show("MARK\n")
        await room.settle()
        down = False
        stage.scene("build").show("more\n")
        await room.pass_time(5)
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


async def test_a_sensor_in_trouble_is_told_and_never_ends_a_wait(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait()
        scene = stage.scene("build")
        scene.trouble = OSError("the display is away")
        scene.show("READY\n")
        await room.until(lambda: "the display is away" in (room.room.read_observation(wait) or ""))
        scene.trouble = None
        await room.pass_time(5)
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


async def test_a_look_that_hangs_at_the_deadline_is_told_as_blind(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(timeout=8)
        scene = stage.scene("build")
        scene.hangs, looks = True, scene.looks
        scene.stir()
        await room.until(lambda: scene.looks > looks)
        await room.pass_time(8)
        ended = await room.wait_for_end(wait)
        assert ended.last_observation == (
            "Could not be judged since 06:00 UTC: pty:build was still being looked at when time "
            "was up"
        )


async def test_a_sensor_that_hangs_is_named_and_a_new_wait_told(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(target_watchers, "LOOK_SECONDS", 0.05)
    plugin = stage.plugin()
    plugin.__name__ = "tests"
    async with watch_world(("stage", plugin)) as room:
        stage.scene("build").hangs = True
        with pytest.raises(LookFailed) as refused:
            await room.call("smart_wait", target="pty:build", wake_when="READY")
        assert str(refused.value) == (
            "pty:build could not be seen: no answer within 0.05 s. Call again once it can be "
            "seen; see taskmem plugins. Nothing was written."
        )
        (named,) = [p for p in room.world.context.plugin_host.plugins if p.name == "stage"]
        assert named.last_error == "wait_sensor: TimeoutError: no answer within 0.05 s"
        assert room.world.store.find_waits(WaitQuery()) == []


async def test_judges_are_asked_in_order_until_one_is_sure(stage: Stage) -> None:
    asked: list[str] = []

    def judge(name: str, met: Met) -> object:
        async def rule(frame: Frame) -> Ruling:
            asked.append(name)
            return Ruling(met=met, observation=f"{name} says so")

        return SimpleNamespace(name=name, rule=rule)

    def make_plugin(name: str, met: Met) -> tuple[str, ModuleType]:
        return name, a_plugin(wait_judge=lambda: judge(name, met))

    sensor = a_plugin(wait_sensor=lambda: stage)
    # The last that is registered is asked first.
    judges = (make_plugin("c", Met.YES), make_plugin("b", Met.YES), make_plugin("a", Met.UNSURE))
    async with watch_world(("stage", sensor), *judges) as room:
        made = await room.call("smart_wait", target="pty:build", wake_when="X")
        ended = await room.wait_for_end(made["wait_id"])
        assert asked == ["a", "b"]
        assert ended.last_observation == "b says so."


# --- after a death ------------------------------------------------------------


async def test_after_a_death_a_wait_goes_on_with_the_time_that_is_left(stage: Stage) -> None:
    store, clock = MemoryStore(), FakeClock()
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        wait = await room.wait(timeout=100)
        first = room.world
    clock.tick(60)

    async with watch_world(
        ("stage", stage.plugin()), store=store, clock=clock, worlds=[first]
    ) as room:
        await room.until(lambda: room.room.read_observation(wait) is not None)
        await room.pass_time(39)
        assert room.row(wait).status is WaitStatus.WATCHING
        await room.pass_time(2)
        assert (await room.wait_for_end(wait)).status is WaitStatus.TIMEOUT
        assert len(room.world.wakes()) == 1


async def test_what_came_while_no_daemon_ran_is_seen(stage: Stage) -> None:
    store, clock = MemoryStore(), FakeClock()
    stage.scene("build").show("READY\n")  # before the wait: it does not count
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        wait = await room.wait(timeout=100)
        first = room.world
    stage.scene("build").text += "READY\n"

    async with watch_world(
        ("stage", stage.plugin()), store=store, clock=clock, worlds=[first]
    ) as room:
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


async def test_after_a_death_a_new_judge_is_shown_all_since_the_start(stage: Stage) -> None:
    frames = stage.keep_frames("X")
    store, clock = MemoryStore(), FakeClock()
    stage.scene("build").show("before\n")
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        wait = await room.wait(wake_when="X", timeout=600)
        stage.scene("build").show("one\n")
        await room.until(lambda: "one" in (frames[-1].text or ""))
        assert room.row(wait).start == str(len("before\n"))
        first = room.world
    frames.clear()
    stage.scene("build").text += "two\n"
    async with watch_world(
        ("stage", stage.plugin()), store=store, clock=clock, worlds=[first]
    ) as room:
        await room.until(lambda: frames)
        assert frames[0].text == "one\ntwo\n"


async def test_older_wait_that_nobody_can_judge_goes_on_and_says_why(stage: Stage) -> None:
    store, clock = MemoryStore(), FakeClock()
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        wait = await room.wait(wake_when="blue", timeout=100)
        first = room.world

    def refuse(wake_when: str) -> None:
        raise ConditionUnclear("Quote the text.")

    plugin = a_plugin(wait_sensor=lambda: stage, wait_judge=refuse)
    async with watch_world(("stage", plugin), store=store, clock=clock, worlds=[first]) as room:
        await room.until(lambda: room.room.read_observation(wait))
        assert room.row(wait).status is WaitStatus.WATCHING
        await room.pass_time(101)
        ended = await room.wait_for_end(wait)
        assert ended.status is WaitStatus.TIMEOUT
        assert ended.last_observation.startswith(
            'Could not be judged since 06:00 UTC: Nobody here can judge "blue" now: Quote the text.'
        )


async def test_without_its_reader_a_wait_is_judged_by_the_rules(stage: Stage) -> None:
    store, clock = MemoryStore(), FakeClock()
    words = '"READY" appears or the build looks odd'
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        wait = await room.wait(wake_when=words, timeout=600)
        first = room.world

    async def rule(frame: Frame) -> Ruling:
        met = Met.YES if "READY" in (frame.text or "") else Met.UNSURE
        return Ruling(met=met, observation=f"It says {frame.text!r}")

    judge = SimpleNamespace(name="rules", sides=(0,), rule=rule)
    plugin = a_plugin(wait_sensor=lambda: stage, wait_judge=lambda: judge)
    async with watch_world(("stage", plugin), store=store, clock=clock, worlds=[first]) as room:
        await room.until(lambda: room.room.read_observation(wait))
        assert room.room.read_observation(wait).endswith(
            'Nobody here can judge "the build looks odd" now.'
        )
        await room.pass_time(60)
        assert room.row(wait).status is WaitStatus.WATCHING
        stage.scene("build").show("READY\n")
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


async def test_a_judge_that_comes_later_is_asked_too(stage: Stage) -> None:
    store, clock = MemoryStore(), FakeClock()
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        wait = await room.wait(timeout=600)
        first = room.world
    judges = []
    plugin = a_plugin(wait_sensor=lambda: stage, wait_judge=lambda: judges[0] if judges else None)
    async with watch_world(("stage", plugin), store=store, clock=clock, worlds=[first]) as room:
        await room.until(lambda: room.room.read_observation(wait))
        stage.scene("build").show("READY\n")
        judges.append(ScriptedJudge(stage, "READY"))
        await room.pass_time(30)
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


async def test_a_wait_that_is_overdue_at_start_is_timed_out_at_once(stage: Stage) -> None:
    store, clock = MemoryStore(), FakeClock()
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        task = room.world.register()
        wait = await room.wait(timeout=100, task_id=task)
        first = room.world
    clock.tick(101)

    async with watch_world(
        ("stage", stage.plugin()), store=store, clock=clock, worlds=[first]
    ) as room:
        assert (await room.wait_for_end(wait)).status is WaitStatus.TIMEOUT
        assert room.world.task(task).linkage.active_wait_ids == ()
        assert len(room.world.wakes()) == 1


async def test_a_target_that_is_gone_after_a_death_is_told(stage: Stage) -> None:
    store, clock = MemoryStore(), FakeClock()
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        wait = await room.wait(timeout=100)
        first = room.world
    del stage.scenes["build"]

    async with watch_world(
        ("stage", stage.plugin()), store=store, clock=clock, worlds=[first]
    ) as room:
        ended = await room.wait_for_end(wait)
        assert ended.status is WaitStatus.ERROR
        assert "pty:build is gone" in str(ended.last_observation)


async def test_a_wait_that_was_overdue_at_start_still_sees_what_came(stage: Stage) -> None:
    store, clock = MemoryStore(), FakeClock()
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        wait = await room.wait(timeout=100)
        first = room.world
    clock.tick(101)
    stage.scene("build").text += "READY\n"
    stage.delay = 0.6  # seconds that the sensor takes to begin

    async with watch_world(
        ("stage", stage.plugin()), store=store, clock=clock, worlds=[first]
    ) as room:
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


async def test_a_row_that_names_no_target_harms_nobody(stage: Stage) -> None:
    store, clock = MemoryStore(), FakeClock()
    store.commit(Change(waits=(a_wait(target="nowhere", created_at=DAWN),)))
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        other = await room.wait()
        stage.scene("build").show("READY\n")

        assert (await room.wait_for_end(other)).status is WaitStatus.RESOLVED
        assert (await room.wait_for_end("wait_1")).status is WaitStatus.ERROR


async def test_a_wait_whose_home_is_gone_is_ended_by_another(stage: Stage) -> None:
    store, clock = MemoryStore(), FakeClock()
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        task = room.world.register()
        wait = await room.wait(timeout=100, task_id=task)
        theirs = room.row(wait).model_copy(update={"home": "home_2"})
    store.commit(Change(waits=(theirs,)))
    clock.tick(100 + 60)

    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        await room.settle()
        assert room.row(wait).status is WaitStatus.WATCHING  # its home may be late
        await room.pass_time(130, step=10)
        ended = await room.wait_for_end(wait)
        assert ended.status is WaitStatus.TIMEOUT
        assert "does not run any more" in str(ended.last_observation)
        assert room.world.task(task).linkage.active_wait_ids == ()


async def test_who_has_the_database_alone_watches_every_wait(stage: Stage) -> None:
    store, clock = MemoryStore(), FakeClock()
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        wait = await room.wait(timeout=100)
        theirs = room.row(wait).model_copy(update={"home": "a home that was lost"})
    store.commit(Change(waits=(theirs,)))
    stage.scene("build").text += "READY\n"

    async with watch_world(("stage", stage.plugin()), store=store, clock=clock, sole=True) as room:
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


async def test_what_another_daemon_ended_is_let_go_at_the_deadline(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(timeout=60)
        row = room.row(wait)
        ended = row.model_copy(update={"status": WaitStatus.CANCELLED})
        room.world.store.commit(Change(waits=(ended,)))

        await room.pass_time(61)

        await room.until(lambda: room.room.read_observation(wait) is None)
        assert room.row(wait).status is WaitStatus.CANCELLED
        assert room.world.wakes() == []


async def test_a_wall_that_jumps_neither_fires_nor_loses_a_wait(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(timeout=100)
        await room.pass_time(10)
        room.clock.jump(8 * 3600)
        await room.settle()
        assert room.row(wait).status is WaitStatus.WATCHING
        assert 89 <= room.room.list_seconds_left()[wait, 1] <= 91

        waits.set_deadlines(room.world.context, room.room.list_seconds_left())
        again = waits.set_deadlines(room.world.context, room.room.list_seconds_left())
        assert again is None
        waits.set_deadlines(room.world.context, {(wait, 2): 0.0})  # it is in its first round
        left = room.row(wait).deadline_at - room.clock.now()
        assert 89 <= left.total_seconds() <= 91
        await room.pass_time(88)
        assert room.row(wait).status is WaitStatus.WATCHING
        await room.pass_time(4)
        assert (await room.wait_for_end(wait)).status is WaitStatus.TIMEOUT


async def test_the_waits_of_another_home_are_left_to_its_own_daemon(stage: Stage) -> None:
    store, clock = MemoryStore(), FakeClock()
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        wait = await room.wait(timeout=100)
        theirs = room.row(wait).model_copy(update={"home": "home_2"})
    store.commit(Change(waits=(theirs,)))
    stage.scene("build").text += "READY\n"

    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        await room.settle()
        assert room.row(wait).status is WaitStatus.WATCHING
        assert room.room.read_observation(wait) is None


async def test_store_failing_at_a_wait_end_is_retried_until_it_works(stage: Stage) -> None:
    class Full(MemoryStore):
        left = 0

        def commit(self, change: Change) -> None:
            if self.left and change.wakes:
                self.left -= 1
                raise StoreFull("no room")
            super().commit(change)

    store = Full()
    async with watch_world(("stage", stage.plugin()), store=store) as room:
        wait = await room.wait(timeout=600)
        store.left = 3
        stage.scene("build").show("READY\n")
        await room.until(lambda: store.left < 3)
        await room.pass_time(20)
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED
        assert len(room.world.wakes()) == 1


# --- seen by people -----------------------------------------------------------


async def test_what_was_last_seen_is_told_while_it_is_watched(stage: Stage) -> None:
    from openclaw_taskmem.tools import views

    stage.says("X", {}, otherwise="It says token=ghp_" + "a1B2" * 9)
    async with watch_world(("stage", stage.plugin())) as room:
        seen = room.room.changes.count
        wait = await room.wait(wake_when="X")
        await room.until(lambda: "ghp_" in (room.room.read_observation(wait) or ""))

        assert await room.room.changes.wait_beyond(seen, 5) > seen
        (shown,) = await asyncio.to_thread(views.list_waits, room.world.context, {})
        assert isinstance(shown, dict)
        assert "[secret removed]" in str(shown["last_observation"])


async def test_no_secret_is_shown_to_a_judge_that_may_send_it_away(stage: Stage) -> None:
    frames = stage.keep_frames("X")
    async with watch_world(("stage", stage.plugin())) as room:
        await room.wait(wake_when="X")
        stage.scene("build").echoes = ("TOKEN=ghp_" + "a1B2" * 9 + " make",)
        stage.scene("build").show(stage.scene("build").echoes[0])
        await room.until(lambda: len(frames) > 1)
    shown = "TOKEN=[secret removed] make"
    assert (frames[-1].text, frames[-1].tail, frames[-1].echoes) == (*(shown, shown), (shown,))


async def test_the_middle_of_a_private_key_is_not_shown(stage: Stage) -> None:
    frames = stage.keep_frames("X")
    async with watch_world(("stage", stage.plugin())) as room:
        await room.wait(wake_when="X")
        stage.scene("build").show(("aB1x" * 16 + "\n") * 70)
        await room.until(lambda: any(f.text for f in frames))
    assert "aB1x" not in f"{[(f.text, f.tail) for f in frames if f.text]}"


@pytest.mark.parametrize("raised", [False, True], ids=["is told", "is raised"])
async def test_no_secret_is_in_what_else_a_judge_is_told_of_a_target(
    stage: Stage, *, raised: bool
) -> None:
    secret = "TOKEN=ghp_" + "a1B2" * 9
    frames = stage.keep_frames("X")
    scene = stage.scene("build")
    scene.note = f"There are two of {secret}."
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait(wake_when="X")
        if raised:
            scene.trouble = TargetGone(f"make {secret} ended.")
        scene.leave(f"make {secret} ended.")
        await room.wait_for_end(wait)
    assert frames[0].note == "There are two of TOKEN=[secret removed]."
    assert frames[-1].gone == "make TOKEN=[secret removed] ended."


async def test_the_answer_shows_the_last_lines_that_are_there(stage: Stage) -> None:
    stage.scene("build").show("one\ntwo\nthree\n\x1b[31mfour\n")
    async with watch_world(("stage", stage.plugin())) as room:
        answer = await room.call("smart_wait", target="pty:build", wake_when="READY", timeout=1.5)
    assert answer["message"].startswith("Monitoring. I'll wake you when: READY. Timeout: 1.5s.")
    assert "two ⏎ three ⏎ [31mfour" in answer["message"]


async def test_a_wait_alone_is_answered_by_a_call_on_it(stage: Stage) -> None:
    async with watch_world(("stage", stage.plugin())) as room:
        wait = await room.wait()
        stage.scene("build").show("READY\n")
        await room.wait_for_end(wait)
        room.world.deliver()

        await room.call("wait_cancel", wait_id=wait)

        (wake,) = room.world.wakes()
        assert wake.state == "acknowledged"


# --- several sensors --------------------------------------------------------------


async def test_the_sensor_that_finds_the_target_watches_it(stage: Stage) -> None:
    other = Stage()
    other.scene("deploy")
    sensors = a_plugin(wait_sensor=lambda: other)
    async with watch_world(("other", sensors), ("stage", stage.plugin())) as room:
        build, deploy = await room.wait(), await room.wait("pty:deploy")
        stage.scene("build").show("READY\n")
        assert (await room.wait_for_end(build)).status is WaitStatus.RESOLVED
        assert room.row(deploy).status is WaitStatus.WATCHING
        with pytest.raises(TargetNotFound) as refused:
            await room.call("smart_wait", target="pty:x", wake_when="READY")
    assert str(refused.value) == (
        "There is no pty:x; there is deploy. There is no pty:x; there is build."
    )


async def test_a_target_is_watched_by_the_other_name_that_it_has(stage: Stage) -> None:
    async def watch(target: Target) -> Target:
        if target.name != "vivid-shoal":
            raise TargetNotFound("")
        return Target(scheme="pty", name="build")

    named = a_plugin(wait_sensor=lambda: SimpleNamespace(watch=watch))
    async with watch_world(("stage", stage.plugin()), ("named", named)) as room:
        wait = await room.wait("pty:vivid-shoal")
        stage.scene("build").show("READY\n")
        ended = await room.wait_for_end(wait)
        assert (ended.status, ended.target) == (WaitStatus.RESOLVED, "pty:vivid-shoal")
        again = await room.call("wait_update", wait_id=wait, timeout=60)
        assert again["status"] == "watching"


async def test_a_sensor_that_fails_keeps_no_other_from_its_targets(stage: Stage) -> None:
    async def watch(target: Target) -> None:
        raise OSError("broken")

    bad = a_plugin(wait_sensor=lambda: SimpleNamespace(watch=watch))
    async with watch_world(("stage", stage.plugin()), ("bad", bad)) as room:
        wait = await room.wait()
        stage.scene("build").show("READY\n")
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED
        with pytest.raises(NoProvider, match="broken"):
            await room.call("smart_wait", target="pty:x", wake_when="READY")


async def test_a_target_that_may_come_back_is_waited_for_on(stage: Stage) -> None:
    store, clock = MemoryStore(), FakeClock()
    async with watch_world(("stage", stage.plugin()), store=store, clock=clock) as room:
        wait = await room.wait()
        first = room.world
    away = True

    async def watch(target: Target) -> Any:
        if away:
            raise TargetNotFound("The gateway is away.", sure=False)
        return await stage.watch(target)

    sensor = a_plugin(
        wait_sensor=lambda: SimpleNamespace(watch=watch),
        wait_judge=lambda wake_when: ScriptedJudge(stage, wake_when),
    )
    async with watch_world(("stage", sensor), store=store, clock=clock, worlds=[first]) as room:
        await room.until(lambda: room.room.read_observation(wait) == "The gateway is away.")
        with pytest.raises(TargetNotFound, match="The gateway is away"):
            await room.call("smart_wait", target="pty:build", wake_when="READY")
        away = False
        stage.scene("build").text += "READY\n"
        await room.pass_time(5)
        assert (await room.wait_for_end(wait)).status is WaitStatus.RESOLVED


# --- judges ahead of the first wait ---------------------------------------------


async def test_what_judges_a_terminal_is_asked_for_before_any_wait(stage: Stage) -> None:
    asked: list[tuple[str, int, tuple[int, ...]]] = []

    def wait_judge(target: Target, condition: Condition) -> None:
        asked.append((target.scheme, len(condition.sides), condition.free))

    async with watch_world(("noting", a_plugin(wait_judge=wait_judge))) as room:
        await asyncio.to_thread(room.room.load_judges)

    assert asked == [("pty", 2, (1,))]


async def test_a_wait_whose_judge_is_late_is_told_to_call_again(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    over = threading.Event()

    def wait_judge() -> None:
        over.wait(30)

    slow = a_plugin(wait_judge=wait_judge, wait_sensor=lambda: stage)
    async with watch_world(("slow", slow)) as room:
        monkeypatch.setattr(room.world.context.plugin_host, "_seconds", 0.05)
        with pytest.raises(JudgeUnavailable, match=r"slow gave no answer .* Call again"):
            await room.wait()
        over.set()


async def test_what_may_not_be_looked_at_is_refused_as_the_sensor_says(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def refuse(_: ScriptedWatch) -> Frame:
        raise NotAllowed("It is private; ask the user.")

    monkeypatch.setattr(ScriptedWatch, "here", refuse)
    async with watch_world(("stage", stage.plugin())) as room:
        with pytest.raises(NotAllowed, match=r"^It is private; ask the user\.$"):
            await room.wait()
