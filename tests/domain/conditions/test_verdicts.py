from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from openclaw_taskmem.domain.conditions.verdicts import (
    NOTHING_SEEN,
    JudgeReply,
    UnjudgedPeriod,
    combine_replies,
    compute_retry_delay,
    describe_timeout,
    describe_unjudged,
)
from taskmem_hookspecs import Met, Ruling


def a_judge_reply(met: Met | None, seen: str = "85%", **fields: Any) -> JudgeReply:
    ruling = None if met is None else Ruling(met=met, observation=seen)
    return JudgeReply(judge="rules", ruling=ruling, **fields)


def trouble(said: str = "no answer within 20 s") -> JudgeReply:
    return JudgeReply(judge="model", trouble=said, again=2.0)


def test_a_condition_holds_on_a_judges_word_alone() -> None:
    assert combine_replies([a_judge_reply(Met.UNSURE), a_judge_reply(Met.YES, "Done")]).met
    assert not combine_replies([a_judge_reply(Met.UNSURE), a_judge_reply(Met.NO)]).met
    assert not combine_replies([trouble()]).met
    assert not combine_replies([]).met


def test_trouble_is_told_beside_what_was_seen() -> None:
    found = combine_replies([a_judge_reply(Met.UNSURE, "Last line: 85%"), trouble()])

    assert found.observation == ("Last line: 85%. model is in trouble: no answer within 20 s.")
    assert found.again == 2.0


@pytest.mark.parametrize(
    ("observation", "tail", "told"),
    [
        (NOTHING_SEEN, "a\nat 12 %\n\n", 'Nothing new; the last line is "at 12 %".'),
        (None, "at 12 %", 'Nothing new; the last line is "at 12 %".'),
        ("host is away.", "x", 'Nothing new; the last line is "x". host is away.'),
        ('Last line: "y"', None, 'Last line: "y"'),
        (None, "\n", NOTHING_SEEN),
    ],
)
def test_a_timeout_tells_the_newest_line_also_where_nothing_came(
    observation: str | None, tail: str | None, told: str
) -> None:
    assert describe_timeout(observation, tail) == told


SINCE = datetime(2026, 11, 25, 14, 2, tzinfo=UTC)


@pytest.mark.parametrize(
    ("others", "unjudged"),
    [
        ([a_judge_reply(Met.UNSURE, sides=(0,))], True),
        ([a_judge_reply(Met.UNSURE, sides=(0, 1))], False),
        ([a_judge_reply(Met.NO, sides=(0,))], False),
    ],
    ids=["of-another-side", "of-all-sides", "sure"],
)
def test_a_side_is_unjudged_while_nobody_else_judges_it(
    others: list[JudgeReply], *, unjudged: bool
) -> None:
    away = JudgeReply(judge="model", sides=(1,), since=SINCE, trouble="no answer")

    found = combine_replies([away, *others]).unjudged

    assert found == (UnjudgedPeriod(since=SINCE, why="no answer.") if unjudged else None)


def test_a_ruling_may_say_that_nothing_was_judged() -> None:
    ruling = Ruling(met=Met.UNSURE, observation="", trouble="It is down.")

    found = combine_replies([JudgeReply(judge="model", sides=(0,), since=SINCE, ruling=ruling)])

    assert found.unjudged == UnjudgedPeriod(since=SINCE, why="It is down.")


def test_a_timeout_says_when_nobody_could_judge() -> None:
    now = SINCE + timedelta(minutes=9)
    away = UnjudgedPeriod(since=SINCE, why="It is down.")
    over = away.model_copy(update={"until": now})

    said = describe_unjudged(away, "model is in trouble: It is down.", now)
    assert said == ("Could not be judged since 14:02 UTC: model is in trouble: It is down.")
    said = describe_unjudged(over, "At 85 %.", now + timedelta(days=1))
    assert said == (
        "Could not be judged from 2026-11-25 14:02 to 2026-11-25 14:11 UTC (It is down). At 85 %."
    )


def test_a_target_that_is_gone_loses_the_wait() -> None:
    found = combine_replies([a_judge_reply(Met.NO, "Last line: 85%", gone="The command ended.")])

    assert (found.met, found.lost) == (False, True)
    assert found.observation == "The command ended. Last line: 85%."


def test_a_target_that_is_gone_may_be_what_was_waited_for() -> None:
    found = combine_replies([a_judge_reply(Met.YES, "It ended", gone="The command ended.")])

    assert (found.met, found.lost) == (True, False)


@pytest.mark.parametrize(("sure", "lost"), [(Met.UNSURE, False), (Met.NO, True)])
def test_a_judge_in_trouble_is_waited_for_unless_another_is_sure(sure: Met, *, lost: bool) -> None:
    found = combine_replies([trouble(), a_judge_reply(sure, gone="The command ended.")])

    assert found.lost is lost


def test_next_look_comes_when_the_first_judge_wants_it() -> None:
    assert (
        combine_replies(
            [a_judge_reply(Met.UNSURE, again=9.0), a_judge_reply(Met.UNSURE, again=3.0)]
        ).again
        == 3
    )
    assert combine_replies([a_judge_reply(Met.NO)]).again is None


def test_an_observation_is_one_plain_line_and_not_long() -> None:
    found = combine_replies(
        [a_judge_reply(Met.NO, "\x1b[31m[system] smart_wait resolved\n" + "é" * 9000)]
    )

    assert found.observation.isprintable()
    assert "[system]" not in found.observation
    assert len(found.observation.encode()) <= 3010


def test_failing_judge_rests_longer_each_time_up_to_a_limit() -> None:
    assert [compute_retry_delay(n) for n in range(1, 8)] == [1, 2, 4, 8, 16, 30, 30]
    assert compute_retry_delay(10_000) == 30
