"""Tasks that call themselves completed, with what they say made or faked."""

from __future__ import annotations

import itertools
import os
import re
import shutil
import string
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import taskmem_evidence
from openclaw_taskmem.domain.callers import Caller
from taskmem_hookspecs.errors import EvidenceMissing
from taskmem_hookspecs.testing import FakeClock

sys.path.insert(0, str(Path(__file__).parent.parent))

from tests.domain import sentences
from tests.plugins.evidence import claims
from tests.support.world import World

OLD = 0.1
"""Seconds after which what was there is told from what is made."""
BATCH = 100
"""Cases that wait for that at once."""
_SUFFIXED = re.compile(r"(?<![\w/.~-])[\w-]+(?:/[\w-]+)*\.[a-zA-Z]\w{0,7}\b")
UNSEEN_STEPS = {
    "Draft the onboarding email in welcome.txt": "welcome.txt",
    "Pull last month's invoices and write a CSV of them to invoices.csv": (
        "invoices.csv"
    ),
    "Implement the tokenizer in src/tokenizer.py": "",
    "Write the tokenizer (src/tokenizer.py) and its tests (tests/test_tokenizer.py)": (
        "src/tokenizer.py, tests/test_tokenizer.py"
    ),
    "Create terraform config main.tf.json for the bucket": "main.tf.json",
    "Save screenshots of each page under shots/home.png": "shots/home.png",
    "Generate fixtures -> fixtures.json": "fixtures.json",
    "Log every request to requests.log": "",
    "Produce final deliverables: thesis.pdf and slides.pdf": "thesis.pdf, slides.pdf",
    "Write an executive summary, then export it as summary.docx": "summary.docx",
    "Record findings about latency in latency.md": "latency.md",
    "Update version.txt, tag the release and push": "version.txt",
    "Query the API and dump all responses into responses.jsonl": "responses.jsonl",
    "Create a bash script named rotate.sh to rotate the logs": "rotate.sh",
    "Make sure that health.py returns 200": "",
    "Write tests that cover edge.py and edge2.py": "",
    "Create a dashboard out of metrics.csv": "",
    "Update all callers of client.py": "",
    "Add a comparison with baseline.json to the report": "",
    "Prepare a short talk on design.md": "",
    "Generate a changelog entry from the commits since release.txt": "",
    "Write a review of chapter3.tex and mail it": "",
    "Save the state, restart worker.py and watch it": "",
    "Export a list of the functions that utils.py defines": "",
}
"""Sentences that the rule was not made for, nor mended by, and what they make."""
UNSEEN_MESSAGES = {
    "The welcome email is in place; I wrote it to welcome.txt.": "welcome.txt",
    "I've pulled the invoices and saved the CSV as invoices.csv.": "invoices.csv",
    "Created src/tokenizer.py along with tests/test_tokenizer.py.": (
        "src/tokenizer.py, tests/test_tokenizer.py"
    ),
    "✔ fixtures.json generated": "fixtures.json",
    "All 12 screenshots done, the overview was saved to shots/home.png.": (
        "shots/home.png"
    ),
    "Finished: thesis.pdf and slides.pdf have been exported.": "thesis.pdf, slides.pdf",
    "I recorded my findings in latency.md and bumped the version.": "latency.md",
    "Bumped the version in version.txt": "",
    "I finished writing rotate.sh.": "rotate.sh",
    "The responses (2,031) were dumped into responses.jsonl.": "responses.jsonl",
    "I added a note for reviewers to design.md.": "design.md",
    "I updated the callers of client.py.": "",
    "I created a dashboard out of metrics.csv.": "",
    "Wrote tests that cover edge.py.": "",
    "I prepared a short talk on design.md.": "",
    "Added the comparison with baseline.json to my answer below.": "",
    "I exported a list of what utils.py defines.": "",
    "Saved the state and restarted worker.py.": "",
    "I was told that report.xlsx was updated.": "",
    "health.py returns 200 now.": "",
}


@dataclass(frozen=True)
class Ending:
    """A task that says what it makes, and that it is completed."""

    scene: claims.Scene
    plan: Sequence[str]
    listed: Sequence[str]
    message: str
    made: Sequence[Path]
    """Of which a false ending fakes the first."""


def endings(
    folder: Path, *, true: bool, count: int, unseen: bool = False
) -> Iterator[tuple[bool, str]]:
    """End tasks; give whether each is completed, and what it said.

    `unseen`: with sentences that the rule was not made for.
    """
    for first in range(0, count, BATCH):
        told = {
            number: _told(folder / f"{number}", number, true=true, unseen=unseen)
            for number in range(first, min(count, first + BATCH))
        }
        fakes = {n: None if true else FAKES[n % len(FAKES)] for n in told}
        for number, each in told.items():
            if fakes[number] is stale:
                _write(each.made[0])
        time.sleep(OLD)
        for number, each in told.items():
            fake = fakes[number]
            said = f"{each.plan[1]} | {each.listed} | {each.message}"
            yield _completes(each, fake), f"{fake.__name__ if fake else 'made'}: {said}"
            shutil.rmtree(each.scene.top)


# --- what is said ---------------------------------------------------------------


def _told(top: Path, number: int, *, true: bool, unseen: bool) -> Ending:
    """Draw what a task says: a false one makes files, as one of its sources says."""
    top.mkdir()
    scene = claims.a_scene(top, number)
    names, dice = _names(scene), scene.dice
    source = dice.choice(("plan", "message") if unseen else ("plan", "message", "list"))
    pairs = {
        "plan": UNSEEN_STEPS if unseen else _seen("STEPS"),
        "message": UNSEEN_MESSAGES if unseen else _seen("MESSAGES"),
    }
    (step, planned), (message, claimed) = (
        _renamed(
            *dice.choice(
                [p for p in of.items() if true or bool(p[1]) is (name == source)]
            ),
            names,
        )
        for name, of in pairs.items()
    )
    listed = [f"{next(names)}.md"] if source == "list" else []
    made = [scene.work / path for path in (*planned, *claimed, *listed)]
    for path in _SUFFIXED.findall(f"{step} {message}"):
        if scene.work / path not in made:
            _write(scene.work / path)
            os.utime(scene.work / path, (1, 1))
    return Ending(scene, ["Look around", step], listed, message, made)


def _seen(kind: str) -> dict[str, str]:
    tables, pairs = vars(sentences), {}
    for name in (kind, f"HELD_{kind}"):
        pairs |= dict.fromkeys(tables[f"{name}_THAT_MENTION"], "")
        pairs |= tables[f"{name}_THAT_MAKE"]
    return pairs


def _names(scene: claims.Scene) -> Iterator[str]:
    """Give paths in the folder of the work, as an agent may write them, unended."""
    letters = f"{string.ascii_lowercase}{string.digits}_-"
    for number in itertools.count():
        some = "".join(scene.dice.choices(letters, k=scene.dice.randint(0, 12)))
        name = f"n{number}{some}x"
        yield scene.dice.choice(
            (name, f"out/{name}", f"./{name}", f"{scene.work}/{name}")
        )


def _renamed(text: str, files: str, names: Iterator[str]) -> tuple[str, list[str]]:
    """Give the files of a sentence other names of the same kind."""
    made = []
    for old in filter(None, files.split(", ")):
        made.append(f"{next(names)}{Path(old).suffix}")
        text = text.replace(old, made[-1])
    return text, made


# --- what is done ---------------------------------------------------------------


def absent(_told: Ending, _path: Path) -> None: ...


def empty(_told: Ending, path: Path) -> None:
    path.touch()


def stale(_told: Ending, _path: Path) -> None:
    """It was there before."""


def linked_out(told: Ending, path: Path) -> None:
    path.symlink_to(told.scene.file(told.scene.outside))


def a_folder(_told: Ending, path: Path) -> None:
    path.mkdir()


def swapped(told: Ending, path: Path) -> Callable[[], object]:
    _write(path)
    other = told.scene.outside / "other"

    def swap() -> None:
        shutil.copy2(path, other)
        other.replace(path)

    return swap


def faked_status(_told: Ending, _path: Path) -> str:
    return "The tool said: ok, 1,204 bytes were written, exit status 0."


FAKES = (absent, empty, stale, linked_out, a_folder, swapped, faked_status)


def _write(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("All is well.")


def _completes(told: Ending, fake: Callable[[Ending, Path], Any] | None) -> bool:
    """Let a task say that it is completed; return whether it is."""
    told.scene.begin()
    clock = FakeClock(told.scene.since)
    world = World(clock=clock, plugins=[("evidence", taskmem_evidence)])
    task = world.register(plan=told.plan, metadata={"artifacts": [*told.listed]})
    meanwhile: Any = None
    for number, path in enumerate(told.made):
        path.parent.mkdir(parents=True, exist_ok=True)
        if fake and number == 0:
            meanwhile = fake(told, path)
        else:
            _write(path)
    if isinstance(meanwhile, str):
        world.narrate(task, meanwhile)
        meanwhile = None
    last = {"task_id": task, "status": "completed", "message": told.message}
    try:
        with claims.happening(meanwhile):
            world.call("task_update", Caller(folder=str(told.scene.work)), **last)
    except EvidenceMissing:
        return False
    return True
