"""The judge of text decides on each form of a condition."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openclaw_taskmem.domain.conditions.conditions import parse_condition
from openclaw_taskmem.domain.text.redaction import scrub
from taskmem_hookspecs import ConditionUnclear, Frame, Met, Target
from taskmem_hookspecs.testing import JudgeSuite
from taskmem_terminal.hooks import wait_judge
from taskmem_terminal.judge import TerminalRuleJudge
from taskmem_terminal.recording import UNSEEN_END
from tests.plugins.terminal.judged import NOON, ShownJudge, is_met_by, rule_on
from tests.plugins.terminal.replay import run_at_once

YES, NO, UNSURE = Met.YES, Met.NO, Met.UNSURE
ENDED = {"gone": "The command ended."}


class TestTerminalRuleJudge(JudgeSuite):
    def make_judge(self, tmp_path):
        return TerminalRuleJudge(parse_condition('"Build finished" appears'), "build")

    def make_met(self, tmp_path):
        return [*self.make_unmet(tmp_path), self.build_frame("Build finished\n")]

    def make_unmet(self, tmp_path):
        return [self.build_frame("Build begun\n")]

    def build_frame(self, text):
        return Frame(seen_at=NOON, place="1", text=text, tail=text.rstrip())


# --- what was seen ---------------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "text", "expected"),
    [
        ('"Build finished" appears', "12:00 Build finished in 3 s\n", YES),
        ('"Build finished" appears', "build finished\n", NO),
        ("/^\\d+ passed$/ appears", "12 passed\n", YES),
        ("/^\\d+ passed$/ appears", "12 passed, 1 failed\n", NO),
        ("80 %", "1,301,110,784  88%   43.90MB/s    0:00:03\n", YES),
        ("80 %", "1,301,110,784  78%   43.90MB/s    0:00:03\n", NO),
        ("loss < 0.1", "epoch 3: loss=0.0931\n", YES),
        ("loss < 0.1", "epoch 3: val_loss=0.0931\n", NO),
    ],
)
def test_what_is_shown_is_compared_with_the_form(condition, text, expected):
    assert is_met_by(condition, text) is expected


@pytest.mark.parametrize(
    ("condition", "line"),
    [
        ('"alpha" appears', "alpha\n"),
        ("/^al+pha$/ appears", "alpha\n"),
        ("50 %", "51%\n"),
        ("loss < 1", "loss 0.5\n"),
    ],
)
def test_what_was_seen_once_counts_from_then_on(condition, line):
    shown = ShownJudge(f'{condition} and "omega" appears')
    assert shown.shows(line).met is NO
    assert shown.shows("beta\n" * 100).met is NO
    assert shown.shows("omega\n").met is YES


def test_a_text_is_found_that_came_in_pieces():
    shown = ShownJudge('"Build finished" appears')
    assert shown.shows("12:00 Build fi", still=0).met is NO
    assert shown.shows("nished", still=0).met is YES


@pytest.mark.parametrize(
    ("condition", "pieces", "expected"),
    [
        ("/fail$/ appears", ["it will fail", "ed\n"], NO),
        ("/fail$/ appears", ["it will fail", "\n"], YES),
        ("left < 20", ["left 1", "00\n"], NO),
        ("left < 20", ["left 1", "0 of 500\n"], YES),
        ("10 %", ["3/12", "0\n"], NO),
        ("18 %", ["12%", "\r18%\n"], YES),
    ],
)
def test_an_unfinished_line_is_not_read_before_its_end(condition, pieces, expected):
    shown = ShownJudge(condition)
    found = [shown.shows(piece, still=0).met for piece in pieces]
    assert found[0] is NO
    assert (shown.shows("", still=0).met if expected is NO else found[-1]) is expected


def test_an_unfinished_line_is_read_when_nothing_follows():
    shown = ShownJudge("left < 20")
    found = shown.shows("left 12", still=0)
    assert found.met is NO
    assert found.look_again_seconds == pytest.approx(0.3)
    assert shown.shows("", still=0.3).met is YES


def test_a_row_that_is_being_painted_is_read_at_its_second_look():
    shown = ShownJudge("speed < 4000")
    assert shown.paints("md0\nspeed=3344", still=0).met is NO
    assert shown.paints("md0\nspeed=33440K/s", still=0).met is NO
    assert shown.paints("md0\nspeed=3100K/s", still=0).met is NO
    assert shown.paints("md0\nspeed=3100K/s", still=0).met is YES


def test_row_broken_by_the_screen_is_read_as_it_was_printed():
    shown = ShownJudge("finish < 87.1")
    rows = "recovery = 41.9% finish=87.\n2min"
    shown.paints(rows, still=0, printed="recovery = 41.9% finish=87.2min\n")
    for _ in range(4):
        assert shown.paints(rows, still=0, printed=".").met is NO
    assert shown.paints("recovery = 43% finish=86.9min").met is YES


def test_a_line_that_is_being_typed_never_counts():
    typed = '$ echo "Build finished"'
    assert is_met_by('"Build finished" appears', typed, echoes=(typed,)) is NO


def test_a_typed_line_never_counts():
    typed = '$ make && echo "Build finished"'
    shown = ShownJudge('"Build finished" appears')
    assert shown.shows(f"{typed}\n", echoes=(typed,)).met is NO
    assert shown.shows("Build finished\n").met is YES


@pytest.mark.parametrize(
    ("condition", "expected"), [('"+ echo deployed" appears', YES), ('"deployed" appears', NO)]
)
def test_a_traced_command_counts_where_its_sign_is_quoted(condition, expected):
    traced = "+ echo deployed"
    assert is_met_by(condition, f"{traced}\n", echoes=(traced,)) is expected


# --- what is gone ----------------------------------------------------------------


def test_text_is_gone_when_it_was_seen_and_then_stays_away():
    shown = ShownJudge('"Loading" is gone')
    assert shown.paints("nothing yet").met is NO
    assert shown.paints("Loading data").met is NO
    away = shown.paints("", still=0)
    assert away.met is NO
    assert away.look_again_seconds == pytest.approx(0.3)
    assert shown.paints("Loading more", still=0).met is NO
    assert shown.paints("Ready", still=0).met is NO
    assert shown.paints("Ready", still=0.5).met is YES


def test_a_text_that_a_screen_showed_from_the_beginning_was_seen():
    shown = ShownJudge('"Loading" is gone', "tmux:work")
    assert shown.shows("", screen="Loading\nme@host:~$").met is NO
    assert shown.shows("ready\n", screen="Loading\nready").met is NO
    shown.shows("", screen="ready")
    assert shown.shows("", screen="ready").met is YES


def test_a_text_that_was_never_seen_is_not_gone():
    assert is_met_by('"Loading" is gone', "ready\n", exit_status=0, **ENDED) is NO


def test_a_text_is_there_as_long_as_the_last_lines_show_it():
    shown = ShownJudge('"Loading" is gone')
    shown.shows("Loading\n")
    assert shown.shows("line\n" * 79).met is NO
    shown.shows("line\n")
    assert shown.shows("line\n").met is YES


# --- the end of a command --------------------------------------------------------


@pytest.mark.parametrize(
    ("condition", "status", "expected"),
    [
        ("exits", 0, YES),
        ("exits", 2, YES),
        ("exits", -9, YES),
        ("succeeds", 0, YES),
        ("succeeds", 1, NO),
        ("fails", 0, NO),
        ("fails", 1, YES),
        ("fails", -11, YES),
        ("exits with 3", 3, YES),
        ("exits with 3", 0, NO),
        ("exits with 137", -9, YES),
        ("exits with 119", -9, NO),
    ],
)
def test_the_exit_status_says_how_a_command_ended(condition, status, expected):
    assert is_met_by(condition, "working\n") is NO
    assert is_met_by(condition, "working\n", exit_status=status, **ENDED) is expected


@pytest.mark.parametrize(
    "condition", ['"done" appears', "/done/ appears", "100 %", "loss < 1", "asks for input"]
)
def test_the_exit_status_answers_for_nothing_else(condition):
    assert is_met_by(condition, "working\n", exit_status=0, **ENDED) is NO


def test_an_end_of_unknown_status_is_an_end_and_no_more():
    assert is_met_by("exits", "x\n", **ENDED) is YES
    for condition in ("succeeds", "fails", "exits with 1"):
        assert is_met_by(condition, "x\n", **ENDED) is NO


def test_a_command_that_is_lost_from_sight_has_not_ended():
    gone = f"Nothing records pty:x any more, though {UNSEEN_END}; its recorder was killed."
    for condition in ("exits", "prompt returns"):
        assert is_met_by(condition, "working\n", gone=gone) is NO


def test_in_a_pane_the_prompt_tells_that_a_command_ended():
    shown = ShownJudge("exits", "tmux:work")
    assert shown.shows("$ make\n", prompt=False).met is NO
    assert shown.shows("cc main.c\nme@host:~$ ", prompt=True).met is YES
    fails = ShownJudge("fails", "tmux:work")
    fails.shows("$ make\n", prompt=False)
    assert fails.shows("me@host:~$ ", prompt=True).met is NO


# --- prompts ---------------------------------------------------------------------


def test_a_prompt_is_back_after_something_ran():
    shown = ShownJudge("prompt returns", "tmux:work")
    assert shown.shows("me@host:~$ ", prompt=True).met is NO
    assert shown.shows("make\n", prompt=False).met is NO
    assert shown.shows("cc main.c\nme@host:~$ ", prompt=True).met is YES


def test_what_ran_between_two_looks_ran():
    shown = ShownJudge("prompt returns", "tmux:work")
    assert shown.shows("me@host:~$ ", prompt=True).met is NO
    assert shown.shows("make\ncc main.c\nme@host:~$ ", prompt=True).met is YES


def test_a_command_that_was_just_typed_is_no_prompt():
    typed = "me@host:~$ make"
    shown = ShownJudge("prompt returns", "tmux:work")
    assert shown.shows(typed, prompt=True, echoes=(typed,)).met is NO
    assert shown.shows("\n", prompt=True, echoes=(typed,)).met is NO
    assert shown.shows("me@host:~$ ", prompt=True, echoes=(typed,)).met is YES


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Welcome\nme@host:~$ ", NO),
        ("mysql> ", NO),
        ("mysql> source dump.sql\nQuery OK\nmysql> ", YES),
        ("In [1]: run()\nok\nIn [2]: ", YES),
        ("(gdb) run\nBreakpoint 1\n(gdb) ", YES),
        ("Password: \nSorry.\nPassword: ", NO),
        ("name: bob\nname: ", NO),
        ("costs 5$\n", NO),
        ("working > \n", NO),
    ],
)
def test_a_recording_knows_a_prompt_by_an_earlier_command(text, expected):
    assert is_met_by("prompt returns", text) is expected


def test_a_shell_that_is_recorded_is_back_after_a_typed_command():
    text, typed = "me@host:~$ make\ncc main.c\nme@host:~$ ", "me@host:~$ make"
    assert is_met_by("prompt returns", text, echoes=(typed,)) is YES
    assert is_met_by("prompt returns", text, echoes=(typed,), still=0) is NO


@pytest.mark.parametrize(
    ("line", "expected"),
    [
        ("~/src (main) $ ", YES),
        ("box src/app ❯ ", YES),
        ("box:~/src$ ", YES),
        ("Enter the amount in $ ", NO),
        ("Cost $ ", NO),
    ],
)
def test_a_line_of_words_before_a_sign_is_no_prompt(line, expected):
    text, typed = f"me@host:~$ pay\nReady.\n{line}", "me@host:~$ pay"
    assert is_met_by("prompt returns", text, echoes=(typed,)) is expected


def test_the_end_of_a_recorded_command_is_the_prompt():
    assert is_met_by("prompt returns", "ok\n", exit_status=1, **ENDED) is YES
    pane = ShownJudge("prompt returns", "tmux:work")
    assert pane.shows("ok\n", gone="The tmux pane was closed.").met is NO


ODD_PROMPTS = ["λ ", "> ", "--> ", "[12]host# ", "(main) # ", "➜  app git:(main) ✗ "]


@pytest.mark.parametrize("prompt", ODD_PROMPTS)
@pytest.mark.parametrize("reads", [True, None])
def test_where_a_shell_reads_any_line_is_its_prompt(prompt, reads):
    shown = ShownJudge("prompt returns", "tmux:work")
    typed = f"{prompt}make"
    known = {"reads_input": reads, "prompt": True, "echoes": (prompt.rstrip(), typed)}
    assert shown.shows(f"{typed}\n", **known).met is NO
    assert shown.shows("cc main.c\n", reads_input=False, prompt=False).met is NO
    assert shown.shows(prompt, **known).met is (YES if reads else NO)


def test_a_prompt_that_is_drawn_again_is_not_back():
    shown = ShownJudge("prompt returns", "tmux:work")
    known = {"reads_input": True, "prompt": True, "echoes": ("λ",)}
    assert shown.shows("λ ", **known).met is NO


def test_a_shell_that_does_not_read_yet_shows_no_prompt():
    shown = ShownJudge("prompt returns", "tmux:work")
    shown.shows("make\n", prompt=False)
    assert shown.shows("me@host:~$ ", prompt=True, reads_input=False).met is NO
    assert shown.shows(prompt=True, reads_input=True).met is YES


@pytest.mark.parametrize(("condition", "expected"), [("prompt returns", YES), ("exits", NO)])
@pytest.mark.parametrize("reads", [True, None])
def test_a_program_that_reads_at_its_prompt_has_not_ended(condition, expected, reads):
    shown = ShownJudge(condition, "tmux:work")
    assert shown.shows("(Pdb) next\n", prompt=False).met is NO
    assert shown.shows("ok\n(Pdb) ", prompt=False, reads_input=False).met is NO
    assert shown.shows(prompt=False, reads_input=reads).met is expected


@pytest.mark.parametrize("reads", [True, None])
def test_a_programs_prompt_may_have_been_used_before_the_wait(reads):
    shown = ShownJudge("prompt returns", "tmux:work")
    screen = "(Pdb) import time\n(Pdb) time.sleep(3)"
    assert shown.shows(prompt=False, reads_input=reads, screen=screen).met is NO
    screen += "\n(Pdb)"
    known = {"prompt": False, "reads_input": reads, "screen": screen}
    assert shown.shows("(Pdb) ", **known).met is YES
    stands = ShownJudge("prompt returns", "tmux:work")
    assert stands.shows(**known).met is NO
    assert stands.shows("(Pdb) ", **known).met is NO


def test_a_remote_prompt_is_known_by_the_line_typed_before_it():
    shown = ShownJudge("prompt returns", "tmux:work")
    screen = "[11]host# make"
    assert shown.shows(screen=screen).met is NO
    screen += "\ncc main.c\n[12]host#"
    assert shown.shows("cc main.c\n[12]host# ", screen=screen).met is YES


# --- questions -------------------------------------------------------------------

PASSWORDS = [
    "[sudo] password for me: ",
    "Enter passphrase for key '/x': ",
    "(alex@127.0.0.1) Password:",
]
YES_NO = [
    "Do you want to continue? [Y/n] ",
    "Proceed ([y]/n)? ",
    "Are you sure (yes/no/[fingerprint])? ",
    "replace x? [y]es, [n]o, [A]ll, [N]one, [r]ename: ",
    "Ok to proceed? (y) ",
    "  Only 'yes' will be accepted to approve.\n\n  Enter a value: ",
    "Overwrite?\n\n      <Yes>      <No>\n",
    "┌────────┐\n│ Go on? │\n│ <Yes>  │\n└────────┘\n",
]
INPUTS = [
    "package name: (project) ",
    "Region [eu-west-1]: ",
    "? Project name: › shop",
    "? Select a framework: › - Use arrow-keys.\n❯   Vanilla\n    Vue\n    React\n",
    "--More--",
    "Press ENTER to continue",
    ">>> 1\n1\n>>> ",
]
NOTHING = [
    "Downloading 45%",
    "Password: set\n",
    "Continue? [Y/n] y",
    "Is the server up?\nyes\n",
    "? Project name: shop\nScaffolding project\n",
    "<p>Choose <yes> or <no></p>\n<ok>\nServing\n",
    "me@host:~$ ",
    "working\n",
]


@pytest.mark.parametrize("text", PASSWORDS)
def test_a_question_for_a_password_is_known(text):
    assert is_met_by("asks for a password", text) is YES
    assert is_met_by("asks for input", text) is YES
    assert is_met_by("asks yes or no", text) is NO


@pytest.mark.parametrize("text", PASSWORDS)
def test_a_prompt_for_a_password_is_quoted_and_no_secret(text):
    said = rule_on("asks for a password", text).observation
    assert text.splitlines()[-1].strip() in said
    assert scrub(said) == said


@pytest.mark.parametrize("text", YES_NO)
def test_a_question_for_a_yes_is_known(text):
    assert is_met_by("asks yes or no", text) is YES
    assert is_met_by("asks for input", text) is YES
    assert is_met_by("asks for a password", text) is NO


@pytest.mark.parametrize("text", INPUTS)
def test_a_question_for_anything_is_known(text):
    assert is_met_by("asks for input", text) is YES
    assert is_met_by("asks yes or no", text) is NO


@pytest.mark.parametrize("text", NOTHING)
def test_what_asks_nothing_is_known(text):
    for form in ("asks for input", "asks yes or no", "asks for a password"):
        assert is_met_by(form, text) is NO


def test_a_terminal_that_hides_what_is_typed_asks_for_a_password():
    assert is_met_by("asks for a password", "Mot secret ", still=0, hides_input=True) is YES
    assert is_met_by("asks for a password", "Mot secret ", hides_input=False) is NO


@pytest.mark.parametrize(("hides", "expected"), [(False, NO), (None, YES)])
def test_a_terminal_that_shows_what_is_typed_asks_no_password(hides, expected):
    text = "Checking password for db: "
    assert is_met_by("asks for a password", text, hides_input=hides) is expected


@pytest.mark.parametrize("text", [*NOTHING[:2], "Continue? [y/N]\n", "(Pdb) ", "口令："])
def test_a_program_that_reads_asks_whatever_it_shows(text):
    assert is_met_by("asks for input", text, reads_input=True) is YES
    assert is_met_by("asks for input", text, reads_input=True, prompt=True) is NO
    assert is_met_by("asks for input", text, reads_input=True, still=0.2) is NO


@pytest.mark.parametrize("condition", ["prompt returns", "asks for input"])
def test_what_does_not_read_yet_is_looked_at_ever_less_often(condition):
    shown = ShownJudge(condition, "tmux:work")
    for still, later in ((0.4, 1), (3, 3), (50, 50)):
        found = shown.shows("\nName: " if still < 1 else "", still=still, reads_input=False)
        assert found.look_again_seconds == pytest.approx(later)


def test_a_shell_of_which_nobody_knows_whether_it_reads_may_ask():
    assert is_met_by("asks for input", "Name: ", prompt=True) is YES


SHELL_QUESTIONS = {
    "zsh: sure you want to delete all 3 files in /x [yn]? ": "asks yes or no",
    "Really delete? (Y/n): ": "asks yes or no",
    "Name: ": "asks for input",
    "Port [80]: ": "asks for input",
    "read> ": "asks for input",
}


@pytest.mark.parametrize("question", SHELL_QUESTIONS)
def test_a_shell_that_asks_shows_no_prompt(question):
    known = {"prompt": True, "reads_input": True}
    for condition in ("prompt returns", "exits"):
        shown = ShownJudge(condition, "tmux:work")
        shown.shows("% ask\n", prompt=False, reads_input=False)
        assert shown.shows(question, **known).met is NO
    assert is_met_by(SHELL_QUESTIONS[question], question, **known) is YES


def test_a_prompt_that_ends_like_a_question_was_typed_at():
    known = {"prompt": True, "reads_input": True, "screen": "~: make\ncc\n~:"}
    shown = ShownJudge("prompt returns", "tmux:work")
    shown.shows("", prompt=False, reads_input=False, screen="~: make")
    assert shown.shows("cc\n~: ", **known).met is YES
    assert is_met_by("asks for input", "~: ", **known) is NO


@pytest.mark.parametrize(
    ("screen", "expected"),
    [
        ("me@host:~$ cat <<EOF\n>", NO),
        ("$ for i in 1 2\nfor> echo\nfor>", NO),
        ("> make\ncc\n>", YES),
        ("cc\n> cd x\n>", YES),
    ],
)
def test_a_shell_in_the_middle_of_a_command_shows_no_prompt(screen, expected):
    shown = ShownJudge("prompt returns", "tmux:work")
    shown.shows("", prompt=False, reads_input=False, screen=screen)
    prompt = screen.rpartition("\n")[2]
    known = {"prompt": True, "reads_input": True, "screen": screen}
    assert shown.shows(f"\n{prompt} ", **known).met is expected


@pytest.mark.parametrize("text", [*PASSWORDS, *YES_NO, *INPUTS])
def test_a_program_that_does_something_else_asks_nothing(text):
    for form in ("asks for input", "asks yes or no", "asks for a password"):
        assert is_met_by(form, text, reads_input=False, hides_input=True) is NO


def test_a_question_may_end_above_the_line_with_the_cursor():
    for reads, expected in ((True, YES), (None, NO)):
        assert is_met_by("asks yes or no", "Go on? [y/N]\n", reads_input=reads) is expected


def test_a_question_that_stood_there_before_the_wait_counts():
    shown = ShownJudge("asks yes or no", "tmux:work")
    assert shown.shows(screen="Go on? [y/N] ").met is YES


def test_a_password_that_is_being_typed_is_still_asked_for():
    assert is_met_by("asks for a password", "[sudo: authenticate] Password: **") is YES


MENUS = [
    "Choose:\n> Strawberry\n  Banana\n  Cherry\n\n←↓↑→ navigate • enter submit\n",
    "Perform this update?  [Use arrows to move, type to filter]\n  yes\n> no\n  details\n",
    "╭───────────────╮\n│ Do you want to proceed? │\n│ ❯ 1. Yes │\n│   2. No (esc) │\n╰────╯\n",
    "☐ DB\n\n❯ 1. Postgres\n     a server\n  2. SQLite\n     a file\n\nEnter to select\n",
    "Allow this command?\n\n› 1. Yes, proceed (y)\n  2. No (esc)\n\n  Press enter to confirm\n",
]
NO_MENUS = [
    "Tests:\n ❯ a.test.ts (3)\n ❯ b.test.ts (2)\n",
    "> build\n  step 1\n",
    "Choose:\n> Strawberry\n  Banana\n" + "working\n" * 5,
    "Usage?\n  --all\n  --none\n",
    "Compiling:\n  > src/a.ts\n    src/b.ts\n",
    "Which?\n" + " " * 30_000 + "-\n",
]


@pytest.mark.parametrize("screen", MENUS)
def test_a_menu_with_a_pointer_is_a_question(screen):
    judge = ShownJudge("asks for input")
    assert judge.paints(screen, still=0.5).met is NO
    assert judge.paints(screen).met is YES


@pytest.mark.parametrize("screen", NO_MENUS)
def test_a_list_without_question_or_pointer_is_no_menu(screen):
    assert ShownJudge("asks for input").paints(screen).met is NO


def test_a_menu_of_yes_and_no_asks_yes_or_no():
    expected = [NO, YES, YES, NO, YES]
    assert [ShownJudge("asks yes or no").paints(screen).met for screen in MENUS] == expected


def test_a_menu_is_a_question_beside_what_moves():
    dots = ["●", " "]
    menu = "Run it?\n❯ 1. Yes\n  2. No\nEsc to cancel\n"
    shown = ShownJudge("asks yes or no")
    found = [shown.paints(f"{dot}\n{menu}", still=0.4).met for dot in dots * 3]
    assert found == [NO, NO, YES, YES, YES, YES]


def test_a_list_is_no_menu_beside_what_moves():
    shown = ShownJudge("asks for input")
    for dot in "●◌" * 4:
        assert shown.paints(f"{dot}\n> a\n  b\n", still=0.4, takes_keys=True).met is NO
    assert shown.paints("●\n> a\n  b\n", takes_keys=True).met is YES


@pytest.mark.parametrize(
    "screen",
    [
        "Environment\n » staging\n   production\n",
        "  work\n  var\n> usr\n  3/3 ──\n>\n",
        ">\n  3/3 ──\n> bin │\n  boot │\n",
        "Features\n❯◯ npm\n ◯ yarn\n\n↑↓ navigate • space select\n",
        "? Pick colors ›\nInstructions:\n    a: Toggle all\n◯   Red\n◯   Green\n",
        "? Secret [input is masked]\nctrl+t toggle visibility\n",
        "? What's your first name\n\n\n",
        "Press any key to continue...\n\n",
        "> Type something...\n\nenter submit\n",
        "✔ Number: █\n",
    ],
)
def test_a_program_that_gets_each_key_asks_by_less(screen):
    for keys, expected in ((True, YES), (None, NO), (False, NO)):
        assert ShownJudge("asks for input").paints(screen, takes_keys=keys).met is expected


@pytest.mark.parametrize("screen", MENUS)
def test_a_program_that_gets_whole_lines_shows_no_menu(screen):
    assert ShownJudge("asks for input").paints(screen, takes_keys=False).met is NO


@pytest.mark.parametrize(
    "screen",
    [
        "Watching for file changes...\npress h to show help, press q to quit\n",
        "› Press a │ open Android\n› Press w │ open web\n\nPress Ctrl+C to exit.\n",
        " ➜ Local: http://localhost\n ➜ Network: off\n ➜ press h to show help\n",
        "  PID USER  %CPU COMMAND\n    1 root   0.0 init\n    2 root   0.0 kthreadd\n",
    ],
)
def test_a_program_that_only_listens_to_keys_asks_nothing(screen):
    assert ShownJudge("asks for input").paints(screen, takes_keys=True).met is NO


@pytest.mark.parametrize(
    ("condition", "screen"),
    [
        ("asks yes or no", "? Are you amazed? (Y/n)\n\n"),
        ("asks yes or no", "? Can you confirm? › no / yes"),
        ("asks yes or no", "Are you sure?\n\n  Yes    No\n\n←→ toggle • enter submit\n"),
        ("asks for a password", "? Password [input is masked]\nctrl+t toggle visibility\n"),
    ],
)
def test_keys_answer_yes_or_no_and_make_a_password(condition, screen):
    assert ShownJudge(condition).paints(screen, takes_keys=True).met is YES
    assert ShownJudge(condition).paints("working\n", takes_keys=True).met is NO


def test_a_menu_is_quoted_whole():
    found = ShownJudge("asks for input").paints("● \nRun it?\n❯ 1. Yes\n  2. No\n")
    assert found.observation == 'It asks for input ("Run it? ❯ 1. Yes 2. No")'


def test_a_line_that_ends_like_a_question_has_to_stand():
    shown = ShownJudge("asks for input")
    found = shown.shows("Building wheel:", still=0.4)
    assert found.met is NO
    assert found.look_again_seconds == pytest.approx(0.6)
    assert shown.shows("", still=1).met is YES
    assert shown.shows("", exit_status=0, **ENDED).met is NO


# --- silence ---------------------------------------------------------------------


@pytest.mark.parametrize("last", ["compiling", "Waiting for the database", "50%", ""])
def test_silence_is_silence_whatever_the_last_line_says(last):
    found = rule_on("quiet for 30 s", last, still=10)
    assert found.met is NO
    assert found.look_again_seconds == pytest.approx(20)
    assert is_met_by("quiet for 30 s", last, still=31) is YES


def test_silence_counts_from_the_first_look_if_nothing_is_known():
    judge = TerminalRuleJudge(parse_condition("quiet for 30 s"), "build")

    def look(seconds):
        at = NOON.replace(second=seconds)
        return run_at_once(judge.rule(Frame(seen_at=at, place="", text="", tail="")))

    assert look(0).look_again_seconds == pytest.approx(30)
    assert look(29).met is NO
    assert look(30).met is YES


# --- sides, and what is said -----------------------------------------------------


def test_one_side_is_enough_and_the_line_that_decided_is_quoted():
    found = rule_on('"Build finished" appears or fails', "Build finished in 3s\n")
    assert found.observation == '"Build finished" appeared: "Build finished in 3s"'
    ended = {"exit_status": 2, **ENDED}
    found = rule_on('"Build finished" appears or fails', "no\n", **ended)
    assert found.observation == "The command ended with status 2"


def test_an_and_says_why_each_of_its_forms_holds():
    found = rule_on('"a" appears and loss < 1', "a loss 0.5\n")
    assert found.observation == ('"a" appeared: "a loss 0.5", and loss < 1 appeared: "a loss 0.5"')


def test_a_no_says_what_was_seen_last():
    found = rule_on('"Build finished" appears', "Downloading 85%\n\n")
    assert found.observation == 'Last line: "Downloading 85%"'
    assert rule_on('"x" appears', "").observation == ""


def test_what_can_no_longer_hold_is_said_to_be_so():
    found = rule_on('"x" appears or fails', "fine\n", exit_status=0, **ENDED)
    assert found.met is NO
    assert found.observation == (
        'Nothing more will come, so “"x" appears or fails” can no longer hold. Last line: "fine"'
    )


def test_a_long_line_is_shortened_where_it_is_quoted():
    found = rule_on('"needle" appears', "needle " + "hay " * 500)
    assert len(found.observation) < 300


def test_sides_in_free_english_are_left_to_others():
    shown = ShownJudge('the chart looks right or "OK" appears')
    assert shown.judge.sides == (1,)
    assert shown.shows("no\n").met is UNSURE
    assert shown.shows("OK\n").met is YES
    free = parse_condition("the chart looks right")
    target = Target(scheme="pty", name="build")
    assert wait_judge(target=target, condition=free) is None


def test_forms_that_a_file_cannot_have_are_refused_by_name():
    condition = parse_condition('fails or "x" appears or asks for input')
    with pytest.raises(ConditionUnclear) as refused:
        TerminalRuleJudge(condition, "file:/var/log/app.log")
    assert refused.value.sides == (0, 2)
    assert "“fails” and “asks for input”" in str(refused.value)
    assert "/error|failed|traceback/i appears" in str(refused.value)


def test_a_target_without_text_is_left_to_others():
    judge = TerminalRuleJudge(parse_condition('"x" appears'), "build")
    assert run_at_once(judge.rule(Frame(seen_at=NOON, place=""))).met is UNSURE


# --- whatever is shown -----------------------------------------------------------

QUOTES = "'\"`“”„«»‟‘’‚‹›"
WORD = st.text(
    st.characters(codec="utf-8", exclude_categories=("C", "Z"), exclude_characters=QUOTES),
    min_size=1,
    max_size=12,
)


@given(st.lists(WORD, min_size=1, max_size=4), st.data())
def test_a_text_is_found_however_it_arrives(words, data):
    phrase = " ".join(words)
    text = f"before {phrase} after\n"
    shown = ShownJudge(f'"{phrase}" appears')
    place, found = 0, []
    while place < len(text):
        size = data.draw(st.integers(1, 8))
        found.append(shown.shows(text[place : place + size], still=0).met)
        place += size
    assert YES in found


HOSTILE = [
    *("a" * 300_000, "\n" * 300_000, "1/" * 150_000, "[[[[(" * 60_000, "- - " * 75_000),
    *("y/n " * 75_000, "?(" * 150_000, "::" * 150_000, "a@b: " * 60_000, "❯\n" * 99_000),
    *("? x\n" * 75_000, "failed 1 x " * 30_000, " " * 300_000, "\x00\x1b" * 100_000),
]


@pytest.mark.timeout(60)  # what takes more than its length's time never ends
def test_hostile_text_takes_no_longer_than_other_text():
    condition = (
        '"Build finished" appears or "a" is gone or /(x+x+)+y/ appears or '
        "100 % and fails or failed < 0 or prompt returns or asks for input or "
        "asks yes or no"
    )
    for text in HOSTILE:
        is_met_by(condition, text)


LINES = st.sampled_from(
    ["error: no", "1 failed", "Continue? [Y/n] ", "45%", "3/5", "me@host:~$ ", ""]
)
FORMS = st.sampled_from(
    [
        *('"x" appears', '"e" is gone', "/e$/ appears", "exits", "prompt returns"),
        *("asks for input", "asks yes or no", "quiet for 3 s", "9 %", "failed >= 1"),
    ]
)


@given(
    st.lists(FORMS, min_size=1, max_size=4, unique=True),
    st.lists(st.tuples(st.one_of(LINES, st.text(max_size=40)), st.booleans())),
)
def test_an_or_holds_exactly_when_one_of_its_sides_does(forms, lines):
    together = ShownJudge(" or ".join(forms))
    alone = [ShownJudge(form) for form in forms]
    for line, ends in [*lines, ("", False)]:
        more = f"{line}\n" if ends else line
        found = [one.shows(more).met for one in alone]
        assert together.shows(more).met is (YES if YES in found else NO)
