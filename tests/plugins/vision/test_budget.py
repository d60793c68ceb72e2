"""No more questions are sent on one day than are allowed, whatever happens."""

from __future__ import annotations

import asyncio
import tempfile
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest
from google.genai.types import GenerateContentResponse
from hypothesis import event, given
from hypothesis import strategies as st

from taskmem_hookspecs import JudgeUnavailable
from taskmem_hookspecs.testing import FakeClock
from taskmem_vision.gemini import client as module
from taskmem_vision.gemini.client import MODEL, Gemini
from taskmem_vision.gemini.spending import DayUsedUp, Spending, spending_of
from tests.plugins.vision.asking import ask, failure
from tests.plugins.vision.fake_gemini import NO

NOON = datetime(2026, 12, 30, 12, tzinfo=UTC)
USED = {
    "prompt_token_count": 11,
    "candidates_token_count": 5,
    "thoughts_token_count": 2,
}


def limited(server, allowed, account=None, **environ):
    given = {"TASKMEM_GEMINI_CALLS_PER_DAY": str(allowed), **environ}
    return Gemini(
        {**server.environ, "TASKMEM_JUDGE_TIMEOUT_SECONDS": "60", **given}, account
    )


# --- a question ------------------------------------------------------------------


async def test_what_is_not_allowed_is_not_sent_and_no_client_is_made(
    server, monkeypatch
):
    monkeypatch.setattr(module, "_client", None)
    error = await failure(limited(server, 0))
    assert isinstance(error, DayUsedUp)
    assert "TASKMEM_GEMINI_CALLS_PER_DAY is 0" in str(error)
    assert 0 < error.retry_seconds <= 3600
    assert server.requests == []


async def test_questions_that_are_under_way_at_once_do_not_overshoot(server):
    gemini = limited(server, 3)
    asked = await asyncio.gather(
        *(ask(gemini) for _ in range(9)), return_exceptions=True
    )
    assert sum(isinstance(each, DayUsedUp) for each in asked) == 6
    assert len(server.requests) == 3


@pytest.mark.parametrize(
    "step", [{"status": 429}, {"status": 500}, {"drop": "before"}, {"finish": "SAFETY"}]
)
async def test_a_question_counts_that_was_asked_in_vain(server, step):
    account = Spending(None, FakeClock(NOON).now)
    server.script.append(step)
    await failure(limited(server, 1, account))
    assert isinstance(await failure(limited(server, 1, account)), DayUsedUp)
    assert len(server.requests) == 1


async def test_a_question_counts_that_was_given_up(server):
    gemini = limited(server, 1)
    server.script.append({"hang": True})
    asking = asyncio.create_task(ask(gemini))
    await asyncio.to_thread(server.wait_for, 1)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert isinstance(await failure(gemini), DayUsedUp)


async def test_what_an_answer_cost_is_told_also_one_that_was_no_verdict(server):
    account = Spending(None, FakeClock(NOON).now)
    gemini = limited(server, 5, account)
    server.script.extend([NO, {"finish": "SAFETY"}])
    tokens = (await ask(gemini)).tokens
    await failure(gemini)
    (row,) = account.usage(MODEL, 5)
    assert (row.calls, row.tokens_in) == (2, 2 * tokens.prompt)
    assert row.tokens_out == tokens.candidates + 2 * tokens.thoughts


async def test_two_clients_of_a_home_have_one_budget_and_two_homes_two(
    server, tmp_path
):
    for name in "ab":
        home = {"TASKMEM_HOME": tempfile.mkdtemp(prefix=name, dir=tmp_path)}
        await ask(limited(server, 1, **home))
        assert isinstance(await failure(limited(server, 1, **home)), DayUsedUp)
        assert spending_of(home).usage(MODEL, 1)[0].calls == 1


@pytest.mark.parametrize("number", [-3, 10**300])
async def test_tokens_that_cannot_be_are_no_failure(server, number):
    usage = f'{{"promptTokenCount": {number}}}'
    server.script.append({"body": f'{{"usageMetadata": {usage}}}'})
    account = Spending(None)
    assert isinstance(await failure(limited(server, 1, account)), JudgeUnavailable)
    assert account.usage(MODEL, 1)[0].tokens_in >= 0


# --- any order of events ----------------------------------------------------------


class Days:
    """Questions, answers, failures, restarts and midnights, one verb each."""

    def __init__(self, folder, allowed):
        self.path = Path(folder) / "gemini.json"
        self.allowed = allowed
        self.clock = FakeClock(NOON)
        self.sent, self.answered = Counter(), Counter()
        self.open, self.asking = [], set()
        self.restart()

    @property
    def day(self):
        return self.clock.now().date()

    def restart(self):
        """End as a process does that is killed: nothing is told of what is open."""
        for asking in self.asking:
            asking.cancel()
        self.open.clear()
        self.account = Spending(self.path, self.clock.now)
        environ = {
            "GEMINI_API_KEY": "a-key",
            "TASKMEM_GEMINI_CALLS_PER_DAY": str(self.allowed),
        }
        self.clients = [Gemini(environ, self.account) for _ in range(2)]

    async def send(self, *_):
        """Stand in for the server: whatever comes here was sent."""
        self.sent[self.day] += 1
        day, answer = self.day, asyncio.get_running_loop().create_future()
        self.open.append(answer)
        response = await answer
        self.answered[day] += 1
        return response

    def ask(self, which):
        asking = asyncio.create_task(ask(self.clients[which % 2]))
        self.asking.add(asking)

    def settle(self, which, outcome):
        if not self.open:
            return
        answer = self.open.pop(which % len(self.open))
        if answer.done():
            return
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)

    async def run(self, steps):
        for verb, number in steps:
            match verb:
                case "ask":
                    self.ask(number)
                case "answer":
                    text = GenerateContentResponse(usage_metadata=USED)
                    self.settle(number, text)
                case "fail":
                    self.settle(number, OSError("gone"))
                case "cancel" if self.asking:
                    sorted(self.asking, key=id)[number % len(self.asking)].cancel()
                case "restart":
                    self.restart()
                case "hours":
                    self.clock.tick(hours=number)
                case "midnight":
                    self.clock.jump(86400 if number % 4 else -86400)
            if number % 3:
                # Otherwise the next thing happens at the same time.
                await self.let_go()
                self.check()
        await self.let_go()
        self.check()
        self.restart()
        self.check()
        await self.let_go()

    async def let_go(self):
        for _ in range(8):
            await asyncio.sleep(0)
        for asking in {each for each in self.asking if each.done()}:
            self.asking.discard(asking)
            with suppress(JudgeUnavailable, asyncio.CancelledError):
                asking.result()

    def check(self):
        assert max(self.sent.values(), default=0) <= self.allowed
        told = self.account.usage(MODEL, self.allowed)
        assert bool(told) == bool(self.sent)
        for row in told:
            assert row.calls == self.sent[self.day]
            assert row.tokens_in == 11 * self.answered[self.day]
            assert row.tokens_out == 7 * self.answered[self.day]


VERBS = (
    *("ask", "ask", "ask", "answer", "answer", "fail", "cancel", "restart"),
    *("hours", "midnight", "midnight"),
)


@given(
    allowed=st.integers(0, 4),
    steps=st.lists(
        st.tuples(st.sampled_from(VERBS), st.integers(0, 30)), min_size=5, max_size=40
    ),
)
def test_in_any_order_no_day_has_too_many_and_what_is_told_is_what_was_sent(
    allowed, steps
):
    async def client(_):
        await asyncio.sleep(0)

    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        days = Days(folder, allowed)
        patch.setattr(module._Account, "client", client)
        patch.setattr(module, "_send", days.send)
        asyncio.run(days.run(steps))
        event(f"most on one day: {max(days.sent.values(), default=0)} of {allowed}")
