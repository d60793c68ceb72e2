"""Looking at what a task makes, while others go on with it."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import taskmem_evidence.hooks
from openclaw_taskmem.domain.callers import Caller
from openclaw_taskmem.domain.errors import EvidenceMissing
from openclaw_taskmem.domain.tasks.artifact_names import RequiredArtifact
from openclaw_taskmem.engine import evidence_checker
from openclaw_taskmem.engine.context import MOST_TRIES
from openclaw_taskmem.plugin_host.plugin_host import PluginHost
from taskmem_hookspecs import (
    Change,
    Claim,
    Finding,
    TaskQuery,
    TaskStatus,
    Verdict,
    WorkFolder,
    hookimpl,
)
from taskmem_hookspecs.errors import Conflict, InvalidArguments
from taskmem_hookspecs.testing import FakeClock
from tests.support.memory_store import MemoryStore
from tests.support.world import World

WRITE = {"artifacts": ["report.md"]}


class Witness:
    """A plug-in that believes every claim; `then` happens while it looks."""

    def __init__(self) -> None:
        self.seen: list[str] = []
        self.then: Callable[[], object] = lambda: None

    @hookimpl
    def evidence_verifier(self, kind: str) -> Witness:
        return self

    async def verify(self, claim: Claim) -> Finding:
        self.seen.append(claim.subject)
        self.then()
        return Finding(verdict=Verdict.VERIFIED, detail="It is there.")


class DelayedStore(MemoryStore):
    """Lets time pass before a task is read, as when its turn is waited for."""

    clock: FakeClock
    delays: list[float]

    def read_task(self, task_id: str) -> Any:
        if self.delays:
            self.clock.tick(self.delays.pop(0))
        return super().read_task(task_id)


class ContestedStore(MemoryStore):
    """Somebody else always writes what a task makes before it can be completed."""

    lost = 0
    lose: Callable[[], object] = staticmethod(lambda: None)

    def commit(self, change: Change) -> None:
        if any(task.status is TaskStatus.COMPLETED for task in change.tasks):
            self.lost += 1
            self.lose()
            raise Conflict("Somebody else wrote it first.")
        super().commit(change)


@pytest.fixture
def witness() -> Witness:
    return Witness()


@pytest.fixture
def world(witness: Witness) -> World:
    return World(plugins=[("witness", witness)])


def complete(world: World, task: str, **given: object) -> TaskStatus:
    world.call("task_update", task_id=task, status="completed", **given)
    return world.task(task).status


def test_task_can_be_written_while_its_artifacts_are_checked(
    world: World, witness: Witness
) -> None:
    task = world.register(metadata=WRITE)
    witness.then = lambda: world.narrate(task)

    assert complete(world, task) is TaskStatus.COMPLETED
    assert witness.seen == ["report.md"]
    assert [said for _, _, said in world.thread(task)][:1] == ["Still at it."]


def test_what_is_sought_anew_meanwhile_is_looked_at_as_well(world: World, witness: Witness) -> None:
    task = world.register(metadata=WRITE)
    both = ["report.md", "list.csv"]
    witness.then = lambda: (
        world.task(task).metadata == {"artifacts": both} or name_artifacts(world, task, *both)
    )

    assert complete(world, task) is TaskStatus.COMPLETED
    assert witness.seen == ["report.md", "report.md", "list.csv"]


def test_a_task_that_changes_at_every_look_is_left_as_it_is(world: World, witness: Witness) -> None:
    task = world.register(metadata=WRITE)
    witness.then = lambda: name_artifacts(world, task, f"{len(witness.seen)}.md")

    with pytest.raises(Conflict, match="call again"):
        complete(world, task)
    assert world.task(task).status is TaskStatus.ACTIVE


def test_conflicts_and_looks_share_one_limit_of_tries(witness: Witness) -> None:
    store = ContestedStore()
    world = World(store, plugins=[("witness", witness)])
    task = world.register(metadata=WRITE)
    other = World(store)
    store.lose = lambda: name_artifacts(other, task, f"{store.lost}.md")

    with pytest.raises(Conflict, match="call again"):
        complete(world, task)
    assert store.lost + len(witness.seen) <= MOST_TRIES


@pytest.mark.parametrize(("waited", "looks"), [(1.0, 1), (3.0, 2)])
def test_what_was_seen_counts_only_for_a_moment(
    witness: Witness, waited: float, looks: int
) -> None:
    store = DelayedStore()
    store.clock, store.delays = FakeClock(), []
    world = World(store, store.clock, plugins=[("witness", witness)])
    task = world.register(metadata=WRITE)
    # Its id, which is short here, is looked up first.
    store.delays = [0.0, 0.0, waited]

    assert complete(world, task) is TaskStatus.COMPLETED
    assert len(witness.seen) == looks


def test_what_there_is_no_time_left_for_is_told_as_not_verified(
    world: World, witness: Witness
) -> None:
    names = [f"{number}.md" for number in range(9)]
    task = world.register(metadata={"artifacts": names})
    witness.then = lambda: world.clock.tick(evidence_checker.LOOK_TIME_LIMIT / timedelta(seconds=2))

    answer = world.call("task_update", task_id=task, status="completed")
    assert witness.seen == names[:3]
    doubts = {each["what"]: each["why"] for each in answer["unverified"]}
    assert [*doubts] == names[3:]
    assert "no time left" in doubts["3.md"]


def test_what_the_task_names_is_proved_whatever_else_is_there(tmp_path: Path) -> None:
    clock = FakeClock(datetime.now(UTC) - timedelta(minutes=1))
    world = World(clock=clock, plugins=[("evidence", taskmem_evidence.hooks)])
    others = [tmp_path / f"{number}.txt" for number in range(50)]
    for other in others:
        other.write_text("x")
    agent = Caller(folder=str(tmp_path))
    task = world.register(metadata=WRITE)

    with pytest.raises(EvidenceMissing, match=r"report\.md"):
        world.call(
            "task_update",
            agent,
            task_id=task,
            status="completed",
            artifacts=[str(other) for other in others],
        )


def test_uncheckable_artifact_is_refused_at_registration(world: World) -> None:
    made = [{"path": "a.txt", "checksum": "md5:0"}]

    with pytest.raises(InvalidArguments, match=r'"a\.txt".*Nothing was written'):
        world.register(metadata={"artifacts": made})
    assert world.store.find_tasks(TaskQuery(implicit=False)) == []


def test_too_many_artifacts_are_refused_at_completion(world: World, witness: Witness) -> None:
    task = world.register(metadata={"artifacts": [f"{n}.md" for n in range(200)]})

    with pytest.raises(InvalidArguments, match=f"{task} is not completed. At most 200"):
        complete(world, task, artifacts=["/other.md"])
    assert witness.seen == []
    assert world.task(task).status is TaskStatus.ACTIVE


def test_what_is_kept_of_a_look_holds_no_credential() -> None:
    secret = "ghp_" + "a1B2c3D4e5F6" * 3

    class LeakingVerifier(Witness):
        async def verify(self, claim: Claim) -> Finding:
            detail = f"It is a link to /srv/{secret}/report.md."
            return Finding(verdict=Verdict.VERIFIED, detail=detail)

    world = World(plugins=[("telling", LeakingVerifier())])
    task = world.register(metadata={**WRITE, secret: "x"})
    complete(world, task)

    (kept,) = world.store.read_task(task).artifacts
    assert "/report.md" in kept.detail
    assert secret not in kept.detail
    assert secret not in str(world.task(task).metadata)


def test_refused_completions_add_no_rows_to_those_of_the_first() -> None:
    world = World(plugins=[])
    task = world.register(plan=["Think"])

    def refuse_completion(number: int) -> list[str]:
        made = [f"command:{number}-{each}" for each in range(50)]
        with pytest.raises(EvidenceMissing):
            complete(world, task, artifacts=made)
        rows = world.store.read_task(task).artifacts
        return sorted(row.subject for row in rows)

    for number in range(3):
        assert refuse_completion(number) == sorted(f"{number}-{each}" for each in range(50))


@pytest.mark.parametrize(
    ("subject", "cure"),
    [
        ("command:build", r"or run it again, as taskmem run --name NAME"),
        ("https://x.test/a", "Mend what answers at the URL"),
        ("report.md", r"Proof is the whole path of a file, a URL, a commit, or command:NAME"),
    ],
)
def test_a_refusal_says_what_to_do_for_the_kind_that_is_missing(subject: str, cure: str) -> None:
    class Denier(Witness):
        async def verify(self, claim: Claim) -> Finding:
            return Finding(verdict=Verdict.REFUTED, detail="It is not so.")

    world = World(plugins=[("denier", Denier())])
    task = world.register(plan=["Think"], metadata={"artifacts": [subject]})

    with pytest.raises(EvidenceMissing, match=cure) as refused:
        complete(world, task)
    said = str(refused.value)
    assert said.endswith("with task_plan_update (artifacts).")


class Repository:
    """A plug-in that knows one commit, in folders of `app`, and no repository elsewhere."""

    @hookimpl
    def evidence_verifier(self, kind: str) -> Repository | None:
        return self if kind == "commit" else None

    async def verify(self, claim: Claim) -> Finding:
        if not (claim.folder or "").endswith("app"):
            return Finding(verdict=Verdict.UNPROVEN, detail="No repository was found.")
        if claim.subject == "5c10b59":
            return Finding(verdict=Verdict.VERIFIED, detail="It is there.", size=200)
        return Finding(verdict=Verdict.REFUTED, detail="There is no such commit.")


@pytest.mark.parametrize(
    ("folder", "told"), [("/work/app", ["a314508"]), ("/work", []), (None, [])]
)
def test_a_commit_that_a_message_cites_is_looked_up(folder: str | None, told: list[str]) -> None:
    world = World(plugins=[("repository", Repository())])
    task = world.register(plan=["Think"])
    message = "Fixed in commit 5c10b59, and reverted by commit a314508."
    given = {"task_id": task, "status": "completed", "message": message}

    answer = world.call("task_update", Caller(folder=folder), **given)
    assert answer["status"] == "completed"
    assert [each["what"] for each in answer["unverified"]] == told


def test_a_commit_is_looked_for_while_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    world = World(plugins=[("repository", Repository())])
    task, asked = world.task(world.register(plan=["Think"])), list[str]()

    def ask(_: object, claim: Claim) -> tuple[Finding, ...]:
        asked.append(str(claim.folder))
        world.clock.tick(evidence_checker.LOOK_TIME_LIMIT / timedelta(seconds=1) + 1)
        return (Finding(verdict=Verdict.UNPROVEN, detail="Not here."),)

    monkeypatch.setattr(PluginHost, "collect_findings", ask)
    folders = [WorkFolder(task_id=task.task_id, path=path) for path in ("/work/a", "/work/b")]
    checker = evidence_checker.EvidenceChecker(world.context, task, None, folders, None)
    [checked] = checker.check(RequiredArtifact(kind="commit", subject="5c10b59"), [])
    assert asked == ["/work/a"]
    assert "no time left" in checked.finding.detail


def test_a_url_that_nobody_can_ask_completes_and_is_told() -> None:
    world = World(plugins=[])
    task = world.register(plan=["Think"])

    answer = world.call(
        "task_update", task_id=task, status="completed", artifacts=["https://x.test/a"]
    )
    assert [each["what"] for each in answer["unverified"]] == ["https://x.test/a"]


# --- what was named wrongly -------------------------------------------------------


def name_artifacts(world: World, task: str, *artifacts: object) -> dict[str, Any]:
    """Name other artifacts for a task whose plan stays as it is."""
    return world.call(
        "task_plan_update",
        task_id=task,
        new_plan=["Think"],
        reason="A typing error.",
        artifacts=[*artifacts],
    )


@pytest.mark.parametrize("now", [["/w/report.md"], []])
def test_what_was_named_wrongly_is_replaced_or_withdrawn(
    world: World, witness: Witness, now: list[str]
) -> None:
    made = {"artifacts": ["/w/reprot.md"], "repo": "x"}
    task = world.register(plan=["Think"], metadata=made)

    name_artifacts(world, task, *now)

    assert complete(world, task) is TaskStatus.COMPLETED
    assert witness.seen == now
    assert world.task(task).metadata == {"artifacts": now, "repo": "x"}


def test_a_revision_that_names_no_artifacts_leaves_them(world: World, witness: Witness) -> None:
    task = world.register(metadata={"artifacts": ["/w/report.md"]})
    world.call("task_plan_update", task_id=task, new_plan=["Think"], reason="Less.")

    complete(world, task)

    assert witness.seen == ["/w/report.md"]
    assert world.thread(task)[0][-1] == "Plan revised: Less."


def test_thread_shows_the_artifacts_before_a_revision_and_why(world: World) -> None:
    task = world.register(metadata={"artifacts": ["/w/reprot.md"]})

    answer = name_artifacts(world, task, {"path": "/w/report.md", "checksum": "a" * 64})
    name_artifacts(world, task, {"path": "/w/report.md", "checksum": "a" * 64})

    assert [said for _, _, said in world.thread(task)] == [
        'Plan revised: A typing error.\nmetadata.artifacts was ["/w/reprot.md"], and '
        'is [{"path": "/w/report.md", "checksum": "' + "a" * 64 + '"}].',
        "Plan revised: A typing error.",
    ]
    assert "It names 1 artifact now." in answer["message"]


@pytest.mark.parametrize(
    ("artifacts", "why"),
    [
        ([f"{number}.md" for number in range(201)], "At most 200 things"),
        ([{"path": "a.md", "checksum": "md5:0"}], "64 hexadecimal digits"),
        (["x" * 40_000], r"metadata has .* at most 65,536"),
        ([{"path": "a.md", "x": float("nan")}], "NaN"),
        (["a.md", " "], "artifacts entry 2 names nothing"),
        ([7], "artifacts entry 1 names nothing"),
    ],
)
def test_unprovable_artifact_is_refused_when_it_is_named_later(
    world: World, artifacts: list[object], why: str
) -> None:
    named_first = {"artifacts": ["/w/report.md"], "more": "y" * 30_000}
    task = world.register(metadata=named_first)

    with pytest.raises(InvalidArguments, match=f"{why}.*Nothing was written"):
        name_artifacts(world, task, *artifacts)
    assert world.task(task).metadata == named_first
    assert world.thread(task) == []


def test_a_pattern_is_looked_for_once(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    sought: list[str] = []

    def find(pattern: str, _roots: object) -> bool:
        sought.append(pattern)
        return False

    monkeypatch.setattr(evidence_checker, "has_match", find)
    complete(world, world.register(), artifacts=["- [x] File: [`./out/**/*.png`](…)"])

    assert 0 < len(sought) == len(set(sought))


def test_no_pattern_is_looked_for_when_time_is_up(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    seconds = evidence_checker.LOOK_TIME_LIMIT / timedelta(seconds=1) + 1
    sought: list[str] = []

    def find(pattern: str, _roots: object) -> bool:
        sought.append(pattern)
        world.clock.tick(seconds)
        return False

    monkeypatch.setattr(evidence_checker, "has_match", find)
    complete(world, world.register(), artifacts=["a/**/*.png", "b/**/*.png"])

    assert len(sought) == 1
