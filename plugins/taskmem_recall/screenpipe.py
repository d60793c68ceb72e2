"""Search what screenpipe recorded, by the local REST API that it documents (`GET /search`)."""

from __future__ import annotations

import ipaddress
import json
import socket
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from taskmem_hookspecs import Clock, Recollection
from taskmem_recall.moments import Moment, ScoredMoment, choose_segment
from taskmem_recall.query_words import extract_words, split_words
from taskmem_recall.screen_matches import (
    Match,
    build_recollection,
    group_matches,
    rank_matches,
)

if TYPE_CHECKING:
    import httpx

SECONDS: Final = 1.5
"""Time limit for one search; a source has 2 s for all of its answer."""
LARGEST: Final = 4 << 20
"""Maximum size of an answer. Bytes."""
ASKED: Final = 50
"""Results that one request asks for."""
LONGEST: Final = 4_000
"""Characters of one result's text; screenpipe cuts out the middle of longer ones."""
STEM: Final = 4
"""Letters from which on the beginning of a word is enough, as in `deploy` and `deployment`."""


class AnswerUnusable(Exception):
    """screenpipe gave no answer that can be read; `str()` says why, as the end of a sentence."""


class _TimeLimit:
    """Ends the connections of a search after a time, since httpx limits each read alone."""

    def __init__(self) -> None:
        self.is_over = False
        self._sockets: list[socket.socket] = []

    @contextmanager
    def start(self, seconds: float) -> Generator[None]:
        """End, after some seconds, what is still open then."""
        timer = threading.Timer(seconds, self._end)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()

    def note_event(self, event: str, facts: Mapping[str, Any]) -> None:
        """Keep the socket of a connection that was made; httpx calls this as its `trace`."""
        if event == "connection.connect_tcp.complete":
            self._sockets.append(facts["return_value"].get_extra_info("socket"))
            if self.is_over:
                self._end()

    def _end(self) -> None:
        self.is_over = True
        for each in self._sockets:
            with suppress(OSError):  # it is closed already
                each.shutdown(socket.SHUT_RDWR)


class Screenpipe:
    """A source of everything that a screenpipe on this machine recorded."""

    def __init__(
        self,
        url: str,
        key: str | None,
        clock: Clock,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        """Set whom to ask.

        Args:
            url: Where screenpipe listens, such as `http://127.0.0.1:3030`.
            key: What it wants as a bearer token; None: nothing.
            clock: The clock.
            transport: What sends requests; None: the network.
        """
        self._url = url.rstrip("/")
        self._key = key
        self._clock = clock
        self._transport = transport
        self._trouble: str | None = None
        if not is_loopback(self._url):
            self._trouble = "it is not an http address of this machine"

    def recall(self, query: str, limit: int, recency_bias: float) -> Sequence[Recollection]:
        """Return at most `limit` matches, best first; see `RecallSource`."""
        words = extract_words(query)
        if not words or not is_loopback(self._url):
            return ()
        try:
            found = self._search(words)
        except AnswerUnusable as error:
            self._trouble = str(error)
            return ()
        self._trouble = None
        scored = [
            ScoredMoment(moment, _measure_share(words, [moment])) for moment in build_moments(found)
        ]
        matches = [
            replace(match, coverage=_measure_share(words, match.moments))
            for match in group_matches(each for each in scored if each.score)
        ]
        ranked = rank_matches(matches, self._clock.now(), recency_bias)[:limit]
        return [
            build_recollection(_keep_lines(words, match), confidence, ()).model_copy(
                update={"source": "screenpipe", "video_url": self._find_frame(match.moments[0])}
            )
            for match, confidence in ranked
        ]

    def advice(self) -> str | None:
        """Return why nothing of screenpipe was found; see `AdvisingSource`."""
        if self._trouble is None:
            return None
        return f"screenpipe ({self._url}) was not searched: {self._trouble}."

    def _search(self, words: Sequence[str]) -> list[Any]:
        """Return the results that have all words; without one, those of the longest words alone.

        Raises:
            AnswerUnusable: There is no answer that can be read.
        """
        import httpx

        limit = _TimeLimit()
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        until = self._clock.monotonic() + SECONDS
        # No proxy and no .netrc of the environment: this stays on the machine.
        with (
            limit.start(SECONDS),
            httpx.Client(
                transport=self._transport, headers=headers, trust_env=False, timeout=SECONDS
            ) as client,
        ):
            found = self._ask(client, limit, " ".join(words), SECONDS)
            for word in sorted(words, key=len, reverse=True)[:3] if len(words) > 1 else ():
                left = until - self._clock.monotonic()
                if found or left <= 0:
                    break
                found = self._ask(client, limit, word, left)
        return found

    def _ask(
        self, client: httpx.Client, limit: _TimeLimit, query: str, seconds: float
    ) -> list[Any]:
        import httpx

        asked: dict[str, str | int] = {"q": query, "limit": ASKED, "content_type": "all"}
        asked["max_content_length"] = LONGEST
        try:
            with client.stream(
                "GET",
                f"{self._url}/search",
                params=asked,
                timeout=seconds,
                extensions={"trace": limit.note_event},
            ) as answer:
                if answer.status_code in (401, 403):
                    raise AnswerUnusable(
                        "it wants a key, which the daemon needs as SCREENPIPE_LOCAL_API_KEY"
                    )
                if not answer.is_success:
                    raise AnswerUnusable(f"it answered with status {answer.status_code}")
                body = b""
                until = self._clock.monotonic() + seconds
                for part in answer.iter_bytes():
                    body += part
                    if len(body) > LARGEST or self._clock.monotonic() > until:
                        raise AnswerUnusable("its answer is too long")
        except httpx.TimeoutException as error:
            raise AnswerUnusable(f"it did not answer within {SECONDS:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            if limit.is_over:
                raise AnswerUnusable(f"it did not answer within {SECONDS:g} s") from error
            raise AnswerUnusable("it cannot be reached; see whether it runs") from error
        return read_results(body)

    def _find_frame(self, moment: Moment) -> str | None:
        """Return where screenpipe shows the picture of a moment; None: it has none."""
        return f"{self._url}/frames/{moment.picture}" if moment.picture else None


def is_loopback(url: str) -> bool:
    """Return whether an address is of HTTP on this machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
        _ = parts.port
        is_here = host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
    return is_here and parts.scheme == "http" and not (parts.username or parts.password)


def read_results(body: bytes) -> list[Any]:
    """Return the results of an answer.

    Raises:
        AnswerUnusable: It is no answer of `/search`.
    """
    try:
        answer: Any = json.loads(body)
        results: list[Any] | None = answer["data"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise AnswerUnusable("its answer is not what its search answers with") from error
    if not isinstance(results, list):
        raise AnswerUnusable("its answer is not what its search answers with")
    return results


def build_moments(results: Iterable[Any]) -> list[Moment]:
    """Return the results as moments, in order of time; what is no result is left out.

    What was on a screen has `text`, what was heard has `transcription`.
    """
    read = [each for each in map(_read_result, results) if each is not None]
    read.sort(key=lambda moment: (moment.application, moment.at))
    moments: list[Moment] = []
    for number, moment in enumerate(read, 1):
        last = moments[-1] if moments and moments[-1].application == moment.application else None
        segment, place = choose_segment(last, moment.at)
        moments.append(replace(moment, id=number, segment=segment or number, place_ms=place))
    return moments


def find_words(words: Iterable[str], texts: Iterable[str]) -> list[str]:
    """Return those of the words that the texts have, by their beginnings."""
    present = {token for text in texts for token in split_words(text)}
    return [word for word in words if any(_is_same_word(word, token) for token in present)]


def _measure_share(words: Sequence[str], moments: Iterable[Moment]) -> float:
    texts = (f"{moment.window_title} {moment.text}" for moment in moments)
    return len(find_words(words, texts)) / len(words)


def _is_same_word(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= STEM and long.startswith(short))


def _read_result(result: Any) -> Moment | None:  # noqa: ANN401 - JSON
    try:
        content = result["content"]
        text = content.get("text") or content["transcription"]
        at = datetime.fromisoformat(content["timestamp"])
        at = at.astimezone(UTC) if at.tzinfo else at.replace(tzinfo=UTC)
        frame = content.get("frame_id")
    except (LookupError, TypeError, ValueError, AttributeError, OverflowError):
        return None
    if not isinstance(text, str):
        return None
    title, application = content.get("window_name"), content.get("app_name")
    return Moment(
        at=at,
        window_title=title if isinstance(title, str) else "",
        application=application if isinstance(application, str) else str(result.get("type", "")),
        text=text[:LONGEST],
        picture=str(frame) if isinstance(frame, int) else None,
    )


def _keep_lines(words: Sequence[str], match: Match) -> Match:
    """Return the match with the lines that have any of the words as what was new, each once."""
    told: set[str] = set()
    moments: list[Moment] = []
    for moment in match.moments:
        lines = [
            line
            for line in moment.text.splitlines()
            if line not in told and find_words(words, [line])
        ]
        told.update(lines)
        moments.append(replace(moment, new_text="\n".join(lines)))
    return replace(match, moments=tuple(moments))
