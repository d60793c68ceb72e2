"""A PostgreSQL server of its own on a real disk; unlike that of the tests, durable."""

from __future__ import annotations

import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from machine import find_filesystem

CONNECTIONS = 500
"""A process that claims has one for each thread that reads, and one that writes; those
of the dead stay for a while."""


class NoServer(Exception):
    """None can be started here; the sentence says why."""


@contextmanager
def run_server() -> Iterator[str]:
    """Run a server, give the URL of an empty database of it, and remove it.

    Raises:
        NoServer: It is not installed, or nobody may run it.
    """
    programs = _find_programs()
    folder = _make_folder()
    settings = f"-c listen_addresses='' -c max_connections={CONNECTIONS} -k {folder}"
    try:
        user = _choose_user(folder)
        init = ("--username=taskmem", "--auth=trust", "--encoding=UTF8")
        _run_program(user, folder, programs / "initdb", *init, "--pgdata=data")
        control = (programs / "pg_ctl", "--pgdata=data", "--options", settings)
        _run_program(user, folder, *control, "--wait", "--log=log", "start")
        try:
            yield f"postgresql:///postgres?host={folder}&user=taskmem"
        finally:
            _run_program(user, folder, *control, "--mode=immediate", "stop")
    finally:
        shutil.rmtree(folder)


def _find_programs() -> Path:
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb", path=os.pathsep.join(map(str, known)))
    found = found or shutil.which("initdb")
    if found is None:
        raise NoServer("PostgreSQL is not installed")
    return Path(found).parent


def _make_folder() -> Path:
    """Make a folder on a real disk: short for a socket, and open to another user."""
    place = os.environ.get("TASKMEM_BENCH_FOLDER", "/var/tmp")  # noqa: S108 - mkdtemp
    if find_filesystem(Path(place)) in ("tmpfs", "ramfs"):
        raise NoServer(f"{place} is on no real disk; name one in TASKMEM_BENCH_FOLDER")
    return Path(tempfile.mkdtemp(prefix="pg-", dir=place))


def _choose_user(folder: Path) -> dict[str, Any]:
    """Return as whom a server runs: PostgreSQL refuses to run as root."""
    if os.getuid() != 0:
        return {}
    users = [u for u in pwd.getpwall() if u.pw_name in ("postgres", "nobody")]
    if not users:
        raise NoServer("PostgreSQL does not run as root, and there is nobody else")
    os.chown(folder, users[0].pw_uid, users[0].pw_gid)
    return {"user": users[0].pw_uid, "group": users[0].pw_gid, "extra_groups": []}


def _run_program(user: dict[str, Any], folder: Path, *command: str | Path) -> None:
    subprocess.run(
        command, cwd=folder, check=True, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, **user
    )
