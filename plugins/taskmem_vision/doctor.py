"""Check of `taskmem doctor`: which display is watched, and what reads its text."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator, Iterable, Mapping

from taskmem_hookspecs import Checkup, DoctorRow, DoctorState, NoProvider
from taskmem_vision.desktop import Desktop, find_screen_display
from taskmem_vision.ocr import RapidOcr, Tesseract
from taskmem_vision.portal import find_gstreamer
from taskmem_vision.sensor import list_sockets
from taskmem_vision.wayland import NoSight, find_grim


class ScreenCheck:
    """`DoctorCheck` of the display and of text recognition."""

    name = "screen"
    costs = False

    async def look(self, checkup: Checkup) -> AsyncIterator[DoctorRow]:
        """Yield a row on the display, and one on what reads its text."""
        del checkup
        display = find_display(os.environ, sys.platform, list_sockets(os.environ))
        yield check_display(display)
        engine = "tesseract" if Tesseract.find() else "rapidocr" if RapidOcr.find() else None
        yield check_text(engine, has_display=isinstance(display, Desktop))


def find_display(
    environ: Mapping[str, str], platform: str, sockets: Iterable[str]
) -> Desktop | NoProvider:
    """Return the display that would be watched, or why none can be."""
    try:
        found = find_screen_display(environ, platform, sockets)
        if found.is_wayland:
            try:
                find_grim(environ)
            except NoSight:
                find_gstreamer(environ)
    except NoProvider as error:
        return error
    return found


def check_display(display: Desktop | NoProvider) -> DoctorRow:
    """Return the row on the display. That there is none is no fault: a server has none."""
    if isinstance(display, Desktop):
        where = f"display {display.name}" if display.name else "this machine"
        seen = "The screen" if display.is_wayland else "Windows and the screen"
        detail = f"{seen} of {where} can be watched."
    else:
        detail = f"No screen can be watched. {display}"
    state = DoctorState.OK if isinstance(display, Desktop) else DoctorState.OFF
    return DoctorRow(id="screen.display", state=state, detail=detail)


def check_text(engine: str | None, *, has_display: bool) -> DoctorRow:
    """Return the row on text recognition; `engine`: what reads text, None if nothing does."""
    if engine is not None:
        detail = f"Text on windows and the screen is read by {engine}, on this machine."
        return DoctorRow(id="screen.text", state=DoctorState.OK, detail=detail)
    return DoctorRow(
        id="screen.text",
        state=DoctorState.WARN if has_display else DoctorState.OFF,
        detail="Nothing on this machine reads text on windows and the screen.",
        effect="Waits for words on them need a model." if has_display else None,
        cure="Install tesseract-ocr, or openclaw-taskmem[ocr], and run: taskmem daemon restart"
        if has_display
        else None,
    )
