"""`taskmem hook`: answer a hook of Claude Code or Codex, which both send the same JSON.

The host waits for it, so it is small: it passes the event to the daemon and prints the answer. It
never fails, and never starts a daemon: without an answer the host goes on as if it had no hook.
If a daemon that was killed or is slow misses the start of a session, a prompt or the end of a turn,
a process in the background tells it once it answers.
"""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Generator, Mapping
from contextlib import contextmanager, suppress
from itertools import islice
from typing import Any, Final, cast

from openclaw_taskmem.cli.client import LinkError, connect
from openclaw_taskmem.home import Home, HomeRefused, locate_home

READ_SECONDS: Final = 5.0
"""Time limit for the host to write the event."""
_BLOCK_BYTES: Final = 1024 * 1024
LIMIT_SECONDS: Final = 0.5
"""Time limit for the daemon's answer."""
LATE_SECONDS: Final = 60
"""Time in which such a daemon is told what it missed."""
_RETRY_SECONDS: Final = 0.25
_NO_DAEMON: Final = "daemon_unavailable"
_LATE_EVENTS: Final = ("SessionStart", "UserPromptSubmit", "Stop")
"""The events that are then told: they say which messages an agent has had."""
_LONGEST_TEXT: Final = 10_000
"""Characters of a text in a tool call that are passed on; those in a list share them."""
_PATCH_MARK: Final = "*** "
"""How the lines of a patch begin that name its files."""
_MOST_ITEMS: Final = 50
_DEPTH: Final = 4
"""Nested objects and lists in a tool call that are passed on."""


class _OutOfTime(BaseException):
    """The event or its answer did not come in time."""


def run_hook(environ: Mapping[str, str]) -> int:
    """Read an event from stdin and print what the daemon answers; return the exit status 0."""
    home, event, began = None, None, _monotonic()
    try:
        event = _shorten_call(json.loads(_read_event()))
        home = locate_home(environ)
        if not home.find_socket(environ).exists():
            return 0  # no daemon runs
        answer = _call_in_time(home, event)
    except _OutOfTime:
        _say(f"the daemon did not answer within {LIMIT_SECONDS:g} s.")
        _tell_later(home, event, began)
    except LinkError as error:
        _say(str(error))
        if error.name == _NO_DAEMON:
            _tell_later(home, event, began)
    except HomeRefused as error:
        _say(str(error))
    except (ValueError, RecursionError, OSError) as error:
        _say(f"the host's event cannot be read ({error}).")
    else:
        if answer is not None:
            sys.stdout.write(json.dumps(answer))
    return 0


def _read_event() -> bytes:
    """Return what the host writes, until it closes the pipe or the time is up."""
    blocks: list[bytes] = []
    with suppress(_OutOfTime), _limit_time(READ_SECONDS):
        while block := os.read(0, _BLOCK_BYTES):
            blocks.append(block)
    return b"".join(blocks)


def _call_in_time(home: Home, event: object) -> object:
    """Return the daemon's answer to an event; `_OutOfTime` ends it, and nothing after it."""
    with _limit_time(LIMIT_SECONDS), connect(home) as link:
        return link.call("hook", {"event": event})


@contextmanager
def _limit_time(seconds: float) -> Generator[None]:
    """Raise `_OutOfTime` in what runs longer."""
    signal.signal(signal.SIGALRM, _end_call)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def _tell_later(home: Home | None, event: object, began: float) -> None:
    """Have a process of its own tell the daemon an event, whose answer nobody waits for.

    `began`: when the event was. Without room for another process the event is lost.
    """
    fields = cast("dict[str, Any]", event) if isinstance(event, dict) else {}
    if home is None or fields.get("hook_event_name") not in _LATE_EVENTS:
        return
    with suppress(OSError):
        if os.fork():
            return
        try:
            _tell_until_heard(home, fields, began)
        finally:
            os._exit(0)


def _tell_until_heard(home: Home, fields: Mapping[str, Any], began: float) -> None:
    os.setsid()
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.alarm(LATE_SECONDS)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for stream in (0, 1, 2):
        os.dup2(nowhere, stream)
    # Nobody would hear that an end is refused.
    late = {**fields, "stop_hook_active": None}
    while True:
        time.sleep(_RETRY_SECONDS)
        try:
            with connect(home) as link:
                link.call("hook", {"event": {**late, "seconds_late": _monotonic() - began}})
        except LinkError as error:
            if error.name == _NO_DAEMON:
                continue
        return


def _monotonic() -> float:
    return time.monotonic()  # noqa: TID251 (real waiting on another process)


def _shorten_call(event: Any) -> object:  # noqa: ANN401 - of the host
    """Return an event; of a tool call, without what is too long to be sent."""
    try:
        is_call = event["hook_event_name"].startswith("PostToolUse")
    except (TypeError, LookupError, AttributeError):
        return event  # of another form, which the daemon ignores
    if not is_call:
        return event
    with suppress(TypeError, LookupError, AttributeError):  # a call of another form
        if event["tool_name"] == "apply_patch":
            event["tool_input"]["command"] = _strip_patch(event["tool_input"]["command"])
    return _shorten(event, _DEPTH, _LONGEST_TEXT)


def _strip_patch(patch: str) -> str:
    """Return only those lines of a patch that name files."""
    named = (line for line in patch.splitlines() if line.startswith(_PATCH_MARK))
    return "".join(f"{line}\n" for line in named)[:_LONGEST_TEXT].rpartition("\n")[0]


def _shorten(value: Any, depth: int, longest: int) -> object:  # noqa: ANN401 - of the host
    is_text, is_list, is_object = (isinstance(value, kind) for kind in (str, list, dict))
    if is_text:
        return value[:longest]
    if not (is_list or is_object):
        return value
    if depth == 0:
        return None
    if is_list:
        items = value[:_MOST_ITEMS]
        return [_shorten(each, depth - 1, longest // len(items)) for each in items]
    some = islice(value.items(), _MOST_ITEMS)
    return {name: _shorten(each, depth - 1, longest) for name, each in some}


def _end_call(*_: object) -> None:
    raise _OutOfTime


def _say(why: str) -> None:
    line = " ".join(f"taskmem hook: {why}".split())
    os.write(2, line.encode(errors="replace") + b"\n")
