"""Start a daemon: lock its home before loading any slow module.

Other processes then see at once that a daemon is starting, and start no second one.
"""

from __future__ import annotations

import errno
import gc
import sys
from collections.abc import MutableMapping

from openclaw_taskmem.daemon.home_exchange import (
    RESTORE,
    finish_exchange,
    remove_left_folders,
    remove_old_files,
)
from openclaw_taskmem.daemon.lock import Lock, LockHeld
from openclaw_taskmem.home import HomeRefused, describe_os_error, find_home


def main(environ: MutableMapping[str, str]) -> int:
    """Run a daemon in the foreground until it stops; return its exit status."""
    # Loaded modules stay in memory, so collect no garbage until all are loaded.
    gc.disable()
    try:
        home = find_home(environ)
        home.prepare()
        lock = Lock(home.lock)
    except LockHeld as held:
        return _print_error(
            f"A daemon for this home runs already, as process {held.pid}; see "
            "taskmem status, or stop it with taskmem daemon stop."
        )
    except HomeRefused as error:
        return _print_error(str(error))
    except OSError as error:
        return _report_os_error(error)
    try:
        return _run_with_lock(environ, lock)
    except OSError as error:
        return _report_os_error(error)
    finally:
        lock.release()


def _run_with_lock(environ: MutableMapping[str, str], lock: Lock) -> int:
    folder = find_home(environ).folder
    finish_exchange(folder)
    remove_left_folders(folder, RESTORE)
    remove_old_files(folder)
    from openclaw_taskmem.daemon.main import run_daemon
    from taskmem_hookspecs.errors import TaskmemError

    try:
        run_daemon(environ, lock)
    except (TaskmemError, HomeRefused) as error:
        return _print_error(str(error))
    return 0


def _report_os_error(error: OSError) -> int:
    why = error.strerror
    match error.errno:
        case errno.ENOSPC | errno.EDQUOT:
            cause = (
                f"there is no room left on its disk ({why}). Free some space there, then try again."
            )
        case errno.EROFS:
            cause = (
                f"its disk is mounted read-only ({why}). Mount it for writing, or set "
                "TASKMEM_HOME to a folder on another disk."
            )
        case errno.EMFILE | errno.ENFILE:
            cause = (
                f"too many files are open ({why}). End a program that holds many, or raise the "
                "limit (ulimit -n), then try again."
            )
        case errno.EIO:
            cause = (
                f"the disk fails ({describe_os_error(error)}). See the system's log, or set "
                "TASKMEM_HOME to a folder on another disk."
            )
        case errno.ENOLCK | errno.ENOTSUP:
            cause = (
                f"its file system has no locks ({describe_os_error(error)}). Set TASKMEM_HOME to a "
                "folder on a local disk."
            )
        case _:
            return _print_error(
                f"The daemon cannot start ({describe_os_error(error)}); see that the state folder "
                "and what is in it belong to you, or set TASKMEM_HOME."
            )
    return _print_error(f"The daemon cannot start: {cause}")


def _print_error(sentence: str) -> int:
    print(sentence, file=sys.stderr)  # noqa: T201 - the operator reads it
    return 1
