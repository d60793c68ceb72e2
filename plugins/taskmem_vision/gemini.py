"""Ask Gemini over its REST interface, compute what that costs, and explain what went wrong.

It neither retries nor has a time limit: the core ends a question that takes too long, and pauses a
reader. No message contains the key.
"""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast
from urllib.request import getproxies, proxy_bypass

from pydantic import BaseModel, ConfigDict, ValidationError
from pydantic.alias_generators import to_camel

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
    import httpx

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

_NO_PROXY_TEXT: Final = (
    "The proxy that the environment names (HTTPS_PROXY or ALL_PROXY) is no HTTP proxy, and Gemini "
    "is asked through no other; set HTTPS_PROXY to an HTTP proxy, or install httpx[socks] beside "
    "taskmem for one of socks5://, then run: taskmem daemon restart."
)

_BAD_REQUEST: Final = 400
_NO_KEY: Final = (401, 403)
_NOT_FOUND: Final = 404
_LIMIT: Final = 429
_SERVER: Final = 500

NAME: Final = "gemini"
KEYS: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Variables with a key, the first that is set counts."""
MODEL: Final = "gemini-3.5-flash-lite"
_ADDRESS: Final = "https://generativelanguage.googleapis.com"
_CALLS_VARIABLE: Final = "TASKMEM_GEMINI_CALLS_PER_DAY"
CALLS_PER_DAY: Final = 1000
_ANSWER_TOKENS: Final = 1024
"""Maximum length of an answer, including thoughts; a verdict takes about sixty."""

_MOST_TOKENS: Final = 10**9
_WHOLE_NUMBER: Final = re.compile(r"[0-9]{1,9}")


class Gemini:
    """`Reader` for one Gemini model."""

    name = NAME
    sees_pictures = True

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        """Set the environment; the key is read from it at each use."""
        self._environ = environ
        self._client: httpx.AsyncClient | None = None
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
        path = model if "/" in model else f"models/{model}"
        try:
            client = await self._connect(secret)
            response = await client.post(
                f"/v1beta/{path}:generateContent", json=_build_request(model, question)
            )
        except ReaderUnavailable as error:
            trouble = error
        except Exception as error:  # noqa: BLE001 - the key must not travel on with it
            trouble = ReaderUnavailable(
                f"The connection to Gemini failed ({type(error).__name__}); see that the network "
                "and GOOGLE_GEMINI_BASE_URL are right."
            )
        else:
            if response.is_success:
                return _build_reading(response, model)
            trouble = _explain_refusal(response, secret, variable, model)
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

    async def _connect(self, secret: str) -> httpx.AsyncClient:
        """Return the client for a key; create a new one in a thread."""
        account = secret, self._environ.get("GOOGLE_GEMINI_BASE_URL", "") or _ADDRESS
        if self._client is None or self._account != account:
            self._client = await asyncio.to_thread(_make_client, *account)
            self._account = account
        return self._client


def _read_key_variable(environ: Mapping[str, str]) -> tuple[str, str]:
    for variable in KEYS:
        if secret := environ.get(variable, "").strip():
            return variable, secret
    return KEYS[-1], ""


def remove_keys(environ: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without keys, for a program that asks no model."""
    return {name: each for name, each in environ.items() if name not in KEYS}


def _make_client(secret: str, address: str) -> httpx.AsyncClient:
    """Create a client, which loads certificates and so blocks for a moment.

    Raises:
        ReaderUnavailable: The proxy that the environment names for the address is no HTTP proxy
            (for SOCKS httpx needs another package), or its certificates cannot be read.
    """
    import httpx

    url, proxies = httpx.URL(address), getproxies()
    proxy = None if proxy_bypass(url.host) else proxies.get(url.scheme) or proxies.get("all")

    # Questions are seconds apart: an idle connection may be closed on the way, and the next
    # question would fail. Redirects are not followed: they would take the key to another server.
    headers = {"x-goog-api-key": secret, "Connection": "close"}
    try:
        return httpx.AsyncClient(
            base_url=url,
            headers=headers,
            timeout=None,  # noqa: S113 - as above
            # By itself httpx builds a client for each proxy, also for one that is not used.
            trust_env=False,
            proxy=proxy,
            verify=httpx.create_ssl_context(),
        )
    except OSError as error:
        raise ReaderUnavailable(
            f"The certificates that SSL_CERT_FILE or SSL_CERT_DIR names cannot be read "
            f"({error.strerror}); correct or remove it, then run: taskmem daemon restart."
        ) from None
    except (ImportError, ValueError, httpx.InvalidURL):
        raise ReaderUnavailable(_NO_PROXY_TEXT) from None


def _build_request(model: str, question: Question) -> dict[str, Any]:
    """Return the body of a question; Google takes names in either spelling."""
    parts: list[dict[str, Any]] = [
        {"text": part}
        if isinstance(part, str)
        else {"inlineData": {"mime_type": "image/jpeg", "data": base64.b64encode(part).decode()}}
        for part in question.parts
    ]
    return {
        "systemInstruction": {"parts": [{"text": question.instruction}]},
        "contents": [{"role": "user", "parts": parts}],
        # No temperature: Google advises to keep the default of Gemini 3.
        "generationConfig": {
            "responseMimeType": "application/json",
            "responseJsonSchema": dict(question.answer_schema),
            "maxOutputTokens": _ANSWER_TOKENS,
            "candidateCount": 1,
            "thinkingConfig": _choose_thinking_config(model),
        },
    }


def _choose_thinking_config(model: str) -> dict[str, str | int]:
    """Return the configuration with the least thinking that a model supports.

    Only the Lite models of Gemini 3 support `MINIMAL`; Gemini 2.5 has no levels.
    """
    if "gemini-2" in model:
        return {"thinking_budget": 128 if "pro" in model else 0}
    return {"thinking_level": "MINIMAL" if "lite" in model else "LOW"}


# --- what comes back ----------------------------------------------------------


class _Json(BaseModel):
    model_config = ConfigDict(alias_generator=to_camel)


class _AnswerPart(_Json):
    text: str = ""
    thought: bool = False


class _Content(_Json):
    parts: list[_AnswerPart] = []


class _Candidate(_Json):
    finish_reason: str = "STOP"
    content: _Content = _Content()


class _Feedback(_Json):
    block_reason: str | None = None


class _Usage(_Json):
    prompt_token_count: int = 0
    candidates_token_count: int = 0
    thoughts_token_count: int = 0


class _Answer(_Json):
    """The fields of Gemini's answer that are read."""

    prompt_feedback: _Feedback = _Feedback()
    candidates: list[_Candidate] = []
    usage_metadata: _Usage = _Usage()


def _build_reading(response: httpx.Response, model: str) -> Reading:
    try:
        answer = _Answer.model_validate_json(response.content)
    except ValidationError:
        raise ReaderUnavailable(
            "What answers is not Gemini, or not understood; see that GOOGLE_GEMINI_BASE_URL is "
            "right."
        ) from None
    usage = answer.usage_metadata
    tokens_in = _clamp_count(usage.prompt_token_count)
    tokens_out = _clamp_count(usage.candidates_token_count) + _clamp_count(
        usage.thoughts_token_count
    )
    today = datetime.now(UTC).date()
    cost = compute_cost_dollars(model, today, tokens_in=tokens_in, tokens_out=tokens_out)
    text, reason = _read_text(answer)
    if reason is not None:
        raise NoAnswer(reason, tokens_in=tokens_in, tokens_out=tokens_out, cost_usd=cost)
    return Reading(
        answer=text,
        reader=NAME,
        model=model,
        tokens_in=tokens_in,
        tokens_out=tokens_out,
        cost_usd=cost,
    )


def _read_text(answer: _Answer) -> tuple[str, str | None]:
    """Return the text of an answer, and why it is none: it was blocked, cut or empty."""
    if blocked := answer.prompt_feedback.block_reason:
        return "", f"Gemini refused the question ({blocked}); {_QUOTE}"
    if not answer.candidates:
        return "", "Gemini's answer held nothing at all; it is asked again."
    candidate = answer.candidates[0]
    if candidate.finish_reason == "MAX_TOKENS":
        return "", "Gemini's answer was cut, being too long; it is asked again."
    if candidate.finish_reason != "STOP":
        return "", f"Gemini broke off its answer ({candidate.finish_reason}); {_QUOTE}"
    text = "".join(part.text for part in candidate.content.parts if not part.thought)
    return text, None if text.strip() else "Gemini's answer was empty; it is asked again."


def _clamp_count(count: int) -> int:
    """Clamp a token count from the server to a valid range."""
    return min(max(count, 0), _MOST_TOKENS)


def _explain_refusal(
    response: httpx.Response, secret: str, variable: str, model: str
) -> ReaderUnavailable:
    """Return what an error status means, without the key.

    `variable` is the name of the variable with the key, `secret`.
    """
    code, error = response.status_code, _read_error(response)
    listed: Any = error.get("details")
    entries = cast("list[object]", listed) if isinstance(listed, list) else []
    details = [cast("dict[str, Any]", each) for each in entries if isinstance(each, dict)]
    description = _describe_error(response, error, secret)
    delay = _read_retry_seconds(details)
    # A status 400 may blame the key, too.
    blames_key = any(each.get("reason") == "API_KEY_INVALID" for each in details)
    if code in _NO_KEY or (code == _BAD_REQUEST and blames_key):
        return ReaderRefused(
            f"Gemini refused the key in {variable} ({description}); set a valid one and "
            "restart the daemon.",
            delay,
        )
    if code == _NOT_FOUND:
        sentence = (
            f"Gemini has no model {model} ({description}); set TASKMEM_GEMINI_MODEL to one "
            "that it has and restart the daemon."
        )
    elif code == _LIMIT:
        wait = f" in {delay:g} s" if delay else ""
        sentence = f"Gemini's limit is reached ({description}); it is asked again{wait}."
    elif code >= _SERVER:
        sentence = f"Gemini is in trouble ({description}); it is asked again."
    else:
        sentence = (
            f"Gemini refused the request ({description}); see that TASKMEM_GEMINI_MODEL and "
            "GOOGLE_GEMINI_BASE_URL are right."
        )
    return ReaderUnavailable(sentence, delay)


def _read_error(response: httpx.Response) -> dict[str, Any]:
    """Return the error of a response's body; empty: it is none of Gemini's."""
    try:
        body: object = response.json()
    except (ValueError, RecursionError):
        return {}
    error = cast("dict[str, Any]", body).get("error") if isinstance(body, dict) else None
    return cast("dict[str, Any]", error) if isinstance(error, dict) else {}


def _describe_error(response: httpx.Response, error: Mapping[str, Any], secret: str) -> str:
    """Return status and message on one line; an HTML page is left out."""
    message = error.get("message", response.text)
    words = f"{response.status_code} {error.get('status', response.reason_phrase)}"
    if isinstance(message, str) and message and not message.lstrip().startswith("<"):
        words += f": {message}"
    safe = words.replace(secret, "[the key]").strip().rstrip(".")
    return to_one_line(safe, _DESCRIPTION_CHARACTERS)


def _read_retry_seconds(details: list[dict[str, Any]]) -> float | None:
    """Return the delay in an error's RetryInfo; None: it has none."""
    for detail in details:
        found = _DELAY.fullmatch(str(detail.get("retryDelay")))
        if found and str(detail.get("@type")).endswith("google.rpc.RetryInfo"):
            return float(found[1])
    return None
