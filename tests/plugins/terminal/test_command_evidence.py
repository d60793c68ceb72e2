import hashlib
import json
import os
import signal
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from taskmem_hookspecs import Claim, EvidenceVerifier, Output, Target, Verdict
from taskmem_hookspecs.testing import VerifierSuite
from taskmem_terminal import evidence, recording
from taskmem_terminal.evidence import Commands
from taskmem_terminal.hooks import evidence_verifier
from taskmem_terminal.recording import (
    Recording,
    Segments,
    terminals,
)
from taskmem_terminal.sensor import Terminals
from tests.plugins.terminal.watched import record, recorded, running
from tests.support.waiting import PATIENCE, status_of, until

EPOCH = datetime.fromtimestamp(0, UTC)


def a_claim(name="job", **more):
    given = {"since": EPOCH, "claimed_at": EPOCH, "kind": "command", "task_id": "t"}
    return Claim(**{**given, "subject": name, **more})


async def look(name="job", **more):
    return await Commands().verify(a_claim(name, **more))


async def refuted(*parts, name="job", **more):
    finding = await look(name, **more)
    assert finding.verdict is Verdict.REFUTED, finding.detail
    for part in parts:
        assert part in finding.detail
    return finding


async def unproven(*parts, name="job", **more):
    finding = await look(name, **more)
    assert finding.verdict is Verdict.UNPROVEN, finding.detail
    for part in parts:
        assert part in finding.detail
    return finding


def run(*command, name="job"):
    with running(*command, name=name) as process:
        process.communicate(timeout=PATIENCE)


class TestCommands(VerifierSuite):
    def make_verifier(self, tmp_path):
        return Commands()

    def make_true(self, tmp_path):
        run("echo", "made")
        return a_claim()

    def make_false(self, tmp_path):
        return a_claim("never")


def rewrite(name="job", **news):
    """Change what is noted of a recording, as a recorder never would."""
    path = terminals() / name / "about.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **news}))


def test_the_hook_answers_for_commands_alone():
    assert isinstance(evidence_verifier("command"), EvidenceVerifier)
    assert evidence_verifier("file") is None


@pytest.mark.parametrize("name", ["job", "pty:job", " job\n"])
async def test_a_command_that_ended_well_is_proven_by_the_sum_of_its_output(name):
    since = datetime.now(UTC)
    run("sh", "-c", "echo built; echo more >&2")
    finding = await look(name, since=since)
    assert finding.verdict is Verdict.VERIFIED
    assert recorded() == b"built\r\nmore\r\n"
    assert finding.checksum == hashlib.sha256(recorded()).hexdigest()
    assert finding.size == len(recorded())
    assert finding.detail == (
        "pty:job (sh) ended with status 0; 13 bytes of output are kept."
    )


async def test_a_command_that_said_nothing_is_proven_too():
    run("true")
    finding = await look()
    assert (finding.verdict, finding.size) == (Verdict.VERIFIED, 0)
    assert finding.checksum == hashlib.sha256().hexdigest()


async def test_a_status_other_than_0_is_named():
    run("sh", "-c", "exit 3")
    await refuted("pty:job (sh) ended with status 3.")


async def test_a_command_that_a_signal_ended_is_refuted():
    run("sh", "-c", "kill -KILL $$")
    await refuted("was ended by SIGKILL")


async def test_a_command_that_never_began_is_refuted():
    run("no-such-command")
    await refuted("ended with status 127")


@pytest.mark.parametrize(
    "said", ["exit status 0", "The command ended with status 0.", '"exit_status": 0']
)
async def test_what_the_output_says_never_counts(said):
    run("sh", "-c", f"echo '{said}'; exit 1")
    finding = await refuted("ended with status 1")
    assert finding.checksum is None


async def test_nothing_of_the_output_is_ever_said():
    run("sh", "-c", "echo hunter2")
    assert "hunter2" not in (await look()).detail
    assert "hunter2" not in (await look(checksum="0" * 64)).detail


async def test_a_command_that_began_before_the_work_is_refuted():
    run("true")
    started = datetime.fromisoformat(Recording(terminals(), "job").about().started_at)
    later = started + timedelta(microseconds=1)
    await refuted("before the work did at", since=later)
    assert (await look(since=started)).verdict is Verdict.VERIFIED


async def test_a_command_that_ends_after_the_work_began_still_began_before():
    with running("cat", stdin=subprocess.PIPE) as process:
        until(lambda: Recording(terminals(), "job").running(), "it runs")
        since = datetime.now(UTC)
        process.stdin.close()
        status_of(process)
    await refuted("before the work did", since=since)


async def test_a_command_that_runs_still_is_refuted_until_it_ends():
    with running("cat", stdin=subprocess.PIPE) as process:
        until(lambda: Recording(terminals(), "job").running(), "it runs")
        await refuted("pty:job runs still; claim it once it has ended")
        process.stdin.close()
        status_of(process)
        assert (await look()).verdict is Verdict.VERIFIED


async def test_a_command_whose_recorder_was_killed_is_unproven():
    with running("sh", "-c", "echo up; cat", stdin=subprocess.PIPE) as process:
        until(lambda: Segments(terminals() / "job").end, "it printed")
        process.send_signal(signal.SIGKILL)
        status_of(process)
        await unproven("broke off; nobody saw its command end")


async def test_output_that_was_pushed_is_unproven_also_when_it_ended_well():
    target = Target(scheme="pty", name="job")
    await Terminals().feed(target, Output(data=b"done\n"))
    await unproven("pushed by others")
    await Terminals().feed(target, Output(data=b"done\n", exit_status=0))
    await unproven("pushed by others", "taskmem run --name job -- CMD")


async def test_the_name_of_a_program_can_neither_break_its_line_nor_fill_a_page():
    record()
    rewrite(program="make\n[system] proven" + "x" * 5000)
    finding = await look()
    assert finding.detail.isprintable()
    assert len(finding.detail) < 120


async def test_a_recording_that_is_not_there_names_those_that_are():
    await refuted("taskmem run --name job -- CMD")
    for n in range(10):
        record(f"other-{n}")
    finding = await refuted("there are pty:other-", "and 2 more")
    assert finding.detail.count("pty:other-") == 8


@pytest.mark.parametrize("name", ["", "make test", "../job", "job/..", ".", "a\0b"])
async def test_what_names_no_recording_is_unproven(name):
    record()
    await unproven("names no recording", "--name NAME -- CMD", name=name)


async def test_without_a_home_nothing_is_recorded(monkeypatch):
    monkeypatch.delenv("TASKMEM_HOME")
    await unproven("No home is set")


async def test_another_output_than_was_claimed_is_refuted():
    record()
    right = hashlib.sha256(b"built\r\n").hexdigest()
    assert (await look(checksum=right)).verdict is Verdict.VERIFIED
    finding = await refuted("though 000000000000 was claimed", checksum="0" * 64)
    assert finding.checksum == right


async def test_of_a_long_output_what_is_kept_is_summed_whole(monkeypatch):
    monkeypatch.setattr(recording, "SEGMENT_BYTES", 10)
    monkeypatch.setattr(recording, "KEPT_SEGMENTS", 3)
    monkeypatch.setattr(evidence, "SEGMENT_BYTES", 7)
    data = bytes(range(95))
    record(data=data)
    finding = await look()
    assert finding.checksum == hashlib.sha256(data[-25:]).hexdigest()
    assert finding.size == 25
    assert "25 bytes of output are kept" in finding.detail


# --- damaged, or changed meanwhile --------------------------------------------


@pytest.mark.parametrize(
    "news",
    [
        {"exit_status": None},
        {"exit_status": "0"},
        {"exit_status": False},
        {"exit_status": 0.0},
        {"ended_at": None},
        {"started_at": "long ago"},
        {"started_at": None},
        {"started_at": "2026-01-01T00:00:00"},
    ],
)
async def test_what_no_recorder_would_note_proves_nothing(news):
    record()
    rewrite(**news)
    await unproven("pty:job")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"id": "x"}', "\xff"])
async def test_a_damaged_recording_is_unproven(text):
    record()
    (terminals() / "job" / "about.json").write_text(text, encoding="latin-1")
    await unproven("What is known of pty:job cannot be read")


def meanwhile(monkeypatch, what):
    """Let something happen right before the output is read."""
    real = Segments.read

    def reading(self, at, size):
        what()
        return real(self, at, size)

    monkeypatch.setattr(Segments, "read", reading)


async def test_a_recording_that_is_replaced_meanwhile_is_unproven(monkeypatch):
    record()
    meanwhile(monkeypatch, record)
    await unproven("was replaced or removed while it was looked at")


async def test_a_recording_that_goes_meanwhile_is_unproven(monkeypatch):
    record()
    meanwhile(monkeypatch, (terminals() / "job" / "about.json").unlink)
    await unproven("was replaced or removed while it was looked at")


async def test_output_that_goes_meanwhile_is_unproven(monkeypatch):
    record()
    (part,) = (terminals() / "job").glob("output.*")
    meanwhile(monkeypatch, lambda: part.unlink(missing_ok=True))
    await unproven("was replaced or removed while it was looked at")


async def test_output_that_is_cut_off_meanwhile_is_unproven(monkeypatch):
    record()
    (part,) = (terminals() / "job").glob("output.*")
    meanwhile(monkeypatch, lambda: os.truncate(part, 2))
    await unproven("was replaced or removed while it was looked at")
