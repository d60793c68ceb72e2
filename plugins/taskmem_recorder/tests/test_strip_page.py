"""A segment is shown as a strip, at the moment that was asked for, and as text whatever it says."""

from __future__ import annotations

import io
import stat
from datetime import UTC, date, datetime, timedelta

import pytest
from PIL import Image
from playwright.sync_api import Page

from taskmem_recorder.database import clear_strips
from taskmem_recorder.history import format_moment_url
from taskmem_recorder.store import Moment, RecordingStore
from taskmem_recorder.strip import (
    AddressUnclear,
    SegmentAddress,
    find_moment,
    parse_address,
    write_strip,
)

NOON = datetime(2026, 2, 10, 12, tzinfo=UTC)
DAY = date(2026, 2, 10)
HOSTILE = "</pre></title><script>document.title='taken'</script><img src=x onerror=alert(1)>"


def paint_picture(number):
    held = io.BytesIO()
    Image.new("RGB", (800, 600), (number * 20 % 256, 90, 120)).save(held, "WEBP")
    return held.getvalue()


@pytest.fixture
def store(tmp_path):
    opened = RecordingStore(tmp_path / "recordings")
    yield opened
    opened.close()


def record_segment(store, count=12):
    for number in range(count):
        moment = Moment(
            at=NOON + timedelta(seconds=20 * number),
            window_title=f"{HOSTILE} {number}",
            application="firefox <b>",
            text=f"{HOSTILE}\nline {number}",
        )
        store.add_moment(moment, paint_picture(number) if number != 3 else None)
    return store.list_moments()


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("memories://recordings/2026-02-10/segment-447", SegmentAddress(DAY, 447)),
        ("memories://recordings/2026-02-10/segment-447.mp4", SegmentAddress(DAY, 447)),
        (" memories://recordings/2026-02-10/segment-447#t=142 ", SegmentAddress(DAY, 447, 142)),
        ("memories://recordings/2026-02-10/segment-447.mp4#t=1.5s", SegmentAddress(DAY, 447, 1.5)),
    ],
)
def test_an_address_names_a_segment_and_a_place(url, address):
    assert parse_address(url) == address


@pytest.mark.parametrize(
    "url",
    [
        *("", "447", "segment-447", "https://recordings/2026-02-10/segment-447"),
        *("memories://elsewhere/2026-02-10/segment-447", "memories://recordings/segment-447"),
        *("memories://recordings/2026-13-10/segment-1", "memories://recordings/2026-02-10/447"),
        *("memories://recordings/2026-02-10/segment-../../x", "memories://[", "x" * 9000),
        "memories://recordings/2026-02-10/segment-1#t=later",
    ],
)
def test_what_is_no_address_is_refused_with_an_example(url):
    with pytest.raises(AddressUnclear, match="memories://recordings/2026-02-10/segment-447"):
        parse_address(url)


def test_a_place_is_the_moment_that_was_shown_there(store):
    moments = record_segment(store, 3)
    assert [find_moment(moments, at).id for at in (-1, 0, 19.9, 20, 9e9)] == [1, 1, 1, 2, 3]


def test_the_address_of_a_moment_opens_at_that_moment(store):
    for place in (0, 0.001, 0.7, 59.999, 119.3):
        at = NOON + timedelta(seconds=place)
        store.add_moment(Moment(at=at, window_title="t", application="firefox"), None)
    moments = store.list_moments()
    found = [parse_address(format_moment_url(moments, moment)) for moment in moments]
    assert [address.segment for address in found] == [1] * 5
    assert [find_moment(moments, address.seconds) for address in found] == moments


def test_a_strip_is_its_owners_alone_and_one_at_a_time(store):
    moments = record_segment(store, 2)
    (store.folder / "strips").mkdir(mode=0o755)
    (store.folder / "strips" / "old.html").write_text("old")
    path = write_strip(store.folder, moments, moments[0], UTC)
    assert [each.name for each in path.parent.iterdir()] == ["segment-1.html"]
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(path.parent.stat().st_mode) == 0o700


def test_a_link_in_place_of_the_strips_is_not_followed(store, tmp_path, caplog):
    moments = record_segment(store, 2)
    (elsewhere := tmp_path / "elsewhere").mkdir()
    (elsewhere / "mine.txt").write_text("mine")
    (store.folder / "strips").symlink_to(elsewhere)
    path = write_strip(store.folder, moments, moments[0], UTC)
    assert [each.name for each in elsewhere.iterdir()] == ["mine.txt"]
    assert path.exists()
    assert not path.parent.is_symlink()
    assert f"{path.parent} was no folder; it was removed" in caplog.text


def test_a_file_in_place_of_the_strips_stops_nothing(store):
    moments = record_segment(store, 2)
    (store.folder / "strips").write_text("not a folder")
    store.prune(timedelta(days=1), 1 << 30, NOON)
    assert not (store.folder / "strips").exists()
    (store.folder / "strips").write_text("not a folder")
    assert write_strip(store.folder, moments, moments[0], UTC).is_file()


@pytest.mark.parametrize("drop", ["forget", "prune"])
def test_a_strip_goes_with_what_it_shows(store, drop):
    moments = record_segment(store, 2)
    path = write_strip(store.folder, moments, moments[0], UTC)
    if drop == "forget":
        store.forget(NOON, None)
    else:
        store.prune(timedelta(days=1), 1 << 30, NOON)
    assert not path.exists()
    clear_strips(store.folder)


@pytest.fixture(scope="module")
def browser_page(chromium):
    context = chromium.new_context(viewport={"width": 900, "height": 700})
    yield context.new_page()
    context.close()


@pytest.mark.parametrize("fragment", ["#moment-8", ""], ids=["by its place", "without one"])
def test_a_strip_opens_at_the_moment_in_a_browser(store, browser_page: Page, fragment):
    moments = record_segment(store)
    path = write_strip(store.folder, moments, moments[7], UTC)
    refused: list[str] = []
    browser_page.on(
        "console", lambda line: refused.append(line.text) if line.type == "error" else 0
    )
    browser_page.goto(f"{path.as_uri()}{fragment}", wait_until="load")
    if not fragment:
        browser_page.wait_for_function("document.activeElement.className === 'asked'")
    asked = browser_page.locator("article.asked img").bounding_box()
    assert asked is not None
    assert asked["y"] > 0
    assert asked["y"] + asked["height"] < 700
    assert browser_page.locator("article.asked time").inner_text() == "12:02:20"
    assert refused == []


def test_every_picture_shows_and_what_has_none_says_so(store, browser_page: Page):
    moments = record_segment(store)
    path = write_strip(store.folder, moments, moments[0], UTC)
    browser_page.goto(path.as_uri())
    widths = browser_page.eval_on_selector_all("img", "all => all.map(one => one.naturalWidth)")
    assert widths == [800] * 11
    assert browser_page.locator("article").nth(3).inner_text().endswith("Text on it")
    assert "No picture was kept." in browser_page.locator("article").nth(3).inner_text()


def test_hostile_words_of_a_screen_are_text(store, browser_page: Page):
    moments = record_segment(store, 2)
    path = write_strip(store.folder, moments, moments[0], UTC)
    browser_page.goto(path.as_uri())
    assert browser_page.title() == "Recorded by taskmem: firefox <b>, 2026-02-10 12:00:00"
    assert browser_page.locator("script").count() == 0
    assert browser_page.locator("h2").first.inner_text().endswith(f"{HOSTILE} 0")
    browser_page.locator("summary").first.click()
    assert browser_page.locator("pre").first.inner_text() == f"{HOSTILE}\nline 0"


def test_a_page_runs_no_script_even_if_one_got_in(store, browser_page: Page):
    moments = record_segment(store, 1)
    path = write_strip(store.folder, moments, moments[0], UTC)
    path.write_text(path.read_text() + "<script>document.title = 'taken'</script>")
    browser_page.goto(path.as_uri())
    assert browser_page.title() != "taken"
