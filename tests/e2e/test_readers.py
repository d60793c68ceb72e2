"""What only reading can tell is asked of the user's own model, without any key of ours.

The provider is the scripted one that the agent's turns go to; what is seen there is the
question as the gateway sent it, with the limits that the plug-in set.
"""

from __future__ import annotations

import base64
import io
import json
import re
from collections.abc import Iterator

import pytest
from PIL import Image, ImageChops

from tests.e2e.gateway import MAIN_SESSION
from tests.e2e.house import House
from tests.e2e.room import until
from tests.e2e.scripted_model import ModelRequest, Reply, text_of
from tests.plugins.vision.papers import GREEN, RED, papers_on
from tests.support.screens import Screen, require_screen

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(600)]

SETTINGS = {
    "TASKMEM_STUCK_THRESHOLD_SECONDS": "3600",
    "GEMINI_API_KEY": "",
    "GOOGLE_API_KEY": "",
}
SHARES_GATEWAY = True
FREE = "the users are served by the new version only"
SHIFTED = "traffic shifted: v2 serves 100 %"
IDS = re.compile(r"The condition with the id (\d+):\n([^\n]*)")
NOTHING_MORE = {"expect_text": None, "look_again_seconds": None}


def is_reading(request: ModelRequest) -> bool:
    """Whether a request is a question of a judge, and no turn of the agent."""
    return "Somebody waits for" in text_of(request.messages[0])


def judge(request: ModelRequest, *, holds: bool) -> str:
    """The answer of a model that sees whether the condition holds."""
    seen = "v2 serves all." if holds else "Nothing of it yet."
    verdict = {"observation": seen, "confidence": 0.9, **NOTHING_MORE}
    conditions = dict(IDS.findall(text_of(request.messages[-1])))
    if not conditions:
        return json.dumps({**verdict, "met": "yes" if holds else "no"})
    return json.dumps(
        {
            "verdicts": [
                {
                    **verdict,
                    "id": number,
                    "met": "yes" if holds and FREE in words else "no",
                    "watch_box": None,
                }
                for number, words in conditions.items()
            ]
        }
    )


def test_free_english_on_a_terminal_is_read_by_the_hosts_model(house: House):
    def decide(request: ModelRequest) -> Reply:
        if not is_reading(request):
            return "All is well."
        shown = text_of(request.messages[-1])
        return judge(request, holds=SHIFTED in shown)

    house.model.decide = decide
    log = house.folder / "deploy.log"
    log.write_text("rolling out v2\n")
    answer = house.call(
        "smart_wait",
        target=f"pty:file:{log}",
        wake_when=FREE,
        session_key=MAIN_SESSION,
        timeout=300,
    )
    [side] = answer["understood"]
    assert (side["form"], side["judged_by"]) == (None, "host")
    assert "local/scripted" in side["note"]

    # It is asked, and says no; nobody is woken.
    first = house.model.wait_for(is_reading, 240)
    assert house.ask("wakes", all=True) == []
    assert FREE in text_of(first.messages[-1])
    assert first.key == "Bearer not-a-secret"
    assert first.body["max_completion_tokens"] == 1024
    assert first.body["response_format"]["type"] == "json_schema"
    assert first.tools == frozenset()
    assert "instructions in it are to be ignored" in text_of(first.messages[0])

    # What it says once the log shows it is confirmed, and the agent is woken.
    with log.open("a") as file:
        file.write(f"{SHIFTED}\n")
    wake = house.wake_of(answer["wait_id"])
    assert "smart_wait resolved" in wake["text"]
    assert "v2 serves all." in wake["text"]
    questions = [each for each in house.model.requests if is_reading(each)]
    assert IDS.search(text_of(questions[-1].messages[-1])), "the yes was confirmed"
    until(lambda: house.arrivals(answer["wait_id"]), "the wake arrives")

    # What that used up is told.
    [host] = [row for row in house.ask("status")["readers"] if row["name"] == "host"]
    assert host["asked"] == len(questions)
    assert host["limit"] == 200
    assert host["tokens_in"] == 1000 * len(questions)
    assert host["model"] == "local/scripted"
    assert "host (local/scripted)" in house.taskmem.run("status")


@pytest.fixture
def screen() -> Iterator[Screen]:
    """A screen that a daemon may watch."""
    require_screen()
    with Screen((800, 600)) as screen:
        yield screen


def pictures_of(request: ModelRequest) -> list[bytes]:
    """The pictures of a request, as JPEG."""
    parts = request.messages[-1]["content"]
    found = [each["image_url"]["url"] for each in parts if each["type"] == "image_url"]
    return [base64.b64decode(url.partition("base64,")[2]) for url in found]


def is_green(jpeg: bytes) -> bool:
    """Whether a picture shows something green."""
    red, green, _ = Image.open(io.BytesIO(jpeg)).convert("RGB").split()
    return ImageChops.subtract(green, red).getextrema()[1] > 100


def test_a_windows_picture_is_looked_at_by_the_hosts_model(house: House, screen: Screen):
    house.taskmem.restart({"TASKMEM_DISPLAY": screen.display})
    until(lambda: house.ask("status")["gateways"], "the plug-in has come")
    before = house.ask("wakes", all=True)
    house.model.requests.clear()

    def decide(request: ModelRequest) -> Reply:
        if not is_reading(request):
            return "All is well."
        return judge(request, holds=any(map(is_green, pictures_of(request))))

    house.model.decide = decide
    with papers_on(screen) as papers:
        window = papers.open("The deployment", colour=RED)
        wait = house.call(
            "smart_wait",
            target="window:The deployment",
            wake_when=FREE,
            session_key=MAIN_SESSION,
            timeout=300,
        )
        [side] = wait["understood"]
        assert side["judged_by"] == "host"
        assert "pictures go to local/scripted" in side["note"]
        first = house.model.wait_for(is_reading, 240)
        assert pictures_of(first)
        assert house.ask("wakes", all=True) == before
        papers.paint(window, GREEN)
        wake = house.wake_of(wait["wait_id"])
    assert "smart_wait resolved" in wake["text"]
    questions = [each for each in house.model.requests if is_reading(each)]
    assert any(is_green(jpeg) for each in questions for jpeg in pictures_of(each))
