"""Generate tasks from a seed: steps, a revision of the plan, and a call of unknown outcome.

What is generated is known to the harness and the oracle alone; an agent is told the request and,
when its time comes, the revision.
"""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import Final, NamedTuple

from taskmem_resumebench.work_steps import GATE, Call, Kind, format_choice, format_step

FEWEST: Final = 5
MOST: Final = 30
"""Steps of a task."""
REPORT: Final = "report.txt"
"""The file that the last step of each task makes."""
_WORDS: Final = (
    *("amber", "birch", "cedar", "delta", "ember", "fjord", "grove", "heron", "inlet", "jade"),
    *("kelp", "lotus", "maple", "north", "ocean", "pearl", "quartz", "river", "slate", "thyme"),
)
_KINDS: Final = (Kind.FILE, Kind.LINE, Kind.COMMIT, Kind.ROW, Kind.PIPELINE, Kind.POST)
_COIN: Final = (True, False)


class TaskStep(NamedTuple):
    """A step: its sentence, and the call that is right in this task."""

    sentence: str
    call: Call


class Revision(NamedTuple):
    """What the user says in the middle: another plan."""

    after: int
    """Told once that many steps are done."""
    words: str
    plan: tuple[str, ...]
    cancelled: Call


class Unknown(NamedTuple):
    """A call whose answer is lost, the first time it is made."""

    mark: str
    happens: bool
    """Whether it had its effect all the same."""


class GeneratedTask(NamedTuple):
    """A task, with everything that is hidden from its agent."""

    name: str
    plan: tuple[str, ...]
    """As first asked for."""
    revision: Revision | None
    unknown: Unknown
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
    seed: int, count: int, steps: Sequence[int] = range(FEWEST, MOST + 1), *, revises: bool = True
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
        unknown=Unknown(lost, happens=chance.choice(_COIN)),
        needed=needed,
    )


def _revise(
    chance: Random, steps: Sequence[TaskStep], marks: Sequence[str]
) -> tuple[Revision, tuple[Call, ...]]:
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
    revision = Revision(after, words, plan, steps[gone].call)
    return revision, tuple(step.call for step in revised)


def _make_call(kind: Kind, mark: str) -> Call:
    place = {Kind.FILE: f"out/{mark}.txt", Kind.LINE: "log.txt", Kind.PIPELINE: f"out/{mark}.txt"}
    return Call(kind, mark, place.get(kind, ""))


def _make_step(call: Call) -> TaskStep:
    return TaskStep(format_step(call), call)


def _make_choice(call: Call, gate: str, mark: str, *, right: bool) -> TaskStep:
    """Return a step with a choice, of which the gate says to make `call`."""
    other = _make_call(Kind.LINE, mark)
    if right:
        return TaskStep(format_choice(gate, call, other), call)
    word = "shut" if gate == "open" else "open"
    return TaskStep(format_choice(word, other, call), call)
