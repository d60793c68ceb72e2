"""Do and time operations of a library; runs in the Python where the library is installed.

Says `ready`; then answers each line `operation number` with the seconds it took.
"""

from __future__ import annotations

import os
import sqlite3
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

PLAN = "Step {} of the plan: build the image, run the tests, push it, roll it out, watch it."


def open_langgraph(folder: Path, tasks: int) -> Mapping[str, Callable[[int], object]]:
    """Fill a SqliteSaver: a task is a thread, an update a checkpoint with one message."""
    from langgraph.checkpoint.base import empty_checkpoint
    from langgraph.checkpoint.sqlite import SqliteSaver

    database = sqlite3.connect(folder / "saver.db", check_same_thread=False)
    saver = SqliteSaver(database)
    saver.setup()

    def name(number: int) -> dict[str, dict[str, str]]:
        return {"configurable": {"thread_id": f"task {number}", "checkpoint_ns": ""}}

    def put_checkpoint(number: int) -> None:
        kept = empty_checkpoint()
        kept["channel_values"] = {"messages": [PLAN.format(number)]}
        saver.put(name(number % tasks), kept, {"source": "loop", "step": number}, {"messages": 1})

    database.execute("PRAGMA synchronous = OFF")
    for number in range(tasks):
        put_checkpoint(number)
    database.execute("PRAGMA synchronous = FULL")  # its default
    return {
        "update": lambda number: put_checkpoint(number * 7919),
        "list": lambda _: list(saver.list(None, limit=10)),
        "get": lambda number: saver.get_tuple(name(number * 7919 % tasks)),
    }


def open_dbos(folder: Path, tasks: int) -> Mapping[str, Callable[[int], object]]:
    """Fill DBOS: an update is a workflow of one step; its rows are copied to be many."""
    from dbos import DBOS

    path = folder / "dbos.db"
    config = {"name": "bench", "system_database_url": f"sqlite:///{path}"}
    DBOS(config={**config, "log_level": "ERROR", "run_admin_server": False})

    @DBOS.step()
    def keep(text: str) -> str:
        return text

    @DBOS.workflow()
    def update(text: str) -> str:
        return keep(text)

    DBOS.launch()
    update(PLAN.format(0))
    with sqlite3.connect(path) as database:
        columns = [row[1] for row in database.execute("PRAGMA table_info(workflow_status)")]
        others = ", ".join(column for column in columns if column != "workflow_uuid")
        copy = (
            f"INSERT INTO workflow_status (workflow_uuid, {others}) "  # noqa: S608 - its columns
            f"SELECT ?, {others} FROM workflow_status LIMIT 1"
        )
        database.executemany(copy, [(f"task {number}",) for number in range(tasks)])
    database.close()
    return {
        "update": lambda number: update(PLAN.format(number)),
        "list": lambda _: DBOS.list_workflows(limit=10),
        "get": lambda number: DBOS.get_workflow_status(f"task {number * 7919 % tasks}"),
    }


def main(module: str, folder: str, tasks: str) -> None:
    """Open a library, and do what is asked until nothing more is."""
    open_it = {"langgraph": open_langgraph, "dbos": open_dbos}[module]
    ways = open_it(Path(folder), int(tasks))
    print("ready", flush=True)
    for line in sys.stdin:
        operation, number = line.split()
        begun = time.perf_counter()
        found = ways[operation](int(number))
        took = time.perf_counter() - begun
        if operation != "update" and not found:
            raise SystemExit(f"{module} found nothing for {line}")
        print(took, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
    sys.stdout.flush()
    os._exit(0)  # DBOS leaves threads behind
