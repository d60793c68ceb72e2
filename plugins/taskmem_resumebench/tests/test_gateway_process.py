"""The real gateway's process, played by a program that serves what OpenClaw does at its start."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from taskmem_resumebench.gateway_process import GatewayFailed, GatewayProcess

PLAYED = """#!{python} -IS
import json, os, sys
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
print("openclaw", *sys.argv[1:], file=sys.stderr, flush=True)
if sys.argv[1:] != ["gateway", "run"]:
    sys.exit("There is no such method.")
starts = Path(os.environ["HOME"]) / "starts"
starts.write_text(starts.read_text() + "." if starts.exists() else ".")
if len(starts.read_text()) <= {refused}:
    sys.exit("A migration refused execution.")
class Visit(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{{"ready": true}}')
config = json.loads(Path(os.environ["OPENCLAW_CONFIG_PATH"]).read_text())
HTTPServer(("127.0.0.1", config["gateway"]["port"]), Visit).serve_forever()
"""


def make_gateway(folder: Path, refused: int) -> GatewayProcess:
    """Make a gateway that ends at so many starts before it serves."""
    program = folder / "openclaw"
    program.write_text(PLAYED.format(python=sys.executable, refused=refused))
    program.chmod(0o700)
    return GatewayProcess(folder / "g", str(program))


def test_a_gateway_that_ends_while_it_starts_is_started_again(tmp_path: Path) -> None:
    gateway = make_gateway(tmp_path, refused=2)
    gateway.start("http://127.0.0.1:1/v1")
    gateway.kill()

    assert (tmp_path / "g" / "home" / "starts").read_text() == "..."
    found = json.loads((tmp_path / "g" / "state" / "openclaw.json").read_text())
    assert found["models"]["providers"]["local"]["baseUrl"] == "http://127.0.0.1:1/v1"


def test_a_gateway_that_never_starts_is_given_up(tmp_path: Path) -> None:
    gateway = make_gateway(tmp_path, refused=9)

    with pytest.raises(
        GatewayFailed, match=r"^OpenClaw's gateway does not start: A migration refused execution\.$"
    ):
        gateway.start("http://127.0.0.1:1/v1")


def test_a_refused_method_says_why(tmp_path: Path) -> None:
    with pytest.raises(
        GatewayFailed, match=r"^OpenClaw refused `agent`: There is no such method\.$"
    ):
        make_gateway(tmp_path, refused=0).call_method("agent", message="Hello")


def test_it_has_no_variables_but_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENCLAW_GATEWAY_TOKEN", "TASKMEM_HOME", "HOME"):
        monkeypatch.setenv(name, "the user's")

    environ = make_gateway(tmp_path, refused=0).environ

    assert "the user's" not in environ.values()
    folders = ("HOME", "OPENCLAW_HOME", "OPENCLAW_STATE_DIR", "OPENCLAW_CONFIG_PATH", "TMPDIR")
    assert all(environ[name].startswith(str(tmp_path)) for name in folders)
