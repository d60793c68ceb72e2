"""Split shell commands, and judge what a tool call may have changed, from facts alone.

The facts are the tool's name, its method or action, the words of its command as a shell splits
them, and whether files were seen to change. What an agent says is ignored. Tests, builds and
linters count as harmless, like reading: they can be repeated. An unknown call counts as one that
may have had an effect.
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from getopt import GetoptError, gnu_getopt
from itertools import pairwise
from typing import Final, NamedTuple

from openclaw_taskmem.domain.text.texts import ELLIPSIS


class Effect(StrEnum):
    """The changes that a call may have made, the gravest first."""

    OUTSIDE = "outside"
    """Something outside this machine: sent, paid, pushed, deployed, written by HTTP."""
    FILES = "files"
    """Files on this machine."""
    OTHER = "other"
    """Not known."""
    NOTHING = "nothing"
    """Nothing: it only read, or can be repeated without harm, such as a test or a build."""


GRAVEST_FIRST: Final = tuple(Effect)


# --- the splitter ---------------------------------------------------------------


class SimpleCommand(NamedTuple):
    """A program with its arguments, between two operators."""

    words: list[str]
    """Without quotes; assignments come first, then the program."""
    files: list[str]
    """Files that its output is redirected into."""


class Script(NamedTuple):
    """A text, split like a shell does."""

    commands: list[SimpleCommand]
    inner: list[str]
    """Texts of commands in backticks, and of those in a quoted `$(…)`."""
    whole: bool
    """True if all of it was understood; False: a quote or bracket is not closed."""


_PART: Final = re.compile(
    r"""'[^']*' | "(?:[^"\\]|\\.)*" | `[^`]*` | \\. | \$\(\([^()]*\)\)
    | [^\s;&|()<>'"`\\$] | \$(?!\()""",
    re.DOTALL | re.VERBOSE,
)
"""Parts of a word: quoted, in backticks, escaped, computed, or one plain character."""
_TOKEN: Final = re.compile(
    rf"""(?P<comment>(?<![^\s;&|()])\#[^\n]*)
    | (?P<target>(?:\d+|&)?>(?!\()[>|&]?)
    | (?P<source>\d*<(?!\()[<>&-]*)
    | (?P<word>(?:{_PART.pattern})+)
    | (?P<substitution>[$<>]\()
    | (?P<closing>\))
    | (?P<end>[;&|(\n]+)
    | (?P<unclosed>['"`\\])""",
    re.DOTALL | re.VERBOSE,
)
_SUBSTITUTION: Final = re.compile(
    r"\$\((?!\()(?P<bracket>(?:[^()]|\((?:[^()]|\([^()]*\))*\))*)\)|`(?P<backtick>[^`]*)`"
)


def split_script(text: str) -> Script:
    """Split a text into commands; nothing is run."""
    commands = [SimpleCommand([], [])]
    around: list[SimpleCommand] = []
    inner: list[str] = []
    operator, whole = "", True
    for token in _TOKEN.finditer(text.replace("\\\n", "")):
        match token.lastgroup:
            case "target" | "source":
                operator = token[0]
            case "word":
                word = _unquote(token[0], inner)
                if not operator:
                    commands[-1].words.append(word)
                elif ">" in operator and not (operator[-1] == "&" and word in "0123-"):
                    commands[-1].files.append(word)
                operator = ""
            case "substitution":
                around.append(commands[-1])
                commands.append(SimpleCommand([], []))
            case "closing" if around:
                commands.append(around.pop())  # its words go on after the bracket
            case "closing" | "end":
                commands.append(SimpleCommand([], []))
            case "unclosed":
                whole = False
            case _:
                pass  # a comment
    parts = {id(each): each for each in commands if each.words or each.files}
    return Script([*parts.values()], inner, whole and not around)


def _unquote(word: str, inner: list[str]) -> str:
    """Return a word without its quotes; add to `inner` the commands that are inside."""
    pieces: list[str] = []
    for part in _PART.findall(word):
        match part[0]:
            case "'":
                pieces.append(part[1:-1])
            case '"':
                pieces.append(re.sub(r"\\(.)", r"\1", part[1:-1], flags=re.DOTALL))
                inner += [each[1] or each[2] or "" for each in _SUBSTITUTION.finditer(part)]
                _, deeper, rest = _SUBSTITUTION.sub("", part).partition("$(")
                inner += [f"{deeper}{rest}"] if deeper and rest[:1] != "(" else []
            case "`":
                inner.append(part[1:-1])
            case "\\":
                pieces.append(part[1])
            case _:
                pieces.append(part)
    return "".join(pieces)


# --- calls ----------------------------------------------------------------------


def _to_set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_SHELLS: Final = _to_set("exec bash shell local_shell run_command terminal")
_READING_TOOLS: Final = _to_set(
    "read ls find grep glob search image view_image pdf view web_search web_fetch "
    "x_search memory_search memory_get sessions_list sessions_history sessions_search "
    "session_status agents_list conversations_list tool_search tool_describe get_goal "
    "update_plan progress_card"
)
_WRITING_TOOLS: Final = _to_set("write edit apply_patch")
_SENDING_TOOLS: Final = _to_set("message sessions_send tts")
_READING_ACTIONS: Final[Mapping[str, frozenset[str]]] = {
    "message": _to_set("read search list reactions thread-list"),
    "process": _to_set("poll log list"),
    "browser": _to_set("status tabs snapshot screenshot console pdf"),
    "cron": _to_set("status list runs get"),
    "automations": _to_set("status list runs get"),
}
_READING_VERBS: Final = _to_set("get list read search find fetch view")
_READING_METHODS: Final = _to_set("GET HEAD OPTIONS TRACE")
_WRITING_METHODS: Final = _to_set("POST PUT PATCH DELETE")
_SENDING_WORDS: Final = _to_set(
    "send reply forward post publish push deploy release upload submit pay charge "
    "refund transfer purchase buy order checkout invite tweet merge notify yank unpublish"
)
"""Words in names of tools, scripts and subcommands that send something out."""
_DEPTH_LIMIT: Final = 4
"""Deepest nesting of commands to judge."""


def judge_call(
    tool: str, about: str, method: str | None = None, *, changed: bool = False
) -> Effect:
    """Judge what a tool call may have changed.

    Args:
        tool: The tool's name.
        about: The command, if the tool runs one; it ends in `…` if it was cut.
        method: The HTTP method or action; None: none.
        changed: True if files were seen to change; this counts only for an unknown effect.
    """
    effect = _judge_script(about) if is_shell(tool) else _judge_tool(tool.lower(), method or "")
    return Effect.FILES if changed and effect is Effect.OTHER else effect


def is_shell(tool: str) -> bool:
    """Return True if a tool runs commands, which end with an exit status."""
    return tool.lower() in _SHELLS


def _judge_tool(tool: str, method: str) -> Effect:
    # MCP tools are named `server__tool`.
    words = _split_name(tool.rpartition("__")[2])
    sends = words[0] not in _READING_VERBS and _SENDING_WORDS.intersection(words)
    reads = method.lower() in _READING_ACTIONS.get(tool, ())
    if tool in _WRITING_TOOLS:
        return Effect.FILES
    if method.upper() in _WRITING_METHODS:
        return Effect.OUTSIDE
    if reads or method.upper() in _READING_METHODS or tool in _READING_TOOLS:
        return Effect.NOTHING
    return Effect.OUTSIDE if sends or tool in _SENDING_TOOLS else Effect.OTHER


def _split_name(name: str) -> list[str]:
    return re.split(r"[^a-z0-9]+", name.lower())


def _find_gravest(effects: Iterable[Effect]) -> Effect:
    return min(effects, key=GRAVEST_FIRST.index, default=Effect.NOTHING)


# --- commands -------------------------------------------------------------------


_HERE_DOCUMENT: Final = re.compile(r"(?<!<)<<-?[ \t]*(['\"]?)(\w+)\1")
_DISCARDS: Final = ("/dev/null", "/dev/stdout", "/dev/stderr", "/dev/tty")
_BEGINNINGS: Final = _to_set("if then elif else do while until ! { time")
_ENDINGS: Final = _to_set("fi done esac } for select")
_WRAPPERS: Final = _to_set(
    "sudo env nohup nice ionice timeout stdbuf command exec xargs setsid npx bunx pnpx uvx"
)
_ASSIGNMENT: Final = re.compile(r"[A-Za-z_]\w*=")
_DURATION: Final = re.compile(r"[0-9.]+[smhd]?")


def _judge_script(text: str, depth: int = 0) -> Effect:
    if depth > _DEPTH_LIMIT:
        return Effect.OTHER
    script = split_script(_drop_here_documents(text))
    effects = [_judge_words(command.words, depth) for command in script.commands]
    effects += [_judge_script(inner, depth + 1) for inner in script.inner]
    if any({*command.files}.difference(_DISCARDS) for command in script.commands):
        effects.append(Effect.FILES)
    if not script.whole or text.endswith(ELLIPSIS):
        effects.append(Effect.OTHER)
    return _find_gravest(effects)


def _drop_here_documents(text: str) -> str:
    """Drop the lines that commands are given as input; all stay if the input has no end."""
    lines: list[str] = []
    ends: list[str] = []
    for line in text.split("\n"):
        if not ends:
            lines.append(line)
            ends = [match[2] for match in _HERE_DOCUMENT.finditer(line)]
        elif line.strip() == ends[0]:
            del ends[0]
    return text if ends else "\n".join(lines)


def _judge_words(words: Sequence[str], depth: int) -> Effect:
    """Judge what a simple command may have changed."""
    while words and (words[0] in _BEGINNINGS or _ASSIGNMENT.match(words[0])):
        words = words[1:]
    if not words or words[0] in _ENDINGS:
        return Effect.NOTHING
    program, rest = words[0].rpartition("/")[2], words[1:]
    if program in _WRAPPERS:
        while rest and (
            rest[0].startswith("-")
            or _ASSIGNMENT.match(rest[0])
            or (program == "timeout" and _DURATION.fullmatch(rest[0]))
        ):
            rest = rest[1:]
        return _judge_words(rest, depth)
    if program in {"sh", "bash", "zsh", "dash"}:
        given = rest[rest.index("-c") + 1 :] if "-c" in rest else ()
        return _judge_script(given[0], depth + 1) if given else Effect.OTHER
    if program == "ssh":
        inner = " ".join(_list_plain_words(rest)[1:])
        reads = inner and _judge_script(inner, depth + 1) is Effect.NOTHING
        return Effect.NOTHING if reads else Effect.OUTSIDE
    if program.startswith("python") and rest[:1] == ["-m"]:
        return _judge_words(rest[1:], depth)
    own_script = words[0].startswith("./") and words[0].count("/") == 1
    return _judge_program(words[0] if own_script else program, rest)


# --- programs -------------------------------------------------------------------


_PLAIN_PROGRAMS: Final[Mapping[str, Effect]] = {
    program: effect
    for effect, programs in {
        Effect.NOTHING: (
            "cat ls head tail less more grep egrep fgrep rg ag fd wc stat file du df pwd "
            "echo printf true false test [ [[ : which whereis type whoami id date uname "
            "hostname printenv ps top htop pgrep uptime free lsof ss netstat diff cmp uniq "
            "cut tr jq column nl od xxd hexdump strings tree realpath readlink basename "
            "dirname md5sum sha1sum sha256sum sha512sum cksum sleep wait cd pushd popd "
            "export set unset seq man history ping dig nslookup host journalctl dmesg "
            "lsblk zcat zgrep bat tac rev comm join paste fold expr bc read shift exit "
            "return break continue local alias trap "
            # What can be repeated:
            "pytest unittest tox nox jest vitest mocha rspec phpunit ctest mypy pyright "
            "flake8 pylint tsc shellcheck golangci-lint gcc g++ cc clang "
            "clang++ rustc javac ld webpack rollup esbuild tsup xcodebuild"
        ),
        Effect.FILES: (
            "cp mv rm rmdir mkdir touch tee ln chmod chown truncate dd install patch unzip "
            "zip gzip gunzip bzip2 xz split mktemp black isort"
        ),
        Effect.OUTSIDE: "mail mailx sendmail msmtp mutt swaks ansible-playbook rclone sftp ftp",
    }.items()
    for program in programs.split()
}
_LOCAL: Final = _to_set(
    "npm yarn pnpm bun cargo go pip pip3 uv poetry gem mvn ./mvnw gradle ./gradlew dotnet "
    "docker podman apt apt-get brew systemctl ruff"
)
"""Programs whose subcommands tell their effect, and that mostly work here."""
_REMOTE: Final = _to_set(
    "glab stripe aws gcloud az doctl heroku fly flyctl vercel netlify wrangler firebase "
    "serverless sls cdk pulumi twilio kubectl helm terraform tofu twine"
)
"""Programs that change something outside unless their subcommand only looks."""
_VERB_FIRST: Final = _to_set("kubectl helm terraform tofu twine")
"""Those of them whose first word is a verb; of the others it may be the second."""
_LOOKING_WORDS: Final = _to_set(
    "list ls view show status get describe logs search info version help ps diff images "
    "inspect top stats events checks check watch browse explain api-resources wait plan "
    "validate output graph template history retrieve listen whoami log rev blame grep fetch "
    "shortlog reflog cat merge-base outdated why audit pack freeze tree doc metadata vet env "
    "policy is rule"
)
"""Subcommands that only look, or first parts of them."""
_REPEATABLE_WORDS: Final = _to_set(
    "all build test tests t b c lint compile typecheck types coverage bench verify "
    "package help clippy assemble"
)
"""Subcommands, scripts and targets that may be run again, or first parts of them."""
_WRITING_WORDS: Final = _to_set(
    "add commit checkout switch restore merge rebase pull clone init reset rm mv apply am "
    "cherry-pick revert clean worktree submodule bisect gc stash install i ci remove uninstall "
    "update upgrade link dedupe download sync lock venv new fmt fix format vendor mod generate "
    "work cp save"
)
"""Subcommands that write files here."""
_WRITING_WORDS_OF_REMOTE: Final = _to_set("clone download checkout init fmt")
_WRITING_OPTIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "sed": ("-i", "--in-place"),
    "sort": ("-o", "--output"),
    "yq": ("-i", "--inplace"),
    "find": ("-delete", "-exec", "-ok", "-fprint", "-fls"),
    "eslint": ("--fix",),
    "cmake": ("--install",),
    "prettier": ("--write", "-w"),
}
"""Beginnings of the options without which a program only reads."""
_VALUED_OPTIONS: Final = _to_set(
    "-C -c -n -f -H -w --git-dir --work-tree --namespace --context --prefix --profile "
    "--region --filter --workspace --cwd --dir --project --org --app -a"
)
"""Options with a value that may come before a subcommand."""


def _judge_program(program: str, words: Sequence[str]) -> Effect:
    """Judge a program that is no shell; one that is in no table is judged by its words."""
    if words and {*words} <= {"--version", "--help", "-V"}:
        return Effect.NOTHING
    if judge := _JUDGES.get(program):
        return judge(words)
    if effect := _PLAIN_PROGRAMS.get(program):
        return effect
    if options := _WRITING_OPTIONS.get(program):
        return Effect.FILES if any(w.startswith(options) for w in words) else Effect.NOTHING
    subcommands = _list_subcommands(words)[: 1 if program in _VERB_FIRST else 2]
    if program in _LOCAL or program in _REMOTE:
        return _judge_subcommands(subcommands, remote=program in _REMOTE)
    names = {part for each in (program, *subcommands) for part in _split_name(each)}
    return Effect.OUTSIDE if _SENDING_WORDS & names else Effect.OTHER


def _judge_subcommands(words: Sequence[str], *, remote: bool) -> Effect:
    harmless = _LOOKING_WORDS if remote else _LOOKING_WORDS | _REPEATABLE_WORDS
    for word in words:
        names = _split_name(word)
        if word in (_WRITING_WORDS_OF_REMOTE if remote else _WRITING_WORDS):
            return Effect.FILES
        if word not in harmless and _SENDING_WORDS.intersection(names):
            return Effect.OUTSIDE
        if word in harmless or names[0] in harmless:
            return Effect.NOTHING
    return Effect.OUTSIDE if remote else Effect.OTHER


def _list_subcommands(words: Sequence[str]) -> list[str]:
    """Return the plain words; the value of an unknown option may be mistaken for one."""
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in _VALUED_OPTIONS else 1 :]
    return _list_plain_words(words)


def _list_plain_words(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


_GIT_LOOKS: Final[Mapping[str, frozenset[str]]] = {
    "branch": _to_set("--list -l -a -r -v -vv"),
    "tag": _to_set("--list -l -n"),
    "remote": _to_set("show get-url -v"),
    "config": _to_set("get list --get --list -l"),
}
"""Words with which a subcommand of git only shows something, as it does without any."""


def _judge_git(words: Sequence[str]) -> Effect:
    subcommands = _list_subcommands(words)
    looks = _GIT_LOOKS.get(subcommands[0]) if subcommands else None
    if looks is None:
        return _judge_subcommands(subcommands[:2], remote=False)
    is_look = len(subcommands) == 1 or not looks.isdisjoint(words)
    return Effect.NOTHING if is_look else Effect.FILES


def _judge_tar(words: Sequence[str]) -> Effect:
    lists = not {"-t", "-tf", "-tzf", "-tvf", "tf", "tzf", "tvf", "--list"}.isdisjoint(words)
    return Effect.NOTHING if lists else Effect.FILES


def _judge_targets(words: Sequence[str]) -> Effect:
    """Judge make and similar programs by all their targets; without any, they build."""
    targets = [each for each in _list_subcommands(words) if "=" not in each]
    return _find_gravest(_judge_subcommands([target], remote=False) for target in targets)


_CURL_OPTIONS: Final = "".join(
    f"{letter}:" if letter in "AbcCDeEhHKmPQrtuUwxXyYzdFTo" else letter
    for letter in f"{string.ascii_letters}{string.digits}#"
)


def _judge_curl(words: Sequence[str]) -> Effect:
    """Judge curl, whose short options may stand together, before the value of the last."""
    short = [word for word in words if not word.startswith("--")]
    try:
        options, _ = gnu_getopt([*short, ""], _CURL_OPTIONS)
    except GetoptError:
        return Effect.OUTSIDE
    names = {name for name, _ in options}
    methods = [value for name, value in options if name == "-X"]
    methods += re.findall(r"^--request[\n=](.*)$", "\n".join(words), re.MULTILINE)
    if methods:
        writes = any(method.upper() not in _READING_METHODS for method in methods)
    else:
        sending = ("--data", "--form", "--json", "--upload-file")
        sends = names & {"-d", "-F", "-T"} or any(word.startswith(sending) for word in words)
        writes = sends and not (names & {"-G", "-I"} or {"--get", "--head"} & {*words})
    if writes:
        return Effect.OUTSIDE
    files = {value for name, value in options if name == "-o"} - {"/dev/null", "-"}
    saves = files or "-O" in names or {"--output", "--remote-name"} & {*words}
    return Effect.FILES if saves else Effect.NOTHING


def _judge_wget(words: Sequence[str]) -> Effect:
    given = {word.partition("=")[0] for word in words}
    if given & {"--post-data", "--post-file", "--method", "--body-data", "--body-file"}:
        return Effect.OUTSIDE
    shows = "--spider" in given or {"-O-", "-qO-"} & given or {"-O", "-"} <= given
    return Effect.NOTHING if shows else Effect.FILES


def _judge_httpie(words: Sequence[str]) -> Effect:
    plain = _list_plain_words(words)
    method = next((word for word in plain if word.isupper()), "")
    fields = any(re.search(r"(?<![=:?])(:=|=)(?!=)", each) for each in plain[1:])
    writes = method not in _READING_METHODS if method else fields
    return Effect.OUTSIDE if writes else Effect.NOTHING


_GH_WRITING_OPTIONS: Final = ("-X", "--method", "-f", "-F", "--field", "--raw-field", "--input")


def _judge_gh(words: Sequence[str]) -> Effect:
    """Judge GitHub's program, whose `api` writes if it is given a method or a field."""
    subcommands = _list_subcommands(words)
    if subcommands[:1] != ["api"]:
        return _judge_subcommands(subcommands[:2], remote=True)
    for option, method in pairwise(words):
        if option in {"-X", "--method"}:
            return Effect.NOTHING if method in _READING_METHODS else Effect.OUTSIDE
    sends = any(word.startswith(_GH_WRITING_OPTIONS) for word in words)
    return Effect.OUTSIDE if sends else Effect.NOTHING


def _judge_copy(words: Sequence[str]) -> Effect:
    """Judge scp and rsync: they send if the last argument names a host."""
    target = _list_plain_words(words)[-1:]
    return Effect.OUTSIDE if target and ":" in target[0] else Effect.FILES


def _judge_awk(words: Sequence[str]) -> Effect:
    doubtful = any(sign in word for word in words for sign in (">", "|", "system"))
    return Effect.OTHER if doubtful else Effect.NOTHING


_JUDGES: Final[Mapping[str, Callable[[Sequence[str]], Effect]]] = {
    "git": _judge_git,
    "gh": _judge_gh,
    "curl": _judge_curl,
    "wget": _judge_wget,
    "tar": _judge_tar,
    **dict.fromkeys(("scp", "rsync"), _judge_copy),
    **dict.fromkeys(("awk", "gawk"), _judge_awk),
    **dict.fromkeys(("http", "https", "xh", "xhs"), _judge_httpie),
    **dict.fromkeys(("make", "gmake", "just", "ninja", "meson"), _judge_targets),
}
