"""What a scripted agent knows after an interruption, and what it does next by its habits."""

from __future__ import annotations

import json

import pytest

from taskmem_resumebench.agents import (
    AGENTS,
    Deed,
    Knowledge,
    decide,
    read_memory,
    write_notes,
)

PLAN = ("Write open to gate.txt", "Append amber-1 to log.txt", "Pay amber-2", "Commit as amber-3")
LINE = "exec: echo amber-1 >> log.txt"


def packet(**changes: object) -> str:
    progress = {"completed": [0], "current": 1, "remaining": [2, 3]}
    fields = {"status": "active", "plan": PLAN, "progress": progress, **changes}
    return f"[task_resume] {json.dumps(fields)}"


def read_told(text: str) -> Knowledge:
    return read_memory(text, PLAN, lambda: PLAN)


def next_deed(text: str, agent: str = "amnesiac") -> tuple[Deed, str] | None:
    decision = decide(read_told(text), AGENTS[agent], lambda: "open")
    return None if decision is None else (decision.deed, decision.sentence)


def test_an_agent_that_is_told_nothing_begins_again() -> None:
    assert next_deed("") == (Deed.PERFORM, PLAN[0])


def test_an_agent_goes_on_after_what_is_marked_done() -> None:
    assert next_deed(packet()) == (Deed.PERFORM, PLAN[1])


@pytest.mark.parametrize("ending", ["", " (exit 0)", ", 2 times"])
def test_a_call_that_is_listed_as_done_is_only_noted(ending: str) -> None:
    assert next_deed(packet(do_not_redo=[f"{LINE}{ending}"])) == (Deed.NOTE, PLAN[1])
    assert next_deed(packet(do_not_redo=["exec: echo amber-1…"])) == (Deed.NOTE, PLAN[1])
    assert next_deed(packet(do_not_redo=[f"{LINE}.bak"])) == (Deed.PERFORM, PLAN[1])


def test_a_call_of_unknown_outcome_is_looked_up_first() -> None:
    text = packet(unknown_outcome=[LINE])

    assert next_deed(text) == (Deed.LOOK, PLAN[1])
    assert next_deed(text, "stubborn") == (Deed.PERFORM, PLAN[1])


def test_an_agent_looks_where_its_list_of_calls_is_not_whole() -> None:
    assert next_deed(packet(past_more=3)) == (Deed.LOOK, PLAN[1])


def test_a_look_that_found_nothing_is_not_repeated() -> None:
    known = read_told(packet(unknown_outcome=[LINE], past_more=3)).note_absent(LINE)

    decision = decide(known, AGENTS["amnesiac"], lambda: "open")

    assert decision is not None
    assert decision.deed is Deed.PERFORM


def test_a_choice_is_made_by_what_the_gate_says() -> None:
    step = "If gate.txt says open: Pay amber-1; else: Pay amber-2"
    known = Knowledge((step,))

    marks = []
    for gate in ("open", "shut"):
        decision = decide(known, AGENTS["amnesiac"], lambda gate=gate: gate)
        assert decision is not None
        marks.append(decision.call.mark)

    assert marks == ["amber-1", "amber-2"]


def test_notes_are_read_as_they_were_written() -> None:
    notes = write_notes(PLAN[1:], frozenset(PLAN[1:3]), over=False)

    assert read_told(notes) == Knowledge(PLAN[1:], done=frozenset(PLAN[1:3]))
    assert next_deed(notes) == (Deed.PERFORM, PLAN[3])
    assert next_deed(write_notes(PLAN, frozenset(), over=True)) is None


@pytest.mark.parametrize("shown", [PLAN[1:], (*PLAN[:3], "Commit as…")])
def test_a_shortened_plan_is_asked_for(shown: tuple[str, ...]) -> None:
    known = read_told(packet(plan=shown))

    assert (known.plan, known.done) == (PLAN, {PLAN[0]})
    assert known.find_number(PLAN[3]) == 4


def test_a_task_that_is_completed_needs_nothing_more() -> None:
    assert next_deed(packet(status="completed")) is None
