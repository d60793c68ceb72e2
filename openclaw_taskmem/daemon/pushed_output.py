"""Parse output that is pushed over the socket to a sensor."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final

from openclaw_taskmem.domain.conditions import targets
from taskmem_hookspecs import InvalidArguments, Output, Target

LARGEST_STATUS: Final = 65_535
"""Maximum exit status on any system."""


def parse_feed(params: Mapping[str, object]) -> tuple[Target, Output]:
    """Return the target and the piece of output in a `feed` call.

    Takes `target` as an agent writes it, and `text`, or `data` in base64; with `exit_status` if the
    command has ended.

    Raises:
        InvalidArguments: The parameters are not valid.
    """
    target, text, data, status = (
        params.get(name) for name in ("target", "text", "data", "exit_status")
    )
    if not isinstance(target, str):
        raise InvalidArguments("feed takes a target, such as pty:crisp-ridge.")
    if status is not None and (
        isinstance(status, bool) or not isinstance(status, int) or abs(status) > LARGEST_STATUS
    ):
        raise InvalidArguments(
            "exit_status must be a status, such as 0 or 1, minus the number of a "
            "signal, or left out."
        )
    return targets.parse_target(target), Output(data=_decode_bytes(text, data), exit_status=status)


def _decode_bytes(text: object, data: object) -> bytes:
    if isinstance(text, str):
        return text.encode(errors="replace")
    if isinstance(data, str):
        try:
            return base64.b64decode(data, validate=True)
        except (binascii.Error, ValueError):
            raise InvalidArguments("data is no base64; send text instead.") from None
    if text is None and data is None:
        return b""
    raise InvalidArguments("feed takes text, or data in base64.")
