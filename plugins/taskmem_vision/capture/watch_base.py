"""What the watches of a screen, a window and a part of the screen have in common."""

from __future__ import annotations

from datetime import UTC, datetime

from taskmem_hookspecs import Frame, TargetGone
from taskmem_vision.capture.change_events import PLACE, LookThrottle
from taskmem_vision.change.look import Look, LookHistory


class PictureWatch:
    """Plays `Watch`, but for what happens; a picture has no past to look at."""

    def __init__(self, note: str | None) -> None:
        """Take what there is to say of the target at the beginning."""
        self._note = note
        self._track = LookHistory()
        self._look: Look | None = None
        self._gone: str | None = None
        self._news = LookThrottle()

    async def here(self) -> Frame:
        """Return what is there now, with all that there is to know of it."""
        frame = await self._build_frame()
        if frame.gone is not None:
            raise TargetGone(frame.gone)
        notes = " ".join(filter(None, (self._note, frame.note)))
        return frame.model_copy(update={"note": notes or None})

    async def end(self) -> str:
        """Return where everybody looks from."""
        return PLACE

    async def look(self, place: str, start: str) -> Frame:
        """Return what is there now."""
        del place, start
        return await self._build_frame()

    async def _refresh_look(self) -> str | None:
        """Look if there may be anything new; return why there is nothing to be seen."""
        raise NotImplementedError

    @property
    def _text(self) -> str | None:
        """What the target is called; None: it has no name, or that is unknown."""
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
        """Keep a look, and note whether it shows anything new."""
        if look is not self._look:
            self._news.record_motion()
        self._look = look
