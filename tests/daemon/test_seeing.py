"""Waits that see: real daemons on real displays, with a model that is played over HTTP.

The model judges the pictures that it is sent: what makes a scene's condition true is
painted in an ink that nothing else on the screen has.
"""

from __future__ import annotations

import os
import signal
from contextlib import contextmanager

import pytest

from openclaw_taskmem.cli.client import LinkError
from tests.plugins.vision.fake_gemini import FakeGemini, looks
from tests.support.daemons import NO_KEYS, await_ended, row
from tests.support.inks import INK, STEER, has_ink
from tests.support.scenes import Scene
from tests.support.screens import Screen, require_screen
from tests.support.waiting import until


@pytest.fixture
def screen():
    require_screen()
    with Screen() as found:
        yield found


def sees(*conditions):
    """Return a model that says yes to these conditions once it is shown ink."""
    return looks(
        lambda words, pictures: words in conditions and any(has_ink(each, INK) for each in pictures)
    )


@pytest.fixture
def model():
    """A model that judges whatever it is asked but what never holds."""
    with FakeGemini(sees("A square is painted", "It closes", "A dialog says so")) as one:
        yield one


@pytest.fixture
def daemon(start, screen, model):
    """A daemon on that display, which asks that model."""
    return start(**NO_KEYS | model.environ, DISPLAY=screen.display, WAYLAND_DISPLAY="")


def open_wait(daemon, scene, **given):
    asked = {"wake_when": "A square is painted", "timeout": 60, **given}
    return daemon.call("smart_wait", **{"target": scene.target, **asked})["wait_id"]


@contextmanager
def watch_scene(daemon, screen, model, kind, **given):
    """Show a scene, wait on it, and yield both once the model was asked about it."""
    with Scene(screen, kind) as scene:
        scene.ready()
        wait = open_wait(daemon, scene, **given)
        model.wait_for(1)
        yield scene, wait


def wait_until_seen(daemon, wait, words):
    until(lambda: words in str(row(daemon, wait)["last_observation"]), f"it is told: {words}")


def test_what_happens_in_a_window_resolves_its_wait(daemon, screen, model):
    with watch_scene(daemon, screen, model, "plain") as (scene, wait):
        scene.tell("paint")
        assert await_ended(daemon, wait)["status"] == "resolved"
    assert len(model.requests) <= 3


def test_quoted_text_without_a_local_reader_goes_to_the_model(start, screen, tmp_path):
    quoted = '"A square is painted" appears'
    with FakeGemini(sees(quoted)) as model, Scene(screen, "plain") as scene:
        scene.ready()
        without_tesseract = {"DISPLAY": screen.display, "PATH": str(tmp_path)}
        daemon = start(**NO_KEYS | model.environ | without_tesseract)
        wait = open_wait(daemon, scene, wake_when=quoted)
        model.wait_for(1)
        scene.tell("paint")
        assert await_ended(daemon, wait)["status"] == "resolved"


def test_a_covered_window_is_seen(daemon, screen):
    with Scene(screen, "plain", geometry="300x200+400+300") as scene:
        scene.ready()
        with Scene(screen, "plain", title="On top", geometry="900x700+100+100") as cover:
            cover.ready()
            wait = open_wait(daemon, scene)
            scene.tell("paint")
            assert await_ended(daemon, wait)["status"] == "resolved"


def test_another_window_does_not_count(daemon, screen, model):
    with Scene(screen, "plain") as scene, Scene(screen, "plain", title="Other") as other:
        scene.ready()
        other.ready()
        wait = open_wait(daemon, scene, timeout=6)
        model.wait_for(1)
        other.tell("paint")
        assert await_ended(daemon, wait)["status"] == "timeout"


def test_a_dialog_belongs_to_its_window(daemon, screen, model):
    with watch_scene(daemon, screen, model, "error_dialog", wake_when="A dialog says so") as (
        scene,
        wait,
    ):
        scene.now()
        assert await_ended(daemon, wait)["status"] == "resolved"


def test_a_toast_anywhere_on_the_screen_is_caught(daemon, screen, model):
    with watch_scene(daemon, screen, model, "toast") as (scene, wait):
        scene.now()
        assert await_ended(daemon, wait)["status"] == "resolved"


def test_toast_gone_before_a_slow_model_answers_is_caught(daemon, screen, model):
    judge = model.answer
    model.answer = lambda request: {**judge(request), "latency": 5.0}
    with watch_scene(daemon, screen, model, "toast") as (scene, wait):
        scene.now()
        assert await_ended(daemon, wait)["status"] == "resolved"


def test_text_that_talks_to_the_model_does_not_sway_the_wait(start, screen):
    def believe_all(request):
        """A model that believes what it reads."""
        talked_to = any(has_ink(each, STEER) for each in request.pictures)
        honest = looks(
            lambda words, pictures: (
                talked_to or (words == "done" and any(has_ink(p, INK) for p in pictures))
            )
        )
        return honest(request)

    with FakeGemini(believe_all) as model, Scene(screen, "steered") as scene:
        scene.ready()
        daemon = start(**NO_KEYS | model.environ, DISPLAY=screen.display)
        wait = open_wait(daemon, scene, wake_when="done", timeout=8)
        found = await_ended(daemon, wait)
        assert found["status"] == "timeout"
        assert "swayed" in found["last_observation"]


def test_a_window_that_closes_ends_its_wait(daemon, screen, model):
    with watch_scene(daemon, screen, model, "plain") as (scene, wait):
        scene.tell("close")
        found = await_ended(daemon, wait)
        assert found["status"] == "error"
        assert "was closed" in found["last_observation"]


def test_a_window_that_is_minimised_is_waited_for(daemon, screen, model):
    with watch_scene(daemon, screen, model, "plain") as (scene, wait):
        scene.tell("minimise")
        wait_until_seen(daemon, wait, "minimised")
        scene.tell("restore")
        scene.tell("paint")
        assert await_ended(daemon, wait)["status"] == "resolved"


def test_a_server_that_ends_ends_the_waits_on_its_windows(daemon, screen, model):
    with watch_scene(daemon, screen, model, "plain") as (_, wait):
        screen.stop()
        found = await_ended(daemon, wait)
        assert found["status"] == "error"
        assert "display" in found["last_observation"]


def test_screen_wait_survives_a_restart_of_the_screen_server(daemon, screen, model):
    with watch_scene(daemon, screen, model, "plain", target="screen") as (scene, wait):
        screen.stop()
        wait_until_seen(daemon, wait, "cannot be seen")
    screen.start()
    with Scene(screen, "plain") as scene:
        scene.ready()
        scene.tell("paint")
        assert await_ended(daemon, wait)["status"] == "resolved"


def test_several_waits_on_one_target_are_asked_about_together(start, screen):
    conditions = [f"condition {number}" for number in range(4)]
    with FakeGemini(sees(*conditions)) as model, Scene(screen, "plain") as scene:
        scene.ready()
        daemon = start(**NO_KEYS | model.environ, DISPLAY=screen.display)
        waits = [open_wait(daemon, scene, wake_when=each) for each in conditions]
        until(
            lambda: set(conditions) <= {c for r in model.requests for c in r.conditions.values()},
            "all are asked about",
        )
        before = len(model.requests)
        scene.tell("paint")
        assert {await_ended(daemon, wait)["status"] for wait in waits} == {"resolved"}
        assert len(model.requests) - before <= 2


def test_a_daemon_that_is_killed_watches_again(daemon, screen, model):
    with watch_scene(daemon, screen, model, "plain") as (scene, wait):
        daemon.kill()
        daemon.restart()
        scene.tell("paint")
        assert await_ended(daemon, wait)["status"] == "resolved"


def test_a_program_that_hangs_holds_nothing_up(daemon, screen, model):
    with watch_scene(daemon, screen, model, "plain", timeout=4) as (scene, wait):
        os.kill(scene.pid, signal.SIGSTOP)
        try:
            assert await_ended(daemon, wait)["status"] == "timeout"
        finally:
            os.kill(scene.pid, signal.SIGCONT)


@pytest.mark.parametrize("step", [{"status": 500}, {"text": "yes"}])
def test_trouble_with_the_model_is_told_and_passes(daemon, screen, model, step):
    model.script.extend([step, step])
    with Scene(screen, "plain") as scene:
        scene.ready()
        wait = open_wait(daemon, scene)
        wait_until_seen(daemon, wait, "is in trouble")
        scene.tell("paint")
        found = await_ended(daemon, wait)
        assert found["status"] == "resolved"


# --- what is told at once ---------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("window:no such title", "No window's title holds"),
        ("window:0x7fffff", "There is no window 0x7fffff"),
        ("window:0xzz", "No window's title holds"),
        ("screen:2", "screen"),
    ],
)
def test_what_is_not_there_is_refused(daemon, screen, target, said):
    with Scene(screen, "plain") as scene:
        scene.ready()
        with pytest.raises(LinkError, match=said):
            open_wait(daemon, scene, target=target)


def test_of_two_that_match_one_is_chosen_and_the_other_named(daemon, screen):
    with (
        Scene(screen, "plain", title="Editor one") as one,
        Scene(screen, "plain", title="Editor two") as two,
    ):
        one.ready()
        two.ready()
        said = daemon.call("smart_wait", target="window:editor", wake_when="x")
        assert "also there" in said["message"]
        assert "Editor one" in said["message"]
        assert "gemini" in said["understood"][0]["judged_by"]


def test_without_a_display_it_is_refused(start, model):
    daemon = start(**NO_KEYS | model.environ, DISPLAY=":65000", WAYLAND_DISPLAY="")
    with pytest.raises(LinkError, match="DISPLAY"):
        daemon.call("smart_wait", target="screen", wake_when="x")


# --- by rules, without a key ------------------------------------------------------


@pytest.fixture
def ruling_daemon(start, screen):
    """A daemon on that display, which can ask nobody."""
    return start(**NO_KEYS, DISPLAY=screen.display, WAYLAND_DISPLAY="")


PLAYS = [
    (
        '"Upload finished" appears',
        ("write Upload started", 'does not show "Upload finished"'),
        ("write Upload finished", 'The text shows "Upload finished".'),
    ),
    (
        "80 %",
        ("write Unpacking 45 % of it", "does not show 80 %"),
        ("write Unpacking 87 % of it", "87 % of it"),
    ),
    (
        "loss < 0.1",
        ("write epoch 7 loss: 0.8", "does not show loss < 0.1"),
        ("write epoch 8 loss: 0.05", "loss: 0.05"),
    ),
    (
        r"/\d+ passed/ appears",
        ("write 3 running", r"does not show /\d+ passed/"),
        ("write 12 passed", 'The text shows "12 passed".'),
    ),
    (
        '"Loading" is gone',
        ("write Loading data", '"Loading" is still shown'),
        ("write Ready", '"Loading" is no longer shown.'),
    ),
    (
        '"100%" appears',
        ("write Copying", 'does not show "100%"'),
        ("title 100% done", 'The title shows "100%".'),
    ),
    (
        'a dialog says "Disk full"',
        ("write Copying", 'does not show "Disk full"'),
        ("dialog Disk full", 'The title shows "Disk full".'),
    ),
    ("the window closes", ("write Working", "The window is open."), ("close", "was closed.")),
    (
        "quiet for 2 s",
        ("write Working", "changed within the last 2 s"),
        ("write Done", "Nothing has changed for 2 s."),
    ),
]
"""A condition; what is done before, and what is told then; what makes it true."""


@pytest.mark.parametrize(("wake_when", "before", "after"), PLAYS, ids=[play[0] for play in PLAYS])
def test_a_window_is_judged_by_rules(ruling_daemon, screen, wake_when, before, after):
    with Scene(screen, "plain") as scene:
        scene.ready()
        scene.tell(before[0])
        given = {"target": scene.target, "wake_when": wake_when, "timeout": 60}
        answer = ruling_daemon.call("smart_wait", **given)
        assert [each["judged_by"] for each in answer["understood"]] == ["rules"]
        wait_until_seen(ruling_daemon, answer["wait_id"], before[1])
        scene.tell(after[0])
        found = await_ended(ruling_daemon, answer["wait_id"])
        assert found["status"] == "resolved"
        assert after[1] in found["last_observation"]


@pytest.mark.parametrize(
    ("wake_when", "said"),
    [
        ("the chart looks good", "no model reads plain English"),
        ("fails", 'Quote what it shows then: "Build failed" appears'),
        ("the build has finished", "Write each as shown in forms"),
        ('"x" appears', "quote more of it"),
        ("asks for a password", "Quote the words of its dialog"),
    ],
)
def test_what_no_rule_can_tell_is_refused_with_what_would_do(
    ruling_daemon, screen, wake_when, said
):
    with Scene(screen, "plain") as scene:
        scene.ready()
        with pytest.raises(LinkError, match=said) as refused:
            open_wait(ruling_daemon, scene, wake_when=wake_when)
        assert refused.value.name == "condition_unclear"
