"""Find the names in texts that look like paths, and list what each may mean."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Final

from taskmem_hookspecs import Value

_TOKEN: Final = re.compile(r"[^\s\"'`«»“”„‘’<>|*?()\[\]{},;!=，。；、！？：（）「」『』【】…]+")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_FILE_HOST: Final = re.compile(r"(?i)file://(?!localhost/|127\.0\.0\.1/)[^/]+/")
_HOST: Final = re.compile(r"[\w.@-]+:[/~]")
_LINE_NUMBER: Final = re.compile(r"(?::\d+)+$")
_FILE_SUFFIX: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,5}(?![A-Za-z0-9])")
_SUFFIXES: Final = """
avi bash bat bmp bz2 c cc cfg conf cpp cs css csv dart db diff doc docx env epub gif go
gz h hpp htm html ico ini ipynb java jpeg jpg js json jsonl jsx kt lock log lua md mdx
mkv mov mp3 mp4 odt parquet patch pdf php pkl png ppt pptx proto ps1 py rb rs rst rtf
scala scss sh sql sqlite srt svelte svg swift tar tex tf tgz toml ts tsv tsx txt vue wav
webm webp xls xlsx xml yaml yml zip zsh
"""
_KNOWN_SUFFIXES: Final = frozenset(_SUFFIXES.split())
"""Suffixes of files. A word without a slash must have one of these to count as a file."""
_PRODUCTS: Final = frozenset(
    f"{name}.js"
    for name in ("chart", "d3", "express", "next", "node", "nuxt", "react", "three", "vue")
)


_HASH: Final = re.compile(r"(?=.*[0-9])(?=.*[a-f])(?:[0-9a-f]{7,12}|[0-9a-f]{40})")
"""A commit as agents cite it. Longer and shorter ones, numbers and words are too often others."""
_HASH_HEADS: Final = frozenset(("commit", "commits", "committed", "commit:", "commits:"))
_HASH_LINKS: Final = frozenset("and as at hash id in is sha the to with".split())  # noqa: SIM905
"""Words that may stand between these and a hash, or between two hashes."""


class Names(Value):
    """Names found in a text."""

    here: tuple[str, ...]
    """Names that may be paths of this machine."""
    elsewhere: tuple[str, ...]
    """Names with a host or a scheme, except http(s) addresses."""


def find_names(*texts: str) -> Names:
    """Find the names in texts, each once, in order."""
    here: dict[str, None] = {}
    elsewhere: dict[str, None] = {}
    for token in split_words(*texts):
        if is_elsewhere(token):
            if not token.lower().startswith(("http://", "https://")):
                elsewhere[token] = None
        elif name := _cut_to_path(_LINE_NUMBER.sub("", token.removeprefix("file://"))):
            here[name] = None
    return Names(here=(*here,), elsewhere=(*elsewhere,))


def find_hashes(text: str) -> tuple[str, ...]:
    """Find the hashes that a text cites as commits, each once, in order.

    One is cited after a word such as "commit", or with `@` or `..`; others may be images or dates.
    """
    hashes, cited, is_headed = dict[str, None](), set[str](), False
    for word in split_words(text):
        parts = re.split(r"@|\.{2,3}", word)
        here = [part for part in parts if _HASH.fullmatch(part)]
        hashes |= dict.fromkeys(here)
        cited |= {*here} if is_headed or len(parts) > 1 else set()
        low = word.casefold()
        is_headed = low in _HASH_HEADS or (is_headed and (bool(here) or low in _HASH_LINKS))
    return tuple(each for each in hashes if each in cited)


def is_elsewhere(name: str) -> bool:
    """True if a name has a host or a scheme, except `file:` on this machine."""
    if name[:5].lower() == "file:" and not _FILE_HOST.match(name):
        return False
    return bool(_SCHEME.match(name) or _HOST.match(name))


def list_readings(name: str) -> tuple[str, ...]:
    """Return the possible readings of a name.

    Some scripts put no space between a word and a name, so the last ASCII part counts, too.
    """
    ascii_part = re.split(r"[^\x00-\x7f]", name)[-1]
    return tuple(dict.fromkeys(each for each in (name, ascii_part) if each))


def list_tails(path: str, places: Iterable[str]) -> Iterator[str]:
    """Yield what may name a file: its path, its ends, and those of its folders in the work's.

    A name with spaces is given in a sentence by its last word.
    """
    parts = path.split("/")
    for end in range(len(parts), 1, -1):
        here = "/".join(parts[:end])
        if end < len(parts) and any(f"{each}/".startswith(f"{here}/") for each in places):
            return
        for begin in range(end):
            first, *rest = parts[begin:end]
            yield "/".join((first, *rest))
            yield "/".join((first.rpartition(" ")[2], *rest))


def split_words(*texts: str) -> list[str]:
    """Split texts into words, without punctuation around them."""
    return [found[0].rstrip(".:") for text in texts for found in _TOKEN.finditer(text)]


def _cut_to_path(token: str) -> str | None:
    """Cut a token to the part that looks like a path; None: none does."""
    first, slash, _ = token.partition("/")
    if ":" in token or token.casefold() in _PRODUCTS or ("." in first.strip(".") and slash):
        return None
    folder, _, name = token.rpartition("/")
    stem, _, rest = name.rpartition(".")
    suffix = _FILE_SUFFIX.match(rest)
    if stem.strip(".") and suffix and (folder or suffix[0].lower() in _KNOWN_SUFFIXES):
        return token[: len(token) - len(rest) + suffix.end()]
    anchored = token.startswith(("/", "./", "../", "~/"))
    return token if anchored and name and name.strip(".") else None


def list_path_ends(name: str) -> tuple[str, str]:
    """Return the ends of paths that a relative name may mean.

    Only the last word of a name with spaces is taken from a sentence.
    """
    end = name.removeprefix("./")
    return f"/{end}", f" {end}"
