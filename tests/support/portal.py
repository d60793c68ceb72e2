"""A desktop's portal that a test plays, on a session bus of its own."""

from __future__ import annotations

import os
import socket
import subprocess
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import Self

from jeepney import (
    DBusAddress,
    HeaderFields,
    MessageType,
    message_bus,
    new_error,
    new_method_return,
    new_signal,
)
from jeepney.io.blocking import open_dbus_connection
from PIL import Image

from tests.support.processes import bind_command, end
from tests.support.waiting import PATIENCE

CAST = "org.freedesktop.portal.ScreenCast"
BACKGROUND = 0x202020

_GSTREAMER = """#!/bin/sh
# Gives the picture of a monitor, if it was given a connection to PipeWire and the monitor's number.
read -r sent && [ "$sent" = pipewire ] || exit 1
exec cat "{folder}/$(echo "$*" | sed 's/.*path=\\([0-9]*\\) .*/\\1/').png"
"""


class Portal:
    """What shares screens, with one user who answers as the test says; runs within `with`."""

    def __init__(self, *, serves: bool = True) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="tmp"))
        self.answer: int | None = 0
        """The user's next answer: 0 yes, 1 no, 2 the desktop fails; None: the user is away."""
        self.answers = True
        """False: it hangs."""
        self.asked = 0
        """How often the user was asked."""
        self.sessions: list[str] = []
        """Those that are open."""
        self.monitors = {41: (0, BACKGROUND)}
        """Their numbers; where each is, and its colour."""
        self._serves = serves
        self._tokens = 0
        self._token = ""
        self._restores = ""
        self._pending: tuple | None = None
        self._kept: list[socket.socket] = []

    def __enter__(self) -> Self:
        self._daemon = subprocess.Popen(
            bind_command("dbus-daemon", "--session", "--nofork", "--print-address", "--nopidfile"),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self.address = self._daemon.stdout.readline().decode().strip()
        (self.folder / "gst-launch-1.0").write_text(_GSTREAMER.format(folder=self.folder))
        (self.folder / "gst-launch-1.0").chmod(0o755)
        self._bus = open_dbus_connection(self.address, enable_fds=True)
        self._turn = threading.Lock()
        if self._serves:
            self._bus.send_and_get_reply(message_bus.RequestName("org.freedesktop.portal.Desktop"))
            self._thread = threading.Thread(target=self._serve, daemon=True)
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        end(self._daemon)
        self._daemon.stdout.close()
        if self._serves:
            self._thread.join(PATIENCE)
        self._bus.close()
        for each in self._kept:
            each.close()

    @property
    def environ(self) -> dict[str, str]:
        """The environment of a daemon in that desktop."""
        return {
            "WAYLAND_DISPLAY": "wayland-0",
            "XDG_CURRENT_DESKTOP": "GNOME",
            "XDG_RUNTIME_DIR": str(self.folder),
            "DBUS_SESSION_BUS_ADDRESS": self.address,
            "TASKMEM_HOME": str(self.folder),
            "PATH": f"{self.folder}:{os.environ['PATH']}",
        }

    def paint(self, colour: int, node: int = 41) -> None:
        """Show a colour on a monitor."""
        self.monitors[node] = (self.monitors[node][0], colour)

    def decide(self, answer: int) -> None:
        """Have the user, who was away, answer."""
        with self._turn:
            self.answer = answer
            assert self._pending is not None
            self._respond(*self._pending)

    def forget_tokens(self) -> None:
        """Have all tokens expire."""
        self._token = ""

    def stop_sharing(self) -> None:
        """Have the user end all sessions."""
        self.sessions.clear()

    def _serve(self) -> None:
        with suppress(ConnectionError, OSError):
            while True:
                message = self._bus.receive()
                if message.header.message_type is MessageType.method_call and self.answers:
                    with self._turn:
                        self._handle(message)

    def _handle(self, message) -> None:
        fields = message.header.fields
        match fields[HeaderFields.member], message.body:
            case "CreateSession", (options,):
                session = f"/session/{options['session_handle_token'][1]}"
                self.sessions.append(session)
                self._reply(message, options, 0, {"session_handle": ("s", session)})
            case "SelectSources", (_, options):
                assert options["types"] == ("u", 1)
                assert options["persist_mode"] == ("u", 2)
                self._restores = options.get("restore_token", ("s", ""))[1]
                self._reply(message, options, 0, {})
            case "Start", (session, _, options):
                self._start(message, session, options)
            case "OpenPipeWireRemote", (session, _):
                if session in self.sessions:
                    self._open(message)
                else:
                    self._bus.send(new_error(message, "org.freedesktop.DBus.Error.AccessDenied"))
            case "Close", _ if fields[HeaderFields.path] in self.sessions:
                self.sessions.remove(fields[HeaderFields.path])

    def _start(self, message, session, options) -> None:
        restored = self._token and self._restores == self._token
        self.asked += not restored
        self._pending = (message, options, restored)
        self._bus.send(new_method_return(message, "o", (self._handle_of(message, options),)))
        if restored or self.answer is not None:
            self._respond(message, options, restored)

    def _respond(self, message, options, restored) -> None:
        status = 0 if restored else self.answer
        results = {}
        if status == 0:
            self._tokens += 1
            self._token = f"token-{self._tokens}"
            streams = [
                (node, {"position": ("(ii)", (left, 0))})
                for node, (left, _) in self.monitors.items()
            ]
            results = {"streams": ("a(ua{sv})", streams), "restore_token": ("s", self._token)}
        self._signal(message, options, status, results)

    def _open(self, message) -> None:
        for node, (_, colour) in self.monitors.items():
            shade = (colour >> 16, colour >> 8 & 255, colour & 255)
            Image.new("RGB", (40, 30), shade).save(self.folder / f"{node}.png")
        ours, theirs = socket.socketpair()
        ours.sendall(b"pipewire\n")
        self._kept.append(ours)
        self._bus.send(new_method_return(message, "h", (theirs,)))
        theirs.close()

    def _reply(self, message, options, status, results) -> None:
        self._bus.send(new_method_return(message, "o", (self._handle_of(message, options),)))
        self._signal(message, options, status, results)

    def _signal(self, message, options, status, results) -> None:
        path = self._handle_of(message, options)
        emitter = DBusAddress(path, interface="org.freedesktop.portal.Request")
        self._bus.send(new_signal(emitter, "Response", "ua{sv}", (status, results)))

    def _handle_of(self, message, options) -> str:
        sender = message.header.fields[HeaderFields.sender][1:].replace(".", "_")
        token = options["handle_token"][1]
        return f"/org/freedesktop/portal/desktop/request/{sender}/{token}"
