"""What is broken, and what follows from it."""

from __future__ import annotations

from typing import Any

from openclaw_taskmem.domain.views.overview import list_faults


def a_row(name: str, state: str) -> dict[str, Any]:
    return {"id": name, "state": state, "detail": f"{name} is so.", "effect": "No wake."}


def test_only_what_is_broken_is_a_fault() -> None:
    rows = [a_row("daemon", "ok"), a_row("reader.gemini", "off"), a_row("clock", "warn")]
    assert list_faults(rows, [], full=False) == []


def test_a_fault_says_what_follows_from_it() -> None:
    rows = [a_row("openclaw.gateway", "fail"), a_row("openclaw.hooks", "fail")]
    [fault] = list_faults(rows, [], full=False)
    assert (fault.what, fault.follows) == ("openclaw.gateway is so.", "No wake.")


def test_a_failed_plugin_and_a_full_database_need_no_doctor() -> None:
    plugins = [
        {"name": "vision", "state": "failed", "last_error": "No\nmodule."},
        {"name": "terminal", "state": "off", "last_error": None},
    ]
    found = list_faults([], plugins, full=True)
    assert [fault.what for fault in found] == [
        "The plug-in vision has failed: No module.",
        "The database is larger than it may be.",
    ]
