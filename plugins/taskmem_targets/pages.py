"""Ask for a page from time to time: whether it answers, with what status, and what it says."""

from __future__ import annotations

import asyncio
import hashlib
import html
import json
import os
import re
import ssl
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Final

import httpx

from taskmem_hookspecs import Frame, InvalidArguments, NotAllowed, Target
from taskmem_hookspecs.conditions import State
from taskmem_program.web_access import (
    ForbiddenAddress,
    PrivateAddress,
    Reach,
    WebClient,
    WebFailure,
    format_url,
    parse_url,
)
from taskmem_targets.facts import (
    CERTIFICATE_DAYS,
    LARGEST_BODY,
    PRICE,
    SIZE,
    STATUS,
    describe_content,
)
from taskmem_targets.paced import PacedWatch

_SHORTEST_REST: Final = 10.0
"""Seconds between two requests for the page of a new wait."""
_TOTAL_SECONDS: Final = 7.0
"""Time limit of a request with its redirects and its body; a wait begins with one."""
_CONNECT_SECONDS: Final = 3.0
_COVER: Final = re.compile(r"<!--|<(script|style)\b[^<>]*>", re.IGNORECASE)
"""The beginning of what a page does not show."""
_COVER_ENDS: Final = {
    "": re.compile("-->"),
    "script": re.compile(r"</script\b[^<>]*>", re.IGNORECASE),
    "style": re.compile(r"</style\b[^<>]*>", re.IGNORECASE),
}
_TAG: Final = re.compile(
    r"""<(?:/?([a-z][^\s/<>]*)|[!?])(?:(?:"[^"<]*"|'[^'<]*'|[^'"<>])*|[^<>]*)>""", re.IGNORECASE
)
"""A tag, up to the next that begins; so no text is read again and again."""
_ATTRIBUTE: Final = re.compile(r"""([\w:-]+)\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s"'>]+))""")
_BREAKS: Final = frozenset(("br", "div", "li", "p", "tr", "h1", "h2", "h3"))
"""Tags that begin a line."""
_JSON_LD: Final = "application/ld+json"
_PRICE_NAMES: Final = frozenset(("price", "lowPrice", "product:price:amount", "og:price:amount"))
"""Names of what programs read as the price of a page's product."""
_SHORT_PAGE_CHARS: Final = 1000
"""Length of a text below which all of it may be brought by scripts."""
_NO_ANSWER: Final = "-"
"""Place of a page that does not answer."""
_FIRST_FAILURE: Final = 400
"""The least status that says that something is wrong, as Kubernetes' probes have it."""
_DAY: Final = 86_400
_ALLOW_PRIVATE: Final = "let the user set TASKMEM_WAIT_URLS=all, then run: taskmem daemon restart"


class PageSensor:
    """Plays Sensor for `url:https://…`."""

    def __init__(self, shortest_rest: float = _SHORTEST_REST) -> None:
        """Take the seconds between two requests for the page of a new wait."""
        self._web = WebClient(_TOTAL_SECONDS, _CONNECT_SECONDS)
        self._shortest_rest = shortest_rest

    async def watch(self, target: Target) -> PacedWatch:
        """Start to watch a page, whether or not it answers.

        Raises:
            InvalidArguments: It is no URL that can be asked.
            NotAllowed: The settings allow no URL.
        """
        reach = _find_reach(target)
        if reach == "none":
            raise NotAllowed(
                "No page is asked, for TASKMEM_WAIT_URLS is none; wait on a terminal that asks it."
            )
        try:
            url = parse_url(target.name)
        except WebFailure as failure:
            raise InvalidArguments(f"{failure} A target is written url:https://…") from failure

        async def find_page() -> Frame:
            return await _find_page(self._web, url, reach)

        return PacedWatch(find_page, self._shortest_rest)


def _find_reach(target: Target) -> Reach:
    """Return which addresses may be asked: for a person, who is confined to no folder, all."""
    if target.within is None:
        return "all"
    match os.environ.get("TASKMEM_WAIT_URLS", "").strip():
        case "all":
            return "all"
        case "none":
            return "none"
        case _:
            return "public"


async def _find_page(web: WebClient, url: httpx.URL, reach: Reach) -> Frame:
    """Ask for a page once.

    Raises:
        NotAllowed: It lies where it may not be asked.
    """
    try:
        async with (
            asyncio.timeout(_TOTAL_SECONDS),
            web.open_answer(url, reach) as (_, answer),
        ):
            return await _read_answer(url, answer)
    except PrivateAddress as refusal:
        raise NotAllowed(f"{str(refusal).removesuffix('.')}; {_ALLOW_PRIVATE}") from refusal
    except ForbiddenAddress as refusal:
        raise NotAllowed(str(refusal)) from refusal
    except TimeoutError:
        note = f"{format_url(url)} did not answer within {_TOTAL_SECONDS:g} s."
    except WebFailure as failure:
        note = str(failure)
    now = datetime.now(UTC)
    return Frame(seen_at=now, place=_NO_ANSWER, note=note, states=frozenset({State.GONE}))


async def _read_answer(url: httpx.URL, answer: httpx.Response) -> Frame:
    """Read the beginning of a page.

    Raises:
        WebFailure: It broke off.
        TimeoutError: It did not come in time.
    """
    body, now = bytearray(), datetime.now(UTC)
    days = _read_certificate_days(answer, now)  # it is not known any more once all was read
    try:
        async for chunk in answer.aiter_raw():
            body += chunk[: LARGEST_BODY - len(body)]
            if len(body) == LARGEST_BODY:
                break
    except httpx.TimeoutException as error:
        raise TimeoutError from error
    except httpx.HTTPError:
        raise WebFailure(f"{format_url(url)} broke off its answer.") from None
    try:
        text = bytes(body).decode(answer.encoding or "utf-8", errors="replace")
    except (LookupError, UnicodeError):  # it names no encoding of texts
        text = bytes(body).decode(errors="replace")
    status = answer.status_code
    numbers: dict[str, float] = {STATUS: status, SIZE: len(body)}
    is_scripted = False
    if answer.headers.get("content-type", "").partition(";")[0].strip().endswith("html"):
        is_scripted = "<script" in text.lower()
        text, prices = _read_html(text)
        if prices:
            numbers[PRICE] = min(prices)
    if days is not None:
        numbers[CERTIFICATE_DAYS] = days
    cut = " or more" if len(body) == LARGEST_BODY else ""
    rest = cut + _describe_text(text, is_scripted=is_scripted)
    return Frame(
        seen_at=now,
        place=f"{status}.{hashlib.sha256(text.encode()).hexdigest()[:16]}",
        note=f"{format_url(url)} answers with status {status} and {len(body):,} bytes{rest}.",
        text=text,
        states=frozenset({State.THERE if status < _FIRST_FAILURE else State.GONE}),
        numbers=numbers,
    )


def _describe_text(text: str, *, is_scripted: bool) -> str:
    """Return what a short page or JSON says; empty: the page is long."""
    if len(text) >= _SHORT_PAGE_CHARS and text[:1] not in ("{", "["):
        return ""
    more = "; its scripts are not run, which may bring more" if is_scripted else ""
    return f": {describe_content(text) or 'no text'}{more}"


def _read_html(page: str) -> tuple[str, Sequence[float]]:
    """Return what a page shows, without scripts and styles, and the prices that programs read.

    It takes no longer than in proportion to the page, whatever is wrong with that, as it holds up
    other targets. Prices are those of https://schema.org/price, as attributes or as JSON-LD, and of
    https://ogp.me.
    """
    shown: list[str] = []
    prices: list[object] = []
    start = 0
    while hidden := _COVER.search(page, start):
        shown.append(page[start : hidden.start()])
        kind = (hidden[1] or "").casefold()
        end = _COVER_ENDS[kind].search(page, hidden.end())
        start = end.end() if end else len(page)
        if end and _JSON_LD in hidden[0]:
            with suppress(ValueError, RecursionError):
                prices += _find_prices(page[hidden.end() : end.start()])
    shown.append(page[start:])

    def take_tag(tag: re.Match[str]) -> str:
        if "price" in tag[0]:
            found = {
                name: value
                for name, *values in _ATTRIBUTE.findall(tag[0])
                for value in values
                if value
            }
            if not _PRICE_NAMES.isdisjoint((found.get("itemprop"), found.get("property"))):
                prices.append(found.get("content"))
        return "\n" if (tag[1] or "").casefold() in _BREAKS else " "

    words = html.unescape(_TAG.sub(take_tag, "".join(shown)))
    lines = (" ".join(line.split()) for line in words.splitlines())
    return "\n".join(filter(None, lines)), [*_iterate_numbers(prices)]


def _iterate_numbers(values: Iterable[object]) -> Iterator[float]:
    """Yield those values that are numbers, or texts of one with a decimal point."""
    for value in values:
        with suppress(ValueError):
            if isinstance(value, str | int | float):
                yield float(value)


def _find_prices(text: str) -> Sequence[object]:
    """Return the prices anywhere in JSON-LD.

    Raises:
        ValueError: It is no JSON.
        RecursionError: It is too deep.
    """
    prices: list[object] = []

    def note_prices(fields: dict[str, object]) -> None:
        prices.extend(fields[name] for name in _PRICE_NAMES & fields.keys())

    json.loads(text, object_hook=note_prices)
    return prices


def _read_certificate_days(answer: httpx.Response, now: datetime) -> float | None:
    """Return for how many days a page's certificate is still good; None: it has none."""
    stream = answer.extensions.get("network_stream")
    tls = stream and stream.get_extra_info("ssl_object")
    certificate = tls.getpeercert() if isinstance(tls, ssl.SSLObject) else None
    if not certificate:
        return None
    end = ssl.cert_time_to_seconds(str(certificate["notAfter"]))
    return round((end - now.timestamp()) / _DAY, 2)
