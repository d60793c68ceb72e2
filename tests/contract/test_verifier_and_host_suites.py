"""The suites for verifiers and for hosts find what they are there to find."""

import pytest

from taskmem_hookspecs import Claim, Finding, SessionNames, Verdict, WakeRefused, WakeUndelivered
from taskmem_hookspecs.testing import DAWN, HostSuite, VerifierSuite
from tests.contract.breaking import broken_rules

# --- verifiers --------------------------------------------------------------------

TRUE = Claim(kind="x", subject="there", task_id="t", since=DAWN, claimed_at=DAWN)


class Faithful:
    """A verifier that keeps every rule."""

    def judge_claim(self, claim):
        so = claim.subject == "there" and claim.checksum is None
        return Verdict.VERIFIED if so else Verdict.REFUTED

    async def verify(self, claim):
        return Finding(verdict=self.judge_claim(claim), detail="It was looked at.")


class Gullible(Faithful):
    def judge_claim(self, claim):
        return Verdict.VERIFIED


class Suspicious(Faithful):
    def judge_claim(self, claim):
        return Verdict.UNPROVEN


class Careless(Faithful):
    def judge_claim(self, claim):
        return Verdict.VERIFIED if claim.subject == "there" else Verdict.REFUTED


class TrustingVerifier(Faithful):
    def judge_claim(self, claim):
        return Verdict.REFUTED if claim.subject == "gone" else Verdict.VERIFIED


class RaisingVerifier(Faithful):
    def judge_claim(self, claim):
        claim.subject.encode()
        return super().judge_claim(claim)


class Silent(Faithful):
    async def verify(self, claim):
        return Finding(verdict=self.judge_claim(claim), detail=" ")


class Wordy(Faithful):
    async def verify(self, claim):
        return Finding(verdict=self.judge_claim(claim), detail="It was\nlooked at.")


class Forgetful(Faithful):
    looks = 0

    def judge_claim(self, claim):
        self.looks += 1
        return super().judge_claim(claim) if self.looks == 1 else Verdict.UNPROVEN


class NoVerifier:
    """It has no `verify`."""


def suite_of_verifier(kind):
    class Suite(VerifierSuite):
        def begin(self):
            self.made = kind()

        def make_verifier(self, tmp_path):
            return self.made

        def make_true(self, tmp_path):
            return TRUE

        def make_false(self, tmp_path):
            return TRUE.model_copy(update={"subject": "gone"})

    return Suite()


def test_a_verifier_that_keeps_every_rule_passes(tmp_path):
    assert broken_rules(suite_of_verifier(Faithful), tmp_path) == set()


THERE = "what_is_there_is_verified_as_often_as_it_is_looked_at"
MADE_UP = "whatever_is_claimed_nothing_is_raised_and_nothing_believed"


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (NoVerifier, "it_plays_the_part"),
        (Gullible, "what_is_not_there_is_not_verified"),
        (Suspicious, THERE),
        (Careless, "what_sums_up_to_something_else_is_not_verified"),
        (TrustingVerifier, MADE_UP),
        (RaisingVerifier, MADE_UP),
        (Silent, THERE),
        (Wordy, THERE),
        (Forgetful, THERE),
    ],
)
def test_a_verifier_that_breaks_a_rule_is_found_out(kind, rule, tmp_path):
    assert rule in broken_rules(suite_of_verifier(kind), tmp_path)


# --- hosts ------------------------------------------------------------------------


class Host:
    """A host that keeps every rule."""

    def __init__(self):
        self.lines = []
        self.keys = set()
        self.view = None

    async def say(self, notice):
        if notice.key not in self.keys:
            self.lines.append(notice.text)
        self.keys.add(notice.key)

    async def show(self, view):
        self.view = view

    async def stop(self, session_key, age):
        pass


class ClippingHost(Host):
    async def say(self, notice):
        await super().say(notice.model_copy(update={"text": notice.text[:500]}))


class ForgettingHost(Host):
    async def say(self, notice):
        self.keys.clear()
        await super().say(notice)


class Particular(Host):
    async def say(self, notice):
        if notice.session_key is None:
            raise WakeRefused("to whom?")
        await super().say(notice)


class Strict(Host):
    async def stop(self, session_key, age):
        raise WakeUndelivered("no turn runs")


class Late(Host):
    async def show(self, view):
        self.view = self.view or view


class Naming(Host):
    names = SessionNames(prefix="agent:", background=":away:", lower_case=True)

    def describe_sessions(self):
        return self.names


class Selective(Host):
    own = ("agent:main:main",)

    def reaches(self, host, session_key):
        return session_key in self.own


class SelectingOthers(Selective):
    own = ()


class SelectingAll(Selective):
    def reaches(self, host, session_key):
        return True


class NamingOthers(Naming):
    names = SessionNames(prefix="chat/")


class NamingOtherwise(Naming):
    names = SessionNames(prefix="agent:", background=":Away:", lower_case=True)


class Mute:
    """It cannot stop a turn."""

    async def say(self, notice):
        pass


class FailingHost:
    def __init__(self, error):
        self.error = error

    async def say(self, notice):
        raise self.error

    async def show(self, view):
        raise self.error

    async def stop(self, session_key, age):
        raise self.error


def suite_of_host(kind, failing=None, refusing=None):
    class Suite(HostSuite):
        def begin(self):
            self.made = kind()

        def make_host(self, tmp_path):
            return self.made

        def list_said(self, tmp_path):
            return self.made.lines

        def read_view(self, tmp_path):
            return self.made.view

        def make_failing(self, tmp_path):
            return failing

        def make_refusing(self, tmp_path):
            return refusing

    return Suite()


def test_line_rules_are_skipped_for_host_without_visible_lines(tmp_path):
    suite = suite_of_host(Host)
    suite.list_said = lambda tmp_path: None
    for rule in (
        lambda: suite.test_a_line_is_shown_as_it_is(tmp_path, "x"),
        lambda: suite.test_a_line_for_nobody_in_particular_is_shown_too(tmp_path),
    ):
        suite.begin()
        with pytest.raises(pytest.skip.Exception, match="give `list_said`"):
            rule()


@pytest.mark.parametrize("kind", [Host, Naming, Selective])
def test_a_host_that_keeps_every_rule_passes(kind, tmp_path):
    failing, refusing = (FailingHost(WakeUndelivered("away")), FailingHost(WakeRefused("none")))
    assert broken_rules(suite_of_host(kind, failing, refusing), tmp_path) == set()


@pytest.mark.parametrize(
    ("kind", "rule"),
    [
        (Mute, "it_plays_the_part"),
        (SelectingOthers, "it_reaches_its_own_sessions_and_no_others_if_it_is_selective"),
        (SelectingAll, "it_reaches_its_own_sessions_and_no_others_if_it_is_selective"),
        (ClippingHost, "a_line_is_shown_as_it_is"),
        (ForgettingHost, "what_is_said_again_is_shown_once"),
        (Particular, "a_line_for_nobody_in_particular_is_shown_too"),
        (NamingOthers, "the_sessions_that_it_names_are_its_own"),
        (NamingOtherwise, "the_sessions_that_it_names_are_its_own"),
        (Late, "what_is_shown_later_replaces_all_that_was"),
        (Strict, "where_no_turn_runs_none_is_stopped_and_that_is_fine"),
    ],
)
def test_a_host_that_breaks_a_rule_is_found_out(kind, rule, tmp_path):
    assert rule in broken_rules(suite_of_host(kind), tmp_path)


@pytest.mark.parametrize(
    "error", [ValueError("boom"), WakeUndelivered(""), WakeUndelivered("two\nlines")]
)
def test_a_host_whose_failures_say_nothing_is_found_out(error, tmp_path):
    failing = FailingHost(error)
    assert broken_rules(suite_of_host(Host, failing, failing), tmp_path) == {
        "what_cannot_be_done_now_is_undelivered",
        "what_never_can_be_done_is_refused",
    }
