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
    """Name of its bar: the label without what changes, and the total."""
    line: str
    label: str
    """The name without the total."""
    done: float = 0.0
    """Share of the total, in its unit; 0: no total is shown."""
    part: float | None = None
    """Percentage behind a count: of the item, or of all; None: there is none."""
    is_weak: bool = False
    """True if it says nothing unless it rises, such as `1/1`."""
    is_loop: bool = False
    """True for the bar of a loop, which others may be nested in."""
    begins: bool = False
    """True if what is counted last has only begun, so that what follows is a part of it."""
    is_measure: bool = False
    """True if its words tell how full, fast or good something is, so that only its rise counts."""
    is_work: bool = False
    """True for a measure behind what is done with it, such as `Uploading to storage`."""


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a percentage or a count stands on all lines of one shape, and what it is of."""

    start: int
    end: int
    done: slice
    total: slice | None
    """None: a percentage."""
    scale: float
    """Unit of what is done, in units of the total."""
    is_count: bool
    """True if items are counted, not bytes."""
    is_state: bool
    """True if its words tell how full, fast or good something is, not how far."""
    is_work: bool
    is_loop: bool
    begins: bool
    """True if what is counted last has only begun, as in `Epoch 3/12`."""
    has_ended: bool
    """True on the line of an item that has ended."""
    label: str
    """The words before it."""
    number: slice
    """Where a number stands that tells bars apart."""


class _Figure(NamedTuple):
    """A percentage or a count on a line."""

    percent: float
    place: _Place
    items: float
    """How many items are counted; 0: a percentage, or sizes."""
    done: float
    """Share of a total, in its unit; 0: a percentage."""


_CJK: Final = "\u2e80-\U0003ffff"
"""Letters that stand beside numbers without a blank."""
_PERCENT: Final = re.compile(
    rf"(?<![^\W{_CJK}])(?<![.,])(?<![\s(=:]-)(?<!^-)"
    rf"(\d{{1,9}}(?:[.,]\d{{1,9}})?)[ \u00a0\u2009\u202f]?[%％](?![^\W{_CJK}]|%)"
)
_PREFIXES: Final = "KMGTP"
_UNIT: Final = rf"(?: {{0,3}}([{_PREFIXES}])?i?B)?"
_COUNT: Final = re.compile(
    rf"(?<![\w./:,-])(\d[\d,]{{0,20}}(?:\.\d{{1,9}})?){_UNIT} {{0,3}}/ {{0,3}}"
    rf"(\d[\d,]{{0,20}}(?:\.\d{{1,9}})?){_UNIT}"
    r"(?![\w/]|[.:,-]\d|[ T]\d{1,2}:\d\d)",
    re.IGNORECASE,
)
_HOLDERS: Final = (
    "memory|mem|ram|vram|heap|disk|storage|space|inodes?|volume|lines|functions|statements|branches"
)
"""Things that are measured, and also worked on."""
_MEASURES: Final = (
    rf"{_HOLDERS}|cpu|gpu|swap|battery|load|quota|capacity|usage|use|used|util|utili[sz]ation|free"
    "|idle|busy|available|full|coverage|accuracy|acc|score|rate|ratio|loss|hits|misses|charging"
    "|discharging|threshold|overhead|deflated|stored|compressed|compression|saved"
)
_MEASURE_LABEL: Final = re.compile(
    rf"(?<![a-z])(?:{_MEASURES})(?:\(s\))?[\s:=(\[|,]*(?:(?:is|at|of|was|by)\s+)?[<>~≈]?\s*$"
    r"|\b(?:left|remaining)\s*[:=]\s*$|^\W*remaining\s+$"
    rf"|\d {{0,3}}[{_PREFIXES}]?i?B\s*==?>\s*$",
    re.IGNORECASE,
)
"""Words before what is measured or left, and the sizes of which zstd prints the ratio."""
_MEASURE_SUFFIX: Final = re.compile(
    rf"\s*(?:of (?:the )?)?(?:packet )?(?:{_MEASURES}"
    r"|faster|slower|smaller|larger|less|more|reduction)\b"
    r"|\s*(?:[a-z]+ )?(?:left|remaining)\b(?!\s*[:=]?\s*\d)"
    rf"|\s*\(\s*[\d.]+ {{0,3}}[{_PREFIXES}]?i?B *=> ",
    re.IGNORECASE,
)
_COUNT_LABEL: Final = re.compile(
    r"\b(?:cpus?|memory|mem|swap|disk|space|storage|used|free|hits|misses|calls|replicas|ready"
    r"|available)[\s:=(]*$",
    re.IGNORECASE,
)
"""Labels of counts that have no end."""
_WORK_LABEL: Final = re.compile(
    r"(?<!\w)(?!remaining)[a-z]{2,20}ing\s+(?:[\w./'-]{1,20}\s+){0,4}"
    rf"(?:{_HOLDERS})(?:\(s\))?[\s:=(\[|,]*$",
    re.IGNORECASE,
)
"""Labels of work on a thing that is also measured."""
_STATE_BEHIND: Final = re.compile(
    r"\s+(?:Running|Pending|Completed|Error|CrashLoop|Container|Init|Terminating|VUs\b)"
)
"""States of containers behind how many of them are ready, and the users that k6 plays."""
_DF_SIZES: Final = re.compile(rf"(?:\s\d[\d.,]*[{_PREFIXES}]?i?B?\s*){{3}}$", re.IGNORECASE)
_DF_MOUNT: Final = re.compile(r"\s+/")
"""Text beside a percentage of `df`."""
_GZIP_BEHIND: Final = re.compile(r"\s+-- replaced ")
"""Text behind a percentage of `gzip -v`."""
_SIMILARITY: Final = re.compile(
    r"\s*(?:(?:rename|copy) [^=]* => .*\(0+%\)\s*$|rewrite .*\(0+%\)\s*$|(?:dis)?similarity index )"
)
"""How alike two files are, as git prints."""
_DONE_SIGN: Final = re.compile(r"\s*[✓✔√✗✘✕×]\s")
"""Begin of an item that has ended, such as a test whose title has a percentage."""
_WHOLE_LABEL: Final = re.compile(r"\W*(?:total|overall)\b", re.IGNORECASE)
"""Begin of a line with the bar that all others are parts of, also older ones."""
_WHOLE_NAME: Final = "total"
_NO_NAME: Final = "[]"
"""Name of a bar that is only a figure in brackets."""
_PROJECT_STEP: Final = re.compile(
    r"[\]%] (?:(?P<builds>Performing build)|Performing install|No install|Completed)"
    r"(?: step for)? '(?P<project>[^']{1,100})'"
)
"""Steps of CMake's external projects, whose own builds print the same form within them."""
_EARLY_PHASE: Final = re.compile(
    r"\b(?:(?:counting|compressing) objects|reading (?:package lists|database|state information)"
    r"|building dependency tree|extracting templates)\b",
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
_FIGURE_CELL: Final = re.compile(r"[\[(|]?(?:[\d.,]+ ?[%％]|\d+ ?/ ?\d+)[\])|,]?")
_DIGIT: Final = re.compile(r"\d")
_SHAPE: Final = str.maketrans("123456789", "000000000")
_MOST_SHAPES: Final = 1024
"""Shapes of lines of which it is kept what their words say."""


def read_amounts(text: str) -> Iterator[Amount]:
    """Yield the amount of each line that has one which may be progress, seen once."""
    return (each for each in _read_all(text, _Table()) if not each.is_measure)


class _Head(NamedTuple):
    """The head of a table."""

    word: str
    """Its first one."""
    is_loose: bool
    """True if single blanks may part the cells of the rows."""


@dataclass(slots=True)
class _Table:
    """The table that the lines are in."""

    head: _Head | None = None
    """None: they are in no table."""


def _read_all(text: str, table: _Table) -> Iterator[Amount]:
    """Yield the amount of each line that has one which may be progress or a measure.

    `table` goes on where it stood before the last line, which may be unfinished or empty.
    """
    head = before = table.head
    for line, shape in _split_lines(text):
        before = head
        layer = _LAYER.match(line)
        if layer is None and _is_table_header(line):
            head = _Head(line.split(None, 1)[0], "%" in line or "READY" in line)
        elif head is not None and (layer is not None or not _is_table_row(line, head)):
            head = None
        if layer is not None:
            name = f"{_LAYER_NAME}{layer[1]}"
            yield Amount(_read_layer(layer, line, shape), name, line, name)
        elif "/" in line or "%" in line or "％" in line:
            if head is None and (amount := _read_amount(line, shape)) is not None:
                yield amount
        elif (meter := _METER.match(line)) and (
            # Without a length, curl shows 100 of what came so far, and 0 of what is to come.
            meter[1] == "0" or meter.group(2, 3) != ("0", "0")
        ):
            yield Amount(float(meter[1]), "curl", line, "curl")
    table.head = before


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


def _split_lines(text: str) -> Iterator[tuple[str, str]]:
    """Yield the beginning of each line, and its shape: with zeros in place of its digits.

    A log has many lines of few shapes, so what the words of a shape say is kept.
    """
    text = text.replace("\r", "\n")
    for line, shape in zip(text.split("\n"), text.translate(_SHAPE).split("\n"), strict=True):
        yield line[:_LINE_CHARS], shape[:_LINE_CHARS]


def _read_amount(line: str, shape: str) -> Amount | None:
    """Return the first amount of a line that is no measure, else a measure; None: there is none."""
    figures = _read_figures(line, _find_progress(shape))
    measures = [each for each in figures if each.place.is_state and not each.items]
    if measures:
        # `85.71% ( 6/7 )` says the same twice.
        figures = [
            each for each in figures if all(abs(each.percent - m.percent) >= 1 for m in measures)
        ]
    is_measure = not figures
    if not (figures := figures or measures[:1]):
        return None
    percent, place, items, done = figures[0]
    if items and place.is_state:
        return None
    second = figures[1] if len(figures) > 1 else None
    part: float | None = None
    if items and second is not None and place.label == _WHOLE_NAME:
        percent = second.percent
    elif items and (second is not None or place.begins):
        # `[3/12] app.js 40%`: the third item of twelve is at 40 %; `0/12` has none behind it.
        part = None if second is None else second.percent
        behind = min(part or 0.0, 100.0)
        percent = percent + (behind / items if done == 0 else (behind - 100) / items)
    label = bar = f"{_MEASURE_PREFIX if is_measure else ''}{place.label}{line[place.number]}"
    total = place.total
    if total is None and not label and second is not None and abs(second.percent - percent) <= 1:
        total, done = second.place.total, second.done  # `92%|███ | 12/13`
    if total is not None:
        bar = f"{label}/{line[total]}"
    return Amount(
        percent,
        bar,
        line,
        label,
        done,
        part,
        items == 1 or place.has_ended,
        place.is_loop or (second is not None and second.place.is_loop),
        place.begins and items > 1,
        is_measure,
        is_measure and place.is_work,
    )


def _read_figures(line: str, places: Iterable[_Place]) -> list[_Figure]:
    """Return the percentages at some places of a line, and the counts that have an end."""
    figures: list[_Figure] = []
    for place in places:
        if place.total is None:
            figures.append(_Figure(float(line[place.done].replace(",", ".")), place, 0, 0))
            continue
        done = float(line[place.done].replace(",", "")) * place.scale
        total = float(line[place.total].replace(",", ""))
        if done <= total > 0:
            items = total if place.is_count else 0
            figures.append(_Figure(100 * done / total, place, items, done))
    return figures


@lru_cache(maxsize=_MOST_SHAPES)
def _find_progress(shape: str) -> list[_Place]:
    """Return the places of a shape's figures; none on a step, an early phase, or a table's cell."""
    is_no_progress = (
        _STEP_OUTPUT.match(shape)
        or _EARLY_PHASE.search(shape)
        or _QUANTILE_ROW.match(shape)
        or _SIMILARITY.match(shape)
        or (_BOX_ROW.match(shape) and not _BAR_SIGNS.search(shape))
    )
    return [] if is_no_progress else _find_places(shape)


def _find_places(shape: str) -> list[_Place]:
    """Return where the first percentages and counts of a shape stand, in order."""
    figures: list[re.Match[str]] = []
    if "%" in shape or "％" in shape:
        figures += _PERCENT.finditer(shape)
    if "/" in shape:
        figures += _COUNT.finditer(shape)
    figures.sort(key=lambda each: each.start())
    return [_describe_place(shape, each) for each in figures[:_MOST_FIGURES]]


def _describe_place(shape: str, figure: re.Match[str]) -> _Place:
    """Return what the words beside a percentage or a count say of it."""
    start, end = figure.span()
    before = shape[max(0, start - _BESIDE_CHARS) : start]
    behind = shape[end : end + _BESIDE_CHARS]
    is_share, scale = figure.re is _PERCENT, 1.0
    if not is_share and figure[2] and figure[4]:
        scale = 1024.0 ** (_PREFIXES.index(figure[2].upper()) - _PREFIXES.index(figure[4].upper()))
    is_count = not (is_share or figure[2] or figure[4] or figure[0][-1] in "Bb" or "." in figure[0])
    if is_count:
        is_state = _STATE_BEHIND.match(behind) or _COUNT_LABEL.search(before)
    else:
        is_state = (
            _MEASURE_LABEL.search(before)
            or _MEASURE_SUFFIX.match(behind)
            or (_DF_MOUNT.match(behind) and _DF_SIZES.search(before))
            or _GZIP_BEHIND.match(behind)
        )
    label, number = _name_bar(shape[:start], behind)
    if _WHOLE_LABEL.match(shape, 0, start):
        label, number = _WHOLE_NAME, slice(0)
    return _Place(
        start,
        end,
        slice(*figure.span(1)),
        None if is_share else slice(*figure.span(3)),
        scale,
        is_count,
        is_state=is_state is not None,
        is_work=is_state is not None and _WORK_LABEL.search(before) is not None,
        is_loop=behind.startswith("|"),
        begins=before.lower().endswith("epoch "),
        has_ended=_DONE_SIGN.match(shape) is not None,
        label=label if is_share or is_count else f"{label} sizes",
        number=number,
    )


def _name_bar(before: str, behind: str) -> tuple[str, slice]:
    """Return the words before a figure, and where a number stands that tells bars apart."""
    if before.rstrip().endswith(("[", "(")) and behind.lstrip().startswith(("]", ")")):
        return _NO_NAME, slice(0)
    words = [word for word in _LABEL_WORD.findall(before.lower()) if any(map(str.isalpha, word))]
    number = _LABEL_NUMBER.search(before, max(0, len(before) - _BESIDE_CHARS))
    if number is None or not words:
        return " ".join(words), slice(0)
    return " ".join([*words, ""]), slice(*number.span(1))


def _is_table_header(line: str) -> bool:
    """Return whether a line names columns, of which one holds percentages."""
    if ("  " not in line and "\t" not in line) or _DIGIT.search(line):
        return False
    cells = _CELL_GAP.split(line.strip())
    if len(cells) > 1 and ("%" in line or "READY" in line):
        cells = line.split()
    return len(cells) >= _TABLE_COLUMNS - 1


def _is_table_row(line: str, head: _Head) -> bool:
    """Return whether a line goes on with a table: not if it begins as the head does."""
    words = line.split()
    if not words or words[0] == head.word:
        return False
    cells = words if head.is_loose else _CELL_GAP.split(line.strip())
    if len(cells) < _TABLE_COLUMNS - 1 and _LABEL_WORD.search(line) is not None:
        return False
    if "/" not in line and "%" not in line and "％" not in line:
        return True
    return (
        len(words) >= _TABLE_COLUMNS
        and not words[0].startswith("[")
        and not _BAR_SIGNS.search(line)
        and any(map(_FIGURE_CELL.fullmatch, cells))
    )


def _read_layer(layer: re.Match[str], line: str, shape: str) -> float:
    """Return how far a layer is loaded, unpacked or sent."""
    if layer["moves"] is None:
        return 0.0 if layer["begun"] else 100.0
    figures = _read_figures(line, _find_places(shape))
    return next((each.percent for each in figures if each.place.start >= layer.end()), 0.0)


def _read_named(text: str, name: str) -> Iterator[tuple[float, str]]:
    """Yield the amount beside a name on each line: the first behind it, else the last before it."""
    words = name.lower().split()
    pattern = re.compile(r"(?<!\w)" + r"\s+".join(map(re.escape, name.split())), re.IGNORECASE)
    for line, shape in _split_lines(text):
        place = pattern.search(line)
        if place is None:
            continue
        early = _EARLY_PHASE.search(line)
        if early is not None and early[0].lower().split()[0] not in words:
            continue
        figures = _read_figures(line, _find_places(shape))
        behind = [each.percent for each in figures if each.place.start >= place.end()]
        before = [each.percent for each in figures if each.place.end <= place.start()]
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
    is_measure: bool
    """True while it may be a measure."""
    begins: bool
    label: str
    is_whole: bool
    """True if its label says that all others are parts of it."""
    done: float = 0.0
    part: float | None = None
    part_moves: bool = False
    """True if the percentage behind its count rose while that stood."""
    part_is_all: bool = False
    """True if it also went on rising when the next item came."""
    total_since: datetime | None = None
    """When its total last grew; None: never."""
    moved: int = 0
    """When it last changed, in amounts; 0: never."""
    rises: int = 0
    has_fallen: bool = False
    """True if it fell before it was full."""


class AmountWatch:
    """Decides whether the whole has reached a percentage, from all amounts since a wait began.

    A bar that rises counts at once, unless it seems to be a part of an older one that is not at
    100 %, or its total has just grown. An amount that was not seen to rise counts once it is the
    last one shown for `STAND_SECONDS`, or the target is over; one that only falls never does. What
    its words call a measure counts if it does as progress does: it never falls, and something is
    being done, or it was full at the end.
    """

    def __init__(self, at_least: float) -> None:
        """Set the percentage to reach."""
        self._at_least = at_least
        self._table = _Table()
        self._bars: dict[str, _Bar] = {}
        self._latest: dict[str, str] = {}
        """Name of the latest bar of each label that has a total."""
        self._layers: dict[str, float] = {}
        self._projects: set[str] = set()
        """CMake's external projects that are being built."""
        self._clock = 0
        self._last: tuple[Amount, _Bar] | None = None
        self._stands_since: datetime | None = None
        """Since when no lower amount was shown; None: the last one is lower."""
        self._reached: str | None = None
        """The line that reached the percentage."""
        self._full: tuple[str, datetime] | None = None
        """The last line shown, if its measure rose until it was full, and since when."""

    def observe(self, text: str, at: datetime) -> None:
        """Add the lines that were shown at an instant."""
        risen: tuple[str, int] | None = None
        for amount in self._join_layers(_read_all(text, self._table)):
            if amount.label == _NO_NAME and self._is_of_project(amount.line):
                continue
            bar = self._note_bar(amount, at)
            self._full = None
            if bar.is_measure:
                is_full = bar.percent == _FULL_PERCENT and not bar.has_fallen
                if is_full and bar.rises >= _FEWEST_RISES:
                    self._full = (amount.line, at)
                continue
            self._last = amount, bar
            if bar.percent < self._at_least:
                self._stands_since = None
                if risen and bar.order > risen[1]:
                    risen = None  # It was a phase: another one has begun.
            else:
                self._stands_since = self._stands_since or at
                if bar.lowest < bar.percent and risen is None and self._is_sure(bar, at):
                    risen = (amount.line, self._clock)
        if self._reached is None and risen is not None:
            self._reached = risen[0]

    def find(self, now: datetime, *, is_over: bool) -> tuple[str | None, float | None]:
        """Return the line that reaches the percentage, and after how many seconds to ask again.

        `is_over`: nothing more will be shown. None: it is not reached; nothing is awaited.
        """
        if self._reached is not None:
            return self._reached, None
        stands: list[tuple[datetime, str]] = []
        if self._last is not None and self._stands_since is not None:
            amount, bar = self._last
            only_fell = bar.has_fallen and not bar.rises
            if not only_fell and (not amount.is_weak or bar.lowest < bar.percent):
                stand = _NESTED_STAND_SECONDS if self._is_nested(bar) else STAND_SECONDS
                stands.append((self._stands_since + timedelta(seconds=stand), amount.line))
        if self._full is not None:
            line, since = self._full
            stands.append((since + timedelta(seconds=_NESTED_STAND_SECONDS), line))
        if not stands:
            return None, None
        until, line = min(stands)
        left = (until - now).total_seconds()
        return (line, None) if left <= 0 or is_over else (None, left)

    def _is_of_project(self, line: str) -> bool:
        """Return whether the build of an external project prints a line, and note the projects."""
        step = _PROJECT_STEP.search(line) if "'" in line else None
        if step is None:
            return bool(self._projects)
        if step["builds"] and len(self._projects) < _MOST_BARS:
            self._projects.add(step["project"])
        else:
            self._projects.discard(step["project"])
        return False

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
            percent = min(self._layers.values())
            yield last._replace(bar=_LAYER_NAME, label=_LAYER_NAME, percent=percent)

    def _note_bar(self, amount: Amount, at: datetime) -> _Bar:
        """Add an amount to its bar."""
        self._clock += 1
        bar = self._bars.get(amount.bar) or self._continue_bar(amount, at)
        if bar is None:
            return self._add_bar(amount)
        percent = amount.percent
        if percent == bar.percent and amount.part is None:
            return bar
        if amount.part is not None:
            if bar.part is not None and amount.part != bar.part:
                rises = amount.part > bar.part
                if amount.done == bar.done:
                    bar.part_moves = rises
                else:
                    bar.part_is_all = rises and bar.part_moves
            percent = amount.part if bar.part_is_all else percent
            bar.part = amount.part
        bar.done = amount.done
        bar.rises += percent > bar.percent
        bar.has_fallen = bar.has_fallen or percent < bar.percent < _FULL_PERCENT
        if amount.is_work and bar.rises:
            bar.is_measure = bar.has_fallen
        if percent != bar.percent:
            bar.percent, bar.moved = percent, self._clock
        bar.lowest = min(bar.lowest, percent)
        return bar

    def _continue_bar(self, amount: Amount, at: datetime) -> _Bar | None:
        """Return the bar whose total has grown to that of an amount; None: it is another bar.

        What is done goes on where a total grows, and begins anew in a bar within another one.
        """
        name = self._latest.get(amount.label)
        if name is None or amount.is_loop or amount.done <= self._bars[name].done:
            return None
        bar = self._bars[amount.bar] = self._bars.pop(name)
        self._latest[amount.label] = amount.bar
        bar.total_since = at
        return bar

    def _add_bar(self, amount: Amount) -> _Bar:
        """Add the bar of an amount, and forget the oldest one if there are too many."""
        if len(self._bars) >= _MOST_BARS:
            oldest = next(iter(self._bars))
            label = self._bars.pop(oldest).label
            if self._latest.get(label) == oldest:
                del self._latest[label]
        bar = self._bars[amount.bar] = _Bar(
            order=self._clock,
            percent=amount.percent,
            lowest=amount.percent,
            is_loop=amount.is_loop,
            is_measure=amount.is_measure,
            begins=amount.begins,
            label=amount.label,
            is_whole=amount.label == _WHOLE_NAME,
            done=amount.done,
            part=amount.part,
        )
        if amount.bar != amount.label:
            self._latest[amount.label] = amount.bar
        return bar

    def _is_sure(self, bar: _Bar, now: datetime) -> bool:
        """Return whether a bar that rose is no part, and its total did not just grow."""
        is_steady = bar.total_since is None or (
            now - bar.total_since >= timedelta(seconds=STAND_SECONDS)
        )
        return is_steady and not self._is_nested(bar)

    def _is_nested(self, bar: _Bar) -> bool:
        """Return whether a bar that is not full moves beside this one, which is a part of it.

        It is older, or its label says that it is the whole.
        """
        return any(
            other is not bar
            and other.percent < _FULL_PERCENT
            and not other.is_measure
            and (
                other.is_whole and other.moved > bar.order
                if other.is_whole != bar.is_whole
                else other.order < bar.order
                and (
                    other.moved > bar.order
                    or other.begins
                    or (other.is_loop and bar.is_loop)
                    or (other.label == bar.label and other.done >= 1)
                )
            )
            for other in self._bars.values()
        )
