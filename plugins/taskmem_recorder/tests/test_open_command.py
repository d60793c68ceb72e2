"""A person opens what the screen showed; an agent is refused, and what is gone is said."""

from __future__ import annotations

import webbrowser
from datetime import UTC, datetime, timedelta

import pytest
from click.testing import CliRunner

from openclaw_taskmem.cli.command_line import cli
from taskmem_recorder.store import Moment, RecordingStore

URL = "memories://recordings/2026-02-10/segment-1"


@pytest.fixture
def pages(monkeypatch):
    shown = []
    monkeypatch.setattr(webbrowser, "open", shown.append)
    return shown


@pytest.fixture
def run(tmp_path, monkeypatch, pages):
    monkeypatch.setenv("TASKMEM_HOME", str(tmp_path))
    monkeypatch.setattr("openclaw_taskmem.cli.command_line.require_person", lambda: None)
    store = RecordingStore(tmp_path / "recordings")
    for seconds, picture in ((0, b"\xff\xd8picture"), (60, None)):
        at = datetime(2026, 2, 10, 12, tzinfo=UTC) + timedelta(seconds=seconds)
        store.add_moment(Moment(at=at, window_title="Keys", application="firefox"), picture)
    store.close()
    return lambda *words: CliRunner().invoke(cli, ["open", *words])


def test_a_segment_opens_in_the_browser_at_its_place(run, pages, tmp_path):
    result = run(f"{URL}.mp4#t=61")
    page = f"{(tmp_path / 'recordings/strips/segment-1.html').as_uri()}#moment-2"
    assert (result.exit_code, result.output) == (0, f"2 moments, 1 with a picture: {page}\n")
    assert pages == [page]


def test_no_open_prints_where_the_page_is(run, pages):
    assert run(URL, "--no-open").output.endswith("/recordings/strips/segment-1.html#moment-1\n")
    assert pages == []


@pytest.mark.parametrize(
    ("url", "says"),
    [
        ("memories://recordings/2026-02-10/segment-9", "is not in the recordings"),
        ("memories://recordings/2025-02-10/segment-1", "is not in the recordings"),
        ("https://example.org", "is no address of a recording"),
        ("memories://recordings/2026-02-10/segment-" + "9" * 400, "is no address of a recording"),
    ],
)
def test_what_cannot_be_opened_is_said_without_a_traceback(run, pages, url, says):
    result = run(url)
    assert result.exit_code in (1, 2)
    assert says in result.output
    assert isinstance(result.exception, SystemExit)
    assert pages == []


def test_an_agent_opens_nothing(run, pages, monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setenv("TASKMEM_HOME", str(tmp_path))
    monkeypatch.setenv("CLAUDECODE", "1")
    monkeypatch.setattr(webbrowser, "open", pages.append)
    result = run(URL)
    assert result.exit_code == 1
    assert pages == []
