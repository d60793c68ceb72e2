"""Path-like names in what agents write. They are looked up, and decide nothing else."""

from __future__ import annotations

import re
from typing import Final

from taskmem_hookspecs import Value

_TOKEN: Final = re.compile(r"[^\s\"'`«»“”„‘’<>|*?()\[\]{},;!=，。；、！？：（）「」『』【】…]+")
_SCHEME: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*://")
_HOST: Final = re.compile(r"[\w.@-]+:[/~]")
_LINE: Final = re.compile(r"(?::\d+)+$")
_SUFFIX: Final = re.compile(r"[A-Za-z][A-Za-z0-9]{0,5}(?![A-Za-z0-9])")
_SUFFIXES: Final = """
avi bash bat bmp bz2 c cc cfg conf cpp cs css csv dart db diff doc docx env epub gif go
gz h hpp htm html ico ini ipynb java jpeg jpg js json jsonl jsx kt lock log lua md mdx
mkv mov mp3 mp4 odt parquet patch pdf php pkl png ppt pptx proto ps1 py rb rs rst rtf
scala scss sh sql sqlite srt svelte svg swift tar tex tf tgz toml ts tsv tsx txt vue wav
webm webp xls xlsx xml yaml yml zip zsh
"""
_KNOWN: Final = frozenset(_SUFFIXES.split())
"""Suffixes of files; a word with another, and without a slash, is no name of one."""
_PRODUCTS: Final = frozenset(
    f"{name}.js"
    for name in ("chart", "d3", "express", "next", "node", "nuxt", "react", "three", "vue")
)


class Names(Value):
    """What a text names."""

    here: tuple[str, ...]
    """What may be a path of this machine."""
    elsewhere: tuple[str, ...]
    """What has a host or a scheme; http(s) addresses are left out."""


def find_names(*texts: str) -> Names:
    """Return the names in texts, each once, in their order."""
    here: dict[str, None] = {}
    elsewhere: dict[str, None] = {}
    for token in split_words(*texts):
        if is_elsewhere(token):
            if not token.lower().startswith(("http://", "https://")):
                elsewhere[token] = None
        elif name := _cut_to_path(_LINE.sub("", token.removeprefix("file://"))):
            here[name] = None
    return Names(here=(*here,), elsewhere=(*elsewhere,))


def is_elsewhere(name: str) -> bool:
    """Whether a name has a host or a scheme, but for `file://`."""
    if name.startswith("file:///"):
        return False
    return bool(_SCHEME.match(name) or _HOST.match(name))


def list_readings(name: str) -> tuple[str, ...]:
    """Return how a name may be read.

    Some scripts put no space between a word and a name: there, the part of it in ASCII
    counts as well.
    """
    ascii_part = re.split(r"[^\x00-\x7f]", name)[-1]
    return tuple(dict.fromkeys(each for each in (name, ascii_part) if each))


def split_words(*texts: str) -> list[str]:
    """Return the words of texts, without the marks around them."""
    return [found[0].rstrip(".:") for text in texts for found in _TOKEN.finditer(text)]


def _cut_to_path(token: str) -> str | None:
    """Return a token as far as it is like a path; None: it is not."""
    first, slash, _ = token.partition("/")
    if ":" in token or token.casefold() in _PRODUCTS or ("." in first.strip(".") and slash):
        return None
    folder, _, name = token.rpartition("/")
    stem, _, rest = name.rpartition(".")
    suffix = _SUFFIX.match(rest)
    if stem.strip(".") and suffix and (folder or suffix[0].lower() in _KNOWN):
        return token[: len(token) - len(rest) + suffix.end()]
    anchored = token.startswith(("/", "./", "../", "~/"))
    return token if anchored and name and name.strip(".") else None
