"""Whose wakes are whose, and which of them stay until they are fetched."""

from __future__ import annotations

from datetime import timedelta

import pytest

from openclaw_taskmem.domain import callers
from openclaw_taskmem.domain.policies import OutboxPolicy
from openclaw_taskmem.domain.wakes import outbox
from taskmem_hookspecs import WakeState
from taskmem_hookspecs.testing import DAWN, a_wake


@pytest.mark.parametrize(
    ("name", "host"),
    [
        ("claude-code", "mcp:claude-code"),
        (" codex\x1b[31m\n ", "mcp:codex[31m"),
        ("x" * 999, f"mcp:{'x' * callers.NAME_LENGTH}"),
        ("\x00", "mcp"),
        (None, "mcp"),
    ],
)
def test_a_host_is_called_as_its_mcp_client_calls_itself(name: str | None, host: str) -> None:
    assert callers.name_client_host(name) == host


@pytest.mark.parametrize("state", callers.OWED_STATES)
def test_a_wake_that_is_kept_is_owed_and_tried_no_more(state: WakeState) -> None:
    tried = a_wake(state=state, due_at=DAWN, attempts=3, last_error="It was away.")

    (kept,) = outbox.keep_wakes([tried], DAWN, OutboxPolicy()).wakes

    assert (kept.state, kept.due_at, kept.last_error) == (WakeState.DUE, None, None)
    assert callers.is_kept(kept)
    assert not callers.is_kept(tried)
    assert not callers.is_kept(
        a_wake(state=WakeState.ACKNOWLEDGED, due_at=None, sent_at=DAWN + timedelta(1))
    )


@pytest.mark.parametrize(
    ("hosts", "apart"),
    [
        ([None, "one", None], [[None, "one", None]]),
        (["one", None, "two", "one"], [["one", "one"], [None], ["two"]]),
    ],
)
def test_the_wakes_of_two_hosts_share_no_message(
    hosts: list[str | None], apart: list[list[str | None]]
) -> None:
    wakes = [a_wake(wake_id=f"wake_{n}", host=host) for n, host in enumerate(hosts)]

    found = [[wake.host for wake in group] for group in callers.split_by_host(wakes)]

    assert found == apart
