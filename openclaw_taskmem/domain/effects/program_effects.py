"""Judge by its name and arguments what a program may have changed.

Tests, builds and linters count as harmless, like reading: they can be repeated. A program that is
not in these tables may have done anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import StrEnum
from typing import Final, NamedTuple


def to_word_set(words: str) -> frozenset[str]:
    """Split a text into a set of words."""
    return frozenset(words.split())


class Effect(StrEnum):
    """What a call may have changed, the gravest first."""

    OUTSIDE = "outside"
    """Something outside this machine: sent, paid, pushed, deployed, written by HTTP."""
    FILES = "files"
    """Files on this machine."""
    OTHER = "other"
    """Not known."""
    NOTHING = "nothing"
    """Nothing: it only read, or can be repeated without harm, such as a test or a build."""


GRAVEST_FIRST: Final = tuple(Effect)
READING_METHODS: Final = to_word_set("GET HEAD OPTIONS TRACE")
"""HTTP methods that only read."""
SENDS: Final = to_word_set(
    "send reply forward post publish push deploy release upload submit pay charge "
    "refund transfer purchase buy order checkout invite tweet merge notify"
)
"""Words in names of tools, scripts and subcommands that send something out."""
WORDS: Final = re.compile(r"[^a-z0-9]+")
"""Separators between the words of a name in lower case."""
_REPEATABLE: Final = to_word_set(
    "all build test tests check lint compile typecheck types coverage bench verify "
    "package clean help"
)
"""Names of scripts and targets that may be run again."""


def find_gravest(effects: Iterable[Effect]) -> Effect:
    """Return the gravest effect; without any, `NOTHING`."""
    return min(effects, key=GRAVEST_FIRST.index, default=Effect.NOTHING)


def judge_program(program: str, words: Sequence[str]) -> Effect:
    """Judge what a program with its arguments may have changed."""
    if words and {*words} <= {"--version", "--help", "-V"}:
        return Effect.NOTHING
    if program in _SPECIAL:
        return _SPECIAL[program](words)
    if program in _PROGRAMS:
        return _PROGRAMS[program].judge(words)
    for effect, programs in _PLAIN_PROGRAMS.items():
        if program in programs:
            return effect
    return _judge_name(program, list_plain_words(words)[:2])


def _judge_name(program: str, words: Sequence[str]) -> Effect:
    """Judge an unknown program by the words of its name and subcommand."""
    named = {part for each in (program, *words) for part in WORDS.split(each.lower())}
    return Effect.OUTSIDE if SENDS & named else Effect.OTHER


def list_plain_words(words: Sequence[str]) -> list[str]:
    """Return the words that are not options."""
    return [word for word in words if not word.startswith("-")]


_PLAIN_PROGRAMS: Final[Mapping[Effect, frozenset[str]]] = {
    Effect.NOTHING: to_word_set(
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
    Effect.FILES: to_word_set(
        "cp mv rm rmdir mkdir touch tee ln chmod chown truncate dd install patch unzip "
        "zip gzip gunzip bzip2 xz split mktemp black isort"
    ),
    Effect.OUTSIDE: to_word_set(
        "mail mailx sendmail msmtp mutt swaks ansible-playbook rclone sftp ftp"
    ),
}


class _Program(NamedTuple):
    """A program whose subcommands tell its effect.

    Subcommands are separated by blanks; one that ends in `*` stands for all that begin so.
    """

    nothing: str = ""
    files: str = ""
    outside: str = ""
    rest: Effect = Effect.OTHER
    """Effect of other subcommands."""

    def judge(self, words: Sequence[str]) -> Effect:
        """Judge the first two words that are no options.

        The value of an unknown option may be mistaken for a subcommand.
        """
        for word in _list_subcommands(words)[:2]:
            for effect, known in (
                (Effect.OUTSIDE, self.outside),
                (Effect.FILES, self.files),
                (Effect.NOTHING, self.nothing),
            ):
                if any(_is_word(word, each) for each in known.split()):
                    return effect
        return self.rest


def _is_word(word: str, known: str) -> bool:
    return word.startswith(known[:-1]) if known.endswith("*") else word == known


_VALUED: Final = to_word_set(
    "-C -c -n -f -H -w --git-dir --work-tree --namespace --context --prefix --profile "
    "--region --filter --workspace --cwd --dir --project --org --app -a"
)
"""Options with a value that may come before a subcommand."""


def _list_subcommands(words: Sequence[str]) -> list[str]:
    while words and words[0].startswith("-"):
        words = words[2 if words[0] in _VALUED else 1 :]
    return list_plain_words(words)


_LOOKS: Final = "list ls view show status get describe logs search info version help "
_CLOUD: Final = _Program(
    nothing=_LOOKS + "describe* list* get-* logs ps whoami diff", rest=Effect.OUTSIDE
)
_PROGRAMS: Final[Mapping[str, _Program]] = {
    "gh": _Program(
        nothing=_LOOKS + "diff checks watch browse",
        files="clone download checkout",
        rest=Effect.OUTSIDE,
    ),
    "glab": _Program(nothing=_LOOKS + "diff", files="clone", rest=Effect.OUTSIDE),
    "cargo": _Program(
        nothing="build test check clippy doc bench tree metadata search b t c",
        files="add remove install update init new fmt fix clean vendor",
        outside="publish yank owner",
    ),
    "go": _Program(
        nothing="build test vet list version env doc",
        files="get mod install generate fmt work clean",
    ),
    "pip": _Program(nothing="list show freeze check search", files="install uninstall download"),
    "uv": _Program(
        nothing="tree list show build",
        files="add remove sync lock install uninstall venv init",
        outside="publish",
    ),
    "poetry": _Program(
        nothing="show check build", files="add remove install lock", outside="publish"
    ),
    "twine": _Program(nothing="check", outside="upload register"),
    "gem": _Program(nothing=_LOOKS, files="install uninstall build", outside="push"),
    "mvn": _Program(nothing="compile test package verify clean", outside="deploy"),
    "gradle": _Program(nothing="build test check assemble", outside="publish*"),
    "dotnet": _Program(nothing="build test list", files="add restore", outside="push"),
    "docker": _Program(
        nothing=_LOOKS + "ps images inspect build top stats port events",
        files="pull cp save",
        outside="push",
    ),
    "kubectl": _Program(
        nothing=_LOOKS + "top explain api-resources diff auth wait", rest=Effect.OUTSIDE
    ),
    "helm": _Program(nothing=_LOOKS + "template lint history", rest=Effect.OUTSIDE),
    "terraform": _Program(
        nothing="plan show validate output graph version", files="init fmt get", rest=Effect.OUTSIDE
    ),
    "systemctl": _Program(nothing="status show list* is-* cat"),
    "ruff": _Program(nothing="check rule", files="format"),
    **dict.fromkeys(("ninja", "meson"), _Program(files="install", rest=Effect.NOTHING)),
    "stripe": _Program(nothing=_LOOKS + "retrieve listen logs", rest=Effect.OUTSIDE),
    "apt": _Program(nothing=_LOOKS + "policy", files="install remove update upgrade"),
    "brew": _Program(nothing=_LOOKS, files="install uninstall upgrade update"),
    **dict.fromkeys(
        to_word_set(
            "aws gcloud az doctl heroku fly flyctl vercel netlify wrangler firebase "
            "serverless sls cdk pulumi twilio"
        ),
        _CLOUD,
    ),
}


_GIT_SHOWS: Final[Mapping[str, frozenset[str]]] = {
    "branch": to_word_set("--list -l -a -r -v -vv"),
    "tag": to_word_set("--list -l -n"),
    "remote": to_word_set("show get-url -v"),
    "stash": to_word_set("list show"),
    "config": to_word_set("get list --get --list -l"),
}
"""Arguments with which git subcommands only show something."""


def _judge_git(words: Sequence[str]) -> Effect:
    sub = _list_subcommands(words)
    if sub and sub[0] in _GIT_SHOWS:
        only = len(sub) == 1 and sub != ["stash"]
        shows = _GIT_SHOWS[sub[0]] & {*words}
        return Effect.NOTHING if only or shows else Effect.FILES
    return _Program(
        nothing="status log diff show rev-parse ls-files ls-tree ls-remote blame grep "
        "describe fetch shortlog reflog cat-file rev-list merge-base version help",
        files="add commit checkout switch restore merge rebase pull clone init reset "
        "rm mv apply am cherry-pick revert clean worktree submodule bisect gc",
        outside="push send-email",
    ).judge(words)


def _judge_npm(words: Sequence[str]) -> Effect:
    """Judge npm and similar programs; a package's scripts are judged by their names."""
    sub = _list_subcommands(words)
    if sub[:1] == ["run"] or sub[:1] == ["run-script"]:
        return find_gravest([_judge_script_name(name) for name in sub[1:2]])
    known = _Program(
        nothing="ls list view info outdated why audit t pack",
        files="install i ci add remove uninstall update upgrade link dedupe init",
        outside="publish unpublish deprecate dist-tag access owner",
    ).judge(words)
    return _judge_script_name(sub[0]) if known is Effect.OTHER and sub else known


def _judge_make(words: Sequence[str]) -> Effect:
    targets = [each for each in _list_subcommands(words) if "=" not in each]
    return find_gravest([_judge_script_name(each) for each in targets])


def _judge_script_name(name: str) -> Effect:
    words = WORDS.split(name.lower())
    if SENDS.intersection(words):
        return Effect.OUTSIDE
    return Effect.NOTHING if words[0] in _REPEATABLE else Effect.OTHER


_CURL_VALUED: Final = "AbcCDeEhHKmPQrtuUwxXyYzdFTo"
"""curl's short options that take a value."""


def _judge_curl(words: Sequence[str]) -> Effect:
    method, sends, saves, asks = "", False, False, False
    left = [*words]
    while left:
        word = left.pop(0)
        name, sign, value = word.partition("=")
        if word.startswith("--"):
            if name == "--request":
                method = value if sign else (left.pop(0) if left else "")
            sends |= name.startswith(("--data", "--form", "--json", "--upload-file"))
            saves |= name in {"--output", "--remote-name"}
            asks |= name in {"--get", "--head"}
        elif word.startswith("-"):
            for place, letter in enumerate(word[1:], 2):
                asks |= letter in "GI"
                sends |= letter in "dFT"
                saves |= letter in "oO"
                if letter in _CURL_VALUED:
                    given = word[place:] or (left.pop(0) if left else "")
                    method = given if letter == "X" else method
                    saves = saves and (letter != "o" or given not in {"/dev/null", "-"})
                    break
    writes = method.upper() not in READING_METHODS if method else sends and not asks
    return Effect.OUTSIDE if writes else Effect.FILES if saves else Effect.NOTHING


def _judge_wget(words: Sequence[str]) -> Effect:
    given = {word.partition("=")[0] for word in words}
    if given & {"--post-data", "--post-file", "--method", "--body-data", "--body-file"}:
        return Effect.OUTSIDE
    shows = "--spider" in given or {"-O-", "-qO-"} & given or ("-O" in given and "-" in given)
    return Effect.NOTHING if shows else Effect.FILES


def _judge_httpie(words: Sequence[str]) -> Effect:
    plain = list_plain_words(words)
    method = next((word for word in plain if word.isupper()), "")
    fields = any(re.search(r"(?<![=:?])(:=|=)(?!=)", each) for each in plain[1:])
    writes = method not in READING_METHODS if method else fields
    return Effect.OUTSIDE if writes else Effect.NOTHING


def _judge_gh_api(words: Sequence[str]) -> Effect:
    if _list_subcommands(words)[:1] != ["api"]:
        return _PROGRAMS["gh"].judge(words)
    given = [*words]
    for option in ("-X", "--method"):
        if option in given[:-1]:
            method = given[given.index(option) + 1]
            return Effect.NOTHING if method in READING_METHODS else Effect.OUTSIDE
    sends = {"-f", "-F", "--field", "--raw-field", "--input"} & {*given}
    joined = any(each.startswith(("-X", "--method=")) for each in given)
    return Effect.OUTSIDE if sends or joined else Effect.NOTHING


def _judge_copy(words: Sequence[str]) -> Effect:
    """Judge scp and rsync: they send if the last argument names a host."""
    to = list_plain_words(words)[-1:]
    return Effect.OUTSIDE if to and ":" in to[0] else Effect.FILES


def _build_reader_judge(
    *options: str, effect: Effect = Effect.FILES
) -> Callable[[Sequence[str]], Effect]:
    """Build the judge of a program that only reads, unless it gets one of some options."""

    def judge(words: Sequence[str]) -> Effect:
        given = any(word.startswith(options) for word in words)
        return effect if given else Effect.NOTHING

    return judge


def _build_writer_judge(*options: str) -> Callable[[Sequence[str]], Effect]:
    """Build the judge of a program that writes files, unless it gets one of some options."""

    def judge(words: Sequence[str]) -> Effect:
        reads = any(word in options for word in words)
        return Effect.NOTHING if reads else Effect.FILES

    return judge


def _judge_awk(words: Sequence[str]) -> Effect:
    doubtful = any(sign in word for word in words for sign in (">", "|", "system"))
    return Effect.OTHER if doubtful else Effect.NOTHING


_SPECIAL: Final[Mapping[str, Callable[[Sequence[str]], Effect]]] = {
    "git": _judge_git,
    "gh": _judge_gh_api,
    "curl": _judge_curl,
    "wget": _judge_wget,
    "scp": _judge_copy,
    "rsync": _judge_copy,
    "awk": _judge_awk,
    "gawk": _judge_awk,
    "sed": _build_reader_judge("-i", "--in-place"),
    "sort": _build_reader_judge("-o", "--output"),
    "yq": _build_reader_judge("-i", "--inplace"),
    "find": _build_reader_judge("-delete", "-exec", "-ok", "-fprint", "-fls", effect=Effect.OTHER),
    "eslint": _build_reader_judge("--fix"),
    "cmake": _build_reader_judge("--install"),
    "prettier": _build_reader_judge("--write", "-w"),
    "tar": _build_writer_judge("-t", "-tf", "-tzf", "-tvf", "tf", "tzf", "tvf", "--list"),
    **dict.fromkeys(("http", "https", "xh", "xhs"), _judge_httpie),
    **dict.fromkeys(("npm", "yarn", "pnpm", "bun"), _judge_npm),
    **dict.fromkeys(("make", "gmake", "just"), _judge_make),
    "pip3": _PROGRAMS["pip"].judge,
    "tofu": _PROGRAMS["terraform"].judge,
    "podman": _PROGRAMS["docker"].judge,
    "apt-get": _PROGRAMS["apt"].judge,
    "./gradlew": _PROGRAMS["gradle"].judge,
    "./mvnw": _PROGRAMS["mvn"].judge,
}
