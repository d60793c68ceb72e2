"""Define Hypothesis strategies that draw the rows of a store."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from taskmem_hookspecs.model import (
    RESERVED_METADATA,
    AgentFacts,
    Artifact,
    Author,
    Checkpoint,
    Event,
    FileChange,
    LedgerEntry,
    LedgerVerdict,
    LimitCounts,
    Linkage,
    Message,
    MessageType,
    News,
    Owner,
    PlanRevision,
    Role,
    Run,
    RunProgress,
    RunState,
    StepBudget,
    Task,
    TaskStatus,
    UserDialogue,
    Verdict,
    Wait,
    WaitPart,
    WaitStatus,
    Wake,
    WakeCause,
    WakeState,
    WorkFolder,
)

texts = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40)
"""Any text that a store must keep: without NUL and lone surrogates."""

instants = st.datetimes(
    datetime(2000, 1, 1),  # noqa: DTZ001 - hypothesis adds the time zone
    datetime(2100, 1, 1),  # noqa: DTZ001 - hypothesis adds the time zone
    timezones=st.just(UTC),
)

whole_seconds = instants.map(lambda instant: instant.replace(microsecond=0))

plans = st.lists(texts, max_size=4).map(tuple)

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats(allow_nan=False, allow_infinity=False)
    | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)

numbers = st.integers(0, 2**31 - 1)

checksums = st.text("0123456789abcdef", min_size=64, max_size=64)

own_keys = texts.filter(lambda key: key not in RESERVED_METADATA)

seconds = st.floats(0.001, 2_592_000)

homes = st.none() | st.sampled_from(("home_1", "home_2"))

linkages = st.builds(
    Linkage,
    active_wait_ids=st.lists(texts, max_size=3).map(tuple),
    last_wait_event_at=st.none() | whole_seconds,
    last_wait_state=st.none() | st.sampled_from(WaitStatus),
)


def tasks(task_id: str) -> st.SearchStrategy[Task]:
    """Draw new tasks with this id."""
    return st.builds(
        Task,
        task_id=st.just(task_id),
        name=texts,
        status=st.sampled_from(TaskStatus),
        plan=plans,
        done=st.frozensets(st.integers(0, 200), max_size=4),
        metadata=st.dictionaries(own_keys, json_values, max_size=3),
        linkage=linkages,
        session_key=st.none() | texts,
        host=st.none() | texts,
        home=homes,
        registrar_session=st.none() | texts,
        registrar_host=st.none() | texts,
        registrar_home=homes,
        message_count=numbers,
        created_at=instants,
        updated_at=instants,
        last_stuck_alert_at=st.none() | instants,
        alerts=numbers,
        alerts_in_a_row=numbers,
        held_until=st.none() | instants,
        doubts=plans,
        original_request=st.none() | texts,
        implicit=st.booleans(),
        stuck_due_at=st.none() | instants,
        blocked_by=plans,
    )


def messages(task_id: str) -> st.SearchStrategy[Message]:
    """Draw messages of this task."""
    return st.builds(
        Message,
        task_id=st.just(task_id),
        role=st.sampled_from(Role),
        msg_type=st.sampled_from(MessageType),
        content=texts,
        created_at=instants,
    )


def revisions(task_id: str) -> st.SearchStrategy[PlanRevision]:
    """Draw revisions of this task's plan."""
    return st.builds(
        PlanRevision,
        task_id=st.just(task_id),
        old_plan=plans,
        new_plan=plans,
        reason=texts,
        author=st.sampled_from(Author),
        created_at=instants,
    )


wait_parts = st.builds(
    WaitPart, target=texts, wake_when=texts, start=st.none() | texts, met=st.none() | texts
)


def waits(wait_id: str, task_id: str) -> st.SearchStrategy[Wait]:
    """Draw new waits with this id, of this task or of none."""
    return st.builds(
        Wait,
        wait_id=st.just(wait_id),
        task_id=st.sampled_from([None, task_id]),
        session_key=st.none() | texts,
        host=st.none() | texts,
        target=texts,
        wake_when=texts,
        status=st.sampled_from(WaitStatus),
        timeout_seconds=seconds,
        poll_seconds=seconds,
        created_at=instants,
        armed_at=instants,
        deadline_at=instants,
        changed_at=instants,
        ended_at=st.none() | instants,
        last_observation=st.none() | texts,
        round=numbers,
        start=st.none() | texts,
        home=st.none() | texts,
        polled=st.booleans(),
        parts=st.lists(wait_parts, max_size=3).map(tuple),
        needs_all=st.booleans(),
    )


def wakes(wake_id: str, task_id: str, wait_id: str) -> st.SearchStrategy[Wake]:
    """Draw new wakes with this id, each of this task or none and of this wait or none."""
    return st.builds(
        Wake,
        wake_id=st.just(wake_id),
        key=st.just(f"test:{wake_id}"),
        cause=st.sampled_from(WakeCause),
        state=st.sampled_from(WakeState),
        task_id=st.sampled_from([None, task_id]),
        wait_id=st.sampled_from([None, wait_id]),
        session_key=st.none() | texts,
        host=st.none() | texts,
        home=homes,
        text=texts,
        urgent=st.booleans(),
        attempts=numbers,
        sends=numbers,
        last_error=st.none() | texts,
        created_at=instants,
        due_at=st.none() | instants,
        sent_at=st.none() | instants,
        acknowledged_at=st.none() | instants,
        transport=st.none() | texts,
        note=st.none() | texts,
        delivery_id=st.none() | texts,
    )


owners = st.builds(
    Owner,
    role=texts,
    session_key=st.none() | texts,
    boot=st.none() | texts,
    process=st.none() | texts,
    home=homes,
)


def runs(run_id: str, task_id: str) -> st.SearchStrategy[Run]:
    """Draw new runs with this id, of this task."""
    return st.builds(
        Run,
        run_id=st.just(run_id),
        task_id=st.just(task_id),
        state=st.sampled_from(RunState),
        why=st.none() | texts,
        role=st.none() | texts,
        session_key=st.none() | texts,
        owner=st.none() | owners,
        token=numbers,
        lease_until=st.none() | instants,
        home=homes,
        told_session=st.none() | texts,
        attached=plans,
        dialogue=st.builds(
            UserDialogue,
            question=st.none() | texts,
            heard_until=numbers,
            last_response=st.none() | texts,
        ),
        budget=st.builds(
            StepBudget,
            segmented=st.booleans(),
            step=st.none() | numbers,
            step_calls=numbers,
            step_bonus=st.booleans(),
            failed_steps=st.lists(numbers, max_size=3).map(tuple),
        ),
        progress=st.builds(
            RunProgress,
            calls=numbers,
            checkpoints=numbers,
            news=st.sampled_from(News),
            recent=plans,
            said=st.none() | texts,
        ),
        limits=st.builds(
            LimitCounts,
            rounds=numbers,
            rounds_before=numbers,
            idle_rounds=numbers,
            turn_began_at=st.none() | instants,
            worked_seconds=st.floats(0, 1e6),
            provider_failures=numbers,
            tries=numbers,
        ),
        agent=st.builds(
            AgentFacts,
            folder=st.none() | texts,
            fingerprint=st.none() | texts,
        ),
        created_at=instants,
        changed_at=instants,
        seen_at=instants,
        started_at=st.none() | instants,
    )


def checkpoints(run_id: str, number: int) -> st.SearchStrategy[Checkpoint]:
    """Draw checkpoints of this run, with this number."""
    return st.builds(
        Checkpoint,
        run_id=st.just(run_id),
        number=st.just(number),
        at=instants,
        body=texts,
        checksum=texts,
    )


def artifacts(artifact_id: str, task_id: str) -> st.SearchStrategy[Artifact]:
    """Draw new artifacts with this id, of this task and no run."""
    return st.builds(
        Artifact,
        artifact_id=st.just(artifact_id),
        task_id=st.just(task_id),
        kind=texts,
        subject=texts,
        verdict=st.sampled_from(Verdict),
        detail=texts,
        checksum=st.none() | checksums,
        size=st.none() | st.integers(0, 2**63 - 1),
        checked_at=instants,
    )


def entries(path: str, task_id: str) -> st.SearchStrategy[LedgerEntry]:
    """Draw ledger entries with this path, of this task and no run."""
    return st.builds(
        LedgerEntry,
        task_id=st.just(task_id),
        path=st.just(path),
        change=st.none() | st.sampled_from(FileChange),
        call_id=st.none() | texts,
        at=instants,
        size=st.none() | st.integers(0, 2**63 - 1),
        sha256=st.none() | checksums,
        verdict=st.none() | st.sampled_from(LedgerVerdict),
        why=st.none() | texts,
        nearby=st.booleans(),
    )


def folders(path: str, task_id: str) -> st.SearchStrategy[WorkFolder]:
    """Draw folders with this path, of this task."""
    return st.builds(
        WorkFolder,
        task_id=st.just(task_id),
        path=st.just(path),
        since=st.none() | instants,
        files=st.none() | texts,
    )


def events() -> st.SearchStrategy[Event]:
    """Draw entries of the audit log."""
    return st.builds(
        Event,
        at=instants,
        kind=texts,
        task_id=st.none() | texts,
        wait_id=st.none() | texts,
        run_id=st.none() | texts,
        data=st.dictionaries(texts, json_values, max_size=3),
    )
