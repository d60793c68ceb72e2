"""Ask Gemini.

The SDK is imported in a thread when first needed, because that takes seconds. It neither retries
nor has a time limit: the core ends a question that takes too long, and pauses a reader. `failures`
explains errors.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, cast

from taskmem_hookspecs import (
    NoAnswer,
    Question,
    ReaderStatus,
    ReaderUnavailable,
    Readiness,
    Reading,
)
from taskmem_vision.gemini import failures
from taskmem_vision.gemini.prices import compute_cost_dollars

if TYPE_CHECKING:
    from google.genai import Client
    from google.genai.types import GenerateContentResponse, ThinkingConfigDict

NAME: Final = "gemini"
KEYS: Final = ("GOOGLE_API_KEY", "GEMINI_API_KEY")
"""Variables in which the SDK looks for a key, in its order."""
MODEL: Final = "gemini-3.5-flash-lite"
VARIABLE: Final = "TASKMEM_GEMINI_CALLS_PER_DAY"
CALLS_PER_DAY: Final = 1000
TOKENS: Final = 1024
"""Maximum length of an answer, including thoughts; a verdict takes about sixty."""

_MOST_TOKENS: Final = 10**9
_WHOLE: Final = re.compile(r"[0-9]{1,9}")


class Tokens(NamedTuple):
    """Tokens that a model read and wrote, including thoughts."""

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
        raw = self._environ.get(VARIABLE, "").strip()
        return int(raw) if _WHOLE.fullmatch(raw) else CALLS_PER_DAY

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
            said: object = json.loads(latest.read_bytes())
        except (OSError, ValueError, RecursionError):
            return False
        return isinstance(said, dict) and cast("Any", said).get("gemini") is True

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
            trouble = failures.explain_error(error, secret, variable, model)
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
            "max_output_tokens": TOKENS,
            "candidate_count": 1,
            "thinking_config": choose_thinking_config(model),
            "automatic_function_calling": {"disable": True},
        },
    )
    return response


def _build_reading(response: GenerateContentResponse, model: str) -> Reading:
    tokens = _count_tokens(response)
    today = datetime.now(UTC).date()  # noqa: TID251 - of a price, not of a decision
    cost = compute_cost_dollars(model, today, tokens_in=tokens.read, tokens_out=tokens.written)
    try:
        text = failures.read_answer(response)
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


def choose_thinking_config(model: str) -> ThinkingConfigDict:
    """Return the configuration with the least thinking that a model supports.

    Only the Lite models of Gemini 3 support `minimal`; Gemini 2.5 has no levels.
    """
    from google.genai import types

    if "gemini-2" in model:
        return {"thinking_budget": 128 if "pro" in model else 0}
    level = types.ThinkingLevel.MINIMAL if "lite" in model else types.ThinkingLevel.LOW
    return {"thinking_level": level}


def _count_tokens(response: GenerateContentResponse) -> Tokens:
    usage = response.usage_metadata
    if usage is None:
        return Tokens()
    return Tokens(
        read=_clamp_count(usage.prompt_token_count),
        written=_clamp_count(usage.candidates_token_count)
        + _clamp_count(usage.thoughts_token_count),
    )


def _clamp_count(count: int | None) -> int:
    """Clamp a token count from the server to a valid range."""
    return min(max(count or 0, 0), _MOST_TOKENS)
