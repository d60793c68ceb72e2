"""Client of the plug-in's Unix socket, which is beside the daemon's.

One request for each connection: one line of JSON each way. The permissions of the state folder
decide who may connect.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, cast

NAME: Final = "openclaw.sock"
_OTHER_SOCKETS: Final = tuple(f"openclaw-{number}.sock" for number in (2, 3, 4))
"""Sockets of further gateways of the home, while the first gateway runs."""
REQUEST_SECONDS: Final = 10.0
"""Default time limit of a request; a gateway that is starting is slow. Seconds."""
LOAD_SECONDS: Final = 15.0
"""Time limit for a running gateway to load or reload the plug-in. Seconds."""
GLANCE: Final = 0.25
"""Time between two attempts to connect. Seconds."""
_LARGEST_ANSWER: Final = 4 * 1024 * 1024


class PluginNotListening(Exception):
    """No gateway with the plug-in listens; the message names the socket."""


class PluginRequestFailed(Exception):
    """The plug-in failed to do it; the message is the plug-in's."""


class PluginTooLate(PluginRequestFailed):
    """The plug-in gave no answer in time, as where the gateway is busy; it may still do it."""


def find_socket(environ: Mapping[str, str]) -> Path:
    """Return the path of the plug-in's socket, beside the daemon's."""
    socket = Path(environ.get("TASKMEM_HOME", "")) / "daemon.sock"
    # Follow only the daemon's own link: the path through a linked home may be shorter.
    if socket.is_symlink():
        socket = socket.parent / socket.readlink()
    return socket.with_name(NAME)


async def wait_for_listener(path: Path, seconds: float) -> bool:
    """Wait until something listens at `path`; return False after `seconds`."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                try:
                    _, writer = await asyncio.open_unix_connection(path)
                except OSError:
                    await asyncio.sleep(GLANCE)
                else:
                    writer.close()
                    return True
    except TimeoutError:
        return False


async def read_boot(environ: Mapping[str, str]) -> str | None:
    """Return the boot id of the listening plug-in; None: none listens, or it has no such id."""
    with contextlib.suppress(PluginNotListening, PluginRequestFailed):
        answer = await ask_gateway(find_socket(environ), "version", REQUEST_SECONDS)
        return str(answer["boot"]) if "boot" in answer else None
    return None


async def wait_for_version(
    environ: Mapping[str, str], version: str, seconds: float, earlier: str | None = None
) -> bool:
    """Wait until a plug-in of this version listens; return False after `seconds`.

    The socket's path is looked up anew each time, because it is known only once a daemon runs. A
    plug-in whose boot id is `earlier` does not count, because it is about to end.
    """
    try:
        async with asyncio.timeout(seconds):
            while True:
                with contextlib.suppress(PluginNotListening, PluginRequestFailed):
                    answer = await ask_gateway(find_socket(environ), "version", seconds)
                    another = earlier is None or answer.get("boot") != earlier
                    if answer.get("version") == version and another:
                        return True
                await asyncio.sleep(GLANCE)
    except TimeoutError:
        return False


async def ask_session_gateway(
    environ: Mapping[str, str], request: str, seconds: float, **given: object
) -> Any:  # noqa: ANN401 - as of one gateway
    """Ask the first gateway, then the others, until one has the session.

    The answer has "refused" if no gateway has the session, and "elsewhere" if each says that
    another gateway must do it.

    Raises:
        PluginNotListening: The first gateway does not listen.
        PluginRequestFailed: A gateway gave no answer, so it may still do it.
    """
    first = find_socket(environ)
    answer = await ask_gateway(first, request, seconds, **given)
    for name in _OTHER_SOCKETS:
        if "refused" not in answer and "elsewhere" not in answer:
            break
        with contextlib.suppress(PluginNotListening):
            other = await ask_gateway(first.with_name(name), request, seconds, **given)
            answer = answer if "elsewhere" in other else other
    return answer


async def ask_gateway(path: Path, request: str, seconds: float, **given: object) -> Any:  # noqa: ANN401 - JSON, as the plug-in's handlers give it
    """Send one request to a gateway and return the answer.

    Raises:
        PluginNotListening: Nothing listens at `path`.
        PluginTooLate: It was not answered within `seconds`.
        PluginRequestFailed: It was not done.
    """
    try:
        async with asyncio.timeout(seconds):
            return await _exchange_request(path, {"ask": request, **given})
    except TimeoutError:
        raise PluginTooLate(f"the gateway gave no answer within {seconds:g} s") from None


async def _exchange_request(path: Path, request: Mapping[str, object]) -> Any:  # noqa: ANN401
    try:
        reader, writer = await asyncio.open_unix_connection(path, limit=_LARGEST_ANSWER)
    except OSError as error:
        raise PluginNotListening(
            f"no gateway with the plug-in listens at {path} ({error.strerror})"
        ) from error
    try:
        writer.write(json.dumps(request).encode() + b"\n")
        await writer.drain()
        line = await reader.readline()
        answer: object = json.loads(line)
    except (OSError, ValueError, RecursionError) as error:
        raise PluginRequestFailed("the gateway hung up before it answered") from error
    finally:
        # Do not wait until the other end has read everything.
        writer.transport.abort()
        with contextlib.suppress(OSError):
            await writer.wait_closed()
    if not isinstance(answer, dict):
        raise PluginRequestFailed("the gateway's answer is no answer")
    found = cast("dict[str, Any]", answer)
    if "failed" in found:
        raise PluginRequestFailed(str(found["failed"]))
    return found
