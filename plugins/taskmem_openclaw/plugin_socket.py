"""The door that the plug-in in the gateway keeps: a Unix socket beside the daemon's.

One request a connection, a JSON object on a line each way. Whoever may open the state
folder may knock; nobody else can.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

NAME: Final = "openclaw.sock"
OTHERS: Final = tuple(f"openclaw-{number}.sock" for number in (2, 3, 4))
"""Where further gateways of the home listen, for as long as the first does."""
SECONDS: Final = 10.0
"""How long one request may take: a gateway that is busy starting is slow."""
LOAD_SECONDS: Final = 15.0
"""How long a running gateway may take to load the plug-in, or to load it anew."""
GLANCE: Final = 0.25
"""Seconds between two looks whether somebody listens again."""
_LARGEST: Final = 4 * 1024 * 1024


class PluginNotListening(Exception):
    """No gateway with the plug-in listens; the sentence says where one should."""


class PluginRequestFailed(Exception):
    """The plug-in could not do it; the sentence is its own."""


def find_socket(environ: Mapping[str, str]) -> Path:
    """Return where the door is: beside the daemon's socket, wherever that is."""
    socket = Path(environ.get("TASKMEM_HOME", "")) / "daemon.sock"
    # Only the link that the daemon has made: a home that is a link may be shorter.
    if socket.is_symlink():
        socket = socket.parent / socket.readlink()
    return socket.with_name(NAME)


async def wait_for_listener(door: Path, seconds: float) -> bool:
    """Wait until somebody listens; False: nobody did within that many seconds."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    _, writer = await asyncio.open_unix_connection(door)
                except OSError:
                    await asyncio.sleep(GLANCE)
                else:
                    writer.close()
                    return True
    except TimeoutError:
        return False


async def read_boot(environ: Mapping[str, str]) -> str | None:
    """Return which start of a plug-in listens; None: none does, or it is an old one."""
    with contextlib.suppress(PluginNotListening, PluginRequestFailed):
        said = await ask_gateway(find_socket(environ), "version", SECONDS)
        return str(said["boot"]) if "boot" in said else None
    return None


async def wait_for_version(
    environ: Mapping[str, str], version: str, seconds: float, earlier: str | None = None
) -> bool:
    """Wait until a plug-in of a version listens; False: none did in that time.

    Where it listens is known only once a daemon runs. The `earlier` start of it does
    not count, as it is just being ended.
    """
    try:
        async with asyncio.timeout(seconds):
            while True:
                with contextlib.suppress(PluginNotListening, PluginRequestFailed):
                    said = await ask_gateway(find_socket(environ), "version", seconds)
                    another = earlier is None or said.get("boot") != earlier
                    if said.get("version") == version and another:
                        return True
                await asyncio.sleep(GLANCE)
    except TimeoutError:
        return False


async def ask_session_gateway(
    environ: Mapping[str, str], request: str, seconds: float, **given: object
) -> Any:  # noqa: ANN401 - as of one gateway
    """Ask the first gateway for one thing, and each other until one has its session.

    The answer is "refused" where none has it, and "elsewhere" where each says that it
    is for another gateway.

    Raises:
        NobodyHome: There is no first.
        Failed: One of them gave no answer, so it may yet do it.
    """
    first = find_socket(environ)
    answer = await ask_gateway(first, request, seconds, **given)
    for name in OTHERS:
        if "refused" not in answer and "elsewhere" not in answer:
            break
        with contextlib.suppress(PluginNotListening):
            other = await ask_gateway(first.with_name(name), request, seconds, **given)
            answer = answer if "elsewhere" in other else other
    return answer


async def ask_gateway(door: Path, request: str, seconds: float, **given: object) -> Any:  # noqa: ANN401 - JSON, as the plug-in's handlers give it
    """Knock, ask for one thing, and return the answer.

    Raises:
        NobodyHome: Nobody opens.
        Failed: It was not done, or there was no answer within `seconds`.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _exchange_request(door, {"ask": request, **given})
    except TimeoutError:
        raise PluginRequestFailed(f"the gateway gave no answer within {seconds:g} s") from None


async def _exchange_request(door: Path, request: Mapping[str, object]) -> Any:  # noqa: ANN401
    try:
        reader, writer = await asyncio.open_unix_connection(door, limit=_LARGEST)
    except OSError as error:
        raise PluginNotListening(
            f"no gateway with the plug-in listens at {door} ({error.strerror})"
        ) from error
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
        answer: object = json.loads(line)
    except (OSError, ValueError, RecursionError) as error:
        raise PluginRequestFailed("the gateway hung up before it answered") from error
    finally:
        # What nobody has read by now is not waited for.
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    if not isinstance(answer, dict):
        raise PluginRequestFailed("the gateway's answer is no answer")
    found = cast("dict[str, Any]", answer)
    if "failed" in found:
        raise PluginRequestFailed(str(found["failed"]))
    return found
