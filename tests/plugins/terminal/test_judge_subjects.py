"""A judge of text asks what a line is about, not only what it says."""

import pytest

from taskmem_hookspecs import Met
from tests.plugins.terminal.judged import met

YES, NO, UNSURE = Met.YES, Met.NO, Met.UNSURE
STAGES = (
    "[stage 1/2] frontend build\nfrontend build finished\n"
    "[stage 2/2] backend build\nbackend: error: no such symbol\nbackend build failed\n"
)
APT = "Reading package lists... Done\nE: Unable to locate package zz\n"
CURL = (
    "  % Total    % Received % Xferd\n"
    " 75 8789k   75 6591k    0     0  2963k      0  0:00:02\n"
)
HELP = "usage: pack FILE\nexit status: 0 if the build finished, 1 if it failed\n"


def test_a_failure_is_that_of_what_is_named():
    assert met("the frontend build fails", STAGES, exit_status=1) is UNSURE
    assert met("the backend build fails", STAGES, exit_status=1) is YES
    assert met("test overflow fails", "2 failed in 3s\n", exit_status=1) is UNSURE


def test_a_failure_is_no_failure_of_another_program():
    assert met("nginx fails", APT, exit_status=100) is UNSURE
    assert met("apt fails", APT, exit_status=100) is YES
    assert met("git reports an error", APT) is UNSURE
    assert met("an error is reported", APT) is YES


def test_the_end_of_a_program_is_no_end_of_another():
    done = "Collecting six\nSuccessfully installed six-1.17\n"
    assert met("pip is done", done, exit_status=0) is YES
    assert met("ffmpeg is done", done, exit_status=0) is UNSURE
    assert met("the process exits", done, exit_status=0) is YES


def test_a_stage_that_was_skipped_is_not_done():
    text = "[publish] skipped\npipeline ok\n"
    assert met("publish is done", text, exit_status=0) is UNSURE


def test_a_help_text_tells_of_nothing_that_happened():
    assert met("the build finished", HELP, exit_status=0) is UNSURE


def test_another_variant_of_a_thing_is_another_thing():
    text = "    Finished `dev` profile [unoptimized] target(s) in 1.0s\n"
    assert met("the build is finished", text) is YES
    assert met("the release build is finished", text, exit_status=0) is UNSURE


@pytest.mark.parametrize(
    "total", ["total size is 0  speedup is 0.00\n", "FINISHED --\n"]
)
def test_totals_do_not_say_that_all_went_well(total):
    assert met("the transfer succeeded", total) is NO


def test_words_that_were_typed_are_no_report():
    text = "=# select 'migration finished';\n migration finished\n"
    assert met("the migration finished", text) is NO


def test_a_bar_of_one_work_is_no_bar_of_another():
    assert met("the download is at 50%", CURL) is YES
    assert met("the upload reaches 50%", CURL) is not YES
    text = "mb I  I16..4: 100.0%  0.0%  0.0%\n"
    assert met("encoding is 100% done", text) is not YES
    assert met("packaging is 67% done", "[ 75%] Built target meter\n") is not YES


def test_what_is_ready_is_what_was_asked_for():
    exporter = "metrics exporter listening on :9102\n"
    assert met("the server is ready to accept requests", exporter) is UNSURE
    assert met("the metrics exporter is listening", exporter) is YES
    cache = "cache-1 | Ready to accept connections tcp\n"
    assert met("the api is ready", cache) is UNSURE
    flask = "WARNING: not for production.\n * Running on http://127.0.0.1:5050\n"
    assert met("the production server is up", flask) is UNSURE


def test_the_prompt_of_another_host_does_not_come_back_at_an_end():
    text = "ssh: connect to host web-1 port 22: Connection refused\n"
    assert met("the remote shell is ready", text, exit_status=255) is NO


def test_what_is_being_tried_is_not_done():
    assert (
        met("the app has a database connection", "Connecting to database...\n")
        is UNSURE
    )


def test_a_number_counts_what_stands_beside_it():
    text = "import finished: 1000 customers, 40 orders imported\n"
    assert met("1000 orders have been imported", text) is not YES
    assert met("1000 customers have been imported", text) is YES


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        ("I'm prompted for the vault password", "Vault password: "),
        ("the wizard asks for the region", "Region [eu-west-1]: "),
        ("there is a compiler warning", "a.c:1:2: warning: unused variable\n"),
        ("a request is answered with status 500", "GET /err 500\n"),
        ("val_loss is below 0.25", "epoch 6: val_loss 0.217 val_acc 0.9\n"),
        ("an error is reported", "Parse error: no such table: payments\n"),
    ],
)
def test_more_forms_are_known(condition, text):
    assert met(condition, text) is YES
