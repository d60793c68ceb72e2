from __future__ import annotations

import json
import subprocess
import sys

import pytest

from taskmem_hookspecs import Met, NoAnswer
from taskmem_vision.gemini.client import Gemini
from taskmem_vision.judges.text_judge import TextJudge
from tests.plugins.vision import fake_gemini
from tests.plugins.vision.frames import frame


def serving(*arguments):
    """Start the script; it serves until its input is closed."""
    command = [sys.executable, fake_gemini.__file__, *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe)


async def test_as_a_script_it_plays_its_steps_and_keeps_a_log(tmp_path):
    script, log = tmp_path / "script.json", tmp_path / "log"
    script.write_text(json.dumps([{"text": "?"}]))
    with serving("--yes-when", "DONE", "--script", script, "--log", log) as process:
        gemini = Gemini(json.loads(process.stdout.readline()))
        with pytest.raises(NoAnswer):
            await TextJudge("one", gemini).rule(frame())
        gone = frame(tail="DONE", gone="It closed.")
        ruling = await TextJudge("two", gemini).rule(gone)
        assert ruling.met is Met.YES
        process.communicate()
    assert process.returncode == 0
    asked = [json.loads(line)["text"] for line in log.read_text().splitlines()]
    assert ["one" in asked[0], "two" in asked[1]] == [True, True]
