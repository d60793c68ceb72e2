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

from tests.plugins.evidence import claims
from tests.support import wordings
from tests.support.world import World

OLD = 0.1
"""Seconds after which what was there is told from what is made."""
BATCH = 100
"""Cases that wait for that at once."""
_SUFFIXED = re.compile(r"(?<![\w/.~-])[\w-]+(?:/[\w-]+)*\.[a-zA-Z]\w{0,7}\b")
UNSEEN_STEPS = {
    "Write the privacy policy to legal/privacy.html": "legal/privacy.html",
    "Compute quarterly revenue and store it in revenue.parquet": "revenue.parquet",
    "Create a Makefile and a run.sh that wraps it": "run.sh",
    "Draft minutes.md after the meeting": "minutes.md",
    "Generate three variants, save the best as hero.webp": "hero.webp",
    "Set the timeout to 30 s and update settings.ini": "settings.ini",
    "Summarise each paper in one line and append that line to papers.txt": "papers.txt",
    "Write an SQL view (views.sql) for the weekly report": "views.sql",
    "Put together the agenda and write it down in agenda.md": "agenda.md",
    "Benchmark both builds; the table goes to bench.md": "bench.md",
    "Collect logs from all nodes into all.log": "all.log",
    "Crawl the site and produce sitemap.xml, robots.txt": "sitemap.xml, robots.txt",
    "Write a parser for feed.xml": "",
    "Add retries to the calls that client.py makes": "",
    "Create a summary from transcript.txt": "",
    "Generate a password and put it where vault.yml expects it": "",
    "Update the customer about quote.pdf": "",
    "Prepare answers for the reviewers of paper.tex": "",
    "Record which tests in suite.py are slow": "",
    "Save bandwidth by compressing bundle.js": "",
    "Edit the photos listed in order.csv": "",
    "Write to the owner of data.xlsx": "",
    "Export the report that monthly.sql yields": "",
    "Draft a tweet on release.md": "",
    "Write the loader in load.py and its tests in test_load.py": (
        "load.py, test_load.py"
    ),
    "Create intro.md in docs/ and faq.md in help/": "intro.md, faq.md",
    "Scaffold the service, then add a Dockerfile and compose.yaml": "compose.yaml",
    "Turn the findings into slides.pptx": "slides.pptx",
    "Save the raw answers to raw.jsonl and the scores to scores.csv": (
        "raw.jsonl, scores.csv"
    ),
    "Find the report saved in archive.pdf": "",
    "Fix the typos in guide.md and the links in index.html": "",
    "Write a changelog entry about parse.py": "",
}
"""Sentences that the rule was neither made for nor mended by, and what they make."""
UNSEEN_MESSAGES = {
    "The policy is online, and I saved a copy to legal/privacy.html.": (
        "legal/privacy.html"
    ),
    "Revenue per quarter was stored in revenue.parquet.": "revenue.parquet",
    "I wrote a run.sh that wraps the Makefile.": "run.sh",
    "Picked the second variant and saved it as hero.webp": "hero.webp",
    "settings.ini updated, timeout is 30 s now.": "settings.ini",
    "Appended 14 lines to papers.txt.": "papers.txt",
    "Both sitemap.xml and robots.txt were generated.": "sitemap.xml, robots.txt",
    "The agenda went into agenda.md.": "agenda.md",
    "I just created views.sql, as discussed.": "views.sql",
    "All nodes answered; their logs were written to all.log.": "all.log",
    "I wrote a parser for feed.xml.": "",
    "I added retries to the calls that client.py makes.": "",
    "I created a summary from transcript.txt in this chat.": "",
    "I updated the customer about quote.pdf.": "",
    "The slow tests of suite.py were recorded by CI.": "",
    "Saved bandwidth by compressing bundle.js.": "",
    "I edited all photos listed in order.csv.": "",
    "I wrote to the owner of data.xlsx.": "",
    "Exported what monthly.sql yields.": "",
    "I drafted a tweet on release.md.": "",
    "Privacy policy written to legal/privacy.html.": "legal/privacy.html",
    "✅ Dashboard exported to dash.html": "dash.html",
    "All done! Quarterly report saved to q3.pdf.": "q3.pdf",
    "Screenshots saved in shots.zip, 12 of them.": "shots.zip",
    "Summary of the findings saved to findings.md": "findings.md",
    "Regression tests for the lexer added in test_lexer.py": "test_lexer.py",
    "Deliverables created: brief.md, budget.xlsx": "brief.md, budget.xlsx",
    "Schema migration generated at db/0007_index.sql": "db/0007_index.sql",
    "I have put together the agenda; you will see it in agenda.md.": "agenda.md",
    "Output file: cleaned.csv (written just now)": "cleaned.csv",
    "Wrote load.py and the matching test_load.py": "load.py, test_load.py",
    "Saved raw answers to raw.jsonl and scores to scores.csv": (
        "raw.jsonl, scores.csv"
    ),
    "The final deck has been exported as deck.pptx": "deck.pptx",
    "Contact list merged, deduplicated and saved as people.csv": "people.csv",
    "Poem finished and stored under poem.txt": "poem.txt",
    "File written successfully: hello.py": "hello.py",
    "Your itinerary is now available at trip.md": "trip.md",
    "Script created: backup.sh. It runs nightly.": "backup.sh",
    "Translations added to locales/de.json for all 40 keys": "locales/de.json",
    "Finished refactoring; the new module lives in core.py": "core.py",
    "The notes saved in meeting.md mention two risks.": "",
    "Results produced by model.py match the paper.": "",
    "Tables stored in legacy.db have no keys.": "",
    "Warnings recorded in build.log are harmless.": "",
    "The keys added in v2.json broke the parser.": "",
    "Everything written in spec.md is implemented.": "",
    "I followed the steps saved in runbook.md.": "",
    "Invoices exported to old.csv last year were skipped.": "",
    "All fields described in schema.json are covered.": "",
    "Comments created in review.docx: none of them matter.": "",
    "I looked into the values stored in cache.db and the ones in env.json.": "",
    "The numbers in report.xlsx match those exported to check.csv.": "",
    "Images rendered as thumb.png look blurred.": "",
    "Half of the entries written to queue.json expired.": "",
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
    tables, pairs = vars(wordings), {}
    for name in (kind, f"HELD_{kind}"):
        pairs |= dict.fromkeys(tables[f"{name}_THAT_MENTION"], "")
        pairs |= tables[f"{name}_THAT_MAKE"]
    if kind == "MESSAGES":
        pairs |= wordings.NOTED | dict.fromkeys(wordings.MENTIONED, "")
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
        text = re.sub(rf"(?<!\w){re.escape(old)}", lambda _: made[-1], text)
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
