"""A patch leads there, and its inverse back."""

from hypothesis import given
from hypothesis import strategies as st

from taskmem_openclaw.setup.config_edits import apply_patch, build_patch, is_same_json

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


def test_true_is_not_one():
    assert build_patch({"a": 1}, {"a": True}) == {"a": True}
