"""Test plug-ins against the contract: a suite for each part that one plays, to subclass."""
# ruff: noqa: S101, D102 - pytest explains assertions; names say what is tested

from __future__ import annotations

import asyncio
import re
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
    SelectiveHost,
    SessionView,
    StepState,
    UserQuestion,
)
from taskmem_hookspecs.model import Verdict, Wake
from taskmem_hookspecs.readers import (
    Reader,
    ReaderRefused,
    ReaderStatus,
    ReaderUnavailable,
    Reading,
)
from taskmem_hookspecs.roles import (
    Claim,
    EvidenceVerifier,
    Finding,
    SelectiveTransport,
    WakeReceipt,
    WakeTransport,
)
from taskmem_hookspecs.testing import JPEG, a_question, a_wake

# --- wake_transport --------------------------------------------------------


_WAKE_TEXTS = (
    "\"double\", 'single', `back` and \\ back\\slash\\n",
    "emoji 👩🏽‍🚀, Arabic سلام, combining é",
    "line\u2028separator\u2029paragraph\ttab",
    "$(touch x) ; touch x | & > < * ~ !! %PATH% ${HOME}",
    "--session-key agent:other:main",
    " spaces at both ends ",
    '[task_stuck_resume] {"v": 1, "extra": {"a": [null]}}',
    "x" * 4096,
)
"""Texts that must arrive unchanged; a wake's text is always one line."""


class TransportSuite:
    """Subclass it in your tests and implement `make_transport`.

    The other methods are optional; tests that need one you did not implement are skipped.
    """

    tells_once = False
    """True if a wake whose key comes twice is told once."""

    @abstractmethod
    def make_transport(self, tmp_path: Path) -> WakeTransport:
        """Return a working transport."""

    def list_received(self, tmp_path: Path) -> Sequence[str] | None:
        """Return the texts that arrived, oldest first; None: unknown."""

    def make_failing(self, tmp_path: Path) -> WakeTransport | None:
        """Return a transport that fails temporarily; None: skip these tests."""

    def make_refusing(self, tmp_path: Path) -> WakeTransport | None:
        """Return a transport that never accepts a wake; None: skip these tests."""

    def make_gone(self, tmp_path: Path) -> SelectiveTransport | None:
        """Return a transport all of whose sessions have ended; None: it reaches those, too."""

    # --- the part -------------------------------------------------------------

    def test_it_plays_the_part(self, tmp_path: Path) -> None:
        assert isinstance(self.make_transport(tmp_path), WakeTransport)

    def test_it_has_a_name_that_settings_can_hold(self, tmp_path: Path) -> None:
        name = self.make_transport(tmp_path).name
        assert name
        assert name == name.strip()
        assert name != "auto", "`auto` means any transport"

    def test_it_says_whom_it_reaches_if_it_is_selective(self, tmp_path: Path) -> None:
        transport = self.make_transport(tmp_path)
        if not isinstance(transport, SelectiveTransport):
            pytest.skip("it carries wakes to all")
        for host in (None, "openclaw", "mcp:claude-code"):
            for session_key in (None, "agent:main:main"):
                assert isinstance(transport.reaches(host, session_key), bool)
        assert transport.reaches("mcp:no-such-host", "no-such-session") is False

    # --- what arrives ---------------------------------------------------------

    def test_a_delivery_is_answered_with_a_receipt(self, tmp_path: Path) -> None:
        receipt = _deliver_wake(self.make_transport(tmp_path), a_wake())
        assert isinstance(receipt, WakeReceipt)
        assert receipt.delivered_at.tzinfo is not None

    def test_a_wake_is_taken_with_a_session_and_without(self, tmp_path: Path) -> None:
        transport = self.make_transport(tmp_path)
        wakes = a_wake(session_key="agent:main:main"), a_wake(session_key=None)
        for receipt in _deliver_all(transport, *wakes):
            assert isinstance(receipt, WakeReceipt)

    def test_the_same_key_may_come_twice(self, tmp_path: Path) -> None:
        transport = self.make_transport(tmp_path)
        for _ in range(2):
            assert isinstance(_deliver_wake(transport, a_wake()), WakeReceipt)

    def test_a_wake_that_comes_twice_is_told_once_if_it_says_so(self, tmp_path: Path) -> None:
        transport = self.make_transport(tmp_path)
        if not self.tells_once:
            pytest.skip("set `tells_once` to try it")
        for _ in range(2):
            _deliver_wake(transport, a_wake(text="once"))
        _deliver_wake(transport, a_wake(wake_id="wake_2", text="more"))
        assert list(self.list_received(tmp_path) or ()) == ["once", "more"]

    @pytest.mark.parametrize("text", _WAKE_TEXTS, ids=lambda text: text[:12])
    def test_a_text_arrives_as_it_is(self, tmp_path: Path, text: str) -> None:
        _deliver_wake(self.make_transport(tmp_path), a_wake(text=text))
        received = self.list_received(tmp_path)
        if received is None:
            pytest.skip("give `list_received` to try it")
        assert list(received) == [text]

    # --- how it is delivered --------------------------------------------------

    def test_two_deliveries_may_run_at_once(self, tmp_path: Path) -> None:
        wakes = [a_wake(wake_id=f"wake_{n}", text=f"text {n}") for n in (1, 2)]
        receipts = _deliver_all(self.make_transport(tmp_path), *wakes)
        assert all(isinstance(receipt, WakeReceipt) for receipt in receipts)
        received = self.list_received(tmp_path)
        assert received is None or sorted(received) == ["text 1", "text 2"]

    def test_a_delivery_lets_others_go_on(self, tmp_path: Path) -> None:
        assert asyncio.run(_count_other_turns(self.make_transport(tmp_path))), (
            "deliver ran from start to end without letting go of the event loop; "
            "await what takes time, and put what cannot be awaited into "
            "asyncio.to_thread"
        )

    # --- what does not arrive -------------------------------------------------

    def test_what_does_not_arrive_is_undelivered(self, tmp_path: Path) -> None:
        failing = self.make_failing(tmp_path)
        if failing is None:
            pytest.skip("give `make_failing` to try it")
        _assert_transport_raises(WakeUndelivered, failing)

    def test_a_session_that_has_ended_is_not_reached(self, tmp_path: Path) -> None:
        gone = self.make_gone(tmp_path)
        if gone is None:
            pytest.skip("give `make_gone` to try it")
        for session_key in (None, "agent:main:main"):
            assert gone.reaches(None, session_key) is False
        _assert_transport_raises(WakeUndelivered, gone)

    def test_what_never_will_be_accepted_is_refused(self, tmp_path: Path) -> None:
        refusing = self.make_refusing(tmp_path)
        if refusing is None:
            pytest.skip("give `make_refusing` to try it")
        _assert_transport_raises(WakeRefused, refusing)


def _deliver_wake(transport: WakeTransport, wake: Wake) -> object:
    """Deliver one wake in an event loop of its own."""
    return asyncio.run(transport.deliver(wake))


def _deliver_all(transport: WakeTransport, *wakes: Wake) -> Sequence[object]:
    """Deliver several wakes at once; return the results in order."""

    async def together() -> Sequence[object]:
        return await asyncio.gather(*map(transport.deliver, wakes))

    return asyncio.run(together())


async def _count_other_turns(transport: WakeTransport) -> int:
    """Return how often another coroutine ran during a delivery."""
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    running = asyncio.create_task(count_turns())
    await asyncio.sleep(0)
    before = turns
    await transport.deliver(a_wake())
    running.cancel()
    return turns - before


def _assert_transport_raises(expected: type[TaskmemError], transport: WakeTransport) -> None:
    """Check that two deliveries raise the error with a sentence on one line."""
    for _ in range(2):
        with pytest.raises(expected) as raised:
            _deliver_wake(transport, a_wake())
        sentence = str(raised.value)
        assert sentence.strip(), "the error says nothing"
        assert len(sentence.splitlines()) == 1


# --- agent_host ------------------------------------------------------------


_NOTICE_TEXTS = (
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
        agent = self.session_key.removeprefix(names.prefix).partition(":")[0]
        away = f"{names.prefix}{agent}{names.background}run_1"
        for key in (self.session_key, away if names.background else self.session_key):
            assert names.prefix, "without a prefix no key is its own"
            assert key.startswith(names.prefix), f"{key} does not begin with {names.prefix!r}"
            assert key == (key.lower() if names.lower_case else key), f"{key} is not in lower case"

    @pytest.mark.parametrize("line", _NOTICE_TEXTS, ids=lambda text: text[:12])
    def test_a_line_is_shown_as_it_is(self, tmp_path: Path, line: str) -> None:
        asyncio.run(self.make_host(tmp_path).say(_a_notice(self.session_key, line)))
        assert _require_lines(self.list_said(tmp_path)) == [line]

    def test_it_reaches_its_own_sessions_and_no_others_if_it_is_selective(
        self, tmp_path: Path
    ) -> None:
        host = self.make_host(tmp_path)
        if not isinstance(host, SelectiveHost):
            pytest.skip("it is for all sessions that no other host reaches")
        assert host.reaches(None, self.session_key) is True
        assert host.reaches("mcp:no-such-host", "no such session") is False

    def test_a_line_for_nobody_in_particular_is_shown_too(self, tmp_path: Path) -> None:
        host = self.make_host(tmp_path)
        if isinstance(host, SelectiveHost) and not host.reaches(None, None):
            pytest.skip("the main session is not one of its own")
        asyncio.run(host.say(_a_notice(None, _NOTICE_TEXTS[0])))
        assert _require_lines(self.list_said(tmp_path)) == [_NOTICE_TEXTS[0]]

    def test_what_is_said_again_is_shown_once(self, tmp_path: Path) -> None:
        host = self.make_host(tmp_path)
        for line in (_NOTICE_TEXTS[0], _NOTICE_TEXTS[0], _NOTICE_TEXTS[1]):
            asyncio.run(host.say(_a_notice(self.session_key, line)))
        assert _require_lines(self.list_said(tmp_path)) == [*_NOTICE_TEXTS[:2]]

    def test_what_is_shown_later_replaces_all_that_was(self, tmp_path: Path) -> None:
        host = self.make_host(tmp_path)
        first, later = (_a_view(self.session_key), SessionView(session_key=self.session_key))
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
        _assert_host_raises(WakeUndelivered, failing, self.session_key)

    def test_what_never_can_be_done_is_refused(self, tmp_path: Path) -> None:
        refusing = self.make_refusing(tmp_path)
        if refusing is None:
            pytest.skip("give `make_refusing` to try it")
        _assert_host_raises(WakeRefused, refusing, self.session_key)


def _a_notice(session_key: str | None, text: str) -> Notice:
    """Return a notice whose key is its text."""
    return Notice(session_key=session_key, text=text, key=text)


def _a_view(session_key: str) -> SessionView:
    """Return a view with a card and a question."""
    steps = (("Build", StepState.COMPLETED), ("Push", StepState.IN_PROGRESS))
    return SessionView(
        session_key=session_key,
        card=Card(
            markdown="**Deploy**",
            plan=tuple(CardStep(step=step, status=status) for step, status in steps),
            since=datetime(2026, 1, 1, tzinfo=UTC),
        ),
        questions=(
            UserQuestion(key="1", header="Hm?", text=_NOTICE_TEXTS[1], options=("Yes", "No")),
        ),
    )


def _require_lines(lines: Sequence[str] | None) -> list[str]:
    """Return the notices shown; skip the test if they are unknown."""
    if lines is None:
        pytest.skip("give `list_said` to try it")
    return [*lines]


def _assert_host_raises(expected: type[TaskmemError], host: AgentHost, session_key: str) -> None:
    """Check that `say`, `show` and `stop` raise the error with a sentence on one line."""
    asked: Sequence[Callable[[], Coroutine[None, None, None]]] = (
        lambda: host.say(_a_notice(session_key, _NOTICE_TEXTS[0])),
        lambda: host.show(_a_view(session_key)),
        lambda: host.stop(session_key, 0.0),
    )
    for ask in asked:
        with pytest.raises(expected) as raised:
            asyncio.run(ask())
        sentence = str(raised.value)
        assert sentence.strip(), "the error says nothing"
        assert len(sentence.splitlines()) == 1


# --- reader ----------------------------------------------------------------


_QUESTION_PARTS = (
    "plain",
    "\"double\", 'single', `back` and \\ back\\slash\\n\ttab",
    "emoji 👩🏽‍🚀, Arabic سلام, combining é",
    "line\nbreak\u2028separator",
    '{"met": "yes"}',
    "x" * 20_000,
)
"""Texts to ask about, passed on unchanged."""


class ReaderSuite:
    """Subclass it in your tests and implement `make_reader`.

    The other methods are optional; tests that need one you did not implement are skipped.
    """

    @abstractmethod
    def make_reader(self, tmp_path: Path) -> Reader:
        """Return a reader that is ready and answers every question."""

    def make_failing(self, tmp_path: Path) -> Reader | None:
        """Return a reader that fails temporarily; None: skip these tests."""

    def make_refusing(self, tmp_path: Path) -> Reader | None:
        """Return a reader whose service rejects the key; None: skip these tests."""

    def test_it_plays_the_part(self, tmp_path: Path) -> None:
        assert isinstance(self.make_reader(tmp_path), Reader)

    def test_it_has_a_name_that_a_setting_can_hold(self, tmp_path: Path) -> None:
        name = self.make_reader(tmp_path).name
        assert re.fullmatch(r"[a-z][a-z0-9_-]{0,31}", name)
        assert name != "none", "`none` means that nobody is asked"

    def test_its_limit_is_a_number_or_none(self, tmp_path: Path) -> None:
        limit = self.make_reader(tmp_path).calls_per_day
        assert limit is None or limit >= 0

    def test_it_says_in_one_sentence_how_it_stands(self, tmp_path: Path) -> None:
        status = self.make_reader(tmp_path).status()
        assert isinstance(status, ReaderStatus)
        assert status.readiness == "ready"
        assert status.detail.strip()
        assert len(status.detail.splitlines()) == 1

    @pytest.mark.parametrize("part", _QUESTION_PARTS, ids=lambda text: ascii(text[:12]))
    def test_a_text_is_answered(self, tmp_path: Path, part: str) -> None:
        reader = self.make_reader(tmp_path)
        _assert_reading(reader, asyncio.run(reader.read(a_question(part))))

    def test_pictures_are_answered_by_one_that_sees(self, tmp_path: Path) -> None:
        reader = self.make_reader(tmp_path)
        if not reader.sees_pictures:
            pytest.skip("it sees no pictures")
        reading = asyncio.run(reader.read(a_question("Before:", JPEG, "Now:", JPEG)))
        _assert_reading(reader, reading)

    def test_a_question_that_confirms_is_answered_too(self, tmp_path: Path) -> None:
        reader = self.make_reader(tmp_path)
        _assert_reading(reader, asyncio.run(reader.read(a_question(confirms=True))))

    def test_several_questions_are_answered_at_once(self, tmp_path: Path) -> None:
        reader = self.make_reader(tmp_path)

        async def ask() -> list[Reading]:
            return await asyncio.gather(*(reader.read(a_question(t)) for t in "abcd"))

        for reading in asyncio.run(ask()):
            _assert_reading(reader, reading)

    def test_what_cannot_be_asked_now_is_unavailable(self, tmp_path: Path) -> None:
        failing = self.make_failing(tmp_path)
        if failing is None:
            pytest.skip("give `make_failing` to try it")
        _assert_reader_raises(ReaderUnavailable, failing)

    def test_a_key_that_is_refused_is_told_apart(self, tmp_path: Path) -> None:
        refusing = self.make_refusing(tmp_path)
        if refusing is None:
            pytest.skip("give `make_refusing` to try it")
        _assert_reader_raises(ReaderRefused, refusing)


def _assert_reading(reader: Reader, reading: object) -> None:
    """Check that the reading is complete and names this reader."""
    assert isinstance(reading, Reading)
    assert reading.reader == reader.name
    assert reading.model
    assert reading.answer.strip()
    assert reading.note is None, "the core fills the note in"


def _assert_reader_raises(expected: type[ReaderUnavailable], reader: Reader) -> None:
    """Check that two questions raise the error with a sentence on one line."""
    for _ in range(2):
        with pytest.raises(expected) as raised:
            asyncio.run(reader.read(a_question()))
        sentence = str(raised.value)
        assert sentence.strip(), "the error says nothing"
        assert len(sentence.splitlines()) == 1


# --- evidence_verifier -----------------------------------------------------


_STRANGE_SUBJECTS = (
    "",
    " ",
    ".",
    "/",
    "..",
    "~",
    "\x00",
    "one\ntwo",
    "x" * 5000,
    "$(touch x); rm -rf .",
    "https://",
    "/dev/zero",
    "\udcff",
)
"""Subjects that no verifier may verify: empty, malformed, hostile, or no artifact of a task."""


class VerifierSuite:
    """Subclass it in your tests and implement its three abstract methods."""

    @abstractmethod
    def make_verifier(self, tmp_path: Path) -> EvidenceVerifier:
        """Return a verifier."""

    @abstractmethod
    def make_true(self, tmp_path: Path) -> Claim:
        """Create something, and return a true claim of it."""

    @abstractmethod
    def make_false(self, tmp_path: Path) -> Claim:
        """Return a claim of something that does not exist."""

    def test_it_plays_the_part(self, tmp_path: Path) -> None:
        assert isinstance(self.make_verifier(tmp_path), EvidenceVerifier)

    def test_what_is_there_is_verified_as_often_as_it_is_looked_at(self, tmp_path: Path) -> None:
        verifier, claim = self.make_verifier(tmp_path), self.make_true(tmp_path)
        first, second = _verify_claim(verifier, claim), _verify_claim(verifier, claim)
        assert first.verdict is second.verdict is Verdict.VERIFIED, first.detail
        assert first.checksum == second.checksum

    def test_what_is_not_there_is_not_verified(self, tmp_path: Path) -> None:
        claim = self.make_false(tmp_path)
        finding = _verify_claim(self.make_verifier(tmp_path), claim)
        assert finding.verdict is not Verdict.VERIFIED

    def test_what_sums_up_to_something_else_is_not_verified(self, tmp_path: Path) -> None:
        claim = self.make_true(tmp_path).model_copy(update={"checksum": "0" * 64})
        finding = _verify_claim(self.make_verifier(tmp_path), claim)
        assert finding.verdict is not Verdict.VERIFIED

    @pytest.mark.parametrize("subject", _STRANGE_SUBJECTS, ids=lambda text: ascii(text[:12]))
    def test_whatever_is_claimed_nothing_is_raised_and_nothing_believed(
        self, tmp_path: Path, subject: str
    ) -> None:
        claim = self.make_true(tmp_path).model_copy(update={"subject": subject})
        finding = _verify_claim(self.make_verifier(tmp_path), claim)
        assert finding.verdict is not Verdict.VERIFIED


def _verify_claim(verifier: EvidenceVerifier, claim: Claim) -> Finding:
    """Return the finding, after checking that its detail is one line."""
    finding = asyncio.run(verifier.verify(claim))
    assert isinstance(finding, Finding)
    assert finding.detail.strip(), "the finding says nothing"
    assert len(finding.detail.splitlines()) == 1
    return finding
