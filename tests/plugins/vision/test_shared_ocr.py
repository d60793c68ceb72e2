"""Readings that are shared."""

from __future__ import annotations

import asyncio

import pytest

from taskmem_hookspecs import JudgeUnavailable
from taskmem_vision.ocr import MOST_READINGS, OcrEngine, OcrPage, SharedOcr

DONE = OcrPage("Done", "")


class Slow:
    """An OCR engine that reads when it is told to."""

    def __init__(self) -> None:
        self.pictures: list[bytes] = []
        self.free = asyncio.Event()
        self.fails = False

    async def read(self, picture: bytes, *, numbers: bool = False) -> OcrPage:
        self.pictures.append(picture)
        await self.free.wait()
        if self.fails:
            raise JudgeUnavailable("It could not be read.")
        return OcrPage(picture.decode(), "")


async def test_it_reads_as_the_other_does() -> None:
    slow = Slow()
    slow.free.set()
    shared = SharedOcr(slow)
    assert isinstance(shared, OcrEngine)
    assert await shared.read(b"Done") == DONE


async def test_one_picture_is_read_once_for_all() -> None:
    slow = Slow()
    shared = SharedOcr(slow)
    waiting = [asyncio.create_task(shared.read(b"Done")) for _ in range(16)]
    await asyncio.sleep(0)
    slow.free.set()
    assert await asyncio.gather(*waiting) == [DONE] * 16
    assert await shared.read(b"Done") == DONE
    assert slow.pictures == [b"Done"]


async def test_who_gives_up_does_so_alone() -> None:
    slow = Slow()
    shared = SharedOcr(slow)
    one, other = (asyncio.create_task(shared.read(b"Done")) for _ in range(2))
    await asyncio.sleep(0)
    one.cancel()
    slow.free.set()
    assert await other == DONE
    assert slow.pictures == [b"Done"]


async def test_what_could_not_be_read_is_read_again() -> None:
    slow = Slow()
    slow.free.set()
    slow.fails = True
    shared = SharedOcr(slow)
    with pytest.raises(JudgeUnavailable):
        await shared.read(b"Done")
    slow.fails = False
    assert await shared.read(b"Done") == DONE


async def test_only_the_last_readings_are_remembered() -> None:
    slow = Slow()
    slow.free.set()
    shared = SharedOcr(slow)
    for number in range(MOST_READINGS + 1):
        await shared.read(b"%d" % number)
    await shared.read(b"1")
    assert len(slow.pictures) == MOST_READINGS + 1
    await shared.read(b"0")
    assert len(slow.pictures) == MOST_READINGS + 2
