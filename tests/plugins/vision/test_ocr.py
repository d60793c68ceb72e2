"""Reading a picture with a program, or with a package, and what goes wrong."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
from io import BytesIO
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest
from PIL import Image, ImageDraw, ImageFont

from taskmem_hookspecs import JudgeUnavailable
from taskmem_vision.gemini import KEYS
from taskmem_vision.ocr import OUTPUT_BYTES, OcrEngine, RapidOcr, Tesseract, choose_scale
from tests.plugins.vision.painted import FONT, require_tesseract
from tests.support.waiting import PATIENCE, until

BRIEF = 0.5
"""A limit that is waited for, in seconds."""


def png(text="", size=(420, 150), *, px=11, ink="#202020", paper="#f0f0f0"):
    """A picture of some lines."""
    made = Image.new("RGB", size, paper)
    if text:
        font = ImageFont.truetype(FONT, px)
        ImageDraw.Draw(made).multiline_text((14, 12), text, ink, font, spacing=px // 2)
    return encode_png(made)


def encode_png(made):
    out = BytesIO()
    made.save(out, "PNG")
    return out.getvalue()


@pytest.fixture
def tesseract():
    return require_tesseract()


@pytest.fixture
def program(tmp_path):
    """Makes a program that stands in for tesseract."""

    def make_program(script, limit_seconds=PATIENCE):
        path = tmp_path / "tesseract"
        path.write_text(f"#!/bin/sh\n{SAY}\n{script}\n")
        path.chmod(0o755)
        return Tesseract(str(path), limit_seconds)

    return make_program


SAY = r"""say() {
printf '4\t1\t1\t1\t1\t0\t10\t10\t90\t20\t-1\t\n'
printf '5\t1\t1\t1\t1\t1\t10\t10\t90\t20\t96\t%s\n' "$*"
}"""
"""Prints words as one in tesseract's table."""


async def trouble(reader, picture=None):
    """The sentence with which a reader gives up."""
    with pytest.raises(JudgeUnavailable) as caught:
        await reader.read(picture or png())
    return str(caught.value)


def is_running(pid):
    try:
        status = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return status.rpartition(")")[2].split()[0] != "Z"


# --- the real one ---------------------------------------------------------------


@pytest.mark.parametrize("px", [9, 10, 11, 16, 32])
@pytest.mark.parametrize(("ink", "paper"), [("#202020", "#f0f0f0"), ("#d4d4d4", "#1e1e1e")])
async def test_small_letters_are_read(tesseract, px, ink, paper):
    text = "Download complete\nPlease wait"
    page = await tesseract.read(png(text, px=px, ink=ink, paper=paper))
    assert page.text.splitlines() == ["Download complete", "Please wait"]


@pytest.mark.parametrize(
    ("ink", "paper"),
    [("#000", "#666"), ("#888", "#fff"), ("#0c0", "#000"), ("#fff", "#1252bd")],
    ids=["black on grey", "grey on white", "green on black", "white on blue"],
)
async def test_a_window_of_any_colour_is_read_beside_a_dialog(tesseract, ink, paper):
    """As where a page is dimmed behind a question, or in a terminal at night."""
    made = Image.open(BytesIO(png("Download complete", ink=ink, paper=paper)))
    draw, font = ImageDraw.Draw(made), ImageFont.truetype(FONT, 11)
    draw.rectangle((180, 40, 410, 140), "#fff" if paper != "#fff" else "#333")
    saying = "#000" if paper != "#fff" else "#fff"
    draw.text((200, 60), "Leave this page?", saying, font)
    text = (await tesseract.read(encode_png(made))).text
    assert "Download complete" in text
    assert "Leave this page?" in text


async def test_letters_as_bright_as_their_paper_are_read(tesseract):
    picture = png("Download complete", ink="#f00", paper="#008200")
    text = (await tesseract.read(picture)).text
    assert "Download complete" in text


@pytest.mark.parametrize("desk", ["#000", "#3b6ea5", "#fff"])
@pytest.mark.parametrize(("ink", "paper"), [("#000", "#eee"), ("#ddd", "#111")])
async def test_what_begins_at_the_edge_of_a_window_is_read(tesseract, ink, paper, desk):
    """The paper of a letter is that of its own window."""
    made = Image.new("RGB", (420, 150), desk)
    draw = ImageDraw.Draw(made)
    draw.rectangle((20, 20, 400, 130), paper)
    font = ImageFont.truetype(FONT, 13)
    for row, said in enumerate(["Build finished", "Restore complete"]):
        draw.text((26, 26 + 18 * row), said, ink, font)
    text = (await tesseract.read(encode_png(made))).text
    assert "Build finished" in text
    assert "Restore complete" in text


async def test_an_empty_picture_shows_no_text(tesseract):
    assert not (await tesseract.read(png())).text


async def test_several_pictures_are_read_in_turn(tesseract):
    pictures = [png(f"Picture number {number}") for number in (11, 22, 33)]
    texts = await asyncio.gather(*map(tesseract.read, pictures))
    assert [page.text.split()[-1] for page in texts] == ["11", "22", "33"]


async def test_the_program_is_given_no_key(program, monkeypatch):
    for name in KEYS:
        monkeypatch.setenv(name, "a-secret")
    text = (await program("cat > /dev/null; say $(env)").read(png())).text
    assert "OMP_THREAD_LIMIT=1" in text
    assert "a-secret" not in text


# --- where it is ----------------------------------------------------------------


def test_it_is_found_only_where_it_is_installed(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert Tesseract.find() is None
    path = tmp_path / "tesseract"
    path.write_text("#!/bin/sh\n")
    path.chmod(0o755)
    assert isinstance(Tesseract.find(), OcrEngine)


async def test_one_that_has_gone_is_told_of(tmp_path, monkeypatch):
    monkeypatch.setattr(shutil, "which", lambda _name: None)
    assert "cannot be started" in await trouble(Tesseract(str(tmp_path / "none")))


async def test_it_is_nice_where_that_can_be_had(program):
    if shutil.which("nice") is None:
        pytest.skip("there is no nice")
    given = int((await program("cat >/dev/null; say $(nice)").read(png())).text)
    assert given == min(os.nice(0) + 10, 19)


async def test_it_runs_in_one_thread_and_is_given_a_larger_picture(program, tmp_path):
    seen = tmp_path / "seen.png"
    reader = program(f"cat >'{seen}'; say $OMP_THREAD_LIMIT $*")
    page = await reader.read(png(size=(100, 50)))
    assert page.text == "1 stdin stdout --psm 11 tsv"
    assert page.sure == page.text
    with Image.open(seen) as given:
        assert (given.size, given.mode) == ((300, 150), "L")


async def test_numbers_that_matter_are_read_as_one_block(program):
    page = await program("cat >/dev/null; say layout $4").read(png(), numbers=True)
    assert page == ("layout 11", "layout 6")


@pytest.mark.parametrize(
    ("size", "times"), [((420, 150), 3), ((1000, 640), 2), ((1920, 1080), 2), ((3840, 2160), 1)]
)
def test_the_smaller_a_picture_the_more_it_is_enlarged(size, times):
    assert choose_scale(size) == times


# --- what goes wrong ------------------------------------------------------------


async def test_one_that_hangs_is_killed_with_what_it_started(program, tmp_path):
    pids = tmp_path / "pids"
    reader = program(f"sleep 600 & echo $$ $! >'{pids}'; wait", BRIEF)
    assert "within 0.5 s" in await trouble(reader)
    own, other = pids.read_text().split()
    until(lambda: not is_running(own), "it ends")
    until(lambda: not is_running(other), "so does what it started")


async def test_one_that_is_no_longer_wanted_is_killed(program, tmp_path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reading = asyncio.create_task(program(f"echo $$ >'{fifo}'; sleep 600").read(png()))
    own = (await asyncio.to_thread(fifo.read_text)).strip()
    reading.cancel()
    with pytest.raises(asyncio.CancelledError):
        await reading
    until(lambda: not is_running(own), "it ends")


async def test_a_start_that_is_cancelled_leaves_no_child(program, tmp_path, delayed_start):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    reading = asyncio.create_task(program(f"sleep 600 & echo $! >'{fifo}'; wait").read(png()))
    child = (await asyncio.to_thread(fifo.read_text)).strip()
    reading.cancel()
    await asyncio.sleep(0)
    delayed_start.set()
    with pytest.raises(asyncio.CancelledError):
        await reading
    until(lambda: not is_running(child), "it ends")


async def test_one_that_fails_is_told_of_with_its_own_words(program):
    said = await trouble(program("echo noise >&2; echo 'no eng\033[1m data' >&2; exit 1"))
    assert "status 1 (no eng [1m data)" in said


async def test_one_that_fails_without_a_word_is_told_of(program):
    assert "with status 3;" in await trouble(program("exec <&-; exit 3"))


async def test_one_that_complains_without_end_is_read_all_the_same(program):
    script = "cat >/dev/null; head -c 3000000 /dev/zero >&2; say text"
    assert (await program(script).read(png())).text == "text"


async def test_bytes_that_are_no_text_are_marked(program):
    script = "cat >/dev/null; say \"$(printf 'Done\\377\\376 ok')\""
    assert (await program(script).read(png())).text == "Done\ufffd\ufffd ok"


async def test_more_text_than_a_screen_holds_is_not_cut_but_told_of(program):
    fits = f"cat >/dev/null; head -c {OUTPUT_BYTES} /dev/zero"
    assert (await program(fits).read(png())).text == ""
    more = f"cat >/dev/null; head -c {OUTPUT_BYTES + 1} /dev/zero"
    assert "more than 4096 KiB" in await trouble(program(more))


async def test_one_that_prints_for_ever_is_killed(program):
    assert "more than 4096 KiB" in await trouble(program("exec cat /dev/zero"))


async def test_one_that_leaves_something_running_is_cleaned_up(program, tmp_path):
    pids = tmp_path / "pids"
    reader = program(f"sleep 600 & echo $! >'{pids}'; cat >/dev/null", BRIEF)
    assert "within 0.5 s" in await trouble(reader)
    left = pids.read_text().strip()
    until(lambda: not is_running(left), "what it left running ends")


async def test_what_is_no_picture_is_told_of(program):
    reader = program("echo never")
    assert "cannot be opened" in await trouble(reader, b"nothing")
    assert "cannot be opened" in await trouble(reader, png()[:60])


async def test_after_trouble_it_reads_on(program, tmp_path):
    mark = tmp_path / "mark"
    reader = program(f"cat >/dev/null; [ -e '{mark}' ] || exit 1; say text")
    await trouble(reader)
    mark.touch()
    assert (await reader.read(png())).text == "text"


async def test_two_are_never_run_at_once(program, tmp_path):
    place = tmp_path / "busy"
    script = f"mkdir '{place}' || exit 1; cat >/dev/null; rmdir '{place}'; say text"
    reader = program(script)
    pages = await asyncio.gather(*[reader.read(png()) for _ in range(3)])
    assert [page.text for page in pages] == ["text"] * 3


# --- the package ----------------------------------------------------------------


@pytest.fixture
def package(monkeypatch):
    """Puts a module in rapidocr's place, which finds what it is told to."""

    def make_package(engine):
        module = ModuleType("rapidocr")
        module.RapidOCR = engine
        monkeypatch.setitem(sys.modules, "rapidocr", module)
        return RapidOcr()

    return make_package


def box(left, top, width=50, height=12):
    right, bottom = left + width, top + height
    return [[left, top], [right, top], [right, bottom], [left, bottom]]


NOTHING = SimpleNamespace(txts=None, boxes=None, scores=None)


def test_the_package_is_found_only_where_both_are_installed(monkeypatch, tmp_path):
    monkeypatch.setattr(sys, "path", [str(tmp_path)])
    monkeypatch.delitem(sys.modules, "rapidocr", raising=False)
    monkeypatch.delitem(sys.modules, "onnxruntime", raising=False)
    assert RapidOcr.find() is None
    (tmp_path / "rapidocr.py").touch()
    assert RapidOcr.find() is None
    (tmp_path / "onnxruntime.py").touch()
    assert isinstance(RapidOcr.find(), OcrEngine)


async def test_what_stands_side_by_side_is_one_line(package):
    found = SimpleNamespace(
        txts=("finished", "Build", "Cancel"),
        boxes=(box(70, 9), box(10, 11), box(5, 40)),
        scores=(0.9, 0.9, 0.9),
    )
    reader = package(lambda: lambda _png: found)
    assert (await reader.read(png())).text == "Build finished\nCancel"


async def test_what_the_package_does_not_find_is_no_text(package):
    reader = package(lambda: lambda _png: NOTHING)
    assert (await reader.read(png())).text == ""


async def test_its_engine_is_made_once(package):
    made = []

    def engine():
        made.append(1)
        return lambda _png: NOTHING

    reader = package(engine)
    await asyncio.gather(reader.read(png()), reader.read(png()))
    assert made == [1]


async def test_a_package_that_breaks_is_told_of(package):
    def fail_to_start():
        raise RuntimeError("no model")

    assert "(RuntimeError)" in await trouble(package(fail_to_start))
    assert "(AttributeError)" in await trouble(package(lambda: lambda _png: None))
