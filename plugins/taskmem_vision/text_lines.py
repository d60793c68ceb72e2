"""Texts of others on one line: safe to print and to send, or to be compared."""

from __future__ import annotations


def to_one_line(text: str, longest: int | None = None) -> str:
    """Return a text on one line, without what steers a terminal or cannot be sent.

    `longest` is in characters; an ellipsis follows where it is cut.
    """
    clean = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(clean.split())
    return line if longest is None or len(line) <= longest else f"{line[:longest]}…"


def fold_text(text: str) -> str:
    """Return a text so that line breaks and case do not matter."""
    return " ".join(text.casefold().split())
