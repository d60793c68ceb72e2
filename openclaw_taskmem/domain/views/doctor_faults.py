"""Say what is broken in Task memory itself, and what follows from it for the user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from openclaw_taskmem.domain.text.texts import to_plain_line
from taskmem_hookspecs import DoctorState, Value

_UNKNOWN_EFFECT: Final = "Some of what is shown here may be missing."


class DoctorFault(Value):
    """One thing that is broken."""

    what: str
    follows: str
    """The effect for the user, in one sentence."""


def list_faults(
    rows: Sequence[Mapping[str, Any]], plugins: Sequence[Mapping[str, Any]], *, full: bool
) -> Sequence[DoctorFault]:
    """Return what is broken, each thing once.

    Args:
        rows: The rows of the doctor's last report; empty: it has not looked yet.
        plugins: The plug-ins, each with its `name`, `state` and `last_error`.
        full: True if the database is too large and nothing more may be dropped.
    """
    found: dict[str, DoctorFault] = {}
    for plugin in plugins:
        if plugin["state"] == "failed":
            why = f": {str(plugin['last_error']).rstrip('.')}" if plugin["last_error"] else ""
            found["plugin"] = _build_fault(
                f"The plug-in {plugin['name']} has failed{why}.", "What it does is missing."
            )
    if full:
        sentence = "The database is larger than it may be."
        found["kept"] = _build_fault(sentence, "Nothing more can be dropped to make room.")
    for row in rows:
        if row["state"] == DoctorState.FAIL:
            subject, effect = str(row["id"]).partition(".")[0], row.get("effect")
            found.setdefault(subject, _build_fault(row["detail"], effect or _UNKNOWN_EFFECT))
    return [*found.values()]


def _build_fault(what: str, follows: str) -> DoctorFault:
    return DoctorFault(what=to_plain_line(what), follows=to_plain_line(follows))
