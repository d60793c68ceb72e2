"""What a judge of text resolves, and what it says of it."""

import pytest

from taskmem_hookspecs import ConditionUnclear, Frame, Judge, Met
from taskmem_terminal.judge import TextJudge
from taskmem_terminal.recording import UNSEEN
from tests.plugins.terminal.judged import NOON, Shown, met, ruling

YES, NO, UNSURE = Met.YES, Met.NO, Met.UNSURE
WRAPPED = "x" * 70 + " Build fin\nished now\n"


def test_it_plays_the_part_of_a_judge():
    assert isinstance(TextJudge("it ends"), Judge)
    assert TextJudge("it ends").name == "text rules"


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("'Build finished' appears", "12:00 Build finished in 3s\n"),
        ('the output contains "Build finished"', "Build finished\n"),
        ("“Build finished” is printed", "Build finished\n"),
        ("`Build finished` shows up in the log", "Build finished\n"),
        ("'build finished'", "BUILD FINISHED\n"),
        ("'Build  finished' appears", "Build finished\n"),
        ("'Build finished' appears", "Build   finished\n"),
        ("'Build finished' appears", "…… Build\n   finished\n"),
        ("'Build finished' appears", WRAPPED),
        ("BUILD FINISHED or BUILD BROKEN is printed", "BUILD BROKEN\n"),
        ("status changes from 'Pending' to 'Running'", "web-1  Running\n"),
        ('the line starting with "Total:" is shown', "a\nTotal: 3\n"),
        ("'it's done' appears", "it's done\n"),
        ('"‘data.bin’ saved" is shown', "‘data.bin’ saved [90/90]\n"),
    ],
)
def test_a_quoted_phrase_is_looked_for_in_what_is_shown(condition, text):
    assert met(condition, text) is YES


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("'Build finished' appears", "build finished\n"),
        ("'Build finished' appears", "Build\n\nfinished\n"),
        ("'Build finished' appears", "short Build fin\nished now\n"),
        ('the line starting with "Total:" is shown', "a Total: 3\n"),
        ("'Done' appears", "almost\n"),
    ],
)
def test_a_phrase_that_is_not_there_is_not_there_yet(condition, text):
    assert met(condition, text) is NO


def test_a_phrase_is_found_that_came_in_pieces():
    shown = Shown("'Build finished' appears")
    assert shown.shows("12:00 Build fi").met is NO
    assert shown.shows("nished in 3 s\n").met is YES


def test_a_phrase_in_a_typed_command_does_not_count():
    typed = "$ make && echo Build finished"
    assert met("'Build finished' appears", typed + "\n", echoes=(typed,)) is NO
    both = f"{typed}\nBuild finished\n"
    assert met("'Build finished' appears", both, echoes=(typed,)) is YES


def test_lines_around_a_typed_command_are_not_next_to_each_other():
    text = "Build\n$ ls\nfinished\n"
    assert met("'Build finished' appears", text, echoes=("$ ls",)) is NO


def test_a_phrase_disappears_once_it_was_shown():
    judge = TextJudge("'Loading' disappears")

    def shows(screen):
        frame = Frame(seen_at=NOON, place="", text=screen, tail=screen)
        return now(judge.rule(frame))

    assert shows("nothing yet").met is UNSURE
    assert shows("Loading data").met is NO
    assert shows("Ready").met is YES


def now(coroutine):
    try:
        coroutine.send(None)
    except StopIteration as stop:
        return stop.value
    raise AssertionError


def test_a_quoted_name_is_no_phrase_to_look_for():
    assert met("the 'web' container is healthy", "web starting\n") is NO
    assert met("the 'web' container is healthy", "db  Up (healthy)\n") is NO
    assert met("the 'web' container is healthy", "web  Up (unhealthy)\n") is NO
    assert met("the 'web' container is healthy", "web  Up (healthy)\n") is YES
    assert met("`make test` finishes", "make test\n") is NO
    assert met("`make test` finishes", "make test\n", exit_status=0) is YES


@pytest.mark.parametrize("status", [0, 1])
@pytest.mark.parametrize(
    "condition",
    [
        "the command finishes",
        "it exits",
        "the process ends",
        "make is done",
        "the build finishes, successfully or not",
        "the test run is over",
        "the build succeeds or fails",
    ],
)
def test_an_end_is_an_end_however_it_went(condition, status):
    assert met(condition, "working\n") is NO
    assert met(condition, "working\n", exit_status=status) is YES


@pytest.mark.parametrize(
    ("condition", "status", "expected"),
    [
        ("the build succeeds", 0, YES),
        ("the build succeeds", 1, NO),
        ("the build fails", 1, YES),
        ("the build fails", 0, NO),
        ("the download completes", 1, NO),
        ("it exits with code 0", 0, YES),
        ("it exits with code 0", 1, NO),
        ("the exit code is 3", 3, YES),
        ("it exits with code 137", -9, YES),
        ("it exits with code 119", -9, NO),
        ("it exits with a non-zero status", 2, YES),
        ("it crashes", -11, YES),
        ("it finishes without errors", 0, YES),
        ("it finishes without errors", 1, NO),
        ("no errors", 0, YES),
    ],
)
def test_the_exit_status_decides_how_it_went(condition, status, expected):
    assert met(condition, "working\n", exit_status=status) is expected


def test_what_can_no_longer_hold_is_said_to_be_so():
    said = ruling("the build fails", "all fine\n", exit_status=0).observation
    assert said.startswith("The command ended with exit status 0")
    assert "can no longer hold" in said
    assert '"all fine"' in said


def test_the_shells_prompt_ends_a_command():
    shown = Shown("the command finishes")
    assert shown.shows("$ make\n", prompt=False).met is NO
    assert shown.shows("cc main.c\n", prompt=False).met is NO
    assert shown.shows("$ ", prompt=True).met is YES


def test_a_prompt_that_was_there_before_ends_nothing():
    assert met("the command finishes", "me@host:~$ ", prompt=True) is NO


def test_a_line_that_is_plainly_a_prompt_ends_a_command():
    assert met("the prompt returns", "cc main.c\nme@host:~/src$ ") is YES
    assert met("the prompt returns", "cc main.c\nme@host:~/src$ ", still=0) is NO
    assert met("the prompt returns", "costs 5$\n") is NO


def test_after_a_prompt_nobody_knows_how_it_went():
    assert met("the build succeeds", "working\nme@host:~$ ") is UNSURE
    assert met("the build fails", "make: *** [all] Error 2\nme@host:~$ ") is YES


def test_each_side_of_an_or_is_enough_and_is_named():
    condition = "'Build finished' appears or an error message shows up"
    found = ruling(condition, "Build finished in 3s\n")
    assert found.observation == ("'Build finished' appeared: \"Build finished in 3s\"")
    found = ruling(condition, "error: no space\n")
    assert found.observation == 'An error appeared: "error: no space"'


def test_an_and_needs_both_and_remembers_the_first():
    shown = Shown("'alpha' and 'beta' have both appeared")
    assert shown.shows("alpha\n").met is NO
    assert shown.shows("gamma\n" * 100).met is NO
    assert shown.shows("beta\n").met is YES


def test_a_phrase_without_errors_needs_there_to_be_none():
    condition = "'Deployed' is shown and there are no errors"
    assert met(condition, "Deployed\n") is YES
    assert met(condition, "error: x\nDeployed\n") is not YES


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("the server is ready", "Server running at http://localhost:3000/\n"),
        ("the server is up", "Listening on port 8080\n"),
        ("the server is listening on port 8080", "listening on 0.0.0.0:8080\n"),
        (
            "postgres accepts connections",
            "LOG: database system is ready to accept connections\npostgres\n",
        ),
        ("the dev server is ready", "  VITE v5.0.0  ready in 178 ms\n"),
        ("uvicorn is up", "INFO: Uvicorn running on http://127.0.0.1:8000\n"),
        ("the app starts", "Started ShopApplication in 2.3 seconds\n"),
        ("django is running", "django\nStarting development server at http://1/\n"),
        ("the tests pass", "===== 12 passed, 1 warning in 0.12s =====\n"),
        ("the tests fail", "===== 1 failed, 12 passed in 0.12s =====\n"),
        ("any test fails", "tests/test_a.py::test_b FAILED\n"),
        ("all tests pass", "Tests:       12 passed, 12 total\n"),
        ("all 12 tests pass", "12 passed in 3.1s\n"),
        (
            "the build finishes",
            "    Finished `dev` profile [unoptimized] target(s) in 0.2s\n",
        ),
        ("the build succeeds", "[INFO] BUILD SUCCESS\n"),
        ("the build fails", "error: could not compile `shop` (bin)\n"),
        ("the build fails", "make: *** [Makefile:3: all] Error 2\n"),
        ("npm install is done", "added 57 packages, and audited 58 packages in 2s\n"),
        ("pip install completes", "Successfully installed flask-3.1.3\n"),
        ("the install fails", "E: Unable to locate package ngnix\n"),
        ("the clone fails", "fatal: repository 'x' not found\n"),
        ("the image is pulled", "Status: Downloaded newer image for debian:latest\n"),
        ("the migration completes", "Migration complete.\n"),
        ("deployment succeeds", "deployment successful!\n"),
        ("an error appears", "Traceback (most recent call last):\n"),
        ("an error occurs", "src/main.c:3:5: error: expected ';'\n"),
        ("there is an exception", "ValueError: bad\n"),
        ("a ValueError is raised", "ValueError: bad\n"),
        ("it segfaults or a segmentation fault is shown", "Segmentation fault\n"),
        ("permission is denied", "cp: x: Permission denied\n"),
        ("the connection is refused", "connect: Connection refused\n"),
        ("the request times out", "request timed out\n"),
        ("there is a merge conflict", "CONFLICT (content): Merge conflict in a\n"),
        ("HTTP 500 is returned", '"GET /boom HTTP/1.1" 500 21\n'),
        ("it connects", "connected to redis\n"),
        ("the queue is empty", "INFO queue empty\n"),
        ("deployment fails", "Deployment failed.\n"),
        ("migration 0005 is OK", "Applying migration 0005_log... OK\n"),
        ("job 102 is done", "INFO job 102 done in 2.4s\n"),
        ("the layer e756 has been downloaded", "e756: Download complete\n"),
        ("it starts resolving deltas", "Resolving deltas:   0% (0/52)\n"),
    ],
)
def test_families_are_known_by_what_programs_print(condition, text):
    assert met(condition, "begin\n") is not YES
    assert met(condition, text) is YES


@pytest.mark.parametrize(
    ("condition", "text", "expected"),
    [
        ("progress reaches 100%", "  99%|#### |\n", NO),
        ("progress reaches 100%", " 100%|#####|\n", YES),
        ("at least 80 % is done", "[=====>   ] 85%\n", YES),
        ("the download hits 50%", "report.pdf  12%[=>   ]\n", NO),
        ("the download hits 50%", "report.pdf  62%[===> ]\n", YES),
        ("receiving objects hits 100%", "Counting objects: 100% (5/5)\n", UNSURE),
        ("receiving objects hits 100%", "Receiving objects: 100% (5/5)\n", YES),
        ("b.iso reaches 100%", "a.iso 100%\nb.iso 20%\n", NO),
        ("b.iso reaches 100%", "a.iso 20%\nb.iso 100%\n", YES),
        ("half of the tests have run", "test_a.py ..... [ 51%]\n", YES),
        ("step 7 of 9", "Step 6/9 : RUN\n", NO),
        ("step 7 of 9", "Step 7/9 : RUN\n", YES),
        ("3/5 is shown", "13/5\n", NO),
        ("more than 1000 rows have been imported", "imported 999 rows\n", NO),
        ("more than 1000 rows have been imported", "imported 1,001 rows\n", YES),
        ("loss drops below 0.5", "epoch 1: loss=0.6\n", NO),
        ("loss drops below 0.5", "epoch 2: loss=0.48\n", YES),
        ("more than 10 MB have been downloaded", "9.5/16.9 MB 3.0 MB/s\n", NO),
        ("more than 10 MB have been downloaded", "10.2/16.9 MB 3.0 MB/s\n", YES),
        ("16 files are copied", "copied 160 packages\n", NO),
    ],
)
def test_numbers_are_compared(condition, text, expected):
    assert met(condition, text) is expected


def test_a_number_that_still_grows_is_not_read_before_its_end():
    shown = Shown("more than 10 rows have been imported")
    assert shown.shows("imported 9", still=0).met is NO
    shown = Shown("fewer than 20 rows are left over")
    assert shown.shows("1", still=0).met is not YES


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("it asks for a password", "[sudo] password for me: "),
        ("a password prompt appears", "Enter passphrase for key 'x': "),
        ("apt asks whether to continue", "Do you want to continue? [Y/n] "),
        ("it asks for confirmation", "Are you sure (yes/no)? "),
        ("it is waiting for my input", "package name: (project) "),
        ("npm asks for the package name", "package name: (project) "),
        ("the Python prompt shows", "Type help\n>>> "),
        ("it asks for a username or a password", "Username for 'https://x': "),
        ("the pager waits for a key press", "line\n:"),
    ],
)
def test_questions_are_known(condition, text):
    assert met(condition, "working\n") is NO
    assert met(condition, text) is YES


def test_what_ends_like_a_question_is_none_while_it_is_written():
    assert met("it is waiting for my input", "Get:", still=0) is NO
    assert met("it is waiting for my input", "Get:\n") is NO


def test_quiet_is_known_by_the_clock():
    found = ruling("no output for 30 seconds", "working\n", still=10)
    assert found.met is NO
    assert 20 <= found.look_again_seconds <= 21
    assert met("no output for 30 seconds", "working\n", still=31) is YES
    assert met("nothing has moved for two minutes", "working\n", still=31) is NO
    assert met("the screen goes quiet for 1 minute", "x\n", still=61) is YES


def test_an_unfinished_line_is_looked_at_again():
    shown = Shown("the tests fail")
    found = shown.shows("==== 1 failed, 2 passed in 0.1s", still=0)
    assert found.met is NO
    assert found.look_again_seconds < 1
    assert shown.shows().met is YES


def test_a_no_says_what_was_seen_last():
    found = ruling("'Build finished' appears", "Downloading 85%\n\n")
    assert found.observation == 'Last line: "Downloading 85%"'
    assert ruling("'x' appears", "").observation == "Nothing was shown yet."


def test_a_long_line_is_shortened_where_it_is_quoted():
    found = ruling("'needle' appears", "needle " + "hay " * 500)
    assert len(found.observation) < 300


@pytest.mark.parametrize(
    "condition",
    [
        "the button turns green",
        "the chart looks right",
        "something interesting happens",
        "the spinner is gone or the picture looks good",
        "x" * 70_000,
    ],
)
def test_what_no_text_can_settle_is_refused_with_a_cure(condition):
    with pytest.raises(ConditionUnclear, match="quote the text to wait for"):
        TextJudge(condition)


def test_one_side_that_can_be_settled_is_enough_to_take_a_condition():
    assert met("the button turns green or 'OK' appears", "OK\n") is YES
    assert met("the button turns green or 'OK' appears", "no\n") is UNSURE


@pytest.mark.parametrize(
    "condition",
    [
        "'error' does not appear",
        "the second occurrence of 'done'",
        "'done' appears twice",
        "unless it fails, the build finishes",
        "the tests take longer than usual",
        "everything except the upload is done",
    ],
)
def test_what_is_not_understood_is_refused_and_left_to_others(condition):
    with pytest.raises(ConditionUnclear):
        TextJudge(condition)


def test_a_target_without_text_is_left_to_others():
    frame = Frame(seen_at=NOON, place="")
    assert now(TextJudge("'x' appears").rule(frame)).met is UNSURE


def test_the_example_of_the_specification_is_taken():
    condition = (
        "File download completes (progress bar disappears or 'Download complete' "
        "notification appears), or an error dialog/message appears"
    )
    assert met(condition, "report.pdf 85%\n") is NO
    assert met(condition, "Download complete\n") is YES
    assert met(condition, "ERROR: disk full\n") is YES


def test_a_command_that_is_lost_from_sight_has_not_ended():
    gone = f"Nothing records pty:x any more, though {UNSEEN}; its recorder was killed."
    assert met("the command ends", "working\n", gone=gone) is NO
    assert met("the command ends", "working\n", gone="The pane was closed.") is YES
