"""Talk to tmux: receive a session's output, query it, and find the pane that a target names.

The control-mode client only reads: it has no size, so it resizes no window, and it sends no keys.
Answers and output come in one stream, in the order in which they happened; so an answer is true
between the output before it and the output after it.

    %begin 1795319814 274 1  an answer contains what a program printed, unescaped: also
    …                        lines that look as if the answer ended and another
    %end 1795319814 274 1    pane printed something
    %begin 1795319814 275 1
    d1f0…                    so it ends before a random word that only tmux was given
    %end 1795319814 275 1

tmux itself matches prefixes of names, so that a wait on `work` could watch `workshop`; here names
match exactly.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import secrets
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from typing import Any, Final, NamedTuple

from taskmem_hookspecs import TargetNotFound
from taskmem_terminal.typed_lines import SHELL_CARRIERS, SHELLS

_GULP_BYTES: Final = 65_536
_ANSWER_SECONDS: Final = 5.0
_ESCAPED_BYTE: Final = re.compile(rb"\\([0-7]{3})")
_CHANGES: Final = frozenset(
    {
        *(b"%layout-change", b"%window-close", b"%unlinked-window-close"),
        *(b"%window-add", b"%sessions-changed", b"%session-changed"),
        *(b"%window-pane-changed", b"%client-detached", b"%pane-mode-changed"),
    }
)

Answer = list[list[bytes]]
"""For each command of a query, the lines that it printed."""
Then = Callable[[Answer], None]
"""Called with an answer before any later output is passed on."""


class TmuxError(Exception):
    """tmux refused or failed; the message is tmux's."""


class _PendingQuery(NamedTuple):
    parts: int
    answer: asyncio.Future[Answer]
    then: Then | None


def build_tmux_command() -> list[str]:
    """Return the command that reaches the user's tmux server.

    `TASKMEM_TMUX_SOCKET` is the path of another server's socket; otherwise tmux uses TMUX and
    TMUX_TMPDIR.
    """
    socket = os.environ.get("TASKMEM_TMUX_SOCKET")
    # -u: without a locale, as in services, tmux replaces tabs and prints only ASCII.
    return ["tmux", "-u", *(["-S", socket] if socket else [])]


async def run_tmux_command(*arguments: str) -> str:
    """Return the output of a tmux command.

    Raises:
        TmuxError: It failed, with tmux's message; empty if it timed out.
        FileNotFoundError: tmux is not installed.
    """
    process = await asyncio.create_subprocess_exec(
        *build_tmux_command(), *arguments, stdin=asyncio.subprocess.DEVNULL, stdout=PIPE,
        stderr=PIPE,
    )  # fmt: skip
    try:
        async with asyncio.timeout(_ANSWER_SECONDS):
            out, trouble = await process.communicate()
    except TimeoutError:
        raise TmuxError("") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode:
        raise TmuxError(trouble.decode(errors="replace").strip())
    return out.decode(errors="replace")


class Client:
    """Client of one session."""

    def __init__(self, session: str, process: Process, hearer: ClientListener) -> None:
        self.session = session
        """The session's id, such as `$1`."""
        self._process = process
        self._hearer = hearer
        self._questions: dict[bytes, _PendingQuery] = {}
        """Pending queries by the words that end their answers."""
        self._answering: list[bytes] | None = None
        """Lines received since an answer began."""
        self._skipping: list[bytes] | None = None
        """Number and lines of a block that answers no query."""
        self._attached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._yielding: asyncio.Task[None] | None = None
        self._task = asyncio.create_task(self._read_output())

    @classmethod
    async def attach(cls, session: str, hearer: ClientListener) -> Client:
        """Attach to a session.

        Raises:
            TmuxError: Attaching failed.
            OSError: tmux cannot be started.
        """
        version = await run_tmux_command("-V")
        found = re.search(r"(\d+)\.(\d+)", version)
        old = found is not None and (int(found[1]), int(found[2])) < (3, 2)
        flags = [] if old else ["-f", "read-only,ignore-size"]
        process = await asyncio.create_subprocess_exec(
            # -E: the session keeps its own environment, not the daemon's.
            *build_tmux_command(), "-C", "attach-session", "-E", "-t", session, *flags,
            stdin=PIPE, stdout=PIPE, stderr=asyncio.subprocess.DEVNULL,
        )  # fmt: skip
        client = cls(session, process, hearer)
        try:
            async with asyncio.timeout(_ANSWER_SECONDS):
                await asyncio.shield(client._attached)
        except (TimeoutError, TmuxError):
            await client.leave()
            raise TmuxError(f"cannot attach to {session}") from None
        except BaseException:
            await client.leave()
            raise
        return client

    @property
    def is_alive(self) -> bool:
        """True if the client still receives output."""
        return not self._task.done()

    async def ask(self, *commands: str, then: Then | None = None) -> Answer:
        """Run tmux commands with nothing in between, and return the lines each printed.

        Only the last one may print a program's text.

        Raises:
            TmuxError: A command failed, or the client is gone.
        """
        answer: asyncio.Future[Answer] = asyncio.get_running_loop().create_future()
        if not self.is_alive or self._process.stdin is None:
            raise TmuxError("the client is gone")
        word = secrets.token_hex(16)
        self._questions[word.encode()] = _PendingQuery(len(commands), answer, then)
        lines = [" ; ".join(commands), f"display-message -p {word}", ""]
        try:
            self._process.stdin.write("\n".join(lines).encode())
            async with asyncio.timeout(_ANSWER_SECONDS):
                return await answer
        except (TimeoutError, ConnectionError, RuntimeError) as error:
            raise TmuxError("no answer") from error

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
        await asyncio.wait([self._task])

    async def _read_output(self) -> None:
        out = self._process.stdout
        cut = b""
        try:
            while out is not None and (fresh := await out.read(_GULP_BYTES)):
                *lines, cut = (cut + fresh).split(b"\n")
                for line in lines:
                    self._handle_line(line)
                # Yield the event loop: a pane may print without end.
                await asyncio.sleep(0)
        finally:
            _fail_answer(self._attached, TmuxError("the client is gone"))
            for question in self._questions.values():
                _fail_answer(question.answer, TmuxError("the client is gone"))
            self._questions.clear()
            self._end_process()
            if self._yielding is not None:
                self._yielding.cancel()
            self._hearer.handle_client_end(self)

    def _handle_line(self, line: bytes) -> None:
        if self._answering is not None:
            if line in self._questions:
                held, self._answering = self._answering, None
                self._finish_answer(line, held)
            else:
                self._answering.append(line)
        elif self._skipping is not None:
            if _is_block_end(line, self._skipping[0]):
                self._finish_skipped_block(self._skipping[1:], failed=line.startswith(b"%error"))
                self._skipping = None
            else:
                self._skipping.append(line)
        elif line.startswith(b"%begin "):
            # Output of the user's hooks, and of attaching itself, answers no query.
            if self._questions and _begins_answer(line):
                self._answering = [line]
            else:
                self._skipping = [_parse_command_number(line)]
        else:
            self._handle_notification(line)

    def _handle_notification(self, line: bytes) -> None:
        word, _, rest = line.partition(b" ")
        if word == b"%output":
            pane, _, data = rest.partition(b" ")
            self._hearer.handle_output(pane.decode(), data)
        elif word == b"%exit":
            self._hearer.handle_pane_change(self)
        elif word in _CHANGES:
            if word == b"%session-changed" and rest.split(b" ")[0] != (self.session.encode()):
                # tmux moved the client to another session, because this one is gone.
                self._end_process()
            if word == b"%client-detached":
                self._yielding = asyncio.create_task(self._yield_session())
            self._hearer.handle_pane_change(self)

    def _finish_skipped_block(self, lines: list[bytes], *, failed: bool) -> None:
        if failed:
            _fail_answer(self._attached, TmuxError(_join_lines(lines)))
        elif not self._attached.done():
            self._attached.set_result(None)

    def _finish_answer(self, word: bytes, held: list[bytes]) -> None:
        """Parse everything from an answer's beginning to the word that ends it."""
        while (asked := next(iter(self._questions))) != word:
            _fail_answer(self._questions.pop(asked).answer, TmuxError("no answer"))
        question = self._questions.pop(word)
        blocks: Answer = []
        failed = False
        at, last = 0, len(held) - 1  # the word's own block begins there
        while at < last and not failed and len(blocks) < question.parts:
            if self._skipping is not None or not _begins_answer(held[at]):
                self._handle_line(held[at])
                at += 1
                continue
            number = _parse_command_number(held[at])
            ends = [n for n in range(at + 1, last) if _is_block_end(held[n], number)] or [last]
            end = ends[-1 if len(blocks) == question.parts - 1 else 0]
            blocks.append(held[at + 1 : end])
            failed = held[end].startswith(b"%error")
            at = end + 1
        if failed or len(blocks) < question.parts:
            reason = _join_lines(blocks[-1]) if failed else "no answer"
            _fail_answer(question.answer, TmuxError(reason))
        elif not question.answer.done():
            self._deliver_answer(question, blocks)
        for line in held[at:last]:
            self._handle_line(line)

    def _deliver_answer(self, question: _PendingQuery, blocks: Answer) -> None:
        try:
            if question.then is not None:
                question.then(blocks)
        except Exception as error:  # noqa: BLE001 - it is whoever asked who is told
            trouble = TmuxError("an answer that cannot be read")
            trouble.__cause__ = error
            _fail_answer(question.answer, trouble)
        else:
            question.answer.set_result(blocks)

    async def _yield_session(self) -> None:
        """Leave a session that would already be destroyed without this client."""
        with contextlib.suppress(TmuxError):
            blocks = await self.ask(
                "display-message -p '#{session_attached} #{destroy-unattached}'"
            )
            attached, _, destroyed = blocks[0][0].partition(b" ")
            if attached == b"1" and destroyed not in (b"", b"0", b"off"):
                self._end_process()

    def _end_process(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.terminate()


def _begins_answer(line: bytes) -> bool:
    return line.startswith(b"%begin ") and line.endswith(b" 1")


def _parse_command_number(line: bytes) -> bytes:
    """Return the number of the command that a line begins or ends; empty: none."""
    return b"".join(line.split(b" ")[2:3])


def _is_block_end(line: bytes, number: bytes) -> bool:
    return line.startswith((b"%end ", b"%error ")) and _parse_command_number(line) == number


def _join_lines(lines: list[bytes]) -> str:
    return b" ".join(lines).decode(errors="replace")


def _fail_answer(answer: asyncio.Future[Any], trouble: TmuxError) -> None:
    if not answer.done():
        answer.set_exception(trouble)
        # Mark the exception as retrieved: the caller may be gone.
        answer.exception()


class ClientListener:
    """Receives a client's events."""

    def handle_output(self, pane: str, escaped: bytes) -> None:
        """Handle a pane's output; decode it with `unescape_output`."""

    def handle_pane_change(self, client: Client) -> None:
        """Handle that panes or windows appeared or disappeared."""

    def handle_client_end(self, client: Client) -> None:
        """Handle that the client ended."""


def unescape_output(data: bytes) -> bytes:
    r"""Decode the escapes of control characters and `\` in `%output`."""
    return _ESCAPED_BYTE.sub(lambda found: bytes([int(found[1], 8)]), data)


# --- panes --------------------------------------------------------------------


_MOST_NAMES: Final = 8
_FIELDS: Final = (
    "pane_id", "session_id", "session_name", "window_id", "window_index",
    "pane_index", "window_active", "pane_active", "pane_dead", "pane_dead_status",
    "pane_dead_signal", "pane_pid", "history_size", "cursor_x", "cursor_y",
    "pane_width", "pane_height", "pid", "start_time",
)  # fmt: skip
_WORDS: Final = ("pane_current_command", "window_name", "pane_start_command")
"""Fields in which programs and users may write any text."""
FORMAT: Final = "\t".join(
    (
        *(f"#{{{field}}}" for field in _FIELDS),
        *(f"#{{s/[\x01-\x1f\x7f]/ /:{field}}}" for field in _WORDS),
    )
)
"""Format string for tmux; `Pane.parse` reads its lines."""
_SPECIAL_TARGET: Final = re.compile(r"[:.]=?(?:[!^$+-]|\{[a-z-]+\})")


class Pane(NamedTuple):
    """One pane, as of one query."""

    id: str
    session: str
    """Id of its session."""
    session_name: str
    window: str
    window_index: str
    number: str
    """Its index within the window."""
    in_front: bool
    """True if it is the active pane of its window."""
    window_in_front: bool
    dead: bool
    status: int | None
    """Exit status; the negative number of the signal that ended it; None: unknown or running."""
    pid: int
    command: str
    """Program in the foreground."""
    history: int
    """Number of lines above the screen."""
    column: int
    row: int
    """Position of the cursor, with `column`."""
    columns: int
    rows: int
    server: str
    """Identifies this tmux server."""
    window_name: str
    started_with: str
    """The command it was started with; empty: a shell."""

    @classmethod
    def parse(cls, line: str) -> Pane:
        """Parse a line of FORMAT.

        Raises:
            ValueError: It is not such a line.
        """
        names = (*_FIELDS, *_WORDS)
        fields = dict(zip(names, line.split("\t", len(names) - 1), strict=True))
        status = fields["pane_dead_status"]
        if not status and fields["pane_dead_signal"]:
            status = f"-{fields['pane_dead_signal']}"
        return cls(
            id=fields["pane_id"],
            session=fields["session_id"],
            session_name=fields["session_name"],
            window=fields["window_id"],
            window_index=fields["window_index"],
            number=fields["pane_index"],
            in_front=fields["pane_active"] == "1",
            window_in_front=fields["window_active"] == "1",
            dead=fields["pane_dead"] == "1",
            status=int(status) if status else None,
            pid=int(fields["pane_pid"] or 0),
            command=fields["pane_current_command"],
            history=int(fields["history_size"] or 0),
            column=int(fields["cursor_x"] or 0),
            row=int(fields["cursor_y"] or 0),
            columns=int(fields["pane_width"] or 80),
            rows=int(fields["pane_height"] or 24),
            server=f"{fields['pid']}-{fields['start_time']}",
            window_name=fields["window_name"],
            started_with=fields["pane_start_command"],
        )

    def __str__(self) -> str:
        """Return the target that names the pane."""
        return f"pty:tmux:{self.session_name}:{self.window_index}.{self.number}"

    @property
    def server_pid(self) -> int:
        """Process id of the tmux server."""
        return int(self.server.partition("-")[0])

    @property
    def prompt(self) -> bool | None:
        """True if a shell is in the foreground; None: unknown."""
        if self.command in SHELL_CARRIERS or self.dead:
            return None
        if self.command in SHELLS:
            first = self.started_with.strip('"').split(" ", 1)
            # `tmux new-session 'sh build.sh'`: a shell that shows no prompt.
            named = first[0].rpartition("/")[2]
            waits = not named or (named in SHELLS and len(first) == 1)
            return True if waits else None
        return False


async def list_panes() -> list[Pane]:
    """Return all panes of the server; none: no server runs.

    Raises:
        TargetNotFound: tmux is not installed.
        TmuxError: tmux does not answer, so the panes are unknown.
    """
    try:
        answer = await run_tmux_command("list-panes", "-a", "-F", FORMAT)
    except TmuxError as words:
        if not str(words) or "temporarily" in str(words):
            raise
        return []
    except FileNotFoundError:
        raise TargetNotFound(
            "tmux is not installed here; install it (apt-get install tmux, or brew "
            "install tmux), or run the command by taskmem run --name NAME -- CMD."
        ) from None
    panes: list[Pane] = []
    for line in answer.split("\n"):
        # An unreadable line must not hide the other panes.
        with contextlib.suppress(ValueError):
            panes.append(Pane.parse(line))
    return panes


async def find_pane(name: str) -> Pane:
    """Return the pane that a target names.

    Raises:
        TargetNotFound: There is none; the message names the existing panes.
    """
    try:
        panes = await list_panes()
    except TmuxError:
        raise TargetNotFound(
            f"tmux does not answer, so pty:tmux:{name} was not found; see that "
            "tmux list-panes -a works."
        ) from None
    found = _find_named(name.removeprefix("="), panes)
    if found is None and _SPECIAL_TARGET.search(name):
        # `work:!`, `work:.{bottom}`: only tmux can resolve these.
        try:
            id_ = await run_tmux_command("display-message", "-p", "-t", name, "#{pane_id}")
        except TmuxError:
            id_ = ""
        found = next((pane for pane in panes if pane.id == id_.strip()), None)
    if found is None:
        raise TargetNotFound(_describe_missing_pane(name, panes))
    return found


def _find_named(name: str, panes: list[Pane]) -> Pane | None:
    if name.startswith("%"):
        return next((pane for pane in panes if pane.id == name), None)
    if name.startswith("@"):
        return _find_front([pane for pane in panes if pane.window == name])
    session, colon, rest = name.partition(":")
    mine = [pane for pane in panes if session in (pane.session_name, pane.session)]
    if colon:
        return _find_within(rest.removeprefix("="), mine)
    if not mine and "." in name:
        # tmux takes `work.1` for a pane of the session's active window.
        session, _, index = name.rpartition(".")
        mine = [pane for pane in panes if session in (pane.session_name, pane.session)]
        mine = [pane for pane in mine if pane.window_in_front and pane.number == index]
    return _find_front(mine)


def _find_within(rest: str, mine: list[Pane]) -> Pane | None:
    """Return the pane of a session that `window.pane` names."""
    whole = [pane for pane in mine if rest in _list_window_names(pane)]
    if whole or "." not in rest:
        return _find_front(whole if rest else mine)
    window, _, index = rest.rpartition(".")
    return next(
        (
            pane
            for pane in mine
            if index in (pane.number, pane.id)
            and (window in _list_window_names(pane) if window else pane.window_in_front)
        ),
        None,
    )


def _list_window_names(pane: Pane) -> tuple[str, str, str]:
    return pane.window_index, pane.window_name, pane.window


def _find_front(panes: list[Pane]) -> Pane | None:
    """Return the active pane among those of a session or window."""
    ranked = sorted(panes, key=lambda pane: (pane.window_in_front, pane.in_front))
    return ranked[-1] if ranked else None


def _describe_missing_pane(name: str, panes: list[Pane]) -> str:
    if not panes:
        return (
            f"There is no pane pty:tmux:{name}: no tmux server runs that can be "
            "reached; start one, or set TASKMEM_TMUX_SOCKET to the path of its socket."
        )
    named = ", ".join(f"{pane} ({pane.command})" for pane in panes[:_MOST_NAMES])
    more = len(panes) - _MOST_NAMES
    return (
        f"There is no pane pty:tmux:{name}; there are {named}"
        f"{f' and {more} more' if more > 0 else ''}."
    )
