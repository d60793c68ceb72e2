"""A PostgreSQL server of the tests' own, from what is installed on the machine."""

from __future__ import annotations

import itertools
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from taskmem_sqlmodel.store import SqlStore
from tests.support.required import do_without


class Cluster:
    """A PostgreSQL server with a folder of its own, reached by a Unix socket."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self._programs = programs
        self._folder = folder
        self._numbers = itertools.count()
        self._shared: str | None = None
        # PostgreSQL refuses to run as root.
        self._user = next((u for u in pwd.getpwall() if u.pw_name in ("postgres", "nobody")), None)

    def start(self) -> None:
        if os.getuid() == 0:
            os.chown(self._folder, self._user.pw_uid, self._user.pw_gid)
        # A collation unlike C shows whether the order of rows depends on it.
        self._run(
            *("initdb", "--username=taskmem", "--auth=trust", "--no-sync"),
            *("--encoding=UTF8", "--locale-provider=icu", "--icu-locale=en-US"),
            "--pgdata=data",
        )
        self._run("pg_ctl", *self._server, "--wait", "--log=log", "start")

    def stop(self) -> None:
        self._run("pg_ctl", *self._server, "--mode=immediate", "stop")

    def new_database(self) -> str:
        """Make a schema, which is an empty database to all who use its URL."""
        name = f"test_{next(self._numbers)}"
        place = f"postgresql:///postgres?host={self._folder}&user=taskmem"
        with psycopg.connect(place) as connection:
            connection.execute(f"CREATE SCHEMA {name}")
        return f"{place}&options=-c%20search_path%3D{name}"

    def emptied_database(self) -> str:
        """Return the URL of a database that has its tables, and nothing in them.

        It is always the same one, for who needs many one after the other: making
        the tables of a new one takes three times as long.
        """
        if self._shared is None:
            self._shared = self.new_database()
            SqlStore(self._shared).close()
        with psycopg.connect(self._shared) as connection:
            (names,) = connection.execute(
                "SELECT string_agg(tablename, ', ') FROM pg_tables WHERE schemaname "
                "= current_schema() AND tablename != 'alembic_version'"
            ).fetchone()
            connection.execute(f"TRUNCATE {names} RESTART IDENTITY")
        return self._shared

    @property
    def _server(self) -> list[str]:
        options = f"-c listen_addresses='' -c fsync=off -k {self._folder}"
        return ["--pgdata=data", "--options", options]

    def _run(self, program: str, *arguments: str) -> None:
        as_user = (
            {"user": self._user.pw_uid, "group": self._user.pw_gid, "extra_groups": []}
            if os.getuid() == 0
            else {}
        )
        subprocess.run(
            [self._programs / program, *arguments],
            cwd=self._folder,
            check=True,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            **as_user,
        )


@contextmanager
def serve_postgres() -> Iterator[Cluster]:
    """Start a server; it ends at once, and leaves nothing behind."""
    programs = _programs()
    if programs is None:
        do_without("PostgreSQL is not installed: apt-get install postgresql")
    # Not in a test's own: the path of a socket has about a hundred bytes.
    folder = Path(tempfile.mkdtemp(prefix="pg-"))
    cluster = Cluster(programs, folder)
    try:
        cluster.start()
        try:
            yield cluster
        finally:
            cluster.stop()
    finally:
        shutil.rmtree(folder)


def _programs() -> Path | None:
    """Return the folder of PostgreSQL's programs; None: it is not installed."""
    known = sorted(Path("/usr/lib/postgresql").glob("*/bin"), reverse=True)
    found = shutil.which("initdb", path=os.pathsep.join(map(str, known)))
    found = found or shutil.which("initdb")
    return found and Path(found).parent
