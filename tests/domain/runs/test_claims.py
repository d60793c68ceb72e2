"""Who may claim a run and write for it, and what everybody else is told."""

from __future__ import annotations

from typing import Final

import pytest

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.errors import Fenced, RunHeld
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.runs.current_run import RunReason
from openclaw_taskmem.domain.runs.machine import RunClaimed, RunRequeued, apply_events
from taskmem_hookspecs import Owner, Run, RunState
from taskmem_hookspecs.testing import DAWN, a_run
from tests.support.owners import AGAIN, MAIN, NOW, OTHER, a_leased_run

THE_OWNER: Final = Caller(owner=MAIN)
THE_OTHER: Final = Caller(owner=OTHER)
A_PERSON: Final = Caller(person=True)
NOBODY: Final = Caller()
WAITS: Final = [
    a_leased_run(state=state, lease_until=None) for state in (RunState.BLOCKED, RunState.REVIEW)
]
FOR_OTHERS: Final = a_run(role="builder")


@pytest.mark.parametrize(
    ("run", "caller", "token"),
    [
        pytest.param(None, NOBODY, None, id="no-run"),
        pytest.param(None, NOBODY, 3, id="no-run-and-a-token"),
        pytest.param(a_leased_run(), THE_OWNER, None, id="its-owner"),
        pytest.param(a_leased_run(owner=AGAIN), THE_OWNER, None, id="its-owner-of-before"),
        pytest.param(a_leased_run(), A_PERSON, None, id="a-person"),
        pytest.param(a_leased_run(), NOBODY, 4, id="whoever-has-the-token"),
        pytest.param(a_leased_run(owner=Owner(role="builder")), A_PERSON, 4, id="a-persons-claim"),
        pytest.param(a_run(), THE_OTHER, None, id="held-by-nobody"),
        pytest.param(FOR_OTHERS, THE_OTHER, None, id="queued-for-its-role"),
        pytest.param(FOR_OTHERS, A_PERSON, None, id="queued-and-a-person"),
        pytest.param(
            FOR_OTHERS.model_copy(update={"session_key": "cli:one"}),
            Caller(session_key="cli:one"),
            None,
            id="queued-and-its-session",
        ),
        *(
            pytest.param(run, caller, token, id=f"{run.state}-{who}")
            for run in WAITS
            for who, caller, token in (
                ("and-its-owner", THE_OWNER, None),
                ("and-its-owner-of-before", Caller(owner=AGAIN), None),
                ("and-a-person", A_PERSON, None),
                ("and-whoever-has-the-token", NOBODY, 4),
            )
        ),
        pytest.param(
            a_leased_run(state=RunState.REVIEW, owner=None), THE_OWNER, None, id="its-session"
        ),
    ],
)
def test_who_may_write_for_a_run(run: Run | None, caller: Caller, token: int | None) -> None:
    current_run.guard_write(run, caller, token, "nothing was written")
    assert run is None or current_run.can_write(run, caller, token)


@pytest.mark.parametrize(
    ("caller", "token", "error"),
    [
        pytest.param(THE_OTHER, None, RunHeld, id="another"),
        pytest.param(NOBODY, None, RunHeld, id="one-who-holds-nothing"),
        pytest.param(THE_OWNER, 3, Fenced, id="its-owner-with-an-older-token"),
        pytest.param(A_PERSON, 3, Fenced, id="a-person-with-an-older-token"),
        pytest.param(THE_OTHER, 3, Fenced, id="another-with-an-older-token"),
        pytest.param(THE_OTHER, 4, RunHeld, id="another-that-guessed-the-token"),
    ],
)
def test_who_may_not_write_for_a_run_and_what_they_are_told(
    caller: Caller, token: int | None, error: type[Exception]
) -> None:
    with pytest.raises(error, match=r"run_1 .*, so nothing was written; ") as caught:
        current_run.guard_write(a_leased_run(), caller, token, "nothing was written")

    if error is RunHeld:
        assert "main in session agent:main:main" in str(caught.value)
    else:
        assert f"The token of run_1 is 4, and yours is {token}" in str(caught.value)
        still = caller is THE_OWNER
        assert ("you hold it still, by a later claim" in str(caught.value)) is still


def test_the_token_of_a_persons_claim_is_of_no_use_to_an_agent() -> None:
    run = a_leased_run(owner=Owner(role="builder"))

    with pytest.raises(RunHeld, match="a token counts only from who claimed it"):
        current_run.guard_write(run, THE_OTHER, 4, "nothing was written")


@pytest.mark.parametrize("token", [0, 5])
@pytest.mark.parametrize(
    ("caller", "way"),
    [
        (THE_OWNER, "you hold it: give the token that your claim was given, or none."),
        (THE_OTHER, "it is held by main in session agent:main:main: leave it to"),
    ],
)
def test_a_token_that_no_claim_has_had_is_called_unknown(
    caller: Caller, way: str, token: int
) -> None:
    with pytest.raises(Fenced) as caught:
        current_run.guard_write(a_leased_run(), caller, token, "nothing was written")

    said = str(caught.value)
    assert said.startswith(f"The token {token} is unknown for run_1 of task_1, so ")
    assert way in said
    assert "claim of" not in said


def test_whose_claim_was_taken_back_is_told_so() -> None:
    queued = {"state": RunState.QUEUED, "owner": None, "why": "owner_gone"}
    lost = a_leased_run().model_copy(update=queued)

    with pytest.raises(Fenced) as caught:
        current_run.guard_write(lost, THE_OWNER, lost.token, "nothing was written")

    assert str(caught.value) == (
        "Your claim of run_1 has ended, so nothing was written; nobody holds it by "
        "now: claim it with task_claim, its task_id, to go on with it."
    )


def test_who_gave_it_to_the_user_is_not_told_to_hold_it_still() -> None:
    run = a_leased_run().model_copy(update={"state": RunState.REVIEW})

    with pytest.raises(Fenced, match="it waits for the user now"):
        current_run.guard_write(run, THE_OWNER, run.token - 1, "nothing was written")


@pytest.mark.parametrize("run", WAITS)
@pytest.mark.parametrize("caller", [THE_OTHER, NOBODY])
def test_nobody_else_writes_for_what_waits_for_the_user(run: Run, caller: Caller) -> None:
    said = (
        r"run_1 waits for the user \(.*\), and only main in session agent:main:main "
        "goes on with it, so nothing was written; let the user call task_resume, and "
        "claim it then with task_claim"
    )
    with pytest.raises(RunHeld, match=said):
        current_run.guard_write(run, caller, None, "nothing was written")
    with pytest.raises(Fenced):
        current_run.guard_write(run, caller, 3, "nothing was written")


def test_refusal_for_a_perhaps_ended_process_names_both_ways_on() -> None:
    worker = Owner(role="agent", process="7:9")
    run = a_leased_run(state=RunState.BLOCKED, owner=worker, session_key=None)

    with pytest.raises(RunHeld, match="call task_resume if that agent has ended, or"):
        current_run.guard_write(run, THE_OTHER, None, "nothing was written")


@pytest.mark.parametrize("state", [RunState.BLOCKED, RunState.REVIEW])
def test_only_a_person_writes_for_a_waiting_run_never_held(state: RunState) -> None:
    with pytest.raises(RunHeld, match="only its own session goes on with it"):
        current_run.guard_write(a_run(state=state), NOBODY, None, "nothing was written")
    current_run.guard_write(a_run(state=state), A_PERSON, None, "nothing was written")


@pytest.mark.parametrize("caller", [THE_OWNER, NOBODY])
def test_no_other_role_writes_for_a_run_queued_for_a_role(caller: Caller) -> None:
    said = "run_1 is queued for the role builder, so nothing was written; claim it"
    with pytest.raises(RunHeld, match=said):
        current_run.guard_write(FOR_OTHERS, caller, None, "nothing was written")


def test_a_token_is_of_no_use_once_its_run_was_taken_back() -> None:
    first = apply_events(a_run(), RunClaimed(owner=MAIN), now=DAWN).run
    back = apply_events(first, RunRequeued(why=RunReason.RESET), now=DAWN).run

    with pytest.raises(Fenced, match="nobody holds it by now: claim it with"):
        current_run.guard_write(back, THE_OWNER, first.token, "nothing was written")


@pytest.mark.parametrize("state", [RunState.BLOCKED, RunState.REVIEW])
def test_only_its_session_claims_an_unheld_run_that_asks_user(state: RunState) -> None:
    run = a_run(state=state, session_key=MAIN.session_key)

    for waits in (run, run.model_copy(update={"session_key": None})):
        with pytest.raises(RunHeld, match="waits for the user"):
            apply_events(waits, RunClaimed(owner=OTHER), now=NOW)
    assert apply_events(run, RunClaimed(owner=MAIN), now=NOW).run.owner == MAIN


def test_the_token_of_a_claim_is_of_no_use_after_the_next() -> None:
    first = apply_events(a_run(), RunClaimed(owner=MAIN), now=DAWN).run
    again = apply_events(first, RunRequeued(why=RunReason.LEASE_EXPIRED), now=DAWN).run
    second = apply_events(again, RunClaimed(owner=OTHER), now=NOW).run

    with pytest.raises(Fenced):
        current_run.guard_write(second, THE_OWNER, first.token, "nothing was written")
    with pytest.raises(RunHeld):
        current_run.guard_write(second, THE_OWNER, None, "nothing was written")
    current_run.guard_write(second, THE_OTHER, second.token, "nothing was written")


@pytest.mark.parametrize(
    ("caller", "way"),
    [
        (THE_OTHER, "leave it to that one."),
        (Caller(), "leave it to that one, or give the token of your claim."),
    ],
)
def test_only_who_may_have_a_token_is_told_to_give_it(caller: Caller, way: str) -> None:
    with pytest.raises(RunHeld) as caught:
        current_run.guard_write(a_leased_run(), caller, None, "nothing was written")

    assert str(caught.value).endswith(way)


def test_an_agent_that_holds_a_run_is_told_by_its_process() -> None:
    owner = Owner(role="agent", process="4711:9")

    assert current_run.describe_owner(owner) == "an agent (process 4711)"
