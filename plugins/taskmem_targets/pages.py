"""Ask for a page from time to time: whether it answers, with what status, and what it says."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import ssl
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from html.parser import HTMLParser
from typing import Final

import httpx

from taskmem_hookspecs import Frame, InvalidArguments, NotAllowed, Target
from taskmem_hookspecs.conditions import State
from taskmem_program.web_access import (
    PrivateAddress,
    Reach,
    WebClient,
    WebFailure,
    format_url,
    parse_url,
)
from taskmem_targets.facts import CERTIFICATE_DAYS, PRICE, SIZE, STATUS
from taskmem_targets.paced import PacedWatch

_SHORTEST_REST: Final = 10.0
"""Seconds between two requests for the page of a new wait."""
_TOTAL_SECONDS: Final = 7.0
"""Time limit of a request with its redirects and its body; a wait begins with one."""
_CONNECT_SECONDS: Final = 3.0
_LARGEST_BODY: Final = 256 * 1024
"""Bytes that are read of a page."""
_PRICE_NAMES: Final = frozenset(("price", "lowPrice", "product:price:amount", "og:price:amount"))
"""Names of what programs read as the price of a page's product."""
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
        NotAllowed: It lies in a private network, where it may not be asked.
    """
    try:
        async with (
            asyncio.timeout(_TOTAL_SECONDS),
            web.open_answer(url, reach) as (_, answer),
        ):
            return await _read_answer(url, answer)
    except PrivateAddress as refusal:
        raise NotAllowed(f"{str(refusal).removesuffix('.')}; {_ALLOW_PRIVATE}") from refusal
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
            body += chunk[: _LARGEST_BODY - len(body)]
            if len(body) == _LARGEST_BODY:
                break
    except httpx.TimeoutException as error:
        raise TimeoutError from error
    except httpx.HTTPError:
        raise WebFailure(f"{format_url(url)} broke off its answer.") from None
    text = bytes(body).decode(answer.encoding or "utf-8", errors="replace")
    status = answer.status_code
    numbers: dict[str, float] = {STATUS: status, SIZE: len(body)}
    if answer.headers.get("content-type", "").partition(";")[0].strip().endswith("html"):
        page = _PageReader()
        page.feed(text)
        page.close()
        text = page.join_words()
        if prices := page.list_prices():
            numbers[PRICE] = min(prices)
    if days is not None:
        numbers[CERTIFICATE_DAYS] = days
    cut = " or more" if len(body) == _LARGEST_BODY else ""
    return Frame(
        seen_at=now,
        place=f"{status}.{hashlib.sha256(text.encode()).hexdigest()[:16]}",
        note=f"{format_url(url)} answers with status {status} and {len(body):,} bytes{cut}.",
        text=text,
        states=frozenset({State.THERE if status < _FIRST_FAILURE else State.GONE}),
        numbers=numbers,
    )


class _PageReader(HTMLParser):
    """Collects what a page shows, without scripts and styles, and the prices that programs read.

    Source: schema.org/Offer, as attributes or as JSON-LD, and ogp.me.
    """

    def __init__(self) -> None:
        super().__init__()
        self._words: list[str] = []
        self._prices: list[object] = []
        self._hidden: str | None = None
        """The kind of the script or style that is read; None: what is shown."""
        self._data: list[str] = []
        """The text of the JSON-LD that is read."""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        if tag in ("script", "style"):
            self._hidden = found.get("type") or tag
        if found.get("itemprop") in _PRICE_NAMES or found.get("property") in _PRICE_NAMES:
            self._prices.append(found.get("content"))
        self._words.append("\n" if tag in ("br", "div", "li", "p", "tr", "h1", "h2", "h3") else " ")

    def handle_endtag(self, tag: str) -> None:
        if tag in ("script", "style"):
            if self._data:
                with suppress(ValueError, RecursionError):
                    self._prices += _find_prices("".join(self._data))
            self._hidden = None
            self._data = []

    def handle_data(self, data: str) -> None:
        if self._hidden is None:
            self._words.append(data)
        elif self._hidden == "application/ld+json":
            self._data.append(data)

    def join_words(self) -> str:
        """Return what the page shows; its tags differ at each request of many pages."""
        lines = (" ".join(line.split()) for line in "".join(self._words).splitlines())
        return "\n".join(filter(None, lines))

    def list_prices(self) -> Sequence[float]:
        """Return the prices that are numbers with a decimal point."""
        prices: list[float] = []
        for price in self._prices:
            with suppress(TypeError, ValueError):
                prices.append(float(price))  # type: ignore[arg-type]
        return prices


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
