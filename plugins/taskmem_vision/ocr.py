"""Read the text of screens on this machine: by tesseract, or else by the package rapidocr.

Tesseract reads a screen's letters badly at original size, and well when enlarged. Phrases of a
window that were found whole, in DejaVu of 8, 9, 10 and 11 pixels:

    as it is, --psm 6     28   60   27   59 %
    as it is, --psm 11    39   78   90   95 %
    twice as large, 6     71   96   96   96 %
    twice as large, 3     71   96   97   99 %
    twice as large, 11    79   99  100   99 %
    three times, 11       85   99  100   99 %

It separates letters from background by one threshold for the whole picture. Of lines in ten pairs
of colours with a dialog over them, it finds 56 %, hardly any that are green on black or black on
grey; of lines that begin two pixels from a window's edge, 64 %. So it is given the difference from
the local background, in any of the three colours, dark on white: 87 % and 72 %, at the same speed.
A full screen takes 0.3 s to prepare.

rapidocr takes a gigabyte of memory and several seconds for a full screen; its models are included.
Engines find words or phrases with their boxes; rows are assembled here. Most misread numbers have
low confidence, or a colon or letter in place of a point or zero; none of 342 correctly read
percentages had.
"""

from __future__ import annotations

import asyncio
import importlib
import os
import re
import shutil
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from hashlib import blake2b
from importlib.util import find_spec
from io import BytesIO
from typing import Any, Final, NamedTuple, Protocol, cast, runtime_checkable

from PIL import Image, ImageChops, ImageFilter, ImageOps

from taskmem_hookspecs import JudgeUnavailable
from taskmem_vision.gemini import remove_keys
from taskmem_vision.pictures import consume_exception
from taskmem_vision.programs import run_program
from taskmem_vision.text_lines import to_one_line

_SAME_ROW: Final = 0.5
"""Words are in one row if their middles differ by less than this part of their height."""
ROW_GAP: Final = 3.0
"""Words in a row with a larger gap are on separate lines. Line heights."""
_LEAST_CONFIDENCE: Final = 0.6
"""Minimum confidence of a number."""

_DIGIT: Final = re.compile(r"\d")
_MISREAD: Final = re.compile(r"\d:\d|\b[OolIx][.,]?\d|\d[OolIx]\d")
"""A misread point or zero, or a time of day; in either case not a number."""


class Word(NamedTuple):
    """A word or phrase with its box, in picture pixels."""

    text: str
    left: float
    right: float
    top: float
    bottom: float
    confidence: float
    """The engine's confidence, from 0 to 1."""

    @property
    def middle(self) -> float:
        """Vertical middle of the word."""
        return (self.top + self.bottom) / 2

    @property
    def height(self) -> float:
        """Height of its line."""
        return self.bottom - self.top

    @property
    def is_sure(self) -> bool:
        """True if it contains no possibly misread number."""
        clear = self.confidence >= _LEAST_CONFIDENCE and not _MISREAD.search(self.text)
        return clear or not _DIGIT.search(self.text)


class OcrPage(NamedTuple):
    """Text that was read from a picture."""

    text: str
    """All lines."""
    sure: str
    """The lines without a possibly misread number."""


def arrange_words(words: Iterable[Word]) -> OcrPage:
    """Arrange words in lines, from top to bottom."""
    rows: list[list[Word]] = []
    for word in sorted(words, key=lambda word: (word.middle, word.left)):
        if rows and word.middle - rows[-1][0].middle < _SAME_ROW * word.height:
            rows[-1].append(word)
        else:
            rows.append([word])
    lines = [line for row in rows for line in _split_row(row)]
    return OcrPage(
        "\n".join(map(_format_line, lines)),
        "\n".join(_format_line(line) for line in lines if all(word.is_sure for word in line)),
    )


def join_pages(pages: Sequence[OcrPage]) -> OcrPage:
    """Join pages to one."""
    return OcrPage("\n".join(p.text for p in pages), "\n".join(p.sure for p in pages))


def _split_row(row: list[Word]) -> Iterator[list[Word]]:
    """Yield the lines of a row, from left to right."""
    line: list[Word] = []
    for word in sorted(row, key=lambda word: word.left):
        if line and word.left - line[-1].right > ROW_GAP * word.height:
            yield line
            line = []
        line.append(word)
    yield line


def _format_line(line: list[Word]) -> str:
    return " ".join(word.text for word in line)


_LIMIT_SECONDS: Final = 20.0
"""Time limit for one picture; a full screen of small text takes about three. Seconds."""
OUTPUT_BYTES: Final = 1 << 22
"""Maximum output, of words and their boxes; a screen has fewer. Bytes."""
_SMALL_PIXELS: Final = 256 * 1024
"""Up to this many pixels a picture is enlarged three times …"""
_SCREEN_PIXELS: Final = 2560 * 1600
"""… and up to this many twice; a larger one already has large letters."""
_MEDIAN_SIDE: Final = 7
"""Side of the square around a letter whose median is its background. Pixels at half size.

A wider square would reach beyond the letter's window.
"""

_SPARSE_LAYOUT, _BLOCK_LAYOUT = "11", "6"
"""Values of --psm: sparse text, and one block.

Sparse text: no column is taken for prose, and no dark part is skipped. One block: points and colons
of numbers in rows are not taken for a column's edge.
"""
_LINE, _WORD = "4", "5"
"""Levels in tesseract's table: a line, and a word of it."""
_NICENESS: Final = "10"
_SAID_CHARACTERS: Final = 200


@runtime_checkable
class OcrEngine(Protocol):
    """Reads the text of a picture."""

    async def read(self, picture: bytes, *, numbers: bool = False) -> OcrPage:
        """Return the text of a PNG or JPEG; empty if it shows none.

        If `numbers` matter, it may take twice as long.

        Raises:
            JudgeUnavailable: It could not be read.
        """
        ...


class Tesseract:
    """Runs the program tesseract; one instance for each process, one picture at a time."""

    def __init__(self, program: str, limit_seconds: float = _LIMIT_SECONDS) -> None:
        """Set the path of the program and its time limit. Seconds."""
        nice = shutil.which("nice")
        first = (nice, "-n", _NICENESS) if nice else ()
        self._command: tuple[str, ...] = (*first, program, "stdin", "stdout")
        self._limit_seconds = limit_seconds
        self._turn = asyncio.Lock()

    @classmethod
    def find(cls) -> Tesseract | None:
        """Return the engine; None: tesseract is not installed."""
        program = shutil.which("tesseract")
        return cls(program) if program else None

    async def read(self, picture: bytes, *, numbers: bool = False) -> OcrPage:
        """Return the text of a PNG or JPEG; empty if it shows none.

        If numbers matter, they are read a second time as one block of text. Invalid UTF-8 becomes
        U+FFFD.

        Raises:
            JudgeUnavailable: It is not a picture; or the program cannot be started, fails, takes
                too long or prints more than `OUTPUT_BYTES`.
        """
        async with self._turn:
            letters = await asyncio.to_thread(_separate_letters, picture)
            page = arrange_words(_parse_words(await self._run(letters, _SPARSE_LAYOUT)))
            if not numbers:
                return page
            block = arrange_words(_parse_words(await self._run(letters, _BLOCK_LAYOUT)))
            return page._replace(sure=block.sure)

    async def _run(self, picture: bytes, layout: str) -> bytes:
        """Return the program's output; the program has ended when this returns."""
        command = (*self._command, "--psm", layout, "tsv")
        # One thread: on few cores several threads slow each other down.
        environ = {**remove_keys(os.environ), "OMP_THREAD_LIMIT": "1"}
        try:
            async with asyncio.timeout(self._limit_seconds):
                printed = await run_program(command, environ, most_bytes=OUTPUT_BYTES, data=picture)
        except TimeoutError:
            raise JudgeUnavailable(
                f"tesseract did not read the picture within {self._limit_seconds:g} s; "
                "it is asked again."
            ) from None
        except OSError as error:
            raise JudgeUnavailable(
                f"tesseract cannot be started ({error.strerror}); install it anew."
            ) from None
        if len(printed.output) > OUTPUT_BYTES:
            raise JudgeUnavailable(
                f"tesseract printed more than {OUTPUT_BYTES >> 10} KiB, which no screen "
                "holds; see that it is the real one."
            )
        if printed.status:
            lines = printed.errors.decode("utf-8", "replace").strip().splitlines()
            reason = f" ({to_one_line(lines[-1], _SAID_CHARACTERS)})" if lines else ""
            raise JudgeUnavailable(
                f"tesseract failed with status {printed.status}{reason}; see that it and its "
                "language data are installed."
            )
        return printed.output


def _parse_words(printed: bytes) -> Iterator[Word]:
    """Yield the words of tesseract's table, each with the height of its line."""
    top = bottom = 0.0
    for row in printed.decode("utf-8", "replace").split("\n"):
        try:
            level, *_, left, up, width, height, confidence, text = row.split("\t", 11)
            x, y, wide, high = float(left), float(up), float(width), float(height)
            if level == _LINE:
                top, bottom = y, y + high
            elif level == _WORD and text.strip():
                sure = float(confidence) / 100
                yield Word(text.strip(), x, x + wide, top, bottom, sure)
        except ValueError:  # its head, and whatever is no row
            continue


def _separate_letters(picture: bytes) -> bytes:
    """Return a PNG or JPEG as PNG, enlarged, with letters dark on white, as tesseract wants it.

    Raises:
        JudgeUnavailable: It is not a picture.
    """
    try:
        with Image.open(BytesIO(picture)) as opened:
            image = opened.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise JudgeUnavailable(f"The picture cannot be opened ({type(error).__name__}).") from None
    times = choose_scale(image.size)
    # At half the size the median removes letters as well, in a sixth of the time.
    paper = image.reduce(2).filter(ImageFilter.MedianFilter(_MEDIAN_SIDE))
    if times > 1:
        image = ImageOps.scale(image, times, Image.Resampling.LANCZOS)
    paper = paper.resize(image.size, Image.Resampling.BILINEAR)  # pyright: ignore[reportUnknownMemberType]
    red, green, blue = ImageChops.difference(image, paper).split()
    # Letters and background may have the same brightness, so take the largest difference.
    apart = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    out = BytesIO()
    ImageOps.invert(apart).save(out, "PNG", compress_level=1)
    return out.getvalue()


def choose_scale(size: tuple[int, int]) -> int:
    """Return the factor by which a picture is enlarged: 1, 2 or 3."""
    pixels = size[0] * size[1]
    return 3 if pixels <= _SMALL_PIXELS else 2 if pixels <= _SCREEN_PIXELS else 1


_PACKAGES: Final = ("rapidocr", "onnxruntime")

Box = Sequence[Sequence[float]]
"""The four corners of a text: x and y, in pixels."""


class RapidOcr:
    """Runs rapidocr in a thread; one instance for each process, one picture at a time."""

    def __init__(self) -> None:
        """Import nothing yet, because that takes seconds."""
        self._turn = asyncio.Lock()
        self._engine: Callable[[bytes], Any] | None = None

    @classmethod
    def find(cls) -> RapidOcr | None:
        """Return the engine; None: rapidocr or onnxruntime is not installed."""
        # A module that does not say where it is from raises ValueError.
        with suppress(ValueError):
            return cls() if all(map(find_spec, _PACKAGES)) else None
        return None

    async def read(self, picture: bytes, *, numbers: bool = False) -> OcrPage:
        """Return the text of a PNG or JPEG, as `OcrEngine` says."""
        del numbers  # it reads each phrase by itself
        async with self._turn:
            return arrange_words(await asyncio.to_thread(self._find_words, picture))

    def _find_words(self, picture: bytes) -> tuple[Word, ...]:
        try:
            if self._engine is None:
                module = cast("Any", importlib.import_module("rapidocr"))
                self._engine = cast("Callable[[bytes], Any]", module.RapidOCR())
            found = self._engine(picture)
            texts: Sequence[str] = [] if found.txts is None else list(found.txts)
            boxes: Sequence[Box] = [] if found.boxes is None else list(found.boxes)
            scores: Sequence[float] = [] if found.scores is None else [*found.scores]
            return tuple(map(_make_word, texts, boxes, scores))
        # Any error of this third-party package must not end the wait.
        except Exception as error:
            raise JudgeUnavailable(
                f"rapidocr could not read the picture ({type(error).__name__}); "
                "install it anew, or install tesseract."
            ) from error


def _make_word(text: str, box: Box, score: float) -> Word:
    across, down = [x for x, _ in box], [y for _, y in box]
    return Word(text, min(across), max(across), min(down), max(down), score)


MOST_READINGS: Final = 16
"""How many readings are remembered."""


class SharedOcr:
    """`OcrEngine` that reads each picture once for all waits on a screen.

    A full screen takes seconds, and only one is read at a time.
    """

    def __init__(self, engine: OcrEngine) -> None:
        """Set the engine that reads."""
        self._engine = engine
        self._readings: OrderedDict[tuple[bytes, bool], asyncio.Task[OcrPage]] = OrderedDict()

    async def read(self, picture: bytes, *, numbers: bool = False) -> OcrPage:
        """Return the text of a picture; a failed reading is repeated on the next call.

        Raises:
            JudgeUnavailable: It could not be read.
        """
        key = (blake2b(picture, digest_size=16).digest(), numbers)
        reading = self._readings.get(key)
        has_failed = (
            reading is not None
            and reading.done()
            and (reading.cancelled() or reading.exception() is not None)
        )
        if reading is None or has_failed:
            reading = asyncio.create_task(self._engine.read(picture, numbers=numbers))
            reading.add_done_callback(consume_exception)
            self._readings[key] = reading
        self._readings.move_to_end(key)
        while len(self._readings) > MOST_READINGS:
            self._readings.popitem(last=False)
        # Shielded: a cancelled caller does not cancel the others' reading.
        return await asyncio.shield(reading)
