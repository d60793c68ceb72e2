"""Test any `AgentHost` against the contract: a suite for its author to subclass."""
# ruff: noqa: S101, D102 - pytest explains assertions; names say what is tested

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Callable, Coroutine, Sequence
from datetime import UTC, datetime
from pathlib import Path

import pytest

from taskmem_hookspecs.errors import TaskmemError, WakeRefused, WakeUndelivered
from taskmem_hookspecs.hosts import (
    AgentHost,
    Card,
    CardStep,
    NamingHost,
    Notice,
    SessionView,
    StepState,
    UserQuestion,
)

LINES = (
    "Deploy: accepted and started, 3 steps.\nDeploy: completed.",
    "\"double\", 'single', `back` and \\ back\\slash\\n",
    "emoji 👩🏽‍🚀, Arabic سلام, combining é",
    "$(touch x) ; touch x | & > < * ~ !! %PATH% ${HOME}",
    "x" * 1000,
)
"""Texts for notices; each must arrive unchanged."""


class HostSuite:
    """Subclass it in your tests and implement `make_host`.

    The other methods are optional; tests that need one you did not implement are skipped.
    """

    session_key = "agent:main:main"
    """A session of your host in which no turn runs."""

    @abstractmethod
    def make_host(self, tmp_path: Path) -> AgentHost:
        """Return a working host."""

    def list_said(self, tmp_path: Path) -> Sequence[str] | None:
        """Return the notices shown, oldest first; None: unknown."""

    def read_view(self, tmp_path: Path) -> SessionView | None:
        """Return the view shown to the user of `session_key`; None: unknown."""

    def make_failing(self, tmp_path: Path) -> AgentHost | None:
        """Return a host whose every call fails temporarily; None: skip these tests."""

    def make_refusing(self, tmp_path: Path) -> AgentHost | None:
        """Return a host that refuses every call for good; None: skip these tests."""

    def test_it_plays_the_part(self, tmp_path: Path) -> None:
        assert isinstance(self.make_host(tmp_path), AgentHost)

    def test_the_sessions_that_it_names_are_its_own(self, tmp_path: Path) -> None:
        host = self.make_host(tmp_path)
        if not isinstance(host, NamingHost):
            pytest.skip("give it `describe_sessions` to try it")
        names = host.describe_sessions()
        away = names.name_background(self.session_key, "run_1")
        for key in (self.session_key, away or self.session_key):
            assert names.is_own(key), f"{key} does not begin with {names.prefix!r}"
            assert names.to_canonical(key) == key, f"{key} is not in lower case"

    @pytest.mark.parametrize("line", LINES, ids=lambda text: text[:12])
    def test_a_line_is_shown_as_it_is(self, tmp_path: Path, line: str) -> None:
        asyncio.run(self.make_host(tmp_path).say(a_notice(self.session_key, line)))
        assert require_lines(self.list_said(tmp_path)) == [line]

    def test_a_line_for_nobody_in_particular_is_shown_too(self, tmp_path: Path) -> None:
        asyncio.run(self.make_host(tmp_path).say(a_notice(None, LINES[0])))
        assert require_lines(self.list_said(tmp_path)) == [LINES[0]]

    def test_what_is_said_again_is_shown_once(self, tmp_path: Path) -> None:
        host = self.make_host(tmp_path)
        for line in (LINES[0], LINES[0], LINES[1]):
            asyncio.run(host.say(a_notice(self.session_key, line)))
        assert require_lines(self.list_said(tmp_path)) == [*LINES[:2]]

    def test_what_is_shown_later_replaces_all_that_was(self, tmp_path: Path) -> None:
        host = self.make_host(tmp_path)
        first, later = (a_view(self.session_key), SessionView(session_key=self.session_key))
        for view in (first, later, first):
            asyncio.run(host.show(view))
            found = self.read_view(tmp_path)
            if found is None:
                pytest.skip("give `read_view` to try it")
            assert found == view

    @pytest.mark.parametrize("age", [0.0, 37.5])
    def test_where_no_turn_runs_none_is_stopped_and_that_is_fine(
        self, tmp_path: Path, age: float
    ) -> None:
        asyncio.run(self.make_host(tmp_path).stop(self.session_key, age))

    def test_what_cannot_be_done_now_is_undelivered(self, tmp_path: Path) -> None:
        failing = self.make_failing(tmp_path)
        if failing is None:
            pytest.skip("give `make_failing` to try it")
        assert_raises(WakeUndelivered, failing, self.session_key)

    def test_what_never_can_be_done_is_refused(self, tmp_path: Path) -> None:
        refusing = self.make_refusing(tmp_path)
        if refusing is None:
            pytest.skip("give `make_refusing` to try it")
        assert_raises(WakeRefused, refusing, self.session_key)


def a_notice(session_key: str | None, text: str) -> Notice:
    """Return a notice whose key is its text."""
    return Notice(session_key=session_key, text=text, key=text)


def a_view(session_key: str) -> SessionView:
    """Return a view with a card and a question."""
    steps = (("Build", StepState.COMPLETED), ("Push", StepState.IN_PROGRESS))
    return SessionView(
        session_key=session_key,
        card=Card(
            markdown="**Deploy**",
            plan=tuple(CardStep(step=step, status=status) for step, status in steps),
            since=datetime(2026, 1, 1, tzinfo=UTC),
        ),
        questions=(UserQuestion(key="1", header="Hm?", text=LINES[1], options=("Yes", "No")),),
    )


def require_lines(lines: Sequence[str] | None) -> list[str]:
    """Return the notices shown; skip the test if they are unknown."""
    if lines is None:
        pytest.skip("give `list_said` to try it")
    return [*lines]


def assert_raises(expected: type[TaskmemError], host: AgentHost, session_key: str) -> None:
    """Check that `say`, `show` and `stop` raise the error with a sentence on one line."""
    asked: Sequence[Callable[[], Coroutine[None, None, None]]] = (
        lambda: host.say(a_notice(session_key, LINES[0])),
        lambda: host.show(a_view(session_key)),
        lambda: host.stop(session_key, 0.0),
    )
    for ask in asked:
        with pytest.raises(expected) as raised:
            asyncio.run(ask())
        sentence = str(raised.value)
        assert sentence.strip(), "the error says nothing"
        assert len(sentence.splitlines()) == 1
