"""Search what screenpipe recorded, by the local REST API that it documents (`GET /search`)."""

from __future__ import annotations

import ipaddress
import json
import math
import socket
import threading
from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

from taskmem_hookspecs import Clock, Recollection
from taskmem_hookspecs.match_confidence import ConfidenceModel, rank_by_strength
from taskmem_hookspecs.words import MOST_WORDS, extract_words, split_words

if TYPE_CHECKING:
    import httpx

SEARCH_SECONDS: Final = 1.5
"""Time limit for one search; a source has 2 s for all of its answer."""
MOST_BYTES: Final = 4 << 20
"""Maximum size of an answer. Bytes."""
MOST_RESULTS: Final = 50
"""Results that one request asks for."""
MOST_CHARACTERS: Final = 4_000
"""Characters of one result's text; screenpipe cuts out the middle of longer ones."""
_LEAST_STEM: Final = 4
"""Letters from which on the beginning of a word is enough, as in `deploy` and `deployment`."""


_EPISODE_GAP: Final = timedelta(minutes=2)
"""Longest time between two results of an episode."""
_LONGEST_EPISODE: Final = timedelta(minutes=30)
_LEAST_SHARE_OF_BEST: Final = 0.25
"""Share of the words of the best result of an episode that another needs to belong to it."""
_LAST_SHOWN: Final = timedelta(seconds=5)
"""How long the last result of an episode is taken to have been shown."""
_HALF_LIFE: Final = timedelta(days=30)
"""Age at which an episode counts half, where `recency_bias` is 1."""
_LEAST_RECENCY: Final = 1e-9
"""Least recency of an episode, so that the best of old ones is found."""
_MOST_EPISODE_STEPS: Final = 12
_MOST_QUOTED: Final = 3
"""Titles of a summary, and lines of a step, that are quoted."""
_LONGEST_QUOTE: Final = 120
_CONFIDENCE_MODEL: Final = ConfidenceModel(base=-5.0, coverage=6.1, lead=7.6)
"""As for the screen that `taskmem record` records; not measured on labelled questions."""


class _AnswerUnusable(Exception):
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
        words = extract_words(query) or split_words(query)[:MOST_WORDS]
        if not words or not is_loopback(self._url):
            return ()
        try:
            results = self._search(words)
        except _AnswerUnusable as error:
            self._trouble = str(error)
            return ()
        self._trouble = None
        now = self._clock.now()
        ranked = rank_by_strength(
            (
                (episode, episode.coverage, episode.measure_strength(now, recency_bias))
                for episode in _build_episodes(_read_seen(results), words)
            ),
            _CONFIDENCE_MODEL,
        )
        return [self._describe(episode, confidence) for episode, confidence in ranked[:limit]]

    def advice(self) -> str | None:
        """Return why nothing of screenpipe was found; see `AdvisingSource`."""
        if self._trouble is None:
            return None
        return f"screenpipe ({self._url}) was not searched: {self._trouble}."

    def _search(self, words: Sequence[str]) -> list[Any]:
        """Return the results that have all words; without one, those of the longest words alone.

        Raises:
            _AnswerUnusable: There is no answer that can be read.
        """
        import httpx

        limit = _TimeLimit()
        headers = {} if self._key is None else {"Authorization": f"Bearer {self._key}"}
        until = self._clock.monotonic() + SEARCH_SECONDS
        # No proxy and no .netrc of the environment: this stays on the machine.
        with (
            limit.start(SEARCH_SECONDS),
            httpx.Client(
                transport=self._transport, headers=headers, trust_env=False, timeout=SEARCH_SECONDS
            ) as client,
        ):
            results = self._ask(client, limit, " ".join(words), SEARCH_SECONDS)
            for word in sorted(words, key=len, reverse=True)[:3] if len(words) > 1 else ():
                remaining = until - self._clock.monotonic()
                if results or remaining <= 0:
                    break
                results = self._ask(client, limit, word, remaining)
        return results

    def _ask(
        self, client: httpx.Client, limit: _TimeLimit, query: str, seconds: float
    ) -> list[Any]:
        import httpx

        asked: dict[str, str | int] = {"q": query, "limit": MOST_RESULTS, "content_type": "all"}
        asked["max_content_length"] = MOST_CHARACTERS
        try:
            with client.stream(
                "GET",
                f"{self._url}/search",
                params=asked,
                timeout=seconds,
                extensions={"trace": limit.note_event},
            ) as answer:
                if answer.status_code in (401, 403):
                    raise _AnswerUnusable(
                        "it wants a key, which the daemon needs as SCREENPIPE_LOCAL_API_KEY"
                    )
                if not answer.is_success:
                    raise _AnswerUnusable(f"it answered with status {answer.status_code}")
                body = b""
                until = self._clock.monotonic() + seconds
                for part in answer.iter_bytes():
                    body += part
                    if len(body) > MOST_BYTES or self._clock.monotonic() > until:
                        raise _AnswerUnusable("its answer is too long")
        except httpx.TimeoutException as error:
            raise _AnswerUnusable(f"it did not answer within {SEARCH_SECONDS:g} s") from error
        except (httpx.HTTPError, httpx.InvalidURL, OSError) as error:
            if limit.is_over:
                raise _AnswerUnusable(f"it did not answer within {SEARCH_SECONDS:g} s") from error
            raise _AnswerUnusable("it cannot be reached; see whether it runs") from error
        return _read_results(body)

    def _describe(self, episode: _Episode, confidence: float) -> Recollection:
        """Return an episode in words, with the address of its first picture in screenpipe."""
        first, last = episode.seen[0], episode.seen[-1]
        milliseconds = (last.at - first.at + _LAST_SHOWN) // timedelta(milliseconds=1)
        frame = None if first.frame is None else f"{self._url}/frames/{first.frame}"
        return Recollection(
            timestamp=first.at,
            duration_seconds=milliseconds / 1000,
            confidence=round(confidence, 3),
            summary=_summarize(episode),
            steps=_list_steps(episode),
            video_url=frame,
            video_start_ms=0,
            video_end_ms=milliseconds,
            source="screenpipe",
            window_titles=tuple(dict.fromkeys(each.title for each in episode.seen if each.title)),
        )


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


def _read_results(body: bytes) -> list[Any]:
    """Return the results of an answer.

    Raises:
        _AnswerUnusable: It is no answer of `/search`.
    """
    try:
        answer: Any = json.loads(body)
        results: list[Any] | None = answer["data"]
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise _AnswerUnusable("its answer is not what its search answers with") from error
    if not isinstance(results, list):
        raise _AnswerUnusable("its answer is not what its search answers with")
    return results


class _Seen(NamedTuple):
    """Something that was on a screen, or was heard, at an instant."""

    at: datetime
    application: str
    title: str
    text: str
    frame: int | None
    """Number of its picture in screenpipe; None: it has none."""


@dataclass(frozen=True, slots=True)
class _Episode:
    """Everything that one application showed without a long gap, and the words sought in it."""

    seen: Sequence[_Seen]
    """In order of time."""
    words: Sequence[str]
    """All words of the question."""
    best: float
    """Share of the words that the best of it has."""

    @property
    def coverage(self) -> float:
        """Share of the words that it has, from 0 to 1."""
        return _measure_share(self.words, self.seen)

    def measure_strength(self, now: datetime, recency_bias: float) -> float:
        """Return what it is ranked by: its words, and its age."""
        age = max(now - self.seen[-1].at, timedelta(0))
        recency = 1 - recency_bias + recency_bias * math.exp2(-(age / _HALF_LIFE))
        return self.best * self.coverage**2 * max(recency, _LEAST_RECENCY)


def _read_seen(results: Iterable[Any]) -> list[_Seen]:
    """Return what the results say, by application and time; what is no result is left out.

    What was on a screen has `text`, what was heard has `transcription`.
    """
    seen = [each for each in map(_read_result, results) if each is not None]
    return sorted(seen, key=lambda each: (each.application, each.at))


def _find_words(words: Iterable[str], texts: Iterable[str]) -> list[str]:
    """Return those of the words that the texts have, by their beginnings."""
    present = {token for text in texts for token in split_words(text)}
    return [word for word in words if any(_is_same_word(word, token) for token in present)]


def _build_episodes(seen: Iterable[_Seen], words: Sequence[str]) -> list[_Episode]:
    """Return the episodes with any of the words; `seen` is in order of application and time."""
    groups: list[list[_Seen]] = []
    for each in seen:
        first, last = (groups[-1][0], groups[-1][-1]) if groups else (None, None)
        if (
            first is not None
            and last is not None
            and first.application == each.application
            and each.at - last.at <= _EPISODE_GAP
            and each.at - first.at <= _LONGEST_EPISODE
        ):
            groups[-1].append(each)
        else:
            groups.append([each])
    episodes: list[_Episode] = []
    for group in groups:
        shares = [_measure_share(words, [each]) for each in group]
        if best := max(shares):
            enough = _LEAST_SHARE_OF_BEST * best
            telling = [each for each, share in zip(group, shares, strict=True) if share >= enough]
            episodes.append(_Episode(telling, words, best))
    return episodes


def _measure_share(words: Sequence[str], seen: Iterable[_Seen]) -> float:
    texts = (f"{each.title} {each.text}" for each in seen)
    return len(_find_words(words, texts)) / len(words)


def _is_same_word(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return one == other or (len(short) >= _LEAST_STEM and long.startswith(short))


def _read_result(result: Any) -> _Seen | None:  # noqa: ANN401 - JSON
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
    return _Seen(
        at,
        application if isinstance(application, str) else str(result.get("type", "")),
        title if isinstance(title, str) else "",
        text[:MOST_CHARACTERS],
        frame if isinstance(frame, int) else None,
    )


def _summarize(episode: _Episode) -> str:
    """Return what was shown, in one sentence: the application and the titles, in order."""
    titles = list(dict.fromkeys(_quote_title(each) for each in episode.seen))
    more = f", and {len(titles) - _MOST_QUOTED} more" if len(titles) > _MOST_QUOTED else ""
    application = episode.seen[0].application or "an application"
    return f"In {application}: {', then '.join(titles[:_MOST_QUOTED])}{more}"


def _list_steps(episode: _Episode) -> tuple[str, ...]:
    """Return what happened in order: each title that came up, and the lines with the words."""
    steps: list[str] = []
    told: set[str] = set()
    title = ""
    for each in episode.seen:
        news: list[str] = []
        if _quote_title(each) != title:
            title = _quote_title(each)
            news.append(f"{title} came up")
        lines = [
            line
            for line in dict.fromkeys(each.text.splitlines())
            if line not in told and _find_words(episode.words, [line])
        ]
        told.update(lines)
        if lines:
            news.append("new text: " + "; ".join(map(_quote, lines[:_MOST_QUOTED])))
        if len(lines) > _MOST_QUOTED:
            news.append(f"and {len(lines) - _MOST_QUOTED} more lines")
        if news:
            steps.append(f"{each.at:%H:%M:%S} " + ", ".join(news))
    if len(steps) > _MOST_EPISODE_STEPS:
        rest = len(steps) - _MOST_EPISODE_STEPS + 1
        steps[_MOST_EPISODE_STEPS - 1 :] = [f"{rest} more steps, which screenpipe shows"]
    return tuple(steps)


def _quote_title(seen: _Seen) -> str:
    return _quote(seen.title or "a window without a title")


def _quote(text: str) -> str:
    line = " ".join(text.split())
    return f"“{line if len(line) <= _LONGEST_QUOTE else line[: _LONGEST_QUOTE - 1] + '…'}”"
