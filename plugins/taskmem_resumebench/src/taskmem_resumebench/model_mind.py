"""A language model as the agent: it reads what it is told, and says what to do next by a tool."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

from taskmem_resumebench.agents import Decision, Deed, Knowledge
from taskmem_resumebench.generated_task import GeneratedTask
from taskmem_resumebench.work_steps import read_step

MOST_REQUESTS: Final = 400
"""Of one task; a model that needs more gets nowhere."""
MOST_MALFORMED: Final = 5
"""Answers in a row that ask for nothing that can be done."""
_INSTRUCTION: Final = (
    "You carry out the user's steps, one tool call at a time, in order, each exactly once. You may "
    "have been interrupted: then a text says what is known of your work so far. A call that may or "
    "may not have been made is looked up before it is made again. When every step is done, answer "
    "with a short text and no tool call."
)
_INTERRUPTED: Final = "You were interrupted. What is known of your work:"
_DEEDS: Final = {"do_step": Deed.PERFORM, "look": Deed.LOOK, "note_done": Deed.NOTE}
_PURPOSES: Final = {
    "do_step": "Do a step, and note that it is done.",
    "look": "Look whether the effect of a step is there already; if so, it is noted as done.",
    "note_done": "Note that a step was done before.",
}


def _describe_tool(name: str) -> dict[str, Any]:
    step = {"type": "string", "description": "The step's sentence, word for word."}
    form = {"type": "object", "properties": {"step": step}, "required": ["step"]}
    return {
        "type": "function",
        "function": {"name": name, "description": _PURPOSES[name], "parameters": form},
    }


TOOLS: Final = tuple(_describe_tool(name) for name in _DEEDS)
Ask = Callable[[Sequence[Mapping[str, Any]], Sequence[Mapping[str, Any]]], dict[str, Any]]


class ModelMind:
    """The model with one task; everything it knows is in its messages."""

    def __init__(self, task: GeneratedTask, ask: Ask) -> None:
        """Begin with the user's request; `ask` returns the model's next message."""
        self._request, self._ask = task.request, ask
        self._requests = 0
        self._call_id = ""
        """The call whose result the model waits for; empty: none."""
        self.wake("")

    def wake(self, text: str) -> None:
        """Forget everything but the request, and read what the memory tells."""
        told = f"{self._request}\n\n{_INTERRUPTED}\n{text}" if text else self._request
        self._messages: list[dict[str, Any]] = [
            {"role": "system", "content": _INSTRUCTION},
            {"role": "user", "content": told},
        ]

    def hear_user(self, words: str) -> None:
        """Hear what the user says in the middle."""
        self._messages.append({"role": "user", "content": words})

    def hear_result(self, words: str) -> None:
        """Hear what became of the call."""
        self._answer(self._call_id, words)

    def decide(self, known: Knowledge, read_gate: Callable[[], str]) -> Decision | None:
        """Ask the model what to do next; None: it says that all is done, or gets nowhere."""
        del known
        for _ in range(MOST_MALFORMED):
            self._requests += 1
            if self._requests > MOST_REQUESTS:
                return None
            said = self._ask(self._messages, TOOLS)
            calls = said.get("tool_calls")
            if not calls:
                return None
            self._messages.append(
                {"role": "assistant", "content": said.get("content") or "", "tool_calls": calls}
            )
            decision = self._read_calls(calls, read_gate())
            if decision is not None:
                return decision
        return None

    def _read_calls(self, calls: object, gate: str) -> Decision | None:
        """Read the first call; the rest are refused, as is one that asks for nothing known."""
        listed = cast("list[dict[str, Any]]", calls) if isinstance(calls, list) else []
        for extra in listed[1:]:
            self._answer(_read_id(extra), "Not done: one call at a time.")
        try:
            function = listed[0]["function"]
            deed = _DEEDS[function["name"]]
            sentence = str(json.loads(function["arguments"])["step"])
            call = read_step(sentence, gate)
        except (LookupError, TypeError, ValueError):
            if listed:
                self._answer(_read_id(listed[0]), "Not done: there is no such tool or step.")
            else:
                self._messages.pop()
            return None
        self._call_id = _read_id(listed[0])
        return Decision(deed, sentence, call)

    def _answer(self, call_id: str, words: str) -> None:
        self._messages.append({"role": "tool", "tool_call_id": call_id, "content": words})


def _read_id(call: object) -> str:
    return str(cast("dict[str, Any]", call).get("id", "")) if isinstance(call, dict) else ""
