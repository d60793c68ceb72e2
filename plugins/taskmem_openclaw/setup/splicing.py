"""One entry in or out of a JSON or TOML text, and every other byte as it was. Pure."""

from __future__ import annotations

import json
import re
import tomllib
from typing import Any, Final, NamedTuple

from taskmem_openclaw.setup.patches import is_object, same

_SPACE: Final = re.compile(r"[ \t\r\n]*")


class Unreadable(ValueError):
    """The text is not what it should be; `str()` says where."""


class _Member(NamedTuple):
    """A key and its value, by where they stand in the text."""

    key: str
    start: int
    value: int
    end: int


class _Object(NamedTuple):
    start: int
    """The opening brace."""
    members: list[_Member]
    end: int
    """The closing brace."""


def json_with(text: str, path: tuple[str, ...], value: object) -> str:
    """Return a JSON text with a value at a path; `None` takes it out.

    What becomes empty thereby stays.

    Raises:
        Unreadable: It is no JSON object, or something on the way is none.
    """
    wanted = _wanted(json_of(text), path, value)
    after = _with(text if text.strip() else "{}\n", path, value)
    if not same(json_of(after), wanted):
        raise Unreadable("it has a key twice")
    return after


def json_of(text: str) -> dict[str, Any]:
    """Return what a JSON text says; an empty one says nothing.

    Raises:
        Unreadable: It is no JSON object.
    """
    try:
        found: object = json.loads(text) if text.strip() else {}
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from error
    if not is_object(found):
        raise Unreadable("it is no JSON object")
    return found


def toml_of(text: str) -> dict[str, Any]:
    """Return what a TOML text says.

    Raises:
        Unreadable: It is no TOML.
    """
    try:
        return tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise Unreadable(str(error)) from error


def toml_with(text: str, path: tuple[str, str], value: dict[str, Any] | None) -> str:
    """Return a TOML text with a table at a path; `None` takes it out.

    Raises:
        Unreadable: It is no TOML, or the table cannot be changed alone.
    """
    may_say = _wanted_tables(toml_of(text), path, value)
    start, rest = _without_table(text, path)
    if value is not None:
        rest = _inserted_table(rest, start, path, value)
    if not _says(rest, may_say):
        rest = _by_tomlkit(text, path, value)
    if not _says(rest, may_say):
        raise Unreadable(f"{path[0]} is written in a way that cannot be changed safely")
    return rest


def _without_table(text: str, path: tuple[str, str]) -> tuple[int, str]:
    """Cut a table and those below it out; the comments after it stay."""
    outer, inner = (rf"[\"']?{re.escape(each)}[\"']?" for each in path)
    ours = re.compile(rf"\s*\[\s*{outer}\s*\.\s*{inner}\s*[.\]]")
    kept: list[str] = []
    cut: list[str] = []
    start, inside = len(text), False
    for line in text.splitlines(keepends=True):
        if line.lstrip().startswith("["):
            was_inside, inside = inside, ours.match(line) is not None
            if inside and not was_inside:
                start = min(start, len("".join(kept)))
            if was_inside and not inside:
                kept += _loose_end(cut)
                cut = []
        (cut if inside else kept).append(line)
    rest = "".join((*kept, *_loose_end(cut)))
    return min(start, len(rest)), rest


def _says(text: str, what: list[dict[str, Any]]) -> bool:
    try:
        return toml_of(text) in what
    except Unreadable:
        return False


def _loose_end(lines: list[str]) -> list[str]:
    """Return the comments and the space at the end of a table: they are not its own."""
    place = len(lines)
    while place and (not lines[place - 1].strip() or lines[place - 1].startswith("#")):
        place -= 1
    return lines[place:]


def _inserted_table(
    text: str, start: int, path: tuple[str, str], value: dict[str, Any]
) -> str:
    import tomlkit

    table = tomlkit.dumps({path[0]: {path[1]: value}})
    own = table.removeprefix(f"[{path[0]}]\n").lstrip("\n")
    before, after = text[:start], text[start:]
    gap = "" if not before or before.endswith("\n\n") else "\n"
    if before and not before.endswith("\n"):
        gap = "\n\n"
    return before + gap + own + after


def _by_tomlkit(text: str, path: tuple[str, str], value: dict[str, Any] | None) -> str:
    """Change a table that has no header of its own."""
    import tomlkit
    from tomlkit.exceptions import TOMLKitError

    try:
        document = tomlkit.parse(text)
        tables: Any = document[path[0]]
        if value is None:
            del tables[path[1]]
        else:
            tables[path[1]] = value
        return tomlkit.dumps(document)
    except (TOMLKitError, KeyError, TypeError) as error:
        raise Unreadable(str(error)) from error


def _wanted_tables(
    before: dict[str, Any], path: tuple[str, str], value: object
) -> list[dict[str, Any]]:
    """Return what a TOML text may say afterwards: an empty table may go or stay."""
    wanted = _wanted(before, path, value)
    outer = path[0]
    if wanted.get(outer):
        return [wanted]
    return [wanted, {key: each for key, each in wanted.items() if key != outer}]


def _wanted(
    before: dict[str, Any], path: tuple[str, ...], value: object
) -> dict[str, Any]:
    head, *rest = path
    if rest:
        found: object = before.get(head)
        below: object = {} if found is None else found
        if not is_object(below):
            raise Unreadable(f"{head} is no object")
        if value is None and not below:
            return before
        return {**before, head: _wanted(below, tuple(rest), value)}
    if value is None:
        return {key: each for key, each in before.items() if key != head}
    return {**before, head: value}


def _with(text: str, path: tuple[str, ...], value: object, at: int = 0) -> str:
    """Splice a value in or out, below the object that begins at a place."""
    here = _object(text, at)
    head, *rest = path
    member = next((each for each in here.members if each.key == head), None)
    if member is None:
        if value is None:
            return text
        for key in reversed(rest):
            value = {key: value}
        return _inserted(text, here, head, value)
    if rest and text.startswith("null", member.value):
        if value is None:
            return text
        for key in reversed(rest):
            value = {key: value}
    elif rest:
        return _with(text, tuple(rest), value, member.value)
    if value is None:
        return _cut(text, here, member)
    depth = _margin(text, member.start)
    return text[: member.value] + _dumped(text, value, depth) + text[member.end :]


def _object(text: str, at: int) -> _Object:
    """Find an object's members, in a text that is known to be JSON."""
    members: list[_Member] = []
    decoder = json.JSONDecoder()
    start = place = _past(text, at)
    place = _past(text, place + 1)
    while text[place] != "}":
        key, colon = decoder.raw_decode(text, place)
        value = _past(text, _past(text, colon) + 1)
        _, end = decoder.raw_decode(text, value)
        members.append(_Member(key, place, value, end))
        place = _past(text, end)
        if text[place] == ",":
            place = _past(text, place + 1)
    return _Object(start, members, place)


def _inserted(text: str, here: _Object, key: str, value: object) -> str:
    if here.members:
        last = here.members[-1]
        margin = _margin(text, last.start)
        entry = f"{json.dumps(key)}: {_dumped(text, value, margin)}"
        gap = f",\n{margin}" if margin is not None else ", "
        return text[: last.end] + gap + entry + text[last.end :]
    outer = _margin(text, here.start, line=True)
    margin = (outer or "") + _unit(text)
    entry = f"{json.dumps(key)}: {_dumped(text, value, margin)}"
    inside = f"\n{margin}{entry}\n{outer or ''}"
    return text[: here.start + 1] + inside + text[here.end :]


def _cut(text: str, here: _Object, member: _Member) -> str:
    place = here.members.index(member)
    if len(here.members) == 1:
        return text[: here.start + 1] + text[here.end :]
    if place:
        return text[: here.members[place - 1].end] + text[member.end :]
    return text[: member.start] + text[here.members[1].start :]


def _dumped(text: str, value: object, margin: str | None) -> str:
    if margin is None:
        return json.dumps(value, ensure_ascii=False)
    lines = json.dumps(value, ensure_ascii=False, indent=_unit(text)).splitlines()
    return f"\n{margin}".join(lines)


def _margin(text: str, place: int, *, line: bool = False) -> str | None:
    """Return what stands before a place on its line; None: it is not only space."""
    before = text[text.rfind("\n", 0, place) + 1 : place]
    if line:
        return before[: len(before) - len(before.lstrip(" \t"))]
    return before if "\n" in text[:place] and not before.strip(" \t") else None


def _unit(text: str) -> str:
    """Return the indent that a text uses."""
    found = re.search(r"^\s*\{[ \t]*\r?\n([ \t]+)", text)
    return found[1] if found else "  "


def _past(text: str, place: int) -> int:
    found = _SPACE.match(text, place)
    return found.end() if found else place
