import subprocess
import sys

import pytest

import taskmem_evidence.hooks
import taskmem_terminal.hooks
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_evidence.commits import CommitVerifier
from taskmem_evidence.files import FileVerifier
from taskmem_evidence.urls import UrlVerifier
from taskmem_hookspecs.testing import check_plugin
from taskmem_terminal.command_evidence import CommandVerifier

BUILT_IN_SCHEMES = [("evidence", taskmem_evidence.hooks), ("terminal", taskmem_terminal.hooks)]


@pytest.mark.parametrize("module", [module for _, module in BUILT_IN_SCHEMES])
def test_the_plugins_fit_their_hooks(module):
    check_plugin(module)


@pytest.mark.parametrize(
    ("kind", "verifier"),
    [
        ("file", FileVerifier),
        ("url", UrlVerifier),
        ("command", CommandVerifier),
        ("commit", CommitVerifier),
    ],
)
def test_each_kind_has_one_verifier(kind, verifier):
    (found,) = PluginHost(entries=(), extra=BUILT_IN_SCHEMES).find_verifiers(kind)
    assert type(found) is verifier


@pytest.mark.parametrize("kind", ["", "File", "window", "files"])
def test_a_kind_that_nobody_looks_at_has_none(kind):
    assert PluginHost(entries=(), extra=BUILT_IN_SCHEMES).find_verifiers(kind) == ()


def test_the_plugin_loads_nothing_heavy_before_it_is_asked():
    ask = (
        "import sys, taskmem_evidence.hooks as one\n"
        "assert 'httpx' not in sys.modules and 'ctypes' not in sys.modules\n"
        "one.evidence_verifier('file')\n"
        "assert 'httpx' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", ask], check=True)
