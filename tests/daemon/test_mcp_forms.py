"""A question to the user as a form of the host: a real daemon, and what the client makes of it."""

from __future__ import annotations

import json
import signal
from typing import Any

from mcp import Client, StdioServerParameters, stdio_client
from mcp.types import ElicitRequestParams, ElicitResult, Implementation

from openclaw_taskmem.home import Home
from tests.support.agents import PROTOCOLS, Lines, RelayedLines, parse_result
from tests.support.daemons import COMMAND, Daemon, environment

OLDER, NEWER = PROTOCOLS
ASK = {"ask": "Which colour?"}
TASK = {"name": "Deploy", "plan": ["Build", "Paint"]}


class Person:
    """Answers every form in one way, and keeps what it showed."""

    def __init__(self, action: Any, **content: str) -> None:
        self._result = ElicitResult(action=action, content=content or None)
        self.forms: list[ElicitRequestParams] = []

    async def __call__(self, _context: object, params: ElicitRequestParams) -> ElicitResult:
        self.forms.append(params)
        return self._result


async def ask_person(home: Home, person: Person, **more: object) -> dict[str, Any]:
    """Have an agent ask, by the client of the SDK; return what the call answers it."""
    server = StdioServerParameters(command=str(COMMAND), args=["mcp"], env=environment(home))
    info = Implementation(name="claude-code", version="1")
    async with Client(
        stdio_client(server), mode="auto", client_info=info, elicitation_callback=person
    ) as client:
        task = parse_result(await client.call_tool("task_register", TASK))["task_id"]
        given = {"task_id": task, **ASK, **more}
        return parse_result(await client.call_tool("task_update", given))


def find_answers(daemon: Daemon, task_id: str) -> list[str]:
    thread = daemon.ask("show", id=task_id)["messages"]
    return [each["content"] for each in thread if each["role"] == "user"]


def has_question(daemon: Daemon, task_id: str) -> bool:
    shown = daemon.ask("show", id=task_id)
    return bool(shown["question"])


async def test_an_answer_in_a_form_is_the_users_own(daemon):
    person = Person("accept", words="Blue.")

    answer = await ask_person(daemon.home, person)

    [form] = person.forms
    assert form.message == "Deploy: Which colour?"
    assert form.requested_schema["required"] == ["words"]
    assert answer["message"].startswith('The user answered: "Blue." It is active')
    assert "[task_resume]" in answer["packet"]
    assert find_answers(daemon, answer["task_id"]) == ["Blue."]
    [told] = [e for e in daemon.ask("events") if e["kind"] == "question_answered"]
    assert "by" not in told["data"]
    assert not has_question(daemon, answer["task_id"])


async def test_options_are_a_choice_beside_the_users_own_words(daemon):
    person = Person("accept", choice="Blue", words="But a dark one.")

    answer = await ask_person(daemon.home, person, ask_options=["Blue", "Green"])

    [form] = person.forms
    assert form.requested_schema["properties"]["choice"]["enum"] == ["Blue", "Green"]
    assert find_answers(daemon, answer["task_id"]) == ["Blue\nBut a dark one."]


async def test_a_form_without_an_answer_leaves_the_question(daemon):
    for person in (Person("decline"), Person("cancel"), Person("accept", words=" \n")):
        answer = await ask_person(daemon.home, person)

        assert len(person.forms) == 1
        assert answer["message"].startswith("A form for the user brought no answer.")
        assert "Put your question to the user yourself" in answer["message"]
        assert has_question(daemon, answer["task_id"])
        assert find_answers(daemon, answer["task_id"]) == []


def test_a_client_without_forms_is_answered_as_ever(daemon):
    for protocol, capabilities in (
        (OLDER, {"elicitation": {"form": {}}}),
        (NEWER, {}),
        (NEWER, {"elicitation": {"url": {}}}),
        (NEWER, {"sampling": {}}),
    ):
        with Lines(daemon.home, protocol=protocol) as client:
            client.can(**capabilities)
            task = client.call("task_register", TASK)[1]["task_id"]
            failed, answer = client.call("task_update", {"task_id": task, **ASK})

        assert not failed
        assert answer["message"].startswith("Put your question to the user yourself")


def show_form(client: Lines, *, claims: bool = False) -> tuple[str, dict[str, Any]]:
    """Ask the user; return the task and the call that brings what they answer."""
    client.can(elicitation={})
    task = client.call("task_register", TASK)[1]["task_id"]
    if claims:
        assert not client.call("task_claim", {"task_id": task})[0]
    call = {"name": "task_update", "arguments": {"task_id": task, **ASK}}
    shown = client.ask("tools/call", **call)["result"]
    assert shown["resultType"] == "input_required"
    answered = {"answer": {"action": "accept", "content": {"words": "Blue."}}}
    return task, {**call, "requestState": shown["requestState"], "inputResponses": answered}


def test_an_answer_outlives_the_daemon_that_asked(daemon):
    with RelayedLines(daemon.home, protocol=NEWER) as client:
        task, call = show_form(client)
        daemon.kill(signal.SIGKILL)
        daemon.restart()

        result = client.ask("tools/call", **call)["result"]

        assert result["content"][0]["text"].count("Blue.") == 2
    assert find_answers(daemon, task) == ["Blue."]


def test_an_answer_that_comes_twice_is_taken_once(daemon):
    with Lines(daemon.home, protocol=NEWER) as client:
        task, call = show_form(client)
        for _ in range(2):
            assert not client.ask("tools/call", **call)["result"]["isError"]

    assert find_answers(daemon, task) == ["Blue."]


def test_an_answer_to_a_question_that_is_over_is_only_told(daemon):
    with Lines(daemon.home, protocol=NEWER) as client:
        task, call = show_form(client)
        daemon.call("task_resume", task_id=task, answer="Green.")
        client.ask("tools/call", **call)

    assert find_answers(daemon, task)[0] == "Green."
    thread = json.dumps(daemon.ask("show", id=task)["messages"])
    assert 'the user answered \\"Blue.\\" to an earlier question' in thread


def test_a_state_that_came_with_no_form_is_refused(daemon):
    with Lines(daemon.home, protocol=NEWER) as client:
        _, call = show_form(client)
        for state in ("", "[", "{}", '{"question": "a", "answer": {}}', "[" * 9999):
            error = client.ask("tools/call", **{**call, "requestState": state})["error"]
            assert error["code"] == -32602


def test_a_form_answers_only_what_its_session_may_resume(daemon):
    with (
        RelayedLines(daemon.home, "one", NEWER, TASKMEM_TOOLS="runs") as owner,
        RelayedLines(daemon.home, "another", NEWER) as other,
    ):
        task, call = show_form(owner, claims=True)
        result = other.ask("tools/call", **call)["result"]

        assert result["isError"]
        assert json.loads(result["content"][0]["text"])["error"] == "run_held"
        assert find_answers(daemon, task) == []
        assert has_question(daemon, task)
