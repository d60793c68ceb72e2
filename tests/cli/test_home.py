import os
import re
import socket
import stat
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from openclaw_taskmem import home as home_module
from openclaw_taskmem.home import Home, HomeRefused, find_home, find_short_command, locate_home

LONG = "long/" * 30


def mode_of(path):
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def short():
    """A folder whose path is short enough for a socket's, as a runtime folder's is."""
    with tempfile.TemporaryDirectory(prefix="tm") as folder:
        yield Path(folder)


def test_taskmem_home_comes_first():
    found = find_home({"TASKMEM_HOME": "/a", "OPENCLAW_STATE_DIR": "/b", "OPENCLAW_HOME": "/c"})
    assert found.folder == Path("/a")


def test_the_state_folder_of_openclaw_comes_second():
    found = find_home({"OPENCLAW_STATE_DIR": "/b", "OPENCLAW_HOME": "/c"})
    assert found.folder == Path("/b/taskmem")


def test_the_home_of_openclaw_comes_third():
    found = find_home({"OPENCLAW_HOME": "/c", "HOME": "/d"})
    assert found.folder == Path("/c/.openclaw/taskmem")


def test_else_it_is_in_the_users_own_home():
    assert find_home({"HOME": "/d"}).folder == Path("/d/.openclaw/taskmem")


def test_a_variable_that_is_empty_counts_as_not_set():
    empty = {"TASKMEM_HOME": "", "OPENCLAW_STATE_DIR": "", "OPENCLAW_HOME": ""}
    assert find_home({**empty, "HOME": "/d"}) == find_home({"HOME": "/d"})


def test_the_users_home_is_known_without_a_variable():
    assert find_home({}).folder.is_absolute()


@pytest.mark.parametrize(("written", "meant"), [("~", "/d"), ("~/x", "/d/x"), ("~/x/../y", "/d/y")])
def test_a_tilde_is_the_home_of_the_environment_that_is_given(written, meant):
    assert find_home({"TASKMEM_HOME": written, "HOME": "/d"}).folder == Path(meant)


@pytest.mark.parametrize("written", ["$HOME/x", "${HOME}/x"])
def test_a_home_that_a_hosts_settings_do_not_replace_is_known(written):
    assert find_home({"TASKMEM_HOME": written, "HOME": "/d"}).folder == Path("/d/x")


@pytest.mark.parametrize("name", ["$XDG_DATA_HOME", "~nobody-known", "${workspaceFolder}", "%APP%"])
def test_a_name_that_nothing_replaced_makes_no_folder(tmp_path, monkeypatch, name):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HomeRefused, match=f"has {re.escape(name)} in it, which nothing replaced"):
        find_home({"TASKMEM_HOME": f"{name}/x"})
    (tmp_path / name / "x").mkdir(parents=True)
    assert find_home({"TASKMEM_HOME": f"{name}/x"}).folder == tmp_path / name / "x"


def test_a_home_in_each_working_folder_is_refused_with_its_path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(HomeRefused, match=f"the whole path, such as {tmp_path}/here"):
        find_home({"TASKMEM_HOME": "here"})


@pytest.mark.parametrize("name", ["daemon.log", "config.toml", "taskmem.db", "home.id"])
def test_a_named_pipe_in_place_of_a_file_is_refused(tmp_path, name):
    os.mkfifo(tmp_path / name)
    with pytest.raises(HomeRefused, match=f"{name} is a named pipe, .*; remove it"):
        find_home({"TASKMEM_HOME": str(tmp_path)})


def test_the_files_of_a_home_are_in_its_folder():
    found = find_home({"TASKMEM_HOME": "/a"})
    assert [found.socket, found.lock, found.log, found.config, found.database] == [
        Path("/a/daemon.sock"),
        Path("/a/daemon.lock"),
        Path("/a/daemon.log"),
        Path("/a/config.toml"),
        Path("/a/taskmem.db"),
    ]


def test_finding_makes_nothing(tmp_path):
    find_home({"TASKMEM_HOME": str(tmp_path / "home")})
    assert list(tmp_path.iterdir()) == []


def test_a_prepared_folder_is_its_owners_alone(tmp_path):
    home = find_home({"TASKMEM_HOME": str(tmp_path / "a" / "b")})
    home.prepare()
    home.prepare()
    assert mode_of(home.folder) == 0o700


def test_a_folder_that_was_open_to_others_is_closed(tmp_path):
    tmp_path.chmod(0o755)
    find_home({"TASKMEM_HOME": str(tmp_path)}).prepare()
    assert mode_of(tmp_path) == 0o700


def test_a_shared_folder_is_refused_and_stays_as_it_is(tmp_path):
    tmp_path.chmod(0o1777)
    with pytest.raises(HomeRefused, match="is one that other users write to; set TASK"):
        find_home({"TASKMEM_HOME": str(tmp_path)})
    assert mode_of(tmp_path) == 0o1777


@pytest.mark.parametrize(
    "folder", ["/", "/etc", "/home", "/var/", "//tmp/..", "/usr/bin", "/var/lib"]
)
def test_a_folder_of_the_system_is_no_home(folder):
    with pytest.raises(HomeRefused, match=r"one of the system.* Set TASKMEM_HOME to a folder of"):
        find_home({"TASKMEM_HOME": folder})


@pytest.mark.parametrize("above", ["", ".."])
def test_the_users_own_home_is_none(tmp_path, monkeypatch, above):
    user = tmp_path / "user"
    user.mkdir(mode=0o755)
    monkeypatch.setenv("HOME", str(user))
    with pytest.raises(HomeRefused, match="your own home, or has it in it"):
        find_home({"TASKMEM_HOME": str(user / above)})
    assert mode_of(user) == 0o755


def owned_by(monkeypatch, uid, *paths, follow=True):
    """Let the system say that files belong to another user; `follow`: not a link's."""
    real = {"lstat": Path.lstat, "stat": Path.stat}

    def look(call, path, **keywords):
        found = real[call](path, **keywords)
        if path in paths and (follow or call == "lstat"):
            return os.stat_result((*found[:4], uid, *found[5:]))
        return found

    monkeypatch.setattr(Path, "lstat", lambda path: look("lstat", path))
    monkeypatch.setattr(Path, "stat", lambda path, **k: look("stat", path, **k))


STRANGER = os.geteuid() + 1


def test_a_home_of_another_user_is_refused(tmp_path, monkeypatch):
    owned_by(monkeypatch, STRANGER, tmp_path)
    home = locate_home({"TASKMEM_HOME": str(tmp_path)})
    with pytest.raises(HomeRefused, match=f"belongs to user {STRANGER}; set TASKMEM"):
        find_home({"TASKMEM_HOME": str(tmp_path)})
    with pytest.raises(HomeRefused, match="belongs to user"):
        home.prepare()


def test_a_link_of_another_user_is_no_home(tmp_path, monkeypatch):
    (tmp_path / "real").mkdir()
    link = tmp_path / "link"
    link.symlink_to(tmp_path / "real")
    find_home({"TASKMEM_HOME": str(link)}).prepare()
    owned_by(monkeypatch, STRANGER, link, follow=False)
    with pytest.raises(HomeRefused, match="is a link that user"):
        find_home({"TASKMEM_HOME": str(link)})


@pytest.mark.parametrize(
    "name", ["config.toml", "daemon.lock", "daemon.log", "taskmem.db-wal", "daemon.sock"]
)
def test_a_file_of_another_user_makes_a_home_refused(tmp_path, monkeypatch, name):
    (tmp_path / name).touch()
    owned_by(monkeypatch, STRANGER, tmp_path / name)
    with pytest.raises(HomeRefused, match=f"{name} belongs to user .* remove it"):
        find_home({"TASKMEM_HOME": str(tmp_path)})


def test_a_home_whose_name_is_no_utf_8_is_refused(tmp_path):
    named = os.fsdecode(bytes(tmp_path) + b"/\xff")
    with pytest.raises(HomeRefused, match="is no UTF-8"):
        find_home({"TASKMEM_HOME": named})


@pytest.mark.parametrize("target", ["file", "nowhere"])
def test_a_planted_link_makes_a_home_refused(tmp_path, monkeypatch, target):
    (tmp_path / "file").touch()
    (tmp_path / "taskmem.db").symlink_to(tmp_path / target)
    find_home({"TASKMEM_HOME": str(tmp_path)})
    owned_by(monkeypatch, STRANGER, tmp_path / "taskmem.db", follow=False)
    with pytest.raises(HomeRefused, match=r"taskmem\.db belongs to user"):
        find_home({"TASKMEM_HOME": str(tmp_path)})


def test_a_file_of_root_in_a_home_is_taken(tmp_path, monkeypatch):
    (tmp_path / "config.toml").touch()
    owned_by(monkeypatch, 0, tmp_path / "config.toml")
    find_home({"TASKMEM_HOME": str(tmp_path)})


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir])
def test_what_others_can_write_makes_a_home_refused(tmp_path, make):
    make(tmp_path / "terminals")
    (tmp_path / "terminals").chmod(0o777)
    find_home({"TASKMEM_HOME": str(tmp_path)})
    tmp_path.chmod(0o755)
    with pytest.raises(HomeRefused, match=r"written by other users.*chmod go-w"):
        find_home({"TASKMEM_HOME": str(tmp_path)})


def test_a_home_of_umask_002_is_taken_and_closed(tmp_path):
    os.chown(tmp_path, -1, os.geteuid())
    (tmp_path / "config.toml").touch()
    os.chown(tmp_path / "config.toml", -1, os.geteuid())
    (tmp_path / "config.toml").chmod(0o664)
    tmp_path.chmod(0o775)
    find_home({"TASKMEM_HOME": str(tmp_path)}).prepare()
    assert mode_of(tmp_path) == 0o700


def test_a_folder_that_cannot_be_made_is_refused_with_its_name(tmp_path):
    (tmp_path / "file").write_text("")
    home = find_home({"TASKMEM_HOME": str(tmp_path / "file" / "home")})
    with pytest.raises(HomeRefused, match=r"file.*Set TASKMEM_HOME") as refused:
        home.prepare()
    assert refused.value.name == "settings_invalid"


def test_longest_allowed_socket_path_stays_in_the_folder():
    """There is room for the longer name of one beside it, too."""
    most = 107 if sys.platform == "linux" else 103
    name = "x" * (most - len("//daemon.sock") - 8)
    assert find_home({"TASKMEM_HOME": f"/{name}"}).socket.parent.name == name
    assert find_home({"TASKMEM_HOME": f"/{name}x"}).socket.parent.name != name + "x"


def test_the_length_of_a_path_counts_in_bytes():
    found = find_home({"TASKMEM_HOME": "/" + "ä" * 60})
    assert found.socket.parent != found.folder


def test_a_long_home_has_its_socket_in_the_runtime_folder(short):
    environ = {"TASKMEM_HOME": f"/{LONG}", "XDG_RUNTIME_DIR": str(short)}
    found = find_home(environ)
    assert found.socket.parent.parent == short
    assert found == find_home(environ)
    assert found.socket != find_home({**environ, "TASKMEM_HOME": f"/{LONG}x"}).socket


def test_long_home_without_runtime_folder_uses_the_temporary_one(short):
    found = find_home({"TASKMEM_HOME": f"/{LONG}", "TMPDIR": str(short)})
    assert found.socket.parent.parent == short


@pytest.mark.parametrize("base", ["/nowhere", "relative", "long"])
def test_a_runtime_folder_that_is_of_no_use_is_passed_over(base, short):
    if base == "long":
        (short / LONG).mkdir(parents=True)
        base = str(short / LONG)
    elif base == "relative":
        base = os.path.relpath(short)
    found = find_home({"TASKMEM_HOME": f"/{LONG}", "XDG_RUNTIME_DIR": base})
    assert found.socket.parent.parent == Path("/tmp")  # noqa: S108


def test_socket_outside_the_home_has_a_folder_for_its_owner_only(short, tmp_path):
    home = Home(tmp_path, short / "aside" / "daemon.sock")
    home.prepare()
    home.prepare()
    assert mode_of(short / "aside") == 0o700


def test_faces_with_another_runtime_folder_find_the_same_socket(short, tmp_path):
    environ = {"TASKMEM_HOME": str(tmp_path / LONG)}
    first = find_home({**environ, "TMPDIR": str(short)})
    first.prepare()
    (short / "other").mkdir()
    assert find_home({**environ, "TMPDIR": str(short / "other")}) == first


def test_a_socket_whose_folder_is_gone_is_placed_anew(short, tmp_path):
    environ = {"TASKMEM_HOME": str(tmp_path / LONG)}
    first = find_home({**environ, "TMPDIR": str(short)})
    first.prepare()
    first.socket.parent.rmdir()
    (short / "other").mkdir()
    second = find_home({**environ, "TMPDIR": str(short / "other")})
    second.prepare()
    assert second.socket.is_relative_to(short / "other")
    assert find_home(environ) == second


def test_a_folder_that_others_may_enter_takes_no_socket(short, tmp_path):
    (short / "aside").mkdir()
    (short / "aside").chmod(0o750)
    with pytest.raises(HomeRefused, match="not a folder of yours alone"):
        Home(tmp_path, short / "aside" / "daemon.sock").prepare()


def test_a_file_system_without_modes_is_told(tmp_path, monkeypatch):
    """Such as a Windows disk in WSL: each mode is 0777, and chmod changes nothing."""
    home = find_home({"TASKMEM_HOME": str(tmp_path)})
    tmp_path.chmod(0o777)
    (tmp_path / "daemon.log").touch(mode=0o600)
    real = os.fstat
    monkeypatch.setattr(
        home_module.os, "fstat", lambda file: os.stat_result((0o100777, *real(file)[1:]))
    )
    monkeypatch.setattr(Path, "chmod", lambda *_: None)
    with pytest.raises(HomeRefused, match=r"keeps no permissions .* Set TASKMEM_HOME to a folder"):
        home.prepare()
    (tmp_path / "daemon.log").chmod(0o666)
    assert [each.name for each in tmp_path.iterdir()] == ["daemon.log"]


@pytest.mark.parametrize("links", [True, False])
def test_a_socket_outside_the_home_is_found(short, tmp_path, monkeypatch, links):
    """The file system of the home has no sockets, and perhaps no links."""
    environ = {"TASKMEM_HOME": str(tmp_path), "XDG_RUNTIME_DIR": str(short)}
    home = find_home(environ)
    moved = home.move_socket(environ)
    if not links:
        monkeypatch.setattr(Path, "symlink_to", lambda *_: os.mkdir("/proc/none"))  # noqa: PTH102
    moved.prepare()
    with socket.socket(socket.AF_UNIX) as listening, socket.socket(socket.AF_UNIX) as client:
        listening.bind(str(moved.socket))
        listening.listen()
        client.connect(str(home.find_socket(environ)))
    assert moved.socket.is_relative_to(short)
    assert os.path.lexists(home.socket) is links


def test_a_link_to_a_folder_takes_no_socket(short, tmp_path):
    (short / "target").mkdir(mode=0o700)
    (short / "aside").symlink_to(short / "target")
    with pytest.raises(HomeRefused, match="not a folder of yours alone"):
        Home(tmp_path, short / "aside" / "daemon.sock").prepare()


def test_a_folder_of_another_user_takes_no_socket(short, tmp_path, monkeypatch):
    (short / "aside").mkdir(mode=0o700)
    home = Home(tmp_path, short / "aside" / "daemon.sock")
    owned_by(monkeypatch, STRANGER, short / "aside")
    with pytest.raises(HomeRefused, match="not a folder of yours alone"):
        home.prepare()


def test_a_socket_folder_that_another_made_is_passed_over(short, monkeypatch):
    squatted = short / "shared"
    squatted.mkdir()
    own = short / "own"
    own.mkdir()
    environ = {"TASKMEM_HOME": f"/{LONG}", "TMPDIR": str(squatted), "HOME": str(own)}
    first = find_home(environ).socket.parent
    first.mkdir(mode=0o700)
    in_tmp = find_home({**environ, "TMPDIR": ""}).socket.parent
    owned_by(monkeypatch, STRANGER, first)
    assert find_home(environ).socket.parent == in_tmp
    monkeypatch.setattr(home_module, "_is_anothers", lambda at: at in (first, in_tmp))
    assert find_home(environ).socket.parent.parent == own


def test_a_socket_folder_that_another_took_over_is_left(short, tmp_path, monkeypatch):
    environ = {"TASKMEM_HOME": str(tmp_path / LONG), "HOME": str(tmp_path / LONG)}
    first = find_home({**environ, "TMPDIR": str(short)})
    first.prepare()
    owned_by(monkeypatch, STRANGER, first.socket.parent)
    assert find_home(environ).socket.parent != first.socket.parent


def test_finding_a_home_imports_no_dataclasses():
    code = "import sys, openclaw_taskmem.home; print('dataclasses' in sys.modules)"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout == "False\n"


def test_a_command_is_named_as_it_can_be_run(tmp_path):
    program = Path(sys.executable).with_name("taskmem")
    other = tmp_path / "other" / "taskmem"
    other.parent.mkdir()
    other.write_text("#!/bin/sh\n")
    other.chmod(0o755)
    (tmp_path / "taskmem").symlink_to(program)
    for folder, wanted in ((tmp_path, "taskmem"), (other.parent, str(program)), ("", str(program))):
        assert find_short_command({"PATH": str(folder)}) == wanted
