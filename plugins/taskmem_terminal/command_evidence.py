"""Verify claims that a command was run, from its recording.

The daemon never runs a command to verify it. What an agent may execute is for its host to decide
and confine; a daemon that ran what an agent names would bypass both.
"""

from __future__ import annotations

import hashlib
from datetime import datetime
from typing import Final

from taskmem_hookspecs import Claim, Finding, Verdict
from taskmem_terminal.recording import (
    SEGMENT_BYTES,
    UNSEEN_END,
    Recording,
    RecordingMetadata,
    Segments,
    describe_end,
    get_recordings_folder,
    is_recording_name,
    list_recordings,
)
from taskmem_terminal.recording_watch import describe_missing_recording

_CHECKSUM_CHARS: Final = 12
_LONGEST_PROGRAM: Final = 40


class CommandVerifier:
    """Verifies that a command run by `taskmem run` since the work began ended with status 0.

    The evidence is what the recorder noted of its process, in a home that only its user can write
    to. The output is hashed and never read: a command can print anything.
    """

    async def verify(self, claim: Claim) -> Finding:
        """Verify a claim; the finding contains none of the output.

        The subject is the recording's name, with or without `pty:`. Reading blocks, for at most 16
        MiB; the plug-in's event loop has a thread of its own.
        """
        name = claim.subject.strip().removeprefix("pty:")
        if not is_recording_name(name):
            return _leave_open(
                "The claim names no recording; run the command with taskmem run "
                "--name NAME -- CMD, and claim that NAME."
            )
        try:
            recording = Recording(get_recordings_folder(), name)
        except KeyError:
            return _leave_open("No home is set, so that nothing is recorded here.")
        # Read this first, so that a command that ends meanwhile counts as ended, not as broken off.
        running = recording.is_running()
        try:
            about = recording.read_metadata()
        except FileNotFoundError:
            root = get_recordings_folder()
            return _refute(describe_missing_recording(root, name, list_recordings(root)))
        except (OSError, ValueError, TypeError):
            return _leave_open(f"What is known of pty:{name} cannot be read.")
        return _find_doubt(name, about, claim.since, running=running) or _prove_claim(
            claim, recording, about
        )


def _find_doubt(
    name: str, about: RecordingMetadata, since: datetime, *, running: bool
) -> Finding | None:
    """Return the finding against a command; None: nothing speaks against it."""
    if about.fed:
        return _leave_open(
            f"The output of pty:{name} was pushed by others, so that nobody here saw "
            f"a command end; run it with taskmem run --name {name} -- CMD."
        )
    started = _parse_instant(about.started_at)
    if started is None:
        return _leave_open(f"Nobody knows when pty:{name} began.")
    if started < since:
        return _refute(f"pty:{name} began before the work did.")
    return _find_bad_end(name, about, running=running)


def _find_bad_end(name: str, about: RecordingMetadata, *, running: bool) -> Finding | None:
    """Return the finding for a command that did not end with status 0; None: it did."""
    status: object = about.exit_status
    if about.ended_at is None and running:
        return _refute(f"pty:{name} runs still.")
    if about.ended_at is None or type(status) is not int:
        return _leave_open(f"The recording of pty:{name} broke off; {UNSEEN_END}.")
    if status != 0:
        return _refute(describe_end(_describe_subject(name, about), status))
    return None


def _prove_claim(claim: Claim, recording: Recording, about: RecordingMetadata) -> Finding:
    """Return the finding for a command that ended with status 0, with its output's checksum."""
    output = Segments(recording.folder)
    content, at = hashlib.sha256(), output.begin
    while at < output.end:
        chunk = output.read(at, SEGMENT_BYTES)
        if not chunk:
            break
        content.update(chunk)
        at += len(chunk)
    name = recording.name
    try:
        is_same = at == output.end and recording.read_metadata() == about
    except (OSError, ValueError, TypeError):
        is_same = False
    if not is_same:
        return _leave_open(f"pty:{name} was replaced or removed while it was looked at.")
    checksum, size = content.hexdigest(), output.end - output.begin
    detail = (
        f"{_describe_subject(name, about)} ended with status 0; {size:,} bytes of output are kept."
    )
    if claim.checksum not in (None, checksum):
        verdict = Verdict.REFUTED
        detail = (
            f"{detail} Their SHA-256 begins with {checksum[:_CHECKSUM_CHARS]}, though "
            f"{claim.checksum[:_CHECKSUM_CHARS]} was claimed."
        )
    else:
        verdict = Verdict.VERIFIED
    return Finding(verdict=verdict, detail=detail, checksum=checksum, size=size)


def _describe_subject(name: str, about: RecordingMetadata) -> str:
    """Return a recording's name and its program, without control characters."""
    program = "".join(c for c in str(about.program) if c.isprintable())
    return f"pty:{name} ({program[:_LONGEST_PROGRAM]})"


def _parse_instant(text: object) -> datetime | None:
    try:
        at = datetime.fromisoformat(str(text))
    except ValueError:
        return None
    return at if at.tzinfo is not None else None


def _refute(detail: str) -> Finding:
    return Finding(verdict=Verdict.REFUTED, detail=detail)


def _leave_open(detail: str) -> Finding:
    return Finding(verdict=Verdict.UNPROVEN, detail=detail)
