"""What sentences say of files: which are to be made, which were made, which are gone.

Nothing that is not plain is understood. Source: requirement F2; ruling "write intent".
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from openclaw_taskmem.domain import making

_SUFFIXES: Final = (
    *("md", "txt", "rst", "csv", "tsv", "json", "jsonl", "yaml", "yml", "toml", "ini"),
    *("cfg", "conf", "env", "xml", "html", "htm", "css", "scss", "js", "mjs", "cjs"),
    *("ts", "tsx", "jsx", "py", "ipynb", "rb", "go", "rs", "java", "kt", "c", "h"),
    *("cc", "cpp", "hpp", "cs", "swift", "php", "pl", "lua", "r", "jl", "scala"),
    *("sh", "bash", "zsh", "fish", "ps1", "bat", "sql", "db", "sqlite", "parquet"),
    *("pdf", "doc", "docx", "odt", "rtf", "tex", "bib", "ppt", "pptx", "xls", "xlsx"),
    *("png", "jpg", "jpeg", "gif", "webp", "svg", "bmp", "ico", "mp3", "wav", "ogg"),
    *("mp4", "webm", "mov", "zip", "tar", "gz", "tgz", "bz2", "xz", "7z", "whl"),
    *("jar", "deb", "rpm", "iso", "img", "bin", "log", "diff", "patch", "lock", "out"),
)
_NAME: Final = rf"[^\s\"'`<>|*?:;,()\[\]{{}}]+\.(?:{'|'.join(_SUFFIXES)})"
_FILE: Final = re.compile(
    rf"(?P<open>[\"'`])(?P<said>(?:~|\.{{0,2}})/[^\"'`\n]{{1,400}}"
    rf"|[^\"'`\n]{{1,200}}\.(?:{'|'.join(_SUFFIXES)}))(?P=open)"
    rf"|(?<![\w./@:-])(?P<bare>(?:~|\.{{0,2}})?/?{_NAME})(?![\w/@-]|\.\w)",
    re.IGNORECASE,
)
_TECHNOLOGIES: Final = frozenset(
    (
        *("Node.js", "node.js", "Vue.js", "vue.js", "Next.js", "next.js", "Nuxt.js"),
        *("Nest.js", "React.js", "Angular.js", "Ember.js", "Backbone.js", "Express.js"),
        *("Alpine.js", "Chart.js", "Moment.js", "Discord.js", "discord.js", "D3.js"),
        *("d3.js", "Three.js", "three.js", "P5.js", "p5.js", "Require.js", "docs.rs"),
        *("Babylon.js", "TensorFlow.js", "PDF.js", "llama.cpp", "whisper.cpp"),
    )
)
"""What ends like a file and, as a bare word that is spelled so, hardly ever is one."""
URL: Final = re.compile(r"\bhttps?://\S+", re.IGNORECASE)
_CLAUSE: Final = re.compile(r"(?<=[.!?])\s+|[;\n]|,\s+(?:then|but|and then)\b")
_INPUT: Final = re.compile(
    r"(?i)\b(?:from|using|with|via|based on|according to|against|per|like|as in|see"
    r"|of|read|reads|reading|load|parse|parsing|compare|instead of|unlike|not)\s+"
    r"(?:(?:the|a|an|this|that|its|our|old|existing|input|file|in)\s+){0,3}$"
)
_DENIED: Final = re.compile(
    r"(?i)\b(?:not|never|no|nothing|none|without|cannot|can't|couldn't|could not|didn't"
    r"|don't|won't|unable|failed|fails?|instead of|if|unless|would|will|should|shall"
    r"|could|might|may|can|going to|need(?:s|ed)? to|have to|plan to|about to|todo"
    r"|tried|trying|delete[ds]?|remove[ds]?|rm)\b"
)
_DENIED_STEP: Final = re.compile(
    r"(?i)\b(?:not|never|without|don't|avoid|if|unless|delete|remove|rm|optional(?:ly)?"
    r"|as needed|either|skip|should (?:any|it|there)|when there is|empty"
    r"|temp(?:orary)?|ssh|container|remote(?:ly)?)\b"
)
_REMOVES: Final = re.compile(
    r"(?i)\W*(?:(?:and|then|finally|afterwards)\W+)*"
    r"(?:delete|remove|drop|discard|erase|move|rename|rm|mv)\b"
)
_MADE_BEFORE: Final = re.compile(r"(?i)\s+(?:it|them|both|all of them)\b")
_PATTERN: Final = re.compile(r"[$%]|YYYY|(?:^|/)__init__\.py$")
"""A name that stands for others, or a file that is empty by its nature."""
_GONE: Final = re.compile(
    r"(?i)\b(?:deleted|removed|renamed|moved|discarded|gone|rm)\b"
)
_REMOVED: Final = re.compile(
    r"(?i)(?<!not )(?<!n't )(?<!never )(?<!be )\b"
    r"(?:deleted|removed|renamed|moved|discarded|rm)\b"
)
_STAYS: Final = re.compile(rf"(?i){making.MADE.pattern}|\b(?:kept|left)\b")
_WENT: Final = re.compile(
    r"(?i)[\"'`)]*(?:\s*(?:,|and|&|file|files|\*))*\s+(?:(?:has|have|had|since|then|later|now|all|both)\s+){0,3}"
    r"(?:was|were|is|are|been|got)\s+(?:(?!not\b|never\b|to\b|be\b)\w+\s+){0,3}?"
    r"(?:deleted|removed|renamed|moved|discarded|gone)\b"
)
"""What follows a file that is there no more."""
_WITHIN: Final = re.compile(
    r"(?i)\b(?:in|on|to|into|at|inside|under|as)\s+(?:(?:the|a|an|its|file)\s+){0,2}"
    r"[\"'`]?$"
)
_NEAR: Final = 160
"""Characters before a file that say whether it was removed, and after it."""
_TICKS: Final = re.compile(r"[?？]\s*$")
_COMPLETE: Final = re.compile(
    r"(?i)\b(?:done|completed?|finished|all set|ready|delivered|wrapped up"
    r"|accomplished)\b|✅|\U0001f389"
)
_INCOMPLETE: Final = re.compile(
    r"(?i)\b(?:not|isn't|aren't|wasn't|haven't|hasn't|nothing|almost|nearly|partly"
    r"|partially|incomplete|unfinished|until|once|when|if|still|remaining|left|next"
    r"|will|failed|blocked)\b"
)


def to_write(*plan: str) -> tuple[str, ...]:
    """Return the files that a plan is to write, and does not remove or move after that.

    Each is named as often as the plan makes it.
    """
    there: list[str] = []
    for step in plan:
        last: list[str] = []
        for clause in _CLAUSE.split(step):
            if removes := _REMOVES.match(clause):
                file = _FILE.search(clause, removes.end())
                if file is not None:
                    gone = (file["said"] or file["bare"]).rstrip(".")
                    there = [each for each in there if not _same(each, gone)]
                elif _MADE_BEFORE.match(clause, removes.end()):
                    there = [each for each in there if each not in last]
            elif not _DENIED_STEP.search(clause):
                made = _made(making.TO_MAKE, clause)
                last = [each for each in made if not _PATTERN.search(each)]
                there += last
    return tuple(there)


def written(*said: str) -> tuple[str, ...]:
    """Return the files that messages, the oldest first, say were written.

    Left out is what they say was removed, renamed or moved after that.
    """
    there: dict[str, list[str]] = {}  # by name, since folders may be left out
    for clause in (part for message in said for part in _CLAUSE.split(message)):
        if _TICKS.search(clause):
            continue
        for gone in removed(clause):
            alike = there.get(_name(gone), [])
            there[_name(gone)] = [each for each in alike if not _same(each, gone)]
        if not _DENIED.search(URL.sub("", clause)):
            for path in _made(making.MADE, clause):
                there.setdefault(_name(path), []).append(path)
    return tuple(path for alike in there.values() for path in alike)


def removed(clause: str) -> Iterator[str]:
    """Yield the files that a clause says are there no more, under that name."""
    if not _GONE.search(clause):
        return
    bare = URL.sub(" ", clause)
    for file in _FILE.finditer(bare):
        start, end = file.span()
        before = bare[max(0, start - _NEAR) : start]
        went = _WENT.match(_FILE.sub("*", bare[end : end + _NEAR]))
        *_, since = _REMOVED.split(before)
        acted = since != before and not (
            _WITHIN.search(before) or _INPUT.search(before) or _STAYS.search(since)
        )
        if went or acted:
            yield (file["said"] or file["bare"]).rstrip(".")


def says_done(said: str) -> bool:
    """Whether a message says that the work is over."""
    last = [clause for clause in _CLAUSE.split(said) if clause.strip()]
    return any(
        _COMPLETE.search(clause)
        and not _INCOMPLETE.search(clause)
        and not _TICKS.search(clause)
        for clause in last
    )


def _made(verbs: re.Pattern[str], clause: str) -> Iterator[str]:
    """Yield the files that a clause says are made, each once."""
    names: list[str] = []

    def marked(file: re.Match[str]) -> str:
        name = (file["said"] or file["bare"]).rstrip(".")
        if file["said"] is None and name in _TECHNOLOGIES:
            return name
        names.append(name)
        return making.mark(len(names) - 1)

    bare = URL.sub(" ", clause.replace("\0", " "))
    marks = making.made(verbs, _FILE.sub(marked, bare))
    yield from dict.fromkeys(names[number] for number in marks)


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _same(path: str, other: str) -> bool:
    """Whether two paths may mean one file: one of them may begin further down."""
    one, two = path.removeprefix("./"), other.removeprefix("./")
    return one == two or one.endswith(f"/{two}") or two.endswith(f"/{one}")
