"""A screen that a desktop's portal shares: asked once, kept, refused, and gone."""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from taskmem_hookspecs import Target, Watch
from taskmem_hookspecs.errors import NoProvider
from taskmem_vision import picture_watch, portal
from taskmem_vision.sensor import ScreenSensor
from tests.plugins.vision.papers import BLUE, GREEN, RED, await_frame, colours
from tests.support.portal import BACKGROUND, Portal
from tests.support.required import do_without
from tests.support.waiting import until

SCREEN = Target(scheme="screen", name="")


@pytest.fixture
def desktop(monkeypatch: pytest.MonkeyPatch) -> Iterator[Portal]:
    if shutil.which("dbus-daemon") is None:
        do_without("dbus-daemon: not installed")
    monkeypatch.setattr(picture_watch, "POLL_GAP", 0.05)
    with Portal() as found:
        yield found


@asynccontextmanager
async def share_screen(desktop: Portal, found: ScreenSensor | None = None) -> AsyncIterator[Watch]:
    watch = await (found or ScreenSensor(desktop.environ, "linux")).watch(SCREEN)
    try:
        yield watch
    finally:
        await watch.close()


async def refusal(desktop: Portal, found: ScreenSensor | None = None, **environ: str) -> str:
    sensor = found or ScreenSensor({**desktop.environ, **environ}, "linux")
    with pytest.raises(NoProvider) as refused:
        await sensor.watch(SCREEN)
    return str(refused.value)


async def test_a_shared_screen_is_seen_and_no_longer_shared_afterwards(desktop):
    async with share_screen(desktop) as watch:
        assert colours(await watch.here()) == {BACKGROUND}
        desktop.paint(GREEN)
        await await_frame(watch, lambda frame: colours(frame) == {GREEN})
    until(lambda: not desktop.sessions, "the session is closed")


async def test_all_monitors_are_seen_side_by_side(desktop):
    desktop.monitors = {7: (1920, RED), 8: (0, BLUE)}
    async with share_screen(desktop) as watch:
        picture = (await watch.here()).picture
    assert picture.size == (80, 30)
    assert picture.image.getpixel((0, 0)) == (0x10, 0x30, 0xC0)
    assert picture.image.getpixel((79, 0)) == (0xD0, 0x20, 0x10)


async def test_the_user_is_asked_once_and_the_token_is_kept_private(desktop):
    for _ in range(3):
        async with share_screen(desktop):
            pass
    assert desktop.asked == 1
    token = desktop.folder / portal.TOKEN_FILE
    assert token.read_text() == "token-3"
    assert token.stat().st_mode & 0o777 == 0o600


async def test_a_token_that_has_expired_is_asked_for_again(desktop):
    async with share_screen(desktop):
        pass
    desktop.forget_tokens()
    async with share_screen(desktop):
        pass
    assert desktop.asked == 2


async def test_a_user_who_is_away_is_asked_once_and_may_answer_later(desktop, monkeypatch):
    monkeypatch.setattr(portal, "ANSWER_SECONDS", 0.05)
    desktop.answer = None
    found = ScreenSensor(desktop.environ, "linux")
    for _ in range(2):
        assert "asks the user now" in await refusal(desktop, found)
    until(lambda: desktop.asked, "the user is asked")
    monkeypatch.undo()
    desktop.decide(0)
    async with share_screen(desktop, found) as watch:
        assert (await watch.here()).picture is not None
    assert desktop.asked == 1


async def test_an_answer_that_nobody_waits_for_shares_nothing(desktop, monkeypatch):
    monkeypatch.setattr(portal, "ANSWER_SECONDS", 0.05)
    monkeypatch.setattr(portal, "_UNUSED_SECONDS", 0.05)
    desktop.answer = None
    found = ScreenSensor(desktop.environ, "linux")
    await refusal(desktop, found)
    until(lambda: desktop.asked, "the user is asked")
    desktop.decide(0)
    until(lambda: not desktop.sessions, "the session is closed")
    monkeypatch.undo()
    async with share_screen(desktop, found) as watch:
        assert (await watch.here()).picture is not None


async def test_a_user_who_refused_is_not_asked_again(desktop):
    desktop.answer = 1
    found = ScreenSensor(desktop.environ, "linux")
    for _ in range(2):
        assert "refused to share the screen" in await refusal(desktop, found)
    assert desktop.asked == 1


async def test_a_user_who_stops_sharing_is_obeyed_and_asked_anew(desktop):
    async with share_screen(desktop) as watch:
        await watch.here()
        desktop.stop_sharing()
        frame = await await_frame(watch, lambda frame: frame.picture is None)
        assert "The user stopped sharing the screen" in frame.note
    async with share_screen(desktop):
        pass
    assert desktop.asked == 2


async def test_a_desktop_that_fails_is_told_of_and_asked_again(desktop):
    desktop.answer = 2
    found = ScreenSensor(desktop.environ, "linux")
    assert "ended Start with 2" in await refusal(desktop, found)
    desktop.answer = 0
    async with share_screen(desktop, found):
        pass


async def test_a_portal_that_hangs_is_told_of(desktop, monkeypatch):
    monkeypatch.setattr(portal, "CALL_SECONDS", 0.2)
    desktop.answers = False
    refused = await refusal(desktop)
    assert "the portal does not answer" in refused


async def test_a_picture_that_does_not_come_is_noted(desktop, monkeypatch):
    async with share_screen(desktop) as watch:
        await watch.here()
        (desktop.folder / "gst-launch-1.0").write_text("#!/bin/sh\nexit 1\n")
        frame = await await_frame(watch, lambda frame: frame.picture is None)
        assert "GStreamer read no picture" in frame.note


async def test_without_gstreamer_it_says_what_to_install_first(desktop, tmp_path: Path):
    refused = await refusal(desktop, PATH=str(tmp_path))
    assert "apt install gstreamer1.0-tools" in refused
    assert desktop.asked == 0


async def test_without_a_portal_it_says_what_to_install(desktop, tmp_path: Path):
    with Portal(serves=False) as bare:
        assert "(the portal answers ServiceUnknown): on GNOME apt install" in await refusal(bare)
    nowhere = f"unix:path={tmp_path}/bus"
    assert "no session bus" in await refusal(desktop, DBUS_SESSION_BUS_ADDRESS=nowhere)


async def test_private_windows_forbid_a_shared_screen(desktop):
    refused = await refusal(desktop, TASKMEM_PRIVATE_WINDOWS="bank")
    assert "cannot be kept to" in refused
    assert desktop.asked == 0
