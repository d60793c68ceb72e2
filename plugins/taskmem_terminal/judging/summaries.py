"""How programs say in words that their work is over, and how it went.

Only what a program prints at its very end is here; what it says of a part is not
(`test result: ok` of one of many test programs, one layer of an image).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from taskmem_terminal.judging.patterns import lines
from taskmem_terminal.judging.seen import hits
from taskmem_terminal.judging.subjects import domains, stem

_WELL: Final[dict[str, tuple[str, ...]]] = {
    "test": (
        (
            r"^(?:=+ )?(?:\d+ [a-z]+(?: [a-z]+)?, ){0,8}\d+ passed(?:, \d+ (?:skipped"
            r"|warnings?|xfailed|xpassed|deselected|subtests passed)){0,6} in "
            r"[\d.]+s\b.*$"
        ),
        r"^OK(?: \((?:skipped|expected failures)=\d+\))?$",
        r"^OK \(\d+ tests?, \d+ assertions?\)",
        r"^Tests:\s+(?:\d+ (?:skipped|todo), )*\d+ passed, \d+ total",
        r"^[ \t]{0,40}Tests\s+\d+ passed(?: \|.{0,40})? \(\d+\)",
        r"^\d+ examples?, 0 failures",
        r"^100% tests passed, 0 tests failed",
        r"^all (?:\d+ )?tests pass(?:ed)?[.!]?$",
        r"^All (?:\d+ )?tests pass(?:ed)?[.!]?$",
        r"^(?:ℹ|#) fail 0$",
        r"^[ \t]{0,40}congratulations :\)",
    ),
    "build": (
        r"^(?:\[INFO\] )?BUILD (?:SUCCESS(?:FUL)?|SUCCEEDED)\b",
        r"^Build succeeded",
        (r"^[ \t]{0,40}Finished `?\w+`? (?:profile )?\[[^\]\n]{0,60}\] target\(s\) in"),
        r"\bcompiled (?:successfully|with \d+ warnings?) in\b",
        r"✓ built in",
        r"^INFO: Build completed successfully",
        r"^\[100%\] Built target all",
        r"^Successfully built \S+\.(?:tar\.gz|whl)",
    ),
    "compile": (
        r"^(?:✓ )?Compiled successfully",
        r"^[ \t]{0,40}Finished `?\w+`? (?:profile )?\[",
    ),
    "install": (
        r"^Successfully installed \S",
        r"^(?:added|changed|removed) \d+ packages?\b",
        r"^up to date\b",
        r"^(?:✨\s+)?Done in [\d.]+ ?m?s",
        r"^Installed \d+ packages? in",
        r"^Bundle complete!",
        r"^\d+ gems? installed",
        r"^[ \t]{0,40}Installed package `",
        r"^OK: \d+ MiB in",
    ),
    "download": (
        r"’ saved \[\d+",
        r"^Status: (?:Downloaded newer image|Image is up to date)",
        r"\(OK\):download completed",
        r"^Successfully rebased",
        r"^Already up to date\.",
        r"^Successfully downloaded",
    ),
    "upload": (
        r"^\S+: digest: sha256:",
        r"^[ \t]{1,40}[0-9a-f]{7,40}\.\.\.?[0-9a-f]{7,40}\s+\S+ -> \S+",
        r"^ \* \[new (?:branch|tag)\]\s",
        r"^Everything up-to-date",
        r"^\+ @?[\w./-]+@\d",
        r"^View at:",
    ),
    "clone": (
        r"^Resolving deltas: 100% \([^)\n]{1,30}\), done",
        r"^Successfully rebased",
        r"^Already up to date\.",
    ),
    "image": (
        r"^Successfully tagged ",
        r"^Status: (?:Downloaded newer image|Image is up to date)",
        r"naming to \S+ (?:[\d.]+s )?done",
    ),
    "deploy": (
        r"^Apply complete!",
        r"^Destroy complete!",
        r"successfully rolled out",
        r"^Release \"[^\"\n]{1,80}\" has been (?:upgraded|installed)",
        r"^STATUS: deployed",
        r"\bDeploy complete!",
        r"^✔ Service deployed",
    ),
    "check": (
        r"^All checks passed!",
        r"^Success: no issues found",
        r"^0 errors, \d+ warnings",
        r"^Found 0 errors",
        r"use Prettier code style!$",
    ),
    "migrate": (
        r"^\d+ migrations?, \d+ applied, 0 errors",
        r"^Database (?:is )?migrated",
    ),
    "init": (r"^Success\. You can now start",),
}
_BADLY: Final[dict[str, tuple[str, ...]]] = {
    "test": (
        (
            r"^(?:=+ )?(?:\d+ [a-z]+(?: [a-z]+)?, ){0,8}[1-9]\d* (?:failed|errors?)"
            r"\b.{0,200}in [\d.]+s\b"
        ),
        r"^FAILED \((?:failures|errors)=",
        r"^Tests:\s+[1-9]\d* failed",
        r"^[ \t]{0,40}Tests\s+[1-9]\d* failed",
        r"^[ \t]{1,40}[1-9]\d* failing$",
        r"^\d+ examples?, [1-9]\d* failures?",
        r"^(?:FAILURES|ERRORS)!$",
        r"^FAIL$",
        r"^FAIL\t\S",
        r"^\d+% tests passed, [1-9]\d* tests? failed",
        r"^test result: FAILED",
        r"^error: test failed",
        r"^(?:ℹ|#) fail [1-9]",
        r"^[ \t]{0,40}evaluation failed :\(",
    ),
    "build": (
        r"^(?:\[(?:INFO|ERROR)\] )?BUILD FAIL(?:ED|URE)\b",
        r"^error: could not compile",
        r"^make: \*\*\* .*(?:Error \d+|Stop\.)",
        r"^ninja: build stopped",
        r"^ERROR: Build (?:did NOT complete|failed)",
        r"^FAILURE: Build failed",
        r"^Build failed with",
        r"^Failed to compile\b",
        r"\bcompiled with [1-9]\d* errors?",
        r"^ERROR: failed to (?:solve|build)",
        r"^error during build",
        r"^error: build failed",
        r"^error: aborting due to",
        r"^error Command failed with exit code",
        r"\bELIFECYCLE\b",
        r"^-- Configuring incomplete",
    ),
    "compile": (
        r"^error: could not compile",
        r"COMPILATION ERROR",
        r"^Failed to compile\b",
        r"^error: aborting due to",
    ),
    "install": (
        (
            r"^ERROR: (?:Could not find a version|No matching distribution|Cannot "
            r"install|Failed building)"
        ),
        r"^E: (?:Unable to|Could not|Package|Failed)",
        r"^npm (?:ERR!|error) (?:code|A complete log)",
        r"^error Couldn't find package",
        r"^error: (?:externally-managed|subprocess-exited|metadata-gen)",
        r"^× No solution found",
        r"^Error: No available formula",
    ),
    "download": (
        r"^curl: \(\d+\)",
        r"^wget: unable",
        r"ERROR \d{3}: ",
        r"^Error response from daemon:",
        r"^fatal: ",
        r"manifest unknown",
    ),
    "upload": (
        r"! \[(?:remote )?rejected\]",
        r"^error: failed to push",
        r"^fatal: ",
        r"^denied: ",
        r"^HTTPError: 4",
    ),
    "clone": (r"^fatal: ",),
    "image": (
        r"^ERROR: failed to (?:solve|build)",
        r"returned a non-zero code: \d",
        r"^Error response from daemon:",
    ),
    "deploy": (
        r"^(?:│ )?Error: ",
        r"exceeded its progress deadline",
        r"(?:UPGRADE|INSTALLATION) FAILED",
        r"\bfailed=[1-9]",
    ),
    "check": (
        r"^Found [1-9]\d* errors?\b",
        r"✖ \d+ problems?",
        r"^[1-9]\d* errors?, \d+ warning",
    ),
    "transfer": (
        r"^rsync error:",
        r"^tar: Exiting with failure",
        r"^scp: ",
        r"^lost connection",
    ),
    "migrate": (r"^\d+ migrations?, \d+ applied, [1-9]\d* errors?",),
}
_PATTERNS: Final = tuple(
    (domain, good, lines(*ways))
    for good, table in ((True, _WELL), (False, _BADLY))
    for domain, ways in table.items()
)
_TRIGGER: Final = re.compile(
    r"complete|finished|done|succe|fail|abort|ready|over\b|error"
)
_STATEMENT: Final = re.compile(
    r"^\s{0,8}(?:[\d:.,TZ/-]{5,30}\s+){0,2}(?:\[?(?:INFO|NOTICE|OK|SUCCESS)\]?:?\s+)?"
    r"(?:[^\w\s\[(]{1,6}\s*)?(?:the )?(?P<what>[a-z][\w -]{1,40}?)\s+(?:is |was |has "
    r"|has been |now ){0,2}"
    r"(?P<how>completed?|finished|done|succeeded|successful(?:ly)?|failed|aborted)"
    r"(?: successfully| with \d+ warnings?)?(?:[ ,:]+(?:in|after|took) [\d.]+ ?"
    r"\w{1,8})?[\s.!✓✔✅🎉]*$",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Summary:
    """One thing that a program said about how its work ended."""

    good: bool
    line: str


def summaries(
    text: str, about: frozenset[str], words: tuple[str, ...]
) -> list[Summary]:
    """Return what a text says of the end of certain work, in order."""
    found: list[tuple[int, Summary]] = []
    if "build" in about:
        about |= {"compile"} & about
    for domain, good, pattern in _PATTERNS:
        if domain in about or domain in words:
            for match in pattern.finditer(text):
                line = _line(text, match)
                found.append((match.start(), Summary(good, line)))
    return [summary for _, summary in sorted(found, key=lambda pair: pair[0])]


def statements(
    text: str, lower: str, about: frozenset[str], words: tuple[str, ...]
) -> list[Summary]:
    """Return the sentences that say of just this work that it is over."""
    found: list[Summary] = []
    for line in hits(text, lower, _TRIGGER):
        match = _STATEMENT.match(line)
        if match and _is_about(match["what"].lower(), about, words):
            good = not match["how"].lower().startswith(("fail", "abort"))
            found.append(Summary(good, line.strip()))
    return found


def _is_about(what: str, about: frozenset[str], words: tuple[str, ...]) -> bool:
    stems = {stem(word) for word in words}
    said = what.split()
    return all(stem(word) in stems or domains(word) & about for word in said)


def _line(text: str, match: re.Match[str]) -> str:
    start = text.rfind("\n", 0, match.end()) + 1
    start = min(start, match.start()) if "\n" not in match[0] else start
    end = text.find("\n", match.end())
    return text[start : end if end >= 0 else len(text)].strip()
