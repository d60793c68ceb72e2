"""A memory to run with `taskmem bench --memory`: notes that are written before and after calls.

It is the example of docs/resumebench.md: copy it, and put your own memory in its place. It needs
nothing but Python. Everything that it knows is in `NOTES.md`, in the folder of the task, as an
agent would write it that notes each call before it makes it, and what came of it afterwards.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any, Final

NOTES: Final = Path("NOTES.md")
"""The agent's notes, in its folder."""


def _take_event(event: dict[str, Any], notes: str) -> str:
    """Return the notes after an event."""
    match event["event"]:
        case "task_started":
            return _write_plan(event["plan"], "")
        case "user_said":
            return _write_plan(event["plan"], notes)
        case "call_started":
            return notes + _write_call("Begun", event)
        case "call_ended" if not event["failed"]:
            return notes.replace(_write_call("Begun", event), "") + _write_call("Done", event)
        case "step_reported":
            return notes.replace(f"- [ ] {event['step']}\n", f"- [x] {event['step']}\n")
        case _:
            return notes


def _answer_question(question: str, notes: str) -> dict[str, Any]:
    """Return the answer to what the benchmark asks."""
    match question:
        case "told":
            return {"text": notes}
        case "plan":
            return {"plan": [each[6:] for each in notes.splitlines() if each.startswith("- [")]}
        case _:
            return {"accepted": True}


def _write_plan(plan: list[str], notes: str) -> str:
    """Return notes with another plan; steps that are ticked stay so, calls stay."""
    old = notes.splitlines(keepends=True)
    ticked = {each for each in old if each.startswith("- [x] ")}
    steps = [f"- [x] {each}\n" for each in plan]
    boxes = [each if each in ticked else each.replace("[x]", "[ ]", 1) for each in steps]
    return "".join([*boxes, *(each for each in old if not each.startswith("- ["))])


def _write_call(word: str, event: dict[str, Any]) -> str:
    return f"{word}: {event['tool']}: {event['about']}\n"


def main() -> None:
    """Read what the benchmark says, line by line, until it hangs up."""
    for line in sys.stdin:
        message = json.loads(line)
        notes = NOTES.read_text() if NOTES.exists() else ""
        if "ask" in message:
            print(json.dumps(_answer_question(message["ask"], notes)), flush=True)  # noqa: T201
        else:
            NOTES.write_text(_take_event(message, notes))


if __name__ == "__main__":
    main()
