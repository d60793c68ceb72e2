"""What a task is to have made before it is completed."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from openclaw_taskmem.domain.tasks.artifact_names import ELSEWHERE_KIND, RequiredArtifact
from openclaw_taskmem.domain.tasks.required_artifacts import (
    MOST_ARTIFACTS,
    find_artifact_fault,
    list_required_artifacts,
    read_metadata_artifacts,
)
from taskmem_hookspecs import Task
from taskmem_hookspecs.testing import a_task

SUM = "0123456789abcdef" * 4


def files(count: int, folder: str = "out") -> tuple[str, ...]:
    return tuple(f"{folder}/{number}.md" for number in range(count))


def task_with_files(*paths: str) -> Task:
    """A task whose metadata name files."""
    return a_task(metadata={"artifacts": [*paths]})


def subjects(task: Task, *given: str) -> list[str]:
    return [each.subject for each in list_required_artifacts(task, given)]


def require_checksum(checksum: object) -> list[RequiredArtifact]:
    made = {"path": "/a/b.txt", "checksum": checksum}
    return [*read_metadata_artifacts({"artifacts": [made]})]


# --- how much -------------------------------------------------------------------


def test_artifacts_of_the_task_come_before_those_of_the_caller() -> None:
    task, others = task_with_files("/a/b.txt", "report.md"), files(50, "/other")

    assert subjects(task, *others) == ["/a/b.txt", "report.md", *others]


def test_every_file_that_is_named_is_wanted() -> None:
    paths = files(MOST_ARTIFACTS)
    wanted = list_required_artifacts(task_with_files(*paths))

    assert tuple(each.subject for each in wanted) == paths
    assert find_artifact_fault(wanted) is None


def test_too_many_artifacts_are_a_fault_that_says_what_to_do() -> None:
    fault = find_artifact_fault(
        list_required_artifacts(task_with_files(*files(MOST_ARTIFACTS)), ["/a/b.txt"])
    )

    assert fault is not None
    assert "201 are named; name fewer" in fault
    assert "task_plan_update" in fault


@pytest.mark.parametrize("key", [None, "path", "subject"])
@pytest.mark.parametrize(
    ("subject", "path"),
    [
        ("file:///work/a.md", "/work/a.md"),
        ("file:///work/the%20report.md", "/work/the report.md"),
        ("/work/the%20report.md", "/work/the%20report.md"),
    ],
)
def test_a_file_may_be_named_by_its_url(key: str | None, subject: str, path: str) -> None:
    made: JsonValue = subject if key is None else {key: subject}

    [thing] = read_metadata_artifacts({"artifacts": [made]})

    assert (thing.kind, thing.subject) == ("file", path)


# --- what stands for what -------------------------------------------------------


@pytest.mark.parametrize(
    ("planned", "given"),
    [
        ("report.md", "/work/out/report.md"),
        ("./out/report.md", "/work/out/report.md"),
        ("/work/report.md", "/work/report.md"),
        ("~/app/config.toml", "/home/alex/app/config.toml"),
        ("~/app/config.toml", "/var/home/alex/app/config.toml"),
        ("~/app/config.toml", "/Users/alex/app/config.toml"),
        ("~/app/config.toml", "/root/app/config.toml"),
        ("/work/Report Final.docx", "/work/Report Final.docx"),
        ("`report.md`", '"/work/out/report.md"'),
    ],
)
def test_a_whole_path_stands_for_what_the_plan_names(planned: str, given: str) -> None:
    assert subjects(task_with_files(planned), given) == [given]


@pytest.mark.parametrize(
    ("planned", "given"),
    [
        ("report.md", "/work/old-report.md"),
        ("out/report.md", "/work/report.md"),
        ("/etc/motd.txt", "/srv/decoy/etc/motd.txt"),
        ("~/app/config.toml", "/srv/decoy/app/config.toml"),
        ("~/app/config.toml", "/home/alex/decoy/app/config.toml"),
        ("~/app/config.toml", "/srv/home/alex/app/config.toml"),
        ("~/app/config.toml", "app/config.toml"),
    ],
)
def test_a_path_that_ends_alike_elsewhere_stands_for_nothing(planned: str, given: str) -> None:
    assert subjects(task_with_files(planned), given) == [planned, given]


@pytest.mark.parametrize("key", [None, "path"])
@pytest.mark.parametrize(
    "subject", ["s3://bucket/a.md", "user@host:/srv/a.md", "file://other/a.md"]
)
def test_what_has_a_host_or_a_scheme_is_elsewhere(key: str | None, subject: str) -> None:
    made: JsonValue = subject if key is None else {key: subject}

    [thing] = read_metadata_artifacts({"artifacts": [made]})

    assert (thing.kind, thing.subject) == (ELSEWHERE_KIND, subject)


@pytest.mark.parametrize("key", ["path", "file", "file_path", "url", "uri", "name", "subject"])
def test_an_object_is_read_as_its_text_would_be(key: str) -> None:
    named: JsonValue = [{key: "https://acme.example/a"}, {key: "command:build"}]

    things = read_metadata_artifacts({"artifacts": named})
    assert [each.kind for each in things] == ["url", "command"]


def test_given_full_path_replaces_the_matching_path_of_the_task() -> None:
    task = a_task(
        plan=("Look at it",), metadata={"artifacts": [{"path": "out/report.md", "checksum": SUM}]}
    )
    (found,) = list_required_artifacts(task, given=["/srv/job/out/report.md"])[:1]

    assert (found.subject, found.checksum) == ("/srv/job/out/report.md", SUM)
    assert list_required_artifacts(task, given=["/srv/job/report.md"])[0].subject == (
        "out/report.md"
    )
