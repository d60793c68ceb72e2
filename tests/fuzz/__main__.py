"""Fuzz a surface, guided by what of the product each input runs.

`python -m tests.fuzz SURFACE --runs N` takes the inputs of tests/fuzz/corpus, and new ones.
"""

from __future__ import annotations

import argparse
import json
import resource
import sys
import tempfile
from pathlib import Path
from typing import Final

import atheris

PRODUCT: Final = ("openclaw_taskmem", "taskmem_hookspecs", "taskmem_recall", "taskmem_sqlmodel")
CORPUS: Final = Path(__file__).parent / "corpus"
HANGS_SECONDS: Final = 20
"""Seconds of one input after which it is said to hang."""
FLAT_MIB: Final = 700
"""Memory of the process that is not exceeded."""

with atheris.instrument_imports(include=[*PRODUCT], enable_loader_override=False):
    from tests.fuzz.surfaces import HOME, SURFACES


class Counted:
    """A surface, and how many inputs it took."""

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


def main() -> None:
    """Fuzz one surface; end with 77 and the input in a file if it breaks its promise."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=__doc__)
    parser.add_argument("surface", choices=[*SURFACES])
    parser.add_argument("--runs", type=int, default=10_000, help="inputs; 10000")
    parser.add_argument("--seed", type=int, default=1, help="of the new inputs; 1")
    parser.add_argument("--keep", type=Path, help="folder for inputs that run something new")
    parser.add_argument("--input", type=Path, help="run this input alone")
    given = parser.parse_args()
    if given.input is not None:
        with HOME:
            Counted(given.surface, 1).take(given.input.read_bytes())
        return
    counted = Counted(given.surface, given.runs)
    kept = given.keep or Path(tempfile.mkdtemp(prefix="taskmem-fuzz-"))
    folders = [str(folder) for folder in (kept, CORPUS / given.surface)]
    options = (f"-runs={given.runs}", f"-seed={given.seed}", "-max_len=4096")
    limits = (f"-timeout={HANGS_SECONDS}", f"-rss_limit_mb={FLAT_MIB}", "-verbosity=0")
    atheris.Setup([sys.argv[0], *options, *limits, *folders], counted.take)
    with HOME:
        atheris.Fuzz()


if __name__ == "__main__":
    main()
