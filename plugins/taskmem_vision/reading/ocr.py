"""OCR of screens by tesseract, on this machine.

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
"""

from __future__ import annotations

import asyncio
import os
import shutil
import time
from collections.abc import Iterator
from io import BytesIO
from typing import Final, Protocol, runtime_checkable

from PIL import Image, ImageChops, ImageFilter, ImageOps

from taskmem_hookspecs import JudgeUnavailable
from taskmem_vision.gemini.client import remove_keys
from taskmem_vision.reading.page import OcrPage, Word, arrange_words
from taskmem_vision.reading.piped_process import PipedProcess
from taskmem_vision.text_lines import to_one_line

LIMIT_SECONDS: Final = 20.0
"""Time limit for one picture; a full screen of small text takes about three. Seconds."""
OUTPUT_BYTES: Final = 1 << 22
"""Maximum output, of words and their boxes; a screen has fewer. Bytes."""
SMALL_PIXELS: Final = 256 * 1024
"""Up to this many pixels a picture is enlarged three times …"""
SCREEN_PIXELS: Final = 2560 * 1600
"""… and up to this many twice; a larger one already has large letters."""
SURROUNDINGS: Final = 7
"""Side of the square around a letter whose median is its background. Pixels at half size.

A wider square would reach beyond the letter's window.
"""

_SPARSE, _BLOCK = "11", "6"
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

        Args:
            picture: The whole target, or a part.
            numbers: Whether numbers matter, which may double the time.

        Raises:
            JudgeUnavailable: It could not be read.
        """
        ...


class Tesseract:
    """Runs the program tesseract; one instance for each process, one picture at a time."""

    def __init__(self, program: str, limit_seconds: float = LIMIT_SECONDS) -> None:
        """Set the path of the program and its time limit. Seconds."""
        self.cpu_seconds = 0.0
        """Time on a processor that its readings have taken."""
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
            letters, _ = await asyncio.to_thread(self._prepare_picture, picture)
            page = arrange_words(parse_words(await self._run(letters, _SPARSE)))
            if not numbers:
                return page
            block = arrange_words(parse_words(await self._run(letters, _BLOCK)))
            return page._replace(sure=block.sure)

    async def find_words(
        self, picture: bytes, whole: tuple[int, int] | None = None
    ) -> tuple[Word, ...]:
        """Return the words of a PNG or JPEG with their boxes, in its own pixels.

        `whole`: width and height of the screen of which it is a part, and as which it is enlarged.

        Raises:
            JudgeUnavailable: As for `read`.
        """
        async with self._turn:
            letters, times = await asyncio.to_thread(self._prepare_picture, picture, whole)
            found = parse_words(await self._run(letters, _SPARSE))
            return tuple(each.shrink(times) for each in found)

    async def _run(self, picture: bytes, layout: str) -> bytes:
        """Return the program's output; the program has ended when this returns."""
        process = self._start_process(layout)
        try:
            async with asyncio.timeout(self._limit_seconds):
                printed = await process.exchange_data(picture, OUTPUT_BYTES)
        except TimeoutError:
            raise JudgeUnavailable(
                f"tesseract did not read the picture within {self._limit_seconds:g} s; "
                "it is asked again."
            ) from None
        finally:
            await process.end()
            self.cpu_seconds += process.cpu_seconds
        if len(printed.output) > OUTPUT_BYTES:
            raise JudgeUnavailable(
                f"tesseract printed more than {OUTPUT_BYTES >> 10} KiB, which no screen "
                "holds; see that it is the real one."
            )
        if printed.status:
            raise JudgeUnavailable(
                f"tesseract failed with status {printed.status}{_format_last_line(printed.said)}; "
                "see that it and its language data are installed."
            )
        return printed.output

    def _start_process(self, layout: str) -> PipedProcess:
        command = (*self._command, "--psm", layout, "tsv")
        # One thread: on few cores several threads slow each other down.
        environ = {**remove_keys(os.environ), "OMP_THREAD_LIMIT": "1"}
        try:
            return PipedProcess(command, environ)
        except OSError as error:
            raise JudgeUnavailable(
                f"tesseract cannot be started ({error.strerror}); install it anew."
            ) from None

    def _prepare_picture(
        self, picture: bytes, whole: tuple[int, int] | None = None
    ) -> tuple[bytes, int]:
        """Return a PNG or JPEG in tesseract's best form, and how many times enlarged it is.

        Raises:
            JudgeUnavailable: It is not a picture.
        """
        before = time.thread_time()
        image = _open_picture(picture)
        times = choose_scale(whole or image.size)
        letters = _separate_letters(image, times)
        self.cpu_seconds += time.thread_time() - before
        return letters, times


def parse_words(printed: bytes) -> Iterator[Word]:
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


def _open_picture(picture: bytes) -> Image.Image:
    try:
        with Image.open(BytesIO(picture)) as opened:
            return opened.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise JudgeUnavailable(f"The picture cannot be opened ({type(error).__name__}).") from None


def _separate_letters(image: Image.Image, times: int) -> bytes:
    """Return an image as PNG, so many times enlarged, with letters dark on white."""
    # At half the size the median removes letters as well, in a sixth of the time.
    paper = image.reduce(2).filter(ImageFilter.MedianFilter(SURROUNDINGS))
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
    return 3 if pixels <= SMALL_PIXELS else 2 if pixels <= SCREEN_PIXELS else 1


def _format_last_line(said: bytes) -> str:
    """Return the last line of error output in brackets; empty if there is none."""
    lines = said.decode("utf-8", "replace").strip().splitlines()
    if not lines:
        return ""
    return f" ({to_one_line(lines[-1], _SAID_CHARACTERS)})"
