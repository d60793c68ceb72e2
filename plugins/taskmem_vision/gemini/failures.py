"""Explain what went wrong between a question and its answer.

The SDK raises no error for a blocked question or a truncated answer, and lets errors of its HTTP
library through. No message contains the key.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final, cast

from taskmem_hookspecs import NoAnswer, ReaderRefused, ReaderUnavailable
from taskmem_vision.text_lines import to_one_line

if TYPE_CHECKING:
    from google.genai.errors import APIError
    from google.genai.types import GenerateContentResponse

_SAID_CHARACTERS: Final = 200
_DELAY: Final = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)s")
_QUOTE: Final = "quote the text to wait for, so that no model is needed."

_BAD_REQUEST: Final = 400
_NO_KEY: Final = (401, 403)
_NOT_FOUND: Final = 404
_LIMIT: Final = 429
_SERVER: Final = 500


# --- answers that are none ----------------------------------------------------


def read_answer(response: GenerateContentResponse) -> str:
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


def explain_error(error: Exception, secret: str, variable: str, model: str) -> ReaderUnavailable:
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
        said = _describe_error(api, secret)
        delay = read_retry_seconds(api)
        kind = ReaderRefused if _refuses_key(api) else ReaderUnavailable
        return kind(_describe_refusal(api, said, variable, model, delay), delay)
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
    error: APIError, said: str, variable: str, model: str, delay: float | None
) -> str:
    code = error.code
    if _refuses_key(error):
        return (
            f"Gemini refused the key in {variable} ({said}); set a valid one and "
            "restart the daemon."
        )
    if code == _NOT_FOUND:
        return (
            f"Gemini has no model {model} ({said}); set TASKMEM_GEMINI_MODEL to one "
            "that it has and restart the daemon."
        )
    if code == _LIMIT:
        wait = f" in {delay:g} s" if delay else ""
        return f"Gemini's limit is reached ({said}); it is asked again{wait}."
    if code >= _SERVER:
        return f"Gemini is in trouble ({said}); it is asked again."
    return (
        f"Gemini refused the request ({said}); see that TASKMEM_GEMINI_MODEL and "
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
    return to_one_line(safe, _SAID_CHARACTERS)


def _blames_key(error: APIError) -> bool:
    """Return whether a status 400 means that the key is wrong."""
    reasons = [detail.get("reason") for detail in _read_details(error)]
    return "API_KEY_INVALID" in reasons


def read_retry_seconds(error: Exception) -> float | None:
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
