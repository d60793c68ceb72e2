"""What the daemon has a relay write, and what the relay answers."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any
from unittest.mock import create_autospec

import pytest

from openclaw_taskmem.daemon import relay_posts
from openclaw_taskmem.daemon.relay_posts import RelayPosts


class Relay:
    """Plays a relay that is asked to write."""

    def __init__(self, *, is_read: bool = True) -> None:
        self.asked: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        writer = create_autospec(asyncio.StreamWriter, instance=True)
        writer.write.side_effect = lambda line: self.asked.put_nowait(json.loads(line))
        reads = asyncio.Event()
        if is_read:
            reads.set()
        self.posts = RelayPosts(writer, reads)

    async def ask(self) -> tuple[asyncio.Task[bool], dict[str, Any]]:
        """Have it asked; return the asking, and what it is asked."""
        asking = asyncio.create_task(self.posts.post("/inbox", "hello", 1.0))
        return asking, await self.asked.get()

    def say(self, **document: object) -> bool:
        """Have it say a line; return whether the line is taken as an answer."""
        return self.posts.take_answer(json.dumps(document).encode() + b"\n")


@pytest.mark.parametrize("closed", [True, False])
async def test_a_relay_says_whether_the_other_end_closed(closed: bool):
    relay = Relay()
    asking, asked = await relay.ask()
    assert relay.say(id=asked["id"], result={"closed": closed})
    assert await asking is closed


async def test_a_relay_says_why_it_wrote_nothing():
    relay = Relay()
    asking, asked = await relay.ask()
    assert relay.say(id=asked["id"], error={"message": "no room"})
    with pytest.raises(OSError, match="no room"):
        await asking


async def test_a_request_is_not_good_once_it_is_given_up():
    asking, asked = await (relay := Relay()).ask()
    assert 0 < asked["params"]["until"] - time.monotonic() < relay_posts._ANSWER_SECONDS
    relay.posts.close()
    with pytest.raises(ConnectionResetError, match="its relay has ended"):
        await asking


@pytest.mark.parametrize("is_read", [True, False])
async def test_a_relay_is_waited_for_for_a_time(is_read: bool, monkeypatch: pytest.MonkeyPatch):
    """It is asked nothing before its answers are read."""
    monkeypatch.setattr(relay_posts, "_ANSWER_SECONDS", 0.01)
    relay = Relay(is_read=is_read)
    with pytest.raises(TimeoutError):
        await relay.posts.post("/inbox", "hello", 1.0)
    assert relay.asked.empty() is not is_read


async def test_an_answer_to_another_request_settles_none():
    relay, before = Relay(), Relay()
    given_up, stale = await before.ask()
    asking, asked = await relay.ask()
    assert relay.say(id=stale["id"], result={"closed": False})
    assert not relay.say(id=asked["id"], method="tools/call")
    assert not relay.say(id=7, result={"of": asked["id"]})
    assert relay.say(id=asked["id"], result={"closed": True})
    assert await asking is True
    before.posts.close()
    with pytest.raises(ConnectionResetError):
        await given_up
