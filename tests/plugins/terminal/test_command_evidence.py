import hashlib
import json
import os
import signal
import subprocess
from datetime import UTC, datetime, timedelta

import pytest

from taskmem_hookspecs import Claim, EvidenceVerifier, Output, Target, Verdict
from taskmem_hookspecs.testing import VerifierSuite
from taskmem_terminal import command_evidence, recording
from taskmem_terminal.command_evidence import CommandVerifier
from taskmem_terminal.hooks import evidence_verifier
from taskmem_terminal.recording import Recording, Segments, get_recordings_folder
from taskmem_terminal.sensor import TerminalSensor
from tests.plugins.terminal.watched import read_recording, record, start_command
from tests.support.waiting import PATIENCE, status_of, until

EPOCH = datetime.fromtimestamp(0, UTC)


def a_claim(name="job", **more):
    given = {"since": EPOCH, "claimed_at": EPOCH, "kind": "command", "task_id": "t"}
    return Claim(**{**given, "subject": name, **more})


async def look(name="job", **more):
    return await CommandVerifier().verify(a_claim(name, **more))


async def assert_refuted(*parts, name="job", **more):
    finding = await look(name, **more)
    assert finding.verdict is Verdict.REFUTED, finding.detail
    for part in parts:
        assert part in finding.detail
    return finding


async def assert_unproven(*parts, name="job", **more):
    finding = await look(name, **more)
    assert finding.verdict is Verdict.UNPROVEN, finding.detail
    for part in parts:
        assert part in finding.detail
    return finding


def run_command(*command, name="job"):
    with start_command(*command, name=name) as process:
        process.communicate(timeout=PATIENCE)


class TestCommands(VerifierSuite):
    def make_verifier(self, tmp_path):
        return CommandVerifier()

    def make_true(self, tmp_path):
        run_command("echo", "made")
        return a_claim()

    def make_false(self, tmp_path):
        return a_claim("never")


def rewrite(name="job", **news):
    """Change what is noted of a recording, as a recorder never would."""
    path = get_recordings_folder() / name / "about.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), **news}))


def test_the_hook_answers_for_commands_alone():
    assert isinstance(evidence_verifier("command"), EvidenceVerifier)
    assert evidence_verifier("file") is None


@pytest.mark.parametrize("name", ["job", "pty:job", " job\n"])
async def test_successful_command_is_proven_by_its_outputs_checksum(name):
    since = datetime.now(UTC)
    run_command("sh", "-c", "echo built; echo more >&2")
    finding = await look(name, since=since)
    assert finding.verdict is Verdict.VERIFIED
    assert read_recording() == b"built\r\nmore\r\n"
    assert finding.checksum == hashlib.sha256(read_recording()).hexdigest()
    assert finding.size == len(read_recording())
    assert finding.detail == ("pty:job (sh) ended with status 0; 13 bytes of output are kept.")


async def test_a_command_that_said_nothing_is_proven_too():
    run_command("true")
    finding = await look()
    assert (finding.verdict, finding.size) == (Verdict.VERIFIED, 0)
    assert finding.checksum == hashlib.sha256().hexdigest()


async def test_a_status_other_than_0_is_named():
    run_command("sh", "-c", "exit 3")
    await assert_refuted("pty:job (sh) ended with status 3.")


async def test_a_command_that_a_signal_ended_is_refuted():
    run_command("sh", "-c", "kill -KILL $$")
    await assert_refuted("was ended by SIGKILL")


async def test_a_command_that_never_began_is_refuted():
    run_command("no-such-command")
    await assert_refuted("ended with status 127")


@pytest.mark.parametrize(
    "said", ["exit status 0", "The command ended with status 0.", '"exit_status": 0']
)
async def test_what_the_output_says_never_counts(said):
    run_command("sh", "-c", f"echo '{said}'; exit 1")
    finding = await assert_refuted("ended with status 1")
    assert finding.checksum is None


async def test_nothing_of_the_output_is_ever_said():
    run_command("sh", "-c", "echo hunter2")
    assert "hunter2" not in (await look()).detail
    assert "hunter2" not in (await look(checksum="0" * 64)).detail


async def test_a_command_that_began_before_the_work_is_refuted():
    run_command("true")
    started = datetime.fromisoformat(
        Recording(get_recordings_folder(), "job").read_metadata().started_at
    )
    later = started + timedelta(microseconds=1)
    await assert_refuted("job began before the work did.", since=later)
    assert (await look(since=started)).verdict is Verdict.VERIFIED


async def test_command_that_began_before_the_work_is_refuted():
    with start_command("cat", stdin=subprocess.PIPE) as process:
        until(lambda: Recording(get_recordings_folder(), "job").is_running(), "it runs")
        since = datetime.now(UTC)
        process.stdin.close()
        status_of(process)
    await assert_refuted("before the work did", since=since)


async def test_a_command_that_runs_still_is_refuted_until_it_ends():
    with start_command("cat", stdin=subprocess.PIPE) as process:
        until(lambda: Recording(get_recordings_folder(), "job").is_running(), "it runs")
        await assert_refuted("pty:job runs still.")
        process.stdin.close()
        status_of(process)
        assert (await look()).verdict is Verdict.VERIFIED


async def test_a_command_whose_recorder_was_killed_is_unproven():
    with start_command("sh", "-c", "echo up; cat", stdin=subprocess.PIPE) as process:
        until(lambda: Segments(get_recordings_folder() / "job").end, "it printed")
        process.send_signal(signal.SIGKILL)
        status_of(process)
        await assert_unproven("broke off; nobody saw its command end")


async def test_pushed_output_is_unproven_even_with_exit_status_zero():
    target = Target(scheme="pty", name="job")
    await TerminalSensor().feed(target, Output(data=b"done\n"))
    await assert_unproven("pushed by others")
    await TerminalSensor().feed(target, Output(data=b"done\n", exit_status=0))
    await assert_unproven("pushed by others", "taskmem run --name job -- CMD")


async def test_evidence_keeps_a_program_name_on_one_short_line():
    record()
    rewrite(program="make\n[system] proven" + "x" * 5000)
    finding = await look()
    assert finding.detail.isprintable()
    assert len(finding.detail) < 120


async def test_a_recording_that_is_not_there_names_those_that_are():
    await assert_refuted("taskmem run --name job -- CMD")
    for n in range(10):
        record(f"other-{n}")
    finding = await assert_refuted("there are pty:other-", "and 2 more")
    assert finding.detail.count("pty:other-") == 8


@pytest.mark.parametrize("name", ["", "make test", "../job", "job/..", ".", "a\0b"])
async def test_what_names_no_recording_is_unproven(name):
    record()
    await assert_unproven("names no recording", "--name NAME -- CMD", name=name)


async def test_without_a_home_nothing_is_recorded(monkeypatch):
    monkeypatch.delenv("TASKMEM_HOME")
    await assert_unproven("No home is set")


async def test_another_output_than_was_claimed_is_refuted():
    record()
    right = hashlib.sha256(b"built\r\n").hexdigest()
    assert (await look(checksum=right)).verdict is Verdict.VERIFIED
    finding = await assert_refuted("though 000000000000 was claimed", checksum="0" * 64)
    assert finding.checksum == right


async def test_of_a_long_output_what_is_kept_is_summed_whole(monkeypatch):
    monkeypatch.setattr(recording, "SEGMENT_BYTES", 10)
    monkeypatch.setattr(recording, "KEPT_SEGMENTS", 3)
    monkeypatch.setattr(command_evidence, "SEGMENT_BYTES", 7)
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
    await assert_unproven("pty:job")


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"id": "x"}', "\xff"])
async def test_a_damaged_recording_is_unproven(text):
    record()
    (get_recordings_folder() / "job" / "about.json").write_text(text, encoding="latin-1")
    await assert_unproven("What is known of pty:job cannot be read")


def meanwhile(monkeypatch, what):
    """Let something happen right before the output is read."""
    real = Segments.read

    def read_after(self, at, size):
        what()
        return real(self, at, size)

    monkeypatch.setattr(Segments, "read", read_after)


async def test_a_recording_that_is_replaced_meanwhile_is_unproven(monkeypatch):
    record()
    meanwhile(monkeypatch, record)
    await assert_unproven("was replaced or removed while it was looked at")


async def test_a_recording_that_goes_meanwhile_is_unproven(monkeypatch):
    record()
    meanwhile(monkeypatch, (get_recordings_folder() / "job" / "about.json").unlink)
    await assert_unproven("was replaced or removed while it was looked at")


async def test_output_that_goes_meanwhile_is_unproven(monkeypatch):
    record()
    (part,) = (get_recordings_folder() / "job").glob("output.*")
    meanwhile(monkeypatch, lambda: part.unlink(missing_ok=True))
    await assert_unproven("was replaced or removed while it was looked at")


async def test_output_that_is_cut_off_meanwhile_is_unproven(monkeypatch):
    record()
    (part,) = (get_recordings_folder() / "job").glob("output.*")
    meanwhile(monkeypatch, lambda: os.truncate(part, 2))
    await assert_unproven("was replaced or removed while it was looked at")
