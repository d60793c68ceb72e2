import os

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from taskmem_terminal.frames import LOOK_BYTES, OutputReader, ReadOptions, StreamPosition
from taskmem_terminal.render import ScreenEmulator, find_open_string, mask_strings, render_lines
from tests.plugins.terminal.watched import Bytes

TERMINAL = ReadOptions(columns=40, rows=10, interactive=True)


def read_lines(data, columns=None):
    """The lines that bytes show."""
    raw = mask_strings(data).split(b"\n")
    return [line for lines in render_lines(raw, columns) for line in lines]


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        pytest.param(b"one\r\ntwo\n", ["one", "two", ""], id="plain"),
        pytest.param(b"10%\r50%\r100% done\n", ["100% done", ""], id="progress"),
        pytest.param(b"100%\r50%", ["50%%"], id="what is not overwritten stays"),
        pytest.param(b"abc\b\bXY", ["aXY"], id="backspace"),
        pytest.param(b"long line\r\x1b[Kshort", ["short"], id="erase to the end"),
        pytest.param(b"long line\x1b[2K\rshort", ["short"], id="erase the line"),
        pytest.param(b"abc\x1b[1Kd", ["   d"], id="erase to the start"),
        pytest.param(b"long line\r\x1b[Jshort", ["short"], id="erase below"),
        pytest.param(b"a\x1b[3Cb", ["a   b"], id="cursor forward"),
        pytest.param(b"abcdef\x1b[3D\x1b[P", ["abcef"], id="delete a character"),
        pytest.param(b"acd\x1b[2D\x1b[@b", ["abcd"], id="insert a character"),
        pytest.param(b"abc\x1b[2D\x1b[X", ["a c"], id="blank a character"),
        pytest.param(b"x\x1b[5Gy", ["x   y"], id="go to a column"),
        pytest.param(b"=\x1b[4b>", ["=====>"], id="repeat"),
        pytest.param(b"a\tb\n", ["a       b", ""], id="tab"),
        pytest.param(b"a\tb\rX\tY\n", ["X       Y", ""], id="tabs over text"),
        pytest.param(b"\x1b[1;31mre\x1b[0md\x1b[38:5:9m!", ["red!"], id="colours"),
        pytest.param(b"\x1b]0;a title\x07text", ["text"], id="title"),
        pytest.param(b"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", ["link"], id="link"),
        pytest.param(b"a\x1bPq#0~\n~\x1b\\b", ["ab"], id="picture of two lines"),
        pytest.param(b"\x1b(B\x1b)0a\x0f\x1b=b\x1b>", ["ab"], id="character sets"),
        pytest.param(b"\x1b[?2004hpaste\x1b[?2004l", ["paste"], id="bracketed paste"),
        pytest.param(b"\x1b[>4;1ma\x1b[6n\x1b[c\x1b[2 qb", ["ab"], id="questions"),
        pytest.param("é 日本 🎉".encode(), ["é 日本 🎉"], id="UTF-8"),
        pytest.param(b"a\xffb\xc3(", ["a�b�("], id="bytes that are no text"),
        pytest.param(b"a\x00b\x01c\x7fd\xc2\x85e", ["abcde"], id="other controls"),
        pytest.param(b"done  \r\n", ["done", ""], id="spaces at the end"),
        pytest.param("日本語\r英".encode(), ["英本語"], id="wide over wide"),
        pytest.param("e\u0301a\b\bo".encode(), ["oa"], id="accents of their own"),
        pytest.param(b"one\x1b[1A\rtwo", ["one", "two"], id="up is another line"),
        pytest.param(b"\x1b[2J\x1b[1;1HA B\x1b[9;9HC", ["A B", "C"], id="addressing"),
        pytest.param(b"a\x1b[?1049hvim\x1b[?1049lb", ["a", "vim", "b"], id="alternate"),
        pytest.param(b"a\x1bP\x1b\x1bP\x1b\x1b\\b\x1b\\c", ["ac"], id="doubled escapes"),
        pytest.param(b"a\x1bP1\x1bP2\x1b\\b", ["a1b"], id="a string in a string"),
        pytest.param(b"ab\x1b[" + b"0" * 5000 + b"1Dc", ["ac"], id="zeros before"),
        pytest.param(b"a\x1b[" + b"9" * 5000 + b"C", ["a"], id="a number without end"),
    ],
)
def test_bytes_show_what_a_person_reads(data, lines):
    assert read_lines(data) == lines


def test_carriage_return_goes_to_the_start_of_its_screen_row():
    # How line editors wrap: a space that falls into the next row, and back.
    typed = b"$ make && e" + b" \rcho BUILD DONE"
    assert read_lines(typed, columns=11) == ["$ make && echo BUILD DONE"]
    assert read_lines(typed) == ["cho BUILD DONE"]


def test_letters_are_put_in_and_taken_away_within_a_row():
    assert read_lines(b"abcdef\b\b\b\b\b\x1b[P", columns=3) == ["ac def"]
    assert read_lines(b"abcdef\b\b\b\b\b\x1b[@", columns=3) == ["a bdef"]


def test_cut_off_control_string_hides_nothing_after_it():
    page = OutputReader().read_page(
        Bytes(b"\x1bPcut\x1bPwhole\x1b\\seen"), StreamPosition(0, 0), TERMINAL
    )
    assert page.text == "cutseen"


def test_what_may_be_cut_at_the_end_is_not_shown_yet():
    for cut in (b"\x1b", b"\x1b[", b"\x1b[3", b"\x1b(", "é".encode()[:1]):
        assert read_lines(b"text" + cut) == ["text"]


# --- looks --------------------------------------------------------------------

PIECES = st.sampled_from(
    [
        *(b"BUILD DONE", b"a", b"word ", b"\r\n", b"\n", b"\r", b"\b", b"\t"),
        *(b"\x1b[31m", b"\x1b[0m", b"\x1b[K", b"\x1b[2K", b"\x1b[3C", b"\x1b[A"),
        *(b"\x1b[2;5H", b"\x1b]0;t\x07", b"\x1b]133;B\x07", b"\x1b]133;C\x07"),
        *(b"\x1bPx\ny\x1b\\", b"\x1b[?2004h", b"\x1b[?1049h", b"\xff", b"\x00"),
        *("日本".encode(), "é".encode(), b"u@h:~$ make\r\n", b"> more\r\n", b"+ x\n"),
    ]
)
STREAMS = st.lists(PIECES, max_size=40).map(b"".join)


def looks(data, cuts, manner=TERMINAL):
    """The pages that somebody reads who looks when so many bytes are there."""
    reader, spot = OutputReader(), StreamPosition(0, 0)
    for end in [*sorted(cuts), len(data)]:
        page = reader.read_page(Bytes(data[:end]), StreamPosition.parse(str(spot)), manner)
        spot = page.next
        yield page


@given(STREAMS, st.lists(st.integers(0, 400), max_size=6))
@example(b"a\x1bP1\n2\n3\n4\n5\n6\n7\x1b\\b\nc", [16])
def test_every_cut_gives_the_same_lines_and_the_same_echoes(data, cuts):
    whole = next(looks(data, []))
    lines, echoes = whole.text.split("\n"), set(whole.echoes)
    seen, typed = set(), set()
    for page in looks(data, [min(cut, len(data)) for cut in cuts]):
        seen.update(page.text.split("\n"))
        typed.update(page.echoes)
        last = set(page.echoes)
    assert set(lines) <= seen
    assert last <= echoes <= typed


@given(
    st.lists(PIECES, max_size=20).map(b"".join),
    st.lists(PIECES, max_size=20).map(b"".join),
    st.lists(st.integers(0, 800), max_size=6),
)
def test_phrase_on_its_own_line_is_found_however_output_is_cut(before, after, cuts):
    if b"\x1bP" in before.rpartition(b"\x1b\\")[2]:
        return
    data = before + b"\r\nTHE PHRASE\r\n" + after
    pages = looks(data, [min(cut, len(data)) for cut in cuts])
    assert any("THE PHRASE" in page.text for page in pages)


@given(st.integers(0, 3), st.integers(1, 20))
def test_a_phrase_over_three_lines_is_seen_whole_in_one_look(lines, cut):
    data = b"first\nTHE\nLONG\nPHRASE" + b"\nx" * lines
    assert any("THE\nLONG\nPHRASE" in page.text for page in looks(data, [cut]))


def test_a_look_at_nothing_new_shows_nothing_and_stays():
    stream, reader = Bytes(b"one\ntwo"), OutputReader()
    first = reader.read_page(stream, StreamPosition(0, 0), TERMINAL)
    again = reader.read_page(stream, first.next, TERMINAL)
    assert (again.text, again.next, again.more) == ("", first.next, False)


@pytest.mark.parametrize("step", [1000, 70_000, LOOK_BYTES])
def test_phrase_in_an_endless_line_is_found(step):
    # Where the first look ends is where it would be cut.
    before = max(step, 20_000) // step * step - 5
    data = b"x" * before + b"THE PHRASE" + b"y" * 700_000
    reader, spot, found, read_again, end = OutputReader(), StreamPosition(0, 0), 0, 0, 0
    while spot.shown < len(data):
        end = min(end + step, len(data))
        page = reader.read_page(Bytes(data[:end]), spot, TERMINAL)
        found += "THE PHRASE" in page.text
        read_again = max(read_again, spot.shown - page.next.at)
        assert page.next.shown > spot.shown
        assert page.next.shown - page.next.at <= 16_384
        spot = page.next
    assert found


def test_bytes_that_were_lost_are_told_and_counted():
    page = OutputReader().read_page(
        Bytes(b"." * 5000 + b"new\n", 5000), StreamPosition(90, 100), TERMINAL
    )
    assert page.text == "[taskmem: 4,900 bytes were lost here]\nnew\n"


def test_more_than_one_look_holds_is_read_in_several():
    data = b"".join(b"line %d\n" % n for n in range(100_000))
    reader, spot, lines = OutputReader(), StreamPosition(0, 0), []
    for _ in range(10):
        page = reader.read_page(Bytes(data), spot, TERMINAL)
        lines += page.text.split("\n")
        spot = page.next
        if not page.more:
            break
    assert not page.more
    assert set(lines) >= {f"line {n}" for n in range(100_000)}


# --- costs --------------------------------------------------------------------


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(os.urandom(LOOK_BYTES), id="random"),
        pytest.param(b"\x1bP" * (LOOK_BYTES // 2), id="strings that never end"),
        pytest.param(b"\x1b]" * (LOOK_BYTES // 2), id="titles that never end"),
        pytest.param(b"\x1b[" * (LOOK_BYTES // 2), id="sequences that never end"),
        pytest.param(b"\x1b" * LOOK_BYTES, id="escapes"),
        pytest.param(b"\x1b[99999999C" * 20_000 + b"x", id="far columns"),
        pytest.param(b"a\x1b[99999999b" * 20_000, id="many repeats"),
        pytest.param(b"\x1b[5@a" * 40_000, id="insertions"),
        pytest.param(b"\xf0" * LOOK_BYTES, id="characters that never end"),
        pytest.param(b"\x1b[1A\r\x1b[2Kstep 1\x1b[1B" * 10_000, id="moving bars"),
    ],
)
@pytest.mark.timeout(60)  # what takes more than its length's time never ends
def test_hostile_bytes_cost_a_bounded_time_and_are_passed(noise):
    page = OutputReader().read_page(Bytes(noise), StreamPosition(0, 0), ReadOptions())
    assert page.next.shown == min(len(noise), LOOK_BYTES)
    assert len(page.text) < 2 * LOOK_BYTES


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(b"\x1b\x1bP" * (LOOK_BYTES // 3), id="strings of escapes"),
        pytest.param(b"\x1b\x1b_\x1b\x1b]" * (LOOK_BYTES // 6), id="and titles"),
        pytest.param(b"\x1b\x1bP" * 40_000 + b"\x1bx" * 60_000, id="and their end"),
        pytest.param(b"\r" * LOOK_BYTES, id="returns"),
        pytest.param(b"$ x\n" + b"a" * (LOOK_BYTES - 4), id="a word behind a command"),
        pytest.param(b"$ x\n" + b"a " * (LOOK_BYTES // 2 - 2), id="and many words"),
        pytest.param(b"(a) " * (LOOK_BYTES // 4), id="environments"),
        pytest.param(b"\x1b[" + b"1" * (LOOK_BYTES - 3) + b"C", id="digits"),
        pytest.param(b"ab" * 65_536 + b"\r" + b"\x1b[256@" * 21_000, id="insertions"),
        pytest.param(b"ab" * 65_536 + b"\r" + b"\x1b[P" * 43_000, id="deletions"),
        pytest.param(b"ab" * 65_536 + b"\x1b[1K" * 32_000, id="erased starts"),
        pytest.param(b"ab" * 65_536 + b"\x1b[2K" * 32_000, id="erased lines"),
        pytest.param(
            b"a" + "\u0301".encode() * 30_000 + b"\x1b[256b\r\t" * 20_000, id="repeated accents"
        ),
    ],
)
@pytest.mark.parametrize("manner", [ReadOptions(), TERMINAL], ids=["output", "terminal"])
@pytest.mark.timeout(10)  # what takes more than its length's time never ends
def test_hostile_bytes_are_passed_however_many_there_are(noise, manner):
    page = OutputReader().read_page(Bytes(noise), StreamPosition(0, 0), manner)
    assert page.next.shown == len(noise)
    assert find_open_string(noise) <= len(noise)
    assert not page.more


@pytest.mark.parametrize(
    "noise",
    [
        pytest.param(b"a" + "\u0301".encode() * 100_000, id="accents"),
        pytest.param(b"x" * 40_000 + b"\x1b[2J" * 100_000, id="erased screens"),
        pytest.param(b"\x1b[9;9H\x1b[J\x1b[1J" * 30_000, id="erased halves"),
        pytest.param(b"\x1b\x1bP" * 100_000, id="strings of escapes"),
    ],
)
@pytest.mark.timeout(60)  # what takes more than its length's time never ends
async def test_hostile_bytes_are_painted_however_many_there_are(noise):
    painting = ScreenEmulator(500, 500)
    await painting.paint(noise, len(noise))
    assert len("".join(painting.read_lines())) < 500 * 501


async def test_a_number_without_end_leaves_the_screen_as_it_is():
    data = b"\x1b[2;1Hkept\x1b[" + b"9" * 5000 + b"A"
    assert "kept" in (await tail(data)).text


@pytest.mark.parametrize(
    ("erase", "left"),
    [
        (b"\x1b[J", ["aaaa", "bb"]),
        (b"\x1b[1J", ["", "   b", "cccc"]),
        (b"\x1b[2J", []),
        (b"\x1b[7J", []),
    ],
)
async def test_a_part_of_the_screen_is_erased(erase, left):
    painting = ScreenEmulator(10, 5)
    data = b"aaaa\r\nbbbb\r\ncccc\x1b[2;3H" + erase
    await painting.paint(data, len(data))
    assert painting.read_lines() == left


# --- painting -----------------------------------------------------------------


async def tail(data, start=0, manner=TERMINAL):
    return await OutputReader().read_tail(Bytes(data), StreamPosition(start, start), manner)


async def test_the_tail_of_plain_output_is_its_last_eighty_lines():
    data = b"".join(b"line %d\r\n" % n for n in range(5000))
    shown = (await tail(data)).text.split("\n")
    assert shown == [f"line {n}" for n in range(4920, 5000)]


async def test_the_tail_of_a_program_that_paints_is_its_screen():
    data = b"\x1b[?1049h\x1b[2J\x1b[2;3H\x1b[7mTop\x1b[m\x1b[5;1H50%\x1b[5;1H75%"
    assert (await tail(data)).text == "\n  Top\n\n\n75%"


async def test_the_screen_is_that_of_before_when_the_program_has_ended():
    data = b"make\r\n\x1b[?1049h\x1b[2J\x1b[2;3HTop\x1b[?1049l\x1b[2;1Hdone"
    assert (await tail(data)).text == "make\ndone"


async def test_a_screen_is_painted_on_from_look_to_look():
    reader = OutputReader()
    data = b"\x1b[2J\x1b[1;1Hfirst\x1bPa picture\x1b\\\x1b[3;1Hsecond"
    for end in range(len(data) + 1):
        shown = await reader.read_tail(Bytes(data[:end]), StreamPosition(0, 0), TERMINAL)
    assert shown.text == "first\n\nsecond"


async def test_a_screen_shows_nothing_that_was_painted_before_the_wait():
    before = b"\x1b[1;1HBUILD DONE"
    shown = await tail(before + b"\x1b[2;1Hnext", start=len(before))
    assert shown.text == "\nnext"


async def test_a_screen_survives_what_pyte_does_not():
    painting = ScreenEmulator(20, 4)

    def stumble(_):
        raise IndexError

    await painting.paint(b"lost", 4)
    painting._stream.feed = stumble
    await painting.paint(b"lost", 8)
    await painting.paint(b"found", 13)
    assert painting.read_lines() == ["found"]
    for noise in (b"\x1b[?6n\x1b[>c\x1b[>4;2m", os.urandom(20_000), b"\x1b[999;999H!"):
        await painting.paint(noise, (painting.at or 0) + len(noise))
    end = (painting.at or 0) + 20
    await painting.paint(b"\x1b[?1049l\x1bc\x1b[2J\x1b[1;1Hok"[-20:], end)
    assert len(painting.read_lines()) <= 4
