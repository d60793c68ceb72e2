"""Reader that uses the OpenClaw user's own model and key.

The plug-in in the gateway asks the model, outside any turn and without tools. The gateway says
which model it is, and whether pictures may be sent.
"""

from __future__ import annotations

import base64
import json
import os
import re
import socket
from collections.abc import Mapping
from pathlib import Path
from shutil import which
from typing import Any, Final, cast

from taskmem_hookspecs import (
    NoAnswer,
    Question,
    ReaderStatus,
    ReaderUnavailable,
    Readiness,
    Reading,
)
from taskmem_openclaw import configuration, plugin_socket
from taskmem_openclaw.json_values import find_value

NAME: Final = "host"
_VARIABLE: Final = "TASKMEM_HOST_CALLS_PER_DAY"
CALLS_PER_DAY: Final = 200
GLANCE_SECONDS: Final = 0.5
"""Time limit for the gateway to name its model. Seconds."""
_READ_SECONDS: Final = 60.0
"""Time limit of one question; callers usually cancel earlier. Seconds."""
_MOST_TOKENS: Final = 10**9
_MOST_DOLLARS: Final = 10**6


class HostReader:
    """`Reader` through the plug-in's socket."""

    name = NAME

    def __init__(self, environ: Mapping[str, str] = os.environ) -> None:
        """Set the environment."""
        self._environ = environ
        self._facts: Mapping[str, Any] = {}
        """The gateway's last answer about its model."""

    @property
    def calls_per_day(self) -> int | None:
        """Maximum number of questions a day; `CALLS_PER_DAY` if the setting is no number."""
        raw = self._environ.get(_VARIABLE, "").strip()
        return int(raw) if re.fullmatch(r"[0-9]{1,9}", raw) else CALLS_PER_DAY

    @property
    def model(self) -> str:
        """The model that the gateway named last; before that, the configured one."""
        return str(self._facts.get("model") or _read_configured_model(self._environ) or "")

    @property
    def sees_pictures(self) -> bool:
        """True if the model takes pictures, and until the gateway has told."""
        return self._facts.get("pictures") is not False

    def status(self) -> ReaderStatus:
        """Ask the gateway which model it has."""
        if not configuration.may_want_plugin(self._environ):
            command = self._environ.get("TASKMEM_OPENCLAW_BIN") or "openclaw"
            there = which(command, path=self._environ.get("PATH")) is not None
            why = "OpenClaw does not load the plug-in taskmem" if there else "There is no OpenClaw"
            return ReaderStatus(
                readiness=Readiness.OFF,
                detail=f"{why}, so its model cannot be asked.",
                cure="Run: taskmem setup openclaw" if there else None,
            )
        try:
            self._facts = _fetch_model_facts(plugin_socket.find_socket(self._environ))
        except (OSError, ValueError) as error:
            return ReaderStatus(
                readiness=Readiness.AWAY,
                detail=f"OpenClaw's gateway is away ({_describe_error(error)}).",
                cure="Run: openclaw gateway start",
            )
        pictures = self._facts.get("picture_model")
        seen = f"pictures go to {pictures}" if pictures else "it takes no pictures"
        return ReaderStatus(
            readiness=Readiness.READY, detail=f"OpenClaw asks {self.model or 'its model'}; {seen}."
        )

    async def read(self, question: Question) -> Reading:
        """Ask the gateway's model.

        If the provider refuses the key, the plug-in pauses and learns when the key is accepted
        again.

        Raises:
            NoAnswer: The model's reply is not an answer.
            ReaderUnavailable: The model could not be asked.
        """
        path = plugin_socket.find_socket(self._environ)
        try:
            answer: Mapping[str, Any] = await plugin_socket.ask_gateway(
                path,
                "read",
                _READ_SECONDS,
                instruction=question.instruction,
                parts=[
                    {"text": part}
                    if isinstance(part, str)
                    else {"jpeg": base64.b64encode(part).decode()}
                    for part in question.parts
                ],
                schema=dict(question.answer_schema),
                limit=_READ_SECONDS,
            )
        except plugin_socket.PluginNotListening as error:
            raise ReaderUnavailable(f"OpenClaw's gateway is away ({error}).") from error
        except plugin_socket.PluginRequestFailed as error:
            raise ReaderUnavailable(f"OpenClaw's model could not be asked: {error}.") from error
        return self._parse_reading(answer)

    def _parse_reading(self, answer: Mapping[str, Any]) -> Reading:
        if "unavailable" in answer:
            raise ReaderUnavailable(
                f"OpenClaw's model gave no answer: {_to_one_line(answer['unavailable'])}.",
                _parse_count(answer.get("retry")),
            )
        if "none" in answer:
            raise NoAnswer(
                f"OpenClaw's model gave no answer: {_to_one_line(answer['none'])}.",
                tokens_in=_parse_count(answer.get("tokens_in")),
                tokens_out=_parse_count(answer.get("tokens_out")),
                cost_usd=_parse_cost(answer.get("cost_usd")),
            )
        text = answer.get("text")
        if not isinstance(text, str):
            raise NoAnswer("OpenClaw's plug-in answered without an answer.")
        return Reading(
            answer=_strip_fence(text),
            reader=NAME,
            model=str(answer.get("model") or self.model),
            tokens_in=_parse_count(answer.get("tokens_in")),
            tokens_out=_parse_count(answer.get("tokens_out")),
            cost_usd=_parse_cost(answer.get("cost_usd")),
        )


def _strip_fence(text: str) -> str:
    """Remove the code fence that some models put around JSON."""
    bare = text.strip()
    if bare.startswith("```") and bare.endswith("```"):
        bare = bare.strip("`").removeprefix("json").strip()
    return bare


def _to_one_line(text: object) -> str:
    return " ".join(str(text).split())[:300].rstrip(".")


def _parse_count(value: object) -> int | None:
    if isinstance(value, bool) or not isinstance(value, int):
        return None
    return value if 0 <= value < _MOST_TOKENS else None


def _parse_cost(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return float(value) if 0 <= value < _MOST_DOLLARS else None


def _fetch_model_facts(path: Path) -> Mapping[str, Any]:
    """Ask the gateway about its model, without an event loop: it takes a millisecond.

    Raises:
        OSError: The gateway is not running.
        ValueError: The answer is not our plug-in's.
    """
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as link:
        link.settimeout(GLANCE_SECONDS)
        link.connect(os.fspath(path))
        link.sendall(b'{"ask": "reader"}\n')
        line = link.makefile("rb").readline(65_536)
    found: object = json.loads(line)
    if not isinstance(found, dict) or "failed" in found:
        raise ValueError("its plug-in is an older one; restart the gateway")
    return cast("dict[str, Any]", found)


def _describe_error(error: Exception) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    return str(error) if not isinstance(error, json.JSONDecodeError) else "it hung up"


def _read_configured_model(environ: Mapping[str, str]) -> str | None:
    """Return the model named in OpenClaw's configuration; None: none is named."""
    model = find_value(configuration.read_config(environ), ("agents", "defaults", "model"))
    named = model if isinstance(model, str) else find_value(model, ("primary",))
    return named if isinstance(named, str) else None
