"""Gemini, asked for one verdict at a time.

The SDK is imported when it is first needed, in a thread: that takes seconds. It
retries nothing and waits no longer than the judge may: whoever asks backs off, and
what goes wrong is told by `failures`.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, cast

from pydantic import BaseModel

from taskmem_hookspecs import JudgeUnavailable
from taskmem_vision.gemini import failures
from taskmem_vision.gemini.keys import KEYS
from taskmem_vision.gemini.spending import (
    DayUsedUp,
    Spending,
    Tokens,
    calls_per_day,
    spending_of,
)

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.types import GenerateContentResponse, ThinkingConfigDict

T = TypeVar("T", bound=BaseModel)

MODEL: Final = "gemini-3.5-flash-lite"
TOKENS: Final = 1024
"""The longest answer, thoughts included; a verdict takes some sixty."""
LONGEST_PAUSE: Final = 3600.0
"""How long a key rests at most, in seconds, whatever Gemini asks for."""

_JUDGE_SECONDS: Final = 20.0
_SHARE: Final = 0.9
"""Of a judge's limit: an answer that comes too late is told, rather than cut off."""
_BLIND_PAUSE: Final = 10.0
_MOST_TOKENS: Final = 10**9


@dataclass(slots=True)
class Usage:
    """What asking has cost so far."""

    calls: int = 0
    """Requests that were sent, answered or not."""
    tokens: Tokens = field(default_factory=Tokens)
    """Of those that were answered."""


@dataclass(frozen=True, slots=True)
class Answer(Generic[T]):
    """A verdict, and what it cost."""

    verdict: T
    tokens: Tokens


class Gemini:
    """One model, asked under one key; all waits share it."""

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        spending: Spending | None = None,
    ) -> None:
        """Take the environment; the key is read from it whenever it is used.

        Args:
            environ: The environment.
            spending: Where requests are counted; None: the account of its home.
        """
        self._environ = environ
        self.model = model_of(environ)
        self._allowed = calls_per_day(environ)
        self._spending = spending_of(environ) if spending is None else spending
        self._seconds = _judge_seconds(environ) * _SHARE
        self._account: _Account | None = None
        self.usage = Usage()

    async def ask(
        self, instruction: str, parts: Sequence[str | bytes], form: type[T]
    ) -> Answer[T]:
        """Return the model's answer, in the form asked for.

        Args:
            instruction: What the model is there for; never from outside.
            parts: What is asked; each is sent as it is, as one part: a text, or a
                picture as JPEG.
            form: Its fields and their docs are sent as the schema of the answer.

        Raises:
            NoVerdict: It answered, and not what it was asked for.
            DayUsedUp: It may not be asked again on this day.
            JudgeUnavailable: It did not answer; the sentence says why.
        """
        account = self._current()
        account.refuse_while_paused(_now())
        # Also before the client is made, which may take seconds.
        self._spending.refuse_when_used_up(self._allowed)
        try:
            async with asyncio.timeout(self._seconds):
                client = await account.client()
                sent = self._spending.send(self.model, self._allowed)
                self.usage.calls += 1
                response = await _send(client, self.model, instruction, parts, form)
        except DayUsedUp:
            raise
        except Exception as error:  # noqa: BLE001 - the key must not travel on with it
            trouble = failures.told(
                error, account.secret, account.variable, self.model, self._seconds
            )
            if failures.is_limit(error):
                trouble.retry_seconds = account.pause(_now(), trouble.retry_seconds)
        else:
            tokens = _tokens(response)
            self.usage.tokens += tokens
            self._spending.answered(sent, tokens)
            return Answer(failures.verdict(response, form), tokens)
        # Outside, so that the error that was caught is not its context.
        raise trouble

    def _current(self) -> _Account:
        variable, secret = _key(self._environ)
        if not secret:
            raise JudgeUnavailable(
                "There is no key for Gemini; set GEMINI_API_KEY (or GOOGLE_API_KEY) "
                "and restart the daemon."
            )
        if not (secret.isascii() and secret.isprintable()) or " " in secret:
            raise JudgeUnavailable(
                f"{variable} holds characters that no key has; set it again and "
                "restart the daemon."
            )
        address = self._environ.get("GOOGLE_GEMINI_BASE_URL", "")
        found = _Account(variable, secret, address, self._seconds)
        if self._account is None or not self._account.is_like(found):
            self._account = found
        return self._account


class _Account:
    """A key at an address, its client, and until when it rests."""

    def __init__(
        self, variable: str, secret: str, address: str, seconds: float
    ) -> None:
        self.variable = variable
        self.secret = secret
        self._address = address
        self._seconds = seconds
        self._making: Future[Client] | None = None
        self._paused_until = 0.0

    def is_like(self, other: _Account) -> bool:
        return (self.secret, self._address) == (other.secret, other._address)

    async def client(self) -> Client:
        """Return the client, which whoever comes first has made in a thread."""
        if self._making is None:
            self._making = self._begin()
        making = self._making
        try:
            return await asyncio.wrap_future(making)
        except Exception:
            if self._making is making:
                self._making = None
            raise

    def _begin(self) -> Future[Client]:
        future: Future[Client] = Future()
        # A future that runs cannot be cancelled: who gives up waiting for it gives
        # up alone.
        future.set_running_or_notify_cancel()

        def make() -> None:
            try:
                future.set_result(_client(self.secret, self._address, self._seconds))
            except BaseException as error:  # noqa: BLE001 - whoever waits is told
                future.set_exception(error)

        threading.Thread(target=make, name="gemini.client", daemon=True).start()
        return future

    def pause(self, now: float, asked_for: float | None) -> float:
        """Let the key rest, and return for how many seconds."""
        seconds = min(asked_for or _BLIND_PAUSE, LONGEST_PAUSE)
        self._paused_until = max(self._paused_until, now + seconds)
        return self._paused_until - now

    def refuse_while_paused(self, now: float) -> None:
        left = self._paused_until - now
        if left > 0:
            raise JudgeUnavailable(
                "Gemini's limit is reached, and the key rests; it is asked again in "
                f"{left:.0f} s.",
                left,
            )


def model_of(environ: Mapping[str, str]) -> str:
    """Return the name of the model that is asked."""
    return environ.get("TASKMEM_GEMINI_MODEL", "").strip() or MODEL


def has_key(environ: Mapping[str, str]) -> bool:
    """Whether there is a key in the environment."""
    return bool(_key(environ)[1])


def _key(environ: Mapping[str, str]) -> tuple[str, str]:
    for variable in KEYS:
        if secret := environ.get(variable, "").strip():
            return variable, secret
    return KEYS[-1], ""


def _judge_seconds(environ: Mapping[str, str]) -> float:
    """Return the limit of one ruling; the core has refused what is no number."""
    try:
        seconds = float(environ.get("TASKMEM_JUDGE_TIMEOUT_SECONDS", ""))
    except ValueError:
        return _JUDGE_SECONDS
    return seconds if seconds > 0 else _JUDGE_SECONDS


def _now() -> float:
    return asyncio.get_running_loop().time()


def _client(secret: str, address: str, seconds: float) -> Client:
    """Make a client; the first time, this imports the SDK."""
    from google import genai
    from google.genai import types

    return genai.Client(
        api_key=secret,
        http_options=types.HttpOptions(
            base_url=address or None,
            timeout=max(1, int(seconds * 1000)),
            # Questions are seconds apart: a connection that is kept is closed by
            # somebody on the way, and the next question with it.
            headers={"Connection": "close"},
            retry_options=types.HttpRetryOptions(attempts=1),
            # The key is in a header, which would follow to wherever it is sent.
            async_client_args={"follow_redirects": False},
        ),
    )


async def _send(
    client: Client,
    model: str,
    instruction: str,
    parts: Sequence[str | bytes],
    form: type[T],
) -> GenerateContentResponse:
    from google.genai.types import Part

    models = cast("Any", client.aio.models)
    # No temperature: the makers of Gemini 3 advise against any but its own.
    response: GenerateContentResponse = await models.generate_content(
        model=model,
        contents=[
            part
            if isinstance(part, str)
            else Part.from_bytes(data=part, mime_type="image/jpeg")
            for part in parts
        ],
        config={
            "system_instruction": instruction,
            "response_mime_type": "application/json",
            "response_schema": form,
            "max_output_tokens": TOKENS,
            "candidate_count": 1,
            "thinking_config": thinking(model),
            "automatic_function_calling": {"disable": True},
        },
    )
    return response


def thinking(model: str) -> ThinkingConfigDict:
    """Return the least thinking that a model can be told to do.

    Only the Lite models of Gemini 3 take `minimal`; those of Gemini 2.5 know no
    levels.
    """
    from google.genai import types

    if "gemini-2" in model:
        return {"thinking_budget": 128 if "pro" in model else 0}
    level = types.ThinkingLevel.MINIMAL if "lite" in model else types.ThinkingLevel.LOW
    return {"thinking_level": level}


def _tokens(response: GenerateContentResponse) -> Tokens:
    told = response.usage_metadata
    if told is None:
        return Tokens()
    return Tokens(
        prompt=_number(told.prompt_token_count),
        candidates=_number(told.candidates_token_count),
        thoughts=_number(told.thoughts_token_count),
    )


def _number(told: int | None) -> int:
    """Return a number of tokens that can be one, whatever the server says."""
    return min(max(told or 0, 0), _MOST_TOKENS)
