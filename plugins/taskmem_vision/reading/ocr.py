"""OCR engines turn a picture of a screen into text, on this machine.

Tesseract reads letters of a screen badly as they are, and well when they are enlarged.
Phrases of a window that were found whole, in DejaVu of 8, 9, 10 and 11 pixels:

    as it is, --psm 6     28   60   27   59 %
    as it is, --psm 11    39   78   90   95 %
    twice as large, 6     71   96   96   96 %
    twice as large, 3     71   96   97   99 %
    twice as large, 11    79   99  100   99 %
    three times, 11       85   99  100   99 %

Its own way to tell letters from paper is one threshold for all of a picture: of lines
in ten pairs of colours, with a dialog over them, it finds 56 %, hardly any that are
green on black or black on grey; of lines that begin two pixels from the edge of a
window, 64 %. So it is given what differs from the paper round it, in any of the three
colours, dark on white: 87 % and 72 %, as fast. A full screen takes 0.3 s to prepare.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
from collections.abc import Iterator
from contextlib import suppress
from io import BytesIO
from typing import Final, Protocol, runtime_checkable

from PIL import Image, ImageChops, ImageFilter, ImageOps

from taskmem_hookspecs import JudgeUnavailable
from taskmem_vision.gemini.keys import remove_keys
from taskmem_vision.reading.page import OcrPage, Word, arrange_words
from taskmem_vision.text_lines import to_one_line

LIMIT_SECONDS: Final = 20.0
"""How long one picture may take; a full screen of small text takes about three."""
OUTPUT_BYTES: Final = 1 << 22
"""Of words and their places; more do not stand on a screen."""
SMALL_PIXELS: Final = 256 * 1024
"""Up to so many pixels a picture is read at three times its size …"""
SCREEN_PIXELS: Final = 2560 * 1600
"""… and up to so many at twice; a larger one has large letters already."""
SURROUNDINGS: Final = 7
"""The side of the square round a letter in which most is its paper, in pixels of a
picture half as large. A wider one reaches beyond the window that the letter is in."""

_SPARSE, _BLOCK = "11", "6"
"""Sparse text: no column of a window is taken for prose, and no dark part left out.
One block: points and colons of numbers in rows are not taken for a column's edge."""
_LINE, _WORD = "4", "5"
"""The levels of rows that are about a line, and about a word of it."""
_NICENESS: Final = "10"
_SAID_BYTES: Final = 4_096
_SAID_CHARACTERS: Final = 200
_PIECE: Final = 1 << 16
_FAREWELL_SECONDS: Final = 2.0
"""How long what was killed may leave its pipes open."""


@runtime_checkable
class OcrEngine(Protocol):
    """Reads what stands on a picture."""

    async def read(self, picture: bytes, *, numbers: bool = False) -> OcrPage:
        """Return the text of a PNG or JPEG; an empty one: it shows none.

        Args:
            picture: The whole of a target, or a part.
            numbers: Whether they matter, which may take twice as long.

        Raises:
            JudgeUnavailable: It could not be read.
        """
        ...


class Tesseract:
    """Runs the program of that name; one process has one object, and reads in turn."""

    def __init__(self, program: str, limit_seconds: float = LIMIT_SECONDS) -> None:
        """Take the path of the program, and how long it may take."""
        nice = shutil.which("nice")
        first = (nice, "-n", _NICENESS) if nice else ()
        self._command: tuple[str, ...] = (*first, program, "stdin", "stdout")
        self._limit_seconds = limit_seconds
        self._turn = asyncio.Lock()

    @classmethod
    def find(cls) -> Tesseract | None:
        """Return it where it is installed; None: it is not."""
        program = shutil.which("tesseract")
        return cls(program) if program else None

    async def read(self, picture: bytes, *, numbers: bool = False) -> OcrPage:
        """Return the text of a PNG or JPEG; an empty one: it shows none.

        Where numbers matter, they are read as one block of text, and all as sparse
        text. Bytes that are no UTF-8 become U+FFFD.

        Raises:
            JudgeUnavailable: It is no picture; or the program cannot be started, fails,
                takes too long or prints more than `OUTPUT_BYTES`.
        """
        async with self._turn:
            letters = await asyncio.to_thread(_prepare_picture, picture)
            page = arrange_words(parse_words(await self._run(letters, _SPARSE)))
            if not numbers:
                return page
            block = arrange_words(parse_words(await self._run(letters, _BLOCK)))
            return page._replace(sure=block.sure)

    async def _run(self, picture: bytes, layout: str) -> bytes:
        """Return what the program prints; when this returns, it has ended."""
        process = await self._start_process(layout)
        try:
            async with asyncio.timeout(self._limit_seconds):
                printed, said = await _exchange_data(process, picture)
                status = await process.wait()
        except TimeoutError:
            raise JudgeUnavailable(
                f"tesseract did not read the picture within {self._limit_seconds:g} s; "
                "it is asked again."
            ) from None
        finally:
            await _end_process(process)
        if status:
            raise JudgeUnavailable(
                f"tesseract failed with status {status}{_format_last_line(said)}; see that it and "
                "its language data are installed."
            )
        return printed

    async def _start_process(self, layout: str) -> asyncio.subprocess.Process:
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *(*self._command, "--psm", layout, "tsv"),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                # On few cores its threads get in each other's way.
                env={**remove_keys(os.environ), "OMP_THREAD_LIMIT": "1"},
                start_new_session=True,
            )
        )
        try:
            return await asyncio.shield(starting)
        except asyncio.CancelledError:
            # Given up half way, it would run on with its pipes open.
            with suppress(OSError):
                await _end_process(await starting)
            raise
        except OSError as error:
            raise JudgeUnavailable(
                f"tesseract cannot be started ({error.strerror}); install it anew."
            ) from None


async def _exchange_data(
    process: asyncio.subprocess.Process, picture: bytes
) -> tuple[bytes, bytes]:
    """Write the picture, and return what comes out and the beginning of complaints.

    Raises:
        JudgeUnavailable: More came out than a screen can hold.
    """
    if process.stdin is None or process.stdout is None or process.stderr is None:
        raise JudgeUnavailable("tesseract was started without its pipes.")
    async with asyncio.TaskGroup() as tasks:
        tasks.create_task(_write_input(process.stdin, picture))
        printing = tasks.create_task(_read_output(process, process.stdout))
        saying = tasks.create_task(_read_beginning(process.stderr, _SAID_BYTES))
    printed = printing.result()
    if len(printed) > OUTPUT_BYTES:
        raise JudgeUnavailable(
            f"tesseract printed more than {OUTPUT_BYTES >> 10} KiB, which no screen "
            "holds; see that it is the real one."
        )
    return printed, saying.result()


async def _write_input(pipe: asyncio.StreamWriter, data: bytes) -> None:
    # It may end before it has read everything; its status says why.
    with suppress(ConnectionError):
        pipe.write(data)
        await pipe.drain()
    pipe.close()
    with suppress(ConnectionError):
        await pipe.wait_closed()


async def _read_output(process: asyncio.subprocess.Process, pipe: asyncio.StreamReader) -> bytes:
    """Return what comes out; once it is more than is taken, nothing more has to."""
    kept = bytearray()
    while piece := await pipe.read(_PIECE):
        kept += piece[: OUTPUT_BYTES + 1 - len(kept)]
        if len(kept) > OUTPUT_BYTES:
            _kill_process(process)
    return bytes(kept)


async def _read_beginning(pipe: asyncio.StreamReader, size: int) -> bytes:
    """Return so many bytes at most, and let the rest go by."""
    kept = bytearray()
    while piece := await pipe.read(_PIECE):
        kept += piece[: size - len(kept)]
    return bytes(kept)


def _kill_process(process: asyncio.subprocess.Process) -> None:
    """Kill a process and whatever it started."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


async def _end_process(process: asyncio.subprocess.Process) -> None:
    """See that a process has ended, with all that writes into its pipes."""
    pipes = [pipe for pipe in (process.stdout, process.stderr) if pipe is not None]
    if process.returncode is not None and all(pipe.at_eof() for pipe in pipes):
        return
    _kill_process(process)
    if process.stdin is not None:
        process.stdin.close()
    # Its end is only told once its pipes were read to theirs.
    with suppress(TimeoutError):
        async with asyncio.timeout(_FAREWELL_SECONDS):
            await asyncio.gather(*(_read_beginning(pipe, 0) for pipe in pipes))
            await process.wait()


def parse_words(printed: bytes) -> Iterator[Word]:
    """Yield the words in tesseract's table; each is as high as its line."""
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


def _prepare_picture(picture: bytes) -> bytes:
    """Return a PNG or JPEG as tesseract reads it best: enlarged, and dark on white.

    Raises:
        JudgeUnavailable: It is no picture.
    """
    try:
        with Image.open(BytesIO(picture)) as opened:
            image = opened.convert("RGB")
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise JudgeUnavailable(f"The picture cannot be opened ({type(error).__name__}).") from None
    # Letters vanish from a picture half as large as well, in a sixth of the time.
    paper = image.reduce(2).filter(ImageFilter.MedianFilter(SURROUNDINGS))
    times = choose_scale(image.size)
    if times > 1:
        image = ImageOps.scale(image, times, Image.Resampling.LANCZOS)
    paper = paper.resize(image.size, Image.Resampling.BILINEAR)  # pyright: ignore[reportUnknownMemberType]
    red, green, blue = ImageChops.difference(image, paper).split()
    # Letters and their paper may be as bright as each other.
    apart = ImageChops.lighter(ImageChops.lighter(red, green), blue)
    out = BytesIO()
    ImageOps.invert(apart).save(out, "PNG", compress_level=1)
    return out.getvalue()


def choose_scale(size: tuple[int, int]) -> int:
    """Return how many times its size a picture is read at: 1, 2 or 3."""
    pixels = size[0] * size[1]
    return 3 if pixels <= SMALL_PIXELS else 2 if pixels <= SCREEN_PIXELS else 1


def _format_last_line(said: bytes) -> str:
    """Return the last line of complaints, in brackets; an empty text: there is none."""
    lines = said.decode("utf-8", "replace").strip().splitlines()
    if not lines:
        return ""
    return f" ({to_one_line(lines[-1], _SAID_CHARACTERS)})"
