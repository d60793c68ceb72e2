"""Generate tasks from a seed: steps, a revision of the plan, and a call of unknown outcome.

A step is one sentence, so an agent that reads it anywhere (in the request, a packet, a notes file)
knows what to do from the words alone. What else is generated is known to the harness and the oracle
alone; an agent is told the request and, when its time comes, the revision.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from random import Random
from typing import Final, NamedTuple

CUT: Final = "…"
"""Ends what was shortened."""
GATE: Final = "gate.txt"
"""The file that a step with a choice looks at."""
FEWEST_STEPS: Final = 5
MOST_TASK_STEPS: Final = 30
"""Steps of a task."""
REPORT: Final = "report.txt"
"""The file that the last step of each task makes."""
_WORDS: Final = (
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "heron",
    "inlet",
    "jade",
    "kelp",
    "lotus",
    "maple",
    "north",
    "ocean",
    "pearl",
    "quartz",
    "river",
    "slate",
    "thyme",
)
_COIN: Final = (True, False)


class Kind(StrEnum):
    """Kind of a call; the value begins the step's sentence."""

    FILE = "Write"
    LINE = "Append"
    COMMIT = "Commit"
    ROW = "Insert"
    PIPELINE = "Sort"
    POST = "Post"
    PAYMENT = "Pay"
    REPLY = "Reply"
    """To somebody else, in the middle of the work; no step asks for it."""


class Call(NamedTuple):
    """A call of an agent's tool with one effect, which can be looked up."""

    kind: Kind
    mark: str
    """A word that no other step of the task has; the effect leaves it behind."""
    place: str = ""
    """The file, for those that write one."""

    @property
    def tool(self) -> str:
        """The tool, by OpenClaw's name."""
        return _TOOLS.get(self.kind, "exec")

    @property
    def about(self) -> str:
        """The gateway's words for the call: its path, command or address."""
        mark, place = self.mark, self.place
        return {
            Kind.FILE: place,
            Kind.LINE: f"echo {mark} >> {place}",
            Kind.COMMIT: f"git commit -m {mark}",
            Kind.ROW: f"sqlite3 stock.db \"INSERT INTO stock VALUES ('{mark}')\"",  # noqa: S608 - a word of ours
            Kind.PIPELINE: f"echo {mark} | cat - words.txt | sort | uniq > {place}",
            Kind.POST: f"POST http://board.test/{mark}",
            Kind.PAYMENT: f"POST http://bank.test/payments/{mark}",
            Kind.REPLY: f"to Ana: yes, {mark}",
        }[self.kind]

    @property
    def method(self) -> str | None:
        """The HTTP method; None: it is no request."""
        return "POST" if self.tool == "http" else None

    @property
    def line(self) -> str:
        """The call on one line, as people and packets write it."""
        return f"{self.tool}: {self.about}"


_TOOLS: Final = {
    Kind.FILE: "write",
    Kind.POST: "http",
    Kind.PAYMENT: "http",
    Kind.REPLY: "message",
}


def format_step(call: Call) -> str:
    """Return the sentence that asks for a call."""
    mark, place = call.mark, call.place
    return {
        Kind.FILE: f"Write {mark} to {place}",
        Kind.LINE: f"Append {mark} to {place}",
        Kind.COMMIT: f"Commit as {mark}",
        Kind.ROW: f"Insert {mark} into stock",
        Kind.PIPELINE: f"Sort {mark} and words.txt into {place}",
        Kind.POST: f"Post {mark} to the board",
        Kind.PAYMENT: f"Pay {mark}",
        Kind.REPLY: f"Reply {mark}",
    }[call.kind]


def _format_choice(word: str, call: Call, other: Call) -> str:
    """Return the sentence that asks for one of two calls, by what the gate says."""
    return f"If {GATE} says {word}: {format_step(call)}; else: {format_step(other)}"


def read_step(sentence: str, gate: str) -> Call:
    """Return the call that a step asks for; `gate`: what the gate says now.

    Raises:
        ValueError: The sentence asks for nothing that is known, for example because it was cut.
    """
    condition, _, rest = sentence.partition(": ")
    if rest:
        word = condition.removeprefix(f"If {GATE} says ")
        first, _, second = rest.partition("; else: ")
        if not second:
            raise ValueError(sentence)
        sentence = first if word == gate else second
    words = sentence.split()
    kind = Kind(words[0])
    mark = words[2] if kind is Kind.COMMIT else words[1]
    call = Call(kind, mark, words[-1] if kind in _KINDS_WITH_FILE else "")
    if CUT in sentence or format_step(call) != sentence:
        raise ValueError(sentence)
    return call


_KINDS_WITH_FILE: Final = (Kind.FILE, Kind.LINE, Kind.PIPELINE)


_KINDS: Final = (Kind.FILE, Kind.LINE, Kind.COMMIT, Kind.ROW, Kind.PIPELINE, Kind.POST)


class _TaskStep(NamedTuple):
    """A step: its sentence, and the call that is right in this task."""

    sentence: str
    call: Call


class _Revision(NamedTuple):
    """Words of the user in the middle, with another plan."""

    after: int
    """Told once that many steps are done."""
    words: str
    plan: tuple[str, ...]
    cancelled: Call


class _Unknown(NamedTuple):
    """A call whose answer is lost, the first time it is made."""

    mark: str
    happens: bool
    """True if the call had its effect all the same."""


class GeneratedTask(NamedTuple):
    """A task, with everything that is hidden from its agent."""

    name: str
    plan: tuple[str, ...]
    """As first asked for."""
    revision: _Revision | None
    unknown: _Unknown
    needed: tuple[Call, ...]
    """The effects that must be there at the end, each once."""

    @property
    def artifacts(self) -> tuple[str, ...]:
        """The files that an agent names as what its task makes."""
        return (REPORT,)

    @property
    def request(self) -> str:
        """The user's words."""
        steps = "\n".join(f"{number}. {step}" for number, step in enumerate(self.plan, 1))
        return f"Do these steps in this order, each exactly once:\n{steps}"


def generate_tasks(
    seed: int,
    count: int,
    steps: Sequence[int] = range(FEWEST_STEPS, MOST_TASK_STEPS + 1),
    *,
    revises: bool = True,
) -> tuple[GeneratedTask, ...]:
    """Generate so many tasks, whose numbers of steps are taken from `steps` at random.

    `revises`: in the middle of each the user calls off a step and asks for others.
    """
    chance = Random(f"{seed} {[*steps]}")  # noqa: S311 - no secret
    sizes = [chance.choice(steps) for _ in range(count)]
    return tuple(
        _generate_task(chance, number, size, revises=revises) for number, size in enumerate(sizes)
    )


def _generate_task(chance: Random, number: int, size: int, *, revises: bool) -> GeneratedTask:
    marks = [f"{chance.choice(_WORDS)}-{place + 1}" for place in range(size + 3)]
    word = chance.choice(("open", "shut"))
    steps = [_make_step(Call(Kind.FILE, word, GATE))]
    kinds = [chance.choice(_KINDS) for _ in range(size - 2)]
    kinds[chance.randrange(len(kinds))] = Kind.PAYMENT
    chooses = chance.randrange(len(kinds))
    for place, kind in enumerate(kinds):
        call = _make_call(kind, marks[place])
        if place == chooses and kind is not Kind.PAYMENT:
            steps.append(_make_choice(call, word, marks[size + 2], right=chance.choice(_COIN)))
        else:
            steps.append(_make_step(call))
    report = _make_step(Call(Kind.FILE, f"report-{number}", REPORT))
    steps.append(report)
    revision, needed = None, tuple(step.call for step in steps)
    if revises:
        revision, needed = _revise(chance, steps, marks[size : size + 2])
    paid = next(step.call.mark for step in steps if step.call.kind is Kind.PAYMENT)
    lost = paid if chance.choice(_COIN) else chance.choice(needed[:-1]).mark
    return GeneratedTask(
        name=f"Job {number}",
        plan=tuple(step.sentence for step in steps),
        revision=revision,
        unknown=_Unknown(lost, happens=chance.choice(_COIN)),
        needed=needed,
    )


def _revise(
    chance: Random, steps: Sequence[_TaskStep], marks: Sequence[str]
) -> tuple[_Revision, tuple[Call, ...]]:
    """Return what the user says in the middle, and the effects that are needed then.

    One step that is not done yet is called off, another takes its place, and one more is added
    before the last.
    """
    may_go = [
        place
        for place, step in enumerate(steps[:-1])
        if place > 1 and step.call.kind is not Kind.PAYMENT
    ]
    gone = chance.choice(may_go)
    after = chance.randrange(1, gone + 1)
    instead = _make_step(_make_call(chance.choice(_KINDS), marks[0]))
    more = _make_step(_make_call(chance.choice(_KINDS), marks[1]))
    revised = [*steps[:gone], instead, *steps[gone + 1 : -1], more, steps[-1]]
    words = (
        f'Do not do "{steps[gone].sentence}" any more. Instead: "{instead.sentence}". '
        f'And before the last step: "{more.sentence}".'
    )
    plan = tuple(step.sentence for step in revised)
    revision = _Revision(after, words, plan, steps[gone].call)
    return revision, tuple(step.call for step in revised)


def _make_call(kind: Kind, mark: str) -> Call:
    place = {Kind.FILE: f"out/{mark}.txt", Kind.LINE: "log.txt", Kind.PIPELINE: f"out/{mark}.txt"}
    return Call(kind, mark, place.get(kind, ""))


def _make_step(call: Call) -> _TaskStep:
    return _TaskStep(format_step(call), call)


def _make_choice(call: Call, gate: str, mark: str, *, right: bool) -> _TaskStep:
    """Return a step with a choice, of which the gate says to make `call`."""
    other = _make_call(Kind.LINE, mark)
    if right:
        return _TaskStep(_format_choice(gate, call, other), call)
    word = "shut" if gate == "open" else "open"
    return _TaskStep(_format_choice(word, other, call), call)
