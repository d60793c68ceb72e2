"""Wakes by the plug-in in the gateway: in milliseconds, and seen to arrive.

The wake's text is put before the session's next turn, where it survives a restart, and
a turn is started; the plug-in reports when one has taken it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

from taskmem_hookspecs import (
    Wake,
    WakeCause,
    WakeReceipt,
    WakeRefused,
    WakeUndelivered,
)
from taskmem_openclaw import door

PATIENCE: Final = 8.0
"""Seconds that a plug-in which is loaded anew may be away."""


class OpenClawPlugin:
    """Hands wakes to the gateway through our own plug-in in it."""

    name = "openclaw-plugin"

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        seconds: float = door.SECONDS,
        patience: float = PATIENCE,
    ) -> None:
        """Take the environment, and times in seconds.

        Args:
            environ: Where the state folder is named.
            seconds: How long one delivery may take.
            patience: How long a plug-in that was there before may be away.
        """
        self._environ = environ
        self._seconds = seconds
        self._patience = patience
        self._was_there = False

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Put a wake before the next turn of its session, and start one.

        Raises:
            NotThere: No gateway with the plug-in listens.
            WakeUndelivered: It was not done, or an earlier wake waits there still.
            WakeRefused: There is no such session.
        """
        try:
            answer = await self._asked(wake)
        except door.NobodyHome as error:
            said = str(error)
            raise NotThere(
                f"{said[:1].upper()}{said[1:]}; see: taskmem doctor."
            ) from error
        except door.Failed as error:
            raise WakeUndelivered(f"The plug-in did not take it: {error}.") from error
        if "refused" in answer:
            raise WakeRefused(f"{answer['refused']} Register the task in a living one.")
        if "waits_for" in answer:
            raise WakeUndelivered(
                "An earlier wake of the session still waits for its turn "
                f"({answer['waits_for']}); this one follows it."
            )
        how = str(answer.get("turn"))
        return WakeReceipt(
            delivered_at=datetime.now(UTC),  # noqa: TID251
            note=None if how == "ordinary" else f"turn: {how}",
        )

    async def _asked(self, wake: Wake) -> Mapping[str, Any]:
        path = door.path(self._environ)
        if self._was_there:
            # It is away for a moment while it is loaded anew.
            await door.opened(path, self._patience)
        try:
            answer: Mapping[str, Any] = await door.ask(
                path,
                "wake",
                self._seconds,
                session_key=wake.session_key,
                key=wake.key,
                delivery_id=wake.delivery_id,
                text=wake.text,
                message=message(wake),
            )
        except door.NobodyHome:
            self._was_there = False
            raise
        except door.Failed:
            self._was_there = True
            raise
        self._was_there = True
        return answer


class NotThere(WakeUndelivered):
    """This way to the gateway is not there; another one may be."""


MARK: Final = "[taskmem]"
"""How the turns that wakes start begin, in the session's history."""


def message(wake: Wake) -> str:
    """Return what starts the turn: it stays in the history, where the wake does not.

    Should the gateway be cut off in that turn and resume it, this is what is left.
    """
    if wake.cause is WakeCause.STUCK:
        return (
            f"{MARK} Your task {wake.task_id} has gone silent. Carry on with it as the "
            "packet above says; where there is none, ask with task_update and a query."
        )
    about = f" of task {wake.task_id}" if wake.task_id else ""
    return (
        f"{MARK} Your wait {wake.wait_id}{about} has ended, as the line above says. "
        "Carry on with your work."
    )
