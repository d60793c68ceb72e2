"""A history of a screen: 300 labelled episodes among distractors, rendered and read for real.

An episode is something done on a screen, in two moments: a key added in a repository's settings, a
mail and the answer to it, a command in a terminal and its repair. There are 50 kinds of work
(`bench/recall/screens.toml`), each with six names of a repository, a person, a machine, a project
or a shop, so each episode has five others that differ by the name alone. 240 further moments show
the other six names with one page of a kind of work, out of its order. Each moment is an HTML page
(settings, documents, tables, mails, chats, terminals) that a real Chromium renders, and whose
picture the product's own reader reads; nothing but the window's title is planted.

Questions are worded by hand beside the pages: three for each kind of work, one for each second
episode, with words that the pages do not have ("voucher" for "discount", "notebook" for "laptop"),
other forms of those that they have, and the name, of a person sometimes the first one alone. The
answer is right if its segment holds a moment of the episode.

Half of the kinds of work are for fitting, the other half is held out. `recall_screen` also asks
all of it among 100,000 moments: the rest of those are lines of pages with the other names, thrown
together at random, and are neither rendered nor read.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import sys
import tomllib
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import takewhile
from pathlib import Path
from shutil import which
from tempfile import TemporaryDirectory
from typing import Final, TypedDict, cast

from figures import Figure
from homes import find_disk
from playwright.sync_api import sync_playwright
from recall_score import BIAS, Question, ask_questions, format_scores
from screen_pages import APPLICATIONS, BROWSERS, ShownPage

from taskmem_hookspecs import Recollection
from taskmem_recorder.history import search_screen
from taskmem_recorder.store import Moment, RecordingStore
from taskmem_vision.ocr import Tesseract

SEED: Final = 447
MOMENTS: Final = 100_000
LABELLED: Final = 6
"""Names of each kind of work that make an episode."""
DISTRACTORS: Final = 240
FLOWS: Final = Path(__file__).parent / "recall" / "screens.toml"
BEGIN: Final = datetime(2026, 1, 5, 8, tzinfo=UTC)
SIZE: Final = {"width": 900, "height": 560}
"""Of a picture, in pixels: a window, not a whole screen, so that it is read fast."""
PROCESSES: Final = 2


def recall_screen() -> Iterator[Figure | str]:
    """Measure recall of the screen: 300 questions over rendered pages, and over 100,000 moments."""
    history = ScreenHistory()
    moments = history.read_moments()
    yield from _measure("screen", history, moments)
    many = sorted((*moments, *history.make_others(MOMENTS - len(moments))), key=lambda one: one.at)
    yield from _measure("screen, 100,000 moments", history, many)


def _measure(
    what: str, history: ScreenHistory, moments: Sequence[Moment]
) -> Iterator[Figure | str]:
    now = moments[-1].at + timedelta(hours=1)
    with TemporaryDirectory(prefix="tmb", dir=find_disk()) as folder:
        store = RecordingStore(Path(folder))
        for moment in moments:
            store.add_moment(moment, None)
        recall = partial(search_screen, store, now)
        scores = ask_questions(history.questions, recall, history.is_right, BIAS)
        store.close()
    for half in (False, True):
        some = [one for one in scores if one.question.is_held_out == half]
        yield from format_scores(f"{what}, {'held out' if half else 'fitted to'}", some, 0.1)


class Flow(TypedDict):
    """A kind of work, as in `screens.toml`."""

    kind: str
    of: str
    pages: list[list[str]]
    asks: list[str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Showing:
    """A page at a time."""

    page: ShownPage
    at: datetime
    episode: str
    """Id of the episode; empty: a distractor."""

    @property
    def key(self) -> str:
        """Name of what is kept of it between runs."""
        return hashlib.sha256(self.page.render().encode()).hexdigest()[:24]


class ScreenHistory:
    """The moments of a screen, and the questions about them; the same for the same seed."""

    def __init__(self, seed: int = SEED) -> None:
        self._chance = random.Random(seed)  # noqa: S311 (a generated set)
        loaded = cast("Mapping[str, object]", tomllib.loads(FLOWS.read_text()))
        self._flows = cast("Sequence[Flow]", loaded["flows"])
        self._absent = cast("Mapping[str, Sequence[str]]", loaded["absent"])
        self._names = cast("Mapping[str, Sequence[str]]", loaded["names"])
        self._showings = self._make_showings()
        self.questions = list(self._make_questions())
        self.episodes: dict[datetime, str] = {one.at: one.episode for one in self._showings}
        """Instant of each moment to the id of its episode; empty: a distractor."""
        self._instants = sorted(self.episodes)

    def read_moments(self, folder: Path | None = None) -> list[Moment]:
        """Render and read what was not read before, and return all moments in order of time.

        Args:
            folder: Keeps the texts that were read; None: one in the benchmarks' folder.
        """
        folder = folder or find_disk() / "taskmem-screen-history"
        folder.mkdir(parents=True, exist_ok=True)
        unread = {
            one.key: one.page for one in self._showings if not (folder / f"{one.key}.txt").exists()
        }
        shares = [list(unread.items())[number::PROCESSES] for number in range(PROCESSES)]
        with ProcessPoolExecutor(PROCESSES) as pool:
            list(pool.map(_read_pages, shares, [folder] * PROCESSES))
        moments: list[Moment] = []
        before = ""
        for one in self._showings:
            text = (folder / f"{one.key}.txt").read_text()
            known = set(before.splitlines())
            application = APPLICATIONS[one.page.kind]
            moments.append(
                Moment(
                    at=one.at,
                    window_title=f"{one.page.title} - {application.title()}",
                    application=application,
                    page=one.page.title if application in BROWSERS else None,
                    text=text,
                    new_text="\n".join(line for line in text.splitlines() if line not in known),
                    display=":0",
                )
            )
            before = text
        return moments

    def is_right(self, found: Recollection, question: Question) -> bool:
        """Whether what was found holds a moment of the episode that was asked for."""
        end = found.timestamp + timedelta(seconds=found.duration_seconds)
        first = bisect_left(self._instants, found.timestamp - timedelta(milliseconds=1))
        shown = takewhile(lambda at: at <= end, self._instants[first:])
        return any(self.episodes[at] in question.right for at in shown)

    def make_others(self, count: int) -> Iterator[Moment]:
        """Yield moments of other names, with lines thrown together, between those of the set."""
        pages = [
            page
            for flow in self._flows
            for name in self._names[flow["of"]][LABELLED:]
            for page in _fill_pages(flow, name)
        ]
        lines = [line for page in pages for line in page.lines]
        span = self._showings[-1].at - BEGIN
        for _ in range(count):
            page = self._chance.choice(pages)
            application = APPLICATIONS[page.kind]
            text = "\n".join((page.title, *self._chance.sample(lines, 12)))
            yield Moment(
                at=BEGIN + span * self._chance.random(),
                window_title=f"{page.title} - {application.title()}",
                application=f"{application}-{self._chance.randrange(50)}",
                page=page.title if application in BROWSERS else None,
                text=text,
                new_text=text,
                display=":0",
            )

    def _make_showings(self) -> list[_Showing]:
        """Lay episodes and distractors out in time, in a random order, over some two months."""
        work: list[tuple[str, list[ShownPage]]] = []
        for number, flow in enumerate(self._flows):
            for place, name in enumerate(self._names[flow["of"]][:LABELLED]):
                work.append((f"{number}-{place}", _fill_pages(flow, name)))
        for _ in range(DISTRACTORS):
            flow = self._chance.choice(self._flows)
            name = self._chance.choice(self._names[flow["of"]][LABELLED:])
            work.append(("", [self._chance.choice(_fill_pages(flow, name))]))
        self._chance.shuffle(work)
        showings: list[_Showing] = []
        at = BEGIN
        for episode, pages in work:
            at += timedelta(minutes=self._chance.choice((1, 3, 20, 90, 700)))
            for page in pages:
                at += timedelta(seconds=self._chance.randrange(5, 60))
                showings.append(_Showing(page=page, at=at, episode=episode))
        return showings

    def _make_questions(self) -> Iterator[Question]:
        for number, flow in enumerate(self._flows):
            for place, name in enumerate(self._names[flow["of"]][:LABELLED]):
                known = name.split()[0] if flow["of"] == "person" and place % 2 else name
                yield Question(
                    text=flow["asks"][place % len(flow["asks"])].replace("{x}", known),
                    right=frozenset({f"{number}-{place}"}),
                    is_held_out=number % 2 == 1,
                )
            for place, name in enumerate(self._absent[flow["of"]][: 1 + number // 2 % 2]):
                yield Question(
                    text=flow["asks"][place + 1].replace("{x}", name),
                    right=frozenset(),
                    is_held_out=number % 2 == 1,
                )


def _fill_pages(flow: Flow, name: str) -> list[ShownPage]:
    filled = [[text.replace("{x}", name) for text in page] for page in flow["pages"]]
    return [ShownPage(flow["kind"], title, lines) for title, *lines in filled]


def _read_pages(pages: Sequence[tuple[str, ShownPage]], folder: Path) -> None:
    """Render pages in one Chromium, and write what is read on their pictures."""
    engine, program = Tesseract.find(), which("chromium") or which("google-chrome")
    if engine is None or program is None:
        raise SystemExit("This needs the programs tesseract and chromium.")
    if not pages:
        return
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        page = browser.new_page(viewport=SIZE)  # type: ignore[arg-type]
        pictures: list[tuple[str, bytes]] = []
        for key, shown in pages:
            page.set_content(shown.render())
            pictures.append((key, page.screenshot()))
        browser.close()
    for number, (key, picture) in enumerate(pictures):
        read = asyncio.run(Tesseract.read(engine, picture))
        (folder / f"{key}.txt").write_text(read.text)
        if number % 50 == 49:
            print(f"{number + 1} of {len(pictures)} pictures read", file=sys.stderr, flush=True)
