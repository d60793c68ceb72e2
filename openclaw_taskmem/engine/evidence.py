"""Check a task's artifacts before it is completed, its answers, and what a person approves."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from datetime import datetime, timedelta
from pathlib import Path, PurePath
from typing import Final

from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.changes import evidence
from openclaw_taskmem.domain.changes.evidence import Refusal
from openclaw_taskmem.domain.changes.task_update import Acceptance
from openclaw_taskmem.domain.conditions import targets
from openclaw_taskmem.domain.effects.checkpoints import digest_text
from openclaw_taskmem.domain.runs import current_run
from openclaw_taskmem.domain.tasks import ledger, lifecycle, thread
from openclaw_taskmem.domain.tasks.artifact_names import (
    COMMAND_KIND,
    FILE_KIND,
    RequiredArtifact,
    list_all_spellings,
)
from openclaw_taskmem.domain.tasks.ledger import CheckedClaim
from openclaw_taskmem.domain.tasks.path_mentions import find_names
from openclaw_taskmem.domain.tasks.required_artifacts import (
    find_artifact_fault,
    list_required_artifacts,
)
from openclaw_taskmem.domain.text.texts import (
    clip_start,
    format_checksum,
    quote_line,
    to_plain_line,
)
from openclaw_taskmem.domain.wakes.notices import NAME_BYTES
from openclaw_taskmem.engine.context import Context, Decision
from openclaw_taskmem.engine.evidence_checker import ELSEWHERE_TEXT, EvidenceChecker
from openclaw_taskmem.engine.run_history import find_last_run, find_record, find_runs
from taskmem_hookspecs import (
    Change,
    FileChange,
    LedgerEntry,
    LedgerVerdict,
    NotAllowed,
    Owner,
    Run,
    RunQuery,
    RunState,
    Task,
    TaskFacts,
    TaskQuery,
    TaskStatus,
    Value,
    Verdict,
    WorkFolder,
)
from taskmem_hookspecs.errors import InvalidArguments
from taskmem_hookspecs.model import Instant

_CHECK_LIFETIME: Final = timedelta(seconds=2)
"""How long a check counts."""
_DECOY_BYTES: Final = 6
LATE_LOOK_DELAY_SECONDS: Final = 60.0
"""Seconds after a completion at which files of commands that have ended since are added."""
_ANSWER_WINDOW: Final = timedelta(minutes=10)
"""How long after a completion the agent's first answer is checked."""
_SEARCHED_RUNS: Final = 50
"""Newest runs that are searched for those of one session."""


class RequiredSet(Value):
    """All that must be checked before a task is completed."""

    task: Task
    run: Run | None
    artifacts: tuple[RequiredArtifact, ...]
    """The required artifacts."""
    message: str
    """The message of the call."""
    entries: tuple[LedgerEntry, ...]
    folders: tuple[WorkFolder, ...]
    folder: str | None
    """Where relative names start; None: unknown."""
    boxed: bool
    """True for an agent in a sandbox: no folder but `folder` may be looked at."""
    hidden: tuple[RequiredArtifact, ...]
    """The required artifacts at which the caller may not look."""


class CheckResult(Value):
    """The result of checking a required set."""

    required: RequiredSet
    checked: tuple[CheckedClaim, ...]
    """The required artifacts, checked."""
    files: tuple[CheckedClaim, ...]
    """The files of the ledger, checked."""
    entries: tuple[LedgerEntry, ...]
    """The ledger with all that was found, and names that could not be verified."""
    nowhere: tuple[str, ...]
    """Names of the plan that were not found anywhere."""
    passed: tuple[str, ...]
    """Folders that commands named but that were not searched."""
    claims: bool
    """True if nothing was made, though a reader says that plan or message claim it."""
    at: Instant

    def is_current_for(self, required: RequiredSet, now: datetime) -> bool:
        """Tell whether the result is fresh, and another set requires the same checks."""
        fields = ("artifacts", "message", "entries", "folder", "boxed", "hidden")
        same = all(getattr(self.required, each) == getattr(required, each) for each in fields)
        same_plan = self.required.task.plan == required.task.plan
        return same and same_plan and abs(now - self.at) <= _CHECK_LIFETIME


def build_required_set(
    context: Context, facts: TaskFacts, message: str, given: Sequence[str], caller: Caller
) -> RequiredSet:
    """Return all that must be checked before a task is completed.

    Raises:
        InvalidArguments: An artifact cannot be checked.
    """
    task = facts.task
    run = facts.run or find_record(context, task.task_id)
    artifacts = list_required_artifacts(task, given)
    fault = find_artifact_fault(artifacts)
    if fault is not None:
        raise InvalidArguments(f"{task.task_id} is not completed. {fault}")
    boxed = targets.is_sandboxed(caller, context.policies.looks)
    # A gateway reports a folder of the host; for a sandbox, the call names the folder.
    reported = run.agent.folder if run and not boxed else None
    # What hooks of other hosts report is the folder of one command.
    folders = [reported, caller.folder]
    if current_run.is_record(run):
        folders.reverse()
    return RequiredSet(
        task=task,
        run=run,
        artifacts=artifacts,
        message=message,
        entries=tuple(context.store.read_records(LedgerEntry, task.task_id)),
        folders=tuple(context.store.read_records(WorkFolder, task.task_id)),
        folder=next(filter(None, folders), None),
        boxed=boxed,
        hidden=tuple(
            each
            for each in artifacts
            if each.kind == COMMAND_KIND
            and targets.is_command_hidden(each.subject, caller, context.policies.looks)
        ),
    )


def verify_required(context: Context, required: RequiredSet, *, asks: bool = True) -> CheckResult:
    """Check the required artifacts, the ledger's files and the names in plan and message.

    This may take long, so do not call it with the task locked. `asks`: a reader may be asked
    whether plan and message claim that something was made.
    """
    task, run = required.task, required.run
    boxed = required.boxed
    looker = EvidenceChecker(context, task, run, required.folders, required.folder, boxed=boxed)
    claimed = (
        name
        for thing in required.artifacts
        if thing.kind == FILE_KIND
        for name in list_all_spellings(thing.subject)
    )
    found = looker.find_entries(required.entries, required.message, claimed)
    checked = evidence.excuse_old_files(
        [
            each
            for thing in required.artifacts
            for each in looker.check(thing, [*found], hidden=thing in required.hidden)
        ]
    )
    entries = looker.add_proved_files(checked, looker.judge(found))
    named = find_names(*task.plan, required.message)
    whys = {
        **looker.explain_missing_names(named.here, {*found, *entries}),
        **dict.fromkeys(named.elsewhere, ELSEWHERE_TEXT),
        **looker.explain_missing_commits(required.message),
        **{
            each.claim.subject: each.finding.detail
            for each in checked
            if each.finding.verdict is Verdict.UNPROVEN
        },
    }
    run_id = run.run_id if run else None
    doubtful = {path: why for path, why in whys.items() if path not in entries}
    now = context.clock.now()
    planned = find_names(*task.plan).here
    nowhere = tuple(n for n in planned if whys.get(n) == ledger.NOWHERE_SENTENCE)
    partly = any(folder.path in whys for folder in required.folders)
    nothing = not (entries or partly) and bool(run or required.folders)
    refusal = evidence.find_refusal(task, checked, nowhere, claims=nothing)
    asks = asks and refusal is not None and refusal.doubt == evidence.Doubt.CLAIMS
    return CheckResult(
        required=required,
        checked=checked,
        files=tuple(looker.files),
        entries=(
            *entries.values(),
            *ledger.build_unverified_entries(task.task_id, run_id, doubtful, now),
        ),
        nowhere=nowhere,
        passed=looker.unsearched_folders,
        claims=asks and _claims_anything(context, task, required.message),
        at=context.clock.now(),
    )


def _claims_anything(context: Context, task: Task, message: str) -> bool:
    """Ask a reader whether plan or message claim that something was made.

    A text that makes the reader say yes to the decoy, too, counts for nothing.
    """
    decoy = secrets.token_hex(_DECOY_BYTES)
    question = evidence.build_claim_question(task.plan, message, decoy)
    answer = context.ask_reader(*question)
    if answer is None:
        return False
    return answer.fields.get("made") is True and not answer.fields.get("decoy")


def describe_nothing_made(check: CheckResult) -> str:
    """Return the sentence that nothing was made.

    Empty: something was, a used folder could not be searched completely, or there is neither a run
    nor a folder by which to tell.
    """
    folders = {each.path for each in check.required.folders}
    made = [each for each in check.entries if each.change or each.path in folders]
    proved = any(each.is_proved for each in check.checked)
    if made or proved or not (check.required.run or folders):
        return ""
    run = check.required.run
    # Hooks of a host that were not there, or not trusted, have told nothing.
    is_whole = current_run.has_visible_calls(run) and not current_run.is_record(run)
    looked = None if is_whole else sorted(folders)
    return ledger.format_nothing_made(check.passed, str(Path.home()), looked)


def build_check_outcome(
    context: Context, facts: TaskFacts, check: CheckResult, acceptance: Acceptance | None = None
) -> tuple[Change, Refusal | None]:
    """Return the change that records a check, and the refusal of the completion.

    No refusal (None): the task may be completed. A person's acceptance overrides it.
    """
    now, task = context.clock.now(), facts.task
    refusal = evidence.find_refusal(task, check.checked, check.nowhere, claims=check.claims)
    record = evidence.record_findings(
        facts, (*check.checked, *check.files), lambda: context.new_id("artifact", now), now
    )
    if refusal is not None and acceptance is None:
        # The agent is asked about unfound names; users are not notified of them yet.
        entries = tuple(ledger.list_made(check.entries))
        refused = evidence.build_refusal_event(facts, refusal, now)
        told = evidence.build_refusal_notice(facts, refusal, now)
        events = (*record.events, refused, *told)
        return record.model_copy(update={"ledger": entries, "events": events}), refusal
    folders = check.required.folders
    places = _build_shown_prefixes(check.required.folder)
    told = evidence.build_user_notices(facts, check.entries, places, now)
    if acceptance is not None:
        told = (evidence.build_acceptance_event(facts, acceptance, now), *told)
    over = tuple(each.model_copy(update={"files": None}) for each in folders)
    more = {"ledger": check.entries, "folders": over, "events": (*record.events, *told)}
    return record.model_copy(update=more), None


def _build_shown_prefixes(own: str | None) -> dict[str, str]:
    """Return by folder the prefix that users see instead of it in paths."""
    home = {str(Path.home()): "~/"}
    return {**home, own: ""} if own else home


def merge_proof(proof: Change, change: Change) -> Change:
    """Merge the change that records a check into the change of an update."""
    return change.model_copy(
        update={
            "artifacts": proof.artifacts,
            "ledger": proof.ledger,
            "folders": proof.folders,
            "events": (*proof.events, *change.events),
        }
    )


def merge_refusal(
    proof: Change, change: Change, task: Task, refusal: Refusal, now: datetime, *, enters: bool
) -> Change:
    """Merge the change that records a check into what is written of a refused completion.

    `task` is as it was before; it gets the doubt. `enters`: its thread gets an entry, too.
    """
    task = next(iter(change.tasks), task)
    doubts = tuple(dict.fromkeys((*task.doubts, refusal.doubt)))
    doubted = task.model_copy(update={"doubts": doubts})
    change = change.model_copy(update={"tasks": (doubted,)})
    if enters:
        sentence = f"{thread.REFUSAL_PREFIX}{refusal.missing}"
        change = lifecycle.enter_decision(change, doubted, sentence, now)
    return merge_proof(proof, change)


def check_for_review(context: Context, task_id: str, caller: Caller) -> None:
    """Check what a task made before its user reviews it; nothing is refused.

    Nothing is recorded if it is not in review any more.
    """
    facts = context.store.read_task(task_id)
    required = build_required_set(context, facts, "", (), caller)
    check = verify_required(context, required, asks=False)

    def record(now_facts: TaskFacts, now: datetime) -> Decision[None]:
        if now_facts.run is None or now_facts.run.state is not RunState.REVIEW:
            return Change(), None
        return build_check_record(context, now_facts, check, now), None

    context.update_task(task_id, record)


def build_check_record(
    context: Context, facts: TaskFacts, check: CheckResult, now: datetime
) -> Change:
    """Return the change that records what was checked of a task that goes on."""
    checked = (*check.checked, *check.files)
    record = evidence.record_findings(facts, checked, lambda: context.new_id("artifact", now), now)
    return record.model_copy(update={"ledger": check.entries})


# --- after the completion ---------------------------------------------------


def add_late_entries(context: Context, task_id: str) -> None:
    """Add to a completed task's ledger the files of commands that have ended since.

    What else changed since then is of no concern to the task.
    Nothing is added if the task is not completed any more, or if its session has begun another run,
    which may have made them.
    """
    facts = context.store.read_task(task_id)
    run = find_last_run(context, task_id)
    later = find_runs(context, RunQuery(), _SEARCHED_RUNS) if run else ()
    has_next = any(
        run is not None and each.session_key == run.session_key and each.created_at > run.created_at
        for each in later
    )
    if facts.task.status is not TaskStatus.COMPLETED or has_next:
        return
    since = (run.ended_at if run else None) or facts.task.updated_at
    folders = [
        each.model_copy(update={"since": each.since or since})
        for each in context.store.read_records(WorkFolder, task_id)
    ]
    known = {each.path: each for each in context.store.read_records(LedgerEntry, task_id)}
    looker = EvidenceChecker(context, facts.task, run, folders, run.agent.folder if run else None)
    found = looker.find_entries(known.values())
    own = {path: each for path, each in found.items() if not each.nearby}
    late = ledger.drop_summed_entries(own, known)
    entries = tuple(looker.judge(late).values())
    if not entries:
        return
    whole = facts.model_copy(update={"run": run})
    places = _build_shown_prefixes(run.agent.folder if run else None)
    user_notices = evidence.build_user_notices(whole, entries, places, context.clock.now())
    context.commit(Change(ledger=entries, events=user_notices))


def check_first_answer(context: Context, session_key: str, answer: str) -> None:
    """Check the names in the first answer after a completion; notify of those found nowhere.

    Names that the agent was asked about already are left out.
    """
    found = _find_just_completed(context, session_key)
    if found is None or evidence.Doubt.ANSWER in found[0].doubts:
        return
    task, run = found
    paths = [each.path for each in context.store.read_records(LedgerEntry, task.task_id)]
    nowhere = _find_missing_names(context, task, run, answer, paths)
    new = {what: ledger.NOWHERE_SENTENCE for what in nowhere if what not in paths}

    def notify(facts: TaskFacts, now: datetime) -> Decision[None]:
        doubts = (*facts.task.doubts, evidence.Doubt.ANSWER)
        run_id = run.run_id if run else None
        entries = ledger.build_unverified_entries(task.task_id, run_id, new, now)
        whole = (
            facts
            if run is None or current_run.is_record(run)
            else facts.model_copy(update={"run": run})
        )
        user_notices = evidence.build_user_notices(whole, entries, {}, now)
        looked_up = facts.task.model_copy(update={"doubts": doubts})
        return Change(tasks=(looked_up,), ledger=entries, events=user_notices), None

    context.update_task(task.task_id, notify)


def _find_missing_names(
    context: Context, task: Task, run: Run | None, words: str, paths: Sequence[str]
) -> list[str]:
    """Return the names in a text that are not found anywhere, nor in `paths`."""
    folders = context.store.read_records(WorkFolder, task.task_id)
    looker = EvidenceChecker(context, task, run, folders, run.agent.folder if run else None)
    whys = looker.explain_missing_names(find_names(words).here, paths)
    return [what for what, why in whys.items() if why == ledger.NOWHERE_SENTENCE]


def _find_just_completed(context: Context, session_key: str) -> tuple[Task, Run | None] | None:
    """Return a session's last completed task, if that was within `_ANSWER_WINDOW`, and its run.

    Without a gateway, the run is the record of its calls, if there is one.
    """
    now = context.clock.now()
    done = (RunState.COMPLETED,)
    for run in find_runs(context, RunQuery(states=done, implicit=False), _SEARCHED_RUNS):
        if run.session_key == session_key and abs(now - run.changed_at) <= _ANSWER_WINDOW:
            return context.store.read_task(run.task_id).task, run
    query = TaskQuery(status=TaskStatus.COMPLETED, session_key=session_key, implicit=False, limit=1)
    for task in context.store.find_tasks(query):
        is_new = abs(now - task.updated_at) <= _ANSWER_WINDOW
        if is_new and find_last_run(context, task.task_id) is None:
            return task, find_record(context, task.task_id)
    return None


def find_doubt_in_answer(context: Context, owner: Owner, answer: str) -> tuple[str, str] | None:
    """Return a session's task and the question to its agent before its last words are delivered.

    None: deliver them, as nothing that they name is missing, or as the session's run is not at work
    on an active task that was registered.
    """
    open_ = context.find_session_runs(owner.session_key or "", owner.host)
    run = current_run.find_current_run(open_, owner)
    if run is None or run.state is not RunState.RUNNING:
        return None
    task = context.store.read_task(run.task_id).task
    if task.implicit:
        return None
    paths = [each.path for each in context.store.read_records(LedgerEntry, task.task_id)]
    nowhere = _find_missing_names(context, task, run, answer, paths)
    if not nowhere or task.status is not TaskStatus.ACTIVE:
        return None
    return task.task_id, evidence.format_missing_names(nowhere)


# --- what a person approves ----------------------------------------------------------------


_NAMED_FILES: Final = 5
"""Files that a refusal names at most."""
_PATH_BYTES: Final = 200
"""Longest end of a path that a refusal shows."""
_GONE_VERDICTS: Final = (LedgerVerdict.ABSENT, LedgerVerdict.EMPTY)


def read_files_id(context: Context, facts: TaskFacts) -> str | None:
    """Return the id of what a task in review has made, as it is shown; an approval names it.

    None: it made nothing, or is not in review.
    """
    if facts.run is None or facts.run.state is not RunState.REVIEW:
        return None
    made = ledger.list_made(context.store.read_records(LedgerEntry, facts.task.task_id))
    shown = sorted((each.path, _get_checksum(each) or "") for each in made)
    return digest_text(json.dumps(shown)) if shown else None


def find_replaced_files(facts: TaskFacts, check: CheckResult) -> NotAllowed | None:
    """Return the refusal to approve files that are not known to be as the person was shown them.

    It names them, and says how to look again. None: all are as they were shown.
    """
    shown = {each.path: each for each in ledger.list_made(check.required.entries) if each.sha256}
    current = [each for each in check.entries if each.path in shown]
    replaced = [each for each in current if not _is_confirmed(shown[each.path], each)]
    if not replaced:
        return None
    more, task_id = len(replaced) - _NAMED_FILES, facts.task.task_id
    name = quote_line(to_plain_line(facts.task.name), NAME_BYTES)
    named = ", ".join(map(_describe_file, replaced[:_NAMED_FILES]))
    return NotAllowed(
        f"{name} is not approved: since you were shown what it made, these were replaced, or "
        f"cannot be verified: {named}{f' and {more} more' if more > 0 else ''}. Look at them with "
        f"taskmem show {task_id}, and approve it again."
    )


def _is_confirmed(shown: LedgerEntry, now: LedgerEntry) -> bool:
    """Tell whether a file is as it was shown; one shown as not verified may still be so."""
    if _is_gone(now):
        return _is_gone(shown)
    checksum = _get_checksum(now)
    return checksum == _get_checksum(shown) or (checksum is not None and checksum == shown.sha256)


def _is_gone(entry: LedgerEntry) -> bool:
    return entry.change is FileChange.REMOVED or entry.verdict in _GONE_VERDICTS


def _get_checksum(entry: LedgerEntry) -> str | None:
    """Return the checksum of the content that was verified; None: it was not.

    An entry that could not be verified keeps the checksum of an earlier check.
    """
    return None if entry.verdict is LedgerVerdict.UNVERIFIED else entry.sha256


def _describe_file(entry: LedgerEntry) -> str:
    name = to_plain_line(PurePath(entry.path).name)
    if _is_gone(entry):
        return f"{name} (now gone or empty)"
    if checksum := _get_checksum(entry):
        return f"{name} (now {format_checksum(checksum)})"
    path = clip_start(to_plain_line(entry.path), _PATH_BYTES)
    why = to_plain_line(entry.why or "It has no checksum now.").rstrip(".")
    return f"{path} (not verified now: {why})"
