"""Whether a task may call itself completed: what was looked at, and what was seen.

Source: requirement F2, seed 004 "Completion Claim-Evidence Contract".
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import datetime
from typing import Final

from openclaw_taskmem.domain import events, notices
from openclaw_taskmem.domain.notices import Milestone
from openclaw_taskmem.domain.texts import clip, plain, plural, quoted
from taskmem_hookspecs import (
    Artifact,
    Change,
    Claim,
    Event,
    Finding,
    TaskFacts,
    Value,
    Verdict,
)

NAMED: Final = 3
"""Things that a refusal names."""
_CURES: Final = {
    "file": "Write the file, or name it by its whole path in artifacts if it lies "
    "elsewhere. One that only messages claim, and that is not there any more, counts "
    "no longer once message says that it was removed.",
    "command": "Run the command again, as taskmem run --name NAME -- CMD under the "
    "name that is claimed, until it ends with status 0.",
    "url": "Mend what answers at the URL, or wait until it does.",
}
_UNWANTED: Final = (
    "Then call again. What is not wanted, or was named wrongly, is replaced with "
    "task_plan_update: by new_plan in the plan, by artifacts in the metadata."
)


class Checked(Value):
    """A claim, and what all verifiers together found."""

    claim: Claim
    finding: Finding

    @property
    def proved(self) -> bool:
        """Whether it was looked at and is there."""
        return self.finding.verdict is Verdict.VERIFIED


def together(claim: Claim, findings: Sequence[Finding]) -> Checked:
    """Return what all verifiers found together: one refutation outweighs all proofs."""
    ranked = (Verdict.REFUTED, Verdict.VERIFIED, Verdict.UNPROVEN)
    for verdict in ranked:
        for finding in findings:
            if finding.verdict is verdict:
                return Checked(claim=claim, finding=finding)
    nobody = f"No plug-in that is installed can look at a {claim.kind}."
    return Checked(
        claim=claim, finding=Finding(verdict=Verdict.UNPROVEN, detail=nobody)
    )


def written_down(
    facts: TaskFacts,
    checked: Sequence[Checked],
    new_id: Callable[[], str],
    now: datetime,
) -> Change:
    """Return the rows of what was looked at, and the log's entry of it."""
    known = {(made.kind, made.subject): made for made in facts.artifacts}
    rows = tuple(_row(facts, each, known, new_id, now) for each in checked)
    log = Event(
        at=now,
        kind=events.EVIDENCE_CHECKED,
        task_id=facts.task.task_id,
        run_id=facts.run.run_id if facts.run else None,
        data={
            "checked": [
                {
                    "kind": each.claim.kind,
                    "subject": each.claim.subject,
                    "verdict": each.finding.verdict,
                    "checksum": each.finding.checksum,
                }
                for each in checked
            ]
        },
    )
    return Change(artifacts=rows, events=(log,) if checked else ())


def verified(
    facts: TaskFacts, checked: Sequence[Checked], now: datetime
) -> tuple[Event, ...]:
    """Return the milestone of things that are proved; none where none are."""
    if facts.run is None or not checked:
        return ()
    names = ", ".join(clip(plain(c.claim.subject), 80) for c in checked[:NAMED])
    more = f" and {len(checked) - NAMED} more" if len(checked) > NAMED else ""
    return (
        notices.milestone(
            Milestone.WRITE_VERIFIED, facts.task, facts.run, now, f"{names}{more}"
        ),
    )


def missing(checked: Sequence[Checked]) -> str | None:
    """Return what is not proved, in a sentence; None: everything is."""
    open_ = _open(checked)
    if not open_:
        return None
    said = " ".join(
        f"{quoted(plain(each.claim.subject), 160)}: {plain(each.finding.detail)}"
        for each in open_[:NAMED]
    )
    more = len(open_) - NAMED
    rest = f" And {plural(more, 'thing')} more." if more > 0 else ""
    return f"{said}{rest}"


def advice(checked: Sequence[Checked]) -> str:
    """Return what to do about what is not proved, each kind once."""
    kinds = dict.fromkeys(each.claim.kind for each in _open(checked))
    said = [_CURES.get(kind, f"See that the {kind} is as claimed.") for kind in kinds]
    return " ".join((*said, _UNWANTED))


def _open(checked: Sequence[Checked]) -> list[Checked]:
    return [each for each in checked if not each.proved]


def _row(
    facts: TaskFacts,
    each: Checked,
    known: dict[tuple[str, str], Artifact],
    new_id: Callable[[], str],
    now: datetime,
) -> Artifact:
    found = each.finding
    seen = {
        "run_id": facts.run.run_id if facts.run else None,
        "verdict": found.verdict,
        "detail": found.detail,
        "checksum": found.checksum,
        "size": found.size,
        "checked_at": now,
    }
    before = known.get((each.claim.kind, each.claim.subject))
    if before is not None:
        return before.model_copy(update=seen)
    return Artifact.model_validate(
        {
            "artifact_id": new_id(),
            "task_id": facts.task.task_id,
            "kind": each.claim.kind,
            "subject": each.claim.subject,
            **seen,
        }
    )
