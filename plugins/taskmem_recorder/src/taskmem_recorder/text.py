"""Read the text of a screen, and of it only what has changed since the last reading.

Tesseract reads a screen's letters badly at original size, and well when enlarged; and it separates
letters from background by one threshold for the whole picture. So it is given the difference from
the local background, in any of the three colours, dark on white.
"""

from __future__ import annotations

import asyncio
import importlib
import io
import os
import resource
import shutil
import subprocess
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from importlib.util import find_spec
from typing import Any, Final, NamedTuple, cast

from PIL import Image, ImageChops, ImageFilter, ImageOps

from taskmem_hookspecs import JudgeUnavailable
from taskmem_program.process_groups import ProcessGroup
from taskmem_recorder.changes import (
    BLOCK_SIDE,
    Block,
    ScreenThumbnail,
    find_box_around,
    find_clusters,
)

_READING_SECONDS: Final = 20.0
"""Time limit for one picture; a full screen of small text takes about three. Seconds."""
_MOST_OUTPUT: Final = 1 << 22
"""Maximum size of a table of words; a screen has fewer. Bytes."""
_SMALL_PIXELS: Final = 256 * 1024
"""Up to this many pixels a picture is enlarged three times …"""
_SCREEN_PIXELS: Final = 2560 * 1600
"""… and up to this many twice; a larger one already has large letters."""
_MEDIAN_SIDE: Final = 7
"""Side of the square around a letter whose median is its background. Pixels at half size."""
_LINE, _WORD = "4", "5"
"""Levels in tesseract's table: a line, and a word of it."""
_KEPT_VARIABLES: Final = ("PATH", "HOME", "LANG", "LC_ALL", "LD_LIBRARY_PATH", "TESSDATA_PREFIX")
"""Variables of the environment that tesseract gets; others may hold keys."""
_SAME_ROW: Final = 0.5
"""Words are in one row if their middles differ by less than this part of their height."""
_ROW_GAP: Final = 3.0
"""Words in a row with a larger gap are on separate lines. Line heights."""
_WHOLE_SHARE: Final = 0.8
"""Part of the screen from which a change is read with the whole screen."""
_MOST_PARTS: Final = 4
"""Maximum number of parts that are read one by one."""
_MOST_DISTANCE: Final = 3
"""Distance up to which changes are one part. Blocks."""
_LONGEST_SIDE: Final = 1920
"""Longest side of a stored picture. Pixels."""
_QUALITY: Final = 70

_Area = tuple[int, int, int, int]
"""Left, top, right, bottom, in pixels."""


class ScreenWord(NamedTuple):
    """A word or phrase with its box, in pixels; top and bottom are those of its line."""

    text: str
    left: float
    right: float
    top: float
    bottom: float

    @property
    def middle(self) -> float:
        """Vertical middle of the word."""
        return (self.top + self.bottom) / 2

    @property
    def height(self) -> float:
        """Height of its line."""
        return self.bottom - self.top


class TesseractReader:
    """Runs the program tesseract, one picture at a time."""

    def __init__(self, program: str) -> None:
        """Set the path of the program."""
        self.cpu_seconds = 0.0
        """Time on a processor that its readings have taken."""
        nice = shutil.which("nice")
        first = (nice, "-n", "10") if nice else ()
        # Sparse text: no column is taken for prose, and no dark part is skipped.
        self._command: tuple[str, ...] = (
            *first,
            program,
            "stdin",
            "stdout",
            "--psm",
            "11",
            "tsv",
        )
        self._turn = asyncio.Lock()

    @classmethod
    def find(cls) -> TesseractReader | None:
        """Return the engine; None: tesseract is not installed."""
        program = shutil.which("tesseract")
        return cls(program) if program else None

    async def find_words(
        self, pixels: Image.Image, whole: tuple[int, int] | None = None
    ) -> Sequence[ScreenWord]:
        """Return the words of an RGB picture with their boxes, in its own pixels.

        `whole`: width and height of the screen of which it is a part, and as which it is enlarged.

        Raises:
            JudgeUnavailable: The program cannot be started, fails, or takes too long.
        """
        async with self._turn:
            times = _choose_scale(whole or pixels.size)
            letters = await asyncio.to_thread(self._separate_letters, pixels, times)
            return [*_parse_words(await self._run(letters), times)]

    def _separate_letters(self, pixels: Image.Image, times: int) -> bytes:
        """Return a picture as PNG, so many times enlarged, with letters dark on white."""
        before = time.thread_time()
        # At half the size the median removes letters as well, in a sixth of the time.
        paper = pixels.reduce(2).filter(ImageFilter.MedianFilter(_MEDIAN_SIDE))
        if times > 1:
            pixels = ImageOps.scale(pixels, times, Image.Resampling.LANCZOS)
        paper = paper.resize(pixels.size, Image.Resampling.BILINEAR)  # pyright: ignore[reportUnknownMemberType]
        red, green, blue = ImageChops.difference(pixels, paper).split()
        # Letters and background may have the same brightness, so take the largest difference.
        apart = ImageChops.lighter(ImageChops.lighter(red, green), blue)
        out = io.BytesIO()
        ImageOps.invert(apart).save(out, "PNG", compress_level=1)
        self.cpu_seconds += time.thread_time() - before
        return out.getvalue()

    async def _run(self, letters: bytes) -> bytes:
        """Return the table of words; the program has ended when this returns."""
        # One thread: on few cores several threads slow each other down.
        environ = {name: os.environ[name] for name in _KEPT_VARIABLES if name in os.environ}
        # Files in memory: what is on the screen must not be on a disk, and no pipe can fill up.
        with (
            open(os.memfd_create("picture"), "w+b") as picture,  # noqa: ASYNC230, PTH123
            open(os.memfd_create("words"), "w+b") as table,  # noqa: ASYNC230, PTH123
            ProcessGroup() as group,
        ):
            picture.write(letters)
            picture.seek(0)
            try:
                process = subprocess.Popen(  # noqa: ASYNC220, S603 - starts at once, without a shell
                    self._command,
                    stdin=picture,
                    stdout=table,
                    stderr=subprocess.DEVNULL,
                    env={**environ, "OMP_THREAD_LIMIT": "1"},
                    process_group=group.id,
                )
            except OSError as error:
                raise JudgeUnavailable(
                    f"tesseract cannot be started ({error.strerror}); install it anew."
                ) from None
            with suppress(ProcessLookupError):  # it has ended already
                limit = (_MOST_OUTPUT, _MOST_OUTPUT)
                resource.prlimit(process.pid, resource.RLIMIT_FSIZE, limit)
            status = await self._await_end(process, group)
            if status:
                raise JudgeUnavailable(
                    f"tesseract failed with status {status}; see that it and its language data "
                    "are installed: tesseract --list-langs"
                )
            table.seek(0)
            return table.read()

    async def _await_end(self, process: subprocess.Popen[bytes], group: ProcessGroup) -> int:
        """Return the status of a program, which is killed when it takes too long."""
        ending = asyncio.ensure_future(asyncio.to_thread(self._reap, process))
        try:
            async with asyncio.timeout(_READING_SECONDS):
                await asyncio.shield(ending)
        except TimeoutError:
            raise JudgeUnavailable(
                f"tesseract did not read the picture within {_READING_SECONDS:g} s; it is asked "
                "again."
            ) from None
        finally:
            if not ending.done():
                group.kill()
            await ending
        return process.returncode

    def _reap(self, process: subprocess.Popen[bytes]) -> None:
        """Wait for a program's end and note it, also if nobody waits for this any more."""
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_seconds += used.ru_utime + used.ru_stime


class RapidReader:
    """Runs the Python package rapidocr in a thread, for machines without tesseract."""

    def __init__(self) -> None:
        """Import nothing yet, because that takes seconds."""
        self.cpu_seconds = 0.0
        """Time on a processor of all threads of this process while it read: its own are unknown."""
        self._engine: Callable[[bytes], Any] | None = None

    @classmethod
    def find(cls) -> RapidReader | None:
        """Return the engine; None: rapidocr or onnxruntime is not installed."""
        return cls() if all(map(find_spec, ("rapidocr", "onnxruntime"))) else None

    async def find_words(
        self, pixels: Image.Image, whole: tuple[int, int] | None = None
    ) -> Sequence[ScreenWord]:
        """Return the words of an RGB picture with their boxes, in its own pixels.

        `whole` does not matter: it chooses a picture's scale by itself.

        Raises:
            JudgeUnavailable: The engine cannot be loaded, or cannot read the picture.
        """
        del whole
        return await asyncio.to_thread(self._find_words, pixels)

    def _find_words(self, pixels: Image.Image) -> Sequence[ScreenWord]:
        before = time.process_time()
        out = io.BytesIO()
        pixels.save(out, "PNG", compress_level=1)
        try:
            if self._engine is None:
                module = cast("Any", importlib.import_module("rapidocr"))
                self._engine = cast("Callable[[bytes], Any]", module.RapidOCR())
            page = self._engine(out.getvalue())
            texts: Sequence[str] = [] if page.txts is None else [*page.txts]
            boxes: Sequence[Any] = [] if page.boxes is None else [*page.boxes]
            return [_make_word(text, box) for text, box in zip(texts, boxes, strict=True)]
        # Any error of this third-party package must not end the recording.
        except Exception as error:
            raise JudgeUnavailable(
                f"rapidocr could not read the picture ({type(error).__name__}); install it anew, "
                "or install tesseract."
            ) from error
        finally:
            self.cpu_seconds += time.process_time() - before


class _ScreenWords(NamedTuple):
    """The words of a screen, and what it looked like."""

    sight: ScreenThumbnail
    words: tuple[ScreenWord, ...]

    @property
    def lines(self) -> list[str]:
        """The lines of text, from top to bottom."""
        return [*_arrange_lines(self.words)]


class ScreenReader:
    """Reads one screen again and again; forgets it when told to."""

    def __init__(self) -> None:
        self._engine: TesseractReader | RapidReader | None = None
        self._last: _ScreenWords | None = None
        self.cpu_seconds = 0.0
        """Time on a processor that programs and threads have taken to read for it."""

    def find_engine(self) -> bool:
        """Return whether something on this machine reads text; look anew if nothing did."""
        self._engine = self._engine or TesseractReader.find() or RapidReader.find()
        return self._engine is not None

    def forget_engine(self) -> None:
        """Look for something that reads text anew, because this does not work any more."""
        self._engine = None

    def forget_screen(self) -> None:
        """Forget what was read, so that the next reading is of the whole screen."""
        self._last = None

    async def read_screen(self, pixels: Image.Image, sight: ScreenThumbnail) -> _ScreenWords:
        """Return the words of a screen; `sight`: its thumbnail.

        Raises:
            JudgeUnavailable: It could not be read.
        """
        last, areas = self._last, [(0, 0, *pixels.size)]
        kept: Sequence[ScreenWord] = ()
        if last is not None and last.sight.size == sight.size:
            changed = sight.find_differences(last.sight)
            areas = _list_changed_areas(changed, last.words, pixels.size)
            kept = [each for each in last.words if not any(_touches(each, a) for a in areas)]
        words = [*kept]
        for left, top, right, bottom in areas:
            # At the scale of a whole screen: a larger one takes twice as long, and loses words.
            found = await self.read_strip(pixels.crop((left, top, right, bottom)), pixels.size)
            words += [_shift_word(each, left, top) for each in found]
        self._last = _ScreenWords(sight, tuple(words))
        return self._last

    async def read_strip(
        self, pixels: Image.Image, whole: tuple[int, int] | None = None
    ) -> Sequence[ScreenWord]:
        """Return the words of a picture, apart from what was read of the screen before.

        `whole`: width and height of the screen of which it is a part; None: it stands alone.

        Raises:
            JudgeUnavailable: It could not be read.
        """
        if self._engine is None:
            raise JudgeUnavailable("Nothing on this machine reads text.")
        engine, before = self._engine, self._engine.cpu_seconds
        try:
            return await engine.find_words(_to_rgb(pixels), whole)
        finally:
            self.cpu_seconds += engine.cpu_seconds - before


def _list_changed_areas(
    changed: frozenset[Block], words: Iterable[ScreenWord], size: tuple[int, int]
) -> list[_Area]:
    """Return the parts of a screen to read again; whole words are in them.

    Args:
        changed: The blocks that differ from the last reading.
        words: The words of that.
        size: Width and height of the screen.
    """
    if not changed:
        return []
    words = [*words]
    clusters = find_clusters(changed, _MOST_DISTANCE)
    groups = clusters if len(clusters) <= _MOST_PARTS else [changed]
    areas = [_include_words(find_box_around(each, size, BLOCK_SIDE // 2), words) for each in groups]
    covered = sum((right - left) * (bottom - top) for left, top, right, bottom in areas)
    return areas if covered < _WHOLE_SHARE * size[0] * size[1] else [(0, 0, *size)]


def encode_picture(pixels: Image.Image) -> bytes:
    """Return pixels of a screen as WebP, which keeps text legible in the least space."""
    image = _to_rgb(pixels)
    image.thumbnail((_LONGEST_SIDE, _LONGEST_SIDE))
    out = io.BytesIO()
    image.save(out, "WEBP", quality=_QUALITY, method=2)
    return out.getvalue()


def _include_words(area: _Area, words: Iterable[ScreenWord]) -> _Area:
    """Return an area that holds the words at its edge in full."""
    left, top, right, bottom = area
    for each in words:
        if _touches(each, area):
            left, top = min(left, int(each.left)), min(top, int(each.top))
            right, bottom = max(right, round(each.right)), max(bottom, round(each.bottom))
    return left, top, right, bottom


def _touches(word: ScreenWord, area: _Area) -> bool:
    left, top, right, bottom = area
    return word.left < right and word.right > left and word.top < bottom and word.bottom > top


def _shift_word(word: ScreenWord, left: int, top: int) -> ScreenWord:
    return word._replace(
        left=word.left + left, right=word.right + left, top=word.top + top, bottom=word.bottom + top
    )


def _to_rgb(pixels: Image.Image) -> Image.Image:
    return Image.frombuffer("RGB", pixels.size, pixels.tobytes(), "raw", "BGRX", 0, 1)


def _choose_scale(size: tuple[int, int]) -> int:
    """Return the factor by which a picture is enlarged: 1, 2 or 3."""
    pixels = size[0] * size[1]
    return 3 if pixels <= _SMALL_PIXELS else 2 if pixels <= _SCREEN_PIXELS else 1


def _parse_words(table: bytes, times: int) -> Iterator[ScreenWord]:
    """Yield the words of tesseract's table, as in a picture that is so many times smaller."""
    top = bottom = 0.0
    for row in table.decode("utf-8", "replace").split("\n"):
        try:
            level, *_, left, up, width, height, _, text = row.split("\t", 11)
            x, y, wide, high = (float(each) / times for each in (left, up, width, height))
        except ValueError:  # its head, and whatever is no row
            continue
        if level == _LINE:
            top, bottom = y, y + high
        elif level == _WORD and text.strip():
            yield ScreenWord(text.strip(), x, x + wide, top, bottom)


def _make_word(text: str, box: Sequence[Sequence[float]]) -> ScreenWord:
    """Return a text with the box around its four corners."""
    across, down = [x for x, _ in box], [y for _, y in box]
    return ScreenWord(text, min(across), max(across), min(down), max(down))


def _arrange_lines(words: Iterable[ScreenWord]) -> Iterator[str]:
    """Yield the lines of text that words form, from top to bottom."""
    rows: list[list[ScreenWord]] = []
    for word in sorted(words, key=lambda word: (word.middle, word.left)):
        if rows and word.middle - rows[-1][0].middle < _SAME_ROW * word.height:
            rows[-1].append(word)
        else:
            rows.append([word])
    for row in rows:
        line: list[ScreenWord] = []
        for word in sorted(row, key=lambda word: word.left):
            if line and word.left - line[-1].right > _ROW_GAP * word.height:
                yield " ".join(each.text for each in line)
                line = []
            line.append(word)
        yield " ".join(each.text for each in line)
