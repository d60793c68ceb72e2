"""Wakes by the plug-in: once, at the right moment, to the right session, whatever goes wrong.

Every wake is consumed once, or is still owed and says why.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from secrets import token_hex
from threading import Event
from typing import Any

import pytest

from taskmem_openclaw.plugin_socket import ask_gateway, find_socket
from tests.e2e.gateway import MAIN_SESSION
from tests.e2e.house import House, woken_by
from tests.e2e.interruptions import around_a_kill
from tests.e2e.room import until
from tests.e2e.scripted_model import Call, ModelRequest, Reply, text_of
from tests.e2e.shared_house import Story
from tests.e2e.taskmem import PLUGIN
from tests.e2e.test_resuming import Cutter, begin_call
from tests.support.long_tests import choose_count

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

SETTINGS: dict[str, str] = {}
RESTARTS = choose_count("TASKMEM_RESTARTS", 2, 20)
"""Graceful restarts of the gateway; `--long` and TASKMEM_RESTARTS make more of them."""
RESUMED = "Your previous turn was interrupted by a gateway restart"
OTHER = "agent:main:other"
GHOST = "agent:main:ghost"


@contextmanager
def keep_reconfigured(
    house: House, change: Callable[[dict[str, Any]], object], is_taken: Callable[[], object]
) -> Iterator[None]:
    """Let the gateway have another configuration of our plug-in, and then its own again."""
    before = house.gateway.room.config.read_text()
    changed = json.loads(before)
    change(changed)
    house.take_up(json.dumps(changed), is_taken)
    try:
        yield
    except BaseException:
        house.gateway.room.config.write_text(before)
        raise
    others = house.boots
    house.take_up(before, lambda: house.boots - others)
    # A turn that begins while the gateway loads plug-ins anew may be given up.
    until(lambda: house.gateway.turn("hello")["status"] == "ok", "turns are taken again")


def seconds(later: str, earlier: str) -> float:
    """The time between two instants of a list."""
    times = [datetime.fromisoformat(each) for each in (later, earlier)]
    return (times[0] - times[1]).total_seconds()


def history(house: House) -> list[dict[str, Any]]:
    """What the main session's chat shows."""
    with house.gateway.rpc() as rpc:
        found = rpc.call("chat.history", sessionKey=MAIN_SESSION, limit=200)
    return list(found["messages"])


def line_of(phrase: str) -> str:
    """The line of a wake for a phrase that was seen at once."""
    return f'[taskmem]\n\nwatched.log: "{phrase}" appeared: "{phrase}" after 0 s.'


def keep_if_held(wake: dict[str, Any]) -> dict[str, Any] | None:
    """A wake, if it waits for the end of a turn."""
    return wake if wake["held"] == "a turn of the session is running" else None


def test_wake_starts_one_turn_and_is_acknowledged_by_the_answer(house: House):
    # A main session that has had no turn yet is made by one.
    early = house.wake("early")
    assert house.reaches(early, "acknowledged")["transport"] == "openclaw-plugin"
    assert house.arrivals(early) == 1

    house.gateway.say("hello")
    wait = house.wake("ready")
    wake = house.reaches(wait, "acknowledged")
    assert house.arrivals(wait) == 1
    assert wake["transport"] == "openclaw-plugin"
    assert (wake["attempts"], wake["last_error"], wake["note"]) == (1, None, None)
    [request] = [each for each in house.model.requests if wait in woken_by(each)]
    text = request.turn.text
    # It is the user's turn that begins, not a heartbeat, and the wake is no mere data.
    assert "heartbeat" not in text.lower()
    assert text.index("[system] smart_wait resolved") < text.index("[taskmem]")
    assert text.index("[taskmem]") < text.index("INTERNAL_CONTEXT")
    # The chat shows what was seen, in our name and not as the user's words. The line
    # that a wait begins is left out, for a wait that ends at once has none.
    told = [row for row in history(house) if '" appeared: ' in text_of(row)]
    assert [(row["role"], text_of(row)) for row in told] == [
        ("assistant", line_of("early")),
        ("assistant", line_of("ready")),
    ]
    assert wait not in str(history(house))

    # Heartbeats that are switched off do not matter.
    with house.gateway.rpc() as rpc:
        rpc.call("set-heartbeats", enabled=False)
    quiet = house.wake("quiet")
    house.reaches(quiet, "acknowledged")
    assert house.arrivals(quiet) == 1
    with house.gateway.rpc() as rpc:
        rpc.call("set-heartbeats", enabled=True)

    # The main session has two names, and takes one wake at a time by either.
    named, other = house.open_wait("one"), house.open_wait("two", "main")
    house.end("one", "two")
    for wait in (named, other):
        house.reaches(wait, "acknowledged")
        assert house.arrivals(wait) == 1
    assert not any({named, other} <= set(woken_by(each)) for each in house.model.requests)

    # A session that is not there is not made by a wake.
    nobody = house.wake("nobody", GHOST)
    refused = house.reaches(nobody, "refused")
    assert "has no session" in refused["last_error"]
    with house.gateway.rpc() as rpc:
        keys = [row["key"] for row in rpc.call("sessions.list")["sessions"]]
    assert GHOST not in keys


def test_wakes_wait_for_a_busy_session_and_share_few_turns(house: House):
    house.gateway.say("hello")
    reached, go = Event(), Event()

    def busy(request: ModelRequest) -> str:
        if "Work hard" in request.turn.text and request.opens_turn:
            reached.set()
            assert go.wait(240)
        return "Done."

    house.model.decide = busy
    with house.gateway.rpc() as rpc:
        rpc.call("agent", sessionKey=MAIN_SESSION, message="Work hard", idempotencyKey="hard")
        assert reached.wait(240)
        phrases = [f"number {n} is ready" for n in range(100, 130)]
        waits = [house.open_wait(phrase) for phrase in phrases]
        house.end(*phrases)
        for wait in waits:
            # Until the gateway has settled, that is the reason that is given.
            wake = until(lambda wait=wait: keep_if_held(house.wake_of(wait)), "it is held")
            assert (wake["state"], wake["attempts"]) == ("due", 0)
        assert not any(house.arrivals(wait) for wait in waits)
        go.set()
        rpc.call("agent.wait", runId="hard", timeoutMs=180_000)
    for wait in waits:
        house.reaches(wait, "acknowledged")
        assert house.arrivals(wait) == 1
    turns = [each for each in house.model.requests if {*waits} & {*woken_by(each)}]
    assert len(turns) <= 2


def hand_over(house: House, session: str, text: str) -> dict[str, Any]:
    """Hand the plug-in a wake at this very moment, whatever the daemon knows of the session."""
    wake = {"key": text, "delivery_id": text, "text": text, "message": ""}
    socket = find_socket(house.taskmem.environment)
    return asyncio.run(ask_gateway(socket, "wake", 60, session_key=session, **wake))


def count_turns(house: House, text: str) -> int:
    """How many turns began with a text."""
    return sum(text in each.turn.text and each.opens_turn for each in house.model.requests)


def test_wakes_handed_over_in_the_midst_of_turns_are_in_one(house: House):
    house.gateway.say("hello")
    reached, go = Event(), Event()

    def work(request: ModelRequest) -> str:
        if "the first" in request.turn.text:
            reached.set()
            assert go.wait(240)
        return "Heard: " + request.turn.text

    house.model.decide = work
    assert hand_over(house, MAIN_SESSION, "the first") == {"turn": "ordinary"}
    assert reached.wait(240)
    # The daemon hands it over so if it does not know yet that the turn has begun.
    assert hand_over(house, MAIN_SESSION, "the second") == {"turn": "started before"}
    assert count_turns(house, "the second") == 0
    go.set()
    until(lambda: count_turns(house, "the second"), "a turn has begun for it", 60)

    # Together with a message of the user, a wake makes one turn, and both are answered.
    house.gateway.wait_until_idle(MAIN_SESSION)
    with house.gateway.rpc() as rpc, ThreadPoolExecutor() as pool:
        handed = pool.submit(hand_over, house, MAIN_SESSION, "the third")
        typed = {"message": "Good morning.", "idempotencyKey": token_hex(8)}
        rpc.call("chat.send", sessionKey=MAIN_SESSION, **typed)
        assert "turn" in handed.result()

    def is_heard(words: str) -> bool:
        told = [text_of(each) for each in history(house) if each["role"] == "assistant"]
        return any("Heard:" in each and words in each for each in told)

    until(lambda: is_heard("Good morning.") and is_heard("the third"), "both are answered", 60)
    shown = [text_of(row) for row in history(house) if row["role"] == "user"]
    assert sum("Good morning." in each for each in shown) == 1
    house.gateway.wait_until_idle(MAIN_SESSION)
    assert [count_turns(house, f"the {each}") for each in ("first", "second", "third")] == [1] * 3


@pytest.mark.long
def test_graceful_restart_loses_no_wake_and_leaves_no_process(house: House):
    house.gateway.say("hello")
    before = len(house.taskmem.room.processes())
    wait = house.open_wait("it restarts")

    def has_greeted() -> bool:
        return bool(house.ask("status")["gateways"])

    for n in range(RESTARTS):
        house.gateway.stop()
        until(lambda: not has_greeted(), "the gateway has left")
        if n == 0:
            house.end("it restarts")
            house.wake_of(wait)
        house.gateway.start(has_greeted if n < RESTARTS - 1 else None)
    house.reaches(wait, "acknowledged")
    assert house.arrivals(wait) == 1
    until(lambda: len(house.taskmem.room.processes()) == before, "nothing is left behind")


def test_daemon_killed_during_a_wakes_turn_learns_that_it_ended(house: House):
    house.gateway.say("hello")
    reached, go = Event(), Event()

    def slow(request: ModelRequest) -> Reply:
        if woken_by(request):
            reached.set()
            assert go.wait(240)
            return [Call("task_register", {"name": "Sow", "plan": ["Dig"]})]
        return "Done."

    house.model.decide = slow
    wait = house.wake("now")
    assert reached.wait(240)
    house.reaches(wait, "sent")
    os.kill(house.ask("status")["pid"], signal.SIGKILL)
    # The plug-in starts another one, and the turn goes on against that.
    until(lambda: house.answers, "another daemon runs")
    go.set()
    house.reaches(wait, "acknowledged")
    assert house.arrivals(wait) == 1
    [task] = until(lambda: house.call("task_list")["tasks"], "it is registered")
    assert house.ask("show", id=task["task_id"])["session_key"] == MAIN_SESSION
    house.call("task_update", task_id=task["task_id"], status="completed")
    # The one that the plug-in has started has none of the test's settings.
    house.taskmem.restart({})
    until(lambda: house.ask("status")["gateways"], "the plug-in has come to it")


def test_wakes_go_by_other_ways_while_the_plugin_is_switched_off(house: House, tmp_path: Path):
    house.gateway.say("hello")
    token = token_hex(16)

    def by_webhooks(found: dict) -> None:
        found["plugins"]["entries"]["taskmem"]["enabled"] = False
        found["hooks"] = {"enabled": True, "token": token}
        found["hooks"]["allowRequestSessionKey"] = True

    with keep_reconfigured(house, by_webhooks, lambda: not house.boots):
        waits = see_other_ways_used(house, tmp_path)

    # Switched on again, it serves again, and what was seen does not come twice.
    last = house.wake("last")
    assert house.reaches(last, "acknowledged")["transport"] == "openclaw-plugin"
    assert [house.arrivals(wait) for wait in (*waits, last)] == [1] * 4


def see_other_ways_used(house: House, tmp_path: Path) -> list[str]:
    """See the command and webhooks take wakes, and each wake say so; their waits."""
    # The daemon reads a configuration in which there are no webhooks, or another token.
    theirs = json.loads(house.gateway.room.config.read_text())
    shown = tmp_path / "shown.json"
    shown.write_text(json.dumps({**theirs, "hooks": {}}))
    house.taskmem.restart({"OPENCLAW_CONFIG_PATH": str(shown)})
    waits = [house.wake("past what is off")]
    sent = house.reaches(waits[-1], "sent")
    assert sent["transport"] == "openclaw-cli"
    assert "openclaw-plugin: No gateway with the plug-in listens" in sent["note"]
    assert "openclaw-hooks: Webhooks are not switched on" in sent["note"]
    until(lambda: house.arrivals(waits[-1]) == 1, "it has arrived")

    shown.write_text(json.dumps({**theirs, "hooks": {"enabled": True, "token": "old"}}))
    waits.append(house.wake("past the webhook"))
    sent = house.reaches(waits[-1], "sent")
    assert sent["transport"] == "openclaw-cli"
    assert "refuses its token (hooks.token)" in sent["note"]
    until(lambda: house.arrivals(waits[-1]) == 1, "it has arrived")

    shown.write_text(json.dumps(theirs))
    waits.append(house.wake("by the webhook"))
    sent = house.reaches(waits[-1], "sent")
    assert sent["transport"] == "openclaw-hooks"
    assert "openclaw-plugin: No gateway with the plug-in listens" in sent["note"]
    until(lambda: house.arrivals(waits[-1]) == 1, "it has arrived")
    house.taskmem.restart({"OPENCLAW_CONFIG_PATH": str(house.gateway.room.config)})
    return waits


def test_plugin_upgrade_disturbs_no_agent_with_an_open_task(house: House, tmp_path: Path):
    newer = tmp_path / "newer"
    shutil.copytree(PLUGIN, newer)
    manifest = newer / "openclaw.plugin.json"
    described = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**described, "version": "99.0.0"}))
    house.gateway.say("hello")
    house.call("task_register", name="Reap", plan=["Cut"], session_key=MAIN_SESSION)

    def move(found: dict) -> None:
        found["plugins"]["load"]["paths"] = [str(newer)]

    def is_upgraded() -> bool:
        return [g["version"] for g in house.ask("status")["gateways"]] == ["99.0.0"]

    wait = house.open_wait("the upgrade is over")
    with keep_reconfigured(house, move, is_upgraded):
        house.end("the upgrade is over")
        wake = house.reaches(wait, "acknowledged")
        assert wake["transport"] == "openclaw-plugin"
        assert house.arrivals(wait) == 1
        [task] = until(lambda: house.call("task_list")["tasks"], "it is registered")
        assert task["name"] == "Reap"
        house.call("task_update", task_id=task["task_id"], status="completed")
    assert not is_upgraded()


SLOW = """
import { existsSync } from "node:fs";
import { setTimeout as rest } from "node:timers/promises";
async function start({ stateDir }) {
  while (!existsSync(`${stateDir}/go`)) await rest(50);
}
export default { id: "slow", register: (api) => api.registerService({ id: "slow", start }) };
"""


def make_slow_plugin(folder: Path) -> Callable[[dict[str, Any]], None]:
    """Give a change that has a plug-in start before ours; it takes until there is `go`."""
    folder.mkdir()
    schema = {"type": "object", "additionalProperties": False, "properties": {}}
    manifest = {"id": "slow", "activation": {"onStartup": True}, "configSchema": schema}
    package = {"name": "slow", "type": "module", "openclaw": {"extensions": ["./index.js"]}}
    (folder / "openclaw.plugin.json").write_text(json.dumps(manifest))
    (folder / "package.json").write_text(json.dumps(package))
    (folder / "index.js").write_text(SLOW)

    def load_first(found: dict) -> None:
        found["plugins"]["load"]["paths"].insert(0, str(folder))
        found["plugins"]["entries"] = {"slow": {"enabled": True}, **found["plugins"]["entries"]}

    return load_first


def test_wake_awaits_a_gateway_that_is_down_and_loads_us_late(house: House, tmp_path: Path):
    house.model.decide = lambda _: "All is well."
    for session in (MAIN_SESSION, OTHER):
        house.gateway.say("hello", session)
    before = len(house.taskmem.room.processes())

    # It ends when it is told to, also while its plug-in starts a daemon.
    house.taskmem.stop()

    def is_starting() -> bool:
        return any("--detach" in each for each in house.taskmem.room.processes().values())

    until(is_starting, "the plug-in starts a daemon")
    house.gateway.tell_to_stop()
    assert house.gateway.ends() == 0

    house.taskmem.restart({})
    wait = house.wake("meanwhile")
    failed = until(
        lambda: house.wake_of(wait) if house.wake_of(wait)["last_error"] else None,
        "it was tried in vain",
    )
    assert (failed["state"], failed["sent_at"]) == ("due", None)
    assert failed["last_error"] == (
        f"No gateway listens at 127.0.0.1:{house.gateway.port}; "
        "the wake goes out when one is started."
    )

    # The gateway's token is nothing to the plug-in.
    house.gateway.token = token_hex(16)

    def change_token(found: dict) -> None:
        found["gateway"]["auth"]["token"] = house.gateway.token

    house.gateway.reconfigure(change_token)
    house.gateway.reconfigure(make_slow_plugin(tmp_path / "slow"))
    house.gateway.start(house.gateway.listens)
    late = house.wake("late", OTHER)

    def is_held() -> bool:
        return "is still starting" in (house.wake_of(late)["last_error"] or "")

    until(is_held, "it waits for the plug-in", shown=lambda: house.wake_of(late))
    (house.gateway.room.state / "go").touch()
    [known] = until(lambda: house.ask("status")["gateways"], "the plug-in has come")
    for each in (wait, late):
        wake = house.reaches(each, "acknowledged")
        assert wake["transport"] == "openclaw-plugin"
        assert house.arrivals(each) == 1
        assert seconds(wake["sent_at"], known["started_at"]) >= 11.5
    until(lambda: len(house.taskmem.room.processes()) == before, "nothing is left behind")


# --- the gateway is killed ------------------------------------------------------------


@around_a_kill
def test_a_changed_prompt_asks_the_user_instead(story: Story, tmp_path: Path) -> Iterator[None]:
    # It is here, since all that is cut by the same kill would ask.
    cutter = Cutter(tmp_path, 3, {2})
    begin_call(story, cutter, calls=1, checkpoints=3)
    yield
    cutter.let_go()
    agents = story.house.gateway.room.state / "workspace" / "AGENTS.md"
    agents.write_text(agents.read_text() + "\nAlways say please.\n")
    yield
    story.wait_for_question("instructions have changed since")
    assert story.run(state="blocked")["why"] == "prompt_changed"
    story.say("continue")
    story.ends()
    assert cutter.file_texts == ["made\n"] * 3


@around_a_kill
def test_gateway_killed_in_the_turn_of_a_wake_delivers_it_again(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    house = story.house
    reached, killed = Event(), Event()

    def wait_to_be_cut(request: ModelRequest) -> str:
        if woken_by(request) and not reached.is_set():
            reached.set()
            killed.wait(240)
        return "Done."

    story.follow(wait_to_be_cut)
    story.say("hello")
    wait = house.wake("now", story.session)
    assert reached.wait(240)
    yield
    killed.set()
    assert house.wake_of(wait)["state"] == "sent"
    yield
    house.reaches(wait, "acknowledged")
    # The turn that was cut is resumed by OpenClaw, without what was put before it.
    resumed = [each for each in story.requests if RESUMED in each.turn.text and each.opens_turn]
    assert len(resumed) == 1
    assert "[taskmem] watched.log" in resumed[0].turn.text
    assert house.arrivals(wait) == 2


@around_a_kill
def test_gateway_killed_before_the_turn_still_delivers_the_wake(
    story: Story, tmp_path: Path
) -> Iterator[None]:
    # It begins last: the kill is to come before the turn does.
    house = story.house
    story.follow(lambda _: "All is well.")
    story.say("hello")

    def begin_wake(number: int) -> str:
        wait = house.wake(f"try {number}", story.session)
        until(lambda: house.wake_of(wait)["sent_at"], "it is accepted")
        return wait

    wait = begin_wake(0)
    yield
    in_time, wake_id = house.arrivals(wait) == 0, house.wake_of(wait)["wake_id"]
    yield
    for number in range(1, 5):
        again = house.reaches(wait, "acknowledged")
        assert again["wake_id"] == wake_id
        if in_time:
            assert house.arrivals(wait) == 1
            return
        # The turn had begun; one that was cut counts as none.
        assert house.arrivals(wait) <= 2
        wait = begin_wake(number)
        house.gateway.kill()
        in_time, wake_id = house.arrivals(wait) == 0, house.wake_of(wait)["wake_id"]
        house.gateway.start()
    pytest.fail("every kill came too late")
