"""The live proof, against a door and a daemon that do what a test says."""

from __future__ import annotations

import asyncio
import json
import tempfile
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_hookspecs import DoctorState, TaskmemError
from taskmem_openclaw import plugin_socket
from taskmem_openclaw.doctor import live_proof
from taskmem_openclaw.doctor.live_proof import WakeProof
from taskmem_openclaw.setup import package_files, plan
from tests.support.waiting import PATIENCE

OK, WARN, FAIL = DoctorState.OK, DoctorState.WARN, DoctorState.FAIL
HOOKS = (
    *("session_start", "agent_event", "turn_ended"),
    *("after_tool_call", "tool", "before_prompt_build"),
)
MAIN = "agent:main:main"


class House:
    """A gateway's door and a daemon, as far as the proof meets them."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.environ = {
            "TASKMEM_HOME": str(home),
            "OPENCLAW_CONFIG_PATH": str(home / "openclaw.json"),
        }
        self.status: Any = {"gateways": [{"main_session": MAIN}]}
        self.transport = "auto"
        self.database = ""
        self.sessions = {MAIN}
        self.counts = dict.fromkeys(HOOKS, 1)
        """Which hooks have fired for a session that is there."""
        self.stuck_closes = 0
        """How often a session cannot be deleted yet."""
        self.states = ["due", "sent", "acknowledged"]
        """What becomes of the wake, look by look; the last one stays."""
        self.wake = {"transport": "openclaw-plugin", "note": None}
        self.refusals: dict[str, str] = {}
        """What the daemon refuses: tool to sentence."""
        self.asked: list[tuple[str, dict[str, Any]]] = []
        self.calls: list[tuple[str, dict[str, Any]]] = []
        self.forgotten: list[str] = []
        """The waits that are gone."""
        self.files: list[str] = []
        self.heard = asyncio.Event()

    def configure(self, config):
        (self.home / "openclaw.json").write_text(json.dumps(config))

    # --- the door -------------------------------------------------------------

    async def visit(self, reader, writer):
        line = await reader.readline()
        if not line:  # somebody only looks whether it is open
            writer.close()
            return
        given = json.loads(line)
        request = given.pop("ask")
        self.asked.append((request, given))
        self.heard.set()
        handlers = {"open": self.open, "seen": self.count_hooks, "close": self.close}
        said = handlers[request](given["session_key"])
        writer.write(json.dumps(said).encode() + b"\n")
        await writer.drain()
        writer.close()

    def open(self, session):
        self.sessions.add(session)
        return {"runId": "1"}

    def count_hooks(self, session):
        return self.counts if session in self.sessions else {}

    def close(self, session):
        if self.stuck_closes:
            self.stuck_closes -= 1
            return {"failed": "changed before deletion"}
        self.sessions.discard(session)
        return {}

    # --- the daemon -----------------------------------------------------------

    async def ask(self, method, params):
        if method == "wakes":
            return self.wakes()
        if method == "status":
            return self.status
        if method == "forget":
            self.forgotten.append(params["id"])
            return None
        self.calls.append((params["tool"], params["arguments"]))
        if params["tool"] in self.refusals:
            raise TaskmemError(self.refusals[params["tool"]])
        return {"wait_id": "wait_1"}

    def wakes(self):
        waits = [given for tool, given in self.calls if tool == "smart_wait"]
        path = Path(waits[0]["target"].removeprefix("pty:file:"))
        self.files.append(path.read_text())
        if not self.states:
            return []
        state = self.states.pop(0) if len(self.states) > 1 else self.states[0]
        row = {
            "wait_id": "wait_1",
            "state": state,
            "created_at": "2026-11-22T06:00:00.000Z",
            "sent_at": "2026-11-22T06:00:00.012Z",
            "acknowledged_at": "2026-11-22T06:00:01.500Z",
            "last_error": "no turn",
            **self.wake,
        }
        return [{**row, "wait_id": "wait_0"}, row]

    def list_leftovers(self):
        """What the proof has left behind."""
        made = "smart_wait" in dict(self.calls) and "smart_wait" not in self.refusals
        waits = [] if not made or self.forgotten == ["wait_1"] else ["wait_1"]
        files = [each.name for each in self.home.glob("doctor*")]
        return [*(self.sessions - {MAIN}), *files, *waits]


@pytest.fixture
def house(monkeypatch):
    monkeypatch.setattr(live_proof, "LOOK_SECONDS", 0.001)
    monkeypatch.setattr(live_proof, "CLOSE_SECONDS", 0.001)
    with tempfile.TemporaryDirectory(prefix="tm") as folder:
        yield House(Path(folder))


async def rows_of(house, seconds=PATIENCE):
    server = await asyncio.start_unix_server(house.visit, house.home / "openclaw.sock")
    async with server:
        found = [row async for row in WakeProof(house.environ, seconds).look(house)]
    ids = [row.id.removeprefix("openclaw.") for row in found]
    return dict(zip(ids, found, strict=True))


async def test_a_wake_that_arrives_is_shown_with_its_way_and_its_times(house):
    rows = await rows_of(house)
    names = ("tool" if hook == "tool" else f"hook.{hook}" for hook in HOOKS)
    assert [*rows] == ["proof", "wake", *names]
    row = rows["wake"]
    assert row.state is OK
    assert "by openclaw-plugin after 12 ms" in row.detail
    assert "after 1500 ms" in row.detail
    assert "OpenClaw names it to the agent" in rows["proof"].detail
    assert house.list_leftovers() == []


def test_what_other_sessions_see_of_the_trial_is_no_order():
    assert "Call" not in live_proof.MESSAGE[:96]


async def test_what_it_costs_is_said_before_it_is_spent(house):
    rows = WakeProof(house.environ).look(house)
    first = await anext(rows)
    assert "two short turns" in first.detail
    assert house.asked == []
    await rows.aclose()
    assert house.list_leftovers() == []


async def test_it_has_a_session_of_its_own_and_touches_no_other(house):
    await rows_of(house)
    keys = {given["session_key"] for _, given in house.asked}
    assert len(keys) == 1
    assert keys.pop().startswith("agent:main:taskmem-doctor-")
    assert house.sessions == {MAIN}


async def test_the_agent_is_the_gateways_own(house):
    house.status = {"gateways": [{"main_session": "agent:ops:home"}]}
    await rows_of(house)
    assert house.asked[0][1]["session_key"].startswith("agent:ops:taskmem-doctor-")


async def test_proof_waits_by_smart_wait_until_its_phrase_appears(house):
    await rows_of(house)
    [(tool, given)] = house.calls
    assert tool == "smart_wait"
    assert given["session_key"] == house.asked[0][1]["session_key"]
    assert given["wake_when"] == f'"{house.files[-1].strip()}" appears'
    assert given["target"].startswith(f"pty:file:{house.home}/doctor-")


async def test_the_wait_begins_after_the_first_turn_has_ended(house):
    house.counts["turn_ended"] = 0
    rows = asyncio.create_task(rows_of(house))
    while len(house.asked) < 4:
        await house.heard.wait()
        house.heard.clear()
    assert house.calls == []
    house.counts["turn_ended"] = 1
    assert (await rows)["wake"].state is OK


@pytest.mark.parametrize("status", [None, {}, {"gateways": []}])
async def test_where_no_gateway_is_connected_nothing_is_proved(house, status):
    house.status = status
    assert await rows_of(house) == {}
    assert house.asked == []


async def test_proof_warns_with_the_reason_if_a_wake_went_another_way(house):
    house.wake = {"transport": "openclaw-cli", "note": "openclaw-plugin: shut."}
    row = (await rows_of(house))["wake"]
    assert row.state is WARN
    assert "openclaw-cli" in row.detail
    assert "shut" in row.detail
    assert row.cure


@pytest.mark.parametrize(
    ("states", "error", "said"),
    [
        (["due"], "no turn", "still due: no turn"),
        (["sent"], None, "still sent: nothing is said"),
        (["due"], None, "still due: it is held"),
        ([], None, "wait_1 did not end"),
    ],
)
async def test_a_wake_that_does_not_arrive_says_how_far_it_came(house, states, error, said):
    house.states = states
    house.wake["last_error"] = error
    house.wake["held"] = "it is held" if "held" in said else None
    rows = await rows_of(house, 0.3)
    assert rows["wake"].state is FAIL
    assert said in rows["wake"].detail
    assert rows["wake"].cure
    assert house.list_leftovers() == []
    # It is taken back, so that no other way brings it to a session that is gone.
    wait = {"wait_id": "wait_1", "session_key": house.asked[0][1]["session_key"]}
    taken_back = [("wait_update", wait)] if states else []
    assert house.calls[1:] == [*taken_back, ("wait_cancel", wait)]


async def test_a_first_turn_that_does_not_end_is_named(house):
    house.counts["turn_ended"] = 0
    rows = await rows_of(house, 0.3)
    assert rows["wake"].state is FAIL
    assert "first turn did not end" in rows["wake"].detail
    assert house.calls == []
    assert "openclaw logs" in rows["wake"].cure
    assert rows["hook.turn_ended"].state is WARN
    assert "openclaw logs" in rows["hook.turn_ended"].cure
    assert house.list_leftovers() == []


@pytest.mark.parametrize(
    ("config", "state"),
    [
        (None, WARN),
        ({}, WARN),
        ({"entries": {"taskmem": {"hooks": {"allowConversationAccess": True}}}}, FAIL),
    ],
)
async def test_a_hook_must_fire_only_where_the_operator_lets_it(house, config, state):
    house.counts["before_prompt_build"] = 0
    if config is not None:
        house.configure({"plugins": config})
    assert (await rows_of(house))["hook.before_prompt_build"].state is state


async def test_a_daemon_that_refuses_the_wait_is_heard(house):
    house.refusals["smart_wait"] = "There is no such file."
    row = (await rows_of(house))["wake"]
    assert row.state is FAIL
    assert "The wait failed: There is no such file." in row.detail
    assert house.list_leftovers() == []


@pytest.mark.parametrize("main", ["", "main", "agent:", "agent:a:b:c", 7, "x" * 9000])
async def test_a_gateway_that_names_no_main_session_is_not_tried(house, main):
    house.status = {"gateways": [{"main_session": main}]}
    rows = await rows_of(house)
    assert [*rows] == ["proof"]
    assert rows["proof"].state is FAIL
    assert house.asked == []


async def test_a_door_that_does_not_open_is_named(house, monkeypatch):
    monkeypatch.setattr(plugin_socket, "LOAD_SECONDS", 0.05)
    found = [row async for row in WakeProof(house.environ).look(house)]
    assert [row.id for row in found][:2] == ["openclaw.proof", "openclaw.wake"]
    assert found[1].state is FAIL
    assert "listens" in found[1].detail


async def test_a_session_that_was_just_used_is_deleted_a_little_later(house):
    house.stuck_closes = 3
    assert "proof.left" not in await rows_of(house)
    assert house.list_leftovers() == []


async def test_a_session_that_cannot_be_deleted_is_named(house):
    house.stuck_closes = 10_000
    row = (await rows_of(house))["proof.left"]
    [session] = house.list_leftovers()
    assert row.state is WARN
    assert "changed before deletion" in row.detail
    assert session in row.cure


@pytest.mark.parametrize("when", ["open", "seen", "close"])
async def test_whenever_it_is_broken_off_nothing_is_left_behind(house, when):
    if when == "seen":
        house.counts["turn_ended"] = 0
    house.stuck_closes = 5
    rows = asyncio.create_task(rows_of(house))
    while when not in [request for request, _ in house.asked]:
        await house.heard.wait()
        house.heard.clear()
    rows.cancel()
    with suppress(asyncio.CancelledError):
        await rows
    assert house.list_leftovers() == []


# --- the rows of the hooks ------------------------------------------------------


def hooks(seen, *, granted=True):
    found = live_proof._check_hooks(seen, granted=granted)
    return {row.id.split(".")[-1]: row for row in found}


@given(st.dictionaries(st.sampled_from(HOOKS), st.integers(0, 3), min_size=1), st.booleans())
def test_a_hook_is_fine_when_it_has_fired_and_only_then(seen, granted):
    rows = hooks(seen, granted=granted)
    assert [*rows] == [*HOOKS]
    for hook, row in rows.items():
        assert (row.state is OK) is bool(seen.get(hook))
        assert (row.cure is None) is (row.state is OK)


def test_silent_hook_fails_if_required_and_warns_if_optional():
    nothing = {"session_start": 0}
    states = {hook: row.state for hook, row in hooks(nothing).items()}
    assert {states.pop("after_tool_call"), states.pop("tool")} == {WARN}
    assert set(states.values()) == {FAIL}
    row = hooks(nothing, granted=False)["before_prompt_build"]
    assert row.state is WARN
    assert "allowConversationAccess true" in row.cure


def test_missing_turn_end_of_a_running_turn_is_only_a_warning():
    rows = hooks({"agent_event": 1})
    assert rows["turn_ended"].state is WARN
    assert rows["session_start"].state is FAIL


def test_proof_says_nothing_of_hooks_if_it_saw_no_session():
    assert hooks({}) == {}


@pytest.mark.parametrize(
    ("granted", "may"),
    [
        *(({}, False), ({"allowConversationAccess": False}, False)),
        ({"allowConversationAccess": True}, True),
        ({"allowConversationAccess": True, "allowPromptInjection": False}, False),
    ],
)
def test_what_the_operator_allows_is_read_from_the_configuration(granted, may, tmp_path):
    entry = {"hooks": granted}
    config = {"plugins": {"entries": {"taskmem": entry}}}
    desired = package_files.build_desired_state(config, "", tmp_path)
    faults, _ = plan.find_plugin_faults(config, desired)
    assert ("conversation" not in faults) is may
