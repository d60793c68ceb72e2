"""One control mode client of tmux, which hears a session and asks about it.

It reads only: it has no size, so no window is resized for it, and it sends no keys.
Answers and output come in one stream, in the order in which they happened; so what an
answer says is true between the output before it and the output behind it.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
from asyncio.subprocess import PIPE, Process
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

_GULP_BYTES: Final = 65_536
_ANSWER_SECONDS: Final = 5.0
_ESCAPED: Final = re.compile(rb"\\([0-7]{3})")
_CHANGES: Final = frozenset(
    {
        *(b"%layout-change", b"%window-close", b"%unlinked-window-close"),
        *(b"%window-add", b"%sessions-changed", b"%session-changed"),
        *(b"%window-pane-changed", b"%client-detached", b"%pane-mode-changed"),
    }
)

Answer = list[list[bytes]]
"""The lines that each of the commands printed which were asked together."""
Then = Callable[[Answer], None]
"""Called with an answer before any output behind it is handed on."""


class TmuxSaid(Exception):
    """What tmux answered instead of doing as it was asked."""


class _Question(NamedTuple):
    parts: int
    blocks: Answer
    answer: asyncio.Future[Answer]
    then: Then | None


def environment() -> list[str]:
    """Return the command that reaches the user's tmux server.

    `TASKMEM_TMUX_SOCKET` is the path of another server's socket; otherwise tmux itself
    goes by TMUX and TMUX_TMPDIR.
    """
    socket = os.environ.get("TASKMEM_TMUX_SOCKET")
    return ["tmux", *(["-S", socket] if socket else [])]


async def ask_once(*arguments: str) -> str:
    """Return what a tmux command prints.

    Raises:
        TmuxSaid: It failed, with its own words; empty ones when it hung.
        FileNotFoundError: There is no tmux.
    """
    process = await asyncio.create_subprocess_exec(
        *environment(), *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE,
        stderr=PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            out, trouble = await process.communicate()
    except TimeoutError:
        raise TmuxSaid("") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise TmuxSaid(trouble.decode(errors="replace").strip())
    return out.decode(errors="replace")


class Client:
    """Hears one session."""

    def __init__(self, session: str, process: Process, hearer: Hearer) -> None:
        self.session = session
        """Its id, such as `$1`."""
        self._process = process
        self._hearer = hearer
        self._questions: deque[_Question] = deque()
        self._lines: list[bytes] | None = None
        self._number = b""
        self._attached: asyncio.Future[Answer] = (
            asyncio.get_running_loop().create_future()
        )
        self._questions.append(_Question(1, [], self._attached, None))
        self._yielding: asyncio.Task[None] | None = None
        self._task = asyncio.create_task(self._hear())

    @classmethod
    async def attach(cls, session: str, hearer: Hearer) -> Client:
        """Begin to hear a session.

        Raises:
            TmuxSaid: It cannot be attached to.
        """
        version = await ask_once("-V")
        found = re.search(r"(\d+)\.(\d+)", version)
        old = found is not None and (int(found[1]), int(found[2])) < (3, 2)
        flags = [] if old else ["-f", "read-only,ignore-size"]
        process = await asyncio.create_subprocess_exec(
            # -E: the session keeps its own environment, not the daemon's.
            *environment(), "-C", "attach-session", "-E", "-t", session, *flags,
            stdin=PIPE, stdout=PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        client = cls(session, process, hearer)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await asyncio.shield(client._attached)
        except (TimeoutError, TmuxSaid):
            await client.leave()
            raise TmuxSaid(f"cannot attach to {session}") from None
        return client

    @property
    def alive(self) -> bool:
        """Whether it still hears."""
        return not self._task.done()

    async def ask(self, *commands: str, then: Then | None = None) -> Answer:
        """Return the lines that tmux commands print, between which nothing happens.

        Raises:
            TmuxSaid: It failed, or the client is gone.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if not self.alive or self._process.stdin is None:
            raise TmuxSaid("the client is gone")
        self._questions.append(_Question(len(commands), [], answer, then))
        try:
            self._process.stdin.write(" ; ".join(commands).encode() + b"\n")
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answer
        except (TimeoutError, ConnectionError, RuntimeError) as error:
            raise TmuxSaid("no answer") from error

    async def leave(self) -> None:
        """Detach, and return when the client has ended."""
        if self._process.stdin is not None:
            self._process.stdin.close()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(1):
                await self._process.wait()
        if self._process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                self._process.kill()
            await self._process.wait()
        await self._task

    async def _hear(self) -> None:
        out = self._process.stdout
        cut = b""
        try:
            while out is not None and (fresh := await out.read(_GULP_BYTES)):
                *lines, cut = (cut + fresh).split(b"\n")
                for line in lines:
                    self._take(line)
                # tmux writes without end when a pane does: others want the loop too.
                await asyncio.sleep(0)
        finally:
            for question in self._questions:
                if not question.answer.done():
                    question.answer.set_exception(TmuxSaid("the client is gone"))
                    question.answer.exception()
            self._questions.clear()
            if self._yielding is not None:
                self._yielding.cancel()
            self._hearer.ended(self)

    def _take(self, line: bytes) -> None:
        if self._lines is not None:
            word, _, rest = line.partition(b" ")
            ends = word in (b"%end", b"%error") and rest.split(b" ")[1:2] == [
                self._number
            ]
            if ends:
                self._answer(self._lines, failed=word == b"%error")
                self._lines = None
            else:
                self._lines.append(line)
            return
        word, _, rest = line.partition(b" ")
        if word == b"%begin":
            self._number = rest.split(b" ")[1]
            self._lines = []
        elif word == b"%output":
            pane, _, data = rest.partition(b" ")
            self._hearer.printed(pane.decode(), data)
        elif word == b"%exit":
            self._hearer.changed(self)
        elif word in _CHANGES:
            if word == b"%session-changed" and rest.split(b" ")[0] != (
                self.session.encode()
            ):
                # tmux moved it to another session, because this one is no more.
                self._end_process()
            if word == b"%client-detached":
                self._yielding = asyncio.create_task(self._yield_session())
            self._hearer.changed(self)

    def _answer(self, lines: list[bytes], *, failed: bool) -> None:
        if not self._questions:
            return
        question = self._questions[0]
        question.blocks.append(lines)
        if not failed and len(question.blocks) < question.parts:
            return
        self._questions.popleft()
        if not failed and question.then is not None:
            question.then(question.blocks)
        if question.answer.done():
            return
        if failed:
            said = b" ".join(lines).decode(errors="replace")
            question.answer.set_exception(TmuxSaid(said))
            question.answer.exception()
        else:
            question.answer.set_result(question.blocks)

    async def _yield_session(self) -> None:
        """Leave a session that would be gone by now, were it not for this client."""
        with contextlib.suppress(TmuxSaid):
            said = await self.ask(
                "display-message -p '#{session_attached} #{destroy-unattached}'"
            )
            attached, _, destroyed = said[0][0].partition(b" ")
            if attached == b"1" and destroyed not in (b"", b"0", b"off"):
                self._end_process()

    def _end_process(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()


class Hearer:
    """What a client tells."""

    def printed(self, pane: str, escaped: bytes) -> None:
        """Hear what a pane printed, to be read by `unescaped`."""

    def changed(self, client: Client) -> None:
        """Hear that panes or windows came or went."""

    def ended(self, client: Client) -> None:
        """Hear that the client ended, for whatever reason."""


def unescaped(data: bytes) -> bytes:
    r"""Undo what `%output` does to control characters and `\`."""
    return _ESCAPED.sub(lambda found: bytes([int(found[1], 8)]), data)
