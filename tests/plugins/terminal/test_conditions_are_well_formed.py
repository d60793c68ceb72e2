"""The labelled conditions are complete and consistent in themselves."""

from __future__ import annotations

import json
from functools import cache

import pytest

from tests.plugins.terminal.replay import CONDITIONS, entries, shown_text

OUTPUTS = CONDITIONS / "outputs"
HALVES = ("tuning", "held_out")
KINDS = {
    "phrase",
    "exit",
    "success",
    "failure",
    "percent",
    "counter",
    "ready",
    "prompt",
    "or",
    "negative",
    "visual",
    "stall",
    "other",
}
REQUIRED = {
    "id",
    "program",
    "output",
    "source",
    "exit_status",
    "wake_when",
    "holds",
    "from_text",
    "kind",
    "note",
}


@cache
def lines_of(output):
    folder = CONDITIONS if "/" in output else OUTPUTS
    return shown_text((folder / output).read_bytes()).split("\n")


EVERY = [entry for half in HALVES for entry in entries(half)]
SITUATIONS = entries("situations")


def test_ids_are_unique():
    assert len({entry["id"] for entry in EVERY}) == len(EVERY)


def test_no_condition_is_asked_twice_of_one_output():
    asked = {(entry["output"], entry["wake_when"]) for entry in EVERY}
    assert len(asked) == len(EVERY)


def test_every_output_exists_and_is_used():
    recorded = {path.name for path in OUTPUTS.glob("*.out")}
    used = {entry["output"] for entry in (*EVERY, *SITUATIONS)}
    assert recorded == {output for output in used if "/" not in output}
    assert len(recorded) >= 45


def test_outputs_are_small():
    assert all(path.stat().st_size < 200_000 for path in OUTPUTS.glob("*.out"))


def test_the_halves_share_no_output():
    tuning, held_out = ({entry["output"] for entry in entries(h)} for h in HALVES)
    assert not tuning & held_out


def test_an_output_has_one_exit_status_program_and_source():
    facts = {(e["output"], e["exit_status"], e["program"], e["source"]) for e in EVERY}
    assert len(facts) == len({entry["output"] for entry in EVERY})


@pytest.mark.parametrize("half", HALVES)
def test_each_half_is_large_enough(half):
    assert len(entries(half)) >= 85


@pytest.mark.parametrize("half", HALVES)
def test_enough_conditions_of_each_half_never_hold(half):
    never = [entry for entry in entries(half) if not entry["holds"]]
    assert len(never) >= 0.3 * len(entries(half))


def test_every_entry_has_the_fields_it_should_have():
    for entry in EVERY:
        assert entry.keys() - {"from_occurrence"} == REQUIRED, entry["id"]
        assert entry["kind"] in KINDS, entry["id"]
        assert entry["source"] in {"recorded", "documentation"}, entry["id"]
        assert isinstance(entry["holds"], bool), entry["id"]
        assert entry["wake_when"].strip() == entry["wake_when"] != "", entry["id"]


def test_condition_that_holds_has_a_text_or_an_exit_status():
    for entry in (*EVERY, *SITUATIONS):
        text = entry["from_text"]
        if not entry["holds"]:
            assert text is None, entry["id"]
        elif text is None:
            assert entry["exit_status"] is not None, entry["id"]
        else:
            found = sum(line.count(text) for line in lines_of(entry["output"]))
            assert found >= entry.get("from_occurrence", 1), entry["id"]


def test_every_situation_has_a_sentence_that_was_written_for_it():
    worded = json.loads((CONDITIONS / "worded.json").read_text("utf-8"))
    assert [entry["id"] for entry in SITUATIONS] == list(worded)
    assert len({entry["wanted"] + entry["output"] for entry in SITUATIONS}) >= 100
