"""Every row of the core in each of its states, and how rows are shown."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import signal
import sqlite3
import subprocess
import sys
from concurrent.futures import Future
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unicodedata import bidirectional, category

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem import __version__, settings_report
from openclaw_taskmem.cli import daemon_process, doctor, doctor_rows
from openclaw_taskmem.config import list_defaults
from openclaw_taskmem.daemon.home_exchange import RESTORE
from openclaw_taskmem.daemon.lock import Lock
from openclaw_taskmem.domain.text.texts import format_count
from openclaw_taskmem.home import Home, HomeRefused, find_home
from openclaw_taskmem.plugin_host.isolation import TookTooLong
from openclaw_taskmem.plugin_host.plugin_host import Plugin, PluginHost
from openclaw_taskmem.tools.views import list_plugins
from taskmem_hookspecs import DoctorRow, DoctorState, StoreFull, TaskmemError, hookimpl
from taskmem_openclaw.doctor.rows import _build_unused_row
from taskmem_program import OWN_PROGRAM
from tests.cli.fake_daemon import FakeDaemon
from tests.support.daemons import COMMAND, QUIET, Daemon, environment, short_home
from tests.support.waiting import PATIENCE

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
OK, OFF, WARN, FAIL = DoctorState


def time_ago(**ago: float) -> str:
    return (NOW - timedelta(**ago)).isoformat()


# --- the home -------------------------------------------------------------------


def test_a_home_that_is_not_there_yet_is_fine(home):
    assert doctor_rows.check_home(home).state is OK
    assert not home.folder.exists()


def test_a_home_of_its_owner_alone_is_fine(home):
    home.prepare()
    assert doctor_rows.check_home(home).state is OK


@pytest.mark.parametrize(
    ("mode", "cure"),
    [
        *((0o755, "chmod 700"), (0o701, "chmod 700"), (0o770, "chmod 700")),
        (0o1777, "Set TASKMEM_HOME"),
    ],
)
def test_a_home_that_is_open_to_others_is_closed_by_a_command(home, mode, cure):
    home.prepare()
    home.folder.chmod(mode)
    row = doctor_rows.check_home(home)
    assert row.state is FAIL
    assert f"{mode:04o}" in row.detail
    assert cure in row.cure


def test_no_folder_of_the_system_is_told_to_be_closed():
    row = doctor_rows.check_home(Home(Path("/"), Path("/daemon.sock")))
    assert (row.state, row.cure) == (FAIL, "Set TASKMEM_HOME to a folder of your own.")
    assert "one of the system" in row.detail


def test_a_home_that_cannot_be_closed_is_not_told_to_chmod(home, monkeypatch):
    home.prepare()
    home.folder.chmod(0o777)
    monkeypatch.setattr(doctor_rows, "keeps_modes", lambda _: False)
    row = doctor_rows.check_home(home)
    assert (row.state, "chmod 700" in row.cure) == (FAIL, False)
    assert "keeps no permissions" in row.detail


def test_a_home_of_somebody_else_is_not_ours(home, monkeypatch):
    home.prepare()
    owner = os.geteuid()
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    row = doctor_rows.check_home(home)
    assert row.state is FAIL
    assert f"user {owner}" in row.detail
    assert "TASKMEM_HOME" in row.cure


def test_a_file_of_somebody_else_in_a_home_is_told(home, monkeypatch):
    home.prepare()

    def refuse(_):
        raise HomeRefused("config.toml belongs to user 7")

    monkeypatch.setattr(Home, "require_own", refuse)
    row = doctor_rows.check_home(home)
    assert (row.state, row.detail) == (FAIL, "config.toml belongs to user 7")


def test_a_home_that_is_a_file_is_none(home):
    home.folder.touch()
    assert doctor_rows.check_home(home).state is FAIL


def test_a_home_behind_a_file_cannot_be_seen(home):
    home.folder.touch()
    inner = find_home({"TASKMEM_HOME": str(home.folder / "inner")})
    row = doctor_rows.check_home(inner)
    assert row.state is FAIL
    assert "Not a directory" in row.detail


def test_a_home_that_cannot_be_written_is_opened_to_its_owner(home, monkeypatch):
    home.prepare()
    monkeypatch.setattr(os, "access", lambda *_: False)
    row = doctor_rows.check_home(home)
    assert row.state is FAIL
    assert "chmod 700" in row.cure


def test_no_chmod_is_advised_on_a_disk_that_is_mounted_read_only(home, monkeypatch):
    home.prepare()
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=os.ST_RDONLY))
    row = doctor_rows.check_home(home)
    assert (row.state, "mounted read-only" in row.detail) == (FAIL, True)
    assert row.cure.startswith("Mount it for writing, or: Set TASKMEM_HOME")


# --- the settings ---------------------------------------------------------------


def settings(home, text="", **environ):
    home.prepare()
    if text:
        home.config.write_text(text)
    given = {"TASKMEM_HOME": str(home.folder), **environ}
    return doctor_rows.check_settings(home, given)


@pytest.mark.parametrize(
    ("properties", "place", "state"),
    [
        (("yes", "no"), "session", WARN),
        (("yes", "yes"), "session", WARN),
        (("yes", "yes"), "service", OK),
        (("no", "no"), "service", WARN),
        (("no", "no"), "session", OK),
        (("yes", "no"), None, WARN),
    ],
)
def test_a_logout_that_ends_the_daemon_is_told(tmp_path, monkeypatch, properties, place, state):
    kills, lingers = properties
    program = tmp_path / "loginctl"
    program.write_text(
        f'#!/bin/sh\ncase "$*" in *Linger*) echo {lingers};; *) echo {kills};; esac\n'
    )
    program.chmod(0o755)
    monkeypatch.setattr(doctor_rows, "_read_service_place", lambda _: place)
    environ = {"PATH": str(tmp_path), "XDG_SESSION_ID": "2"}

    home = Home(tmp_path / "my home", tmp_path / "socket")
    [row] = doctor_rows.check_logout(home, 1, environ)

    assert row.state is state
    if state is WARN:
        *before, start = row.cure.removeprefix("Run: ").split(" && ")
        assert before == ["loginctl enable-linger", "taskmem daemon stop"]
        program, *words = shlex.split(start)
        assert program == "systemd-run"
        assert f"--setenv=TASKMEM_HOME={home.folder}" in words
        assert words[-len(OWN_PROGRAM) - 1 :] == [*OWN_PROGRAM, "daemon"]


def test_without_systemd_nothing_is_said_of_a_logout(home, tmp_path):
    assert [*doctor_rows.check_logout(home, os.getpid(), {"PATH": str(tmp_path)})] == []


def test_settings_that_are_understood_are_fine_and_count(home):
    found, row = settings(home, "hook_seconds = 7\n", TASKMEM_TOOLS="all")
    assert row.state is OK
    assert str(home.config) in row.detail
    assert (found.hook_seconds, found.tools) == (7.0, "all")


def test_a_setting_of_the_file_that_nobody_knows_is_named(home):
    _, row = settings(home, "stuck = 7\n")
    assert row.state is WARN
    assert "'stuck'" in row.detail


def test_misspelled_variable_is_named_with_the_setting_meant(home):
    _, row = settings(home, TASKMEM_STUCK_TRESHOLD_SECONDS="7")
    assert row.state is WARN
    assert "TASKMEM_STUCK_THRESHOLD_SECONDS is meant" in row.detail


@pytest.mark.parametrize("name", ["TASKMEM_DISPLAY", "TASKMEM_SESSION_KEY", "STUCK"])
def test_a_variable_that_is_read_elsewhere_is_understood(home, name):
    _, row = settings(home, **{name: "x"})
    assert row.state is OK
    assert "Every setting in the environment is understood." in row.detail


@pytest.mark.parametrize("name", ["TASKMEM_NTFY_URL", "TASKMEM_WARNINGS"])
def test_a_variable_that_nothing_here_reads_is_named_as_unknown(home, name):
    _, row = settings(home, **{name: "x"})
    assert row.state is OK
    assert f"taskmem does not know {name}, which a plug-in may read; " in row.detail
    assert "Every setting" not in row.detail


def test_a_running_daemon_is_not_affected_by_bad_settings(home, daemon):
    assert "no task is kept" in settings(home, TASKMEM_KEEP_DAYS="abc")[1].effect
    daemon()
    _, row = settings(home, TASKMEM_KEEP_DAYS="abc")
    assert row.state is FAIL
    assert row.effect.endswith("The one that runs is not affected.")


def test_invalid_setting_fails_and_the_default_applies(home):
    found, row = settings(home, TASKMEM_HOOK_SECONDS="never")
    assert row.state is FAIL
    assert "TASKMEM_HOOK_SECONDS" in row.detail
    assert str(home.config) in row.cure
    assert found.hook_seconds == 2.0


def test_every_setting_is_known_by_its_own_name():
    known = [f"TASKMEM_{name.upper()}" for name in list_defaults()]
    assert list(settings_report.find_misspelt_settings(known)) == []


# --- the daemon -----------------------------------------------------------------


def test_a_daemon_of_our_version_is_fine(home, daemon):
    daemon(opening={"taskmem": 1, "pid": 7, "version": __version__})
    link, row = doctor_rows.check_daemon(home, {})
    link.close()
    assert (row.id, row.state) == ("daemon", OK)
    assert "runs as process 7" in row.detail


def test_a_daemon_of_another_version_is_to_be_restarted(home, daemon):
    daemon(opening={"taskmem": 1, "pid": 7, "version": "0.0.1"})
    link, row = doctor_rows.check_daemon(home, {})
    link.close()
    assert row.state is FAIL
    assert "0.0.1" in row.detail
    assert "taskmem daemon restart" in row.cure


@pytest.mark.parametrize(("age", "advised"), [(1, False), (1000, True)], ids=["starts", "hangs"])
def test_only_one_that_had_its_time_to_start_may_be_killed(home, monkeypatch, age, advised):
    monkeypatch.setattr(daemon_process, "_START_SECONDS", 0.05)
    monkeypatch.setattr(daemon_process, "read_process_age", lambda _: age)
    home.prepare()
    held = Lock(home.lock)
    link, row = doctor_rows.check_daemon(home, {})
    held.release()
    assert link is None
    assert row.state is FAIL
    assert f"rocess {os.getpid()}" in row.detail
    assert (f"kill -9 {os.getpid()}" in row.cure) is advised
    assert str(home.log) in row.cure


def test_of_one_that_nobody_can_name_no_number_is_told(home, monkeypatch):
    monkeypatch.setattr(daemon_process, "_START_SECONDS", 0.05)
    home.prepare()
    held = Lock(home.lock)
    home.lock.write_text("")
    os.utime(home.lock, (0.0, 0.0))
    _, row = doctor_rows.check_daemon(home, {})
    held.release()
    assert row.cure == f"Find who holds it with fuser {home.lock}, and end it."


def test_a_daemon_that_refuses_says_why(home, daemon):
    daemon(opening={"error": "protocol", "message": "Speak another protocol."})
    link, row = doctor_rows.check_daemon(home, {})
    assert link is None
    assert (row.state, row.detail) == (FAIL, "Speak another protocol.")


def test_a_daemon_that_cannot_be_started_says_why(home):
    link, row = doctor_rows.check_daemon(home, {"TASKMEM_HOOK_SECONDS": "never", **os.environ})
    assert link is None
    assert row.state is FAIL
    assert "TASKMEM_HOOK_SECONDS" in row.detail


def test_a_lock_that_cannot_be_opened_is_named(home, monkeypatch):
    def refuse(path):
        raise PermissionError(13, "Permission denied", str(path))

    home.prepare()
    for module in (daemon_process, daemon_process):
        monkeypatch.setattr(module, "find_holder", refuse)
    _, row = doctor_rows.check_daemon(home, {})
    assert row.state is FAIL
    assert str(home.lock) in row.detail
    assert "TASKMEM_HOME" in row.cure


# --- transport and plug-ins -----------------------------------------------------


class Post:
    name = "post"

    async def deliver(self, wake):
        raise AssertionError("a doctor wakes nobody by this transport")


def seams_with(*names):
    class PostPlugin:
        @staticmethod
        @hookimpl
        def wake_transport(name):
            return Post() if name in names else None

    return PluginHost(entries=[], extra=[("posting", PostPlugin)])


def test_the_transports_that_deliver_wakes_are_named(home):
    found, _ = settings(home)
    names, row = doctor_rows.check_transports(None, seams_with("auto"), found)
    assert (names, row.state) == (("post",), OK)
    assert row.detail == "Wakes go out by post."


def test_a_transport_that_is_not_there_fails(home):
    found, _ = settings(home, TASKMEM_WAKE_TRANSPORT="pigeon")
    names, row = doctor_rows.check_transports(None, seams_with("auto", "post"), found)
    assert (names, row.state) == ((), FAIL)
    assert "pigeon" in row.detail
    assert "TASKMEM_WAKE_TRANSPORT" in row.cure


def daemon_with(transport="auto", note=None, **chosen):
    """What a daemon tells of itself that has these settings."""
    return {"transport": transport, "transport_note": note, "settings": chosen}


def test_the_transport_is_the_daemons_not_that_of_whoever_asks(home):
    found, _ = settings(home, TASKMEM_WAKE_TRANSPORT="pigeon")
    status = daemon_with("post, ntfy", TASKMEM_WAKE_TRANSPORT="post")
    names, row = doctor_rows.check_transports(status, seams_with("auto"), found)
    assert (names, row.state) == (("post", "ntfy"), OK)
    assert row.detail == "Wakes go out by post, ntfy."


def test_unusable_transport_is_a_warning_with_a_cure(home):
    found, _ = settings(home)
    status = daemon_with("auto", "nobody reads it", TASKMEM_WAKE_TRANSPORT="stdout")
    names, row = doctor_rows.check_transports(status, seams_with("auto"), found)
    assert (names, row.state) == (("auto",), WARN)
    assert "auto: nobody reads it" in row.detail
    assert str(home.config) in row.cure


@pytest.mark.parametrize(
    ("used", "text", "here", "said"),
    [
        ({}, "", {}, []),
        ({"TASKMEM_NOTIFY": "off"}, "notify = 'off'", {}, []),
        ({"TASKMEM_NOTIFY": "off"}, "", {}, ["TASKMEM_NOTIFY=off, .* not set"]),
        ({}, "notify = 'off'", {}, ["no TASKMEM_NOTIFY, .* is off"]),
        ({}, "", {"TASKMEM_HOOK_SECONDS": "2"}, []),
        ({}, "", {"TASKMEM_TOOLS": "all"}, []),
        ({}, "", {"TASKMEM_PRIVATE_WINDOWS": "x"}, ["no TASKMEM_PRIVATE_WINDOWS,"]),
        ({"GEMINI_API_KEY": "set"}, "", {"GEMINI_API_KEY": "abc"}, []),
        ({}, "", {"GEMINI_API_KEY": "abc"}, ["no GEMINI_API_KEY, .* is set"]),
        ({"OPENCLAW_GATEWAY_PORT": "1"}, "", {}, []),
        ({}, "", {"OPENCLAW_STATE_DIR": "/o"}, ["no OPENCLAW_STATE_DIR, .* is /o"]),
    ],
)
def test_a_setting_that_the_daemon_has_otherwise_is_named(home, used, text, here, said):
    environ = {"TASKMEM_HOME": str(home.folder), **here}
    home.prepare()
    home.config.write_text(text)
    found, _ = doctor_rows.check_settings(home, environ)
    rows = list(doctor_rows.check_differences(daemon_with(**used), found, environ))
    assert len(rows) == len(said)
    for row, sentence in zip(rows, said, strict=True):
        assert row.state is WARN
        assert re.search(sentence, row.detail)
        assert "taskmem daemon restart" in row.cure


@pytest.mark.parametrize(
    ("name", "circle"), [("TASKMEM_KEEP_DAYS", True), ("TASKMEM_NOTIFY", False)]
)
def test_the_cure_ends_what_a_hosts_environment_sets(home, name, circle):
    environ = {"TASKMEM_HOME": str(home.folder)}
    found, _ = doctor_rows.check_settings(home, environ)
    used = daemon_with(**{name: "5"})
    [row] = doctor_rows.check_differences(used, found, environ)
    assert (f"Take {name} out of the environment" in row.cure) is circle
    assert f"ut the value that is meant into {home.config}. Run: taskmem" in row.cure


def test_openclaw_path_is_not_compared_once_a_gateway_connects(home):
    environ = {"TASKMEM_HOME": str(home.folder), "TASKMEM_OPENCLAW_BIN": "/o"}
    found, _ = doctor_rows.check_settings(home, environ)
    alone = daemon_with()
    assert list(doctor_rows.check_differences(alone, found, environ))
    connected = {**alone, "gateways": [{}]}
    assert not list(doctor_rows.check_differences(connected, found, environ))


def test_settings_missing_from_an_older_daemon_are_no_difference(home):
    found, _ = settings(home, TASKMEM_NOTIFY="off")
    environ = {"TASKMEM_NOTIFY": "off"}
    assert not list(doctor_rows.check_differences({"pid": 1}, found, environ))
    assert not list(doctor_rows.check_differences(None, found, environ))


def plugin(name="ntfy", state="on", last_error=None):
    return {"name": name, "state": state, "last_error": last_error}


def test_enabled_plugins_are_listed_with_those_left_out():
    [row] = doctor_rows.check_plugins([plugin(), plugin("b"), plugin("c", "off")])
    assert (row.id, row.state) == ("plugins", OK)
    assert "ntfy, b; left out: c" in row.detail


@pytest.mark.parametrize(
    ("state", "error", "found", "cure"),
    [
        ("failed", "loading: boom", FAIL, "TASKMEM_DISABLED_PLUGINS=bad"),
        ("muted", "on_stuck: boom", WARN, "taskmem daemon restart"),
        ("on", "recall: boom", WARN, "Tell its author"),
    ],
)
def test_a_plugin_that_ails_has_a_row_of_its_own(state, error, found, cure):
    rows = list(doctor_rows.check_plugins([plugin(), plugin("bad", state, error)]))
    assert [(row.id, row.state) for row in rows] == [("plugin.bad", found)]
    assert error in rows[0].detail
    assert cure in rows[0].cure


def failed_row(error, distribution=None):
    """Return the row of a plug-in that raised an error while it recalled."""
    failed = Plugin("past-tasks", distribution or "")
    failed.record_error("recall", error)
    context = SimpleNamespace(plugin_host=SimpleNamespace(plugins=[failed]))
    [row] = doctor_rows.check_plugins(json.loads(json.dumps(list_plugins(context))))
    return row


@pytest.mark.parametrize(
    ("distribution", "cure"),
    [
        ("openclaw-taskmem 1.0", "The machine was slow then; if it is so again, run: taskmem"),
        ("taskmem-ntfy 1.0", "Tell its author; run: taskmem"),
        (None, "Tell its author; run: taskmem"),
    ],
)
def test_a_built_in_plugin_that_was_late_has_no_author_to_tell(distribution, cure):
    row = failed_row(TookTooLong(2, Future()), distribution)
    assert "no answer within 2 s" in row.detail
    assert row.cure.startswith(cure)


NO_ROOM = "Make room on its disk, then run: taskmem daemon restart"
FULL_DATABASE = sqlite3.OperationalError("words")
FULL_DATABASE.sqlite_errorname = "SQLITE_FULL"
WRAPPED = ValueError("nothing was kept")
WRAPPED.__cause__ = OSError(errno.ENOSPC, "words")


@pytest.mark.parametrize(
    ("error", "cure"),
    [
        (StoreFull("words"), NO_ROOM),
        (OSError(errno.ENOSPC, "words", "/x"), NO_ROOM),
        (OSError(errno.EDQUOT, "words", "/x"), NO_ROOM),
        (FULL_DATABASE, NO_ROOM),
        (WRAPPED, NO_ROOM),
        (OSError(errno.EROFS, "words"), "Mount its disk for writing, then run: taskmem daemon re"),
        (ValueError(f"StoreFull, TookTooLong: {os.strerror(errno.ENOSPC)}"), "Tell its author"),
    ],
)
def test_a_plugin_that_its_disk_stopped_has_no_author_to_tell(error, cure):
    assert failed_row(error, "openclaw-taskmem 1.0").cure.startswith(cure)


def test_no_plugin_at_all_fails():
    *_, row = doctor_rows.check_plugins([plugin("c", "off")])
    assert (row.id, row.state) == ("plugins", FAIL)


def check_versions(loaded, installed):
    rows = doctor_rows.check_plugin_versions(
        [{"name": name, "distribution": dist} for name, dist in loaded.items()],
        [Plugin(name=name, distribution=dist) for name, dist in installed.items()],
    )
    return {row.id: row for row in rows}


@pytest.mark.parametrize(
    ("loaded", "installed", "said"),
    [
        ({"b": "tm-b 1.0"}, {"b": "tm-b 1.1"}, "The daemon runs tm-b 1.0, and tm-b 1.1 is inst"),
        ({}, {"b": "tm-b 1.1"}, "tm-b 1.1 was installed after the daemon started."),
        ({"b": "tm-b 1.0"}, {}, "The daemon runs tm-b 1.0, which is not installed any more."),
    ],
    ids=["upgraded", "installed", "removed"],
)
def test_a_plugin_that_changed_under_its_daemon_is_told(loaded, installed, said):
    same = {"a": "tm-a 1.0", "by-hand": ""}
    [(name, row)] = check_versions(same | loaded, same | installed).items()
    assert (name, row.state) == ("plugin.b.version", WARN)
    assert row.detail.startswith(said)
    assert "taskmem daemon restart" in row.cure


def test_built_in_plugins_have_the_version_of_the_daemon():
    ours = {"evidence": "openclaw-taskmem 0.1"}
    assert check_versions(ours, {"evidence": "openclaw-taskmem 0.2"}) == {}


# --- wakes and the clock --------------------------------------------------------


def wake(state="due", **given: Any):
    return {
        "wake_id": "wake_1",
        "state": state,
        "created_at": time_ago(minutes=5),
        "due_at": time_ago(),
        "sent_at": None,
        "last_error": None,
        "held": None,
        "note": None,
        "task_id": "task_1",
        "wait_id": None,
        **given,
    }


@pytest.mark.parametrize(
    ("status", "detail"),
    [
        ({"hostless": 2}, "2 tasks are open, and nobody can be woken: no host of an agent is"),
        ({"hostless": 1}, "1 task is open, and nobody can be woken"),
        *(({"hostless": 0}, None), ({}, None), ({"hostless": 2, "gateways": [{}]}, None)),
        ({"hostless": 2, "sessions": [{}]}, None),
    ],
)
def test_open_tasks_without_any_host_are_a_warning(status, detail):
    rows = list(doctor._check_hosts({"gateways": [], **status}))
    assert [row.state for row in rows] == ([] if detail is None else [WARN])
    if detail is not None:
        assert rows[0].detail.startswith(detail)
        assert "taskmem setup claude" not in rows[0].cure
        assert "All is well" not in doctor._format_summary(rows, verbose=True)


def owed_row(*wakes, gateway_started=None):
    row, _ = doctor_rows.check_wakes(wakes, NOW, gateway_started)
    assert row.id == "wakes.owed"
    return row


def unanswered_row(*wakes):
    _, row = doctor_rows.check_wakes(wakes, NOW)
    assert row.id == "wakes.unanswered"
    return row


@pytest.mark.parametrize("state", ["sent", "acknowledged", "refused", "superseded"])
def test_wakes_that_are_not_owed_are_fine(state):
    assert owed_row(wake(state, last_error="once")).state is OK
    assert unanswered_row(wake(state)).state is OK
    assert owed_row().state is OK


def test_a_wake_that_is_owed_and_had_no_trouble_is_fine():
    row = owed_row(wake(held="the gateway has just started"))
    assert row.state is OK
    assert "1 wake is owed" in row.detail
    assert "just started" in row.detail


@pytest.mark.parametrize(("age", "state"), [(59, WARN), (61, FAIL)])
def test_a_wake_that_does_not_arrive_fails_after_a_minute(age, state):
    row = owed_row(wake(created_at=time_ago(seconds=age), last_error="no gateway"))
    assert row.state is state
    assert "no gateway" in row.detail
    assert "taskmem wakes" in row.cure


@pytest.mark.parametrize("field", ["held", "note"])
def test_a_wake_that_waits_on_purpose_is_no_fault(field):
    why = {"last_error": "once", field: "No gateway runs here."}
    row = owed_row(wake(created_at=time_ago(hours=3), **why))
    assert row.state is OK
    assert row.detail.endswith("; waiting: No gateway runs here.")
    row = owed_row(wake(created_at=time_ago(hours=3), **why), wake(last_error="no way"))
    assert row.state is FAIL
    assert "1 wake is owed" in row.detail


@pytest.mark.parametrize(("age", "state"), [(59, OK), (61, FAIL)])
def test_a_gateway_that_has_just_started_is_waited_for(age, state):
    started = NOW - timedelta(seconds=age)
    row = owed_row(wake(last_error="only just loaded"), gateway_started=started)
    assert row.state is state


def test_the_oldest_of_several_wakes_counts():
    young = wake(created_at=time_ago(seconds=1), last_error="no gateway")
    row = owed_row(young, wake(created_at=time_ago(hours=3)))
    assert row.state is FAIL
    assert "2 wakes are owed" in row.detail
    assert time_ago(hours=3) in row.detail


def test_long_owed_wake_is_seen_behind_many_newer_wakes():
    old = wake(wake_id="wake_old", created_at=time_ago(hours=3), last_error="no gateway")
    newer = [wake("acknowledged", wake_id=f"wake_{n}") for n in range(3)]

    def ask(method, **params):
        return {"wakes": newer if params.get("all") else [old]}.get(method)

    asked, clock = SimpleNamespace(ask=ask), SimpleNamespace(now=lambda: NOW)
    rows = doctor._check_wakes(asked, clock)
    assert next(rows).state is FAIL


def test_a_wake_that_nobody_acted_on_is_named_with_its_task():
    row = unanswered_row(wake("unanswered", sent_at=time_ago(hours=23)))
    assert row.state is WARN
    assert "wake_1" in row.detail
    assert "taskmem show task_1" in row.cure


def test_a_wake_of_a_lone_wait_is_shown_by_its_wait():
    alone = wake("unanswered", sent_at=time_ago(hours=1), task_id=None, wait_id="wait_1")
    assert "taskmem show wait_1" in unanswered_row(alone).cure


def test_what_nobody_acted_on_yesterday_is_past():
    assert unanswered_row(wake("unanswered", sent_at=time_ago(hours=25))).state is OK


def test_full_database_is_a_warning_with_a_cure():
    keeps = {"bytes": 3 * 2**30, "most_bytes": 2**31, "days": 90.0, "full": True}
    [row] = doctor_rows.check_retention(keeps)
    assert (row.id, row.state) == ("kept", DoctorState.WARN)
    assert "3,072 MiB, more than the 2,048 of TASKMEM_KEEP_MB" in row.detail
    assert row.cure is not None
    assert "End tasks that are over" in row.cure


def test_a_large_database_that_homes_share_is_told_as_such() -> None:
    keeps = {"most_bytes": 2**31, "days": 90.0, "full": False, "shared": True}
    [row] = doctor_rows.check_retention({**keeps, "bytes": 3 * 2**30})
    assert row.state is DoctorState.WARN
    assert "since other homes share it" in row.detail
    assert list(doctor_rows.check_retention({**keeps, "bytes": 2**30})) == []


@pytest.mark.parametrize("taken", [None, 1, 3 * 2**30])
def test_a_database_that_can_make_room_has_no_row(taken):
    keeps = {"bytes": taken, "most_bytes": 2**31, "days": 90.0, "full": False}
    assert list(doctor_rows.check_retention(keeps)) == []


MIB = 2**20


@pytest.mark.parametrize(
    ("sizes", "free", "said", "cure"),
    [
        ({}, 5000, "takes 0 MiB, and 5,000 MiB are free", None),
        ({"database": 2000, "logs": 0.4}, 5000, "2,000 MiB (database 2,000 MiB), and", None),
        ({"logs": 3, "database": 2046}, 5000, "(database 2,046 MiB, logs 3 MiB)", "KEEP_DAYS"),
        ({"recordings of the screen": 9000, "logs": 3}, 5000, "takes 9,003 MiB", None),
        ({"other files": 2049}, 5000, "takes 2,049 MiB", "du -ah"),
        ({"unpacked by restore": 2049}, 5000, "takes 2,049 MiB", "Run: taskmem daemon restart"),
        ({"logs": 3}, 1023, "1,023 MiB are free", "Make room on the disk"),
    ],
)
def test_a_large_home_or_a_full_disk_is_a_warning(home, sizes, free, said, cure):
    taken = {part: int(size * MIB) for part, size in sizes.items()}
    row = doctor_rows._build_home_size_row(home, taken, free * MIB)
    assert (row.id, row.state) == ("kept.home", WARN if cure else OK)
    assert said in row.detail
    assert cure is None or cure in row.cure


@pytest.mark.parametrize(("has_database", "said"), [(True, "no report"), (False, "if the datab")])
def test_what_a_full_disk_stops_depends_on_the_database(home, has_database, said):
    row = doctor_rows._build_home_size_row(home, {}, 0, has_database=has_database)
    assert said in row.effect


def test_what_a_home_holds_is_measured_by_part(home):
    assert doctor_rows._measure_home(home.folder) == {}
    row = doctor_rows.check_home_size(home, has_database=True)
    assert row.detail.startswith("The home takes 0 MiB, and ")
    home.prepare()
    unpacked = f"{RESTORE}1/home/taskmem.db"
    replaced = "replaced-1/taskmem.db"
    for name in ("taskmem.db-wal", replaced, unpacked, "odd/a/b"):
        path = home.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * len(name))
    assert doctor_rows._measure_home(home.folder) == {
        "database": len("taskmem.db-wal"),
        "set aside by restore": len(replaced),
        "unpacked by restore": len(unpacked),
        "other files": len("odd/a/b"),
    }


def test_recordings_without_their_package_are_a_warning(home):
    recorder = Plugin("screen-history", "openclaw-taskmem-recorder 0.2.0")
    others = [Plugin("vision", "openclaw-taskmem 0.2.0")]
    folder = home.folder / "recordings"
    assert [*doctor_rows.check_recordings(home, others)] == []
    folder.mkdir(parents=True)
    assert [*doctor_rows.check_recordings(home, others)] == []
    (folder / "recordings.db").touch()
    [row] = doctor_rows.check_recordings(home, others)
    assert (row.id, row.state) == ("kept.recordings", WARN)
    assert "nothing removes it when it is old" in row.effect
    assert "-m pip install ./plugins/taskmem_recorder" in row.cure
    assert row.cure.endswith(f"rm -r {folder}")
    assert [*doctor_rows.check_recordings(home, [*others, recorder])] == []


def test_a_clock_that_goes_on_is_fine():
    assert doctor_rows.check_clock(None, NOW).state is OK
    assert doctor_rows.check_clock(time_ago(days=9), NOW).state is OK
    assert doctor_rows.check_clock(time_ago(seconds=-5), NOW).state is OK


def test_a_clock_that_was_set_back_is_told_by_the_newest_event():
    row = doctor_rows.check_clock(time_ago(seconds=-6), NOW)
    assert row.state is WARN
    assert "set back" in row.detail
    assert "timedatectl" in row.cure


def test_a_clock_of_before_this_version_fails():
    assert doctor_rows.check_clock(None, datetime(2025, 12, 31, tzinfo=UTC)).state is FAIL


# --- how rows are shown ---------------------------------------------------------

ROWS = st.builds(
    DoctorRow,
    id=st.sampled_from(["home", "openclaw.gateway"]),
    state=st.sampled_from(DoctorState),
    detail=st.text(),
    effect=st.none() | st.text(),
    cure=st.none() | st.text(),
)


@given(ROWS)
def test_doctor_row_prints_its_cure_below_and_no_control_codes(row):
    first, *below = doctor.format_row(row).split("\n")
    word = {OK: "ok", OFF: "off", WARN: "warning", FAIL: "failed"}[row.state]
    assert first.startswith(f"{word:<9}{row.id.removeprefix('openclaw.')}: ")
    assert len(below) == bool(row.effect) + bool(row.cure)
    assert all(line.startswith(" " * 9) for line in below)
    assert not any(map(steers, "".join((first, *below))))


def steers(each):
    """Whether a character moves the cursor, ends a line or turns the direction."""
    turning = ("LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI")
    return category(each) in ("Cc", "Zl", "Zp") or bidirectional(each) in turning


@given(st.lists(ROWS))
def test_the_document_and_the_last_line_say_the_same(rows):
    whole = json.loads(doctor._format_json(rows))
    states = [row.state for row in rows]
    assert [row["state"] for row in whole["rows"]] == states
    assert whole["ok"] is (FAIL not in states)
    last = doctor._format_summary(rows, verbose=True)
    missed = [row for row in rows if row.state is OFF and row.effect]
    assert ("All is well." in last) is (set(states) <= {OK, OFF} and not missed)
    assert ("What is on works." in last) is (set(states) <= {OK, OFF} and bool(missed))
    assert (f"{states.count(OFF)} of them off" in last) is (OFF in states)
    assert (f"{states.count(FAIL)} failed" in last) is (FAIL in states)
    assert (format_count(states.count(WARN), "warning") in last) is (WARN in states)


@pytest.mark.parametrize("verbose", [False, True])
def test_what_is_wrong_stands_below_its_subject(monkeypatch, verbose):
    rows = [
        doctor_rows._build_ok_row("home", "Yours."),
        doctor_rows._build_off_row("clock", "None."),
        doctor_rows.build_warn_row("openclaw.tools", "Hidden.", "Show them.", "None is called."),
        doctor_rows._build_ok_row("openclaw.home", "This one."),
        doctor_rows.build_fail_row("third.party", "Broken.", None),
    ]
    monkeypatch.setattr(doctor, "_run_all_checks", lambda *_, **__: (row for row in rows))
    said = []

    status = doctor.run_doctor({}, said.append, as_json=False, proof=False, verbose=verbose)

    below = f"\n{' ' * 9}".join(("Hidden.", "None is called.", "Show them."))
    wrong = ["OpenClaw", f"warning  tools: {below}"]
    whole = ["The daemon", "ok       home: Yours.", "off      clock: None."]
    whole += [*wrong, "ok       home: This one."]
    end = ["Third", "failed   party: Broken."]
    more = "" if verbose else " (-v shows them)"
    end += [f"5 links were looked at, 1 of them off{more}: 1 failed, 1 warning."]
    assert said == [*(whole if verbose else wrong), *end]
    assert status == 1


def test_where_nothing_wakes_an_agent_the_last_line_says_so():
    unused = _build_unused_row(others=False)
    rows = [doctor_rows._build_ok_row("home", "Yours."), unused]
    said = (
        "Nothing can wake an agent yet. Set up the host of your agent: taskmem setup openclaw, or "
        "claude, or codex"
    )
    assert doctor._format_summary(rows, verbose=False) == (
        f"2 links were looked at, 1 of them off (-v shows them). What is on works. {said}"
    )
    rows.append(doctor_rows.build_warn_row("clock", "Slow.", None))
    assert doctor._format_summary(rows, verbose=True).endswith(f"off: 1 warning. {said}")


def test_where_another_host_is_set_up_openclaw_is_not_missed():
    last = doctor._format_summary([_build_unused_row(others=True)], verbose=True)
    assert "wake" not in last
    assert "setup openclaw" not in last


def test_a_row_shows_no_password():
    row = doctor_rows._build_ok_row("database", "postgresql://me:hunter2@host/db is there.")
    assert "hunter2" not in doctor.format_row(row)
    assert "hunter2" not in doctor._format_json([row])


# --- the whole ------------------------------------------------------------------


@pytest.fixture
def served_home():
    with short_home() as home:
        daemon = Daemon(home)
        daemon.wait_until_it_serves()
        yield daemon
        daemon.close()


def list_rows(monkeypatch, home, checks=(), *, proof=True, **given):
    """Every row, with these checks in place of the plug-ins' own."""
    monkeypatch.setattr(
        PluginHost, "find_doctor_checks", lambda *_: [("made", check) for check in checks]
    )
    environ = {**QUIET, "TASKMEM_HOME": str(home.folder), **given}
    clock = SimpleNamespace(now=lambda: datetime.now(UTC))
    return list(doctor._run_all_checks(environ, clock, proof=proof))


def test_the_size_of_a_refused_home_is_not_measured(monkeypatch):
    rows = list_rows(monkeypatch, Home(Path("/"), Path("/daemon.sock")))
    assert [row.id for row in rows if row.state is FAIL][:2] == ["home", "settings"]
    assert [row.id for row in rows if row.id.startswith("kept")] == []


class Curious:
    """Keeps what it was given, and what the daemon answers to it."""

    name = "curious"

    def __init__(self, costs=False):
        self.costs = costs
        self.answers = []

    async def look(self, checkup):
        self.checkup = checkup
        self.seen = [row.id for row in checkup.rows]
        for method, params in (("wakes", {"all": True}), ("show", {"id": "task_x"})):
            try:
                self.answers.append(await checkup.ask(method, params))
            except TaskmemError as error:
                self.answers.append((type(error).__name__, str(error)))
        yield checkup_row()


def checkup_row():
    return doctor_rows.build_warn_row("curious", "It was here.", "Nothing.")


def test_a_check_of_a_plugin_is_given_what_it_looks_with(monkeypatch, served_home):
    check = Curious()
    rows = list_rows(monkeypatch, served_home.home, [check])
    assert rows[9] == checkup_row()
    # A gateway that is busy loading has the other checks' time to name its model.
    assert [row.id for row in rows] == [
        *("home", "settings", "daemon", "plugins", "clock"),
        *("transport", "wakes.owed", "wakes.unanswered", "kept.home", "curious"),
        *("reader.gemini", "reader.host", "readers"),
    ]
    assert [row.state for row in rows if row != checkup_row()] == [OK] * 9 + [OFF] * 3
    assert check.checkup.status["pid"] == served_home.process.pid
    assert check.checkup.transports == ("stdout",)
    assert check.checkup.database.endswith("/taskmem.db")
    assert check.answers[0] == []
    name, sentence = check.answers[1]
    assert name == "TaskmemError"
    assert "task_x" in sentence


def test_without_the_proof_what_costs_something_is_left_out(monkeypatch, served_home):
    cheap, costly = Curious(), Curious(costs=True)
    rows = list_rows(monkeypatch, served_home.home, [cheap, costly], proof=False)
    assert [row.id for row in rows].count("curious") == 1
    assert cheap.answers
    assert not costly.answers


def test_a_check_sees_the_rows_of_the_checks_before_it(monkeypatch, home):
    first, second = Curious(), Curious()
    list_rows(monkeypatch, home, [first, second], TASKMEM_HOOK_SECONDS="never")
    assert (first.seen, second.seen) == ([], ["curious"])


def test_checks_run_without_a_daemon(monkeypatch, home):
    check = Curious()
    rows = list_rows(monkeypatch, home, [check], TASKMEM_HOOK_SECONDS="never")
    states = {row.id: row.state for row in rows}
    assert (states["settings"], states["daemon"]) == (FAIL, FAIL)
    assert states["plugins"] is OK
    assert check.checkup.status is None
    assert [name for name, _ in check.answers] == ["DaemonUnavailable"] * 2


def test_a_daemon_that_answers_nothing_is_named_once(monkeypatch, home):
    def refuse(connection, document):
        refusal = {"error": "store_unavailable", "message": "There is no store."}
        connection.say({"id": document["id"], "error": refusal})

    daemon = FakeDaemon(home, refuse, {"taskmem": 1, "pid": 7, "version": __version__})
    try:
        rows = list_rows(monkeypatch, home)
    finally:
        daemon.die()
    [row] = [row for row in rows if row.state is FAIL]
    assert row.id == "daemon.answers"
    assert "There is no store" in row.detail


def test_a_plugin_that_cannot_name_its_checks_has_a_row(monkeypatch, home):
    class Broken:
        @hookimpl
        def health_checks(self):
            raise OSError("no driver")

    made = PluginHost(entries=(), extra=[("broken", Broken())])
    monkeypatch.setattr(doctor, "PluginHost", lambda **_: made)
    environ = {"TASKMEM_HOME": str(home.folder), "TASKMEM_HOOK_SECONDS": "never"}
    clock = SimpleNamespace(now=lambda: NOW)

    rows = list(doctor._run_all_checks(environ, clock, proof=False))

    assert [row.id for row in rows if "no driver" in row.detail] == ["broken"]
    assert rows[-1].state is FAIL


def test_a_check_that_hangs_on_a_thread_is_named_and_ended():
    program = """if True:
        import asyncio, threading
        from openclaw_taskmem.cli import command_line
        from openclaw_taskmem.plugin_host import doctor_checks
        from openclaw_taskmem.plugin_host.plugin_host import PluginHost

        class Hanging:
            name, costs = "hanging", False
            async def look(self, checkup):
                yield await asyncio.to_thread(threading.Event().wait)

        doctor_checks.CHECK_SECONDS = 0.1
        PluginHost.find_doctor_checks = lambda *_: [("made", Hanging())]
        command_line.main()
    """
    with short_home() as home:
        run = subprocess.run(
            [sys.executable, "-c", program, "doctor", "--no-proof"],
            capture_output=True,
            text=True,
            env=environment(home, TASKMEM_HOOK_SECONDS="never"),
            check=False,
            timeout=PATIENCE,
        )
    assert "hanging: A check of the plug-in made failed: it was silent for 0.1 s." in run.stdout
    assert (run.returncode, run.stderr) == (1, "")


def test_a_row_is_said_as_soon_as_it_is_there(monkeypatch, capsys):
    said = []

    def examine(*_, **__):
        assert said == []
        yield doctor_rows.build_warn_row("first", "It is odd.", None)
        assert said == ["First", "warning  first: It is odd."]
        yield doctor_rows.build_fail_row("second", "It is not.", "Make it.")

    monkeypatch.setattr(doctor, "_run_all_checks", examine)
    assert doctor.run_doctor({}, said.append, as_json=False, proof=True) == 1
    fails = ["Second", "failed   second: It is not.\n         Make it."]
    assert said[2:] == [*fails, "2 links were looked at: 1 failed, 1 warning."]


def test_warnings_alone_are_no_failure(monkeypatch):
    said = []
    row = doctor_rows.build_warn_row("only", "It is odd.", None)

    def examine(*_, **__):
        yield row

    monkeypatch.setattr(doctor, "_run_all_checks", examine)
    assert doctor.run_doctor({}, said.append, as_json=True, proof=True) == 0
    assert json.loads("".join(said)) == {
        "ok": True,
        "rows": [
            {"id": "only", "state": "warn", "detail": "It is odd.", "effect": None, "cure": None}
        ],
    }


def test_the_command_starts_a_daemon_and_finds_all_of_it_well():
    with short_home() as home:
        run = subprocess.run(
            [COMMAND, "doctor", "--json"],
            capture_output=True,
            text=True,
            env=environment(
                home,
                HOME=str(home.folder.parent),
                TASKMEM_OPENCLAW_BIN="no-openclaw",
                TASKMEM_WAKE_TRANSPORT="auto",
            ),
            check=False,
        )
        found = json.loads(run.stdout)
    assert (run.returncode, run.stderr) == (0, "")
    rows = {row["id"]: row for row in found["rows"]}
    assert {row["state"] for row in rows.values()} == {"ok", "off"}
    assert rows["openclaw.used"]["state"] == "off"
    assert rows["database"]["state"] == "ok"
    assert "was started just now" in rows["daemon"]["detail"]
    assert "0700" not in rows["home"]["detail"]
    assert "database" in rows
    assert rows["openclaw.used"]["effect"] == "Nothing can wake an agent yet."


def test_ctrl_c_ends_it_with_no_traceback():
    with short_home() as home:
        home.prepare()
        # Nobody takes the connection, so the examination hangs at the daemon.
        daemon = FakeDaemon(home, opening=None)
        run = subprocess.Popen(
            [COMMAND, "doctor", "-v"],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=environment(home),
        )
        assert run.stdout is not None
        assert run.stdout.readline() == "The daemon\n"
        assert "home" in run.stdout.readline()
        assert "settings" in run.stdout.readline()
        run.send_signal(signal.SIGINT)
        out, complaint = run.communicate(timeout=PATIENCE)
        daemon.die()
    assert (run.returncode, complaint) == (130, "")
    assert "Traceback" not in out
