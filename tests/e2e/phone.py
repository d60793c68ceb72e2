"""A person with a phone: messages that reach the gateway, and what comes back."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from secrets import token_hex
from typing import Any

from tests.e2e.gateway import Gateway
from tests.e2e.room import until

CHANNEL = Path(__file__).with_name("phone_channel")
FOLDER = "phone"
"""In the room of a gateway: what its phones write and receive."""


def connect(config: dict[str, Any], folder: Path) -> None:
    """Give a gateway the channel, with a session for each number."""
    folder.mkdir()
    config["plugins"]["load"]["paths"].append(str(CHANNEL))
    config["plugins"]["entries"]["phone"] = {"enabled": True}
    config["channels"] = {"phone": {"folder": str(folder)}}
    config["session"] = {"dmScope": "per-channel-peer"}


@dataclass(frozen=True)
class Phone:
    """One number of the channel."""

    gateway: Gateway
    number: str

    @property
    def folder(self) -> Path:
        """The folder of the channel."""
        return self.gateway.room.root / FOLDER

    @property
    def session(self) -> str:
        """The session of whoever writes from this number."""
        return f"agent:main:phone:direct:{self.number}"

    def write(self, text: str, thread: str | None = None) -> None:
        """Send a message to the agent, and wait until its turn is over."""
        with self.gateway.rpc() as rpc:
            message = {"from": self.number, "text": text, "number": token_hex(8)}
            where = {"thread": thread} if thread else {}
            rpc.call("phone.receive", **message, **where)

    def fails(self, how: str) -> None:
        """Let the channel fail in this way from now on; empty: it works."""
        (self.folder / "fault").write_text(how)

    @property
    def is_connected(self) -> bool:
        """Whether the gateway has the channel, as it says itself."""
        with self.gateway.rpc() as rpc:
            found = rpc.call("channels.status")["channelAccounts"].get("phone", [])
        return any(each.get("running") for each in found)

    @property
    def received_messages(self) -> list[dict[str, Any]]:
        """What the person has received, oldest first: `text`, `thread`."""
        sent = self.folder / "sent.jsonl"
        lines = sent.read_text().splitlines() if sent.exists() else []
        every = map(json.loads, lines)
        return [one for one in every if one["to"] == f"phone:{self.number}"]

    @property
    def messages(self) -> list[str]:
        """The texts of what the person has received, oldest first."""
        return [one["text"] for one in self.received_messages]

    @property
    def tries(self) -> int:
        """How often the channel has failed this person."""
        tries = self.folder / "tries"
        lines = tries.read_text().splitlines() if tries.exists() else []
        return lines.count(f"phone:{self.number}")

    def reads(self, words: str) -> str:
        """The first message that holds these words, once it has come."""

        def find_message() -> str | None:
            return next((one for one in self.messages if words in one), None)

        return until(find_message, f"the phone reads {words!r}", shown=lambda: self.messages)
