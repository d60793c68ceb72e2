"""Endings of tasks, by a generator: lies, and honest ones, with real files.

Each is played by a session's hooks and calls, as an agent would act; what is said comes
from templates in five languages, and none of it from the product.
"""

# ruff: noqa: S311 - what is drawn is to be the same each time

from __future__ import annotations

import os
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from unittest import mock

import taskmem_evidence.hooks
from openclaw_taskmem.domain.errors import EvidenceMissing
from openclaw_taskmem.engine import folder_listings
from openclaw_taskmem.engine.evidence import LATE_LOOK_DELAY_SECONDS
from openclaw_taskmem.engine.ledger import FileActivity
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


@dataclass
class EndingResult:
    """How an ending went."""

    refused: int
    """How often `completed` was refused."""
    status: TaskStatus
    lines: list[str]
    """What the user read."""

    @property
    def is_completed(self) -> bool:
        """Whether the task ended as completed."""
        return self.status is TaskStatus.COMPLETED

    @property
    def is_unseen(self) -> bool:
        """Whether a lie was neither refused nor told to the user."""
        words = ("nothing was written", "not verified: ")
        told = any(word in line for line in self.lines for word in words)
        return self.is_completed and not told

    @property
    def is_accused(self) -> bool:
        """Whether the user read that the agent claims what is not so."""
        words = ("not so", "nothing was written", "claims", "held back", "failed")
        return any(word in line for line in self.lines for word in words)


@dataclass
class SlowSession(Session):
    """A session whose daemon lists folders only when the call has ended."""

    def __post_init__(self) -> None:
        self.waiting: list[tuple[float, Callable[[], None]]] = []
        keep = lambda seconds, work: self.waiting.append((seconds, work))  # noqa: E731
        object.__setattr__(self.world.context, "run_later", keep)

    def does(self, *about: Any, **given: Any) -> None:
        super().does(*about, **given)
        self.catches_up(0.0)

    def catches_up(self, seconds: float) -> None:
        """Do what was left for later, and is due in so many seconds."""
        due = [work for after, work in self.waiting if after <= seconds]
        self.waiting = [each for each in self.waiting if each[0] > seconds]
        for work in due:
            work()


@dataclass
class Scene:
    """One session in folders of its own."""

    top: Path
    chance: random.Random
    session: SlowSession = field(init=False)
    workspace: Path = field(init=False)
    project: Path = field(init=False)
    """A folder outside the workspace."""
    listed: int = folder_listings.MOST_FILES
    """Files of a folder that are looked at."""

    def __post_init__(self) -> None:
        self.workspace, self.project = self.top / "workspace", self.top / "project"
        for folder in (self.workspace, self.project):
            folder.mkdir(parents=True)
        clock = FakeClock(datetime.now(UTC) - timedelta(seconds=5))
        world = World(
            clock=clock,
            plugins=[("evidence", taskmem_evidence.hooks)],
            artifact_roots=(str(self.workspace), str(self.project)),
        )
        self.session = SlowSession(world, folder=str(self.workspace))

    def words(self, of: Mapping[str, list[str]], language: str, *names: str) -> str:
        """A sentence of a language, with names in it."""
        return self.chance.choice(of[language]).format(*names)

    def names(self) -> tuple[str, str]:
        """Two names of files."""
        first, second = self.chance.sample(NAMES, 2)
        return first, second

    def complete(self, task: str, message: str) -> bool:
        """Call the task completed; False: that is refused."""
        given = {"task_id": task, "status": "completed"}
        given |= {"message": message} if message else {}
        try:
            self.session.call("task_update", **given)
        except EvidenceMissing:
            return False
        return True

    def read_result(self, task: str, refused: int) -> EndingResult:
        """How it went, a minute after the agent's last turn."""
        self.session.catches_up(LATE_LOOK_DELAY_SECONDS)
        status = self.session.world.task(task).status
        return EndingResult(refused=refused, status=status, lines=self.session.lines)


# --- lies ----------------------------------------------------------------------


def lies(top: Path, number: int, seed: int = 7) -> Iterator[tuple[str, EndingResult]]:
    """Play lies, and say of each its language and order."""
    for n in range(number):
        chance = random.Random(f"lie {seed} {n}")
        language, order = [*CLAIMED][n % 5], ORDERS[n // 5 % 4]
        named = n // 20 % 3 > 0
        yield (
            f"{language}, {order}",
            _lie(Scene(top / f"lie{n}", chance), language, order, named=named),
        )


def _lie(scene: Scene, language: str, order: str, *, named: bool) -> EndingResult:
    session, names = scene.session, scene.names()
    claim = scene.words(CLAIMED if named else UNNAMED, language, *names)
    session.begins()
    task = session.register(plan=[scene.words(PLANS, language, *names), "Check"])
    if scene.chance.random() < 0.5:  # it looks busy
        session.does("web_search", tool="web_search", deed=FileActivity())
    if scene.chance.random() < 0.3:
        session.runs_in(scene.project, "ls", run=lambda: None)
    refused, said = 0, claim
    match order:
        case "claim first":
            session.call("task_update", task_id=task, message=claim)
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
    if session.world.task(task).status is not TaskStatus.COMPLETED:
        scene.complete(task, claim)  # it insists
    session.ends(said)
    return scene.read_result(task, refused)


# --- honest endings ------------------------------------------------------------


def honest(top: Path, number: int, seed: int = 7) -> Iterator[tuple[str, EndingResult]]:
    """Play honest endings, and say of each its kind."""
    kinds = [*HONEST.items()]
    for n in range(number):
        kind, play = kinds[n % len(kinds)]
        chance = random.Random(f"honest {seed} {n}")
        scene = Scene(top / f"honest{n}", chance)
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
        return scene.read_result(task, int(refused))


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
    path = scene.project / name

    def script() -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("made by a script")

    scene.session.runs_in(scene.project, "make all", run=script)
    return name


def _absolute(scene: Scene, name: str) -> str:
    scene.session.writes(scene.project / name)
    return str(scene.project / name)


def _at_home(scene: Scene, name: str) -> str:
    _in_workspace(scene, name)
    return f"~/Downloads/{name}"


def _remote(scene: Scene, name: str) -> str:
    _in_workspace(scene, name)
    scene.session.does(f"scp {name} web:/srv/{name}", deed=FileActivity(command=True))
    return scene.chance.choice((f"web:/srv/{name}", f"s3://bucket/{name}"))


def _only_remote(scene: Scene, name: str) -> str:
    deed = FileActivity(command=True, folders=(str(scene.workspace),))
    scene.session.does(f"ssh web 'make > /srv/{name}'", deed=deed)
    scene.session.writes(scene.workspace / "log.txt")
    return f"web:/srv/{name}"


def _by_cd(scene: Scene, name: str) -> str:
    _write_last_week(scene.project / "README.md")
    command = f"cd {scene.project} && mkdir -p $(dirname {name}) && echo x > {name}"
    scene.session.runs_in(scene.workspace, command)
    return name


def _in_ignored_folder(scene: Scene, name: str) -> str:
    scene.session.runs_in(scene.project, "git init -q . && echo dist/ > .gitignore")
    path = scene.project / "dist/assets" / name

    def build() -> None:
        path.parent.mkdir(parents=True)
        path.write_text("built")

    scene.session.runs_in(scene.project, "npm run build", run=build)
    return name


def _in_many(scene: Scene, name: str) -> str:
    for number in range(60):
        _write_last_week(scene.project / f"cache/{number}.bin")
    path = scene.project / "cache/deeper" / name

    def build() -> None:
        path.parent.mkdir(parents=True)
        path.write_text("built")

    scene.listed = 40
    scene.session.runs_in(scene.project, "make all", run=build)
    return name


def _sandbox(scene: Scene, name: str) -> str:
    touch = FileActivity.model_validate(
        {"touched": [{"path": f"/sandbox/{name}", "change": "created"}]}
    )
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


def _write_last_week(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("Of last week.")
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
