"""Transport `openclaw-cli`: `openclaw system event`. Works with every gateway, but is slow.

One call takes 5 to 12 seconds, and 30 on a busy machine; nearly all of it is the command's
start-up. It runs without a shell, in its own process group, outside the event loop. The text is an
argument, which every user of the machine can read while it runs. On shared machines the argument is
therefore brief, and the whole text is in the environment, from where `wake_text.cjs` puts it in the
place of the argument; a command that is no program of Node says the brief one. Source:
docs/origins.md, "Wakes".
"""

from __future__ import annotations

import asyncio
import json
import os
import pwd
import sys
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Final

from taskmem_hookspecs import Wake, WakeReceipt, WakeRefused, WakeUndelivered
from taskmem_openclaw import configuration
from taskmem_openclaw.transports.auto import ReachMixin, is_gateway_away, require_own_gateway
from taskmem_program.process_groups import OutputTail, start_in_group

CALL_SECONDS: Final = 120.0
"""Time limit of one call, after which it is killed. Seconds."""
_ARGUMENT_BYTES: Final = 120_000
"""Maximum size of one argument; Linux allows 128 KiB including its terminator."""

_FIRST_PERSON: Final = 501 if sys.platform == "darwin" else 1000
"""Lowest user id of a person; lower ids are services."""
_NOBODY_ID: Final = 65_534
_SHELLS: Final = Path("/etc/shells")
"""The shells with which one can log in. Source: shells(5)."""
_TEXT_VARIABLE: Final = "TASKMEM_WAKE_TEXT"
_TEXT_SCRIPT: Final = Path(__file__).with_name("wake_text.cjs")

_OUTPUT_BYTES: Final = 600
_FINAL_REFUSALS: Final = ("cannot target a subagent session", "agent is unavailable")
"""Gateway messages after which a retry is useless."""


class OpenClawCli(ReachMixin):
    """Delivers wakes through OpenClaw's command."""

    name = "openclaw-cli"

    def __init__(
        self,
        environ: Mapping[str, str] = os.environ,
        seconds: float = CALL_SECONDS,
        list_accounts: Callable[[], Iterable[pwd.struct_passwd]] = pwd.getpwall,
    ) -> None:
        """Set the environment, the time limit of a call in seconds, and the list of accounts."""
        self._environ = environ
        self._list_accounts = list_accounts
        self._binary = environ.get("TASKMEM_OPENCLAW_BIN") or "openclaw"
        self._seconds = seconds

    async def deliver(self, wake: Wake) -> WakeReceipt:
        """Queue a wake in the gateway and start a turn.

        Raises:
            WakeUndelivered: The command is missing, failed or timed out, or the agent is in another
                OpenClaw.
            WakeRefused: The gateway will never take it, or it cannot be an argument.
        """
        require_own_gateway(wake.host, self._environ)
        chosen = self._environ.get("TASKMEM_OPENCLAW_CLI_TEXT", "").strip() or "auto"
        brief = chosen == "brief"
        if chosen == "auto":
            # In a thread: a directory service may be slow.
            accounts = await asyncio.to_thread(self._list_accounts)
            brief = _has_others(accounts, os.getuid(), _read_shells())
        command = _build_command(self._binary, wake, brief=brief)
        try:
            status, output = await self._run(command, _hide_text(wake) if brief else {})
        except WakeUndelivered as error:
            await self._guard_running(error)
            raise
        if status != 0:
            reason = f"{self._binary} ended with status {status}: {output or 'no word'}"
            if any(final in output for final in _FINAL_REFUSALS):
                raise WakeRefused(f"{reason}. Register the task in a main session.")
            await self._guard_running()
            raise WakeUndelivered(f"{reason}. See that the gateway runs.")
        return WakeReceipt(delivered_at=datetime.now(UTC))

    async def _guard_running(self, failure: WakeUndelivered | None = None) -> None:
        """Raise that the wake waits for a gateway, if none runs here."""
        if await is_gateway_away(self._environ):
            raise WakeUndelivered(
                "No gateway of OpenClaw runs here; the wake goes out when one is started.",
                waits=True,
            ) from failure

    async def _run(self, arguments: list[str], more: Mapping[str, str]) -> tuple[int, str]:
        """Run a command with `more` in its environment; return its status and last output."""
        with OutputTail(_OUTPUT_BYTES) as output:
            environ = configuration.build_environment({**os.environ, **more})
            try:
                async with (
                    start_in_group(arguments, environ, stdout=output.sink, stderr=output.sink) as (
                        process,
                        _,
                    ),
                    asyncio.timeout(self._seconds),
                ):
                    status = await process.wait()
                    return status, " ".join(output.read_end().decode(errors="replace").split())
            except TimeoutError:
                raise WakeUndelivered(
                    f"{self._binary} gave no answer within {self._seconds:g} s and "
                    "was ended. See that the gateway runs."
                ) from None
            except OSError as error:
                raise WakeUndelivered(
                    f"{self._binary} cannot be started ({error.strerror}); install "
                    "OpenClaw, or set TASKMEM_OPENCLAW_BIN to its command."
                ) from error
            except ValueError as error:
                raise WakeRefused(
                    f"The wake cannot be an argument of a command ({error}); a "
                    "plug-in made it, for the core writes plain text."
                ) from error


def _read_shells() -> frozenset[str] | None:
    """Return the shells with which one can log in; None: the system does not list them."""
    try:
        lines = _SHELLS.read_text(errors="replace").splitlines()
    except OSError:
        return None
    return frozenset(line.strip() for line in lines if line.startswith("/"))


def _has_others(
    accounts: Iterable[pwd.struct_passwd], user: int, shells: frozenset[str] | None
) -> bool:
    """Return whether another person's account can log in on this machine.

    Accounts of a directory service count only if the machine lists them.
    """
    return any(
        _FIRST_PERSON <= each.pw_uid < _NOBODY_ID
        and each.pw_uid != user
        and Path(each.pw_shell).name not in ("nologin", "false")
        and (not each.pw_shell or shells is None or each.pw_shell in shells)
        for each in accounts
    )


def _describe_briefly(wake: Wake) -> str:
    """Return a wake's text without its content, because other users can read it."""
    about = wake.task_id or wake.wait_id or "your session"
    if wake.task_id is not None:
        ask = f'Call task_update with task_id "{wake.task_id}" and query "what happened last?"'
    elif wake.wait_id is not None:
        ask = f"Run taskmem wait {wake.wait_id} in a shell"
    else:
        ask = "Call task_list"
    others = wake.text.count("\n")
    more = f" {others} more came with it: ask for your other tasks, too." if others else ""
    return (
        f"[system] There is news of {about}, but other users of this machine can read "
        f"this line, so it does not say what. {ask}, then go on.{more}"
    )


def _hide_text(wake: Wake) -> dict[str, str]:
    """Return the variables with which OpenClaw's command says a wake's text, unseen by others."""
    if len(wake.text.encode(errors="replace")) > _ARGUMENT_BYTES:
        return {}
    options = os.environ.get("NODE_OPTIONS", "")
    loads = f"--require {json.dumps(str(_TEXT_SCRIPT), ensure_ascii=False)}"
    return {"NODE_OPTIONS": f"{options} {loads}".strip(), _TEXT_VARIABLE: wake.text}


def _build_command(binary: str, wake: Wake, *, brief: bool = False) -> list[str]:
    """Return the command that delivers a wake.

    Raises:
        WakeRefused: The text is too long for an argument.
    """
    text = _describe_briefly(wake) if brief else wake.text
    if len(text.encode(errors="replace")) > _ARGUMENT_BYTES:
        raise WakeRefused(
            f"The wake's text has more than {_ARGUMENT_BYTES:,} bytes; a plug-in "
            "made it, for the core's own stay within a few thousand."
        )
    arguments = [binary, "system", "event", "--mode", "now", "--text", text]
    if wake.session_key is not None:
        arguments += ["--session-key", wake.session_key]
    return arguments
