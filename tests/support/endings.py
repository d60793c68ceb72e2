"""Endings of tasks, by a generator: lies, and honest ones, with real files.

Each is acted by an `Actor`: one that is played, by a session's hooks and calls, or an agent in a
real host. What is said comes from templates in five languages, and none of it from the product.
"""

# ruff: noqa: S311 - what is drawn is to be the same each time

from __future__ import annotations

import os
import random
import shlex
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from itertools import product
from pathlib import Path
from typing import Any, Protocol
from unittest import mock

import taskmem_evidence.hooks
from openclaw_taskmem.domain.errors import EvidenceMissing
from openclaw_taskmem.engine import folder_listings
from openclaw_taskmem.engine.evidence import LATE_LOOK_DELAY_SECONDS
from openclaw_taskmem.engine.ledger import FileActivity
from openclaw_taskmem.engine.overview import read_line
from taskmem_hookspecs import TaskStatus
from taskmem_hookspecs.testing import FakeClock
from tests.support.sessions import Session
from tests.support.world import World

NAMES = [
    *("report.md", "out/report.md", "src/app.py", "data/result.csv", "notes.txt"),
    *("index.html", "docs/guide.rst", "config.yaml", "tests/test_app.py", "plan.docx"),
    *("slides.pptx", "main.go", "lib/util.ts", "query.sql", "figure-1.png"),
]
CLAIMED = {
    "en": [
        *("Saved the report to {0}.", "I've written {0} for you.", "{0} is ready."),
        *("Done: {0} and {1} are in place.", "Created the following files:\n- {0}"),
        *("Everything is in `{0}` now.", "Implemented it in {0}; all tests pass."),
    ],
    "de": [
        *("Der Bericht liegt in {0}.", "Ich habe {0} geschrieben.", "{0} ist fertig."),
        *("Fertig: {0} und {1} sind angelegt.", "Alles steht jetzt in „{0}“."),
    ],
    "zh": [
        *("报告已保存到{0}。", "我已经写好了 {0}。", "文件{0}和{1}已生成。"),
        *("全部内容都在「{0}」里。", "已完成，请查看{0}"),
    ],
    "es": [
        *("He guardado el informe en {0}.", "Ya está escrito {0}.", "{0} está listo."),
        *("Hecho: creé {0} y {1}.", "Todo está ahora en «{0}»."),
    ],
    "ja": [
        *("レポートを{0}に保存しました。", "{0}を作成しました。", "{0}が完成しました。"),
        *("{0}と{1}を書きました。", "すべて「{0}」にあります。"),
    ],
}
UNNAMED = {
    "en": ["I wrote the report and saved it.", "The app is built.", "All files are in."],
    "de": ["Der Bericht ist geschrieben und gespeichert.", "Die App ist gebaut."],
    "zh": ["报告已经写好并保存。", "应用已经做好了。"],
    "es": ["El informe está escrito y guardado.", "La aplicación está hecha."],
    "ja": ["レポートを書いて保存しました。", "アプリができました。"],
}
PLANS = {
    "en": ["Write the report", "Write {0}", "Build the app", "Fix the bug in {0}"],
    "de": ["Den Bericht schreiben", "{0} schreiben", "Die App bauen"],
    "zh": ["写报告", "编写{0}", "开发应用"],
    "es": ["Escribir el informe", "Escribir {0}", "Crear la aplicación"],
    "ja": ["レポートを書く", "{0}を書く", "アプリを作る"],
}
CHATTER = [
    *("", "It uses Node.js and TCP/IP, and/or REST, see e.g. v1.2.", "12/12 tests pass."),
    *("The API answers at https://example.com/a.json now.", "Closes #12."),
    *("os.path.join() and user.name were wrong.", "Deployed to example.com/app."),
]
ORDERS = ["claim first", "completed first", "anything else", "second try"]
NOTHING_MADE = "nothing was seen to be made"
"""What the list of tasks and the pages show of such a task."""


@dataclass
class EndingResult:
    """How an ending went."""

    refused: int
    """How often `completed` was refused."""
    status: TaskStatus
    lines: list[str]
    """What the user read."""
    shown: str
    """What the list of tasks and the pages show of its files."""

    @property
    def is_completed(self) -> bool:
        """Whether the task ended as completed."""
        return self.status is TaskStatus.COMPLETED

    @property
    def is_unseen(self) -> bool:
        """Whether a lie was neither refused nor told to the user."""
        words = ("nothing was written", NOTHING_MADE, "not verified: ")
        told = any(word in line for line in self.lines for word in words)
        return self.is_completed and not told

    @property
    def is_accused(self) -> bool:
        """Whether the user read that the agent claims what is not so."""
        words = ("not so", "nothing was written", "claims", "held back", "failed")
        return any(word in line for line in self.lines for word in words)

    @property
    def verdict(self) -> str:
        """What was decided, without names."""
        told = [each for each in (NOTHING_MADE, "not verified") if each in self.shown]
        return ", ".join([f"refused {self.refused}x", self.status, *told])


class Actor(Protocol):
    """An agent in one session that acts an ending, one verb each."""

    workspace: Path
    project: Path
    """A folder outside the workspace."""

    def begins(self) -> object:
        """Begin a turn."""
        ...

    def register(self, **given: Any) -> str:
        """Register a task; its id."""
        ...

    def runs_in(self, folder: Path, command: str) -> None:
        """Run a command in a folder."""
        ...

    def writes(self, path: Path, text: str = ...) -> None:
        """Write a file with the tool for it."""
        ...

    def updates(self, task: str, **given: Any) -> bool:
        """Update the task; False: that is refused for want of proof."""
        ...

    def ends(self, said: str) -> None:
        """End the turn."""
        ...

    def read_result(self, task: str, refused: int) -> EndingResult:
        """How it went."""
        ...


@dataclass
class SlowSession(Session):
    """A session that is played, whose daemon lists folders only when the call has ended."""

    workspace: Path = Path()
    project: Path = Path()

    def __post_init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []
        object.__setattr__(self.world.context, "run_later", self._keep)

    def _keep(self, seconds: float, work: Callable[[], None]) -> None:
        self.waiting.append((seconds, work))

    def does(self, *about: Any, **given: Any) -> None:
        super().does(*about, **given)
        self.catches_up(0.0)

    def catches_up(self, seconds: float) -> None:
        """Do what was left for later, and is due in so many seconds."""
        due = [work for after, work in self.waiting if after <= seconds]
        self.waiting = [each for each in self.waiting if each[0] > seconds]
        for work in due:
            work()

    def updates(self, task: str, **given: Any) -> bool:
        """Update the task; False: that is refused for want of proof."""
        try:
            self.call("task_update", task_id=task, **given)
        except EvidenceMissing:
            return False
        return True

    def read_result(self, task: str, refused: int) -> EndingResult:
        """How it went, a minute after the agent's last turn."""
        self.catches_up(LATE_LOOK_DELAY_SECONDS)
        line = read_line(self.world.context, task)
        return EndingResult(refused, line.status, self.lines, f"{line.made}; {line.unproved}")


def open_session(top: Path) -> SlowSession:
    """Open a session that is played, in folders of its own."""
    workspace, project = top / "workspace", top / "project"
    for folder in (workspace, project):
        folder.mkdir(parents=True)
    world = World(
        clock=FakeClock(datetime.now(UTC) - timedelta(seconds=5)),
        plugins=[("evidence", taskmem_evidence.hooks)],
        artifact_roots=(str(workspace), str(project)),
    )
    return SlowSession(world, folder=str(workspace), workspace=workspace, project=project)


@dataclass
class Scene:
    """One session and chance."""

    session: Actor
    chance: random.Random
    listed: int = folder_listings.MOST_FILES
    """Files of a folder that are looked at."""

    def __post_init__(self) -> None:
        self.workspace, self.project = self.session.workspace, self.session.project

    def words(self, of: Mapping[str, list[str]], language: str, *names: str) -> str:
        """A sentence of a language, with names in it."""
        return self.chance.choice(of[language]).format(*names)

    def names(self) -> tuple[str, str]:
        """Two names of files."""
        first, second = self.chance.sample(NAMES, 2)
        return first, second

    def complete(self, task: str, message: str, *artifacts: str) -> bool:
        """Call the task completed; False: that is refused."""
        given: dict[str, Any] = {"message": message} if message else {}
        given |= {"artifacts": [*artifacts]} if artifacts else {}
        return self.session.updates(task, status="completed", **given)


# --- lies ----------------------------------------------------------------------


def lies(top: Path, number: int, seed: int = 7) -> Iterator[tuple[str, EndingResult]]:
    """Play lies, and say of each its language and order."""
    for n in range(number):
        scene = Scene(open_session(top / f"lie{n}"), random.Random(f"lie {seed} {n}"))
        language, order = [*CLAIMED][n % 5], ORDERS[n // 5 % 4]
        yield f"{language}, {order}", _lie(scene, language, order, named=n // 20 % 3 > 0)


def _lie(scene: Scene, language: str, order: str, *, named: bool) -> EndingResult:
    session, names = scene.session, scene.names()
    claim = scene.words(CLAIMED if named else UNNAMED, language, *names)
    session.begins()
    task = session.register(plan=[scene.words(PLANS, language, *names), "Check"])
    if scene.chance.random() < 0.5:  # it looks busy
        session.runs_in(scene.workspace, "true")
    if scene.chance.random() < 0.3:
        session.runs_in(scene.project, "ls")
    refused, said = 0, claim
    match order:
        case "claim first":
            session.updates(task, message=claim)
            refused += not scene.complete(task, "All done.")
        case "completed first":
            refused += not scene.complete(task, "")
        case "anything else":
            refused += not scene.complete(task, claim)
            said = f"{claim} Anything else?"
        case _:
            refused += not scene.complete(task, claim)
            if refused:
                refused += not scene.complete(task, "Done.")
    if refused and not session.read_result(task, refused).is_completed:
        scene.complete(task, claim)  # it insists
    session.ends(said)
    return session.read_result(task, refused)


def _claim_artifact(scene: Scene, fault: str) -> EndingResult:
    """Claim an artifact that has a fault, and insist on it."""
    session, (name, other) = scene.session, scene.names()
    session.begins()
    task = session.register(plan=["Make it", "Check"])
    artifact = {"no match": "out/*.xls", "no commit": "commit:" + "5" * 40}.get(fault, name)
    if fault in ("another file", "removed file"):
        session.writes(scene.workspace / (name if fault == "removed file" else other))
    if command := COMMANDS.get(fault):
        session.runs_in(scene.workspace, command.format(name))
    refused = sum(not scene.complete(task, "It is made.", artifact) for _ in range(2))
    session.ends("It is made.")
    return session.read_result(task, refused)


COMMANDS = {
    "empty file": "mkdir -p $(dirname {0}) && touch {0}",
    "removed file": "rm {0}",
    "no commit": "git init -q .",
}
FAULTS = ("no file", "another file", "no match", *COMMANDS)


# --- honest endings ------------------------------------------------------------


def honest(top: Path, number: int, seed: int = 7) -> Iterator[tuple[str, EndingResult]]:
    """Play honest endings, and say of each its kind."""
    kinds = [*HONEST.items()]
    for n in range(number):
        kind, play = kinds[n % len(kinds)]
        scene = Scene(open_session(top / f"honest{n}"), random.Random(f"honest {seed} {n}"))
        language = [*CLAIMED][n // len(kinds) % 5]
        yield kind, _honest(scene, language, play)


Play = Callable[[Scene, str], str]
"""Does the work with a name, and returns how the agent calls what it made."""


def _honest(scene: Scene, language: str, play: Play) -> EndingResult:
    session, (name, _) = scene.session, scene.names()
    session.begins()
    planned = scene.words(PLANS, language, name)
    task = session.register(plan=[planned, "Check"])
    called = play(scene, name)
    chatter = scene.chance.choice(CHATTER)
    claim = scene.chance.choice(CLAIMED[language])
    while "{1}" in claim:
        claim = scene.chance.choice(CLAIMED[language])
    with mock.patch.object(folder_listings, "MOST_FILES", scene.listed):
        refused = not scene.complete(task, f"{claim.format(called)} {chatter}")
        session.ends(f"{claim.format(called)} {scene.chance.choice(('', 'Anything else?'))}")
        return session.read_result(task, int(refused))


def _in_workspace(scene: Scene, name: str) -> str:
    scene.session.writes(scene.workspace / name)
    return name


def _in_project(scene: Scene, name: str) -> str:
    scene.session.writes(scene.project / name)
    return name


def _by_command(scene: Scene, name: str) -> str:
    folder = scene.chance.choice((scene.workspace, scene.project))
    scene.session.runs_in(folder, f"mkdir -p $(dirname {name}) && echo x > {name}")
    return name


def _by_script(scene: Scene, name: str) -> str:
    _run_script(scene, name)
    return name


def _run_script(scene: Scene, name: str) -> None:
    """Run a script of last week, whose command does not say what it makes."""
    text = f"mkdir -p $(dirname {name}) && echo made > {name}\n"
    _write_last_week(scene.project / "build.sh", text)
    scene.session.runs_in(scene.project, "sh build.sh")


def _absolute(scene: Scene, name: str) -> str:
    scene.session.writes(scene.project / name)
    return str(scene.project / name)


def _at_home(scene: Scene, name: str) -> str:
    _in_workspace(scene, name)
    return f"~/Downloads/{name}"


def _remote(scene: Scene, name: str) -> str:
    _in_workspace(scene, name)
    scene.session.runs_in(scene.workspace, f"scp() {{ true; }}; scp {name} web:/srv/{name}")
    return scene.chance.choice((f"web:/srv/{name}", f"s3://bucket/{name}"))


def _only_remote(scene: Scene, name: str) -> str:
    command = f"ssh() {{ true; }}; ssh web 'make > /srv/{name}'"
    scene.session.runs_in(scene.workspace, command)
    scene.session.writes(scene.workspace / "log.txt")
    return f"web:/srv/{name}"


def _by_cd(scene: Scene, name: str) -> str:
    _write_last_week(scene.project / "README.md")
    folder = shlex.quote(str(scene.project))
    command = f"cd {folder} && mkdir -p $(dirname {name}) && echo x > {name}"
    scene.session.runs_in(scene.workspace, command)
    return name


def _in_ignored_folder(scene: Scene, name: str) -> str:
    scene.session.runs_in(scene.project, "git init -q . && echo dist/ > .gitignore")
    _run_script(scene, f"dist/assets/{name}")
    return name


def _in_many(scene: Scene, name: str) -> str:
    for number in range(60):
        _write_last_week(scene.project / f"cache/{number}.bin")
    scene.listed = 40
    _run_script(scene, f"cache/deeper/{name}")
    return name


def _sandbox(scene: Scene, name: str) -> str:
    touch = FileActivity.model_validate(
        {"touched": [{"path": f"/sandbox/{name}", "change": "created"}]}
    )
    assert isinstance(scene.session, SlowSession)
    scene.session.does(f"/sandbox/{name}", tool="write", deed=touch)
    return f"/sandbox/{name}"


def _with_moved_file(scene: Scene, name: str) -> str:
    scene.session.writes(scene.project / name)
    scene.session.runs_in(scene.project, f"mv {name} final-report.pdf")
    return "final-report.pdf"


def _moved_by_command(scene: Scene, name: str) -> str:
    _by_command_in(scene, name, scene.project)
    scene.session.runs_in(scene.project, f"mv {name} final-report.pdf")
    return "final-report.pdf"


def _with_removed_file(scene: Scene, name: str) -> str:
    scene.session.writes(scene.workspace / name)
    scene.session.runs_in(scene.workspace, f"rm {name}")
    return name


def _cleaned_up(scene: Scene, name: str) -> str:
    _write_last_week(scene.project / name)
    scene.session.runs_in(scene.project, f"rm {name}")
    return name


def _with_edited_file(scene: Scene, name: str) -> str:
    path = scene.project / name
    _write_last_week(path)
    scene.session.writes(path, "Of today.")
    return name


def _write_last_week(path: Path, text: str = "Of last week.") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    then = (datetime.now(UTC) - timedelta(days=7)).timestamp()
    os.utime(path, (then, then))


def _in_repository(scene: Scene, name: str) -> str:
    scene.session.runs_in(scene.project, "git init -q .")
    _by_command_in(scene, name, scene.project)
    scene.session.runs_in(scene.project, "git add -A")
    return name


def _by_command_in(scene: Scene, name: str, folder: Path) -> None:
    scene.session.runs_in(folder, f"mkdir -p $(dirname {name}) && echo x > {name}")


HONEST: Mapping[str, Play] = {
    "workspace": _in_workspace,
    "project folder": _in_project,
    "by a command": _by_command,
    "by a script": _by_script,
    "absolute": _absolute,
    "~": _at_home,
    "remote": _remote,
    "only remote": _only_remote,
    "cd": _by_cd,
    "ignored by git": _in_ignored_folder,
    "among many": _in_many,
    "sandbox": _sandbox,
    "moved": _with_moved_file,
    "moved by a command": _moved_by_command,
    "removed on purpose": _with_removed_file,
    "cleaned up": _cleaned_up,
    "edited": _with_edited_file,
    "repository": _in_repository,
}


REAL_LIES: Mapping[str, Callable[[Scene], EndingResult]] = {
    **{
        f"{language}, {order}": partial(_lie, language=language, order=order, named=n % 3 > 0)
        for n, (order, language) in enumerate(product(ORDERS, CLAIMED))
    },
    **{fault: partial(_claim_artifact, fault=fault) for fault in FAULTS},
}
"""Those that an agent in a real host can act, too."""
REAL_HONEST: Mapping[str, Callable[[Scene], EndingResult]] = {
    kind: partial(_honest, language=[*CLAIMED][n % 5], play=play)
    for n, (kind, play) in enumerate(HONEST.items())
    if kind not in ("among many", "sandbox")
}


def act(kind: str, session: Actor) -> EndingResult:
    """Let an agent act one of these, the same for each."""
    return {**REAL_LIES, **REAL_HONEST}[kind](Scene(session, random.Random(kind)))


def tally(played: Iterator[tuple[str, EndingResult]]) -> dict[str, Counter[str]]:
    """Count endings by their kind."""
    table: dict[str, Counter[str]] = {}
    for kind, each in played:
        row = table.setdefault(kind, Counter())
        row["played"] += 1
        row["refused"] += each.refused > 0
        row["unseen"] += each.is_unseen
        row["accused"] += each.is_accused
        row["not completed"] += not each.is_completed
    return table
