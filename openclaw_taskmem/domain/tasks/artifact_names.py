"""Read what a text names as an artifact: a file, a URL, a commit, a command, or a thing elsewhere.

Agents quote names, add line numbers, write links and lists. How a text is meant is decided by what
is there: it is taken as it stands if such a file exists, else without what is around the name. Only
what no file is called is read by its form.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from typing import Final
from urllib.parse import unquote

from openclaw_taskmem.domain.tasks.path_mentions import find_names, is_elsewhere
from taskmem_hookspecs import Value

FILE_KIND: Final = "file"
COMMAND_KIND: Final = "command"
"""Kind of a recorded command."""
COMMIT_KIND: Final = "commit"
"""Kind of a commit, a branch or a tag of the task's repository."""
ELSEWHERE_KIND: Final = "elsewhere"
"""Kind of an artifact on another machine or service; no verifier checks it."""
_MOST_CHARS: Final = 1_000
"""A longer text is taken as it stands."""
_LINE_CHARS: Final = 80
"""Characters at the end of a name in which a line number is looked for."""
_MOST_SPELLINGS: Final = 60
_MOST_PARTS: Final = 50
_MOST_LAYERS: Final = 10


class RequiredArtifact(Value):
    """An artifact that must exist."""

    kind: str
    subject: str
    checksum: str | None = None
    """In lower case without `sha256:` if valid, else as given; see `find_artifact_fault`."""


def parse_artifact(text: str) -> RequiredArtifact:
    """Parse what names no file for certain: a URL, a command, or a thing with a host or a scheme.

    All else may be a file; see `read_artifact`.
    """
    for name in (strip_wrapping(text), *_cut_label(strip_wrapping(text))):
        command = _COMMAND.fullmatch(name)
        if command is not None:
            return RequiredArtifact(kind=COMMAND_KIND, subject=command["name"])
        if _URL.fullmatch(name):
            return RequiredArtifact(kind="url", subject=name)
        if is_elsewhere(name) and not _WEB.match(name) and len(_split_list(name)) == 1:
            return RequiredArtifact(kind=ELSEWHERE_KIND, subject=name)
    url = _FILE_URL.fullmatch(text.strip())
    return _name_file(unquote(url["path"]) if url else text.strip())


def read_artifact(text: str, is_there: Callable[[str], bool]) -> tuple[RequiredArtifact, ...]:
    """Read which artifacts a text names; `is_there` tells whether a path exists.

    Several only if a list of them makes one known. What is unknown counts as a file.
    """
    if len(text) > _MOST_CHARS:
        return (parse_artifact(text),)
    known = _read_known(text, is_there)
    if known is not None:
        return (known,)
    plain = strip_wrapping(text)
    for parts in (_split_list(plain), _find_named(plain)):
        artifacts = [_read_known(part, is_there) for part in parts[:_MOST_PARTS]]
        if any(artifacts) and len(parts) <= _MOST_PARTS:
            pairs = zip(artifacts, parts, strict=True)
            return tuple(each or _name_file(strip_wrapping(part)) for each, part in pairs)
    return (_name_file(_cut_line(plain) or plain),)


def _read_known(text: str, is_there: Callable[[str], bool]) -> RequiredArtifact | None:
    """Read a text that names one thing; None: no such file is there, and it has no other form."""
    spellings = list_spellings(text)
    for name in spellings:
        if is_there(name):
            return _name_file(name)
    for name in (strip_wrapping(text), *spellings):
        thing = _read_form(name)
        if thing is not None:
            return thing
    return None


def _name_file(path: str) -> RequiredArtifact:
    return RequiredArtifact(kind=FILE_KIND, subject=path)


# --- what stands around a name ------------------------------------------------------------


_PAIRS: Final = (
    *("``````", "````", "``", '""', "''", "“”", "„“", "„”", "‘’", "«»", "‹›", "「」", "()", "[]"),
    *("<>", "{}", "****", "**", "____", "__", "~~~~"),
)
"""Signs before and after a name: half of each stands before it."""
_STRAY: Final = "\"'`“”„‘’«»"
_BULLET: Final = re.compile(r"(?:[-*+•]|[0-9]{1,3}[.)]|\[[ xX✓]\])\s+")
_LINK: Final = re.compile(r"!?\[[^\]]*\]\(\s*(?P<target>\S.*?)(?:\s+[\"'(][^\"')]*[\"')])?\s*\)")
_STOP: Final = re.compile(r"(?<=[^\s.,;:!?…/])[\s.,;:!?…。、，；：]*[.,;:!?…。、，；：]$")
_TAG: Final = re.compile(r"<(?P<tag>\w+)[^<>]*>(?P<name>[^<>]+)</(?P=tag)>")
_LABEL: Final = re.compile(
    r"[A-Za-z][\w -]{0,24}:\s+"
    r"|(?i:(?:docker |git |github |npm |pypi )?(?:container|directory|file|folder|image|link"
    r"|package|page|path|pr|release|script|url|version)\s+)"
)
_LINE: Final = re.compile(
    r"(?::L?[0-9]+(?:[-–:,]L?[0-9]+)*"
    r"|#L[0-9]+(?:C[0-9]+)?(?:-L?[0-9]+(?:C[0-9]+)?)?"
    r"|\s*\((?:lines? )?[0-9]+(?:[-–,:] ?[0-9]+)*\)"
    r"|,? (?:at )?lines? [0-9]+(?: ?[-–] ?[0-9]+)?)$"
)
_ANCHOR: Final = re.compile(r"(?P<name>\S.*\.\w{1,6})(?:[#?]|::?(?=[A-Za-z_]))[^/\s]*")
"""A part of a page, or a test or function in a file."""
_NEW_NAME: Final = re.compile(r".* (?:->|=>|→) (?P<name>\S.*)")
_REMARK: Final = re.compile(r" +(?:\([^()]*\)$|(?:[-–—]+|->|→) )")
_FILE_URL: Final = re.compile(r"(?i)file:(?://(?:(?:localhost|127\.0\.0\.1)(?=/))?)?(?P<path>.+)")
_HOME: Final = re.compile(r"(?:\$HOME|\$\{HOME\}|%USERPROFILE%)[/\\]")
_WORK_FOLDER: Final = re.compile(r"(?:\$PWD|\$\{PWD\})/")
_DRIVE: Final = re.compile(r"(?P<drive>[A-Za-z]):[\\/](?P<path>.*)")


def list_spellings(text: str) -> tuple[str, ...]:
    """List the names that a text may stand for, as it is first."""
    names = dict.fromkeys((text, text.strip()))
    waiting = [*names] if len(text) <= _MOST_CHARS else []
    while waiting and len(names) < _MOST_SPELLINGS:
        for name in _list_other_readings(waiting.pop(0)):
            if name and name not in names:
                names[name] = None
                waiting.append(name)
    return tuple(names)


def list_all_spellings(text: str) -> Iterator[str]:
    """Yield the names that a text, or an entry of a list in it, may stand for."""
    plain = strip_wrapping(text) if len(text) <= _MOST_CHARS else ""
    for part in (text, *_split_list(plain)[:_MOST_PARTS], *_find_named(plain)[:_MOST_PARTS]):
        yield from list_spellings(part)


def strip_wrapping(text: str) -> str:
    """Return a text without quotes, brackets, marks of a list and stops around it."""
    name = text.strip()
    for _ in range(_MOST_LAYERS):
        name = next(_unwrap(name), name)
    return name


def _unwrap(name: str) -> Iterator[str]:
    """Yield a name without one layer of what is around it."""
    if link := _LINK.fullmatch(name):
        yield link["target"]
    if tag := _TAG.fullmatch(name):
        yield tag["name"]
    for pair in _PAIRS:
        before, after = pair[: len(pair) // 2], pair[len(pair) // 2 :]
        inner = name.removeprefix(before).removesuffix(after).strip()
        if inner and len(name) > len(pair) and name.startswith(before) and name.endswith(after):
            yield inner
    cuts = (_BULLET.sub("", name, count=1), _STOP.sub("", name), name.strip(_STRAY).strip())
    yield from (each for each in cuts if each and each != name)


def _cut_line(name: str) -> str:
    """Return a name without a line number at its end."""
    return name[:-_LINE_CHARS] + _LINE.sub("", name[-_LINE_CHARS:])


def _cut_label(name: str) -> Iterator[str]:
    if label := _LABEL.match(name):
        yield name[label.end() :]


def _list_other_readings(name: str) -> Iterator[str]:
    """Yield what a name may stand for, each with one thing about it read otherwise."""
    yield from _unwrap(name)
    yield from _cut_label(name)
    yield _cut_line(name)
    for part in (_NEW_NAME.fullmatch(name), _ANCHOR.fullmatch(name)):
        if part:
            yield part["name"]
    if "\n" not in name and (remark := _REMARK.search(name)):
        yield name[: remark.start()]
    if url := _FILE_URL.fullmatch(name):
        yield unquote(url["path"])
    yield _HOME.sub("~/", name)
    yield _WORK_FOLDER.sub("./", name)
    if drive := _DRIVE.fullmatch(name):  # as the Windows Subsystem for Linux mounts it
        yield f"/mnt/{drive['drive'].lower()}/{drive['path']}"
    if "\\" in name:
        yield re.sub(r"\\(\W)", r"\1", name)
        yield name.replace("\\", "/")
    if name.startswith(("a/", "b/")):  # of git's diff
        yield name[2:]
    if name.startswith("@"):
        yield name[1:].lstrip("/")
    yield unicodedata.normalize("NFC", name)
    yield unicodedata.normalize("NFD", name)


# --- several names -------------------------------------------------------------------------


_BRACES: Final = re.compile(r"(?P<before>[^\s{}]*)\{(?P<parts>[^{}]+,[^{}]+)\}(?P<after>[^\s{}]*)")
_SEPARATOR: Final = re.compile(r"[,;]?\s+(?:and|und|&|\+)\s+|[,;]\s*|\s*\n\s*")
_WEB: Final = re.compile(r"(?i)https?://[^\s<>\"'`)\]]+")


def _split_list(text: str) -> Sequence[str]:
    """Split a list in one text: `a.txt, b.txt and c.txt`, lines, `src/{a,b}.ts`."""
    if braces := _BRACES.fullmatch(text):
        return [f"{braces['before']}{part}{braces['after']}" for part in braces["parts"].split(",")]
    return [part for part in _SEPARATOR.split(text) if part.strip()]


def _find_named(text: str) -> Sequence[str]:
    """Find the files and URLs that a sentence names."""
    return [*find_names(_WEB.sub(" ", text)).here, *map(strip_wrapping, _WEB.findall(text))]


# --- forms of what is no file --------------------------------------------------------------


_COMMAND: Final = re.compile(r"(?:command|pty):(?P<name>.+)", re.DOTALL)
_URL: Final = re.compile(r"(?i)https?://\S*")
_LOCAL_HOST: Final = re.compile(
    r"(?:localhost|127\.0\.0\.1|0\.0\.0\.0|\[::1\]):[0-9]{2,5}(?:/[^\s:]*)?"
)
_PUBLIC_HOST: Final = re.compile(
    r"(?:www\.[\w-]+(?:\.[\w-]+)+|(?:[\w-]+\.)+(?:com|org|net|io|dev|app|ai|co|edu))(?:/\S*)?"
)
_REGISTRY: Final = re.compile(
    r"(?:docker|ghcr|gcr|quay|[\w-]+\.azurecr)\.io/\S+|(?:registry|[\w-]+\.dkr\.ecr)\.\S+/\S+"
)
_COMMITS: Final = (
    re.compile(r"(?i)(?:(?:git )?(?:commit|committed as|sha|hash|rev|revision)|git)\s*[:=#\s]\s*"
               r"[`'\"]?(?P<name>[0-9a-f]{7,64}|HEAD\S*)(?:[\s:,(`'\"].*)?"),
    re.compile(r"(?:[\w./-]+@|[0-9a-f]{7,40}\.{2,3})?"
               r"(?P<name>(?=[a-f]*[0-9])[0-9a-f]{7,40})(?::?\s.*)?"),
    re.compile(r"\[[^\[\]]+ (?P<name>[0-9a-f]{7,40})\].*"),
    re.compile(r"(?P<name>HEAD(?:[~^@][\w{}~^-]*)?|refs/\S+|(?:origin|upstream)/\S+)"),
    re.compile(r"(?i)(?:branch|tag|ref)\s*[:=\s]\s*(?P<name>\S+)"),
    re.compile(r"(?P<name>v?[0-9]+(?:\.[0-9]+){1,3}(?:[-+][\w.]+)*)"),
)  # fmt: skip
"""Commits, also as git prints them (`a314508 Fix`, `[main a314508] Fix`), branches and tags."""
_IMAGE: Final = re.compile(
    r"(?P<name>(?:[\w.-]+(?::[0-9]+)?/)?[a-z0-9][a-z0-9._/-]*):(?P<tag>\w[\w.-]{0,127})"
)
_PACKAGE: Final = re.compile(r"(?:@[\w.-]+/)?[A-Za-z][\w.-]*(?:@[~^]?v?|==)[0-9][\w.+-]*")
_REMOTE_NAMES: Final = (
    re.compile(r"(?:\S+@)?sha(?:256|512):[0-9a-f]{64,128}"),
    re.compile(r"(?:[\w.-]+/[\w.-]+)?[#!][0-9]+"),
    re.compile(r"(?i)(?:pr|mr|pull request|merge request|issue|ticket)\s*[#!]?\s*[0-9]+"),
    re.compile(r"[A-Z][A-Z0-9]+-[0-9]+"),
    re.compile(r"[A-Za-z]:[\\/].*|\\\\[^\\]+\\.*"),
    re.compile(r"[\w.-]+@[\w.-]+:\S+"),
    re.compile(r"(?i)(?:arn|cargo|crate|docker|doi|gem|helm|image|k8s|mailto|maven|npm|nuget|oci"
               r"|pkg|pypi|urn):\S+"),
)  # fmt: skip
"""Digests, pull requests, tickets, files of Windows and of other hosts, and schemes."""


def _read_form(name: str) -> RequiredArtifact | None:
    """Read a name that no file has by its form; None: it may only be a file's."""
    parsed = parse_artifact(name)
    if parsed.kind != FILE_KIND:
        return parsed
    is_file = bool(find_names(re.split("@|==", name, maxsplit=1)[0]).here)
    forms = _REMOTE_NAMES if is_file else (_PACKAGE, _REGISTRY, *_REMOTE_NAMES)
    if any(form.fullmatch(name) for form in forms):
        return RequiredArtifact(kind=ELSEWHERE_KIND, subject=name)
    for form in _COMMITS:
        found = form.fullmatch(name)
        if found and not find_names(name).here:  # what names files as well is a list
            return RequiredArtifact(kind=COMMIT_KIND, subject=found["name"].strip(_STRAY))
    if _LOCAL_HOST.fullmatch(name):
        return RequiredArtifact(kind="url", subject=f"http://{name}")
    if _PUBLIC_HOST.fullmatch(name):
        return RequiredArtifact(kind="url", subject=f"https://{name}")
    return RequiredArtifact(kind=ELSEWHERE_KIND, subject=name) if _is_image(name) else None


def _is_image(name: str) -> bool:
    """Tell whether a name is that of an image with its tag, and not of a file with its line."""
    found = _IMAGE.fullmatch(name)
    if found is None or find_names(found["name"]).here:
        return False
    is_line = found["tag"].isdigit()
    return not is_line or bool(_REGISTRY.fullmatch(name) or ":" in found["name"])
