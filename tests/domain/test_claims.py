"""What a task is to have made before it is completed."""

from __future__ import annotations

import pytest
from pydantic import JsonValue

from openclaw_taskmem.domain import claims
from openclaw_taskmem.domain.claims import Wanted
from taskmem_hookspecs import Task
from taskmem_hookspecs.testing import a_task

SUM = "0123456789abcdef" * 4


def files(count: int, folder: str = "out") -> tuple[str, ...]:
    return tuple(f"{folder}/{number}.md" for number in range(count))


def writing(*paths: str, **more: object) -> Task:
    """A task whose plan says to write files, a step each."""
    return a_task(plan=tuple(f"Write {path}" for path in paths), **more)


def subjects(task: Task, *given: str, said: str = "") -> list[str]:
    return [each.subject for each in claims.wanted(task, said, given)]


def summed(checksum: object) -> list[Wanted]:
    made = {"path": "/a/b.txt", "checksum": checksum}
    return [*claims.in_metadata({"artifacts": [made]})]


# --- how much -------------------------------------------------------------------


def test_what_the_task_names_comes_first_however_much_the_caller_names() -> None:
    task = writing("report.md", metadata={"artifacts": ["/a/b.txt"]})
    others = files(50, "/other")

    assert subjects(task, *others) == ["/a/b.txt", "report.md", *others]


def test_every_file_of_a_long_plan_is_wanted() -> None:
    paths = files(claims.MOST)
    wanted = claims.wanted(writing(*paths))

    assert tuple(each.subject for each in wanted) == paths
    assert claims.fault(wanted) is None


def test_more_than_can_be_looked_at_is_a_fault_that_says_what_to_do() -> None:
    fault = claims.fault(claims.wanted(writing(*files(claims.MOST)), "", ["/a/b.txt"]))

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
        ("file://elsewhere/a.md", "file://elsewhere/a.md"),
    ],
)
def test_a_file_may_be_named_by_its_url(
    key: str | None, subject: str, path: str
) -> None:
    made: JsonValue = subject if key is None else {key: subject}

    [thing] = claims.in_metadata({"artifacts": [made]})

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
    ],
)
def test_a_whole_path_stands_for_what_the_plan_names(planned: str, given: str) -> None:
    assert subjects(writing(planned), given) == [given]


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
def test_a_path_that_ends_alike_elsewhere_stands_for_nothing(
    planned: str, given: str
) -> None:
    assert subjects(writing(planned), given) == [planned, given]


def test_a_whole_path_in_the_last_message_stands_for_what_the_plan_names() -> None:
    task = writing("Cargo.toml", "Cargo.lock")

    said = "Done; updated /w/Cargo.toml and /w/sub/Cargo.lock."

    assert subjects(task, said=said) == ["/w/Cargo.toml", "/w/sub/Cargo.lock"]


def test_what_a_message_claims_is_stood_for_as_well() -> None:
    said = "I saved the report to report.md."

    assert subjects(a_task(plan=("Think",)), "/w/report.md", said=said) == [
        "/w/report.md"
    ]


# --- checksums ------------------------------------------------------------------


@pytest.mark.parametrize(
    "checksum", [SUM, SUM.upper(), f"sha256:{SUM}", f" SHA256:{SUM.upper()}\n"]
)
def test_a_checksum_counts_however_it_is_written(checksum: str) -> None:
    assert [each.checksum for each in summed(checksum)] == [SUM]
    assert claims.fault(summed(checksum)) is None


@pytest.mark.parametrize("checksum", [None, "", "  "])
def test_where_no_checksum_is_given_any_content_counts(checksum: object) -> None:
    assert [each.checksum for each in summed(checksum)] == [None]


@pytest.mark.parametrize(
    "checksum", ["later", SUM[:-1], f"{SUM}0", f"sha512:{SUM}", 7, [SUM], False]
)
def test_a_checksum_that_is_none_is_a_fault_that_says_what_to_do(
    checksum: object,
) -> None:
    fault = claims.fault(summed(checksum))

    assert fault is not None
    assert '"/a/b.txt"' in fault
    assert "64 hexadecimal digits" in fault


def before(*said: str, task: Task | None = None) -> list[Wanted]:
    return [
        each
        for each in claims.wanted(
            task or a_task(plan=("Think",)), "Done.", before=said, roots=("/w/",)
        )
        if each.earlier
    ]


def test_of_earlier_messages_only_whole_paths_in_the_roots_are_wanted() -> None:
    said = "Wrote out/a.md, b.md, /etc/c.md, /work/d.md and /w/e.md."

    assert [each.subject for each in before(said)] == ["/w/e.md"]


def test_what_the_task_names_itself_is_not_wanted_for_an_earlier_message() -> None:
    task = a_task(plan=("Write /w/a.md",))

    assert [
        each.subject for each in before("Wrote /w/a.md and /w/b.md", task=task)
    ] == ["/w/b.md"]


def test_of_what_earlier_messages_claim_the_newest_are_wanted_while_there_is_room() -> (
    None
):
    task = writing(*files(claims.MOST - 2, "/w/plan"))
    found = before(*(f"Wrote {path}" for path in files(5, "/w/said")), task=task)

    assert [each.subject for each in found] == ["/w/said/3.md", "/w/said/4.md"]


def test_a_whole_path_that_is_given_places_what_the_task_names_by_its_end() -> None:
    task = a_task(
        plan=("Look at it",),
        metadata={"artifacts": [{"path": "out/report.md", "checksum": SUM}]},
    )
    (found,) = claims.wanted(task, given=["/srv/job/out/report.md"])[:1]

    assert (found.subject, found.checksum) == ("/srv/job/out/report.md", SUM)
    assert claims.wanted(task, given=["/srv/job/report.md"])[0].subject == (
        "out/report.md"
    )


def test_what_the_task_lists_with_its_whole_path_is_what_its_plan_writes() -> None:
    task = a_task(
        plan=("Write data.csv", "Write report.md"),
        metadata={"artifacts": ["/srv/job/data.csv"]},
    )

    assert [each.subject for each in claims.wanted(task)] == [
        "/srv/job/data.csv",
        "report.md",
    ]
