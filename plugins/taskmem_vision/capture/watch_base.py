"""Common base of the watches of screens and windows."""

from __future__ import annotations

from datetime import UTC, datetime

from taskmem_hookspecs import Frame, TargetGone
from taskmem_vision.capture.change_events import PLACE, LookThrottle
from taskmem_vision.change.look import Look, LookHistory


class PictureWatch:
    """`Watch` without `wait_for_change` and `close`, which subclasses add; it has one place."""

    def __init__(self, note: str | None) -> None:
        """Set the note about the target for the first frame; None: none."""
        self._note = note
        self._track = LookHistory()
        self._look: Look | None = None
        self._gone: str | None = None
        self._throttle = LookThrottle()

    async def here(self) -> Frame:
        """Return the current frame, with the note about the target.

        Raises:
            TargetGone: The target went away.
        """
        frame = await self._build_frame()
        if frame.gone is not None:
            raise TargetGone(frame.gone)
        notes = " ".join(filter(None, (self._note, frame.note)))
        return frame.model_copy(update={"note": notes or None})

    async def end(self) -> str:
        """Return the only place."""
        return PLACE

    async def look(self, place: str, start: str) -> Frame:
        """Return the current frame."""
        del place, start
        return await self._build_frame()

    async def _refresh_look(self) -> str | None:
        """Look if something may be new; return why nothing can be seen."""
        raise NotImplementedError

    @property
    def _text(self) -> str | None:
        """The target's titles; None: it has no name, or it is unknown."""
        return None

    async def _build_frame(self) -> Frame:
        note = await self._refresh_look()
        return Frame(
            seen_at=datetime.now(UTC),  # noqa: TID251
            place=PLACE,
            text=self._text,
            picture=self._look,
            note=note,
            gone=self._gone,
        )

    def _keep_look(self, look: Look) -> None:
        """Store a look, and record whether it shows something new."""
        if look is not self._look:
            self._throttle.record_motion()
        self._look = look
