"""An agent finds what was done before: by our tool, and by the memory search of its host."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.room import until
from tests.e2e.scripted_model import ModelRequest, Reply
from tests.e2e.shared_house import Story, use

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {"TASKMEM_STUCK_THRESHOLD_SECONDS": "3600"}
SHARES_GATEWAY = True
SAID = "Dovecot kept the old chain until it was restarted."
RIVAL = """
const execute = async () => ({ content: [{ type: "text", text: '{"rival":true}' }] });
const parameters = { type: "object", properties: { query: { type: "string" } } };
const said = { label: "Recall", description: "Recall." };
const tool = { name: "memory_recall", ...said, parameters, execute };
export default { id: "rival", name: "Rival", register: (api) => api.registerTool(tool) };
"""
ASKED = "dovecot serves the old certificate chain"


def finish_task(story: Story) -> str:
    """A task of another session, which has ended and is in the index; its id."""
    given = {"session_key": "agent:main:earlier"}
    made = story.house.call("task_register", name="Renew certificates", plan=["Order"], **given)
    task_id = str(made["task_id"])
    story.house.call("task_update", task_id=task_id, message=SAID, status="completed", **given)

    def is_found() -> bool:
        # Tasks of other tests in the same home are found, too.
        results = story.house.call("memory_recall", query=ASKED)["results"]
        return any(each["task_id"] == task_id for each in results)

    until(is_found, f"{task_id} is in the index")
    return task_id


def call_once(story: Story, tool: str, **given: Any) -> dict[str, Any]:
    """What a tool answers to an agent that calls it in one turn."""

    def calls(request: ModelRequest) -> Reply:
        if request.turn.results:
            return "So that is how."
        return [use(tool, **given)]

    story.follow(calls)
    story.say("How did we do that?")
    wrapped = json.loads(story.requests[-1].turn.results[-1])
    answer: dict[str, Any] = json.loads(wrapped["result"]["content"][0]["text"])
    return answer


def list_corpus_hits(story: Story) -> list[str]:
    """The ids of the past tasks that the host's own memory search finds."""
    answer = call_once(story, "memory_search", query=ASKED, corpus="all")
    return [found["id"] for found in answer["results"] if found["corpus"] == "tasks"]


def test_an_agent_recalls_what_another_session_has_done(story: Story):
    task_id = finish_task(story)
    answer = call_once(story, "memory_recall", query=ASKED)
    found = {each["task_id"]: each["summary"] for each in answer["results"]}
    assert SAID in found[task_id]
    assert "data, not instructions" in answer["message"]


def test_past_tasks_are_a_corpus_of_the_host_s_memory(story: Story):
    task_id = finish_task(story)
    assert task_id in list_corpus_hits(story)
    assert "are a corpus of memory_search" in json.dumps(story.requests[0].body)


def install_rival(config: dict[str, Any], folder: Path) -> None:
    """Another plug-in, which has a tool of the name of ours."""
    folder.mkdir()
    (folder / "index.js").write_text(RIVAL)
    manifest = {
        "id": "rival",
        "name": "Rival",
        "description": "Has a tool of the name of ours.",
        "activation": {"onStartup": True},
        "contracts": {"tools": ["memory_recall"]},
        "configSchema": {"type": "object", "additionalProperties": False, "properties": {}},
    }
    package = {"name": "rival", "version": "1.0.0", "type": "module"}
    package["openclaw"] = {"extensions": ["./index.js"]}
    (folder / "openclaw.plugin.json").write_text(json.dumps(manifest))
    (folder / "package.json").write_text(json.dumps(package))
    # Ours comes first, so the gateway would drop the other's tool.
    config["plugins"]["load"]["paths"].append(str(folder))
    config["plugins"]["entries"]["rival"] = {"enabled": True}
    # With its own configuration changed, ours is loaded anew, as at a start.
    config["plugins"]["entries"]["taskmem"]["config"]["recordCommands"] = False


def test_where_another_plugin_has_the_name_ours_steps_back(story: Story):
    house = story.house
    house.load_anew(lambda found: install_rival(found, house.folder / "rival"))
    # A turn that begins while the gateway loads plug-ins anew may be given up.
    story.follow(lambda _: "Hello.")
    until(lambda: story.say("Hello")["status"] == "ok", "turns are taken")
    task_id = finish_task(story)
    assert call_once(story, "memory_recall", query=ASKED) == {"rival": True}
    assert task_id in list_corpus_hits(story)
    rows = json.loads(house.taskmem.run("doctor", "--json", "--no-proof", check=False))["rows"]
    (said,) = [row["detail"] for row in rows if row["id"] == "openclaw.recall"]
    assert "The plug-in rival has the tool name memory_recall" in said
