"""Which widely used programs a text comes from, told by the form of their lines.

What a text does not show to be about something, it is not about: a command that ends
says little of a thing that was never named, nor shown in a form known to be its.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

_FORMS: Final[tuple[tuple[str, str, tuple[str, ...]], ...]] = (
    (
        "apt apt-get dpkg",
        "install",
        (
            r"Reading package lists",
            r"(?:Setting up|Unpacking|Removing) \S+ \(",
            r"E: \w",
            r"Get:\d+ ",
        ),
    ),
    (
        "pip pip3",
        "install",
        (
            r"Collecting \S",
            r"Requirement already",
            r"Installing collected",
            r"Successfully installed ",
            r"ERROR: (?:No matching|Could not find|Cannot install|Failed building)",
            r"[ \t]{1,40}Downloading \S+ \(",
        ),
    ),
    (
        "npm npx yarn pnpm node",
        "install",
        (r"npm (?:error|warn|notice|ERR!|WARN)", r"(?:added|changed) \d+ packages?"),
    ),
    ("npm yarn pnpm npx", "", (r"> [\w@/.-]+@\d\S* [\w:-]+$",)),
    (
        "cargo rustc rust crate",
        "build compile",
        (
            r"[ \t]{1,40}(?:Compiling|Checking|Finished|Locking) ",
            r"error(?:\[E\d+\])?: ",
            r"warning: ",
            r"test result: ",
        ),
    ),
    ("cargo rust", "test", (r"running \d+ tests?$", r"test \S.* \.\.\. ")),
    (
        "make gmake",
        "build compile",
        (
            r"make(?:\[\d+\])?: ",
            r"(?:cc|gcc|g\+\+|c\+\+|clang|ld|ar)[ \t]{1,40}(?:\S+ )*-?\S",
        ),
    ),
    (
        "gcc cc clang g++ ld compiler linker",
        "build compile",
        (
            r"\S+\.(?:c|cc|cpp|h|hpp):(?:\d+|\(|[ \t])",
            r"collect2: ",
            r"(?:/\S+/)?ld: ",
        ),
    ),
    ("javac java", "build compile", (r"\S+\.java:\d+: ",)),
    (
        "cmake",
        "build",
        (
            r"-- (?:Configuring|Generating|Detecting|Build files|The \w+ compiler)",
            r"CMake (?:Error|Warning)",
            r"\[[ \t]{0,2}\d+%\] (?:Building|Built|Linking)",
        ),
    ),
    (
        "ninja",
        "build",
        (r"\[\d+/\d+\] (?:Building|Linking|Compiling|Generating)", r"ninja: "),
    ),
    (
        "mvn maven",
        "build compile",
        (r"\[(?:INFO|ERROR)\] (?:BUILD|Building|COMPILATION|Scanning)",),
    ),
    ("gradle gradlew", "build", (r"> Task :", r"BUILD (?:SUCCESSFUL|FAILED) in")),
    ("tsc typescript", "build compile check", (r"\S+\.tsx?\(\d+,\d+\): ",)),
    (
        "webpack vite bundler esbuild rollup",
        "build",
        (
            r"(?:ERROR|WARNING) in \.",
            r"✓ \d+ modules",
            r"(?:dist|build)/\S+[ \t]{1,40}[\d.]+ kB",
            r"webpack ",
            r"[ \t]{0,40}VITE v",
        ),
    ),
    (
        "pytest py.test",
        "test",
        (
            r"=+ .*(?:test session starts|passed|failed|error)",
            r"collected \d+ items?",
            r"\d+ passed\b",
        ),
    ),
    ("unittest python", "test", (r"Ran \d+ tests? in", r"FAIL: test", r"ERROR: test")),
    ("node", "test", (r"(?:ℹ|#) (?:tests|pass|fail) \d+",)),
    (
        "jest vitest mocha",
        "test",
        (
            r"Tests:[ \t]{1,40}\d",
            r"[ \t]{0,40}Tests[ \t]{1,40}\d",
            r"[ \t]{1,40}\d+ (?:passing|failing)",
            r"(?:PASS|FAIL)[ \t]{1,40}\S+\.[jt]sx?",
        ),
    ),
    ("ctest", "test", (r"\d+% tests passed", r"[ \t]{0,40}\d+/\d+ Test +#\d+")),
    ("go", "test", (r"(?:ok|FAIL)[ \t]{1,40}\S+/\S+[ \t]", r"--- (?:FAIL|PASS)")),
    (
        "ruff eslint flake8 linter mypy pyright",
        "check",
        (
            r"All checks passed",
            r"Found \d+ errors?",
            r"Success: no issues",
            r"✖ \d+ problem",
            r"\d+ errors?, \d+ warning",
            r"[A-Z]{1,4}\d{3,4} ",
            r"\S+:\d+(?::\d+)?: error: ",
            r"\d+ files? (?:re|already )?formatted",
            r"\d+ files? would be reformatted",
        ),
    ),
    (
        "git",
        "clone download upload",
        (
            r"Cloning into ",
            r"remote: ",
            r"(?:Receiving|Resolving|Writing|Unpacking|Enumerating) (?:objects|deltas)",
            r"fatal: ",
            r"From \S",
            r"To \S+[/:]\S",
            r"CONFLICT \(",
            r"Auto-merging ",
            r"(?:Rebasing|Bisecting)\b",
            r"Updating [0-9a-f]{7,}",
            r"Merge made by",
            r"Already up",
            r"Everything up-to-date",
            r"Successfully rebased",
        ),
    ),
    (
        "git rebase merge pull",
        "",
        (
            r"Rebasing \(",
            r"Successfully rebased",
            r"CONFLICT \(",
            r"Merge made by",
            r"Fast-forward",
        ),
    ),
    ("git fetch", "download", (r" {1,3}[*+]? ?(?:\[new |[0-9a-f]{7,}\.\.).* -> \S+/",)),
    (
        "curl",
        "download",
        (
            r"[ \t]{0,40}% Total[ \t]{1,40}% Received",
            r"curl: \(\d+\)",
            r"#+[ \t]{1,40}\d",
        ),
    ),
    (
        "wget",
        "download",
        (
            r"--\d{4}-\d\d-\d\d \d\d:\d\d:\d\d--",
            r"HTTP request sent",
            r"Saving to: ",
            r"wget: ",
        ),
    ),
    (
        "docker podman",
        "image download",
        (
            r"Step \d+/\d+ : ",
            r"#\d+ (?:\[|\d)",
            r"[0-9a-f]{12}: (?:Pull|Download|Wait|Already)",
            r"Successfully (?:built|tagged) ",
            r"Status: (?:Downloaded|Image)",
            r"Error response from daemon",
        ),
    ),
    (
        "kubectl kubernetes",
        "deploy",
        (
            r"NAME[ \t]{1,40}READY[ \t]{1,40}STATUS",
            r"deployment \"",
            r"Waiting for deployment",
        ),
    ),
    (
        "terraform tofu",
        "deploy",
        (
            r"Terraform ",
            r"(?:Apply|Destroy) complete!",
            r"\S+\.\S+: (?:Creat|Destr|Refresh|Modif)",
            r"(?:│ )?Error: ",
        ),
    ),
    (
        "ansible playbook",
        "deploy",
        (r"(?:TASK|PLAY) (?:\[|RECAP)", r"\S+[ \t]{1,40}: ok=\d"),
    ),
    (
        "rsync",
        "transfer",
        (
            r"sending incremental",
            r"rsync(?: error)?: ",
            r"sent [\d,]+ bytes",
            r".*xfr#\d",
        ),
    ),
    (
        "tar zip unzip",
        "transfer",
        (r"(?:tar|unzip|zip): ", r"[ \t]{1,40}(?:adding|inflating): "),
    ),
    (
        "scp",
        "transfer",
        (r"scp: ", r"\S+[ \t]{1,40}\d+%[ \t]{1,40}\d+\w?B?[ \t]{1,40}[\d.]+\wB/s"),
    ),
    ("ssh", "", (r"ssh: ", r"The authenticity of host", r"\S+@\S+: Permission denied")),
    ("dd", "transfer", (r"\d+ bytes .* copied", r"\d+\+\d+ records (?:in|out)")),
    (
        "ffmpeg ffprobe",
        "",
        (r"frame=[ \t]{0,40}\d+ fps=", r"Input #\d", r"ffmpeg version"),
    ),
    ("initdb", "", (r"(?:creating|selecting|running|syncing) .* \.\.\. ", r"initdb: ")),
    (
        "psql postgres",
        "",
        (
            r"(?:psql:\S+ )?(?:ERROR|FATAL|DETAIL|HINT):  ",
            r"psql(?::| \()",
            r"\(\d+ rows?\)$",
            r".* LOG:  ",
        ),
    ),
    (
        "sqlite sqlite3",
        "",
        (r"sqlite> ", r"SQLite version", r"(?:Parse|Runtime) error"),
    ),
    ("pg_dump pg_restore", "", (r"pg_(?:dump|restore): ",)),
    (
        "uvicorn gunicorn",
        "",
        (r"INFO:[ \t]{1,40}(?:Uvicorn|Application|Started)", r".*gunicorn"),
    ),
    ("flask", "", (r" \* (?:Serving|Running|Debug|Restarting)",)),
    ("node", "", (r"Node\.js v\d", r"node:", r"[ \t]{1,40}at \S.* \(node:")),
    (
        "python python3",
        "",
        (r"Traceback \(most recent", r'[ \t]{1,40}File "', r"\w+Error(?::|$)", r">>> "),
    ),
)
_NAMES: Final = frozenset(name for names, *_ in _FORMS for name in names.split())
_KNOWN: Final = tuple(
    (
        frozenset(names.split()),
        frozenset(domains.split()),
        re.compile(f"^(?:{'|'.join(ways)})", re.MULTILINE),
    )
    for names, domains, ways in _FORMS
)
_PATHS: Final = re.compile(r"(?:[ax] )?[\w.@+-]+(?:/[\w.@+ -]*)+|\./|[\w-]+\.\w{1,6}")
_HELP: Final = re.compile(r"^usage:? ", re.MULTILINE | re.IGNORECASE)
_MANY: Final = 3


@dataclass(frozen=True, slots=True)
class Spoken:
    """The programs that a text comes from, as far as their forms are known."""

    names: frozenset[str]
    domains: frozenset[str]
    help: bool
    """Whether it only says how a command is used."""


def is_program(word: str) -> bool:
    """Whether a word is the name of a program whose lines are known."""
    return word in _NAMES


def spoken(text: str) -> Spoken:
    """Return which programs wrote a text, and what their work is."""
    names: frozenset[str] = frozenset()
    domains: frozenset[str] = frozenset()
    for its, work, pattern in _KNOWN:
        if pattern.search(text):
            names |= its
            domains |= work
    lines = [line for line in text.split("\n") if line.strip()]
    if len(lines) >= _MANY and all(_PATHS.fullmatch(line.strip()) for line in lines):
        names |= {"tar", "zip", "unzip", "rsync", "find"}
        domains |= {"transfer"}
    return Spoken(names, domains, bool(_HELP.search(text)))
