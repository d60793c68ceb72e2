"""What a memory is told, what it answers, and what it may not."""

from __future__ import annotations

import os
import select
import sys
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest

from taskmem_resumebench import memories
from taskmem_resumebench.agents import Knowledge, read_memory
from taskmem_resumebench.memories import (
    ANSWER_SECONDS,
    EXAMPLE,
    MOST_RECOVERIES,
    CommandFailed,
    CommandMemory,
    OpenClawRecovery,
)
from taskmem_resumebench.tasks import Call, GeneratedTask, Kind

PATIENCE = 60.0
"""Seconds, at most, for what another process does."""
CALL = Call(Kind.LINE, "amber-1", "log.txt")
PAYMENT = Call(Kind.PAYMENT, "amber-2")


@pytest.fixture
def notes(tmp_path: Path, task: GeneratedTask) -> Iterator[CommandMemory]:
    with CommandMemory(EXAMPLE, tmp_path) as memory:
        memory.begin(task)
        yield memory


def read_told(memory: CommandMemory) -> Knowledge:
    memory.crash()
    return read_memory(memory.resume(), (), list)


def ask_program(folder: Path, said: str) -> str:
    """Start a program that does something, and ask what the agent is told."""
    with CommandMemory((sys.executable, "-c", f"import sys, time; {said}"), folder) as memory:
        return memory.resume()


def test_the_example_tells_a_call_that_was_cut(notes: CommandMemory, task: GeneratedTask) -> None:
    notes.note_call_start(CALL)
    notes.note_call_end(CALL, failed=False)
    notes.report_step(1, task.plan[0])
    notes.note_call_start(PAYMENT)

    assert read_told(notes) == Knowledge(
        task.plan,
        done=frozenset({task.plan[0]}),
        finished_calls=(CALL.line,),
        cut_calls=(PAYMENT.line,),
    )


def test_a_program_is_told_which_files_the_task_makes(tmp_path: Path, task: GeneratedTask) -> None:
    read = "said = json.loads(sys.stdin.readline())"
    program = f"import json, sys; {read}; print(json.dumps({{'text': said['artifacts']}}))"

    with CommandMemory((sys.executable, "-c", program), tmp_path) as memory:
        memory.begin(task)

        assert memory.resume() == "['report.txt']"


def test_the_example_keeps_a_call_without_an_answer_as_begun(notes: CommandMemory) -> None:
    notes.note_call_start(PAYMENT)
    notes.note_call_end(PAYMENT, failed=True)

    assert read_told(notes).cut_calls == (PAYMENT.line,)


def test_the_example_follows_a_revised_plan(notes: CommandMemory, task: GeneratedTask) -> None:
    assert task.revision is not None
    notes.report_step(1, task.plan[0])
    notes.note_call_start(CALL)
    notes.revise(task.revision.plan, task.revision.words)

    known = read_told(notes)

    assert (known.plan, known.done) == (task.revision.plan, {task.plan[0]})
    assert known.cut_calls == (CALL.line,)
    assert [*notes.read_plan()] == [*task.revision.plan]
    assert notes.claim_end()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ("", "has ended"),
        ("sys.stdin.readline(); print('so')", r"answered 'so\\n', no object with \"text\""),
        ("sys.stdin.readline(); print('[]')", "no object with"),
        ("sys.stdin.readline(); print('[' * 100_000)", "no object with"),
        (r"""sys.stdin.readline(); print(r'{"text": "\ud800"}')""", "no object with"),
        ("print('x' * (1 << 21)); time.sleep(60)", "more than 1048576 bytes"),
        ("sys.stdin.read()", "did not answer within 0 s"),
    ],
    ids=["ended", "no JSON", "no object", "nested", "no text", "endless", "silent"],
)
def test_a_program_that_answers_otherwise_is_refused(
    said: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if why.startswith("did not answer"):
        monkeypatch.setattr(memories, "ANSWER_SECONDS", 0.1)

    with pytest.raises(CommandFailed, match=why):
        ask_program(tmp_path, said)


def test_a_whole_answer_has_a_minute(tmp_path: Path) -> None:
    dripping = (sys.executable, "-c", "while True: print(end='x', flush=True)")
    read_clock = count(0, ANSWER_SECONDS / 3.5).__next__

    with (
        CommandMemory(dripping, tmp_path, read_clock) as memory,
        pytest.raises(CommandFailed, match="did not answer within 60 s"),
    ):
        memory.resume()


def test_a_program_that_does_not_read_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(memories, "ANSWER_SECONDS", 0.1)
    deaf = (sys.executable, "-c", "import signal; signal.pause()")

    with (
        CommandMemory(deaf, tmp_path, lambda: 0.0) as memory,
        pytest.raises(CommandFailed, match="did not read within 0 s"),
    ):
        memory.revise((), "x" * (1 << 20))


@pytest.mark.parametrize("then", ["exit", "wait"])
def test_what_a_program_started_is_killed_with_it(then: str, tmp_path: Path) -> None:
    held = tmp_path / "held"
    os.mkfifo(held)
    script = f"""exec 3>held; sleep 90 & read asked; echo '{{"text": ""}}'; {then}"""
    with os.fdopen(os.open(held, os.O_RDONLY | os.O_NONBLOCK), "rb") as holders:
        with CommandMemory(("sh", "-c", script), tmp_path) as memory:
            memory.resume()

        assert select.select([holders], [], [], PATIENCE)[0], "somebody still holds it"


def test_a_program_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(CommandFailed, match="no-such-memory does not start: No such file"):
        CommandMemory(("no-such-memory",), tmp_path)


@pytest.fixture
def session(task: GeneratedTask) -> OpenClawRecovery:
    session = OpenClawRecovery()
    session.begin(task)
    return session


def resume(session: OpenClawRecovery) -> Knowledge:
    return read_memory(session.resume(), ("the request",), list)


def test_the_transcript_tells_results_and_a_call_without_one(
    session: OpenClawRecovery, task: GeneratedTask
) -> None:
    session.note_call_start(CALL)
    session.note_call_end(CALL, failed=False)
    session.note_call_start(PAYMENT)

    assert resume(session) == Knowledge(
        task.plan, finished_calls=(CALL.line,), cut_calls=(PAYMENT.line,)
    )


def test_a_call_whose_answer_was_lost_may_have_been_made(session: OpenClawRecovery) -> None:
    session.note_call_start(PAYMENT)
    session.note_call_end(PAYMENT, failed=True)

    assert resume(session).cut_calls == (PAYMENT.line,)


def test_a_session_that_was_recovered_too_often_is_given_up(session: OpenClawRecovery) -> None:
    session.note_call_start(CALL)
    for _ in range(MOST_RECOVERIES):
        assert resume(session).cut_calls == (CALL.line,)

    assert resume(session) == Knowledge(("the request",))
    assert resume(session).cut_calls == ()
