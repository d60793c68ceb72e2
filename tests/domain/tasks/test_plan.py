"""How far a task is, and how its marks follow their steps."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.tasks.plan import (
    DroppedStep,
    compute_progress,
    identify_step,
    remap_marks,
)
from taskmem_hookspecs.model import Task, TaskStatus
from taskmem_hookspecs.packet import Progress

NOON = datetime(2025, 1, 1, 12, tzinfo=UTC)


def task(steps: int, done: set[int]) -> Task:
    return Task(
        task_id="task-1",
        name="Ship it",
        status=TaskStatus.ACTIVE,
        plan=tuple(f"Part {number}" for number in range(steps)),
        done=frozenset(done),
        created_at=NOON,
        updated_at=NOON,
    )


@pytest.mark.parametrize(
    ("steps", "done", "expected"),
    [
        (3, set(), Progress(completed=(), current=0, remaining=(1, 2), pct=0)),
        (3, {0}, Progress(completed=(0,), current=1, remaining=(2,), pct=33)),
        (3, {1}, Progress(completed=(1,), current=0, remaining=(2,), pct=33)),
        (3, {0, 2}, Progress(completed=(0, 2), current=1, remaining=(), pct=66)),
        (2, {0, 1}, Progress(completed=(0, 1), current=None, remaining=(), pct=100)),
        (0, set(), Progress(completed=(), current=None, remaining=(), pct=100)),
    ],
)
def test_the_current_step_is_the_first_that_is_not_done(steps, done, expected):
    assert compute_progress(task(steps, done)) == expected


def follows(old: str, new: str) -> bool:
    return remap_marks([old], {0}, ["Something else", new]).done == {1}


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Build the image", "build image."),
        ("Build an image", "BUILD THE IMAGE!"),
        ("Build image, push it", "Build image - push it"),
        ("Build image—push it", "Build image — push it"),
        ('Run "make"', "Run `make`"),
        ("(Maybe) deploy", "Maybe deploy"),
        ("Don’t deploy", "don't deploy"),
        ("Build  image ", "Build image"),
        ("STRASSE fegen", "Straße fegen"),
        ("Ｂuild image", "Build image"),
        ("Find the ℌost", "Find the host"),
        ("部署网站。", "部署网站"),
        ("1. Build", "Build"),
        ("1) Build", "2: Build"),
        ("Step 1: Build", "Step 12 - Build"),
        ("step 3. Build", "(a) Build"),
        ("b) Build", "(7) Build"),
        ("- Build", "* Build"),
        ("- [ ] Build", "[x] Build"),
        ("✅ Build", "☐ Build"),
        ("- [x] 1. Build", "2) Build"),
        ("1. 3.11 install", "2. 3.11 install"),
    ],
)
def test_a_step_is_known_again_by_its_words(old, new):
    assert follows(old, new)
    assert follows(new, old)


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Build v1", "Build v2"),
        ("Use v1.2", "Use v12"),
        ("Do not deploy", "Deploy"),
        ("Don't deploy", "Deploy"),
        ("Deploy without tests", "Deploy tests"),
        ("2 replicas up", "replicas up"),
        ("2 replicas up", "3 replicas up"),
        ("3.11 install", "install"),
        ("3.11 install", "3.12 install"),
        ("2.x upgrade", "x upgrade"),
        ("404: fix", "500: fix"),
        ("10:30 call", "11:30 call"),
        ("Push to ghcr.io", "Push to ghcrio"),
        ("Learn C++", "Learn C"),
        ("Learn C#", "Learn C"),
        ("Set -5", "Set 5"),
        ("Set 5%", "Set 5"),
        ("Pass --force", "Pass force"),
        ("Edit .env", "Edit env"),
        ("Run 10² times", "Run 102 times"),
        ("Take plan A", "Take plan"),
        ("Take plan A, then go", "Take plan then go"),
        ("Fix its tests", "Fix tests"),
        ("Push and build", "Build and push"),
        ("Keep 1. place", "Keep place"),
        ("构建网站", "部署网站"),
    ],
)
def test_other_words_are_another_step(old, new):
    assert not follows(old, new)
    assert not follows(new, old)


@pytest.mark.parametrize("text", ["1.", "Step 1:", "[x]", "---", "...", "the", "✅"])
def test_a_step_without_words_is_known_by_its_text(text):
    assert follows(text, f" {text} ")
    assert not follows(text, "?!")
    assert not follows(text, "2.")


def test_twins_keep_their_marks_in_the_same_order():
    old = ["Run tests", "Build", "Run the tests"]
    new = ["Build", "1. Run tests", "Deploy", "2. Run tests"]
    assert remap_marks(old, {2}, new).done == {3}
    assert remap_marks(old, {0}, new).done == {1}


def test_a_mark_is_dropped_when_the_number_of_twins_changed():
    assert remap_marks(["Build", "Test"], {0, 1}, ["Test", "Build", "Build"]).model_dump() == {
        "done": {0},
        "dropped": (
            {
                "step": 1,
                "text": "Build",
                "why": "The old plan says this once and the new one 2 times, "
                "so it is not clear which step was done.",
            },
        ),
    }
    fewer = remap_marks(["Build", "1. Build"], {1}, ["Build"])
    assert not fewer.done
    assert [lost.step for lost in fewer.dropped] == [2]
    assert "2 times and the new one once" in fewer.dropped[0].why


def test_a_mark_is_dropped_when_its_step_is_gone():
    assert remap_marks(["1. Build", "2. Test"], {1}, ["Build"]).dropped == (
        DroppedStep(step=2, text="2. Test", why="No step of the new plan says the same."),
    )


def test_only_steps_that_were_done_are_reported():
    assert remap_marks(["Build", "Test"], set(), ["Deploy"]).dropped == ()


STEP = st.text(min_size=1)
PLAN = st.lists(
    st.sampled_from(["Build", "1. build", "Test the app", "test app", "Deploy", "-"]) | STEP
)
DISTINCT = st.lists(st.integers(0, 10**6), unique=True).map(
    lambda numbers: [f"Part {number}" for number in numbers]
)


@st.composite
def marked_plans(draw, plans=PLAN):
    plan = draw(plans)
    return plan, {index for index in range(len(plan)) if draw(st.booleans())}


@given(marked_plans())
def test_a_plan_that_stays_the_same_keeps_every_mark(old):
    plan, done = old
    kept = remap_marks(plan, done, plan)
    assert kept.done == done
    assert kept.dropped == ()


@given(marked_plans(DISTINCT), st.randoms())
def test_steps_that_are_moved_take_their_marks_along(old, shuffler):
    plan, done = old
    moved = shuffler.sample(plan, len(plan))
    kept = remap_marks(plan, done, moved)
    assert {moved[index] for index in kept.done} == {plan[index] for index in done}
    assert kept.dropped == ()


@given(marked_plans(DISTINCT), st.sampled_from(["{}. ", "{}) ", "Step {}: ", "({}) "]))
def test_steps_that_are_renumbered_and_recased_keep_their_marks(old, numbering):
    plan, done = old
    new = [
        f"{numbering.format(len(plan) - index)}{text.upper()}." for index, text in enumerate(plan)
    ]
    assert remap_marks(plan, done, new).done == done


@given(marked_plans(), PLAN)
def test_every_mark_is_either_kept_or_reported(old, new):
    plan, done = old
    kept = remap_marks(plan, done, new)
    assert len(kept.done) + len(kept.dropped) == len(done)
    assert kept.done <= set(range(len(new)))
    assert {lost.step - 1 for lost in kept.dropped} <= done
    assert all(lost.text == plan[lost.step - 1] for lost in kept.dropped)


@given(marked_plans(), PLAN)
def test_no_step_becomes_done_that_was_not(old, new):
    plan, done = old
    undone = {text for index, text in enumerate(plan) if index not in done}
    for index in remap_marks(plan, done, new).done:
        counterpart = [i for i in done if remap_marks([plan[i]], {0}, [new[index]]).done]
        assert counterpart or new[index] not in undone
        assert counterpart


@given(st.text(st.characters(max_codepoint=126)))
def test_a_step_in_wide_letters_is_the_step_in_ascii(text: str) -> None:
    wide = text.translate({code: code + 0xFEE0 for code in range(0x21, 0x7F)})
    assert identify_step(f"{text} x") == identify_step(f"{wide} x")
