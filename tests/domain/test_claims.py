"""What a task is to have made before it is completed."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain import claims
from openclaw_taskmem.domain.claims import Wanted
from taskmem_hookspecs import Task
from taskmem_hookspecs.testing import a_task
from tests.domain import sentences

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


@pytest.mark.parametrize(
    "step",
    [
        "Write docs for Node.js",
        "Create a Vue.js page.",
        "Write the node.js docs",
        "Add Next.js, D3.js and Three.js to the comparison",
        "Draft Express.js's routes",
        "Write about llama.cpp",
    ],
)
def test_the_name_of_a_technology_is_no_file(step: str) -> None:
    assert [*claims.to_write(step)] == []
    assert [*claims.written(step.replace("Write", "Wrote"))] == []


@pytest.mark.parametrize(
    ("step", "file"),
    [
        ("Write `Node.js`", "Node.js"),
        ('Write "three.js"', "three.js"),
        ("Write src/three.js", "src/three.js"),
        ("Write ./node.js", "./node.js"),
        ("Write express.js", "express.js"),
        ("Write node.json about Node.js", "node.json"),
    ],
)
def test_a_file_that_is_named_like_a_technology_is_one_where_it_is_meant(
    step: str, file: str
) -> None:
    assert [*claims.to_write(step)] == [file]
    assert [*claims.written(step.replace("Write", "Wrote"))] == [file]


WROTE = "I wrote /w/out/report.md."


@pytest.mark.parametrize(
    "said",
    [
        "Removed /w/out/report.md.",
        "I deleted the old draft out/report.md, it is not needed.",
        "/w/out/report.md was removed again.",
        "Renamed /w/out/report.md to /w/out/final.md.",
        "out/report.md and x.md were moved to docs.",
        "Ran rm -f /w/out/report.md",
        "Cleaned up: removed a.md, b.md and report.md",
        "`/w/out/report.md` is gone now",
        "/w/out/report.md has since been removed since no longer needed",
        "moved a.md to /w/b.md, and /w/out/report.md to /w/c.md",
    ],
)
def test_what_a_later_message_says_is_gone_is_claimed_no_more(said: str) -> None:
    assert claims.written(WROTE, said) == ()
    assert claims.written(f"{WROTE} {said}") == ()


@pytest.mark.parametrize(
    "said",
    [
        "Removed a typo in /w/out/report.md.",
        "Removed the section from /w/out/report.md.",
        "I have not removed /w/out/report.md",
        "/w/out/report.md was not deleted",
        "Renamed /w/a.md to /w/out/report.md",
        "Was /w/out/report.md removed?",
        "/w/out/report.md should be removed",
        "/w/out/report.md will be removed",
        "/w/out/report.md lists what was removed",
        "I removed draft.md and kept /w/out/report.md",
        "Deleted the cache, wrote /w/out/report.md anew",
        "Removed /v/out/report.md",
        "Removed /w/out/report.md. Wrote /w/out/report.md again.",
    ],
)
def test_what_is_not_said_to_be_gone_stays_claimed(said: str) -> None:
    assert claims.written(WROTE, said) == ("/w/out/report.md",)


MADE = (
    "I wrote {}.",
    "Step 1 done: saved it to {}",
    "{0} is done: created {0}, at last",
)
GONE = (
    "Removed {}.",
    "{} was deleted again",
    "Renamed {} to x.txt",
    "I discarded `{}`.",
)


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["/w/a.md", "/w/b/a.md", "/w/c d/e.csv", "/w/f.tar.gz"]),
            st.booleans(),
            st.integers(0, 11),
        )
    )
)
def test_what_was_made_is_claimed_until_it_is_said_to_be_gone(
    told: list[tuple[str, bool, int]],
) -> None:
    there: set[str] = set()
    said: list[str] = []
    for path, made, way in told:
        forms = MADE if made else GONE
        quoted = f"'{path}'" if " " in path else path
        said.append(forms[way % len(forms)].format(quoted).replace("`'", "'"))
        said[-1] = said[-1].replace("'`", "'")
        (there.add if made else there.discard)(path)

    assert set(claims.written(*said)) == there


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


@pytest.mark.parametrize(
    ("sentence", "files"),
    [
        *(sentences.STEPS_THAT_MAKE | sentences.HELD_STEPS_THAT_MAKE).items(),
        *((step, "") for step in sentences.STEPS_THAT_MENTION),
        *((step, "") for step in sentences.HELD_STEPS_THAT_MENTION),
    ],
)
def test_a_step_asks_for_the_files_that_it_makes_and_for_no_others(
    sentence: str, files: str
) -> None:
    assert "|".join(claims.to_write(sentence)) == files.replace(", ", "|")


@pytest.mark.parametrize(
    ("sentence", "files"),
    [
        *(sentences.MESSAGES_THAT_MAKE | sentences.HELD_MESSAGES_THAT_MAKE).items(),
        *((said, "") for said in sentences.MESSAGES_THAT_MENTION),
        *((said, "") for said in sentences.HELD_MESSAGES_THAT_MENTION),
    ],
)
def test_a_message_claims_the_files_that_it_says_were_made_and_no_others(
    sentence: str, files: str
) -> None:
    assert "|".join(claims.written(sentence)) == files.replace(", ", "|")


@pytest.mark.parametrize("sentence", sentences.UNCLEAR)
def test_what_is_unclear_asks_for_nothing(sentence: str) -> None:
    assert [*claims.to_write(sentence), *claims.written(sentence)] == []


def test_what_an_object_goes_to_is_looked_for_near_its_verb_and_no_further() -> None:
    far = "x " * 20
    assert [*claims.written(f"I wrote {far}to report.md")] == ["report.md"]
    assert [*claims.written(f"I wrote {far}x to report.md")] == []


@pytest.mark.timeout(60)  # what takes more than its length's time takes an hour
def test_a_message_may_name_as_many_files_as_it_can_hold() -> None:
    names = [f"{number}.md" for number in range(10_000)]
    for between in (", ", " and ", " and the file "):
        assert [*claims.written(f"I wrote {between.join(names)}")] == names


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "words",
    [
        *("x.md ", "wrote ", "wrote and ", "I wrote x.md, ", "wrote a to ", "(x.md "),
        *("and ", ", - ", "x.md was written and ", "was wrote to x.md, ", "**", " "),
    ],
)
def test_a_message_may_repeat_its_words_as_often_as_it_can(words: str) -> None:
    said = words * (60_000 // len(words))
    assert len(claims.written(f"I wrote {said}{said}x.md")) <= 1


@pytest.mark.timeout(60)
def test_a_message_may_be_as_empty_as_it_can() -> None:
    assert claims.written(f"I wrote {' ' * 400_000}x.md") == ("x.md",)


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
