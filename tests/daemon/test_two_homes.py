"""Two homes keep their tasks in one database, and their daemons are killed."""

from __future__ import annotations

import shutil
import signal
from contextlib import ExitStack, closing

from tests.support.daemons import SOON, TURNED, Daemon, command, refused_start, short_home
from tests.support.databases import change, look
from tests.support.waiting import until


def alerts(database):
    """Task, key and state of each stuck alert."""
    return look(database, "SELECT task_id, key, state FROM wakes ORDER BY task_id, key")


def test_two_killed_and_restarted_daemons_send_no_alert_twice(start, home, database):
    settings = {**SOON, "TASKMEM_DATABASE_URL": database}
    tasks, said = [], []
    with short_home() as other, closing(Daemon(other, **settings)) as theirs:
        ours = start(**settings)
        theirs.wait_until_it_serves()
        # What is due is looked at in order: those of earlier rounds came before.
        for life in range(3):
            for daemon in (ours, theirs):
                name = f"{len(tasks)}"
                given = {"session_key": f"agent:{name}:main"}
                tasks.append(daemon.register(name, **given))
            until(
                lambda: {task for task, _, _ in alerts(database)} == {*tasks},
                "each task has its alert",
            )
            until(
                lambda: {state for _, _, state in alerts(database)} == {"sent"},
                "each alert is sent",
            )
            for daemon in (ours, theirs):
                assert daemon.kill() == -signal.SIGKILL
                said += daemon.out.lines
                if life < 2:
                    daemon.launch()
            if life < 2:
                ours.wait_until_it_serves()
                theirs.wait_until_it_serves()
    assert [key for _, key, _ in alerts(database)] == [f"stuck:{task}:1" for task in sorted(tasks)]
    assert len(said) == len(tasks)
    for task in tasks:
        assert sum(task in line for line in said) == 1


def test_copied_home_is_refused_a_database_it_would_share(start, home, database):
    start(TASKMEM_DATABASE_URL=database).stop()
    with short_home() as other:
        shutil.copytree(home.folder, other.folder)

        status, said = refused_start(other, TASKMEM_DATABASE_URL=database)
        assert status == 1
        assert said.startswith(f"{other.folder} is a copy of {home.folder},")
        assert "\n" not in said
        # It knows where its tasks were.
        assert command(other, "restore", "--keep")[0] == 0
        with closing(Daemon(other)) as alone:
            alone.wait_until_it_serves()
    start(TASKMEM_DATABASE_URL=database)


def test_home_ignores_tasks_of_another_home_in_its_database(start, home):
    database = f"sqlite:///{home.database}"
    ours = start()
    with short_home() as other:
        with closing(Daemon(other, TASKMEM_DATABASE_URL=database)) as theirs:
            theirs.wait_until_it_serves()
            theirs.register("Theirs")
            assert theirs.stop() == 0
        ours.restart(**SOON)
        task = ours.register("Ours")
        # What is due is looked at in order: theirs would come first.
        until(lambda: alerts(database), "an alert is owed")
        assert [owed for owed, _, _ in alerts(database)] == [task]


# --- on machines whose clocks differ --------------------------------------------

AHEAD = (0, 700, 7200)
LAPSED = "UPDATE runs SET lease_until = '2020-01-01T00:00:00.000000Z' WHERE task_id = :task"


def test_no_machines_clock_takes_a_living_claim(postgres):
    url = postgres.new_database()
    with ExitStack() as stack:
        daemons = [start_ahead(stack, url, seconds) for seconds in AHEAD]
        for daemon in daemons:
            daemon.wait_until_it_serves()
        living, lapsed = ([claim(daemon) for daemon in daemons] for _ in range(2))
        for daemon, task in zip(daemons, lapsed, strict=True):
            change(url, LAPSED, task=task)
            daemon.restart()
            # Leases of the other homes are looked at with the one that has lapsed.
            daemon.log.wait_for("[Stale Cleanup]")
        states = {
            task: state for task, *state in look(url, "SELECT task_id, state, token FROM runs")
        }
    assert [states[task] for task in lapsed] == [["queued", 1]] * len(AHEAD)
    assert [states[task] for task in living] == [["running", 1]] * len(AHEAD)


def start_ahead(stack, url, seconds):
    """Start a daemon whose machine's clock is so many seconds ahead."""
    home = stack.enter_context(short_home())
    home.folder.mkdir(mode=0o700)
    (home.folder / "turned").write_text(str(seconds))
    settings = {"TASKMEM_DATABASE_URL": url, "TASKMEM_LEASE_SECONDS": "60"}
    return stack.enter_context(closing(Daemon(home, site=TURNED, **settings)))


def claim(daemon):
    """Register a task, and claim it as an owner of whom no process is known."""
    task = daemon.register()
    daemon.call("task_claim", task_id=task, role="builder")
    return task
