"""Proof: the daemon looks for itself, when a task is to be completed."""

from __future__ import annotations

from collections.abc import Sequence

from openclaw_taskmem.domain import claims, evidence, turns
from openclaw_taskmem.domain.evidence import Checked
from openclaw_taskmem.engine.shell import Shell
from openclaw_taskmem.seams import proving
from taskmem_hookspecs import Change, Claim, RunState, TaskFacts, TaskStatus, Verdict
from taskmem_hookspecs.errors import EvidenceMissing


def prove(
    shell: Shell,
    facts: TaskFacts,
    said: str,
    given: Sequence[str],
    folder: str | None,
) -> Change:
    """Return what is written of a task whose artifacts are all there.

    Raises:
        EvidenceMissing: They are not; what was seen is kept all the same.
    """
    checked = look(shell, facts, claims.wanted(facts.task, said, given), folder)
    if not checked:
        return Change()
    now = shell.clock.now()
    kept = evidence.written_down(
        facts, checked, lambda: shell.new_id("artifact", now), now
    )
    missing = evidence.missing(checked)
    if missing is not None:
        shell.commit(kept)
        raise EvidenceMissing(
            f"{facts.task.task_id} is not completed, for this is not proved: {missing} "
            "Make it and call again; name it by its whole path in artifacts if it lies "
            "elsewhere, or revise the plan with task_plan_update if it is not wanted."
        )
    log = (*kept.events, *evidence.verified(facts, checked, now))
    return kept.model_copy(update={"events": log})


def look(
    shell: Shell,
    facts: TaskFacts,
    things: Sequence[claims.Wanted],
    folder: str | None,
) -> tuple[Checked, ...]:
    """Look at things that are to be there, each by all verifiers of its kind."""
    own = facts.run.folder if facts.run else None
    asked = claims.claims(
        things,
        facts.task,
        folder=own or folder,
        roots=shell.roots,
        now=shell.clock.now(),
    )
    return tuple(_look(shell, claim) for claim in asked)


def unsupported(shell: Shell, session: str, said: str) -> tuple[str, str] | None:
    """Return the task, and what its agent must hear before its last words go out.

    None: they may go out, for nothing of what they claim is missing.
    """
    run = next(iter(shell.store.session_runs(session, shell.only)), None)
    if run is None or run.state is not RunState.RUNNING or turns.asks(said):
        return None
    facts = shell.store.read_task(run.task_id)
    if facts.task.status is not TaskStatus.ACTIVE:
        return None
    told = tuple(
        claims.Wanted(kind="file", subject=path) for path in claims.written(said)
    )
    things = claims.wanted(facts.task, said) if claims.says_done(said) else told
    lies = [
        each
        for each in look(shell, facts, things, None)
        if each.finding.verdict is Verdict.REFUTED
    ]
    missing = evidence.missing(lies)
    if missing is None:
        return None
    return facts.task.task_id, (
        f"Your answer was held back, for it is not so. {missing} Do it now with a "
        "tool, look at the result, and only then say that it is done; or say plainly "
        "that it is not done, and why."
    )


def _look(shell: Shell, claim: Claim) -> Checked:
    return evidence.together(claim, proving.findings(shell.seams, claim))
