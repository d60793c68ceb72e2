"""Test any `WakeTransport` against the contract: a suite for its author to subclass."""
# ruff: noqa: S101, D102 - pytest explains assertions; names say what is tested

from __future__ import annotations

import asyncio
from abc import abstractmethod
from collections.abc import Sequence
from pathlib import Path

import pytest

from taskmem_hookspecs.errors import TaskmemError, WakeRefused, WakeUndelivered
from taskmem_hookspecs.model import Wake
from taskmem_hookspecs.roles import SelectiveTransport, WakeReceipt, WakeTransport
from taskmem_hookspecs.testing.values import a_wake

HOSTILE_TEXTS = (
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

    @abstractmethod
    def make_transport(self, tmp_path: Path) -> WakeTransport:
        """Return a working transport."""

    def list_received(self, tmp_path: Path) -> Sequence[str] | None:
        """Return the texts that arrived, oldest first; None: unknown."""

    def make_failing(self, tmp_path: Path) -> WakeTransport | None:
        """Return a transport that fails temporarily; None: skip these tests."""

    def make_refusing(self, tmp_path: Path) -> WakeTransport | None:
        """Return a transport that never accepts a wake; None: skip these tests."""

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

    # --- what arrives ---------------------------------------------------------

    def test_a_delivery_is_answered_with_a_receipt(self, tmp_path: Path) -> None:
        receipt = deliver_wake(self.make_transport(tmp_path), a_wake())
        assert isinstance(receipt, WakeReceipt)
        assert receipt.delivered_at.tzinfo is not None

    def test_a_wake_is_taken_with_a_session_and_without(self, tmp_path: Path) -> None:
        transport = self.make_transport(tmp_path)
        wakes = a_wake(session_key="agent:main:main"), a_wake(session_key=None)
        for receipt in deliver_all(transport, *wakes):
            assert isinstance(receipt, WakeReceipt)

    def test_the_same_key_may_come_twice(self, tmp_path: Path) -> None:
        transport = self.make_transport(tmp_path)
        for _ in range(2):
            assert isinstance(deliver_wake(transport, a_wake()), WakeReceipt)

    @pytest.mark.parametrize("text", HOSTILE_TEXTS, ids=lambda text: text[:12])
    def test_a_text_arrives_as_it_is(self, tmp_path: Path, text: str) -> None:
        deliver_wake(self.make_transport(tmp_path), a_wake(text=text))
        received = self.list_received(tmp_path)
        if received is None:
            pytest.skip("give `list_received` to try it")
        assert list(received) == [text]

    # --- how it is delivered --------------------------------------------------

    def test_two_deliveries_may_run_at_once(self, tmp_path: Path) -> None:
        wakes = [a_wake(wake_id=f"wake_{n}", text=f"text {n}") for n in (1, 2)]
        receipts = deliver_all(self.make_transport(tmp_path), *wakes)
        assert all(isinstance(receipt, WakeReceipt) for receipt in receipts)
        received = self.list_received(tmp_path)
        assert received is None or sorted(received) == ["text 1", "text 2"]

    def test_a_delivery_lets_others_go_on(self, tmp_path: Path) -> None:
        assert asyncio.run(count_other_turns(self.make_transport(tmp_path))), (
            "deliver ran from start to end without letting go of the event loop; "
            "await what takes time, and put what cannot be awaited into "
            "asyncio.to_thread"
        )

    # --- what does not arrive -------------------------------------------------

    def test_what_does_not_arrive_is_undelivered(self, tmp_path: Path) -> None:
        failing = self.make_failing(tmp_path)
        if failing is None:
            pytest.skip("give `make_failing` to try it")
        assert_raises(WakeUndelivered, failing)

    def test_what_never_will_be_accepted_is_refused(self, tmp_path: Path) -> None:
        refusing = self.make_refusing(tmp_path)
        if refusing is None:
            pytest.skip("give `make_refusing` to try it")
        assert_raises(WakeRefused, refusing)


def deliver_wake(transport: WakeTransport, wake: Wake) -> object:
    """Deliver one wake in an event loop of its own."""
    return asyncio.run(transport.deliver(wake))


def deliver_all(transport: WakeTransport, *wakes: Wake) -> Sequence[object]:
    """Deliver several wakes at once; return the results in order."""

    async def together() -> Sequence[object]:
        return await asyncio.gather(*map(transport.deliver, wakes))

    return asyncio.run(together())


async def count_other_turns(transport: WakeTransport) -> int:
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


def assert_raises(expected: type[TaskmemError], transport: WakeTransport) -> None:
    """Check that two deliveries raise the error with a sentence on one line."""
    for _ in range(2):
        with pytest.raises(expected) as raised:
            deliver_wake(transport, a_wake())
        sentence = str(raised.value)
        assert sentence.strip(), "the error says nothing"
        assert len(sentence.splitlines()) == 1
