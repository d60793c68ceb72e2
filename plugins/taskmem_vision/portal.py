"""The screen as a desktop's portal shares it, where grim sees nothing: GNOME and KDE.

The portal (org.freedesktop.portal.ScreenCast) asks the user once, and gives a token with which it
asks no more; each token serves once, and brings the next one. The pictures come by PipeWire, and
GStreamer reads one for each look. While a screen is shared, the desktop shows a mark.

Source: https://flatpak.github.io/xdg-desktop-portal/docs/doc-org.freedesktop.portal.ScreenCast.html
"""

from __future__ import annotations

import asyncio
import io
import itertools
import os
import shutil
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any, Final, NamedTuple

from PIL import Image

from taskmem_hookspecs.errors import NoProvider
from taskmem_program.files import replace_file
from taskmem_vision.desktop import DisplayGone
from taskmem_vision.gemini import remove_keys
from taskmem_vision.programs import run_program
from taskmem_vision.sway import WindowTree
from taskmem_vision.text_lines import to_one_line

ANSWER_SECONDS: Final = 6.0
"""How long a wait that begins waits for the user's answer. Seconds."""
CALL_SECONDS: Final = 4.0
"""Time limit for what the portal answers by itself. Seconds."""
_DIALOG_SECONDS: Final = 300.0
"""How long the user may take to answer. Seconds."""
_UNUSED_SECONDS: Final = 120.0
"""How long a screen stays shared for a wait that was told to begin again. Seconds."""
_PICTURE_SECONDS: Final = 5.0
_MOST_BYTES: Final = 1 << 28
_SAID_CHARACTERS: Final = 200
TOKEN_FILE: Final = "screencast-token"  # noqa: S105 - a name
"""File in the home with the token."""

_PORTAL: Final = "org.freedesktop.portal.Desktop"
_PATH: Final = "/org/freedesktop/portal/desktop"
_CAST: Final = "org.freedesktop.portal.ScreenCast"
_SESSION: Final = "org.freedesktop.portal.Session"
_REQUEST: Final = "org.freedesktop.portal.Request"
_MONITORS, _UNTIL_REVOKED = 1, 2
_SUCCESS, _DENIAL = 0, 1
_GONE_SESSION: Final = ("AccessDenied", "InvalidArgs", "UnknownObject", "UnknownMethod")
"""Errors of a session that was closed."""

_NO_PORTAL: Final = (
    "This Wayland session shows grim nothing, and xdg-desktop-portal does not share its screen "
    "({}): on GNOME apt install xdg-desktop-portal-gnome, on KDE xdg-desktop-portal-kde, and log "
    "in again; elsewhere log in to an X11 session, or wait on a terminal: pty:NAME."
)
_NO_GSTREAMER: Final = (
    "The screen of GNOME and KDE is read by GStreamer, which is not installed: apt install "
    "gstreamer1.0-tools gstreamer1.0-pipewire gstreamer1.0-plugins-good, and run: taskmem daemon "
    "restart."
)
_QUESTION_OPEN: Final = (
    "The desktop asks the user now whether the screen may be shared; when that is answered (with "
    "all monitors, and to be remembered), begin this wait again."
)
_REFUSAL: Final = (
    "The user refused to share the screen; to be asked again, run: taskmem daemon restart."
)
_SHARING_END: Final = "The user stopped sharing the screen; the next wait on it asks again."


class SharingRefused(NoProvider):
    """The user refused, or ended it: nobody asks again."""


class _Monitor(NamedTuple):
    """A monitor that is shared."""

    left: int
    node: int
    """Its number in PipeWire."""


class ScreenCast:
    """A session of the portal; every call but `close` may block, and raise `DisplayGone`."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Connect to the portal.

        Raises:
            NoProvider: There is none.
        """
        self._environ = environ
        self._numbers = itertools.count(1)
        self._jeepney: Any = import_module("jeepney")
        blocking: Any = import_module("jeepney.io.blocking")
        folder = environ.get("XDG_RUNTIME_DIR") or f"/run/user/{os.getuid()}"
        bus = environ.get("DBUS_SESSION_BUS_ADDRESS") or f"unix:path={folder}/bus"
        try:
            self._bus: Any = blocking.open_dbus_connection(bus, enable_fds=True)
        except Exception as error:
            reason = to_one_line(f"no session bus: {error}", _SAID_CHARACTERS)
            raise NoProvider(_NO_PORTAL.format(reason)) from error
        self._session = ""
        self._monitors: tuple[_Monitor, ...] = ()

    def start(self) -> None:
        """Have the screen shared; the user may be asked.

        Raises:
            NoProvider: There is no portal that shares screens, or GStreamer is not installed.
            SharingRefused: The user does not want it.
        """
        name = f"taskmem{os.getpid()}"
        try:
            made = self._request("CreateSession", "a{sv}", {"session_handle_token": ("s", name)})
        except DisplayGone as gone:
            raise NoProvider(_NO_PORTAL.format(str(gone).rstrip("."))) from gone
        self._session = str(made["session_handle"][1])
        find_gstreamer(self._environ)
        told: dict[str, tuple[str, object]] = {
            "types": ("u", _MONITORS),
            "multiple": ("b", True),
            "persist_mode": ("u", _UNTIL_REVOKED),
        }
        if token := self._read_token():
            told["restore_token"] = ("s", token)
        self._request("SelectSources", "oa{sv}", told, self._session)
        begun = self._request("Start", "osa{sv}", {}, self._session, "", seconds=_DIALOG_SECONDS)
        if "restore_token" in begun:
            self._write_token(str(begun["restore_token"][1]))
        monitors = (
            _Monitor(dict(facts).get("position", ("", (0, 0)))[1][0], int(node))
            for node, facts in begun["streams"][1]
        )
        self._monitors = tuple(sorted(monitors))

    @property
    def nodes(self) -> list[int]:
        """The numbers of the monitors in PipeWire, from the left."""
        return [each.node for each in self._monitors]

    def open_pipewire(self) -> int:
        """Return a connection to PipeWire that sees the monitors, and nothing else.

        Raises:
            SharingRefused: The user has stopped it.
        """
        try:
            (handle,) = self._call("OpenPipeWireRemote", "oa{sv}", self._session, {})
        except SharingRefused:
            # The token would share it again without a question.
            self._write_token("")
            raise
        return int(handle.to_raw_fd())

    def close(self) -> None:
        """Share the screen no longer."""
        with suppress(Exception):
            address = self._jeepney.DBusAddress(self._session, _PORTAL, _SESSION)
            self._bus.send(self._jeepney.new_method_call(address, "Close"))
        self._bus.close()

    # --- the bus ------------------------------------------------------------

    def _request(
        self,
        method: str,
        signature: str,
        options: Mapping[str, tuple[str, object]],
        *first: str,
        seconds: float = 0,
    ) -> dict[str, Any]:
        """Call a method whose answer comes as a signal, once the user has decided."""
        token = f"taskmem{os.getpid()}_{next(self._numbers)}"
        sender = self._bus.unique_name[1:].replace(".", "_")
        rule = self._jeepney.MatchRule(
            type="signal",
            interface=_REQUEST,
            member="Response",
            path=f"{_PATH}/request/{sender}/{token}",
        )
        self._ask(self._jeepney.message_bus.AddMatch(rule))
        with self._bus.filter(rule) as answers:
            self._call(method, signature, *first, {**options, "handle_token": ("s", token)})
            try:
                answer = self._bus.recv_until_filtered(answers, timeout=seconds or CALL_SECONDS)
            except TimeoutError:
                raise DisplayGone(f"the portal does not answer {method}.") from None
            except OSError as error:
                raise DisplayGone("the session bus is gone.") from error
        status, results = answer.body
        if status == _DENIAL:
            raise SharingRefused(_REFUSAL)
        if status != _SUCCESS:
            raise DisplayGone(f"the portal ended {method} with {status}.")
        return dict(results)

    def _call(self, method: str, signature: str, *values: object) -> Any:  # noqa: ANN401
        address = self._jeepney.DBusAddress(_PATH, _PORTAL, _CAST)
        return self._ask(self._jeepney.new_method_call(address, method, signature, values))

    def _ask(self, message: Any) -> Any:  # noqa: ANN401
        """Return what is answered to a call.

        Raises:
            SharingRefused: The session is closed.
            DisplayGone: The portal does not answer, or says why it does not.
        """
        try:
            reply = self._bus.send_and_get_reply(message, timeout=CALL_SECONDS)
        except TimeoutError:
            raise DisplayGone("the portal does not answer.") from None
        except OSError as error:
            raise DisplayGone("the session bus is gone.") from error
        if reply.header.message_type == self._jeepney.MessageType.error:
            fields = self._jeepney.HeaderFields
            error_name = str(reply.header.fields[fields.error_name]).rpartition(".")[2]
            if self._monitors and error_name in _GONE_SESSION:
                raise SharingRefused(_SHARING_END)
            raise DisplayGone(f"the portal answers {error_name}.")
        return reply.body

    # --- the token ----------------------------------------------------------

    def _read_token(self) -> str | None:
        path = self._find_token_file()
        with suppress(OSError, UnicodeDecodeError):
            return path.read_text().strip() if path else None
        return None

    def _write_token(self, token: str) -> None:
        # Without it, the user is asked next time.
        if path := self._find_token_file():
            with suppress(OSError):
                replace_file(path, token.encode())

    def _find_token_file(self) -> Path | None:
        home = self._environ.get("TASKMEM_HOME")
        return Path(home, TOKEN_FILE) if home else None


class SharingRequest:
    """A session that is being opened, by a thread of its own: the user may take minutes."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        """Begin to ask."""
        self._opened: Future[ScreenCast] = Future()
        self._taken = threading.Event()
        self._expired = False
        threading.Thread(target=self._open, args=(environ,), daemon=True).start()

    @property
    def has_failed(self) -> bool:
        """True if it ended without a session, and may be tried again."""
        error = self._opened.exception() if self._opened.done() else None
        return self._expired or (error is not None and not isinstance(error, SharingRefused))

    async def take(self) -> ScreenCast:
        """Return the session.

        Raises:
            NoProvider: There is none yet; the message says why.
        """
        waiting = asyncio.wrap_future(self._opened)
        waiting.add_done_callback(lambda done: done.cancelled() or done.exception())
        try:
            found = await asyncio.wait_for(asyncio.shield(waiting), ANSWER_SECONDS)
        except TimeoutError:
            raise NoProvider(_QUESTION_OPEN) from None
        self._taken.set()
        return found

    def _open(self, environ: Mapping[str, str]) -> None:
        cast: ScreenCast | None = None
        try:
            cast = ScreenCast(environ)
            cast.start()
        except Exception as error:  # noqa: BLE001 - whoever waits is told
            if cast is not None:
                cast.close()
            gone = isinstance(error, NoProvider | DisplayGone)
            self._opened.set_exception(error if gone else DisplayGone(f"the portal fails: {error}"))
            return
        self._opened.set_result(cast)
        if not self._taken.wait(_UNUSED_SECONDS):
            self._expired = True
            cast.close()


class PortalDisplay:
    """A screen that the portal shares; it plays the part of a Wayland display."""

    def __init__(self, cast: ScreenCast, environ: Mapping[str, str]) -> None:
        """Set the session, and the environment of the daemon."""
        self._cast = cast
        self._environ = remove_keys(environ)

    async def find_sway(self) -> None:
        """Return None: it is no sway's."""

    async def read_tree(self) -> WindowTree:
        """Raise `DisplayGone`: the portal tells nothing of windows."""
        raise DisplayGone("the portal tells nothing of windows.")

    async def read_pixels(self) -> Image.Image:
        """Return what the monitors show, side by side, in RGB.

        Raises:
            DisplayGone: It cannot be read now.
            NoProvider: It is shared no longer.
        """
        pictures = [await self._read_monitor(each) for each in self._cast.nodes]
        canvas = Image.new(
            "RGB",
            (sum(each.width for each in pictures), max(each.height for each in pictures)),
        )
        left = 0
        for each in pictures:
            canvas.paste(each, (left, 0))
            left += each.width
        return canvas

    async def _read_monitor(self, node: int) -> Image.Image:
        command = (
            *(find_gstreamer(self._environ), "-q", "pipewiresrc", "fd=0", f"path={node}"),
            *("num-buffers=1", "!", "videoconvert", "!", "pngenc", "compression-level=1"),
            *("!", "fdsink", "fd=1"),
        )
        handle = await asyncio.to_thread(self._cast.open_pipewire)
        try:
            async with asyncio.timeout(_PICTURE_SECONDS):
                printed = await run_program(
                    command, self._environ, most_bytes=_MOST_BYTES, stdin=handle
                )
            return Image.open(io.BytesIO(printed.output)).convert("RGB")
        except TimeoutError:
            raise DisplayGone(f"GStreamer read no picture within {_PICTURE_SECONDS:g} s.") from None
        except (OSError, ValueError) as error:
            raise DisplayGone("GStreamer read no picture.") from error
        finally:
            os.close(handle)

    def close(self) -> None:
        """Share the screen no longer."""
        self._cast.close()


def find_gstreamer(environ: Mapping[str, str]) -> str:
    """Return the path of the program that reads a picture.

    Raises:
        NoProvider: It is not installed.
    """
    found = shutil.which("gst-launch-1.0", path=environ.get("PATH"))
    if found is None:
        raise NoProvider(_NO_GSTREAMER)
    return found
