import contextlib
import errno
import fcntl
import json
import os
import pty
import select
import shutil
import signal
import struct
import subprocess
import sys
import termios

import pytest

from taskmem_terminal.recording import Recording, build_metadata, get_recordings_folder
from tests.plugins.terminal.watched import RUN, read_recording, start_command
from tests.support.waiting import PATIENCE, status_of, until


def run_command(*command, name="job", **options):
    """Run a command to its end: status, stdout, stderr."""
    with start_command(*command, name=name, **options) as process:
        out, err = process.communicate(timeout=PATIENCE)
        return process.returncode, out, err.decode()


def about(name="job"):
    return Recording(get_recordings_folder(), name).read_metadata()


# --- without a terminal -------------------------------------------------------


def test_run_shows_and_records_output_and_keeps_the_exit_status():
    status, out, err = run_command("sh", "-c", r"printf 'one\ntwo\r\n\033[31mred'; exit 3")
    assert (status, out) == (3, b"one\ntwo\r\n\x1b[31mred")
    assert err == "[taskmem] watch it as pty:job\n"
    assert read_recording() == b"one\r\ntwo\r\r\n\x1b[31mred"
    assert about().exit_status == 3
    assert about().ended_at is not None


def test_command_ended_by_a_signal_gives_the_shells_status():
    status, _, _ = run_command("sh", "-c", "kill -TERM $$")
    assert status == 128 + signal.SIGTERM
    assert about().exit_status == -signal.SIGTERM


def test_the_command_has_a_terminal_of_its_own_with_a_size():
    say = (
        "import os; print(os.isatty(1), os.isatty(2), os.get_terminal_size(1),"
        " os.getsid(0) == os.getpid(), os.open('/dev/tty', os.O_RDWR) > 0)"
    )
    _, out, _ = run_command(sys.executable, "-c", say)
    assert out == b"True True os.terminal_size(columns=80, lines=24) True True\n"


def test_piped_input_reaches_the_command_whole():
    data = os.urandom(300_000)
    with start_command("sh", "-c", "wc -c", stdin=subprocess.PIPE) as process:
        out, _ = process.communicate(data, PATIENCE)
    assert out.strip() == b"300000"


def test_a_full_disk_below_stderr_keeps_no_command_from_running():
    with (
        open("/dev/full", "wb") as full,  # noqa: PTH123 - a device
        start_command("echo", "one", stderr=full) as process,
    ):
        out, _ = process.communicate(timeout=PATIENCE)
    assert out.strip() == b"one"
    assert about().exit_status == 0


def test_a_command_that_is_not_there_is_127_and_a_sentence():
    status, _, err = run_command("no-such-command")
    assert status == 127
    assert "no-such-command cannot be started (No such file or directory)" in err
    assert b"no-such-command cannot be started" in read_recording()
    assert about().exit_status == 127


def test_a_file_that_is_no_program_is_126():
    status, _, err = run_command("/etc/passwd")
    assert status == 126
    assert "(Permission denied)" in err


def test_without_a_name_one_is_made_and_told():
    program = [sys.executable, "-c", RUN, "--", "/bin/true"]
    done = subprocess.run(program, capture_output=True, check=True, timeout=PATIENCE)
    told = done.stderr.decode().split("pty:")[1].strip()
    assert told.startswith("true-")
    assert about(told).exit_status == 0


def test_a_name_that_runs_is_refused_with_a_sentence():
    with start_command("cat", stdin=subprocess.PIPE) as first:
        until(lambda: Recording(get_recordings_folder(), "job").is_running(), "it runs")
        status, _, err = run_command("echo", "second")
        assert status == 1
        assert "pty:job still runs; choose another --name" in err
        first.stdin.close()
        assert status_of(first) == 0
    assert run_command("echo", "second")[0] == 0
    assert read_recording() == b"second\r\n"


@pytest.mark.parametrize("name", ["tmux:x", "..", "a b", ""])
def test_a_name_that_cannot_be_is_refused(name):
    status, _, err = run_command("true", name=name)
    assert status == 2
    assert "is no name" in err


def test_recording_keeps_only_the_program_name_of_a_command():
    program = "/usr/bin/env"
    given = ["MY_API_KEY=hunter2", "true", "--password", "hunter2", "https://u:hunter2@h"]
    run_command(program, *given)
    assert about().program == "env"
    assert not about().interactive
    said = (get_recordings_folder() / "job" / "about.json").read_text()
    assert "hunter2" not in said
    assert "/usr/bin" not in said


@pytest.mark.parametrize(
    ("command", "interactive"),
    [
        ([], True),
        (["bash"], True),
        (["/bin/bash", "-i"], True),
        (["ssh", "host"], True),
        (["bash", "-c", "make"], False),
        (["bash", "build.sh"], False),
        (["make"], False),
    ],
)
def test_whether_somebody_can_be_typing_is_written_down(command, interactive):
    assert build_metadata(command).interactive is interactive


def test_a_megabyte_passes_whole_and_only_the_last_is_kept():
    say = "import sys; [sys.stdout.write('%0999d\\n' % n) for n in range(3000)]"
    _, out, _ = run_command(sys.executable, "-c", say)
    assert len(out) == 3_000_000
    assert read_recording() == out.replace(b"\n", b"\r\n")


def test_who_reads_no_more_ends_the_command_as_a_pipe_would():
    with start_command("yes") as process:
        assert process.stdout.read(2) == b"y\n"
        process.stdout.close()
        assert status_of(process) == 128 + signal.SIGHUP


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT])
def test_signals_are_passed_on(number):
    with start_command("sh", "-c", "echo ready; exec sleep 60") as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(number)
        assert status_of(process) == 128 + number


def test_a_command_may_survive_a_signal_that_is_passed_on():
    script = "trap 'echo got it; exit 7' TERM; echo ready; while :; do sleep .01; done"
    with start_command("sh", "-c", script) as process:
        assert process.stdout.readline() == b"ready\n"
        process.send_signal(signal.SIGTERM)
        assert process.stdout.read() == b"got it\n"
        assert status_of(process) == 7


# --- trouble with the recording -----------------------------------------------


def test_a_full_disk_stops_the_recording_and_not_the_command():
    full = "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000));" + RUN
    lots = "yes | head -5000; exit 3"
    status, out, err = run_command("sh", "-c", lots, python=full)
    assert status == 3
    assert out == b"y\n" * 5000
    assert err.count("Recording pty:job stopped") == 1
    assert os.strerror(errno.EFBIG) in err
    assert not Recording(get_recordings_folder(), "job").is_running()


def test_a_home_that_cannot_be_made_harms_nothing(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("TASKMEM_HOME", str(tmp_path / "file"))
    status, out, err = run_command("sh", "-c", "echo hi; exit 3")
    assert (status, out) == (3, b"hi\n")
    assert "watch it as" not in err
    assert "the command itself ran on" in err


def test_a_home_that_is_removed_harms_nothing():
    with start_command(
        "sh", "-c", "echo ready; read go; echo went $go", stdin=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"ready\n"
        until(read_recording, "it is recorded")
        shutil.rmtree(get_recordings_folder().parent)
        out, err = process.communicate(b"on\n", PATIENCE)
    assert out == b"went on\n"
    assert process.returncode == 0
    assert b"Recording pty:job stopped" in err


def test_missing_or_unheard_doorbell_does_not_harm_a_run():
    get_recordings_folder().mkdir(parents=True)
    (get_recordings_folder() / ".doorbell").write_text("an ordinary file")
    assert run_command("echo", "hi")[:2] == (0, b"hi\n")
    assert (get_recordings_folder() / ".doorbell").read_text() == "an ordinary file"
    (get_recordings_folder() / ".doorbell").unlink()
    os.mkfifo(get_recordings_folder() / ".doorbell")
    assert run_command("echo", "hi")[:2] == (0, b"hi\n")


# --- in a terminal ------------------------------------------------------------


class Outside:
    """A terminal in which `taskmem run` was started."""

    def __init__(self, *command):
        arguments = [sys.executable, "-c", RUN, "--name", "job", "--", *command]
        self.pid, self.handle = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
            os.execv(sys.executable, arguments)  # noqa: S606
        self.said = b""

    def until(self, part):
        while part not in self.said:
            ready, _, _ = select.select([self.handle], [], [], PATIENCE)
            assert ready, f"waited in vain: {part!r} in {self.said!r}"
            try:
                self.said += os.read(self.handle, 65_536)
            except OSError:
                raise AssertionError(f"no {part!r} in {self.said!r}") from None
        self.said = self.said.partition(part)[2]

    def type(self, keys):
        os.write(self.handle, keys)

    def status(self):
        with contextlib.suppress(OSError):
            while os.read(self.handle, 65_536):
                pass
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


@pytest.fixture
def outside():
    """Starts terminals, and ends what still runs in them."""
    made = []

    def start(*command):
        made.append(Outside(*command))
        return made[-1]

    yield start
    for terminal in made:
        if terminal.pid == -1:
            continue  # the test has waited for it; as an argument, -1 means any process
        with contextlib.suppress(OSError):
            os.close(terminal.handle)  # which hangs up
        with contextlib.suppress(OSError):
            os.kill(terminal.pid, signal.SIGCONT)
            os.waitpid(terminal.pid, 0)


def test_keys_reach_the_command_and_it_sees_the_size(outside):
    terminal = outside("sh", "-c", "stty size; read x; echo got $x; exit 4")
    terminal.until(b"30 100\r\n")
    terminal.type(b"hello\r")
    terminal.until(b"got hello\r\n")
    assert terminal.status() == 4
    assert (about().columns, about().rows) == (100, 30)


def test_keys_that_make_signals_make_them_inside(outside):
    terminal = outside("sh", "-c", "trap 'echo stopped; exit 5' INT; echo up; read x")
    terminal.until(b"up\r\n")
    terminal.type(b"\x03")
    terminal.until(b"stopped")
    assert terminal.status() == 5


def test_a_new_size_outside_is_the_size_inside(outside):
    script = "trap 'stty size' WINCH; echo up; while :; do sleep .01; done"
    terminal = outside("sh", "-c", script)
    terminal.until(b"up\r\n")
    size = struct.pack("HHHH", 40, 120, 0, 0)
    fcntl.ioctl(terminal.handle, termios.TIOCSWINSZ, size)
    terminal.until(b"40 120\r\n")
    until(lambda: about().columns == 120, "it is written down")


def test_the_terminal_is_as_it_was_afterwards(outside):
    for ending in ("exit 0", "kill -9 $$"):
        terminal = outside("sh", "-c", f"read x; {ending}")
        before = termios.tcgetattr(terminal.handle)
        terminal.until(b"watch it as pty:job")
        until(lambda t=terminal: not termios.tcgetattr(t.handle)[3] & termios.ICANON, "it is raw")
        terminal.type(b"\r")
        keep = os.dup(terminal.handle)
        with contextlib.suppress(OSError):
            terminal.status()
        assert termios.tcgetattr(keep)[:4] == before[:4]
        os.close(keep)


def test_a_terminal_that_closes_hangs_up_on_the_command(outside):
    terminal = outside("sh", "-c", "echo up; exec sleep 60")
    terminal.until(b"up\r\n")
    pid = about().pid
    os.close(terminal.handle)
    os.waitpid(terminal.pid, 0)
    terminal.handle = terminal.pid = -1
    assert about().exit_status == -signal.SIGHUP
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


def test_what_is_recorded_says_which_process_it_is():
    with start_command("sh", "-c", "echo $$; exec sleep 60") as process:
        pid = int(process.stdout.readline())
        said = until(lambda: about().pid and about(), "it is written down")
        assert said.pid == pid
        assert said.recorder == process.pid
        assert (
            json.loads((get_recordings_folder() / "job" / "about.json").read_text())["pid"] == pid
        )


def test_a_stopped_run_stops_its_command_and_both_go_on():
    from tests.plugins.terminal.watched import stat_of

    with start_command("sh", "-c", "echo up; read go; echo on", stdin=subprocess.PIPE) as process:
        assert process.stdout.readline() == b"up\n"
        pid = until(lambda: about().pid, "it is written down")
        process.send_signal(signal.SIGTSTP)
        until(lambda: stat_of(pid) == stat_of(process.pid) == "T", "both are stopped")
        process.send_signal(signal.SIGCONT)
        until(lambda: stat_of(pid) in "SR", "the command goes on")
        out, _ = process.communicate(b"\n", PATIENCE)
    assert out == b"on\n"


def test_run_ends_with_its_command_though_a_child_still_prints(tmp_path):
    left = tmp_path / "left"
    script = f"trap '' HUP; (while :; do echo here; sleep 0.05; done) & echo $! > {left}"
    try:
        status, _, _ = run_command("sh", "-c", f"{script}; exit 3", stdout=subprocess.PIPE)
        assert status == 3
        assert about().exit_status == 3
    finally:
        os.kill(int(left.read_text()), signal.SIGKILL)


def test_a_strange_file_among_the_recordings_harms_no_command():
    stray = get_recordings_folder() / "other"
    stray.mkdir(parents=True)
    (stray / "output.bak").touch()
    (stray / "about.json").write_text("[1]")

    assert run_command("sh", "-c", "exit 4")[0] == 4
    (get_recordings_folder() / "job" / "output.bak").touch()
    assert run_command("sh", "-c", "echo again")[1] == b"again\n"
    assert read_recording() == b"again\r\n"
