"""Fuzz a surface, guided by which lines of the product each input runs.

`python -m tests.fuzz SURFACE --runs N` begins with the inputs in tests/fuzz/corpus.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import sys
import tempfile
from pathlib import Path
from typing import Final

import atheris

from tests.fuzz.corpus_files import read_inputs, write_inputs

PRODUCT: Final = ("openclaw_taskmem", "taskmem_hookspecs", "taskmem_recall", "taskmem_sqlmodel")
HANGS_SECONDS: Final = 20
"""Seconds of one input after which it is said to hang."""
MOST_MIB: Final = 700
"""Memory of the process, which must stay flat."""
MOST_BYTES: Final = 4096
"""Size of an input."""

with atheris.instrument_imports(include=[*PRODUCT], enable_loader_override=False):
    from tests.fuzz.surfaces import HOME, SURFACES


class Counted:
    """A surface, and how many inputs it is still to take."""

    def __init__(self, name: str, runs: int) -> None:
        self._name = name
        self._left = self._runs = runs
        self._surface = SURFACES[name]

    def take(self, data: bytes) -> None:
        """Pass an input to the surface; after the last one say how many calls that were."""
        self._surface(data)
        self._left -= 1
        if self._left == 0:
            peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
            counts = {"inputs": self._runs, "calls": HOME.calls or self._runs, "peak_mib": peak}
            print(json.dumps({"surface": self._name, **counts}), flush=True)


def main() -> int:
    """Fuzz one surface; return 1 if it breaks its promise, with the input in a file."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("surface", choices=[*SURFACES])
    parser.add_argument("--runs", type=int, default=10_000, help="inputs; 10000")
    parser.add_argument("--seed", type=int, default=1, help="of the new inputs; 1")
    parser.add_argument("--keep", action="store_true", help="add to the corpus what runs new lines")
    parser.add_argument("--input", type=Path, help="pass this input alone")
    given = parser.parse_args()
    if given.input is not None:
        with HOME:
            Counted(given.surface, 1).take(given.input.read_bytes())
        return 0
    folder = Path(tempfile.mkdtemp(prefix="taskmem-fuzz-"))
    for number, data in enumerate(read_inputs(given.surface)):
        (folder / f"{number}").write_bytes(data)
    child = os.fork()
    if child == 0:
        fuzz_surface(given.surface, given.runs, given.seed, folder)
    _, status = os.waitpid(child, 0)
    if status == 0 and given.keep:
        write_inputs(given.surface, [file.read_bytes() for file in folder.iterdir()])
    return int(status != 0)


def fuzz_surface(surface: str, runs: int, seed: int, folder: Path) -> None:
    """Fuzz in this process, and end it; inputs that run new lines are written to the folder."""
    counted = Counted(surface, runs)
    options = (f"-runs={runs}", f"-seed={seed}", f"-max_len={MOST_BYTES}", "-reduce_inputs=1")
    limits = (f"-timeout={HANGS_SECONDS}", f"-rss_limit_mb={MOST_MIB}", "-verbosity=0")
    atheris.Setup([sys.argv[0], *options, *limits, str(folder)], counted.take)
    with HOME:
        atheris.Fuzz()


if __name__ == "__main__":
    raise SystemExit(main())
