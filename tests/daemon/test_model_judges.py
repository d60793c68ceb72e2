"""What rules cannot settle is asked of a model, when there is a key: on a real daemon,
with a model that is played over HTTP."""

from __future__ import annotations

import pytest

from openclaw_taskmem.faces.link import LinkError
from tests.plugins.vision.fake_gemini import FakeGemini, shows
from tests.support.daemons import command, row
from tests.support.waiting import until

VAGUE = "the report looks complete"
KEYS = {"GEMINI_API_KEY": "", "GOOGLE_API_KEY": ""}


@pytest.fixture
def log(tmp_path):
    path = tmp_path / "report.log"
    path.touch()
    return path


def waiting(daemon, log, **given):
    asked = {"target": f"pty:file:{log}", "wake_when": VAGUE, "timeout": 60, **given}
    return daemon.call("smart_wait", **asked)["wait_id"]


def test_without_a_key_it_is_refused_with_what_would_help(start, log):
    daemon = start(**KEYS)

    with pytest.raises(LinkError, match=r"GEMINI_API_KEY") as refused:
        waiting(daemon, log)

    assert refused.value.name == "condition_unclear"
    assert daemon.ask("waits", all=True) == []


def test_with_a_key_a_model_settles_it(start, log):
    with FakeGemini(shows("Page 12 of 12")) as model:
        daemon = start(**KEYS | model.environ)
        wait = waiting(daemon, log)
        with log.open("a") as file:
            file.write("Page 12 of 12\n")

        until(lambda: row(daemon, wait)["status"] == "resolved", "it resolves")

        sent = str(model.requests[-1])
        assert VAGUE in sent
        assert "Page 12 of 12" in sent


def test_a_model_that_is_down_is_told_and_never_resolves(start, log):
    with FakeGemini(shows("never")) as model:
        model.script.extend([{"status": 500}] * 50)
        daemon = start(**KEYS | model.environ)
        wait = waiting(daemon, log, timeout=4)

        until(lambda: row(daemon, wait)["status"] != "watching", "it ends")

        ended = row(daemon, wait)
        assert ended["status"] == "timeout"
        assert "gemini" in ended["last_observation"]
        assert "is in trouble" in ended["last_observation"]


def test_what_rules_settle_is_never_sent_to_a_model(start, log):
    with FakeGemini(shows("never")) as model:
        daemon = start(**KEYS | model.environ)
        wait = waiting(daemon, log, wake_when='"Build finished" appears')
        with log.open("a") as file:
            file.write("Build finished\n")

        until(lambda: row(daemon, wait)["status"] == "resolved", "it resolves")

        assert model.requests == []


# --- what it costs ----------------------------------------------------------------


def asked_once(start, model, log, **settings):
    """A daemon that has asked one question, and how it was answered."""
    daemon = start(**KEYS | model.environ | settings)
    wait = waiting(daemon, log)
    with log.open("a") as file:
        file.write("Page 12 of 12\n")
    until(lambda: row(daemon, wait)["status"] == "resolved", "it resolves")
    return daemon


def test_status_tells_what_a_model_has_cost_also_after_it_was_killed(start, log, home):
    with FakeGemini(shows("Page 12 of 12")) as model:
        daemon = start(**KEYS | model.environ)
        assert daemon.ask("status")["models"] == []
        assert "question" not in command(home, "status")[1]
        daemon.stop()

        daemon = asked_once(start, model, log)
        (told,) = daemon.ask("status")["models"]
        assert told["model"] == "gemini-3.5-flash-lite"
        assert told["calls"] == len(model.requests) > 0
        assert told["calls_allowed"] == 1000
        assert told["tokens_in"] > 0
        assert told["tokens_out"] > 0
        assert told["cost_dollars"] > 0
        said = f"gemini-3.5-flash-lite: {told['calls']} of 1000 questions today, "
        assert said in command(home, "status")[1]

        daemon.kill()
        daemon.restart()
        assert daemon.ask("status")["models"] == [told]


def test_when_the_day_is_used_up_it_is_told_and_nothing_is_sent_after_a_restart(
    start, log
):
    with FakeGemini(shows("Page 12 of 12")) as model:
        daemon = asked_once(start, model, log)
        used = len(model.requests)
        daemon.restart(TASKMEM_GEMINI_CALLS_PER_DAY=str(used))
        wait = waiting(daemon, log)
        with log.open("a") as file:
            file.write("Page 12 of 12\n")

        until(
            lambda: "is in trouble" in str(row(daemon, wait)["last_observation"]),
            "it is told",
        )

        told = row(daemon, wait)["last_observation"]
        assert f"(TASKMEM_GEMINI_CALLS_PER_DAY is {used})" in told
        assert len(model.requests) == used
        assert daemon.ask("status")["models"][0]["calls"] == used


def test_where_no_question_is_allowed_a_wait_is_refused_at_once(start, log):
    with FakeGemini(shows("never")) as model:
        daemon = start(**KEYS | model.environ, TASKMEM_GEMINI_CALLS_PER_DAY="0")
        with pytest.raises(LinkError, match="set TASKMEM_GEMINI_CALLS_PER_DAY higher"):
            waiting(daemon, log)
