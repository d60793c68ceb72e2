"""Hypothesis strategies for values with every field filled in."""

from __future__ import annotations

from datetime import UTC, datetime

from hypothesis import strategies as st

from taskmem_hookspecs.model import (
    Author,
    Event,
    Linkage,
    Message,
    MessageType,
    PlanRevision,
    Role,
    Task,
    TaskStatus,
    Wait,
    WaitStatus,
    Wake,
    WakeCause,
    WakeState,
)

texts = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0"), max_size=40
)
"""Any text that a store must keep: no NUL, no lone surrogate."""

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
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3)
    ),
    max_leaves=6,
)

numbers = st.integers(0, 2**31 - 1)

seconds = st.floats(0.001, 2_592_000)

linkages = st.builds(
    Linkage,
    active_wait_ids=st.lists(texts, max_size=3).map(tuple),
    last_wait_event_at=st.none() | whole_seconds,
    last_wait_state=st.none() | st.sampled_from(WaitStatus),
)


def tasks(task_id: str) -> st.SearchStrategy[Task]:
    """Draw tasks with this id, not stored yet."""
    return st.builds(
        Task,
        task_id=st.just(task_id),
        name=texts,
        status=st.sampled_from(TaskStatus),
        plan=plans,
        done=st.frozensets(st.integers(0, 200), max_size=4),
        metadata=st.dictionaries(texts, json_values, max_size=3),
        linkage=linkages,
        session_key=st.none() | texts,
        message_count=numbers,
        created_at=instants,
        updated_at=instants,
        last_stuck_alert_at=st.none() | instants,
        alerts=numbers,
        alerts_in_a_row=numbers,
        stuck_due_at=st.none() | instants,
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


def waits(wait_id: str, task_id: str) -> st.SearchStrategy[Wait]:
    """Draw waits with this id, alone or of this task, not stored yet."""
    return st.builds(
        Wait,
        wait_id=st.just(wait_id),
        task_id=st.sampled_from([None, task_id]),
        session_key=st.none() | texts,
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
    )


def wakes(wake_id: str, task_id: str, wait_id: str) -> st.SearchStrategy[Wake]:
    """Draw wakes with this id, of this task and this wait or of neither."""
    return st.builds(
        Wake,
        wake_id=st.just(wake_id),
        key=st.just(f"test:{wake_id}"),
        cause=st.sampled_from(WakeCause),
        state=st.sampled_from(WakeState),
        task_id=st.sampled_from([None, task_id]),
        wait_id=st.sampled_from([None, wait_id]),
        session_key=st.none() | texts,
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
