"""What a message says is done, and above all what it does not say."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.narration import marks

STEPS = 5


def told(message: str, steps: int = STEPS) -> set[int]:
    """The marks as an agent counts them, from 1."""
    return {index + 1 for index in marks(message, steps)}


@pytest.mark.parametrize(
    ("message", "done"),
    [
        ("Step 2 done", {2}),
        ("step 2 DONE!", {2}),
        ("Step  2\tdone", {2}),
        ("Step 2 is complete.", {2}),
        ("Step 2 has been completed.", {2}),
        ("Step 2 is now fully done", {2}),
        ("Step 2 completed successfully in 3.5 seconds.", {2}),
        ("Step #2 is finished without errors", {2}),
        ("step no. 2 done", {2}),
        ("Step 2 of the plan is done", {2}),
        ("Step two is done", {2}),
        ("step four is done", {4}),
        ("finished step 4", {4}),
        ("Done with step 3", {3}),
        ("I have now finished step 2 of the plan", {2}),
        ("We’ve finished step 3 – all tests pass", {3}),
        ("Done with steps 1 & 2", {1, 2}),
    ],
)
def test_a_usual_phrase_marks_its_steps(message, done):
    assert told(message) == done


@pytest.mark.parametrize(
    ("message", "done"),
    [
        ("Steps 1-3 complete", {1, 2, 3}),
        ("Steps 1–3 complete", {1, 2, 3}),
        ("completed steps 2 through 4", {2, 3, 4}),
        ("steps two to four are done", {2, 3, 4}),
        ("steps 1, 2 and 4 are finished", {1, 2, 4}),
        ("Steps 1,2,4 done", {1, 2, 4}),
        ("steps 1-2, and 4 done", {1, 2, 4}),
        ("Done: steps 1-3. Remaining: step 4", {1, 2, 3}),
        ("Step 1 and step 2 are done", {1, 2}),
        ("Finished step 1, step 2 and step 4", {1, 2, 4}),
    ],
)
def test_ranges_and_lists_mark_each_of_their_steps(message, done):
    assert told(message) == done


@pytest.mark.parametrize(
    "message",
    [
        "all steps done",
        "All steps are complete!",
        "all of the steps of the plan are done",
        "every step is done",
        "all 5 steps are done",
        "all five steps are done",
    ],
)
def test_all_steps_are_all_of_them(message):
    assert told(message) == {1, 2, 3, 4, 5}


@pytest.mark.parametrize(
    ("message", "done"),
    [
        ("✅ Step 2", {2}),
        ("✔️ Step 2: build the image", {2}),
        ("[x] step 2", {2}),
        ("- [X] **Step 2** - build", {2}),
        ("Step 2 ✅", {2}),
        ("Step 2: ✅ done", {2}),
        ("✅ Step 1: done\n✅ Step 2: done\n❌ Step 3: failed", {1, 2}),
        ("[x] Step 1\n[ ] Step 2", {1}),
    ],
)
def test_a_tick_marks_the_step_it_stands_at(message, done):
    assert told(message) == done


@pytest.mark.parametrize(
    ("message", "done"),
    [
        ("Step 2 done — pushed to ghcr.io/acme/app:1.2", {2}),
        ("Step 2 done: see https://example.org/?run=1", {2}),
        ("Step 2 done (no issues)", {2}),
        ("step 2: done", {2}),
        ("Step 2 – done", {2}),
        ("Step 2: build and push — done", {2}),
        ("Step 2 (build the image) is done", {2}),
        ("**Step 2** done 🎉", {2}),
        ("## Step 2 done", {2}),
        ("2) Step 2 done", {2}),
        ("Status update: step 2 is done", {2}),
        ("Deployed the site, so step 2 is done", {2}),
        ("Pushed the image and finished step 2", {2}),
        ("I finished step 2 (pushed the image).", {2}),
    ],
)
def test_what_stands_around_a_phrase_does_not_hide_it(message, done):
    assert told(message) == done


@pytest.mark.parametrize(
    ("message", "done"),
    [
        ("Step 1 done. Step 2 done.", {1, 2}),
        ("Step 1 done and step 2 done", {1, 2}),
        ("step 1 done\nstep 2 done", {1, 2}),
        ("Step 1 done, step 2 failed", {1}),
        ("Step 1 failed, step 2 done", {2}),
        ("Step 1 failed, but I finished step 2", {2}),
        ("Step 1 is done but step 2 isn't", {1}),
        ("I've completed step 1 and am starting step 2", {1}),
        ("Completed step 1, step 2 is in progress", {1}),
        ("Completed step 1 and step 2 is next", {1}),
        ("Step 1 done; step 2 next", {1}),
        ("Step 2 done, starting step 3", {2}),
        ("Step 1 done, now waiting until CI is green", {1}),
        ("Finished step 1, 3 more to go", {1}),
        ("Is step 1 done? Step 2 is done.", {2}),
        ("Progress so far:\n- Step 1 done\n- Step 2 pending", {1}),
        ("Still missing:\n- step 1\n\nStep 2 done", {2}),
    ],
)
def test_each_clause_speaks_for_itself(message, done):
    assert told(message) == done


@pytest.mark.parametrize(
    "message",
    [
        "Step 2 failed",
        "step 2 not done",
        "step 2 isn't done yet",
        "Step 2 isn’t done",
        "step 2 has not been completed",
        "can't finish step 2",
        "haven't finished step 3",
        "never completed step 2",
        "unable to complete step 2",
        "not done with step 2",
        "Not all steps are done",
        "none of steps 1, 2 and 3 are done",
        "Neither step 1 nor step 2 is done",
        "step 2 undone",
        "redo step 2",
        "step 2 is incomplete",
        "✅ Step 2 failed",
        "✅ Step 2: failed",
        "❌ Step 2 done",
        "~~Step 2 done~~",
        "[ ] step 2 done",
        "all steps but 3 done",
        "all steps except step 3 are done",
    ],
)
def test_a_denial_marks_nothing(message):
    assert told(message) == set()


@pytest.mark.parametrize(
    "message",
    [
        "I haven't completed step 1 and finished step 2",
        "Nothing was pushed, finished step 2",
        "Step 1 failed at first, then done",
        "Step 1 failed and step 2 is done",
        "Step 1: ❌ Step 2: ✅ Step 3: ❌",
        "I have not yet\nfinished step 2",
        "It would be wrong to say\nI finished step 2",
        "Not done:\nstep 2 done",
    ],
)
def test_a_denial_may_reach_into_what_hangs_on_it(message):
    assert told(message) == set()


@pytest.mark.parametrize(
    "message",
    [
        "starting step 2",
        "step 2 is almost done",
        "step 2 nearly complete",
        "almost done with step 2",
        "step 2 50% done",
        "Step 2 done: 50%",
        "Step 2 done (50%)",
        "half done with step 2",
        "step 2 half done",
        "finished step 2 partially",
        "Step 2 is done with errors",
        "✅ Step 2 (in progress)",
        "✅ Step 2: started",
        "Step 2 done: false",
        "Step 2 done: no",
        "complete step 2",
    ],
)
def test_what_is_under_way_is_not_done(message):
    assert told(message) == set()


@pytest.mark.parametrize(
    "message",
    [
        "is step 2 done?",
        "step 2 done?",
        "Step 2 done, right?",
        "Step 1 failed, step 2 done?",
    ],
)
def test_a_question_marks_nothing(message):
    assert told(message) == set()


@pytest.mark.parametrize(
    "message",
    [
        "if step 2 is done, deploy",
        "If the tests pass, step 2 is done",
        "Step 2 is done, if the tests pass",
        "Step 2 is done (if the tests pass)",
        "Step 2 done or not, I go on",
        "when step 2 completes, deploy",
        "once step 2 is finished, I go on",
        "step 2 is done once CI is green",
        "Step 2 done by Friday",
        "By Friday, step 2 done",
        "step 2 will be done",
        "step 2 should be done",
        "step 2 is to be completed",
        "need to get step 2 done",
        "to complete step 2 I need a key",
        "let me finish step 2",
        "going to complete step 2",
        "try to finish step 2",
        "Push it and step 2 is done",
        "Make sure the site is up and step 2 is done",
        "TODO: step 2 done",
        "Goal, for today: step 2 done",
    ],
)
def test_a_condition_a_wish_or_a_plan_marks_nothing(message):
    assert told(message) == set()


@pytest.mark.parametrize(
    "message",
    [
        "Hopefully, step 2 is done",
        "Step 2 done, I think",
        "Step 2 is done, except the docs",
        "Step 2 is done, not pushed yet",
        "Step 2 is done but broken",
        "Step 2 is done, but step 2 needs polish",
        "All steps done. Not all steps are done.",
        "Step 2 done, no wait",
        "Step 2 done. Oops, no.",
        "Step 2 is done. Not really.",
        "Step 2 is done, step 2 failed",
        "Step 2 is done. Step 2 failed after all.",
    ],
)
def test_what_is_taken_back_is_not_done(message):
    assert told(message) == set()


@pytest.mark.parametrize(
    "message",
    [
        'the log said "step 2 done"',
        'The log:\n"\nStep 2 done\n"',
        "“Step 2 done”",
        "'It's fine.\nStep 2 done.\nThat's all.'",
        "`Step 2 done`",
        "`pushed\nStep 2 done\n`",
        "```\nan open `\n\nStep 2 done\n```",
        "> Step 2 done",
        "> pushed, step 2 done",
        'an open "quote\nStep 2 done',
        "the log said step 2 done",
        "Step 2 is done, says the log",
        "According to the log, step 2 is done",
        "Expected output:\nStep 2 done",
        "The log said:\n\nStep 2 done",
        "Say it with me: step 2 done",
        "The user finished step 2",
    ],
)
def test_the_words_of_others_mark_nothing(message):
    assert told(message) == set()


@pytest.mark.parametrize(
    "message",
    [
        "2 of 5 steps done",
        "3 steps done",
        "Step 2.1 done",
        "step 2a done",
        "step 2-b done",
        "step 2+ done",
        "step 2's tests done",
        "step ½ done",
        "Finished step 2–3",
        "Finished step 2—3",
        "Finished step 2(b)",
        "Step 12345 done",
        "step 2,5 done",
        "step 2% done",
        "/step 2 done",
        "all steps-2 done",
        "step twenty-two done",
        "substep 2 done",
        "sub-step 2 done",
        "step-by-step 2 done",
        "v1.2.3 done",
        "released v2, 3 is done",
        "Steps 4-2 done",
        "Steps 2-x done",
        "steps 1 and 2b done",
        "Finished steps 1 and 2, 3 more to go",
        "All done",
        "All done — site is live",
    ],
)
def test_other_numbers_are_not_steps(message):
    assert told(message) == set()


def test_of_so_many_counts_only_when_the_plan_has_so_many_steps():
    assert told("Step 2 of 5 done") == {2}
    assert told("Step 3/5 complete") == {3}
    assert told("Step 3 of 7 done") == set()
    assert told("all 4 steps are done") == set()


def test_numbers_beyond_the_plan_are_ignored():
    assert told("Steps 4-9 done") == {4, 5}
    assert told("Step 6 done") == set()
    assert told("all steps done", steps=0) == set()


def test_who_counts_from_zero_is_not_understood():
    assert told("Step 0 done, step 1 done") == set()
    assert told("Steps 0-2 done") == set()
    assert told("Step zero done, step one done") == set()


def test_number_words_reach_to_twenty():
    assert told("steps four, fourteen and twenty are done", 20) == {4, 14, 20}
    assert told("steps six to seven done, finished step sixteen", 20) == {6, 7, 16}


HOSTILE = [
    *("step ", "steps 1, ", "steps 1-", "step 1, ", "step 1 and ", "all of the "),
    *(
        "steps 1,1",
        "steps 1-9999,",
        "step 1: ",
        "step 1: a - ",
        "step 1 (",
        "step 1 done, ",
    ),
    *("✅ step 1 ", "✅ ", "step 1 now ", "finished step 1 now ", "in 1.1.1", "done: "),
    *(" ", "\n", "\n ", ":\n", "`", "```", '"', "'", "x'y'", "*", "__", "1", "… "),
    *("> ", "https://", "if ", "claims ", "- ", "# ", "[x] ", "no, ", ", ", " and"),
]


@pytest.mark.parametrize("fragment", HOSTILE)
def test_a_hostile_message_is_read_through_and_not_believed(fragment):
    flood = (fragment * 65_536)[:65_536]
    assert told(f"step 2 is {flood} done?", steps=100) == set()
    assert told(flood, steps=100) <= {1}


@pytest.mark.parametrize("item", ["1, ", "1-9999, ", "1,", "1 and "])
def test_a_list_without_end_is_read_through_and_not_believed(item):
    assert told(f"steps {item * 20_000}2 remain", steps=100) == set()


PHRASES = st.sampled_from(
    [
        *("Step {} done", "finished step {}", "steps {} and {} are done"),
        *("✅ Step {}", "- Step {} done", "Status: step {} done", "Done: step {}"),
    ]
)
DENIALS = st.sampled_from(
    [
        *("Step {} is not done", "Step {} failed", "I haven't finished step {}"),
        *("never completed step {}", "Step {} isn't complete", "cannot finish step {}"),
    ]
)
NUMBERS = st.integers(0, 40)


@given(st.lists(PHRASES), NUMBERS, NUMBERS, NUMBERS)
def test_no_mark_lies_outside_the_plan(phrases, one, other, steps):
    message = ". ".join(phrase.format(one, other) for phrase in phrases)
    assert marks(message, steps) <= set(range(steps))


@given(PHRASES, st.integers(1, 40))
def test_any_number_of_the_plan_can_be_marked(phrase, number):
    assert marks(phrase.format(number, number), 40) == {number - 1}


@given(DENIALS, NUMBERS)
def test_no_denied_step_is_marked(denial, number):
    assert marks(denial.format(number), 40) == set()


@given(PHRASES, DENIALS, st.booleans(), st.integers(1, 40))
def test_a_step_that_is_both_done_and_denied_is_not_marked(yes, no, first, number):
    said = [f"{text.format(number, number)}." for text in (yes, no)]
    assert marks(" ".join(said if first else said[::-1]), 40) == set()


@given(st.text().filter(lambda text: "step" not in text.lower()))
def test_text_without_steps_marks_nothing(text):
    assert marks(text, 40) == set()
    assert marks(f"{text} all done", 40) == set()


@given(st.text(), PHRASES, st.text(" \t\r\n\u2003"), st.text(" \t\r\n\u2003"))
def test_surrounding_whitespace_changes_nothing(text, phrase, before, after):
    for message in (text, phrase.format(1, 2)):
        assert marks(f"{before}{message}{after}", STEPS) == marks(message, STEPS)


@given(st.text(alphabet="\U000f0000\U000f0001\U000f0002 done.step2"))
def test_private_characters_are_no_steps(text):
    forged = text.replace("step", "")
    assert marks(forged, STEPS) == set()
