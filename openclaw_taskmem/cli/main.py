"""The console entry: relays and daemons by the short way, all else by the command line.

Hosts start `taskmem mcp` once per session, and a daemon is to have its home at once, so
both take a way on which nothing is imported that they do not need.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run `taskmem` with the arguments of this process.

    Raises:
        SystemExit: Always: with what the command answers, 130 after Ctrl-C, 1
            when whoever read the output went away.
    """
    try:
        status = _run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        # The interpreter flushes once more at its end, and would complain again.
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        status = 1
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
        os.write(2, f"The output cannot be written ({error.strerror}).\n".encode())
        status = 1
    raise SystemExit(status)


def _run(arguments: list[str]) -> int:
    if arguments == ["mcp"]:
        from openclaw_taskmem.cli import relay

        return relay.run_relay(os.environ)
    if arguments == ["daemon"]:
        from openclaw_taskmem.daemon import startup

        return startup.main(os.environ)
    from openclaw_taskmem.cli import command_line

    command_line.main()
    return 0
