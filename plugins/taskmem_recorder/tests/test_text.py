"""What reads the text of a picture, what that takes, and what goes wrong."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from PIL import Image, ImageDraw, ImageFont

from taskmem_hookspecs import JudgeUnavailable
from taskmem_recorder import text
from taskmem_recorder.text import RapidReader, TesseractReader
from tests.plugins.vision.painted import FONT, require_tesseract
from tests.support.waiting import until

SAY = r"""say() {
printf '4\t1\t1\t1\t1\t0\t10\t10\t90\t20\t-1\t\n'
printf '5\t1\t1\t1\t1\t1\t10\t10\t90\t20\t96\t%s\n' "$*"
}"""
"""Prints words as one in tesseract's table."""


def paint(words="", size=(420, 150)):
    picture = Image.new("RGB", size, "#f0f0f0")
    ImageDraw.Draw(picture).text((14, 12), words, "#202020", ImageFont.truetype(FONT, 24))
    return picture


@pytest.fixture
def program(tmp_path):
    """Makes a program that stands in for tesseract."""

    def make_program(script):
        path = tmp_path / "tesseract"
        path.write_text(f"#!/bin/sh\n{SAY}\n{script}\n")
        path.chmod(0o755)
        return TesseractReader(str(path))

    return make_program


async def explain_failure(reader):
    """Return the sentence with which a reader gives up."""
    with pytest.raises(JudgeUnavailable) as caught:
        await reader.find_words(paint())
    return str(caught.value)


def is_running(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


@pytest.mark.parametrize("size", [(300, 120), (1200, 900)], ids=["enlarged", "as it is"])
async def test_words_are_found_where_they_are_in_the_picture(size) -> None:
    require_tesseract()
    [word] = await TesseractReader.find().find_words(paint("Harvest", size))
    left, top, right, bottom = ImageFont.truetype(FONT, 24).getbbox("Harvest")
    assert word.text == "Harvest"
    place = pytest.approx((14 + left, 14 + right, 12 + top, 12 + bottom), abs=6)
    assert (word.left, word.right, word.top, word.bottom) == place


async def test_a_part_of_a_screen_is_enlarged_as_the_screen_is(program, tmp_path) -> None:
    reader = program(f"cat >'{tmp_path}/seen.png'")
    await reader.find_words(paint(size=(100, 50)), (1920, 1080))
    with Image.open(tmp_path / "seen.png") as given:
        assert given.size == (200, 100)


async def test_the_program_is_given_no_key(program, monkeypatch) -> None:
    monkeypatch.setenv("GEMINI_API_KEY", "a-secret")
    [word] = await program("cat > /dev/null; say $(env)").find_words(paint())
    assert "OMP_THREAD_LIMIT=1" in word.text
    assert "a-secret" not in word.text


async def test_what_a_reading_takes_of_a_processor_is_counted(program) -> None:
    reader = program("cat >/dev/null; say $(head -c 20000000 /dev/zero | sha512sum)")
    await reader.find_words(paint())
    assert reader.cpu_seconds > 0.02


async def test_what_others_take_meanwhile_is_not_counted(program, tmp_path) -> None:
    """Not this process, and not the programs that it runs for something else."""
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = program(f"cat >/dev/null; say $(cat '{fifo}')")
    reading = asyncio.create_task(reader.find_words(paint()))
    burn = "import time\nwhile time.process_time() < 2: pass"
    await asyncio.to_thread(subprocess.run, [sys.executable, "-c", burn], check=True)
    await asyncio.to_thread(fifo.write_text, "done")
    [word] = await reading
    assert word.text == "done"
    assert reader.cpu_seconds < 1


async def test_one_that_hangs_is_killed_with_what_it_started(
    program, tmp_path, monkeypatch
) -> None:
    limits, timeout = list[asyncio.Timeout](), asyncio.timeout
    monkeypatch.setattr(
        text.asyncio, "timeout", lambda seconds: limits.append(timeout(seconds)) or limits[-1]
    )
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reader = program(f"sleep 600 & echo $$ $! >'{fifo}'; wait")
    failing = asyncio.create_task(explain_failure(reader))
    own, other = (await asyncio.to_thread(fifo.read_text)).split()
    limits[-1].reschedule(asyncio.get_running_loop().time())
    assert "within 20 s" in await failing
    until(lambda: not is_running(own), "it ends")
    until(lambda: not is_running(other), "so does what it started")


async def test_one_that_is_no_longer_wanted_is_killed(program, tmp_path) -> None:
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reading = asyncio.create_task(program(f"echo $$ >'{fifo}'; sleep 600").find_words(paint()))
    own = (await asyncio.to_thread(fifo.read_text)).strip()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    until(lambda: not is_running(own), "it ends")


async def test_the_end_of_one_is_noted_whoever_still_waits(program, tmp_path, monkeypatch) -> None:
    fifo, may_end, wait = tmp_path / "fifo", threading.Event(), os.wait4
    os.mkfifo(fifo)
    monkeypatch.setattr(text.os, "wait4", lambda *given: may_end.wait() and wait(*given))
    reader = program(f"echo >'{fifo}'; sleep 600")
    reading = asyncio.create_task(reader.find_words(paint()))
    await asyncio.to_thread(fifo.read_text)
    reading.cancel()
    await asyncio.sleep(0)
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    used = reader.cpu_seconds
    may_end.set()
    await asyncio.to_thread(until, lambda: reader.cpu_seconds > used, "its end is noted")


@pytest.mark.parametrize("script", ["exit 3", "exec cat /dev/zero", "exec <&-; exit 1"])
async def test_one_that_fails_or_prints_for_ever_is_told_of(program, script) -> None:
    assert "failed with status" in await explain_failure(program(script))


async def test_one_that_has_gone_is_told_of(tmp_path, monkeypatch) -> None:
    monkeypatch.setattr(text.shutil, "which", lambda _name: None)
    assert "cannot be started" in await explain_failure(TesseractReader(str(tmp_path / "none")))


@pytest.mark.parametrize("fails", [False, True])
async def test_the_package_finds_words_or_says_why_not(monkeypatch, fails) -> None:
    corners = [[10, 11], [60, 11], [60, 23], [10, 23]]
    page = SimpleNamespace(txts=("Build",), boxes=(corners,))
    module = ModuleType("rapidocr")
    module.RapidOCR = lambda: lambda _png: None if fails else page
    monkeypatch.setitem(sys.modules, "rapidocr", module)
    if fails:
        assert "(AttributeError)" in await explain_failure(RapidReader())
        return
    [word] = await RapidReader().find_words(paint())
    assert (word.text, word.left, word.right, word.top, word.bottom) == ("Build", 10, 60, 11, 23)
