"""The page on conditions tells the verdict of the rules, example by example."""

import re
from datetime import timedelta
from itertools import product
from pathlib import Path

import pytest

from openclaw_taskmem.domain.conditions.conditions import parse_condition
from taskmem_hookspecs import Frame, Met, Target
from taskmem_hookspecs.testing import DAWN
from taskmem_terminal.hooks import wait_judge

PAGE = Path(__file__).parents[3] / "docs" / "conditions.md"
EXAMPLES = [
    tuple(cell.strip() for cell in row.strip("|\n").split(" | "))
    for row in PAGE.read_text(encoding="utf-8").split("| verdict |\n")[1].splitlines()
    if row.startswith("| `")
]
BESIDES = re.compile(r"\[(ends with|\d+ s pass)( -?\d+)?\]")


def frames(shown):
    """Yield what a watch shows of an example, screen by screen."""
    besides = BESIDES.search(shown)
    said = BESIDES.sub("", shown)
    passed = ended = None
    if besides and besides[1] == "ends with":
        ended = int(besides[2])
    elif besides:
        passed = timedelta(seconds=int(besides[1].split()[0]))
    screens = [part.strip().replace(" ⏎ ", "\n") for part in said.split("→")]
    # Each screen stands for a moment, as it does before anybody looks.
    for number, (screen, stands) in enumerate(product(screens, (0, 2))):
        asks = screen.endswith((":", "]", "›"))
        text = f"{screen} " if asks and ended is None else f"{screen}\n"
        yield Frame(
            seen_at=DAWN + (passed or timedelta(seconds=stands)),
            changed_at=DAWN,
            place=str(number),
            text=text,
            tail=text,
            exit_status=ended,
            gone=None if ended is None else "The command ended.",
        )


def test_the_page_has_fifty_examples():
    assert len(EXAMPLES) == 50


@pytest.mark.parametrize(("condition", "shown", "verdict"), EXAMPLES)
async def test_the_page_tells_the_verdict_of_the_rules(condition, shown, verdict):
    condition = condition.strip("`")
    target = Target(scheme="pty", name="build")
    judge = wait_judge(target, parse_condition(condition))
    rulings = [(await judge.rule(frame)).met for frame in frames(shown)]
    held = Met.YES in rulings
    assert held == verdict.startswith("holds"), (rulings, verdict)
