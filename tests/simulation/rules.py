"""The invariants, each a function with a name: what may never be seen, and when it is looked at."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from taskmem_hookspecs import TaskStore
from tests.simulation.mirror import Commit, Mirror

if TYPE_CHECKING:
    from tests.simulation.history import Play
    from tests.simulation.machine import Machine

OfCommit = Callable[["Machine", Commit], Iterator[str]]
"""Looked at in every commit, at once; yields what is wrong."""
OfPlay = Callable[["Play"], Iterator[str]]
"""Looked at after every operation."""
OfDrop = Callable[["Machine", Mirror], Iterator[str]]
"""Looked at when old rows were dropped, with the rows before."""
OfAnswer = Callable[["Machine", str, Mapping[str, Any], Any], Iterator[str]]
"""Looked at when a call is answered."""


class Rules:
    """The invariants that one simulation checks."""

    def __init__(
        self,
        of_commits: Mapping[str, Sequence[OfCommit]],
        of_answers: Sequence[OfAnswer] = (),
        of_plays: Sequence[OfPlay] = (),
        of_rest: Sequence[OfPlay] = (),
        of_drops: Sequence[OfDrop] = (),
    ) -> None:
        """`of_commits`: by the kind of row that a commit must write for them to be looked at."""
        self._of_commits = of_commits
        self._of_kinds: dict[tuple[bool, ...], Sequence[OfCommit]] = {}
        self._of_answers = of_answers
        self._of_plays = of_plays
        self._of_rest = of_rest
        self._of_drops = of_drops

    def check_commit(self, machine: Machine, commit: Commit) -> None:
        """Look at one commit."""
        kinds = tuple([bool(getattr(commit.change, kind)) for kind in self._of_commits])
        for rule in self._of_kinds.get(kinds) or self._choose_rules(kinds):
            _report(machine, rule, rule(machine, commit))

    def _choose_rules(self, kinds: tuple[bool, ...]) -> Sequence[OfCommit]:
        """Return the invariants of commits that write these kinds of rows, each once."""
        groups = itertools.compress(self._of_commits.values(), kinds)
        self._of_kinds[kinds] = [*dict.fromkeys(itertools.chain.from_iterable(groups))]
        return self._of_kinds[kinds]

    def check_answer(
        self, machine: Machine, tool: str, given: Mapping[str, Any], answer: Any
    ) -> None:
        """Look at the answer to a call."""
        for rule in self._of_answers:
            _report(machine, rule, rule(machine, tool, given, answer))

    def check_drop(self, machine: Machine, before: Mirror) -> None:
        """Look at what retention has left."""
        for rule in self._of_drops:
            _report(machine, rule, rule(machine, before))

    def check_play(self, play: Play) -> None:
        """Look at everything after an operation."""
        _look(play, self._of_plays)

    def check_rest(self, play: Play) -> None:
        """Look at everything once nothing has failed for a while."""
        _look(play, self._of_rest)

    def check_database(self, machine: Machine, store: TaskStore) -> None:
        """Look at what a daemon that died has left."""
        for why in machine.mirror.compare(store):
            machine.report("what_was_committed_is_there_after_a_crash", why)
            return


def _look(play: Play, rules: Sequence[OfPlay]) -> None:
    """Look at everything until something is wrong: the daemon has ended then."""
    for rule in rules:
        if play.machine.broken is None:
            _report(play.machine, rule, rule(play))


def _report(machine: Machine, rule: Callable[..., Any], troubles: Iterator[str]) -> None:
    for why in troubles:
        machine.report(rule.__name__, why)
        return
