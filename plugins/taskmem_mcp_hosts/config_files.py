"""Read a host's configuration and put our MCP server into it or out of it. Pure."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from typing import Any, cast

Document = dict[str, Any]
Keys = tuple[str, str]
"""Place of the server's entry: the key of all servers, and its own name."""


class Unreadable(ValueError):
    """The text cannot be parsed; `str()` says where."""


def to_object(value: object) -> Mapping[str, Any]:
    """Return an object as it is; anything else as an empty object."""
    return cast("Document", value) if isinstance(value, dict) else {}


class ClaudeJson:
    """The format of Claude Code's JSON files, which it rewrites in its own style."""

    def read(self, text: str) -> Document:
        """Parse a text; an empty one is an empty document.

        Raises:
            Unreadable: The text is broken.
        """
        return parse_json(text)

    def put(self, text: str, path: Keys, entry: Document | None) -> str:
        """Return the text with the entry; order, indent and line ends stay.

        None: without the entry, and without objects that become empty.

        Raises:
            Unreadable: The text is broken, or the entry cannot be changed alone.
        """
        return render_json(text, _set_entry(parse_json(text), path, entry))


def parse_json(text: str) -> Document:
    """Parse a JSON object; an empty text is an empty one.

    Raises:
        Unreadable: The text is broken.
    """
    _require_utf8(text)
    try:
        found: object = (
            json.loads(text, object_pairs_hook=_require_unique_keys) if text.strip() else {}
        )
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from error
    if not isinstance(found, dict):
        raise Unreadable("it is no JSON object")
    return cast("Document", found)


def render_json(text: str, document: Document) -> str:
    """Return a document in the style of the text that it replaces: indent, letters, line ends.

    Raises:
        Unreadable: It cannot be written as JSON.
    """
    start, end = text.strip(), text[len(text.rstrip()) :] if text else "\n"
    lines = ["", "  "] if start in ("", "{}") else start.split("\n")
    margins = (each[: len(each) - len(each.lstrip())] for each in lines[1:])
    try:
        after = json.dumps(
            document,
            ensure_ascii=text.isascii() and bool(text),
            allow_nan=False,
            indent=next(filter(None, margins), "") if len(lines) > 1 else None,
        )
    except (ValueError, RecursionError) as error:
        raise Unreadable(str(error)) from error
    # Half a surrogate pair, which no file can hold, is written as the escape that it was.
    after = after.encode(errors="backslashreplace").decode()
    return after.replace("\n", _find_line_end(text)) + end


class Toml:
    """The format of TOML files, which a person writes, with comments; likewise."""

    def read(self, text: str) -> Document:
        """Parse a text."""
        _require_utf8(text)
        try:
            return tomllib.loads(text)
        except (ValueError, RecursionError) as error:
            raise Unreadable(str(error)) from error

    def put(self, text: str, path: Keys, entry: Document | None) -> str:
        """Return the text with the entry; every other line stays where it is."""
        wanted = _set_entry(self.read(text), path, entry)
        after = _set_table(text, path, entry)
        try:
            found = self.read(after)
        except Unreadable:
            found = None
        if found is None or {path[0]: {}, **found} != {path[0]: {}, **wanted}:
            how = "is written in a way that cannot be changed safely"
            raise Unreadable(f"{path[0]} {how}")
        return after


Format = ClaudeJson | Toml


def _find_line_end(text: str) -> str:
    return "\r\n" if "\r\n" in text else "\n"


def _require_utf8(text: str) -> None:
    """Refuse a text that was read from invalid UTF-8."""
    if not text.isascii() and text.encode(errors="replace").decode() != text:
        raise Unreadable("it is not UTF-8")


def _require_unique_keys(pairs: list[tuple[str, object]]) -> dict[str, object]:
    """Make an object of key-value pairs, for `json`; refuse duplicate keys."""
    found = dict(pairs)
    if len(found) != len(pairs):
        raise ValueError("it has a key twice")
    return found


def _set_entry(document: Document, path: Keys, entry: Document | None) -> Document:
    """Return the document with the entry, in its old position; None: without the entry."""
    outer, name = path
    if not isinstance(document.get(outer), dict | None):
        raise Unreadable(f"{outer} is no object")
    after = {**to_object(document.get(outer)), name: entry}
    if entry is None:
        del after[name]
    if after:
        return {**document, outer: after}
    return {key: value for key, value in document.items() if key != outer}


def _set_table(text: str, path: Keys, entry: Document | None) -> str:
    """Replace or append the entry's table in a TOML text; None: remove it.

    A new table goes to the end, after an empty line, so that no comment is parted from what it
    describes. The empty line is removed with the table.
    """
    import tomlkit
    from tomlkit.exceptions import TOMLKitError
    from tomlkit.items import InlineTable, Table, Whitespace

    outer, name = path
    table, line_end = "", _find_line_end(text)
    if entry is not None:
        parent = tomlkit.table(is_super_table=True)
        parent.append(name, entry)
        table = tomlkit.document().append(outer, parent).as_string().replace("\n", line_end)
    try:
        document: Any = tomlkit.parse(text)
        found = [
            (tables.value.body, place)
            for key, tables in document.body
            if key is not None and key.key == outer and isinstance(tables, Table)
            for place, (inner, each) in enumerate(tables.value.body)
            if inner is not None and inner.key == name and isinstance(each, Table)
        ]
        for body, place in found:
            body[place] = (None, Whitespace(table + _format_loose_end(body[place][1])))
            table = ""
        inline = isinstance(document.get(outer), InlineTable)
        if not found and (inline or name in document.get(outer, ())):
            document[outer].pop(name, None)
            if entry is not None:
                document[outer][name] = tomlkit.inline_table()
                document[outer][name].update(entry)
            elif inline and not document[outer]:
                document.pop(outer)
            table = ""
        left = cast("str", document.as_string())
    except (TOMLKitError, TypeError, ValueError) as error:
        raise Unreadable(str(error)) from error
    if entry is None and not text.endswith(line_end * 2):
        return f"{left.rstrip()}{line_end}" if left.endswith(line_end * 2) else left
    return _append(left, table, line_end)


def _append(text: str, table: str, line_end: str) -> str:
    """Return the text with the table, if there is one, after an empty line."""
    if not table or not text:
        return text + table
    if not text.endswith(line_end):
        text += line_end
    return text + ("" if text.endswith(line_end * 2) else line_end) + table


def _format_loose_end(table: Any) -> str:  # noqa: ANN401 - tomlkit's own
    """Return the comments and space at the end of a table, which belong to what follows."""
    from tomlkit.items import Table

    end = ""
    for key, each in reversed(table.value.body):
        if key is not None:
            return _format_loose_end(each) + end if isinstance(each, Table) else end
        end = each.as_string() + end
    return end
