"""Families of lines, and what they look like in what programs really print.

Each family is found in three steps: a few words that any such line holds, the ways to
say so plainly, and what takes it back (`0 errors`, `not ready`, `retrying …`).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from taskmem_terminal.judging.patterns import Ways

# What lines of a log begin with before they come to the point.
_HEAD: Final = (
    r"\s{0,8}(?:[\w.-]{1,40}\s{0,20}\|\s{0,4})?"
    r"(?:[\[(]?\d{2,4}[-/:.]\d\d[-/:.]\d\d[^\s\])]{0,20}[\])]?\s{1,4}){0,2}"
    r"(?:[\d:.,]{5,15}\s{1,4}){0,2}(?:\[[^\]\n]{1,40}\]\s{0,4}){0,3}"
)


@dataclass(frozen=True, slots=True)
class Family:
    """What makes a line, in lower case, one of a family."""

    trigger: re.Pattern[str]
    """Every line of the family holds it."""
    plain: Ways
    """What says it plainly."""
    denied: Ways | None = None
    """What takes it back."""
    trouble: bool = False
    """Whether it is one of the families in which names and counts mislead."""


def _family(
    trigger: str,
    plain: tuple[str, ...],
    *,
    denied: tuple[str, ...] = (),
    trouble: bool = False,
) -> Family:
    return Family(
        re.compile(trigger), Ways(*plain), Ways(*denied) if denied else None, trouble
    )


FAMILIES: Final[dict[str, Family]] = {
    "error": _family(
        (
            r"err|fatal|exception|traceback|panic|e: |e   |✖|✘|✗|❌|command not found"
            r"|segmentation|core dumped|out of memory|oomkilled|no such file"
            r"|permission denied|connection refused|cannot|critical|severe|curl: "
            r"|wget: |ssh: |make"
        ),
        (
            (
                rf"^{_HEAD}(?:\[?(?:error|fatal|critical|severe|emerg|panic)"
                rf"\]?(?:\s*:|\s+(?!-)\S)|(?:[\w.$]{{0,80}})(?:error|exception)(?::"
                rf"|\()|traceback \(most recent call last\)|exception in thread"
                rf"|unhandled (?:promise )?(?:rejection|exception)|npm err!|fatal "
                rf"error:|e: |e\s{{3}}\S|[✖✘✗❌]\s)"
            ),
            (
                r"^[\w./\\<>+-]{1,200}(?::\d+|\(\d+,\d+\)){0,3}\s*[:-]\s*(?:fatal "
                r"|internal |syntax )?error\b(?:\s*\w*\d+)?\s*:"
            ),
            r"^error(?:\[\w+\])?:",
            r"^\w[\w ]{0,30} error at \S",
            r"^(?:parse|runtime|syntax|type|fatal|internal|uncaught \w+)\s?error: ",
            r"compilation error\s*:",
            r"^thread '[^'\n]*' (?:\(\d+\) )?panicked",
            r"^panic: ",
            r": command not found$",
            r"segmentation fault",
            r"\b(?:core dumped|out of memory|oomkilled)\b",
            (
                r"^[\w./-]{1,60}: (?:[^:\n]{1,160}: )?(?:no such file or directory"
                r"|permission denied|connection refused|cannot \w+|command not found)"
            ),
            r"^[\w./-]{1,40}: error: ",
            r"^curl: \(\d+\)",
            r"^wget: ",
            r"^ssh: ",
            r"^make(?:\[\d+\])?: \*\*\* ",
        ),
        trouble=True,
    ),
    "traceback": _family(
        r"traceback|exception|error|stack ?trace|panicked",
        (
            r"traceback \(most recent call last\)",
            r"exception in thread",
            r"unhandled .{0,20}(?:exception|rejection)",
            r"^[ \t]{0,4}(?:caused by: )?[\w.$]{0,80}(?:exception|error)(?::|$)",
            r"^thread '[^'\n]*' (?:\(\d+\) )?panicked",
        ),
        trouble=True,
    ),
    "panic": _family(
        r"panic",
        (
            r"^[ \t]{0,4}panic: ",
            r"^thread '[^'\n]*' (?:\(\d+\) )?panicked",
            r"kernel panic",
            r"\bpanic:",
        ),
        trouble=True,
    ),
    "segfault": _family(
        r"segmentation fault|core dumped|sigsegv|segfault",
        (r"segmentation fault", r"core dumped", r"\bsigsegv\b", r"segfault at"),
    ),
    "memory": _family(
        r"out of memory|oom|memoryerror|bad_alloc",
        (
            r"out of memory",
            r"oomkilled",
            r"oom-kill",
            r"memoryerror",
            r"std::bad_alloc",
        ),
    ),
    "disk": _family(
        r"no space left|disk quota|disk full",
        (r"no space left on device", r"disk quota exceeded", r"disk full"),
    ),
    "timeout": _family(
        r"time",
        (
            r"\btimed[ -]?out\b",
            r"\btimeout(?:error| expired| exceeded| reached| after|:)",
            r"deadline exceeded",
            r"etimedout",
        ),
        trouble=True,
    ),
    "refused": _family(
        r"refused|connection|connect",
        (
            r"connection refused",
            r"econnrefused",
            r"connection (?:error|reset|closed by)",
            r"(?:could not|failed to|cannot|can't|unable to) connect",
        ),
        trouble=True,
    ),
    "denied": _family(
        r"denied|unauthori|forbidden|eacces|permission",
        (
            r"\b(?:permission|access|requested access .{0,40}) (?:is )?denied",
            r"\bdenied:",
            r"unauthori[sz]ed",
            r"\b403 forbidden",
            r"eacces",
        ),
        trouble=True,
    ),
    "notfound": _family(
        r"not found|no such|404|unable to locate|manifest unknown",
        (
            r"\bnot found\b",
            r"no such file or directory",
            r"\b404\b",
            r"unable to locate",
            r"manifest unknown",
        ),
        trouble=True,
    ),
    "conflict": _family(
        r"conflict",
        (
            r"^conflict \(",
            r"merge conflict in",
            r"\bconflicts? (?:detected|found|in)\b",
            r"^(?:both|deleted by|added by) \w+:",
        ),
        trouble=True,
    ),
    "warning": _family(
        r"warn",
        (
            rf"^{_HEAD}\[?warn(?:ing)?\]?\b\s*[:\]]",
            r":\s*warning:",
            r"^\w*warning:",
            r"\b[1-9]\d* warnings?\b",
        ),
    ),
    "test_failure": _family(
        r"fail|not ok|✗|✕|✘|×|error|\.f|f\.",
        (
            r"^failed \S+::",
            r"\S+::\S+\s+(?:failed|error)\b",
            r"^[ \t]{0,40}--- fail:",
            r"^not ok \d",
            r"^[ \t]{1,40}[✕✗✘×] \S",
            r"^fail\s+\S",
            r"^test \S.{0,120} \.\.\. failed",
            r"^(?:fail|error): test",
            r"^test result: failed",
            r"^\S+ \([\w.]+\) \.\.\. (?:fail|error)$",
            r"^\S+\.py [.sxx]{0,200}f[.sxxfe]{0,200}(?:\s|$)",
            r"^(?:=+ )?[1-9]\d* failed\b",
            r"^[ \t]{0,40}tests?:?\s+[1-9]\d* failed",
            r"^[ \t]{1,40}[1-9]\d* failing$",
            r"failures: [1-9]",
            r"errors: [1-9]",
            r"^failed \((?:failures|errors)",
            r"\d examples?, [1-9]\d* failure",
        ),
    ),
    "connected": _family(
        r"connect|welcome|logged in",
        (
            r"\bconnected\b",
            (
                r"\bconnection (?:to \S+ )?(?:is |was |has been )?(?:established"
                r"|successful|opened|succeeded)"
            ),
        ),
        denied=(
            (
                r"\b(?:not|dis|un|never|waiting|wait|trying|failed|cannot|could not"
                r"|until|when|if|be|being|no|lost|closed|0)[ -]?(?:\w+ )?connect"
            ),
            r"disconnected",
            r"\bnot connected",
        ),
    ),
    "healthy": _family(
        r"healthy",
        (r"\bhealthy\b",),
        denied=(r"\b(?:un|not |0 )healthy", r"until", r"wait"),
    ),
    "listening": _family(
        r"listen|serving|running on|running at|local:|https?:",
        (
            r"\blisten(?:s|ing)\b",
            r"\bserving (?:http|on|at)\b",
            r"\brunning (?:on|at) (?:all|port|https?:|\S*:\d)",
            r"\blocal:\s+https?://",
            r"\bdevelopment server at http",
            r"\b(?:available|live|started) (?:at|on) https?:",
        ),
        denied=(
            (
                r"\b(?:not|n't|never|wait\w*|until|when|before|once|if|will|fail\w*"
                r"|error|cannot|unable|already|should|try\w*|stopp\w+|no longer)\b"
            ),
        ),
    ),
    "ready": _family(
        (
            r"ready|listening|running (?:on|at)"
            r"|(?:is|are|now|server|service|app|site|api|worker|system) running"
            r"|started|serving|accept|available at|local:"
            r"|startup complete|http server|development server|live at|is up|\bup\b"
            r"|online|use ctrl|now view|initialized|booted|server at"
        ),
        (
            r"\blistening (?:on|at|for|to)\b",
            r"\blistening:? ?(?:https?:|port|\d)",
            r"\blistens on\b",
            r"\blistening[.!]?$",
            (
                r"\b(?:server|service|app\w*|api|daemon|site|cluster|database|worker"
                r"|system|broker|node)\b[^\n]{0,30}?\b(?:is |are |now |has |been "
                r"|successfully )*(?:running|started|ready|up|live|online|available"
                r"|listening)\b"
            ),
            (
                r"\bready (?:to (?:accept|serve|handle|receive|take|process)|for "
                r"(?:\w+ )?(?:connections?|requests?|jobs?|start-?up|traffic|work)|in "
                r"[\d.]+ ?m?s|on|at)\b"
            ),
            r"\bready[.!]?$",
            r": ready\b",
            r"^[ \t]{0,40}(?:[>✓✔▲-]\s*)?ready\b(?! to)",
            r"\baccepting (?:\w+ )?(?:connections|requests)",
            r"\b(?:waiting for|ready for) (?:incoming )?connections\b",
            r"\brunning (?:on|at) (?:all|port|https?:|\S*:\d)",
            r"\bserving (?:http|on|at)\b",
            r"\bstarting development server at\b",
            r"\bdevelopment server \(http\S+ started\b",
            r"\bapplication startup complete\b",
            r"\bserver startup (?:complete|in)\b",
            r"\bstartup complete\b",
            r"\blocal:\s+https?://",
            r"\bavailable (?:at|on) https?:",
            r"\blive at https?:",
            r"\bstarted \w+ in [\d.]+ ?(?:s|seconds)\b",
            r"\bstarted on port",
            r"\bnow listening\b",
            r"\byou can now view\b",
            r"\bserver is (?:up|running|ready|listening)\b",
        ),
        denied=(
            (
                r"\b(?:not|n't|never|un\w+|wait(?:ing)? (?:for (?!(?:incoming )?"
                r"connections|jobs|requests)|until)|until|when|before|once|if|will"
                r"|fail\w*|error|cannot|unable|could|already (?:in use|running"
                r"|listening)|0/\d+|to be|should|try\w*|stopp\w+|shut\w*|exit\w*|no)\b"
            ),
            r"reloader process",
            r"listening on (?:ipv[46] address|unix socket)",
            r"starting up",
            r"get(?:ting)? ready",
            r"already running",
        ),
    ),
}
