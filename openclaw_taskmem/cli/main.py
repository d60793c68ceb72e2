"""The console entry point: relays and daemons start by a short path, the rest by click.

Hosts start `taskmem mcp` once per session, and a daemon must take its home quickly, so these two
import nothing that they do not need.
"""

from __future__ import annotations

import os
import sys


def main() -> None:
    """Run `taskmem` with the arguments of this process.

    Raises:
        SystemExit: Always: with the command's status, 130 after Ctrl-C, or 1 if the output cannot
            be written, for example because its reader has gone away.
    """
    try:
        status = _run(sys.argv[1:])
        sys.stdout.flush()
    except KeyboardInterrupt:
        status = 130
    except BrokenPipeError:
        # The interpreter flushes again at exit, which would raise again.
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
