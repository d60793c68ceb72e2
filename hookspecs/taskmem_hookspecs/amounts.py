"""Read how far something is, and tell the whole's progress from that of a part.

`read_amounts` reads each line alone: it has one amount at most, the first one that is progress.
`AmountWatch` compares the amounts of one wait over time. `docs/conditions.md`, "Whose percentage
counts", says the rules; the forms of the tools are from what they print.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import islice
from typing import Final, NamedTuple

STAND_SECONDS: Final = 2.0
"""How long an amount that nobody saw rise must be the last one shown. Seconds."""
_NESTED_STAND_SECONDS: Final = 30.0
"""The same for a bar that seems to be a part of an older one."""
_MOST_BARS: Final = 500
"""Bars of a wait that are kept, the latest; likewise layers."""
_FULL_PERCENT: Final = 100.0
_FEWEST_RISES: Final = 2
"""How often a measure must have risen to be taken for progress at the end."""
_BESIDE_CHARS: Final = 60
"""Characters beside a figure that say what it is."""
_LINE_CHARS: Final = 4096
"""Characters of a line that are read."""
_MOST_FIGURES: Final = 16
"""Figures of a line among which the first that is progress is looked for."""

# --- one line -----------------------------------------------------------------


class Amount(NamedTuple):
    """How far one line says that something is."""

    percent: float
    bar: str
    """Name of its bar: the label without what changes."""
    line: str
    is_weak: bool = False
    """True if it says nothing unless it rises, such as `1/1`."""
    is_loop: bool = False
    """True for the bar of a loop, which others may be nested in."""
    is_measure: bool = False
    """True if its words tell how full, fast or good something is, so that only its rise counts."""
    is_work: bool = False
    """True for a measure behind what is done with it, such as `Uploading to storage`."""


class _Figure(NamedTuple):
    """A percentage or a count on a line."""

    percent: float
    start: int
    end: int
    total: int = 0
    """How many items are counted; 0: a percentage, or sizes."""


_CJK: Final = "\u2e80-\U0003ffff"
"""Letters that stand beside numbers without a blank."""
_PERCENT: Final = re.compile(
    rf"(?<![^\W{_CJK}])(?<![.,])(?<![\s(=:]-)(?<!^-)"
    rf"(\d{{1,9}}(?:[.,]\d{{1,9}})?)[ \u00a0\u2009\u202f]?[%％](?![^\W{_CJK}]|%)"
)
_UNIT: Final = r"(?: ?([KMGTP])?i?B)?"
_COUNT: Final = re.compile(
    rf"(?<![\w./:,-])(\d[\d,]{{0,20}}(?:\.\d{{1,9}})?){_UNIT} {{0,3}}/ {{0,3}}"
    rf"(\d[\d,]{{0,20}}(?:\.\d{{1,9}})?){_UNIT}"
    r"(?![\w/]|[.:,-]\d|[ T]\d{1,2}:\d\d)",
    re.IGNORECASE,
)
_MEASURES: Final = (
    "cpu|gpu|npu|memory|mem|ram|vram|swap|heap|disk|storage|space|inodes?|battery|load|quota|capacity"
    "|usage|use|used|util|utili[sz]ation|free|idle|busy|available|full"
    "|coverage|covered|statements|branches|functions|lines"
    "|accuracy|acc|precision|recall|confidence|similarity|score|probability|quality"
    "|rate|ratio|loss|hits|misses|charging|discharging|threshold|volume|brightness|humidity|discount|overhead"
    "|deflated|stored|compressed|compression|saved|savings"
)
_MEASURE_LABEL: Final = re.compile(
    rf"(?<![a-z])(?:{_MEASURES})(?:\(s\))?[\s:=(\[|,]*(?:(?:is|at|of|was|by)\s+)?[<>~≈]?\s*$",
    re.IGNORECASE,
)
_MEASURE_SUFFIX: Final = re.compile(
    rf"\s*(?:of (?:the |all )?)?(?:packet |more |less )?(?:{_MEASURES}"
    r"|faster|slower|smaller|larger|bigger|less|more|fewer|higher|lower|better|worse"
    r"|reduction|increase|decrease|improvement|off|confident|accurate|similar|identical)\b",
    re.IGNORECASE,
)
_COUNT_LABEL: Final = re.compile(
    r"\b(?:cpus?|memory|mem|ram|swap|disk|space|storage|used|free|hits|misses|calls|replicas|ready"
    r"|healthy|available)[\s:=(]*$",
    re.IGNORECASE,
)
"""Labels of counts that have no end."""
_WORK_LABEL: Final = re.compile(
    r"(?<!\w)(?!remaining)[a-z]{2,20}ing\s+(?:[\w./'-]{1,20}\s+){0,4}"
    r"(?:memory|mem|ram|vram|heap|disk|storage|space|inodes|lines|functions|statements|branches|volume)"
    r"(?:\(s\))?[\s:=(\[|,]*$",
    re.IGNORECASE,
)
"""Labels of work on a thing that is also measured."""
_STATE_BEHIND: Final = re.compile(
    r"\s+(?:Running|Ready|Pending|Completed|Healthy|Error|CrashLoop|Container|Init|Terminating)"
)
"""States of containers behind how many of them are ready."""
_MOUNT_BEHIND: Final = re.compile(r"\s+/(?:[^\d\s]|\s*$)|\s+-- replaced ")
"""Text behind a percentage of `df`, and of `gzip -v`."""
_EARLY_PHASE: Final = re.compile(
    r"\b(?P<verb>enumerating|counting|compressing) objects\b"
    r"|\b(?P<apt>reading (?:package lists|database|state information)|building dependency tree"
    r"|extracting templates|preconfiguring packages)\b",
    re.IGNORECASE,
)
"""Phases of git and apt before their work."""
_STEP_OUTPUT: Final = re.compile(r"#\d+ (?!\[)|\s*=> => ")
"""Output of one step of docker build."""
_LAYER: Final = re.compile(
    r"\W*([0-9a-f]{12}):? +(?:(?P<begun>Pulling fs layer|Preparing|Waiting)"
    r"|(?P<moves>Downloading|Extracting|Pushing)|Verifying Checksum|Download complete"
    r"|Pull complete|(?:Layer a|A)lready exists|Pushed|Mounted from)\b"
)
"""A layer that docker pull loads, or docker push sends."""
_LAYER_NAME: Final = "docker layer "
"""Name of the bar of all layers, and prefix of those of each."""
_MEASURE_PREFIX: Final = "measure: "
"""Prefix of the names of what may be no bars."""
_METER_SIZE: Final = r" +[\d.]+[kMGTP]?"
_METER_TIME: Final = r" +(?:-+:-+:-+|\d+:\d\d:\d\d|\d+d(?: +\d+h)?|\d+h(?: +\d+m)?)"
_METER: Final = re.compile(
    rf" *(\d{{1,3}}){_METER_SIZE} +(\d{{1,3}}){_METER_SIZE} +(\d{{1,3}}){_METER_SIZE}"
    rf"{_METER_SIZE}{_METER_SIZE}{_METER_TIME}{_METER_TIME}{_METER_TIME}{_METER_SIZE} *$"
)
"""A row of curl's meter: percent and size of the total, of what came, and of what was sent."""
_BOX_ROW: Final = re.compile(r"\s*[|│].*[|│]\s*$")
_QUANTILE_ROW: Final = re.compile(r"\s*[\d.]+%\s+\d+(?:\.\d+)?(?:us|ms)?\s*(?:\([a-z ]+\))?\s*$")
"""A row of quantiles, as `ab` and `wrk` print."""
_BAR_SIGNS: Final = re.compile(r"[█▏▎▍▌▋▊▉━▕■●#=]{2}|\[[=#>. -]*\]")
_LABEL_WORD: Final = re.compile(r"\w+")
_LABEL_NUMBER: Final = re.compile(r"[^\W\d_#\[(]? ?[#\[(]?(\d{1,3})\s*[\])]?:?\s*$")
_TABLE_COLUMNS: Final = 4
_CELL_GAP: Final = re.compile(r"\s{2,}|\t")
_DIGIT: Final = re.compile(r"\d")
_SHAPE: Final = str.maketrans("123456789", "000000000")
_MOST_SHAPES: Final = 1024
"""Shapes of lines of which it is kept what their words say."""


def read_amounts(text: str) -> Iterator[Amount]:
    """Yield the amount of each line that has one which may be progress, seen once."""
    return (each for each in _read_all(text) if not each.is_measure)


def _read_all(text: str) -> Iterator[Amount]:
    """Yield the amount of each line that has one which may be progress or a measure."""
    in_table = False
    for line in _split_lines(text):
        if meter := _METER.match(line):
            # Without a length, curl shows 100 of what came so far, and 0 of what is to come.
            if int(meter[2]) or int(meter[3]) or not int(meter[1]):
                yield Amount(float(meter[1]), "curl", line)
            continue
        layer = _LAYER.match(line)
        if layer is None and "%" not in line and "/" not in line and "％" not in line:
            in_table = in_table and bool(line.strip())
            in_table = in_table or _is_table_header(line)
            continue
        shape = line.translate(_SHAPE)
        in_table = _is_table_header(shape) or (in_table and _is_table_row(line))
        if in_table or _is_no_progress(shape):
            continue
        if layer is not None:
            yield Amount(_read_layer(layer, line), f"{_LAYER_NAME}{layer[1]}", line)
        elif (amount := _read_amount(line, shape)) is not None:
            yield amount


def find_percentage(
    text: str, at_least: float, at_most: float = 100_000, *, name: str | None = None
) -> str | None:
    """Return the first line with an amount within the bounds; None: there is none.

    `name`: the amount stands beside it, and may be of a part or a measure; None: any progress.
    """
    if name is not None:
        amounts = _read_named(text, name)
    else:
        amounts = ((each.percent, each.line) for each in read_amounts(text))
    return next((line for percent, line in amounts if at_least <= percent <= at_most), None)


def _split_lines(text: str) -> Iterator[str]:
    """Yield the beginning of each line."""
    return (line[:_LINE_CHARS] for line in re.split(r"[\n\r]", text))


def _read_amount(line: str, shape: str) -> Amount | None:
    """Return the first amount of a line that is no measure, else a measure; None: there is none.

    `shape`: the line with zeros in place of its digits, by which what its words say is kept.
    """
    figures = _find_figures(line)
    measures = [each for each in figures if not each.total and _is_measure(shape, *each[1:3])]
    # `85.71% ( 6/7 )` says the same twice.
    figures = [
        each for each in figures if not any(abs(each.percent - m.percent) < 1 for m in measures)
    ]
    if not figures and not measures:
        return None
    first, *others = figures or measures[:1]
    if first.total and _is_endless_count(shape, first.start, first.end):
        return None
    before = line[max(0, first.start - _BESIDE_CHARS) : first.start]
    label, number = _name_bar(shape, first.start, first.end)
    percent = first.percent
    if first.total and (others or before.lower().endswith("epoch ")):
        # `[3/12] app.js 40%`: the third item of twelve is at 40 %; `Epoch 3/12`: it begins.
        part = min(others[0].percent, 100.0) if others else 0.0
        percent = max(0.0, percent - (100 - part) / first.total)
    return Amount(
        percent,
        f"{'' if figures else _MEASURE_PREFIX}{label}{line[number]}",
        line,
        is_weak=first.total == 1,
        is_loop=line.startswith("|", first.end),
        is_measure=not figures,
        is_work=not figures and _WORK_LABEL.search(before) is not None,
    )


def _find_figures(line: str) -> list[_Figure]:
    """Return the first percentages and counts of a line, in order."""
    figures: list[_Figure] = []
    if "%" in line or "％" in line:
        figures += islice(_find_percentages(line), _MOST_FIGURES)
    if "/" in line:
        figures += islice(_find_counts(line), _MOST_FIGURES)
    return sorted(figures, key=lambda each: each.start)[:_MOST_FIGURES]


def _find_percentages(line: str) -> Iterator[_Figure]:
    for place in _PERCENT.finditer(line):
        yield _Figure(float(place[1].replace(",", ".")), *place.span())


def _find_counts(line: str) -> Iterator[_Figure]:
    for place in _COUNT.finditer(line):
        done, total = _read_count(place)
        if 0 <= done <= total and total > 0:
            sizes = place[2] or place[4] or place[0][-1] in "Bb" or "." in place[0]
            yield _Figure(100 * done / total, *place.span(), 0 if sizes else int(total))


def _read_count(count: re.Match[str]) -> tuple[float, float]:
    done = float(count[1].replace(",", ""))
    total = float(count[3].replace(",", ""))
    if count[2] and count[4]:
        done *= 1024 ** "KMGTP".index(count[2].upper())
        total *= 1024 ** "KMGTP".index(count[4].upper())
    return done, total


@lru_cache(maxsize=_MOST_SHAPES)
def _is_measure(shape: str, start: int, end: int) -> bool:
    """Return whether a percentage tells how full, fast or good something is, not how far."""
    behind = shape[end : end + _BESIDE_CHARS]
    return bool(
        _MEASURE_LABEL.search(shape[max(0, start - _BESIDE_CHARS) : start])
        or _MEASURE_SUFFIX.match(behind)
        or _MOUNT_BEHIND.match(behind)
    )


@lru_cache(maxsize=_MOST_SHAPES)
def _is_endless_count(shape: str, start: int, end: int) -> bool:
    """Return whether a count is of what never comes to its end, such as containers that run."""
    before = shape[max(0, start - _BESIDE_CHARS) : start]
    return bool(_STATE_BEHIND.match(shape, end) or _COUNT_LABEL.search(before))


@lru_cache(maxsize=_MOST_SHAPES)
def _name_bar(shape: str, start: int, end: int) -> tuple[str, slice]:
    """Return the words before a figure, and where a number stands that tells bars apart."""
    before, behind = shape[:start], shape[end:]
    if before.rstrip().endswith(("[", "(")) and behind.lstrip().startswith(("]", ")")):
        return "[]", slice(0)
    words = [word for word in _LABEL_WORD.findall(before.lower()) if any(map(str.isalpha, word))]
    cut = max(0, start - _BESIDE_CHARS)
    number = _LABEL_NUMBER.search(before[cut:])
    if number is None or not words:
        return " ".join(words), slice(0)
    return " ".join([*words, ""]), slice(cut + number.start(1), cut + number.end(1))


@lru_cache(maxsize=_MOST_SHAPES)
def _is_no_progress(shape: str) -> bool:
    """Return whether a line tells a step, an early phase, or a cell of a table."""
    return bool(
        _STEP_OUTPUT.match(shape)
        or _EARLY_PHASE.search(shape)
        or _QUANTILE_ROW.match(shape)
        or (_BOX_ROW.match(shape) and not _BAR_SIGNS.search(shape))
    )


def _is_table_header(line: str) -> bool:
    """Return whether a line names columns, of which one holds percentages."""
    is_named = "%" in line or "READY" in line
    if not (is_named or "  " in line or "\t" in line) or _DIGIT.search(line):
        return False
    cells = line.split() if is_named else _CELL_GAP.split(line.strip())
    return len(cells) >= _TABLE_COLUMNS - 1


def _is_table_row(line: str) -> bool:
    return (
        len(line.split()) >= _TABLE_COLUMNS
        and not line.lstrip().startswith("[")
        and not _BAR_SIGNS.search(line)
    )


def _read_layer(layer: re.Match[str], line: str) -> float:
    """Return how far a layer is loaded, unpacked or sent."""
    if layer["moves"] is None:
        return 0.0 if layer["begun"] else 100.0
    return next((each.percent for each in _find_figures(line[layer.end() :])), 0.0)


@lru_cache(maxsize=256)
def _compile_name(name: str) -> re.Pattern[str]:
    words = r"\s+".join(map(re.escape, name.split()))
    return re.compile(rf"(?<!\w){words}", re.IGNORECASE)


def _read_named(text: str, name: str) -> Iterator[tuple[float, str]]:
    """Yield the amount beside a name on each line: the first behind it, else the last before it."""
    verbs = name.lower().split()
    for line in _split_lines(text):
        place = _compile_name(name).search(line)
        if place is None:
            continue
        early = _EARLY_PHASE.search(line)
        if early is not None and (early["apt"] or early["verb"]).lower().split()[0] not in verbs:
            continue
        figures = _find_figures(line)
        behind = [each.percent for each in figures if each.start >= place.end()]
        before = [each.percent for each in figures if each.end <= place.start()]
        if behind or before:
            yield behind[0] if behind else before[-1], line


# --- one wait -----------------------------------------------------------------


@dataclass(slots=True)
class _Bar:
    """One bar of a wait."""

    order: int
    """When it was first shown, in amounts."""
    percent: float
    lowest: float
    is_loop: bool
    moved: int = 0
    """When it last changed, in amounts; 0: never."""
    rises: int = 0
    is_measure: bool = False
    """True while it may be a measure."""
    has_fallen: bool = False
    """True if it fell before it was full."""


class AmountWatch:
    """Decides whether the whole has reached a percentage, from all amounts since a wait began.

    A bar that rises counts at once, unless it seems to be a part of an older one that is not at
    100 %. An amount that was not seen to rise counts once it is the last one shown for
    `STAND_SECONDS`, or the target is over. What its words call a measure counts if it does
    as progress does: it never falls, and something is being done, or it was full at the end.
    """

    def __init__(self, at_least: float) -> None:
        """Set the percentage to reach."""
        self._at_least = at_least
        self._bars: dict[str, _Bar] = {}
        self._layers: dict[str, float] = {}
        self._clock = 0
        self._last: Amount | None = None
        self._stands_since: datetime | None = None
        """Since when no lower amount was shown; None: the last one is lower."""
        self._reached: Amount | None = None
        self._full: tuple[Amount, datetime] | None = None
        """A measure that rose until it was full and is the last amount shown, and since when."""

    def observe(self, text: str, at: datetime) -> None:
        """Add the lines that were shown at an instant."""
        risen: tuple[Amount, int] | None = None
        for amount in self._join_layers(_read_all(text)):
            is_risen = self._note_bar(amount)
            bar = self._bars[amount.bar]
            self._full = (amount, at) if self._is_full(bar) else None
            if bar.is_measure:
                continue
            self._last = amount
            if amount.percent < self._at_least:
                self._stands_since = None
                if risen and self._bars[amount.bar].order > risen[1]:
                    risen = None  # It was a phase: another one has begun.
            else:
                self._stands_since = self._stands_since or at
                if is_risen and risen is None and not self._is_nested(amount.bar):
                    risen = (amount, self._clock)
        if self._reached is None and risen is not None:
            self._reached = risen[0]

    def find(self, now: datetime, *, is_over: bool) -> tuple[str | None, float | None]:
        """Return the line that reaches the percentage, and after how many seconds to ask again.

        `is_over`: nothing more will be shown. None: it is not reached; nothing is awaited.
        """
        if self._reached is not None:
            return self._reached.line, None
        stands: list[tuple[datetime, str]] = []
        if self._last is not None and self._stands_since is not None:
            bar = self._bars[self._last.bar]
            if not self._last.is_weak or bar.lowest < bar.percent:
                is_part = self._is_nested(self._last.bar)
                stand = _NESTED_STAND_SECONDS if is_part else STAND_SECONDS
                stands.append((self._stands_since + timedelta(seconds=stand), self._last.line))
        if self._full is not None:
            full, since = self._full
            stands.append((since + timedelta(seconds=_NESTED_STAND_SECONDS), full.line))
        if not stands:
            return None, None
        until, line = min(stands)
        left = (until - now).total_seconds()
        return (line, None) if left <= 0 or is_over else (None, left)

    def _join_layers(self, amounts: Iterable[Amount]) -> Iterator[Amount]:
        """Yield amounts, with one instead of those of an image's layers: the least of them."""
        last: Amount | None = None
        for amount in amounts:
            if not amount.bar.startswith(_LAYER_NAME):
                yield amount
                continue
            last = amount
            self._layers.pop(amount.bar, None)
            if len(self._layers) >= _MOST_BARS:
                del self._layers[next(iter(self._layers))]
            self._layers[amount.bar] = amount.percent
        if last is not None:
            yield last._replace(bar=_LAYER_NAME, percent=min(self._layers.values()))

    def _note_bar(self, amount: Amount) -> bool:
        """Add an amount to its bar, and return whether it was lower before."""
        self._clock += 1
        bar = self._bars.get(amount.bar)
        if bar is None:
            if len(self._bars) >= _MOST_BARS:
                shown = self._last.bar if self._last else None
                del self._bars[next(each for each in self._bars if each != shown)]
            self._bars[amount.bar] = _Bar(
                self._clock,
                amount.percent,
                amount.percent,
                amount.is_loop,
                is_measure=amount.is_measure,
            )
            return False
        bar.rises += amount.percent > bar.percent
        bar.has_fallen = bar.has_fallen or amount.percent < bar.percent < _FULL_PERCENT
        if amount.is_work and bar.rises:
            bar.is_measure = bar.has_fallen
        if amount.percent != bar.percent:
            bar.percent, bar.moved = amount.percent, self._clock
        is_risen = bar.lowest < amount.percent
        bar.lowest = min(bar.lowest, amount.percent)
        return is_risen

    def _is_full(self, bar: _Bar) -> bool:
        """Return whether a measure has risen until it was full, as progress does."""
        return (
            bar.is_measure
            and bar.percent == _FULL_PERCENT
            and bar.rises >= _FEWEST_RISES
            and not bar.has_fallen
        )

    def _is_nested(self, name: str) -> bool:
        """Return whether an older bar that is not full moves beside this one, or is a loop too."""
        bar = self._bars[name]
        return any(
            elder.order < bar.order
            and elder.percent < _FULL_PERCENT
            and not elder.is_measure
            and (elder.moved > bar.order or (elder.is_loop and bar.is_loop))
            for elder in self._bars.values()
        )
