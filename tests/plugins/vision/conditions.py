"""Conditions made of forms, for tests of those who judge them."""

from __future__ import annotations

from pydantic import TypeAdapter

from taskmem_hookspecs.conditions import Condition, Form, Side


def make_condition(*sides, sentence=None):
    """Return a condition; a side is a form, several of them, or words in free English.

    A form is a dictionary, as `signals` takes it; a text alone is free English.
    """
    made = [_make_side(side) for side in sides]
    said = sentence or " or ".join(side.words for side in made)
    return Condition(sentence=said, sides=tuple(made))


def text(shown, **fields):
    return {"text": shown, **fields}


def _make_side(side):
    if isinstance(side, str):
        return Side(words=side)
    given = [side] if isinstance(side, dict) else side
    forms = tuple(TypeAdapter(Form).validate_python(each) for each in given)
    return Side(words=" and ".join(map(str, forms)), forms=forms)
