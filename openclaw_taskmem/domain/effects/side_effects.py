"""Split shell commands, and judge what a tool call may have changed, from facts alone.

The facts are the tool's name, its method or action, the words of its command as a shell splits
them, and whether files were seen to change. What an agent says is ignored. Tests, builds and
linters count as harmless, like reading: they can be repeated. An unknown call counts as one that
may have had an effect.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
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
    """Also those in `$(…)`, `<(…)` and `>(…)`."""
    inner: list[str]
    """Texts of commands in backticks."""
    documents: list[str]
    """Texts of here-documents: lines that a command is given as input."""
    whole: bool
    """True if all of it was understood; False: a quote, bracket or here-document is not closed,
    or brackets are nested too deep."""


_DEPTH_LIMIT: Final = 4
"""Deepest nesting of commands to judge."""
_RECURSION_LIMIT: Final = 50
"""Deepest nesting of commands to read."""
_BALANCED_TEXT: Final = r"(?:[^()]|\((?:[^()]|\((?:[^()]|\([^()]*\))*\))*\))*"
_TOKEN: Final = re.compile(
    rf"""(?P<gap>(?:[^\S\n]|\\\n)+)
    | (?P<comment>\#[^\n]*)
    | (?P<redirection>(?:\d+|&)?(?:>(?!\()[>|&]?|<(?!\()(?:<<|<-?|[>&])?))
    | (?P<arithmetic>\(\({_BALANCED_TEXT}\)\))
    | (?P<opening>\()
    | (?P<closing>\))
    | (?P<end>[;&|])
    | (?P<newline>\n)""",
    re.VERBOSE,
)
"""Tokens between words."""
_BRACKET_STEPS: Final = {"opening": 1, "closing": -1}
_PART: Final = re.compile(
    rf"""(?P<quoted>'[^']*')
    | (?P<quote>")
    | (?P<escaped>\\.)
    | (?P<backticks>`(?:[^`\\]|\\.)*`)
    | (?P<arithmetic>\$\({{2}}{_BALANCED_TEXT}\){{2}})
    | (?P<substitution>[$<>]\()
    | (?P<plain>[^\s;&|()<>'"`\\$]+|\$)
    | (?P<unclosed>['`\\])""",
    re.DOTALL | re.VERBOSE,
)
"""Parts of a word."""
_QUOTED_PART: Final = re.compile(
    rf"""(?P<escaped>\\.)
    | (?P<backticks>`(?:[^`\\]|\\.)*`)
    | (?P<arithmetic>\$\({{2}}{_BALANCED_TEXT}\){{2}})
    | (?P<substitution>\$\()
    | (?P<plain>[^"`\\$]+|\$)
    | (?P<quote>")
    | (?P<unclosed>[`\\])""",
    re.DOTALL | re.VERBOSE,
)
"""Parts of what stands in double quotes."""


def split_script(text: str) -> Script:
    """Split a text into commands; nothing is run."""
    splitter = _Splitter(text)
    splitter.read_commands()
    commands = [each for each in splitter.commands if each.words or each.files]
    return Script(commands, splitter.inner, splitter.documents, splitter.whole)


class _Splitter:
    """One walk through a text; what stands in quotes and brackets is read by recursion."""

    def __init__(self, text: str) -> None:
        self.text, self.at, self.depth = text, 0, 0
        self.commands: list[SimpleCommand] = []
        self.inner: list[str] = []
        self.documents: list[str] = []
        self.whole = True
        self.pending: list[tuple[str, bool]] = []
        """The last lines of the here-documents that begin on the next line, and whether commands
        in them are run."""

    def read_commands(self) -> None:
        """Read commands, up to the bracket that closes them or the end of the text."""
        brackets, cases, operator = 0, 0, ""
        command = self._begin_command()
        while self.at < len(self.text):
            start = self.at
            token = _TOKEN.match(self.text, start)
            if token is None:
                word = self._read_word()
                self._place_word(command, operator, word, self.text[start : self.at])
                if not operator:
                    cases += (command.words == ["case"]) - (command.words == ["esac"])
                operator = ""
                continue
            self.at = token.end()
            match token.lastgroup:
                case "redirection":
                    operator = token[0].lstrip("0123456789")
                case "gap" | "comment":
                    pass
                case "closing" if self.depth and brackets == 0 and cases <= 0:
                    return  # no pattern of `case` ends here
                case kind:
                    command = self._begin_command()
                    if kind == "arithmetic":
                        self.inner.append(token[0][2:-2])
                    elif kind == "newline":
                        self._read_documents()
                    brackets = max(brackets + _BRACKET_STEPS.get(kind or "", 0), 0)
        self.whole = self.whole and not (self.depth or self.pending)

    def _begin_command(self) -> SimpleCommand:
        self.commands.append(SimpleCommand([], []))
        return self.commands[-1]

    def _place_word(self, command: SimpleCommand, operator: str, word: str, source: str) -> None:
        if not operator:
            command.words.append(word)
        elif operator in {"<<", "<<-"}:
            self.pending.append((word, not any(sign in source for sign in "'\"\\")))
        elif ">" in operator and not (operator[-1] == "&" and word in "0123-"):
            command.files.append(word)

    def _read_documents(self) -> None:
        pending, self.pending = self.pending, []
        for last_line, runs in pending:
            start, end, line = self.at, self.at, None
            while line != last_line and self.at < len(self.text):
                end, line_end = self.at, self.text.find("\n", self.at)
                line_end = len(self.text) if line_end < 0 else line_end
                line, self.at = self.text[end:line_end].strip(), line_end + 1
            if line != last_line:
                self.whole, end = False, len(self.text)
            self.documents.append(self.text[start:end])
            if runs:
                self._look_into(self.documents[-1])

    def _read_word(self) -> str:
        """Read a word without its quotes, and the commands that are inside."""
        pieces: list[str] = []
        while part := _PART.match(self.text, self.at):
            self.at = part.end()
            match part.lastgroup:
                case "quoted":
                    pieces.append(part[0][1:-1])
                case "quote":
                    pieces.append(self._read_quoted())
                case _:
                    pieces.append(self._read_part(part))
        return "".join(pieces)

    def _read_quoted(self, *, document: bool = False) -> str:
        """Read up to the double quote that closes; a document has none."""
        pieces: list[str] = []
        while part := _QUOTED_PART.match(self.text, self.at):
            self.at = part.end()
            if part.lastgroup == "quote" and not document:
                return "".join(pieces)
            pieces.append(self._read_part(part))
        self.whole = self.whole and document
        return "".join(pieces)

    def _read_part(self, part: re.Match[str]) -> str:
        """Return the text of a part; what commands in it will print is not known."""
        match part.lastgroup:
            case "escaped":
                return part[0][1].strip("\n")  # a line that goes on
            case "backticks":
                self.inner.append(re.sub(r"\\([\\`$])", r"\1", part[0][1:-1]))
            case "substitution":
                self._read_substitution()
            case "unclosed":
                rest, self.at, self.whole = self.text[self.at :], len(self.text), False
                if part[0] != "`":
                    return rest
                self.inner.append(rest)
            case kind:
                if kind == "arithmetic":
                    self._look_into(part[0][3:-2])
                return part[0]
        return ""

    def _read_substitution(self) -> None:
        self.depth += 1
        self.whole = self.whole and self.depth <= _DEPTH_LIMIT
        if self.depth <= _RECURSION_LIMIT:
            self.read_commands()
        else:
            self.at = len(self.text)
        self.depth -= 1

    def _look_into(self, text: str) -> None:
        """Read the commands in a text that is treated as if it stood in double quotes."""
        outer, self.text, self.at = (self.text, self.at), text, 0
        self._read_quoted(document=True)
        self.text, self.at = outer


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
_WRITING_TOOLS: Final = _to_set("write edit multiedit notebookedit apply_patch")
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


def names_its_files(tool: str) -> bool:
    """Return True if a tool changes only the files that its call names, or none."""
    return tool.lower() in _WRITING_TOOLS | _READING_TOOLS


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
    script = split_script(text)
    effects = [_judge_words(command.words, depth) for command in script.commands]
    effects += [_judge_script(inner, depth + 1) for inner in script.inner]
    if any({*command.files}.difference(_DISCARDS) for command in script.commands):
        effects.append(Effect.FILES)
    if not script.whole or text.endswith(ELLIPSIS):
        effects.append(Effect.OTHER)
    return _find_gravest(effects)


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
_REPEATABLE_NAMES: Final = _to_set(
    "all build test tests check lint compile typecheck types coverage bench verify package help"
)
"""First parts of the names of scripts and targets that may be run again."""
_WRITING_NAMES: Final = _to_set("clean install fmt format fix generate vendor init update lock")
"""Names of scripts and targets that write files here."""
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


class _Program(NamedTuple):
    """A program whose subcommand tells its effect.

    Names are separated by blanks; one that ends in `*` stands for all that begin so.
    """

    nothing: str = ""
    files: str = ""
    outside: str = ""
    groups: str = ""
    """First words that only name a kind of thing: the second word is the subcommand. After any
    other first word, the second may name a service, a container or a file: it can make the
    judgement graver, never milder."""
    other: Effect = Effect.OTHER
    """Effect of other subcommands."""

    def judge(self, words: Sequence[str]) -> Effect:
        """Judge by the subcommand; a value of an unknown option may be mistaken for it."""
        subcommands = _list_subcommands(words)[:2]
        is_subcommand = True
        for word in subcommands:
            if _is_named(word, self.outside):
                return Effect.OUTSIDE
            if _is_named(word, self.files) and (is_subcommand or self.other is Effect.OTHER):
                return Effect.FILES
            if is_subcommand and _is_named(word, self.nothing):
                return Effect.NOTHING
            is_subcommand = _is_named(word, self.groups)
        return Effect.OUTSIDE if any(map(_is_sending, subcommands)) else self.other

    def judge_all(self, words: Sequence[str]) -> Effect:
        """Judge by all plain words, each of which is a target."""
        targets = _list_subcommands(words)
        return _find_gravest(self.judge([each]) for each in targets) if targets else self.other


def _is_named(word: str, names: str) -> bool:
    return any(
        word.startswith(name[:-1]) if name.endswith("*") else word == name for name in names.split()
    )


def _is_sending(name: str) -> bool:
    """Return True if a part of a name, which may be `likeThis`, says that something is sent."""
    spaced = re.sub(r"(?<=[a-z])(?=[A-Z])", "-", name)
    return not _SENDING_WORDS.isdisjoint(_split_name(name) + _split_name(spaced))


def _list_subcommands(words: Sequence[str]) -> list[str]:
    """Return the plain words; the value of an unknown option may be mistaken for one."""
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in _VALUED_OPTIONS else 1 :]
    return _list_plain_words(words)


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
    if known := _PROGRAMS.get(program):
        return known.judge(words)
    names = (program, *_list_plain_words(words)[:2])
    return Effect.OUTSIDE if any(map(_is_sending, names)) else Effect.OTHER


def _list_plain_words(words: Sequence[str]) -> list[str]:
    return [word for word in words if not word.startswith("-")]


_LOOKS: Final = "list ls view show status get describe logs search info version help "
_CLOUD: Final = f"{_LOOKS} describe-* list-* get-* ps whoami diff"
_DOCKER: Final = _Program(
    nothing=f"{_LOOKS} ps images inspect build top stats port events",
    files="pull cp save",
    outside="push",
    groups="compose image container volume network system buildx builder context manifest",
)
_PROGRAMS: Final[Mapping[str, _Program]] = {
    "gh": _Program(
        nothing=f"{_LOOKS} diff checks watch browse",
        files="clone download checkout",
        groups="*",
        other=Effect.OUTSIDE,
    ),
    "glab": _Program(nothing=f"{_LOOKS} diff", files="clone", groups="*", other=Effect.OUTSIDE),
    "git": _Program(
        nothing="status log diff show rev-parse ls-files ls-tree ls-remote blame grep "
        "describe fetch shortlog reflog cat-file rev-list merge-base version help",
        files="add commit checkout switch restore merge rebase pull clone init reset "
        "rm mv apply am cherry-pick revert clean worktree submodule bisect gc",
        outside="push send-email",
        groups="lfs notes subtree",
    ),
    **dict.fromkeys(
        ("npm", "yarn", "pnpm", "bun"),
        _Program(
            nothing="ls list view info outdated why audit t pack",
            files="install i ci add remove uninstall update upgrade link dedupe init",
            outside="publish unpublish deprecate dist-tag access owner team token org hook",
            groups="config cache global npm pm",
        ),
    ),
    "cargo": _Program(
        nothing="build test check clippy doc bench tree metadata search b t c",
        files="add remove install update init new fmt fix clean vendor",
        outside="publish yank owner",
        groups="+*",
    ),
    "go": _Program(
        nothing="build test vet list version env doc",
        files="get mod install generate fmt work clean",
    ),
    **dict.fromkeys(
        ("pip", "pip3"),
        _Program(nothing="list show freeze check search", files="install uninstall download"),
    ),
    "uv": _Program(
        nothing="tree list show build",
        files="add remove sync lock install uninstall venv init",
        outside="publish",
        groups="pip tool python",
    ),
    "poetry": _Program(
        nothing="show check build", files="add remove install lock", outside="publish"
    ),
    "twine": _Program(nothing="check", other=Effect.OUTSIDE),
    "gem": _Program(nothing=_LOOKS, files="install uninstall build", outside="push yank owner"),
    "dotnet": _Program(
        nothing="build test list",
        files="add restore",
        outside="push",
        groups="nuget tool package workload",
    ),
    "docker": _DOCKER,
    "podman": _DOCKER,
    "kubectl": _Program(
        nothing=f"{_LOOKS} top explain api-resources diff can-i wait",
        groups="config rollout auth",
        other=Effect.OUTSIDE,
    ),
    "helm": _Program(
        nothing=f"{_LOOKS} template lint history",
        groups="repo dependency plugin",
        other=Effect.OUTSIDE,
    ),
    **dict.fromkeys(
        ("terraform", "tofu"),
        _Program(
            nothing="plan show validate output graph version",
            files="init fmt get",
            groups="state workspace",
            other=Effect.OUTSIDE,
        ),
    ),
    "systemctl": _Program(nothing="status show list-* is-* cat"),
    "ruff": _Program(nothing="check rule", files="format"),
    "stripe": _Program(
        nothing=f"{_LOOKS} retrieve listen",
        outside="post delete trigger",
        groups="*",
        other=Effect.OUTSIDE,
    ),
    **dict.fromkeys(
        ("apt", "apt-get"),
        _Program(nothing=f"{_LOOKS} policy", files="install remove update upgrade"),
    ),
    "brew": _Program(nothing=_LOOKS, files="install uninstall upgrade update", groups="services"),
    "aws": _Program(
        nothing="ls help list-* describe-* get-* list get tail filter-log-events",
        groups="*",
        other=Effect.OUTSIDE,
    ),
    **dict.fromkeys(
        ("gcloud", "az", "doctl"), _Program(nothing=_CLOUD, groups="*", other=Effect.OUTSIDE)
    ),
    **dict.fromkeys(
        _to_set(
            "heroku fly flyctl vercel netlify wrangler firebase serverless sls cdk pulumi twilio"
        ),
        _Program(
            nothing=_CLOUD,
            groups="apps machine machines volumes secrets ips certs releases image config scale "
            "env domains dns alias project projects teams kv r2 d1 secret deployments versions "
            "pages queues stack plugin org",
            other=Effect.OUTSIDE,
        ),
    ),
}
_MAVEN: Final = _Program(
    nothing="compile test package verify", files="clean install", outside="deploy"
)
_GRADLE: Final = _Program(
    nothing="build test check assemble", files="clean install", outside="publish* upload* deploy*"
)


_GIT_LOOKS: Final[Mapping[str, frozenset[str]]] = {
    "branch": _to_set("--list -l -a -r -v -vv"),
    "tag": _to_set("--list -l -n"),
    "remote": _to_set("show get-url -v"),
    "stash": _to_set("list show"),
    "config": _to_set("get list --get --list -l"),
}
"""Words with which a subcommand of git only shows something."""
_GIT_DELETIONS: Final = _to_set("-d -D --delete")


def _judge_git(words: Sequence[str]) -> Effect:
    subcommands = _list_subcommands(words)
    looks = _GIT_LOOKS.get(subcommands[0]) if subcommands else None
    if looks is None:
        return _PROGRAMS["git"].judge(words)
    given = {*subcommands[1:2], *(word for word in words if word.startswith("-"))}
    shows = given & looks or (len(subcommands) == 1 and subcommands != ["stash"])
    return Effect.NOTHING if shows and not given & _GIT_DELETIONS else Effect.FILES


def _judge_npm(words: Sequence[str]) -> Effect:
    """Judge npm and similar programs; a package's scripts are judged by their names."""
    subcommands = _list_subcommands(words)
    if subcommands[:1] in (["run"], ["run-script"]):
        return _find_gravest(_judge_script_name(name) for name in subcommands[1:2])
    if subcommands[:2] == ["audit", "fix"]:
        return Effect.FILES
    effect = _PROGRAMS["npm"].judge(words)
    is_script = effect is Effect.OTHER and subcommands
    return _judge_script_name(subcommands[0]) if is_script else effect


def _judge_script_name(name: str) -> Effect:
    if _is_sending(name):
        return Effect.OUTSIDE
    if name in _WRITING_NAMES:
        return Effect.FILES
    return Effect.NOTHING if _split_name(name)[0] in _REPEATABLE_NAMES else Effect.OTHER


def _judge_tar(words: Sequence[str]) -> Effect:
    lists = not {"-t", "-tf", "-tzf", "-tvf", "tf", "tzf", "tvf", "--list"}.isdisjoint(words)
    return Effect.NOTHING if lists else Effect.FILES


def _judge_targets(words: Sequence[str]) -> Effect:
    """Judge make and similar programs by all their targets; without any, they build."""
    targets = [each for each in _list_subcommands(words) if "=" not in each]
    return _find_gravest(map(_judge_script_name, targets))


_CURL_VALUED_LETTERS: Final = "AbcCDeEhHKmPQrtuUwxXyYzdFTo"
"""Short options of curl that take a value."""


def _judge_curl(words: Sequence[str]) -> Effect:
    """Judge curl, whose short options may stand together, before the value of the last."""
    methods: list[str] = []
    sends, saves, asks = False, False, False
    rest = [*words]
    while rest:
        word = rest.pop(0)
        name, sign, value = word.partition("=")
        if word.startswith("--"):
            if name == "--request":
                methods.append(value if sign else (rest.pop(0) if rest else ""))
            sends |= name.startswith(("--data", "--form", "--json", "--upload-file"))
            saves |= name in {"--output", "--remote-name"}
            asks |= name in {"--get", "--head"}
        elif word.startswith("-"):
            short = re.match(rf"-([^{_CURL_VALUED_LETTERS}]*)(.?)(.*)", word, re.DOTALL)
            flags, letter, value = short.groups() if short else ("", "", "")
            if letter and not value and rest:
                value = rest.pop(0)
            asks |= not {"G", "I"}.isdisjoint(flags)
            sends |= letter in {"d", "F", "T"}
            saves |= "O" in flags or (letter == "o" and value not in {"/dev/null", "-"})
            methods += [value] if letter == "X" else []
    writes = any(method.upper() not in _READING_METHODS for method in methods if method)
    if not methods or not methods[-1]:
        writes |= sends and not asks
    return Effect.OUTSIDE if writes else Effect.FILES if saves else Effect.NOTHING


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
        return _PROGRAMS["gh"].judge(words)
    if methods := {method for option, method in pairwise(words) if option in {"-X", "--method"}}:
        return Effect.NOTHING if methods <= _READING_METHODS else Effect.OUTSIDE
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
    **dict.fromkeys(("npm", "yarn", "pnpm", "bun"), _judge_npm),
    **dict.fromkeys(("mvn", "./mvnw"), _MAVEN.judge_all),
    **dict.fromkeys(("gradle", "./gradlew"), _GRADLE.judge_all),
    "curl": _judge_curl,
    "wget": _judge_wget,
    "tar": _judge_tar,
    **dict.fromkeys(("scp", "rsync"), _judge_copy),
    **dict.fromkeys(("awk", "gawk"), _judge_awk),
    **dict.fromkeys(("http", "https", "xh", "xhs"), _judge_httpie),
    **dict.fromkeys(("make", "gmake", "just", "ninja", "meson"), _judge_targets),
}
