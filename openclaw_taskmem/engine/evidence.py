"""Proof: the daemon looks for itself, when a task is to be completed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Final

from openclaw_taskmem.domain import (
    claims,
    evidence,
    sentences,
    thread,
    turns,
    working,
)
from openclaw_taskmem.domain.evidence import Checked
from openclaw_taskmem.engine.shell import Shell
from openclaw_taskmem.seams import proving
from taskmem_hookspecs import (
    Change,
    Claim,
    Finding,
    Owner,
    RunState,
    Task,
    TaskFacts,
    TaskStatus,
    Value,
    Verdict,
)
from taskmem_hookspecs.errors import EvidenceMissing, InvalidArguments
from taskmem_hookspecs.value import Instant

LOOKING: Final = timedelta(seconds=45)
"""How long things are looked at, one after the other: a gateway waits 60 s for a tool.

Not at once, for they would share the disk, and each has little time to be read.
"""
FRESH: Final = timedelta(seconds=2)
"""How long what was seen counts."""
_LATE: Final = Finding(
    verdict=Verdict.UNPROVEN,
    detail=f"There was no time left to look at it, for what comes before it took "
    f"{LOOKING.seconds} s; name fewer things.",
)


class Sought(Value):
    """What is to be looked at before a task is completed."""

    task: Task
    things: tuple[claims.Wanted, ...]
    folder: str | None


class Seen(Value):
    """What was looked at, and what was seen."""

    sought: Sought
    checked: tuple[Checked, ...]
    at: Instant

    @property
    def counted(self) -> tuple[Checked, ...]:
        """What counts: an earlier message asks for nothing that cannot be looked at."""
        return tuple(
            each
            for thing, each in zip(self.sought.things, self.checked, strict=True)
            if not thing.earlier or each.finding.verdict is not Verdict.UNPROVEN
        )

    def answers(self, sought: Sought, now: datetime) -> bool:
        """Whether it is what is sought now, and was seen just now."""
        seen = self.sought
        same = seen.things == sought.things and seen.folder == sought.folder
        return same and abs(now - self.at) <= FRESH


def sought(
    shell: Shell, facts: TaskFacts, said: str, given: Sequence[str], folder: str | None
) -> Sought:
    """Return what a task must have made to be completed.

    Of its thread, the newest 60 messages count.

    Raises:
        InvalidArguments: It cannot be looked at.
    """
    where = _folder(facts, folder)
    things = claims.wanted(
        facts.task,
        said,
        given,
        before=thread.narrated(
            shell.store.read_thread(facts.task.task_id, thread.READ)
        ),
        roots=_roots(shell, where),
    )
    fault = claims.fault(things)
    if fault is not None:
        raise InvalidArguments(f"{facts.task.task_id} is not completed. {fault}")
    return Sought(task=facts.task, things=things, folder=where)


def prove(shell: Shell, facts: TaskFacts, seen: Seen) -> Change:
    """Return what is written of a task whose artifacts are all there.

    Raises:
        EvidenceMissing: They are not; what was seen is kept all the same.
    """
    checked, now = seen.counted, seen.at
    kept = evidence.written_down(
        facts, checked, lambda: shell.new_id("artifact", now), now
    )
    missing = evidence.missing(checked)
    if missing is not None:
        shell.commit(kept)
        raise EvidenceMissing(
            f"{facts.task.task_id} is not completed, for this is not proved: {missing} "
            f"{evidence.advice(checked)}"
        )
    log = (*kept.events, *evidence.verified(facts, checked, now))
    return kept.model_copy(update={"events": log})


def look(shell: Shell, sought: Sought) -> Seen:
    """Look at things that are to be there, each by all verifiers of its kind.

    It may take long, and so must not be done while a task is locked.
    """
    asked = claims.claims(
        sought.things,
        sought.task,
        folder=sought.folder,
        roots=_roots(shell, sought.folder),
        now=shell.clock.now(),
    )
    checked = tuple(_looked(shell, asked))
    return Seen(sought=sought, checked=checked, at=shell.clock.now())


def unsupported(shell: Shell, owner: Owner, said: str) -> tuple[str, str] | None:
    """Return the task, and what its agent must hear before its last words go out.

    None: they may go out, for nothing of what they claim is missing.
    """
    open_ = shell.store.session_runs(owner.session_key or "", shell.only)
    run = working.worked_on(open_, owner)
    if run is None or run.state is not RunState.RUNNING or turns.asks(said):
        return None
    facts = shell.store.read_task(run.task_id)
    if facts.task.status is not TaskStatus.ACTIVE:
        return None
    told = tuple(
        claims.Wanted(kind="file", subject=path) for path in sentences.written(said)
    )
    things = claims.wanted(facts.task, said) if sentences.says_done(said) else told
    known = [each for each in things if claims.fault([each]) is None]
    things = tuple(known[: claims.MOST])
    seen = look(
        shell, Sought(task=facts.task, things=things, folder=_folder(facts, None))
    )
    lies = [each for each in seen.checked if each.finding.verdict is Verdict.REFUTED]
    missing = evidence.missing(lies)
    if missing is None:
        return None
    return facts.task.task_id, (
        f"Your answer was held back, for it is not so. {missing} Do it now with a "
        "tool, look at the result, and only then say that it is done; or say plainly "
        "that it is not done, and why."
    )


def _folder(facts: TaskFacts, given: str | None) -> str | None:
    return (facts.run.folder if facts.run else None) or given


def _roots(shell: Shell, folder: str | None) -> tuple[str, ...]:
    """Return the folders that what a task makes may lie in, its agent's with them."""
    return tuple(dict.fromkeys((*shell.roots, *((folder,) if folder else ()))))


def _looked(shell: Shell, asked: Sequence[Claim]) -> Iterator[Checked]:
    until = shell.clock.now() + LOOKING
    for claim in asked:
        late = shell.clock.now() > until
        found = (_LATE,) if late else proving.findings(shell.seams, claim)
        yield evidence.together(claim, found)
