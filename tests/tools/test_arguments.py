"""How the arguments of a call are read: what has one meaning is taken, what has two is refused."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, Final

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openclaw_taskmem.domain.tasks.plan import identify_step
from openclaw_taskmem.tools import arguments, catalog, forms, references
from openclaw_taskmem.tools.arguments import CallArguments, read_arguments
from taskmem_hookspecs import InvalidArguments, TaskNotFound
from taskmem_hookspecs.errors import NotAllowed
from tests.support.long_tests import choose_count
from tests.support.sessions import Session
from tests.support.world import World

TASK = "task_1kjkb3q000bgeqtr"
OTHER = "task_1kjkb3q000bgeqts"
WAIT = "wait_1kjkb3q000bgeqtr"
PLAN = ("Build the image", "Push it", "Deploy", "Announce it", "Tidy up")
NAMES = {
    "[web] Deploy v2.": TASK,
    "Fix login (urgent)": TASK,
    "Deploy site": TASK,
    "1kjkb3q000bg": TASK,
    "geqtr": TASK,
}


class Home:
    """A home with two tasks and a wait."""

    def find_id(self, kind: str, name: str) -> str:
        if kind == "task" and name in NAMES:
            return NAMES[name]
        return name

    def read_plan(self, task_id: str, session_key: str | None) -> Sequence[str]:
        if task_id not in (TASK, OTHER):
            raise TaskNotFound(f"There is no task {task_id}")
        return PLAN


def read_call(tool: str, given: object) -> CallArguments:
    return read_arguments(given, forms.list_arguments(catalog.find_tool(tool).form), Home())


def take(tool: str, /, **given: object) -> dict[str, Any]:
    return read_call(tool, given).arguments


def refuse(tool: str, **given: object) -> str:
    """Return the sentence that refuses a call."""
    with pytest.raises(InvalidArguments) as refused:
        forms.fill_form(catalog.find_tool(tool).form, take(tool, **given))
    return str(refused.value)


# --- values of another type ----------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "name", "given", "taken"),
    [
        ("smart_wait", "timeout", "300", 300),
        ("smart_wait", "timeout", 60.0, 60),
        ("smart_wait", "poll_interval", " 0.5 ", 0.5),
        ("task_list", "limit", "5", 5),
        ("task_list", "limit", "5.0", 5),
        ("task_list", "limit", 5.0, 5),
        ("task_list", "limit", "-1", -1),
        ("task_list", "limit", [5], 5),
        ("task_update", "token", "7", 7),
        ("task_update", "message", 300, "300"),
        ("task_update", "message", ["Built."], "Built."),
        ("task_register", "segmented", "True", True),
        ("task_register", "segmented", 1, True),
        ("task_register", "segmented", "no", False),
        ("task_register", "metadata", '{"repo": "x"}', {"repo": "x"}),
        ("task_update", "artifacts", "out/a.txt", ["out/a.txt"]),
        ("task_update", "artifacts", [{"path": "out/a.txt"}], ["out/a.txt"]),
        (
            "task_update",
            "artifacts",
            ['{"path": "a", "checksum": "b"}'],
            [{"path": "a", "checksum": "b"}],
        ),
        ("task_update", "task_id", {"task_id": TASK}, TASK),
        ("task_update", "ask_options", [{"label": "Yes"}, {"label": "No"}], ["Yes", "No"]),
        ("task_step_done", "outcome", "Completed", "done"),
        ("task_step_done", "outcome", "more tools", "more_tools"),
        ("smart_wait", "signals", {"exit": 0.0}, [{"exit": 0}]),
        ("smart_wait", "signals", '[{"percent": "80"}]', [{"percent": 80}]),
        ("smart_wait", "signals", [{"exit": "0", "text": None}], [{"exit": 0}]),
        ("smart_wait", "signals", [{"exit": 1.5}], [{"exit": "1.5"}]),
        ("smart_wait", "signals", [{"quiet": "2 min"}], [{"quiet": 120}]),
        ("smart_wait", "signals", [{"percent": "80 %"}], [{"percent": 80}]),
        ("smart_wait", "signals", [{"exit": math.inf}], [{"exit": "inf"}]),
    ],
)
def test_a_value_is_taken_in_the_type_that_is_asked(
    tool: str, name: str, given: object, taken: object
) -> None:
    assert take(tool, **{name: given}) == {name: taken}


FREE_WORDS: Final = ("message", "query", "reason", "note", "name")
"""Arguments that keep somebody's words."""


@pytest.mark.parametrize("empty", [None, "", " ", "null", "None", "undefined", "nil", "N/A"])
@pytest.mark.parametrize(
    ("tool", "name"),
    [
        (tool.name, name)
        for tool in catalog.TOOLS
        for name in forms.list_arguments(tool.form)["properties"]  # type: ignore[union-attr]
        if name not in tool.input_schema.get("required", [])  # type: ignore[operator]
    ],
)
def test_an_empty_value_is_left_out(tool: str, name: str, empty: str | None) -> None:
    keeps = name in FREE_WORDS and empty and empty.strip()
    assert take(tool, **{name: empty}) == ({name: empty} if keeps else {})


def test_an_empty_list_is_left_out() -> None:
    assert take("task_update", completed_steps=[], ask_options=[]) == {}


@pytest.mark.parametrize(
    ("tool", "name"),
    [("task_update", "ask"), ("task_resume", "answer"), ("smart_wait", "wake_when")],
)
def test_a_word_for_nothing_that_may_be_meant_is_told(tool: str, name: str) -> None:
    assert read_call(tool, {name: "none"}).notes == (f'{name} "none" as left out',)


def test_a_required_text_stays_empty_and_null_is_missing() -> None:
    assert take("task_register", name="", plan=["a"]) == {"name": "", "plan": ["a"]}
    assert take("task_register", name=None, plan=["a"]) == {"plan": ["a"]}


def test_words_for_nothing_in_prose_are_words() -> None:
    assert take("task_update", task_id=TASK, message="none")["message"] == "none"


def test_an_empty_list_of_artifacts_withdraws_them() -> None:
    assert take("task_plan_update", artifacts=[]) == {"artifacts": []}


def test_a_zero_that_means_nothing_is_left_out_and_told() -> None:
    found = read_call("smart_wait", {"target": "screen", "timeout": 0, "poll_interval": "0"})

    assert found.arguments == {"target": "screen"}
    assert found.notes == ("timeout 0 as left out", "poll_interval 0 as left out")


@pytest.mark.parametrize(
    ("tool", "name", "given"),
    [
        ("task_update", "query", "[1]"),
        ("task_list", "limit", "1e3"),
        ("task_list", "limit", "9" * 30),
        ("task_list", "limit", 2.5),
        ("task_list", "limit", True),
        ("task_list", "unknown", "1"),
        ("smart_wait", "timeout", "soon"),
        ("smart_wait", "timeout", "P1M"),
        ("task_register", "segmented", "perhaps"),
        ("task_register", "metadata", "repo: x"),
    ],
)
def test_what_does_not_fit_is_left_for_the_form(tool: str, name: str, given: object) -> None:
    assert take(tool, **{name: given}) == {name: given}


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("5m", 300),
        ("5 min", 300),
        ("90 seconds", 90),
        ("1h30m", 5_400),
        ("1 hour and 30 minutes", 5_400),
        ("2 days", 172_800),
        ("PT5M", 300),
        ("1500ms", 1.5),
        ("P1DT2H", 93_600),
        ("1,800", 1_800),
        ("3,600 s", 3_600),
        ("1,000,000.5 ms", 1_000.0005),
    ],
)
def test_a_duration_is_read_as_seconds_and_told(text: str, seconds: float) -> None:
    found = read_call("smart_wait", {"timeout": text})

    assert found.arguments == {"timeout": seconds}
    assert found.notes == (f'timeout "{text}" as {seconds:,} s',)


@pytest.mark.parametrize(
    ("text", "meanings"),
    [
        ("5, 10", "one time of 15 s, or 2 times"),
        ("5m, 10m", "one time of 900 s, or 2 times"),
        ("30 s 5 m", "one time of 330 s, or 2 times"),
        ("1 h 30", "1 h 30 s or 1 h 30 min"),
        ("1,5 h", "1.5 or 1 and 5"),
        ("0,500", "0.500 or 0 and 500"),
    ],
)
def test_a_duration_with_two_meanings_is_refused_with_both(text: str, meanings: str) -> None:
    with pytest.raises(InvalidArguments) as refused:
        take("smart_wait", timeout=text)
    assert f'timeout "{text}" may mean {meanings}; give' in str(refused.value)


# --- plans and steps -----------------------------------------------------------------------


@pytest.mark.parametrize(
    "plan",
    [
        "Build v1.2\nPush it",
        "1. Build v1.2\n2. Push it\n",
        "- Build v1.2\n\n- [ ] Push it",
        "1. Build v1.2, 2. Push it",
        "1. Build v1.2,   2. Push it",
        "1. Build v1.2   2. Push it",
        "1) Build v1.2 2) Push it",
        '["Build v1.2", "Push it"]',
        '["Build v1.2", "Push it",]',
        "['Build v1.2', 'Push it']",
        {"steps": ["Build v1.2", "Push it"]},
        [{"step": "Build v1.2", "status": "pending"}, {"step": "Push it"}],
        [{"id": 1, "title": "Build v1.2"}, {"id": 2, "title": "Push it"}],
        [{"content": "Build v1.2", "activeForm": "Building"}, "Push it"],
        ['{"step": "Build v1.2"}', '{"step": "Push it", "status": "pending"}'],
        '```json\n["Build v1.2", "Push it"]\n```',
        ["- [ ] Build v1.2", "[ ] Push it"],
        ["1. Build v1.2\n2. Push it"],
        [["Build v1.2", "Push it"]],
        ["Build v1.2", None, "Push it"],
        {"2": "Push it", "1": "Build v1.2"},
        {"step_1": {"title": "Build v1.2"}, "step_2": "Push it"},
        {"title": "Deploy", "steps": ["Build v1.2", "Push it"]},
    ],
)
def test_a_plan_in_another_shape_is_a_list_of_steps(plan: object) -> None:
    assert take("task_register", plan=plan) == {"plan": ["Build v1.2", "Push it"]}


def test_statuses_of_another_hosts_plan_are_taken_over(world: World) -> None:
    plan = [
        {"content": "Build", "status": "completed", "activeForm": "Building"},
        {"content": "Push", "status": "in_progress", "activeForm": "Pushing"},
    ]
    task = world.call("task_register", name="Deploy", plan=plan)["task_id"]
    assert world.task(task).done == {0}

    plan = [{"step": "Build", "status": "pending"}, {"step": "Push", "status": "completed"}]
    answer = world.call("task_plan_update", task_id=task, new_plan=plan, reason="Built in vain.")
    assert world.task(task).done == {1}
    assert "Read the statuses in new_plan as completed_steps [2]" in answer["message"]


def test_what_was_read_of_an_object_around_a_plan_is_told() -> None:
    plan = {"title": "Deploy", "steps": [{"step": "Build", "status": "completed"}]}
    found = read_call("task_register", {"plan": plan})
    assert found.arguments == {"plan": ["Build"], "completed_steps": [1]}
    assert found.notes[0] == 'plan as its "steps" alone'


@pytest.mark.parametrize(
    ("status", "is_done"),
    [
        ("✅ done", True),
        (" Completed ", True),
        ("done.", True),
        ("passed", True),
        ("true", True),
        (1, True),
        ("Not started", False),
        ("in-progress", False),
        ("false", False),
        ("skipped", None),
        ("", None),
        ([], None),
    ],
)
def test_a_step_has_the_status_that_its_word_says(status: object, is_done: bool | None) -> None:
    plan = [{"step": "Build", "done": status}]
    numbers = {True: {"completed_steps": [1]}, False: {"reopened_steps": [1]}, None: {}}
    assert take("task_plan_update", new_plan=plan) == {"new_plan": ["Build"]} | numbers[is_done]


@pytest.mark.parametrize(
    ("entry", "step", "lost"),
    [
        ({"step": "1", "description": "Build it"}, "Build it", ""),
        ({"step": "404"}, "404", ""),
        ({"title": "A", "steps": ["a1"]}, "A", 'plan without "steps" of its steps'),
        ({"title": "A", "content": "B"}, "B", 'plan without "title" of its steps'),
    ],
)
def test_what_a_plan_does_not_keep_of_a_step_is_told(
    entry: dict[str, object], step: str, lost: str
) -> None:
    found = read_call("task_register", {"plan": [entry, entry]})
    assert found.arguments == {"plan": [step, step]}
    assert found.notes == ((lost,) if lost else ())


@pytest.mark.parametrize("plan", ["- [x] Build\n- [ ] Push", ["[X] Build", "[ ] Push"]])
def test_a_box_that_is_ticked_marks_its_step(plan: object) -> None:
    found = read_call("task_register", {"plan": plan}).arguments
    assert found == {"plan": ["Build", "Push"], "completed_steps": [1], "reopened_steps": [2]}


@pytest.mark.parametrize(
    "plan",
    [
        ['Send {"a": 1}', '{"a": 1}'],
        ["Say [x] in the box", "Build\nand test"],
        ["1. Build", "2. Push"],
        ["Build -> test; push"],
        ["1. Wait until day 5. Then push"],
    ],
)
def test_words_that_only_look_like_another_shape_stay(plan: list[str]) -> None:
    assert take("task_register", plan=plan) == {"plan": plan}


@pytest.mark.parametrize("empty", [[""], [None]])
def test_a_list_of_nothing_withdraws_nothing(empty: list[object]) -> None:
    assert take("task_plan_update", artifacts=empty) == {"artifacts": empty}


@pytest.mark.parametrize(
    ("given", "taken"),
    [
        (1, [1]),
        (["1", 2], [1, 2]),
        ([1.0], [1]),
        ("[1, 2]", [1, 2]),
        ("1, 2", [1, 2]),
        ("1 and 2", [1, 2]),
        ("1-3", [1, 2, 3]),
        ("steps 2 to 3", [2, 3]),
        ("step 1", [1]),
        (["Step 1", "#2", "3."], [1, 2, 3]),
        (["steps no. # 1", "step number 2", "No 3"], [1, 2, 3]),
        ([{"step": 2, "status": "done"}], [2]),
        ([None, 2], [2]),
        (["Push it", "**Deploy**"], [2, 3]),
        ("2. Push it", [2]),
    ],
)
def test_steps_are_taken_by_number_or_words(given: object, taken: list[int]) -> None:
    assert take("task_update", task_id=TASK, completed_steps=given) == {
        "task_id": TASK,
        "completed_steps": taken,
    }


@pytest.mark.parametrize("as_text", [False, True])
def test_steps_that_are_said_to_be_open_are_not_done(*, as_text: bool) -> None:
    steps: list[object] = [
        {"step": 1, "status": "done"},
        {"step": 2, "status": "pending"},
        {"step": 3, "done": False},
        {"step": 4},
    ]
    given = {"task_id": TASK, "completed_steps": json.dumps(steps) if as_text else steps}
    found = read_call("task_update", given)
    assert found.arguments["completed_steps"] == [1, 4]
    assert found.notes == ("completed_steps without those that are not done",)
    assert take("task_update", task_id=TASK, completed_steps=steps[1:3]) == {"task_id": TASK}


@pytest.mark.parametrize("given", ["3. Push it", "step 3 - Push it", "Step 3: push it"])
def test_a_number_and_words_of_two_steps_are_refused(given: str) -> None:
    with pytest.raises(InvalidArguments, match=r"means 2 steps; give its number: 1 "):
        take("task_update", task_id=TASK, completed_steps=[given])


def test_a_step_that_is_none_is_refused_with_the_steps() -> None:
    with pytest.raises(InvalidArguments, match=r'"Paint it" is no step of the plan.*2 "Push it"'):
        take("task_update", task_id=TASK, completed_steps=["Paint it"])


def test_a_range_beyond_what_a_plan_can_have_is_no_step() -> None:
    with pytest.raises(InvalidArguments, match='"1-201" is no step of the plan'):
        take("task_update", task_id=TASK, completed_steps="1-201")


def test_steps_of_a_task_that_a_caller_may_not_read_are_not_told(world: World) -> None:
    mine, other = Session(world), Session(world, key="agent:other:main", role="other")
    task = mine.call("task_register", name="Deploy", plan=["Build in secret"])["task_id"]

    with pytest.raises(NotAllowed) as refused:
        other.call("task_update", task_id=task, completed_steps=["Paint it"])
    assert "secret" not in str(refused.value)


# --- refusals ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("tool", "given", "fault"),
    [
        (
            "task_register",
            {"name": "A", "plan": ["a"], "segmented": "maybe"},
            "segmented must be true or false, and is a text.",
        ),
        ("task_resume", {"reopen": 2.0}, "reopen must be true or false, and is a fraction."),
        (
            "task_step_done",
            {"task_id": TASK, "outcome": "x"},
            "outcome must be 'done', 'failed' or 'more_tools'.",
        ),
        ("task_update", {"completed_steps": "Two"}, "task_id is missing."),
        (
            "task_register",
            {"name": "A", "plan": ["a", None, "", "b"]},
            "plan entry 2 must be a text, and is null; plan entry 3 must not be blank.",
        ),
        ("smart_wait", {"target": "screen"}, "wake_when is missing; give it, or signals."),
        (
            "smart_wait",
            {"target": "screen", "wake_when": "exits", "signals": [{"exit": "any"}]},
            "give wake_when or signals, and not both.",
        ),
    ],
)
def test_a_refusal_says_what_does_not_fit(tool: str, given: dict[str, object], fault: str) -> None:
    assert refuse(tool, **given).startswith(f"{fault} Nothing was written.")


@pytest.mark.parametrize("tool", [tool.name for tool in catalog.TOOLS])
def test_a_refusal_lists_the_arguments_of_the_schema(tool: str) -> None:
    listed = refuse(tool, no_such_thing=1).partition("The arguments are: ")[2]
    assert {*listed.rstrip(".").split(", ")} == {
        *catalog.find_tool(tool).input_schema["properties"]
    }  # type: ignore[arg-type]


# --- ids -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "spelling",
    [
        f" {TASK}\n",
        f"`{TASK}`",
        f'"{TASK}"',
        f"{TASK}.",
        f"<{TASK}>",
        TASK.upper(),
        TASK.removeprefix("task_"),
        f"{TASK}</arg_value>",
        f"Task ID: {TASK}",
        f"task_id={TASK}",
        f"task {TASK}",
        f"taskmem://{TASK}",
        TASK.replace("_", "-"),
        *NAMES,
        '"Deploy site"',
        "…geqtr",
        "task_…geqtr",
        "task_...geqtr",
        "1kjkb3q000bg…",
        f"{TASK} (Deploy it)",
        f"Deploy it ({TASK})",
    ],
)
def test_an_id_that_means_one_task_is_that_task(spelling: str) -> None:
    assert take("task_update", task_id=spelling) == {"task_id": TASK}


def test_a_text_with_several_ids_means_none_and_stays_whole() -> None:
    text = f'"{TASK} (not {OTHER})'
    assert take("task_update", task_id=text) == {"task_id": text}


def test_a_name_means_the_open_one_of_its_tasks(world: World) -> None:
    old, new = (world.call("task_register", name="Nightly", plan=["a"])["task_id"] for _ in "ab")
    with pytest.raises(InvalidArguments, match="may mean"):
        world.call("task_update", task_id="nightly", query="where am I?")

    world.call("task_update", task_id=old, status="cancelled")
    answer = world.call("task_update", task_id="Nightly", query="where am I?")

    assert answer["task_id"] == new
    assert f'Read task_id "Nightly" as {new}.' in answer["message"]


# --- the whole call ------------------------------------------------------------------------


@pytest.mark.parametrize(
    "given",
    [
        json.dumps({"task_id": TASK, "message": "Built."}),
        f'```json\n{{"task_id": "{TASK}", "message": "Built."}}\n```',
        f'"task_id": "{TASK}", "message": "Built."',
        {f'"task_id": "{TASK}", "message": "Built."': ""},
        {"arguments": {"task_id": TASK, "message": "Built."}},
        {"params": json.dumps({"task_id": TASK, "message": "Built."})},
        {"taskId": TASK, "Message": "Built."},
        {"task-id": TASK, "message": "Built.", "extra": None},
        {"task_id": TASK, "taskId": None, "message": "Built.", "Message": ""},
        {"taskId": None, "task_id": TASK, "message": "Built."},
        {"task_id": f"{TASK}</arg_value>", "message": "Built.</parameter>\n</invoke>"},
    ],
)
def test_arguments_in_another_wrapping_are_the_calls_own(given: object) -> None:
    assert read_call("task_update", given).arguments == {"task_id": TASK, "message": "Built."}


@pytest.mark.parametrize("given", [5, None, ["a"], "hello", True])
def test_what_is_no_object_is_refused_with_an_example(given: object) -> None:
    with pytest.raises(InvalidArguments, match=r'must be an object, such as {"task_id"'):
        read_call("task_update", given)


def test_an_argument_with_two_values_is_refused() -> None:
    with pytest.raises(InvalidArguments, match="task_id is given twice"):
        take("task_update", task_id=TASK, taskId=OTHER)


@pytest.mark.parametrize(
    "text",
    [
        "The page says <div>ready</div> </parameter> is in the docs",
        "It is wrapped in <parameter>x</parameter>",
    ],
)
def test_markup_that_a_text_is_about_stays(text: str) -> None:
    assert take("task_update", message=text) == {"message": text}


@pytest.mark.parametrize("many", [[0] * 40_001, [[0] * 20_000] * 3, {"a": [{}] * 40_000}])
def test_more_values_than_any_call_has_are_refused(many: object) -> None:
    with pytest.raises(InvalidArguments, match="more than 40,000 values"):
        take("task_register", metadata=many)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("task_update", {"completed_steps": "1-200," * 10_000}),
        ("task_update", {"completed_steps": ["1-200," * 10_000] * 1_000}),
        ("smart_wait", {"signals": ['{"text": [' + "0," * 30_000 + "0]}"] * 2}),
    ],
)
def test_values_that_stand_in_texts_are_counted_as_well(
    tool: str, given: dict[str, object]
) -> None:
    with pytest.raises(InvalidArguments, match="more than 40,000 values"):
        read_call(tool, given)


@pytest.mark.timeout(10)
@pytest.mark.parametrize(
    ("tool", "name", "text"),
    [
        ("task_register", "plan", f"1. a{' ' * 65_000}x"),
        ("task_update", "completed_steps", f"step{' ' * 65_000}x"),
        ("task_update", "completed_steps", f"step no.{' ' * 65_000}x"),
    ],
)
def test_no_text_takes_more_than_linear_time(tool: str, name: str, text: str) -> None:
    # What grows with the square takes a minute and more here.
    for _ in range(20):
        with suppress(InvalidArguments):
            take(tool, **{"task_id": TASK, name: text})


@pytest.mark.timeout(10)
@pytest.mark.parametrize("sign", ["</invoke>", "</invoke>\n"])
def test_markup_is_cut_in_linear_time_and_told(sign: str) -> None:
    notes: list[str] = []
    assert arguments._cut_markup("message", "Built." + sign * 100_000, notes) == "Built."
    assert 'message without "</invoke>' in notes[0]


def test_a_step_named_again_costs_no_look_at_the_plan(monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[str] = []

    def count(text: str) -> tuple[str, ...]:
        read.append(text)
        return identify_step(text)

    monkeypatch.setattr(references, "identify_step", count)
    take("task_update", task_id=TASK, completed_steps=["Deploy"] * 100)
    assert len(read) == len(PLAN) + 100


def test_more_tasks_than_a_review_takes_are_not_looked_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Home, "find_id", lambda *_: pytest.fail("it was looked up"))
    names = [f"Deploy {number}" for number in range(51)]
    assert take("task_claim", attach=names) == {"attach": names}


def test_json_in_a_text_is_cleaned_like_the_rest() -> None:
    found = read_call("task_register", {"metadata": '{"token": "ghp_' + "a1B2" * 9 + '"}'})
    assert found.masked == 1
    assert "ghp_" not in str(found.arguments)

    nested = '{"a":' * 60 + "1" + "}" * 60
    with pytest.raises(InvalidArguments, match="nested"):
        take("task_register", metadata=nested)


# --- by generation: all forgivable spellings of a valid call mean the same -------------------


Spell = Callable[[Any], st.SearchStrategy[Any]]

WORDS = st.sampled_from(["Build it", "out/report.md is made", "Done by 5 pm", "none of it", "0"])
CALLS: Final = {
    "task_register": st.fixed_dictionaries(
        {"name": WORDS, "plan": st.lists(st.sampled_from(PLAN), min_size=1, unique=True)},
        optional={"segmented": st.booleans(), "metadata": st.just({"repo": "x", "n": 1.0})},
    ),
    "task_update": st.fixed_dictionaries(
        {"task_id": st.just(TASK), "message": WORDS, "ask": WORDS},
        optional={
            "completed_steps": st.lists(st.integers(1, 5), min_size=1, unique=True),
            "reopened_steps": st.lists(st.integers(1, 5), min_size=1, unique=True),
            "status": st.sampled_from(["active", "completed", "paused"]),
            "artifacts": st.just(["out/a.txt"]),
            "ask_options": st.just(["Yes", "No"]),
            "token": st.integers(1, 99),
        },
    ),
    "task_list": st.fixed_dictionaries(
        {}, optional={"status": st.just("all"), "limit": st.integers(1, 100)}
    ),
    "smart_wait": st.fixed_dictionaries(
        {"target": st.just("pty:build"), "wake_when": st.just('"done" appears')},
        optional={
            "timeout": st.integers(1, 9_000),
            "poll_interval": st.sampled_from([0.5, 2, 30]),
            "task_id": st.just(TASK),
        },
    ),
    "wait_update": st.fixed_dictionaries(
        {"wait_id": st.just(WAIT)}, optional={"timeout": st.integers(1, 9_000)}
    ),
    "memory_recall": st.fixed_dictionaries(
        {"query": WORDS}, optional={"limit": st.integers(1, 20), "recency_bias": st.just(0.5)}
    ),
    "task_step_done": st.fixed_dictionaries(
        {"task_id": st.just(TASK)},
        optional={"step": st.integers(1, 5), "outcome": st.sampled_from(["done", "more_tools"])},
    ),
}


def spell_id(value: str) -> st.SearchStrategy[Any]:
    bare = value.partition("_")[2]
    return st.sampled_from([value, f" {value}\n", f"`{value}`", value.upper(), bare, f"'{value}'."])


def spell_number(value: float) -> st.SearchStrategy[Any]:
    return st.sampled_from([value, float(value), str(value), f" {float(value)} ", [value]])


def spell_duration(value: float) -> st.SearchStrategy[Any]:
    return spell_number(value) | st.sampled_from([f"{value}s", f"{value} seconds", f"{value} sec"])


def spell_step(number: int) -> st.SearchStrategy[Any]:
    words = [f"step {number}", f"#{number}", f"{number}.", PLAN[number - 1]]
    return spell_number(number).filter(lambda value: value != [number]) | st.sampled_from(words)


def spell_steps(value: list[int]) -> st.SearchStrategy[Any]:
    entries = st.tuples(*map(spell_step, value)).map(list)
    texts = st.sampled_from([json.dumps(value), ", ".join(map(str, value))])
    return entries | texts | (st.just(value[0]) if len(value) == 1 else st.nothing())


def spell_plan(value: list[str]) -> st.SearchStrategy[Any]:
    shapes: list[Any] = [
        value,
        json.dumps(value),
        "\n".join(value),
        "\n".join(f"{n}. {step}" for n, step in enumerate(value, 1)),
        {"steps": value},
        {f"step {n}": step for n, step in enumerate(value, 1)},
        [json.dumps({"step": step}) for step in value],
        [None, *value],
        *([{key: step, "priority": "high"} for step in value] for key in ("step", "content")),
    ]
    return st.sampled_from(shapes)


def spell_texts(value: list[str]) -> st.SearchStrategy[Any]:
    shapes: list[Any] = [value, json.dumps(value), *(value if len(value) == 1 else ())]
    return st.sampled_from(shapes)


def spell_boolean(value: bool) -> st.SearchStrategy[Any]:
    return st.sampled_from([value, str(value), str(value).lower(), int(value), float(value)])


def spell_object(value: dict[str, Any]) -> st.SearchStrategy[Any]:
    return st.sampled_from([value, json.dumps(value)])


def spell_choice(value: str) -> st.SearchStrategy[Any]:
    return st.sampled_from([value, f" {value} ", f"`{value}`"])


SPELLINGS: Final[dict[str, Spell]] = {
    "task_id": spell_id,
    "wait_id": spell_id,
    "plan": spell_plan,
    "artifacts": spell_texts,
    "ask_options": spell_texts,
    "completed_steps": spell_steps,
    "reopened_steps": spell_steps,
    "step": spell_step,
    "limit": spell_number,
    "token": spell_number,
    "recency_bias": spell_number,
    "timeout": spell_duration,
    "poll_interval": spell_duration,
    "segmented": spell_boolean,
    "metadata": spell_object,
    "status": spell_choice,
    "outcome": spell_choice,
}


def spell_name(name: str) -> st.SearchStrategy[str]:
    first, *rest = name.split("_")
    camel = first + "".join(word.capitalize() for word in rest)
    return st.sampled_from([name, name, camel, name.replace("_", "-"), name.upper()])


@st.composite
def spelled_calls(draw: st.DrawFn) -> tuple[str, dict[str, Any], Any]:
    """A tool, a valid call of it, and the same call as a model might spell it."""
    tool = draw(st.sampled_from(sorted(CALLS)))
    valid = draw(CALLS[tool])
    spelled: dict[str, Any] = {}
    for name, value in valid.items():
        spell = SPELLINGS.get(name, st.just)
        spelled[draw(spell_name(name))] = draw(spell(value))
    known = forms.list_arguments(catalog.find_tool(tool).form)
    assert isinstance(known["properties"], dict)
    for name in known["properties"].keys() - valid.keys():
        withdrawn = name in ("artifacts", "blocked_by") and tool != "task_register"
        empty: list[Any] = [None, ""] if withdrawn else [None, "", []]
        if draw(st.booleans()):
            spelled[name] = draw(st.sampled_from(empty))
    whole = draw(
        st.sampled_from([spelled, spelled, spelled, json.dumps(spelled), {"arguments": spelled}])
    )
    return tool, valid, whole


@settings(max_examples=choose_count("TASKMEM_SPELLINGS", 400, 20_000))
@given(spelled_calls())
def test_every_spelling_of_a_valid_call_means_the_same(
    call: tuple[str, dict[str, Any], Any],
) -> None:
    tool, valid, spelled = call
    form = catalog.find_tool(tool).form
    wanted = forms.fill_form(form, read_call(tool, valid).arguments)

    assert forms.fill_form(form, read_call(tool, spelled).arguments) == wanted
