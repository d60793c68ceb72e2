"""What a task says is to be made, and what of it is said to be made already.

Asked for is only what names a thing: an artifact in the task's metadata, a file that a
step of the plan is to write, or one that a message says was written. Whatever is not
understood asks for nothing. Source: requirement F2; ruling "write intent".
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Final
from urllib.parse import unquote

from pydantic import JsonValue

from openclaw_taskmem.domain.metadata import ARTIFACTS
from openclaw_taskmem.domain.sentences import URL, to_write, written
from openclaw_taskmem.domain.texts import plain, quoted
from taskmem_hookspecs import Claim, Task, Value

MOST: Final = 200
"""Things that are looked at for one task; who names more is refused."""

_SUM: Final = re.compile(r"[0-9a-f]{64}")
_HOME: Final = re.compile(r"(?:/var)?/home/[^/]+/|/Users/[^/]+/|/root/")
"""What `~/` may mean; whose it is, nobody here knows."""


class Wanted(Value):
    """A thing that is to be there."""

    kind: str
    subject: str
    checksum: str | None = None
    """In lower case and without `sha256:`; else as it was given, see `fault`."""
    earlier: bool = False
    """Whether only an earlier message names it: then it is enough if it cannot be seen
    to be missing."""


def wanted(
    task: Task,
    said: str = "",
    given: Sequence[str] = (),
    *,
    before: Sequence[str] = (),
    roots: Sequence[str] = (),
) -> tuple[Wanted, ...]:
    """Return what a task is to have made, each once: what it names itself comes first.

    `said` is a message that may say that something was written; `given` are named
    by the caller, and stand for what the task names by the end of their path, as do
    whole paths in `said` for what the plan names. Of what
    messages `before` that one say, only whole paths within the `roots` count, for
    nobody knows where the agent stood; the newest, as far as there is room.
    """
    own = [named(each) for each in given]
    listed = [_placed(each, own) for each in in_metadata(task.metadata)]
    planned = [Wanted(kind="file", subject=path) for path in to_write(*task.plan)]
    told = [Wanted(kind="file", subject=path) for path in written(said)]
    earlier = [
        Wanted(kind="file", subject=path, earlier=True)
        for path in written(*before, said)
        if any(path.startswith(f"{root.rstrip('/')}/") for root in roots)
    ]
    whole = [each for each in told if each.subject.startswith("/")]
    known = (*own, *listed, *whole)
    planned = [x for x in planned if not any(_stands_for(one, x) for one in known)]
    known = (*own, *listed)
    told = [x for x in told if not any(_stands_for(one, x) for one in known)]
    every = tuple(dict.fromkeys((*listed, *planned, *own, *told)))
    named_so = {(each.kind, each.subject) for each in every}
    more = [
        each
        for each in dict.fromkeys(earlier)
        if (each.kind, each.subject) not in named_so
    ]
    room = max(0, MOST - len(every))
    return (*every, *more[max(0, len(more) - room) :])


def fault(things: Sequence[Wanted]) -> str | None:
    """Return why things cannot be looked at, and what to do; None: they can be."""
    if len(things) > MOST:
        return (
            f"At most {MOST} things are looked at for one task, and {len(things)} are "
            "named; name fewer, such as one archive of them, in the plan "
            "(task_plan_update), metadata and artifacts."
        )
    for thing in things:
        if thing.checksum is not None and not _SUM.fullmatch(thing.checksum):
            return (
                f"The checksum of {quoted(plain(thing.subject), 160)} in metadata."
                f"{ARTIFACTS}, {quoted(plain(thing.checksum), 80)}, is no SHA-256; "
                "give its 64 hexadecimal digits, or leave it out."
            )
    return None


def named(text: str) -> Wanted:
    """Return what a bare text names: a URL, a recorded command, or else a file.

    A file may be named by a path or by a URL of this machine, `file:///work/a.md`.
    """
    text = text.strip()
    if URL.match(text):
        return Wanted(kind="url", subject=text)
    kind, _, rest = text.partition(":")
    if kind in ("command", "pty") and rest:
        return Wanted(kind="command", subject=rest)
    return Wanted(kind="file", subject=_path(text))


def in_metadata(metadata: Mapping[str, JsonValue]) -> tuple[Wanted, ...]:
    """Return what the key `artifacts` names: texts, or objects with a subject."""
    listed = metadata.get(ARTIFACTS)
    items = listed if isinstance(listed, list) else [listed]
    return tuple(each for item in items if (each := _item(item)) is not None)


def claims(
    things: Iterable[Wanted],
    task: Task,
    *,
    folder: str | None,
    roots: Sequence[str],
    now: datetime,
) -> tuple[Claim, ...]:
    """Return what is to be checked of things that are to be there."""
    return tuple(
        Claim(
            kind=thing.kind,
            subject=thing.subject,
            task_id=task.task_id,
            since=task.created_at,
            claimed_at=now,
            folder=folder,
            roots=tuple(roots),
            checksum=thing.checksum,
        )
        for thing in things
    )


def _item(item: JsonValue) -> Wanted | None:
    if isinstance(item, str) and item.strip():
        return named(item)
    if not isinstance(item, dict):
        return None
    subject, kind = item.get("subject") or item.get("path"), item.get("kind", "file")
    checksum = item.get("checksum", item.get("sha256"))
    if not isinstance(subject, str) or not isinstance(kind, str) or not subject.strip():
        return None
    if kind == "file":
        subject = _path(subject)
    proof = "" if checksum is None else str(checksum).strip().lower()
    return Wanted(
        kind=kind, subject=subject, checksum=proof.removeprefix("sha256:") or None
    )


def _path(text: str) -> str:
    if not text.startswith("file:///"):
        return text
    return unquote(text.removeprefix("file://"))


def _placed(thing: Wanted, given: Sequence[Wanted]) -> Wanted:
    """Return a thing of the task's at the place that its caller names for it."""
    for one in given:
        if _stands_for(one, thing):
            return thing.model_copy(update={"subject": one.subject})
    return thing


def _stands_for(given: Wanted, planned: Wanted) -> bool:
    """Whether what the caller names is what the task names, in full."""
    if given.kind != planned.kind:
        return False
    if planned.subject.startswith("~/"):
        home = _HOME.match(given.subject)
        return home is not None and given.subject[home.end() :] == planned.subject[2:]
    tail = planned.subject.removeprefix("./")
    # Of a name with spaces, a sentence gives only the last word.
    ends = (f"/{tail}", f" {tail}")
    return given.subject == planned.subject or given.subject.endswith(ends)
