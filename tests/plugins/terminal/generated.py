"""Conditions in the documented forms, generated from recorded outputs.

Whether and from which look on each holds is found without the matcher: from the lines
that the sensor showed, the bytes that were printed, and labels that people gave.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from random import Random

from tests.plugins.terminal.replay import Score, Step, entries, judge, steps

Truth = Callable[[int], bool]
"""Whether something holds at a look, by number."""
ENDED = 3
"""The last looks, at which nothing new came."""
PROMPTS = {
    *("bash_build_echo", "bash_session", "bash_make_fails", "psql_session"),
    *("sqlite_repl", "practice_outputs/gdb_start", "practice_outputs/node_repl"),
    *("practice_outputs/psql_session", "practice_outputs/shell_quote"),
    "practice_outputs/sqlite_session",
}
"""Outputs at whose end a prompt is back; other commands run on, or ended."""
PASSWORDS = {"passphrase", "ssh_password_prompt", "practice_outputs/vault_password"}
YES_NO = {
    *("bash_read", "dialog_box", "ssh_host_key", "terraform_waits_for_yes"),
    *("unzip_asks", "practice_outputs/confirm_removal"),
}
ASKING = {
    *("npm_init_prompt", "wizard_framework", "practice_outputs/wizard"),
    *("git_log_pager",),
    *PASSWORDS,
    *YES_NO,
}
UNCLEAR_ASKING = {
    *("python_repl", "vim_screen"),
    *(name for name in PROMPTS if "bash" not in name and "shell" not in name),
}
"""Whether these ask for input is a matter of taste."""
NUMBERS = [
    ("training_done", "loss", r"loss=([\d.]+)"),
    ("training_done", "val_acc", r"val_acc=([\d.]+)"),
    ("training_running", "loss", r"loss=([\d.]+)"),
    ("training_done", "epoch", r"epoch (\d+)"),
    ("train2", "loss", r" loss=([\d.]+)"),
    ("train2", "eval_loss", r"eval_loss=([\d.]+)"),
    ("train2", "epoch", r"epoch=(\d+)"),
    ("train2", "step", r"step=(\d+)"),
    ("train2", "acc", r" acc=([\d.]+)"),
    ("importer", "imported", r"imported ([\d,]+)"),
    ("importer", "rejected", r"([\d,]+) rejected"),
    ("importer", "left", r"([\d,]+) left"),
    ("importer", "rows", r"([\d,]+) rows"),
    ("vitest", "failed", r"(\d+) failed"),
    ("vitest", "passed", r"(\d+) passed"),
    ("restic", "errors", r"(\d+) errors"),
    ("restic", "files", r"(\d+) files|Files:\s+(\d+)"),
    ("mdadm", "finish", r"finish=([\d.]+)"),
    ("mdadm", "speed", r"speed=(\d+)"),
    ("spinner", "linking", r"linking (\d+)"),
    ("pytest_fail", "failed", r"(\d+) failed"),
    ("pytest_fail", "passed", r"(\d+) passed"),
    ("pytest_pass", "passed", r"(\d+) passed"),
    ("cargo_test_ok", "passed", r"(\d+) passed"),
    ("cargo_test_fail", "failed", r"(\d+) failed"),
    ("cargo_test_ok", "failed", r"(\d+) failed"),
    ("ffmpeg_ok", "frame", r"frame=\s*(\d+)"),
    ("ffmpeg_ok", "fps", r"fps=\s*([\d.]+)|([\d.]+) fps(?!=)"),
    ("node_test_ok", "fail", r"ℹ fail (\d+)"),
    ("kubectl_rollout", "port", r"port (\d+)"),
    ("http_server", "port", r"port (\d+)"),
    ("ruff_fail", "errors", r"Found (\d+) errors"),
    ("npm_install_ok", "packages", r"(\d+) packages"),
    ("practice_outputs/train_running", "val_loss", r"val_loss ([\d.]+)"),
    ("practice_outputs/train_running", "step", r"step (\d+)"),
    ("practice_outputs/train_running", "lr", r"lr ([\d.]+e-\d+)"),
    ("practice_outputs/train_running", "loss", r" loss ([\d.]+)"),
    ("practice_outputs/train_nan", "train_loss", r"train_loss=([\d.]+)"),
    ("practice_outputs/train_nan", "acc", r"acc=([\d.]+)"),
    ("practice_outputs/unittest_ok", "tests", r"Ran (\d+) tests"),
    ("practice_outputs/unittest_fail", "failures", r"[^d] ?failures=(\d+)"),
    ("practice_outputs/import_goes_on", "customers", r"customers: (\d+)|(\d+) customers"),
    ("practice_outputs/import_goes_on", "orders", r"orders: (\d+)|(\d+) orders"),
    ("practice_outputs/backup_failed_volume", "files", r"(\d+) files"),
    ("practice_outputs/pytest_x", "passed", r"(\d+) passed"),
    ("practice_outputs/node_test_ok", "pass", r"ℹ pass (\d+)"),
]
"""Names of numbers, and what finds their numbers in that output."""
_PLAIN = re.compile(r"\d[\d,]*(?:\.\d+)?")
OPERATORS = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
    "==": operator.eq,
}
SAID = {
    "text": (
        '"{}" appears',
        '"{}" is shown',
        'the output shows "{}"',
        'the text "{}" appears on the screen',
        "“{}” is printed",
        'wake me when it says "{}"',
    ),
    "gone": ('"{}" is gone', '"{}" disappears', '"{}" is no longer shown'),
    "regex": (
        "/{}/ appears",
        "/{}/ appears on one line",
        "the output has a line matching /{}/",
        "it prints /{}/",
    ),
    "any": ("exits", "the command exits", "it finishes", "the build is over"),
    "success": ("succeeds", "the command succeeds", "the tests pass"),
    "failure": ("fails", "the command fails", "it exits with an error"),
    "status": ("exits with {}", "the command exits with status {}"),
    "prompt": ("prompt returns", "the prompt is back", "the shell prompt returns"),
    "password": ("asks for a password", "it prompts for a password"),
    "yes_no": ("asks yes or no", "it asks for confirmation"),
    "input": ("asks for input", "the program waits for input"),
    "quiet": ("quiet for {} s", "no output for {} seconds", "it is silent for {}s"),
    "percent": ("{} %", "{}%", "progress reaches {}%", "at least {} %"),
    "number": ("{} {} {}",),
}


@dataclass(frozen=True)
class GeneratedCondition:
    """A condition, and the first look at which it holds; None: it never does."""

    output: str
    exit_status: int | None
    wake_when: str
    holds_at: int | None

    def truth(self, at: int | None) -> bool:
        """Whether it holds by a look; None: whether it ever does."""
        return self.holds_at is not None and (at is None or at >= self.holds_at)


@dataclass(frozen=True)
class Part:
    """A form in words, and when it holds."""

    words: str
    truth: Truth


class RecordedOutput:
    """An output, what was shown of it, and forms about it."""

    def __init__(self, output: str, exit_status: int | None, dice: Random) -> None:
        self.output = output
        self.exit_status = exit_status
        self.steps: list[Step] = steps(output, exit_status)
        self._name = output.removesuffix(".out")
        self._dice = dice
        self._shown = [_lines(step) for step in self.steps]
        """What was to be read at each look, typed lines left out."""
        self._numbers_seen: dict[tuple[int, object], set[float]] = {}
        every = {line for lines in self._shown for line in lines}
        # Half of a link's address is shown where the piece of output ends within it.
        self._all = sorted(x for x in every if len(x.strip()) > 3 and "8;;" not in x)

    def parts(self) -> Iterator[Part]:
        """Some forms of every kind that this output can tell something about."""
        yield from (self._text() for _ in range(6))
        yield from (self._regex() for _ in range(4))
        yield from self._gone_parts()
        yield from self._exits()
        yield self._now("prompt", self._name in PROMPTS or self.exit_status is not None)
        yield from self._asks()
        yield self._quiet()
        if not self._name.startswith("docker_pull"):  # its layers have no percentages
            yield from (self._percent() for _ in range(2))
        yield from self._numbers()

    def _say(self, kind: str, *given: object) -> str:
        return self._dice.choice(SAID[kind]).format(*given)

    def _line(self) -> str:
        return self._dice.choice(self._all) if self._all else "nothing was printed"

    def _text(self) -> Part:
        words = self._line().split(" ")
        begin = self._dice.randrange(len(words))
        count = self._dice.randint(1, 6)
        text = " ".join(words[begin : begin + count]).strip()
        if self._dice.random() < 0.4:
            text = _spoil(text, self._dice)
        text = re.sub(r'["“”\\]', "", text).strip()[:80] or "nothing"
        return Part(self._say("text", text), self._ever(lambda line: _holds(line, text)))

    def _gone_parts(self) -> Iterator[Part]:
        if any("\x1b[2J" in step.printed for step in self.steps) or not self._all:
            return
        text = re.sub(r'["“”\\]', "", self._line()).strip()[:60]
        seen = [any(_holds(line, text) for line in lines) for lines in self._shown]
        looks = range(len(self.steps))
        there = [
            any(_holds(line, text) for line in _untyped_lines(step, step.frame.tail))
            for step in self.steps
        ]

        first = next((at for at, now in enumerate(seen) if now), None)
        gone = [first is not None and at > first and not there[at] for at in looks]
        if gone != sorted(gone):
            return  # It flickers, and how long it has to be away is nobody's truth.
        yield Part(self._say("gone", text), lambda at: gone[at])

    def _regex(self) -> Part:
        line = self._line()
        begin = self._dice.randrange(max(1, len(line) - 10))
        piece = line[begin : begin + self._dice.randint(4, 30)].strip() or "nothing"
        if self._dice.random() < 0.4:
            piece = _spoil(piece, self._dice)
        pattern = re.sub(r"\d+", lambda _: r"\d+", re.escape(piece).replace(r"\ ", " "))
        pattern = pattern.replace("/", r"\/")
        if self._dice.random() < 0.3:
            pattern = f"({pattern}|no such thing)"
        if self._dice.random() < 0.2 and line.startswith(piece):
            pattern = f"^{pattern}"
        sought = re.compile(pattern)
        return Part(
            self._say("regex", pattern), self._ever(lambda line: sought.search(line) is not None)
        )

    def _exits(self) -> Iterator[Part]:
        status, over = self.exit_status, len(self.steps) - ENDED
        kinds = {
            self._say("any"): status is not None,
            self._say("success"): status == 0,
            self._say("failure"): status not in (None, 0),
            self._say("status", status or 3): status is not None and status != 0,
            self._say("status", 77): False,
        }
        for words, holds in self._dice.sample(sorted(kinds.items()), 2):
            yield Part(words, lambda at, holds=holds: holds and at >= over)

    def _asks(self) -> Iterator[Part]:
        yield self._now("password", self._name in PASSWORDS)
        yield self._now("yes_no", self._name in YES_NO)
        if self._name not in UNCLEAR_ASKING:
            yield self._now("input", self._name in ASKING)

    def _quiet(self) -> Part:
        seconds = self._dice.choice((1.5, 30, 300))
        last = [
            (step.frame.seen_at - step.frame.changed_at).total_seconds()
            if step.frame.changed_at
            else 0.0
            for step in self.steps
        ]
        return Part(self._say("quiet", seconds), lambda at: last[at] >= seconds)

    def _percent(self) -> Part:
        wanted = self._dice.randint(1, 100)

        def holds(at: int) -> bool:
            return any(value >= wanted for value in self._seen_numbers(at, _percentages))

        return Part(self._say("percent", wanted), holds)

    def _numbers(self) -> Iterator[Part]:
        for output, name, finds in NUMBERS:
            if output == self._name:
                for _ in range(3):
                    yield self._number(name, re.compile(finds))

    def _number(self, name: str, finds: re.Pattern[str]) -> Part:
        def read(text: str) -> list[float]:
            return _values(finds, text)

        values = read(self.steps[-1].printed) or [1.0]
        bound = round(self._dice.choice(values) * self._dice.choice((0.5, 1, 1, 2)), 4)
        op = self._dice.choice([*OPERATORS])

        def holds(at: int) -> bool:
            return any(OPERATORS[op](value, bound) for value in self._seen_numbers(at, read))

        said = f"{bound:f}".rstrip("0").rstrip(".")
        return Part(self._say("number", name, op, said), holds)

    def _seen_numbers(self, at: int, read: Callable[[str], Iterable[float]]) -> set[float]:
        """Numbers that were to be read by a look, and were printed to their end."""
        if (at, read) not in self._numbers_seen:
            shown = "\n".join(line for lines in self._shown[: at + 1] for line in lines)
            printed = self.steps[at].printed
            self._numbers_seen[at, read] = {*read(shown)} & {*read(printed)}
        return self._numbers_seen[at, read]

    def _now(self, kind: str, holds: bool) -> Part:
        """A form that holds at the end, or never."""
        end = len(self.steps) - ENDED
        return Part(self._say(kind), lambda at: holds and at >= end)

    def _ever(self, holds: Callable[[str], bool]) -> Truth:
        first = next((n for n, lines in enumerate(self._shown) if any(map(holds, lines))), None)
        return lambda at: first is not None and at >= first


def generate(seed: int, share: float = 1.0) -> Iterator[GeneratedCondition]:
    """Conditions of one form, and of two that are joined, over every output.

    `share`: how many of them are kept, at random.
    """
    dice = Random(seed)  # noqa: S311 - the same ones each time
    for output, exit_status in sorted(outputs().items()):
        recorded = RecordedOutput(output, exit_status, dice)
        parts = [*recorded.parts()]
        joined = [_join(*dice.sample(parts, 2), dice) for _ in range(4)]
        for part in (*parts, *joined):
            if dice.random() < share:
                looks = range(len(recorded.steps))
                at = next(filter(part.truth, looks), None)
                yield GeneratedCondition(output, exit_status, part.words, at)


def outputs() -> dict[str, int | None]:
    """Every recorded output, and the status that its command ended with."""
    lists = ("tuning", "held_out", "practice", "situations")
    return {one["output"]: one["exit_status"] for n in lists for one in entries(n)}


def score_generated(seed: int, share: float = 1.0) -> Score:
    """Judge generated conditions."""
    total = Score()
    for one in generate(seed, share):
        verdict, said = judge(one.wake_when, one.output, one.exit_status, one.truth)
        entry = {
            "output": one.output,
            "holds": one.holds_at is not None,
            "wake_when": one.wake_when,
        }
        total.add(verdict, entry, said)
    return total


def _join(one: Part, two: Part, dice: Random) -> Part:
    if dice.random() < 0.7:
        joint = dice.choice((" or ", ", or "))
        words = one.words + joint + two.words
        return Part(words, lambda at: one.truth(at) or two.truth(at))
    words = f"{one.words} and {two.words}"
    return Part(words, lambda at: one.truth(at) and two.truth(at))


def _lines(step: Step) -> list[str]:
    return [*_untyped_lines(step, step.frame.text), *_untyped_lines(step, step.frame.tail)]


def _untyped_lines(step: Step, text: str | None) -> list[str]:
    typed = {line.strip() for line in step.frame.echoes}
    lines = (text or "").split("\n")
    return [line for line in lines if line.strip() not in typed]


def _holds(line: str, text: str) -> bool:
    return text in (line if any(map(str.isupper, text)) else line.lower())


def _spoil(text: str, dice: Random) -> str:
    """Change a text a little, so that it hardly stands anywhere."""
    at = dice.randrange(max(1, len(text)))
    return dice.choice((text[:at] + "q" + text[at + 1 :], text.upper(), f"{text}x"))


_NO_PROGRESS = re.compile(r"Reading (?:package|database|state)|Building dep|\d/\d +[A-Z][a-z]")
"""What apt counts first, and the pods that kubectl lists."""
_CURL_ROW = re.compile(r" *(\d+) +[\d.]+[kMG]? +\d+ .* \d+:\d\d:\d\d ")
"""A row of curl's own meter, which begins with the percentage of the whole."""


def _percentages(printed: str) -> Iterator[float]:
    for line in printed.split("\n"):
        if _NO_PROGRESS.search(line):
            continue
        if row := _CURL_ROW.match(line):
            yield float(row[1])
        words = re.split(r"[^\w.%/,:-]+", line)
        marked = [word for word in words if re.fullmatch(r"\d+(\.\d+)?%", word)]
        marked += [
            f"{words[n]}%"
            for n in range(len(words) - 1)
            if words[n + 1] == "%" and re.fullmatch(r"\d+(\.\d+)?", words[n])
        ]
        yield from (float(word[:-1]) for word in marked)
        for word in () if marked or "%" in line else words:
            done, slash, total = word.strip(",.:").partition("/")
            if slash and _PLAIN.fullmatch(done) and _PLAIN.fullmatch(total):
                parts = [float(part.replace(",", "")) for part in (done, total)]
                if 0 < parts[1] >= parts[0]:
                    yield 100 * parts[0] / parts[1]


def _values(finds: re.Pattern[str], printed: str) -> list[float]:
    return [
        float(next(filter(None, found.groups())).replace(",", ""))
        for found in finds.finditer(printed)
    ]
