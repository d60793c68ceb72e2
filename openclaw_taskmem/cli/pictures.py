"""The pictures that are kept of a wait, as `show --pictures` tells of them."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from openclaw_taskmem.domain.texts import to_printable


def format_picture_rows(found: Any) -> list[list[str]]:  # noqa: ANN401 - JSON
    """Return a row for each picture: which it is, when it was taken here, its path.

    Args:
        found: What the daemon answers of a wait.
    """
    return [
        [moment, _format_local_time(picture["taken_at"]), to_printable(picture["path"], "\ufffd")]
        for moment, picture in found["pictures"].items()
    ]


def explain_no_pictures(found: Any) -> str:  # noqa: ANN401 - JSON
    """Say that there is none, and why, where that is known."""
    why = found["pictures_note"]
    return f"No pictures are kept of this wait.{f' {why}' if why else ''}"


def _format_local_time(instant: str) -> str:
    """Return an instant as the clock on the wall shows it."""
    return f"{datetime.fromisoformat(instant).astimezone():%Y-%m-%d %H:%M:%S}"
