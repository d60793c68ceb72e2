"""The suite for transports finds what it is there to find."""

import asyncio
from datetime import datetime

import pytest

from taskmem_hookspecs import WakeReceipt, WakeUndelivered
from taskmem_hookspecs.testing import DAWN, TransportSuite
from tests.contract.breaking import broken_rules


class Faithful:
    """A transport that keeps every rule."""

    name = "made"

    def __init__(self):
        self.texts = []

    async def deliver(self, wake):
        await asyncio.sleep(0)
        self.texts.append(wake.text)
        return WakeReceipt(delivered_at=DAWN)


class Nameless(Faithful):
    name = ""


class PaddedTransport(Faithful):
    name = " made"


class Auto(Faithful):
    name = "auto"


class Silent(Faithful):
    async def deliver(self, wake):
        await super().deliver(wake)


class Naive(Faithful):
    async def deliver(self, wake):
        await super().deliver(wake)
        return WakeReceipt.model_construct(delivered_at=datetime(2026, 1, 1))  # noqa: DTZ001


class Once(Faithful):
    async def deliver(self, wake):
        if self.texts:
            raise WakeUndelivered("one is enough")
        return await super().deliver(wake)


class Busy(Faithful):
    busy = False

    async def deliver(self, wake):
        if self.busy:
            raise WakeUndelivered("one at a time")
        self.busy = True
        try:
            return await super().deliver(wake)
        finally:
            self.busy = False


class SplittingTransport(Faithful):
    async def deliver(self, wake):
        receipt = await super().deliver(wake)
        self.texts[-1:] = wake.text.splitlines()
        return receipt


class ClippingTransport(Faithful):
    async def deliver(self, wake):
        clipped = wake.text[:4095].strip()
        return await super().deliver(wake.model_copy(update={"text": clipped}))


class HoggingTransport(Faithful):
    async def deliver(self, wake):
        self.texts.append(wake.text)
        return WakeReceipt(delivered_at=DAWN)


class Sessions(Faithful):
    async def deliver(self, wake):
        if wake.session_key is None:
            raise WakeUndelivered("to whom?")
        return await super().deliver(wake)


class TellingTwice(Faithful):
    tells_once = True


class ReachingAll(Faithful):
    def reaches(self, host, session_key):
        return True


class FailingTransport:
    name = "made"

    def __init__(self, error):
        self.error = error

    async def deliver(self, wake):
        raise self.error


def suite_of(made, failing=None, refusing=None, gone=None):
    class Suite(TransportSuite):
        tells_once = getattr(made, "tells_once", False)

        def begin(self):
            made.texts = []

        def make_transport(self, tmp_path):
            return made

        def list_received(self, tmp_path):
            return made.texts

        def make_failing(self, tmp_path):
            return failing

        def make_refusing(self, tmp_path):
            return refusing

        def make_gone(self, tmp_path):
            return gone

    return Suite()


def test_a_transport_that_keeps_every_rule_passes(tmp_path):
    assert broken_rules(suite_of(Faithful()), tmp_path) == set()


@pytest.mark.parametrize(
    ("made", "rule"),
    [
        (Nameless, "it_has_a_name_that_settings_can_hold"),
        (PaddedTransport, "it_has_a_name_that_settings_can_hold"),
        (Auto, "it_has_a_name_that_settings_can_hold"),
        (Silent, "a_delivery_is_answered_with_a_receipt"),
        (Naive, "a_delivery_is_answered_with_a_receipt"),
        (Once, "the_same_key_may_come_twice"),
        (Busy, "two_deliveries_may_run_at_once"),
        (SplittingTransport, "a_text_arrives_as_it_is"),
        (ClippingTransport, "a_text_arrives_as_it_is"),
        (HoggingTransport, "a_delivery_lets_others_go_on"),
        (TellingTwice, "a_wake_that_comes_twice_is_told_once_if_it_says_so"),
        (ReachingAll, "it_says_whom_it_reaches_if_it_is_selective"),
        (Sessions, "a_wake_is_taken_with_a_session_and_without"),
    ],
)
def test_a_transport_that_breaks_a_rule_is_found_out(made, rule, tmp_path):
    assert rule in broken_rules(suite_of(made()), tmp_path)


@pytest.mark.parametrize(
    "error", [ValueError("boom"), WakeUndelivered(""), WakeUndelivered("two\nlines")]
)
def test_a_failure_that_says_nothing_is_found_out(error, tmp_path):
    failing = FailingTransport(error)
    assert broken_rules(suite_of(Faithful(), failing, failing), tmp_path) == {
        "what_does_not_arrive_is_undelivered",
        "what_never_will_be_accepted_is_refused",
    }


def test_one_that_reaches_sessions_that_have_ended_is_found_out(tmp_path):
    suite = suite_of(Faithful(), gone=ReachingAll())
    assert broken_rules(suite, tmp_path) == {"a_session_that_has_ended_is_not_reached"}
