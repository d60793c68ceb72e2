"""What sentences say of files, in the words of plans and of reports."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain import sentences
from tests.support import wordings


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
    assert [*sentences.to_write(step)] == []
    assert [*sentences.written(step.replace("Write", "Wrote"))] == []


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
    assert [*sentences.to_write(step)] == [file]
    assert [*sentences.written(step.replace("Write", "Wrote"))] == [file]


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
    assert sentences.written(WROTE, said) == ()
    assert sentences.written(f"{WROTE} {said}") == ()


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
    assert sentences.written(WROTE, said) == ("/w/out/report.md",)


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

    assert set(sentences.written(*said)) == there


@pytest.mark.parametrize(
    ("sentence", "files"),
    [
        *(wordings.STEPS_THAT_MAKE | wordings.HELD_STEPS_THAT_MAKE).items(),
        *((step, "") for step in wordings.STEPS_THAT_MENTION),
        *((step, "") for step in wordings.HELD_STEPS_THAT_MENTION),
    ],
)
def test_a_step_asks_for_the_files_that_it_makes_and_for_no_others(
    sentence: str, files: str
) -> None:
    assert "|".join(sentences.to_write(sentence)) == files.replace(", ", "|")


@pytest.mark.parametrize(
    ("sentence", "files"),
    [
        *(wordings.MESSAGES_THAT_MAKE | wordings.HELD_MESSAGES_THAT_MAKE).items(),
        *wordings.NOTED.items(),
        *((said, "") for said in wordings.MESSAGES_THAT_MENTION),
        *((said, "") for said in wordings.HELD_MESSAGES_THAT_MENTION),
        *((said, "") for said in wordings.MENTIONED),
    ],
)
def test_a_message_claims_the_files_that_it_says_were_made_and_no_others(
    sentence: str, files: str
) -> None:
    assert "|".join(sentences.written(sentence)) == files.replace(", ", "|")


@pytest.mark.parametrize(
    ("plan", "left"),
    [
        (("Draft d.md", "Move d.md to final.md"), ()),
        (("Write n.txt", "Compress n.txt into n.tar.gz", "Delete n.txt"), ()),
        (("Export users to /w/u.csv", "Load it", "Finally, drop u.csv"), ()),
        (("Write x.log, then delete it",), ()),
        (("Write a.md", "Write x.log and y.log, then remove them"), ("a.md",)),
        (("Delete old.md", "Write old.md"), ("old.md",)),
        (("Write a.md", "Remove the obsolete tests"), ("a.md",)),
        (("Write a.md", "Remove b.md"), ("a.md",)),
    ],
)
def test_a_plan_does_not_ask_for_what_it_removes_itself(
    plan: tuple[str, ...], left: tuple[str, ...]
) -> None:
    assert sentences.to_write(*plan) == left


@pytest.mark.parametrize(
    "step",
    [
        "Optionally write a.md",
        "Create a.md (optional)",
        "Update CHANGELOG.md as needed",
        "Write either a.md or b.md",
        "Create an empty pkg/a.py",
        "Create pkg/__init__.py",
        "Create the temporary file t.txt",
        "Save results-YYYY-MM-DD.json",
        "Write the report to $OUT/report.html",
        "In the container, write /w/config.yaml",
        "Edit /etc/hosts.conf on web1 over ssh",
    ],
)
def test_what_may_be_left_out_is_empty_or_elsewhere_is_not_asked_for(step: str) -> None:
    assert sentences.to_write(step) == ()


@pytest.mark.parametrize("sentence", wordings.UNCLEAR)
def test_what_is_unclear_asks_for_nothing(sentence: str) -> None:
    assert [*sentences.to_write(sentence), *sentences.written(sentence)] == []


def test_what_an_object_goes_to_is_looked_for_near_its_verb_and_no_further() -> None:
    far = "x " * 20
    assert [*sentences.written(f"I wrote {far}to report.md")] == ["report.md"]
    assert [*sentences.written(f"I wrote {far}x to report.md")] == []


@pytest.mark.timeout(60)  # what takes more than its length's time takes an hour
def test_a_message_may_name_as_many_files_as_it_can_hold() -> None:
    names = [f"{number}.md" for number in range(10_000)]
    for between in (", ", " and ", " and the file "):
        assert [*sentences.written(f"I wrote {between.join(names)}")] == names


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "words",
    [
        *("x.md ", "wrote ", "wrote and ", "I wrote x.md, ", "wrote a to ", "(x.md "),
        *("and ", ", - ", "x.md was written and ", "was wrote to x.md, ", "**", " "),
        *("report saved to x.md, ", ": a b c saved ", "the a in x.md and "),
    ],
)
def test_a_message_may_repeat_its_words_as_often_as_it_can(words: str) -> None:
    said = words * (60_000 // len(words))
    assert len(sentences.written(f"I wrote {said}{said}x.md")) <= 1


@pytest.mark.timeout(60)
def test_a_message_may_be_as_empty_as_it_can() -> None:
    assert sentences.written(f"I wrote {' ' * 400_000}x.md") == ("x.md",)
