"""The steps of which generated tasks are made: their sentences, and the calls that they ask for.

A step is one sentence, so an agent that reads it anywhere (in the request, a packet, a notes file)
knows what to do from the words alone.
"""

from __future__ import annotations

from enum import StrEnum
from typing import Final, NamedTuple


class Kind(StrEnum):
    """What a call does; the value begins the step's sentence."""

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
        """What the gateway reports of the call: its path, command or address."""
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
CUT: Final = "…"
"""Ends what was shortened."""
GATE: Final = "gate.txt"
"""The file that a step with a choice looks at."""


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


def format_choice(word: str, call: Call, other: Call) -> str:
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
    call = Call(kind, mark, words[-1] if kind in _PLACED else "")
    if CUT in sentence or format_step(call) != sentence:
        raise ValueError(sentence)
    return call


_PLACED: Final = (Kind.FILE, Kind.LINE, Kind.PIPELINE)
