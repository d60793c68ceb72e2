"""ClawHub's own program takes the plug-in as a package, without a network."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest

from tests.e2e.openclaw import (
    OpenClaw,
    Unavailable,
    cache_folder,
    find_npm,
    node_program,
    obtain_package,
)
from tests.support.required import do_without

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

PACKAGE = "clawhub@0.23.3"
PLUGIN = Path(__file__).parents[2] / "plugins" / "taskmem_openclaw" / "gateway"
NO_REGISTRY = "http://127.0.0.1:9"
SOURCE = ("--source-repo", "owner/repository", "--source-commit", "0" * 40)


class ClawHub:
    """Its program, with a copy of the plug-in, for it writes into a package's folder."""

    def __init__(self, folder: Path, program: Path) -> None:
        self.folder, self._program = folder, program
        self.plugin = folder / "plugin"
        shutil.copytree(PLUGIN, self.plugin)
        self._path = folder / "bin"
        self._path.mkdir()
        (self._path / "node").symlink_to(node_program())
        (self._path / "npm").symlink_to(find_npm(node_program()))

    def run(self, *args: str) -> str:
        """Run `clawhub package ARGS`; return what it printed."""
        environ = {
            "HOME": str(self.folder),
            "PATH": os.pathsep.join((str(self._path), os.environ.get("PATH", os.defpath))),
            "CLAWHUB_REGISTRY": NO_REGISTRY,
            "CLAWHUB_DISABLE_TELEMETRY": "1",
        }
        done = subprocess.run(
            [node_program(), "--no-warnings", self._program, "package", *args],
            cwd=self.folder,
            env=environ,
            capture_output=True,
            text=True,
            check=False,
            timeout=240,
        )
        assert done.returncode == 0, f"{done.stdout}\n{done.stderr}"
        return done.stdout


@pytest.fixture
def clawhub(tmp_path: Path) -> ClawHub:
    """ClawHub's program, fetched if need be."""
    try:
        program = obtain_package(cache_folder(), PACKAGE, "clawhub/bin/clawdhub.js")
    except Unavailable as reason:
        do_without(f"{PACKAGE} cannot be fetched: {reason}")
    return ClawHub(tmp_path, program)


def test_clawhub_finds_no_fault_in_the_package(openclaw: OpenClaw, clawhub: ClawHub):
    against = ("--openclaw", str(openclaw.entry.parent), "--out", "../reports")
    run = ("--runtime", "--allow-execute")
    output = clawhub.run("validate", str(clawhub.plugin), *against, *run)
    assert "Plugin Inspector: PASS\nBreakages: 0\nWarnings: 0\nFindings: none\n" in output
    report = clawhub.folder / "reports" / "plugin-inspector-runtime-capture.json"
    summary = json.loads(report.read_text())["summary"]
    assert (summary["capturedCount"], summary["failedCount"]) == (1, 0)
    tools = json.loads((PLUGIN / "openclaw.plugin.json").read_text())["contracts"]["tools"]
    assert summary["registrationCount"] > len(tools)


def test_clawhub_packs_the_plugin_and_would_publish_it(clawhub: ClawHub):
    clawhub.run("pack", str(clawhub.plugin), "--pack-destination", str(clawhub.folder))
    (packed,) = clawhub.folder.glob("*.tgz")
    with tarfile.open(packed) as archive:
        found = {Path(name).relative_to("package") for name in archive.getnames()}
    files = [path for path in PLUGIN.rglob("*") if path.is_file()]
    assert found == {path.relative_to(PLUGIN) for path in files}
    output = clawhub.run("publish", str(clawhub.plugin), "--dry-run", *SOURCE)
    assert f"{len(files)} files" in output
