"""A patch leads there, its inverse leads back, and others' changes survive both."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from taskmem_openclaw.setup.merge_patches import apply_patch, build_patch, is_same_json, undo_patch

KEYS = st.sampled_from(("plugins", "entries", "allow", "tools", "a"))
LEAVES = st.booleans() | st.integers(0, 2) | st.sampled_from(("x", "taskmem"))
VALUES = st.recursive(
    LEAVES | st.lists(st.sampled_from(("x", "y", "taskmem"))),
    lambda below: st.dictionaries(KEYS, below, max_size=3) | st.lists(below, max_size=2),
    max_leaves=8,
)
DOCUMENTS = st.dictionaries(KEYS, VALUES, max_size=4)


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_leads_there_and_its_inverse_back(before, after):
    patch, inverse = build_patch(before, after), build_patch(after, before)
    assert is_same_json(apply_patch(before, patch), after)
    assert is_same_json(apply_patch(apply_patch(before, patch), inverse), before)


@given(DOCUMENTS, DOCUMENTS)
def test_a_patch_applied_twice_is_as_if_once(before, after):
    patch = build_patch(before, after)
    once = apply_patch(before, patch)
    assert is_same_json(apply_patch(once, patch), once)
    assert build_patch(once, after) == {}


@given(DOCUMENTS, DOCUMENTS)
def test_what_nobody_has_touched_since_is_undone_exactly(before, after):
    patch, inverse = build_patch(before, after), build_patch(after, before)
    back, kept = undo_patch(after, patch, inverse)
    assert is_same_json(back, before)
    assert kept == []


@given(DOCUMENTS, DOCUMENTS)
def test_undoing_what_is_undone_changes_nothing(before, after):
    patch, inverse = build_patch(before, after), build_patch(after, before)
    back, kept = undo_patch(before, patch, inverse)
    assert is_same_json(back, before)
    assert kept == []


def test_true_is_not_one():
    assert build_patch({"a": 1}, {"a": True}) == {"a": True}


def undo(before, after, now):
    return undo_patch(now, build_patch(before, after), build_patch(after, before))


def test_what_others_added_beside_ours_stays():
    back, kept = undo(
        {"plugins": {"allow": ["x"]}},
        {"plugins": {"allow": ["x", "taskmem"], "entries": {"taskmem": {"on": True}}}},
        {
            "plugins": {
                "allow": ["x", "taskmem", "y"],
                "entries": {"taskmem": {"on": True}, "other": {}},
            }
        },
    )
    assert back == {"plugins": {"allow": ["x", "y"], "entries": {"other": {}}}}
    assert kept == []


@pytest.mark.parametrize(
    ("now", "back", "kept"),
    [
        ({"list": ["taskmem"]}, {}, []),
        ({"list": ["taskmem", "x"]}, {"list": ["x"]}, []),
        ({"list": ["x"]}, {"list": ["x"]}, ["list"]),
        ({"list": "none"}, {"list": "none"}, ["list"]),
        ({}, {}, []),
    ],
)
def test_a_list_of_ours_goes_when_nothing_else_is_in_it(now, back, kept):
    assert undo({}, {"list": ["taskmem"]}, now) == (back, kept)


def test_words_that_were_taken_out_come_back_and_no_others():
    before, after = {"paths": ["old", "a", "b"]}, {"paths": ["a", "b", "new"]}
    back, kept = undo(before, after, {"paths": ["b", "new", "c"]})
    assert (back, kept) == ({"paths": ["b", "c", "old"]}, [])


def test_a_value_that_others_changed_stays_and_is_named():
    back, kept = undo(
        {"a": {"home": "/old", "on": False}},
        {"a": {"home": "/new", "on": True}},
        {"a": {"home": "/other", "on": True}},
    )
    assert (back, kept) == ({"a": {"home": "/other", "on": False}}, ["a.home"])


def test_what_others_have_deleted_stays_deleted_and_is_named():
    back, kept = undo({"a": {"b": 1}}, {"a": {"b": 2}}, {})
    assert (back, kept) == ({}, ["a"])
