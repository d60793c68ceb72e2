"""The command `./call` of an agent in a real gateway, which the agent's shell runs.

It connects to the benchmark, which lets the call have its effect or kills the gateway, and ends as
the benchmark says: well, or by a signal, as a command of which no answer came.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
from typing import Final

DONE_LINE: Final = "done"
"""The benchmark's answer on which the call ends; on any other its process is killed."""


def main(port: str) -> None:
    """Connect, and end as the benchmark answers."""
    with socket.create_connection(("127.0.0.1", int(port))) as link:
        answer = link.makefile().readline().strip()
    if answer != DONE_LINE:
        os.kill(os.getpid(), signal.SIGKILL)
    print(answer)  # noqa: T201 - the call's result


if __name__ == "__main__":
    main(sys.argv[1])
