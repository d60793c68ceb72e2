"""Installations of taskmem beside the one that is tested: the same code, and more packages."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
from pathlib import Path


def make_installation(folder: Path, *sites: Path) -> Path:
    """Make a virtual environment in a folder, and return its Python.

    It has all that is installed here, and the packages of `sites`, whose .pth files count.
    """
    python = folder / "bin" / "python"
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    packages = folder / "lib" / version / "site-packages"
    packages.mkdir(parents=True)
    python.parent.mkdir()
    python.symlink_to(Path(sys.executable).resolve())
    base = Path(sys.executable).resolve().parent
    (folder / "pyvenv.cfg").write_text(f"home = {base}\n")
    added = [Path(sysconfig.get_path("purelib")), *sites]
    lines = [f"import site; site.addsitedir({str(each)!r})\n" for each in added]
    (packages / "added.pth").write_text("".join(lines))
    program = python.with_name("taskmem")
    program.write_text(
        f"#!{python}\nfrom openclaw_taskmem.cli.main import main\n\nmain()\n", encoding="utf-8"
    )
    program.chmod(0o755)
    return python


def run_example_tests(folder: Path) -> subprocess.CompletedProcess[str]:
    """Run the tests of an example of the documentation that was written into a folder."""
    (folder / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")
    ran = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "-rs"],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    return ran
