from __future__ import annotations

from datetime import timedelta

import pytest

from openclaw_taskmem.domain.conditions import targets
from taskmem_hookspecs import InvalidArguments
from taskmem_hookspecs.testing import DAWN


@pytest.mark.parametrize(
    ("text", "scheme", "name"),
    [
        ("pty:crisp-ridge", "pty", "crisp-ridge"),
        (" pty:tmux:main:1.0 ", "pty", "tmux:main:1.0"),
        ("pty:file:/var/log/a b.log", "pty", "file:/var/log/a b.log"),
        (" pty:file:/w/a\tb.log \n", "pty", "file:/w/a\tb.log "),
        ("window:VS Code", "window", "VS Code"),
        ("WINDOW: 0x4200003", "window", "0x4200003"),
        ("screen", "screen", ""),
        ("Screen", "screen", ""),
        ("queue: Writer_2", "queue", "writer_2"),
        ("Browser:tab 1", "browser", "tab 1"),
        ("http://x", "http", "//x"),
    ],
)
def test_the_forms_of_a_target(text: str, scheme: str, name: str) -> None:
    found = targets.parse_target(text)

    assert (found.scheme, found.name) == (scheme, name)


@pytest.mark.parametrize(
    "text",
    [
        *("", " ", ":", "pty", "pty:", "pty: ", "window:", "build", "a b:c"),
        *("queue", "queue:", "queue:a b", "queue:user", "queue:" + "r" * 65),
        *("screen:1", "pty:a\nb", "pty:\x1b[31m", "ſcreen:x", "pty" + ":" + "x" * 5000),
    ],
)
def test_anything_else_is_refused_and_nothing_written(text: str) -> None:
    with pytest.raises(InvalidArguments, match="Nothing was written"):
        targets.parse_target(text)


@pytest.mark.parametrize(("seconds", "is_refused"), [(59, True), (60, False), (3600, False)])
def test_an_instant_after_the_time_limit_is_refused(seconds: float, *, is_refused: bool) -> None:
    start = (DAWN + timedelta(seconds=60)).isoformat()
    targets.guard_instant(targets.parse_target("pty:a"), "0", DAWN, seconds)
    if not is_refused:
        targets.guard_instant(targets.parse_target("time:60s"), start, DAWN, seconds)
        return
    with pytest.raises(InvalidArguments, match=r"in 60 s, and .* after 59 s\. Leave timeout out"):
        targets.guard_instant(targets.parse_target("time:60s"), start, DAWN, seconds)
