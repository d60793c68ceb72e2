"""Put foreign text on one line, safe to print."""

from __future__ import annotations


def to_one_line(text: str, longest: int | None = None) -> str:
    """Return a text on one line, without control characters and lone surrogates.

    `longest` is in characters; a cut text ends with an ellipsis.
    """
    clean = "".join(each if each.isprintable() else " " for each in text)
    line = " ".join(clean.split())
    return line if longest is None or len(line) <= longest else f"{line[:longest]}…"


def fold_text(text: str) -> str:
    """Return a text casefolded, with each run of white space as one space."""
    return " ".join(text.casefold().split())
