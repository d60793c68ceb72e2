"""Waits for a page."""

from __future__ import annotations

import asyncio
import itertools
import threading
import tracemalloc
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from openclaw_taskmem.domain.conditions.conditions import parse_condition
from taskmem_hookspecs import (
    ConditionUnclear,
    Frame,
    InvalidArguments,
    NotAllowed,
    Target,
)
from taskmem_hookspecs.testing import SensorSuite
from taskmem_program import web_access
from taskmem_targets import beginnings, hooks, pages
from taskmem_targets.facts import CERTIFICATE_DAYS, LARGEST_BODY, PRICE, SIZE, STATUS
from taskmem_targets.paced import PacedWatch
from taskmem_targets.pages import PageSensor
from tests.support.pages import PageServer, make_certificate, serve_pages

REST = 0.05
"""Seconds between two requests of the tests."""
ANYWHERE = ("/",)
"""The folders of an agent, for which no private address may be asked."""
HTML = {"Content-Type": "text/html; charset=utf-8"}


@pytest.fixture
def server() -> Iterator[PageServer]:
    with serve_pages({"/": (200, {}, b"hello")}) as one:
        yield one


async def watch(
    server: PageServer, path: str = "/", *, host: str = "127.0.0.1", within: object = None
) -> PacedWatch:
    target = Target(scheme="url", name=f"http://{host}:{server.port}{path}")
    return await PageSensor(REST).watch(target.model_copy(update={"within": within}))


def look(server: PageServer, path: str = "/", **options: object) -> Frame:
    """Return what is found at a page when a wait begins, with what it says."""

    async def run() -> Frame:
        watched = await watch(server, path, **options)  # type: ignore[arg-type]
        try:
            await watched.here()
            return await watched.look("", "")
        finally:
            await watched.close()

    return asyncio.run(run())


def is_met(sentence: str, frame: Frame) -> bool:
    judge = hooks.wait_judge(Target(scheme="url", name="x"), parse_condition(sentence, "url"))
    assert judge is not None
    return asyncio.run(judge.rule(frame)).met == "yes"


class TestPageSensor(SensorSuite):
    @pytest.fixture(autouse=True)
    def _server(self, server: PageServer) -> None:
        self.server = server

    def make_sensor(self, tmp_path: Path) -> PageSensor:
        return PageSensor(REST)

    def make_target(self, tmp_path: Path) -> Target:
        return Target(scheme="url", name=f"http://127.0.0.1:{self.server.port}/")

    def show(self, tmp_path: Path, text: str) -> None:
        status, headers, body = self.server.pages["/"]
        assert isinstance(body, bytes)
        self.server.pages["/"] = status, headers, body + text.encode()

    def make_missing(self, tmp_path: Path) -> None:
        return None


@pytest.mark.parametrize(
    ("status", "met", "unmet"),
    [
        (200, "the page answers", "status >= 400"),
        (204, "it is up", "it returns 200"),
        (404, "it answers with status 404", "it is up"),
        (503, "the server is down", "it responds"),
    ],
)
def test_a_page_is_judged_by_its_status(server: PageServer, status: int, met: str, unmet: str):
    server.pages["/"] = status, {}, b""
    frame = look(server)
    assert frame.numbers[STATUS] == status
    assert (is_met(met, frame), is_met(unmet, frame)) == (True, False)


def test_a_page_that_nobody_serves_is_down_and_says_nothing(server: PageServer):
    server.shutdown()
    server.server_close()
    frame = look(server)
    assert is_met("it is down", frame)
    assert "could not be asked" in str(frame.note)
    assert not is_met('"hello" is gone', frame)
    server.socket.close()


@pytest.mark.parametrize(
    ("status", "body", "is_right"),
    [(200, b"In stock", True), (200, b"Sold out", False), (503, b"Busy", False), (200, b"", False)],
)
def test_a_text_is_gone_only_from_a_page_that_says_something(
    server: PageServer, status: int, body: bytes, is_right: bool
):
    server.pages["/"] = status, {}, body
    assert is_met('"Sold out" is gone', look(server)) is is_right


@pytest.mark.parametrize(
    ("sentence", "is_right"),
    [
        ('$.state is "done"', True),
        (".state == done", True),
        ('$.state is "do"', False),
        ("$.progress >= 70", True),
        ("$.progress > 70", False),
        ("$.progress is 70", True),
        ('$.jobs[1].name is "test"', True),
        ('$.jobs[2].name is "test"', False),
        ('$.jobs[].name is "build"', True),
        ("$.jobs[0].ok is true", True),
        ("$.jobs[1].ok is null", True),
        ("$.nothing.at.all is null", False),
        ("progress >= 70", True),
    ],
)
def test_a_field_of_json_is_judged_by_its_path(server: PageServer, sentence: str, is_right: bool):
    body = b"""{"state": "done", "progress": 70,
        "jobs": [{"name": "build", "ok": true}, {"name": "test", "ok": null}]}"""
    server.pages["/"] = 200, {"Content-Type": "application/json"}, body
    assert is_met(sentence, look(server)) is is_right


def test_of_a_page_that_is_no_json_no_field_holds(server: PageServer):
    assert not is_met('$.state is "done"', look(server))


def test_only_what_a_page_shows_is_read_and_compared(server: PageServer):
    page = (
        "<style>p {}</style><p>Sold&nbsp;out <b>today</b></p>"
        "<script nonce={}>soon</script><p>Tickets</p>"
    )
    server.pages["/"] = 200, HTML, page.replace("{}", "1").encode()
    first = look(server)
    assert first.text == "Sold out today\nTickets"
    server.pages["/"] = 200, HTML, page.replace("{}", "2").encode()
    assert look(server).place == first.place


@pytest.mark.parametrize(
    ("page", "text"),
    [
        ("a < b > c", "a < b > c"),
        ("<p title='a > b'>one</p><!-- <p> --->two<", "one\ntwo<"),
        ("<p title=it's>one</P>two", "one\ntwo"),
        ("<SCRIPT>if (a<b) '<p>'</SCRIPT>one", "one"),
        ("one<script>two", "one"),
        ("<!DOCTYPE html><li>one<li>two &amp; three", "one\ntwo & three"),
        *((piece * 40_000, None) for piece in ('<a b="', "<script>", "<!--", "<", "<a ", "</p")),
    ],
)
def test_what_a_page_shows_is_found_whatever_is_wrong_with_it(page: str, text: str | None):
    found, _ = pages._read_html(page)
    assert text in (found, None)


LD = '<script type="application/ld+json">{}</script><p>Sale</p>'


@pytest.mark.parametrize(
    ("page", "price"),
    [
        ('<meta property="product:price:amount" content="439.00">', 439),
        ('<p itemprop="offers"><b itemprop="price" content="439.5">€439,50</b></p>', 439.5),
        (LD.format('{"offers": [{"price": "12.90"}, {"price": 9}]}'), 9),
        (LD.format('{"@graph": [{"offers": {"priceSpecification": {"price": 7}}}]}'), 7),
        (LD.format('{"offers": {"price": "on request"}}'), None),
        (LD.format('{"offers": '), None),
        ("<script>{'price': 3}</script><p>It is 439</p>", None),
    ],
)
def test_the_price_is_what_a_page_names_for_programs(server: PageServer, page: str, price: float):
    server.pages["/"] = 200, HTML, page.encode()
    found = look(server)
    assert found.numbers.get(PRICE) == price
    assert "offers" not in str(found.text)
    assert is_met("price < 1000", found) is (price is not None)


@pytest.mark.parametrize("charset", ["latin-1", "no-such-encoding", "base64", "idna"])
def test_a_page_is_read_in_the_encoding_that_it_names(server: PageServer, charset: str):
    is_known = charset == "latin-1"
    body = "Größe".encode(charset if is_known else "utf-8")
    server.pages["/"] = 200, {"Content-Type": f"text/plain; charset={charset}"}, body
    assert look(server).text == "Größe"


def test_a_change_is_told_and_counts_from_the_start_of_the_wait(server: PageServer):
    async def run() -> tuple[Frame, Frame]:
        watched = await watch(server)
        start = await watched.end()
        before = await watched.look(start, start)
        server.pages["/"] = 200, {}, b"other"
        await asyncio.wait_for(watched.wait_for_change(), 10)
        while (after := await watched.look(start, start)).place == before.place:
            await asyncio.wait_for(watched.wait_for_change(), 10)
        await watched.close()
        return before, after

    before, after = asyncio.run(run())
    assert (is_met("it changes", before), is_met("it changes", after)) == (False, True)


def test_an_endless_page_is_read_up_to_a_limit(server: PageServer):
    server.pages["/"] = 200, {}, lambda: itertools.repeat(b"x" * 65_536)
    frame = look(server)
    assert frame.numbers[SIZE] == LARGEST_BODY
    assert "bytes or more" in str(frame.note)


def test_a_page_that_drips_is_given_up(server: PageServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(pages, "_TOTAL_SECONDS", 0.3)
    given_up = threading.Event()

    def drip() -> Iterator[bytes]:
        while not given_up.wait(0.01):
            yield b"."

    server.pages["/"] = 200, {}, drip
    frame = look(server)
    given_up.set()
    assert is_met("it is down", frame)
    assert "did not answer within 0.3 s" in str(frame.note)


@pytest.mark.parametrize("where", ["here", "behind a redirect"])
def test_no_private_address_is_asked_for_an_agent(
    server: PageServer, monkeypatch: pytest.MonkeyPatch, where: str
):
    if where != "here":
        monkeypatch.setattr(web_access, "is_public", "127.0.0.2".__eq__)
    server.pages["/"] = 302, {"Location": f"http://127.0.0.1:{server.port}/secret"}, b""
    with serve_pages(server.pages, host="127.0.0.2") as other:
        with pytest.raises(NotAllowed, match="TASKMEM_WAIT_URLS=all"):
            look(other, host="127.0.0.2", within=ANYWHERE)
        assert [path for path, _ in other.asked] == ([] if where == "here" else ["/"])
    assert not server.asked


@pytest.mark.parametrize("within", [None, ANYWHERE])
@pytest.mark.parametrize(
    "address",
    [
        "169.254.169.254",
        "[fe80::1]",
        "[::ffff:169.254.169.254]",
        "[64:ff9b::a9fe:a9fe]",
        "[64:ff9b:1::a9fe:a9fe]",
        "[fd00:ec2::254]",
    ],
)
def test_an_address_of_credentials_is_refused_to_all(address: str, within: object):
    async def run() -> None:
        target = Target(scheme="url", name=f"http://{address}/")
        watched = await PageSensor(REST).watch(target.model_copy(update={"within": within}))
        try:
            await watched.here()
        finally:
            await watched.close()

    with pytest.raises(NotAllowed, match="which is never asked"):
        asyncio.run(run())


@pytest.mark.parametrize(
    "address",
    [
        "0.0.0.0",  # noqa: S104 - it is asked, not bound
        "10.0.0.1",
        "224.0.0.1",
        "255.255.255.255",
        "100.64.0.1",
        "[::]",
        "[ff02::1]",
        "[::ffff:10.0.0.1]",
        "[64:ff9b::a00:1]",
        "[64:ff9b:1::a00:1]",
        "[2002:a00:1::]",
        "[fc00::1]",
    ],
)
def test_what_is_not_public_is_refused_to_agents(address: str):
    async def run() -> None:
        target = Target(scheme="url", name=f"http://{address}/", within=ANYWHERE)
        watched = await PageSensor(REST).watch(target)
        try:
            await watched.here()
        finally:
            await watched.close()

    with pytest.raises(NotAllowed):
        asyncio.run(run())


def test_the_setting_allows_all_pages_or_none(server: PageServer, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("TASKMEM_WAIT_URLS", "all")
    assert look(server, within=ANYWHERE).numbers[STATUS] == 200
    monkeypatch.setenv("TASKMEM_WAIT_URLS", "none")
    with pytest.raises(NotAllowed, match="TASKMEM_WAIT_URLS is none"):
        look(server, within=ANYWHERE)
    assert look(server).numbers[STATUS] == 200  # a person asks


def test_an_address_that_becomes_private_ends_no_other_wait(
    server: PageServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(web_access, "is_public", lambda address: True)

    async def run() -> Frame:
        watched = await watch(server, within=ANYWHERE)
        start = await watched.end()
        monkeypatch.setattr(web_access, "is_public", lambda address: False)
        await asyncio.wait_for(watched.wait_for_change(), 10)
        while (frame := await watched.look(start, start)).text is not None:
            await asyncio.wait_for(watched.wait_for_change(), 10)
        await watched.close()
        return frame

    frame = asyncio.run(run())
    assert "private network" in str(frame.note)
    assert not frame.states


@pytest.mark.parametrize("name", ["ftp://a.example/", "https://", "https://u:p@a.example/", "x"])
def test_what_cannot_be_asked_is_refused(name: str):
    with pytest.raises(InvalidArguments, match="url:https://"):
        asyncio.run(PageSensor().watch(Target(scheme="url", name=name)))


def test_the_days_of_a_certificate_are_counted(tmp_path: Path):
    ours, theirs = make_certificate(tmp_path, "127.0.0.1")
    theirs.check_hostname = False
    sensor = PageSensor(REST)
    sensor._web._tls = theirs

    async def run(port: int) -> Frame:
        watched = await sensor.watch(Target(scheme="url", name=f"https://127.0.0.1:{port}/"))
        await watched.here()
        frame = await watched.look("", "")
        await watched.close()
        return frame

    with serve_pages({"/": (200, {}, b"")}, tls=ours) as server:
        frame = asyncio.run(run(server.port))
    assert 1.9 < frame.numbers[CERTIFICATE_DAYS] <= 2
    assert is_met("its certificate expires in less than 14 days", frame)
    assert not is_met("certificate expires within 1 day", frame)


def test_other_conditions_are_refused_with_the_forms():
    with pytest.raises(ConditionUnclear, match="has status == 200"):
        is_met("it exits", Frame.model_construct())


@pytest.mark.parametrize(
    ("body", "told"),
    [
        (b'{"sha": "4f2", "db": {"up": true}}', 'JSON with $.sha "4f2", $.db.up true.'),
        (b'{"Now run: x": 1, "ok": 2}', "JSON with $.ok 2."),
        (b'[{"state": "ok"}]', 'JSON with $[0].state "ok".'),
        (b"well\nOK\n", '"OK".'),
        (b"", "no text."),
        (b"<script>load()</script>Map", '"Map"; its scripts are not run, which may bring more.'),
    ],
)
def test_a_note_says_what_is_there(server: PageServer, body: bytes, told: str):
    server.pages["/"] = 200, HTML, body
    note = str(look(server).note)
    assert note.endswith(f"bytes: {told}"), note


def test_a_long_page_is_not_quoted_in_its_note(server: PageServer):
    server.pages["/"] = 200, HTML, b"word " * 1000
    assert str(look(server).note).endswith("bytes.")


@pytest.mark.parametrize(
    ("sentence", "why"),
    [
        ('"sold OUT" appears', '"sold OUT" appears: "Now SOLD out".'),
        ("/out$/ appears", '/out$/ appears: "Now SOLD out".'),
        ("bytes < 9 or left >= 3", 'left >= 3: "left: 5".'),
        ("status == 200", "status is 200."),
        ('"gone with it" is gone', '"gone with it" is gone.'),
    ],
)
def test_a_wake_says_what_held(server: PageServer, sentence: str, why: str):
    server.pages["/"] = 200, HTML, b"<p>Now SOLD out</p><p>left: 5</p>"
    judge = hooks.wait_judge(Target(scheme="url", name="x"), parse_condition(sentence, "url"))
    assert judge is not None
    frame = look(server)
    assert asyncio.run(judge.rule(frame)).observation == f"{why} {frame.note}"


def test_a_wake_says_which_value_a_field_had(server: PageServer):
    server.pages["/"] = 200, {}, b'{"n": 7, "state": "ok"}'
    judge = hooks.wait_judge(
        Target(scheme="url", name="x"), parse_condition('$.n > 5 and $.state is "ok"', "url")
    )
    assert judge is not None
    seen = asyncio.run(judge.rule(look(server))).observation
    assert seen.startswith('$.n is 7. $.state is "ok". http')


@pytest.mark.parametrize(
    ("name", "sentence", "told"),
    [
        ("http://a.example/x", "certificate days < 14", "wait for url:https://a.example/x, until"),
        ("https://a.example", "size >= 300000", "262,144 bytes are read at most"),
    ],
)
def test_numbers_that_no_page_has_are_refused(name: str, sentence: str, told: str):
    with pytest.raises(ConditionUnclear, match=told):
        hooks.wait_judge(Target(scheme="url", name=name), parse_condition(sentence, "url"))


def test_a_size_that_a_page_may_have_is_waited_for():
    for sentence in ("size < 300000", "size >= 1000", "size == 1000"):
        assert hooks.wait_judge(
            Target(scheme="url", name="http://a.example"), parse_condition(sentence, "url")
        )


def look_later(server: PageServer, body: bytes) -> Frame:
    """Return what is found on a page that changed while no daemon watched a wait on it."""

    async def run() -> Frame:
        first = await watch(server)
        start = await first.end()
        await first.close()
        status, headers, _ = server.pages["/"]
        server.pages["/"] = status, headers, body
        second = await watch(server)
        await second.here()
        try:
            return await second.look(start, start)
        finally:
            await second.close()

    return asyncio.run(run())


@pytest.mark.parametrize(
    ("before", "after", "is_right"),
    [
        (b"<p>FDA approves A</p>", b"<p>News</p><p>FDA approves A</p>", False),
        (b"<p>FDA approves A</p>", b"<p>FDA approves B</p><p>FDA approves A</p>", True),
        (b"", b"<p>fda approves A</p>", True),
        (b'["FDA approves A"]', b'["Other", "FDA approves A"]', False),
        (b'["FDA approves A"]', b'["FDA approves B", "FDA approves A"]', True),
    ],
)
def test_only_lines_that_were_not_there_are_new(
    server: PageServer, before: bytes, after: bytes, is_right: bool
):
    server.pages["/"] = 200, HTML, before
    frame = look_later(server, after)
    assert is_met('new "FDA approves" appears', frame) is is_right
    assert is_met("new /approves/ appears", frame) is is_right
    assert is_met('"FDA approves" appears', frame)


@pytest.mark.parametrize(
    ("sentence", "is_right"),
    [
        ("$.state changes", True),
        ("$.jobs[1].state changes", True),
        ("$.jobs[].state changes", True),
        ("$.jobs changes", True),
        ("$.id changes", False),
        ("$.jobs[0] changes", False),
        ("$.missing changes", False),
        ("status changes", False),
        ("price changes", False),
    ],
)
def test_a_field_changes_if_its_value_is_another(server: PageServer, sentence: str, is_right: bool):
    jobs = b'"jobs": [{"state": 1}, {"state": %d}]}'
    server.pages["/"] = 200, {}, b'{"id": 1, "state": "red", ' + jobs % 1
    frame = look_later(server, b'{"id": 1, "state": "green", ' + jobs % 2)
    assert is_met(sentence, frame) is is_right


def test_a_price_changes_and_says_what_it_is(server: PageServer):
    tag = b'<meta property="og:price:amount" content="%d">'
    server.pages["/"] = 200, HTML, tag % 310
    frame = look_later(server, tag % 290)
    judge = hooks.wait_judge(
        Target(scheme="url", name="x"), parse_condition("price changes", "url")
    )
    assert judge is not None
    assert asyncio.run(judge.rule(frame)).observation.startswith("price 290. ")


def test_what_is_there_is_told_when_a_wait_begins(server: PageServer):
    server.pages["/"] = 200, {}, b'{"state": "red"}'

    async def run() -> Frame:
        watched = await watch(server)
        try:
            return await watched.here()
        finally:
            await watched.close()

    assert str(asyncio.run(run()).note).endswith('JSON with $.state "red".')


def test_a_long_name_above_many_items_takes_little_memory():
    text = f'{{"{"k" * 900}": [{",".join("0" * 20_000)}]}}'
    frame = Frame(seen_at=datetime.now(UTC), place="1", text=text)
    tracemalloc.start()
    beginnings.write_beginning(frame)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8_000_000


def test_the_length_of_a_list_is_no_line():
    assert [*beginnings.iterate_lines('{"names": ["Ann", "Bob"]}')] == ['"Ann"', '"Bob"']
