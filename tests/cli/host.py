"""A host for tests: a relay that runs in a thread, and the host's ends of its pipes."""

from __future__ import annotations

import json
import os
import select
import threading

from openclaw_taskmem.cli.relay import Relay
from tests.cli.fake_daemon import PATIENCE
from tests.support.agents import PROTOCOLS

VERSION_KEY = "io.modelcontextprotocol/protocolVersion"
CAPABILITIES_KEY = "io.modelcontextprotocol/clientCapabilities"


class Host:
    """Starts a relay and speaks with it."""

    def __init__(self, home, environ, command):
        self.relay = Relay(home, environ, command)
        self._relay_in, self._out = os.pipe()
        self._in, self._relay_out = os.pipe()
        self._buffer = b""
        self.failure = None
        self.meta = {}
        """Metadata of each request."""
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def say(self, document):
        self.say_raw(json.dumps(document).encode() + b"\n")

    def ask(self, number, method="tools/call", **params):
        params |= {"_meta": self.meta} if self.meta else {}
        self.say({"jsonrpc": "2.0", "id": number, "method": method, "params": params})

    def tell(self, method, **params):
        self.say({"jsonrpc": "2.0", "method": method, "params": params})

    def say_raw(self, data):
        while data:
            data = data[os.write(self._out, data) :]

    def hear_raw(self):
        """The next line; empty when the relay has ended."""
        while b"\n" not in self._buffer:
            ready = select.select([self._in], [], [], PATIENCE)[0]
            assert ready, "the relay says nothing"
            if not (chunk := os.read(self._in, 65536)):
                assert not self._buffer, "half a line"
                return b""
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line + b"\n"

    def hear(self):
        return json.loads(self.hear_raw())

    def say_hello(self, protocol):
        """Say all that a hello must have."""
        if protocol == PROTOCOLS[0]:
            client = {"name": "host", "version": "1"}
            told = {"protocolVersion": protocol, "capabilities": {}}
            self.ask(0, "initialize", **told, clientInfo=client)
            self.tell("notifications/initialized")
        else:
            self.meta = {VERSION_KEY: protocol, CAPABILITIES_KEY: {}}
            self.ask(0, "server/discover")

    def begin(self, protocol):
        """Say hello; return the answer."""
        self.say_hello(protocol)
        return self.hear()

    def greet(self, protocol=PROTOCOLS[0], *, ready=True):
        """Begin as a host of that protocol does, with less than a daemon wants to be told.

        Only a daemon answers it.
        `ready`: what follows an `initialize` that was not refused is said, too.
        """
        if protocol == PROTOCOLS[0]:
            self.ask(0, "initialize", protocolVersion=protocol)
        else:
            self.meta = {VERSION_KEY: protocol}
            self.ask(0, "server/discover")
        assert self.hear()["id"] == 0
        if protocol == PROTOCOLS[0] and ready:
            self.tell("notifications/initialized")

    def end_stdin(self):
        os.close(self._out)
        self._out = None

    def stop_reading(self):
        os.close(self._in)
        self._in = None

    def join(self):
        """Wait until the relay ends by itself."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive(), "the relay does not end"

    def close(self):
        for end in (self._out, self._in):
            if end is not None:
                os.close(end)
        self.join()

    def _serve(self):
        try:
            self.relay.serve(self._relay_in, self._relay_out)
        except BaseException as error:  # noqa: BLE001 (for the test to look at)
            self.failure = error
        finally:
            os.close(self._relay_in)
            os.close(self._relay_out)
