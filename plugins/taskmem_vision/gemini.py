"""Ask Gemini, compute what that costs, and explain what went wrong.

The SDK is imported in a thread when first needed, because that takes seconds. It neither retries
nor has a time limit: the core ends a question that takes too long, and pauses a reader. The SDK
raises no error for a blocked question or a truncated answer, and lets errors of its HTTP library
through. No message contains the key.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from taskmem_hookspecs import (
    NoAnswer,
    Question,
    ReaderRefused,
    ReaderStatus,
    ReaderUnavailable,
    Readiness,
    Reading,
)
from taskmem_vision.text_lines import to_one_line

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.errors import APIError
    from google.genai.types import GenerateContentResponse, ThinkingConfigDict

_PRICED_TOKENS: Final = 1_000_000


class _Price(NamedTuple):
    """Dollars for a million tokens; thoughts cost the same as output."""

    until: date
    """Last day of this price."""
    tokens_in: float
    tokens_out: float


# Prices as of 2026-10-07, with the one that is announced for 2027.
# Source: https://ai.google.dev/gemini-api/docs/pricing
_PRICES: Final = {
    "gemini-3.5-flash-lite": (_Price(date.max, 0.30, 2.50),),
    "gemini-3.8-flash": (_Price(date(2026, 12, 31), 0.75, 3.75), _Price(date.max, 1.50, 7.50)),
}
# A version number or date after the name does not change the price; a word such as "lite" or
# "image" means another model.
_VERSION: Final = re.compile(r"(?:-\d+)*")


def compute_cost_dollars(model: str, day: date, *, tokens_in: int, tokens_out: int) -> float | None:
    """Return the cost of tokens on a day; None: the model's price is unknown."""
    name = model.removeprefix("models/")
    for known, prices in _PRICES.items():
        if name.startswith(known) and _VERSION.fullmatch(name, len(known)):
            price = next(each for each in prices if day <= each.until)
            paid = tokens_in * price.tokens_in + tokens_out * price.tokens_out
            return paid / _PRICED_TOKENS
    return None


_DESCRIPTION_CHARACTERS: Final = 200
_DELAY: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_QUOTE: Final = "quote the text to wait for, so that no model is needed."

_BAD_REQUEST: Final = 400
_NO_KEY: Final = (401, 403)
_NOT_FOUND: Final = 404
_LIMIT: Final = 429
_SERVER: Final = 500


# --- answers that are none ----------------------------------------------------


def _read_answer(response: GenerateContentResponse) -> str:
    """Return the text of a complete answer.

    Raises:
        NoAnswer: The answer was blocked, truncated or empty.
    """
    feedback = response.prompt_feedback
    if feedback is not None and feedback.block_reason is not None:
        raise NoAnswer(f"Gemini refused the question ({feedback.block_reason.value}); {_QUOTE}")
    if not response.candidates:
        raise NoAnswer("Gemini's answer held nothing at all; it is asked again.")
    candidate = response.candidates[0]
    finish = candidate.finish_reason.value if candidate.finish_reason else "STOP"
    if finish == "MAX_TOKENS":
        raise NoAnswer("Gemini's answer was cut, being too long; it is asked again.")
    if finish != "STOP":
        raise NoAnswer(f"Gemini broke off its answer ({finish}); {_QUOTE}")
    parts = (candidate.content.parts if candidate.content else None) or ()
    text = "".join(part.text or "" for part in parts if not part.thought)
    if not text.strip():
        raise NoAnswer("Gemini's answer was empty; it is asked again.")
    return text


# --- no answer ----------------------------------------------------------------


def _explain_error(error: Exception, secret: str, variable: str, model: str) -> ReaderUnavailable:
    """Return the meaning of an SDK error, without the key.

    Args:
        error: The raised error.
        secret: The key.
        variable: The variable with the key.
        model: The model that was asked.
    """
    kinds = {kind.__name__ for kind in type(error).__mro__}
    name = type(error).__name__
    if "APIError" in kinds:
        api = cast("APIError", error)
        description = _describe_error(api, secret)
        delay = _read_retry_seconds(api)
        kind = ReaderRefused if _refuses_key(api) else ReaderUnavailable
        return kind(_describe_refusal(api, description, variable, model, delay), delay)
    # Compared by name: the SDK uses one of several HTTP libraries.
    if kinds & {"RequestError", "InvalidURL", "ClientError", "OSError"}:
        return ReaderUnavailable(
            f"The connection to Gemini failed ({name}); see that the network and "
            "GOOGLE_GEMINI_BASE_URL are right."
        )
    if isinstance(error, ImportError):
        return ReaderUnavailable(
            f"google-genai cannot be loaded ({name}); install openclaw-taskmem anew."
        )
    return ReaderUnavailable(
        f"What answers is not Gemini, or not understood ({name}); see that "
        "GOOGLE_GEMINI_BASE_URL is right."
    )


def _refuses_key(error: APIError) -> bool:
    return error.code in _NO_KEY or (error.code == _BAD_REQUEST and _blames_key(error))


def _describe_refusal(
    error: APIError, description: str, variable: str, model: str, delay: float | None
) -> str:
    code = error.code
    if _refuses_key(error):
        return (
            f"Gemini refused the key in {variable} ({description}); set a valid one and "
            "restart the daemon."
        )
    if code == _NOT_FOUND:
        return (
            f"Gemini has no model {model} ({description}); set TASKMEM_GEMINI_MODEL to one "
            "that it has and restart the daemon."
        )
    if code == _LIMIT:
        wait = f" in {delay:g} s" if delay else ""
        return f"Gemini's limit is reached ({description}); it is asked again{wait}."
    if code >= _SERVER:
        return f"Gemini is in trouble ({description}); it is asked again."
    return (
        f"Gemini refused the request ({description}); see that TASKMEM_GEMINI_MODEL and "
        "GOOGLE_GEMINI_BASE_URL are right."
    )


def _describe_error(error: APIError, secret: str) -> str:
    """Return status and message on one line; an HTML page is left out."""
    status: object = error.status
    message: object = error.message
    words = f"{error.code} {status}" if isinstance(status, str) else f"{error.code}"
    if isinstance(message, str) and message and not message.lstrip().startswith("<"):
        words += f": {message}"
    safe = words.replace(secret, "[the key]").strip().rstrip(".")
    return to_one_line(safe, _DESCRIPTION_CHARACTERS)


def _blames_key(error: APIError) -> bool:
    """Return whether a status 400 means that the key is wrong."""
    reasons = [detail.get("reason") for detail in _read_details(error)]
    return "API_KEY_INVALID" in reasons


def _read_retry_seconds(error: Exception) -> float | None:
    """Return the delay in an error's RetryInfo; None: it has none."""
    for detail in _read_details(error):
        kind, delay = detail.get("@type"), detail.get("retryDelay")
        if not (isinstance(kind, str) and isinstance(delay, str)):
            continue
        found = _DELAY.fullmatch(delay)
        if kind.endswith("google.rpc.RetryInfo") and found:
            return float(found[1])
    return None


def _read_details(error: Exception) -> list[dict[str, Any]]:
    """Return the details of an error, whatever the shape of its body."""
    body: Any = getattr(error, "details", None)
    match body:
        case {"error": {"details": list()}}:
            listed = body["error"]["details"]
        case {"details": list()}:
            listed = body["details"]
        case _:
            return []
    return [detail for detail in listed if isinstance(detail, dict)]


NAME: Final = "gemini"
KEYS: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Variables in which the SDK looks for a key, in its order."""
MODEL: Final = "gemini-3.5-flash-lite"
_CALLS_VARIABLE: Final = "TASKMEM_GEMINI_CALLS_PER_DAY"
CALLS_PER_DAY: Final = 1000
_ANSWER_TOKENS: Final = 1024
"""Maximum length of an answer, including thoughts; a verdict takes about sixty."""

_MOST_TOKENS: Final = 10**9
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class _Tokens(NamedTuple):
    """_Tokens that a model read and wrote, including thoughts."""

    read: int = 0
    written: int = 0


class Gemini:
    """`Reader` for one Gemini model."""

    name = NAME
    sees_pictures = True

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        """Set the environment; the key is read from it at each use."""
        self._environ = environ
        self._client: Client | None = None
        self._account: tuple[str, str] | None = None
        """Key and address of the client."""

    @property
    def model(self) -> str:
        """Name of the model."""
        return self._environ.get("TASKMEM_GEMINI_MODEL", "").strip() or MODEL

    @property
    def calls_per_day(self) -> int | None:
        """Maximum number of requests a day; the core has validated the setting."""
        raw = self._environ.get(_CALLS_VARIABLE, "").strip()
        return int(raw) if _WHOLE_NUMBER.fullmatch(raw) else CALLS_PER_DAY

    def status(self) -> ReaderStatus:
        """Check whether there is a key and it may be used.

        A key in the environment may be meant for another program. If OpenClaw was set up, which has
        its own model, the key is used only if set-up allowed it or the operator's setting names
        Gemini.
        """
        variable, secret = _read_key_variable(self._environ)
        if not secret:
            return ReaderStatus(
                readiness=Readiness.OFF,
                detail="There is no key for Gemini.",
                cure="Set GEMINI_API_KEY and run: taskmem daemon restart",
            )
        named = NAME in re.split(r"[\s,]+", self._environ.get("TASKMEM_READERS", ""))
        if not named and self._is_allowed_by_setup() is False:
            return ReaderStatus(
                readiness=Readiness.OFF,
                detail=f"The key in {variable} is not used: set-up was not allowed to.",
                cure="To allow it, run: taskmem setup openclaw",
            )
        return ReaderStatus(
            readiness=Readiness.READY,
            detail="What a wait looks at goes to Google: "
            f"{self.model} is asked with the key in {variable}.",
        )

    def _is_allowed_by_setup(self) -> bool | None:
        """Return whether the latest set-up record allows Gemini.

        None: `taskmem setup openclaw` was not run for this home.
        """
        home = self._environ.get("TASKMEM_HOME", "")
        records = list(Path(home, "setup").glob("openclaw-*.json")) if home else []
        if not records:
            return None
        try:
            latest = max(records, key=lambda record: record.stat().st_mtime)
            record: object = json.loads(latest.read_bytes())
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(record, dict) and cast("Any", record).get("gemini") is True

    async def read(self, question: Question) -> Reading:
        """Ask the model.

        Raises:
            ReaderRefused: The key is not valid.
            NoAnswer: The reply is not an answer.
            ReaderUnavailable: There was no reply; the message says why.
        """
        variable, secret = self._find_key()
        model = self.model
        try:
            client = await self._connect(secret)
            response = await _send_question(client, model, question)
        except Exception as error:  # noqa: BLE001 - the key must not travel on with it
            trouble = _explain_error(error, secret, variable, model)
        else:
            return _build_reading(response, model)
        # Raised outside the except block, so that the caught error, which may contain the key, is
        # not its context.
        raise trouble

    def _find_key(self) -> tuple[str, str]:
        """Return the variable with a key, and the key; raise if it is missing or malformed."""
        variable, secret = _read_key_variable(self._environ)
        if not secret:
            raise ReaderUnavailable(
                "There is no key for Gemini; set GEMINI_API_KEY (or GOOGLE_API_KEY) "
                "and restart the daemon."
            )
        if not (secret.isascii() and secret.isprintable()) or " " in secret:
            raise ReaderUnavailable(
                f"{variable} holds characters that no key has; set it again and restart the daemon."
            )
        return variable, secret

    async def _connect(self, secret: str) -> Client:
        """Return the client for a key; create a new one in a thread."""
        account = secret, self._environ.get("GOOGLE_GEMINI_BASE_URL", "")
        if self._client is None or self._account != account:
            self._client = await asyncio.to_thread(_make_client, *account)
            self._account = account
        return self._client


def _read_key_variable(environ: Mapping[str, str]) -> tuple[str, str]:
    for variable in KEYS:
        if secret := environ.get(variable, "").strip():
            return variable, secret
    return KEYS[-1], ""


def _make_client(secret: str, address: str) -> Client:
    """Create a client; the first call imports the SDK."""
    from google import genai
    from google.genai import types

    return genai.Client(
        api_key=secret,
        http_options=types.HttpOptions(
            base_url=address or None,
            # Questions are seconds apart: an idle connection may be closed on the way, and the next
            # question would fail.
            headers={"Connection": "close"},
            retry_options=types.HttpRetryOptions(attempts=1),
            # The key is in a header, which a redirect would send to another server.
            async_client_args={"follow_redirects": False},
        ),
    )


async def _send_question(client: Client, model: str, question: Question) -> GenerateContentResponse:
    from google.genai.types import Part

    models = cast("Any", client.aio.models)
    # No temperature: Google advises to keep the default of Gemini 3.
    response: GenerateContentResponse = await models.generate_content(
        model=model,
        contents=[
            part if isinstance(part, str) else Part.from_bytes(data=part, mime_type="image/jpeg")
            for part in question.parts
        ],
        config={
            "system_instruction": question.instruction,
            "response_mime_type": "application/json",
            "response_json_schema": dict(question.answer_schema),
            "max_output_tokens": _ANSWER_TOKENS,
            "candidate_count": 1,
            "thinking_config": _choose_thinking_config(model),
            "automatic_function_calling": {"disable": True},
        },
    )
    return response


def _build_reading(response: GenerateContentResponse, model: str) -> Reading:
    tokens = _count_tokens(response)
    today = datetime.now(UTC).date()  # noqa: TID251 - of a price, not of a decision
    cost = compute_cost_dollars(model, today, tokens_in=tokens.read, tokens_out=tokens.written)
    try:
        text = _read_answer(response)
    except NoAnswer as error:
        error.tokens_in, error.tokens_out = tokens
        error.cost_usd = cost
        raise
    return Reading(
        answer=text,
        reader=NAME,
        model=model,
        tokens_in=tokens.read,
        tokens_out=tokens.written,
        cost_usd=cost,
    )


def remove_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without keys, for a program that asks no model."""
    return {name: each for name, each in environ.items() if name not in KEYS}


def _choose_thinking_config(model: str) -> ThinkingConfigDict:
    """Return the configuration with the least thinking that a model supports.

    Only the Lite models of Gemini 3 support `minimal`; Gemini 2.5 has no levels.
    """
    from google.genai import types

    if "gemini-2" in model:
        return {"thinking_budget": 128 if "pro" in model else 0}
    level = types.ThinkingLevel.MINIMAL if "lite" in model else types.ThinkingLevel.LOW
    return {"thinking_level": level}


def _count_tokens(response: GenerateContentResponse) -> _Tokens:
    usage = response.usage_metadata
    if usage is None:
        return _Tokens()
    return _Tokens(
        read=_clamp_count(usage.prompt_token_count),
        written=_clamp_count(usage.candidates_token_count)
        + _clamp_count(usage.thoughts_token_count),
    )


def _clamp_count(count: int | None) -> int:
    """Clamp a token count from the server to a valid range."""
    return min(max(count or 0, 0), _MOST_TOKENS)
