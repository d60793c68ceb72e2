"""How well claims are told apart by looking, and what a look costs."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from endings import endings
from figures import Figure, millis
from homes import a_home, disk, run

from openclaw_taskmem.home import Home
from taskmem_evidence.files import Files
from taskmem_evidence.urls import Urls
from taskmem_hookspecs import Claim, EvidenceVerifier, Finding, Verdict
from taskmem_terminal.evidence import Commands

sys.path.insert(0, str(Path(__file__).parent.parent))

FILES = 2_100
"""Claims of files, true ones and as many false ones."""
COMMANDS = 20
URLS = 100
TASKS = 1_400
"""That call themselves completed, true ones and as many false ones."""
SAMPLES = 500
TOLD = 20
"""Of what is ended wrongly, that many are told."""
MEGABYTE = 1_000_000
LATER = timedelta(days=1)


def evidence_claims() -> Iterator[Figure | str]:
    """Claims of files, commands, URLs and tasks, half of them false; a file of 1 MB."""
    with asyncio.Runner() as runner, tempfile.TemporaryDirectory(dir=disk()) as folder:
        seen = _Looks(runner)
        yield from seen.shares("files", _files(Path(folder), seen))
        yield from seen.shares("commands", _commands(seen))
        yield from seen.shares("URLs", _urls(seen))
        yield from _endings(Path(folder), seen.notes)
        yield millis("a look at a file of 1 MB", _megabytes(Path(folder), seen), 100)
    yield from seen.notes


class _Looks:
    """Looks at claims, and counts."""

    def __init__(self, runner: asyncio.Runner) -> None:
        self._runner = runner
        self.notes: list[str] = []

    def find(self, verifier: EvidenceVerifier, claim: Claim) -> Finding:
        return self._runner.run(verifier.verify(claim))

    def shares(
        self, what: str, found: Iterator[tuple[bool, str, Finding]]
    ) -> Iterator[Figure]:
        """Give how many false claims were believed and how many true ones were not."""
        counts = {True: [0, 0], False: [0, 0]}
        for true, kind, finding in found:
            wrong = true != (finding.verdict is Verdict.VERIFIED)
            counts[true][0] += 1
            counts[true][1] += wrong
            if wrong:
                self.notes.append(f"Claim taken wrongly, {kind}: {finding.detail}")
        yield _share(f"false claims of {what} that were believed", *counts[False])
        yield _share(f"true claims of {what} that were not", *counts[True])


def _share(what: str, count: int, wrong: int, limit: float | None = 0) -> Figure:
    share = 100 * wrong / count
    return Figure(
        what=what,
        median=share,
        worst=share,
        worst_is="of all",
        unit="%",
        limit=limit,
        samples=count,
    )


def _claim(kind: str, subject: str, since: datetime, **more: Any) -> Claim:  # noqa: ANN401
    return Claim(
        kind=kind,
        subject=subject,
        task_id="task_06dq3z8v1h2k9f",
        since=since,
        claimed_at=datetime.now(UTC),
        **more,
    )


# --- tasks --------------------------------------------------------------------


def _endings(folder: Path, notes: list[str]) -> Iterator[Figure]:
    """Give how many tasks were completed falsely, and how many were held up."""
    for unseen, which in ((False, ""), (True, ", in sentences new to the rule")):
        for true, what, limit in (
            (False, "false tasks that were completed", 0.0),
            (True, "true tasks that were not", 0.5),
        ):
            found = [*endings(folder, true=true, count=TASKS, unseen=unseen)]
            wrong = sorted({said for completed, said in found if completed is not true})
            count = sum(completed is not true for completed, _ in found)
            notes += (f"Ended wrongly, {said}" for said in wrong[:TOLD])
            yield _share(f"{what}{which}", len(found), count, None if unseen else limit)


# --- files --------------------------------------------------------------------


def _files(folder: Path, looks: _Looks) -> Iterator[tuple[bool, str, Finding]]:
    from tests.plugins.evidence import claims

    verifier = Files()
    for true, makers in ((False, claims.FALSE), (True, claims.TRUE)):
        for number in range(FILES):
            make: Callable[[Any], Any] = makers[number % len(makers)]
            with tempfile.TemporaryDirectory(dir=folder) as top:
                claim, meanwhile = make(claims.a_scene(Path(top), number))
                with claims.happening(meanwhile):
                    yield true, make.__name__, looks.find(verifier, claim)


def _megabytes(folder: Path, looks: _Looks) -> Sequence[float]:
    verifier, times = Files(), []
    path = folder / "report.bin"
    for _ in range(SAMPLES):
        since = datetime.now(UTC)
        path.write_bytes(os.urandom(MEGABYTE))
        claim = _claim(
            "file", path.name, since, folder=str(folder), roots=(str(folder),)
        )
        start = time.perf_counter()
        finding = looks.find(verifier, claim)
        times.append(time.perf_counter() - start)
        if finding.verdict is not Verdict.VERIFIED:
            raise SystemExit(finding.detail)
    return times


# --- commands -----------------------------------------------------------------


def _commands(looks: _Looks) -> Iterator[tuple[bool, str, Finding]]:
    verifier = Commands()
    with a_home() as home, _as_ours(home):
        since = datetime.now(UTC)
        for number in range(COMMANDS):
            good, bad = f"good-{number}", f"bad-{number}"
            run(home, ["run", "--name", good, "--", "echo", "built"])
            with suppress(subprocess.CalledProcessError):  # as it should
                run(home, ["run", "--name", bad, "--", "sh", "-c", "echo ok; exit 1"])
            for true, name, begun in (
                (True, good, since),
                (False, good, since + LATER),
                (False, bad, since),
                (False, f"none-{number}", since),
            ):
                yield true, name, looks.find(verifier, _claim("command", name, begun))


@contextmanager
def _as_ours(home: Home) -> Iterator[None]:
    before = os.environ.get("TASKMEM_HOME")
    os.environ["TASKMEM_HOME"] = str(home.folder)
    try:
        yield
    finally:
        del os.environ["TASKMEM_HOME"]
        if before is not None:
            os.environ["TASKMEM_HOME"] = before


# --- URLs ---------------------------------------------------------------------


class _Page(BaseHTTPRequestHandler):
    """Answers with the status in a path; `/200/0` is empty."""

    def do_GET(self) -> None:
        _, status, size = self.path.split("/")
        self.send_response(int(status))
        self.end_headers()
        self.wfile.write(b"x" * int(size))

    def log_message(self, *_: object) -> None:
        pass


def _urls(looks: _Looks) -> Iterator[tuple[bool, str, Finding]]:
    verifier = Urls()
    since = datetime.now(UTC)
    server = ThreadingHTTPServer(("127.0.0.1", 0), _Page)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
    here = f"http://127.0.0.1:{server.server_address[1]}"
    try:
        for number in range(URLS):
            yield (
                True,
                "url",
                looks.find(verifier, _claim("url", f"{here}/200/{number + 1}", since)),
            )
            lies = (f"{here}/404/9", f"{here}/500/9", f"{here}/200/0", f"{here}1/200/9")
            lie = lies[number % len(lies)]
            yield False, lie, looks.find(verifier, _claim("url", lie, since))
    finally:
        server.shutdown()
        server.server_close()
