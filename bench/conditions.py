"""How well waits on recorded terminals are judged without a model, and how fast."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import UTC, datetime

from figures import Figure, amount

LOOKS = 200
CONDITION = (
    '"Build finished" appears or /error|failed|traceback/i appears or 100 % or loss < 0.01 or fails'
)


def judge_conditions() -> Iterator[Figure | str]:
    """Judge generated conditions, waits that a model worded, and free English."""
    from tests.plugins.terminal.generated import score_generated
    from tests.plugins.terminal.replay import entries, score, situations

    free = [one for name in ("tuning", "held_out") for one in entries(name)]
    for name, total, refused, wrong, falsely in (
        ("generated", score_generated(seed=2), 0.5, 1, 0),
        ("worded by a model", score(situations()), 5, 5, 1),
        ("free English", score(free), 100, 0.3, 0.3),
    ):
        shares = {one: 100 * total.share(one) for one in ("refused", "falsely", "missed")}
        not_right = shares["falsely"] + shares["missed"]
        yield amount(f"conditions, {name}: refused", [shares["refused"]], "%", refused)
        yield amount(f"conditions, {name}: not right", [not_right], "%", wrong)
        yield amount(f"conditions, {name}: falsely", [shares["falsely"]], "%", falsely)
        yield f"Conditions, {name}: {total.list('falsely', 'missed')}"
    yield amount("judging a busy log", [_judge_log()], "MB/s")
    yield amount("reading plain output", [_read_plain() for _ in range(5)], "MB/s")


def _read_plain() -> float:
    """Return how many megabytes a second are made lines of, at one look."""
    from taskmem_terminal.frames import LOOK_BYTES, OutputReader, ReadOptions, StreamPosition
    from tests.plugins.terminal.watched import Bytes

    line = b"[12:00:01] compiling some/module/name.c with the usual options\r\n"
    data = Bytes((line * (LOOK_BYTES // len(line) + 1))[:LOOK_BYTES])
    start = time.perf_counter()
    OutputReader().read_page(
        data, StreamPosition(0, 0), ReadOptions(columns=40, rows=10, interactive=True)
    )
    return LOOK_BYTES / 1e6 / (time.perf_counter() - start)


def _judge_log() -> float:
    """Return how many megabytes a second five forms are matched with."""
    from openclaw_taskmem.domain.conditions.conditions import parse_condition
    from taskmem_hookspecs import Frame
    from taskmem_terminal.judge import TerminalRuleJudge
    from tests.plugins.terminal.replay import run_at_once

    line = "2030-01-01 12:00:00,123 INFO worker 3/7 GET /api/items/{} 200 in 12 ms\n"
    text = "".join(line.format(n) for n in range(3000))
    tail = "\n".join(text.split("\n")[-80:])
    judge = TerminalRuleJudge(parse_condition(CONDITION), "log")
    now = datetime.now(UTC)
    frame = Frame(seen_at=now, place="", changed_at=now, text=text, tail=tail)
    started = time.process_time()
    for _ in range(LOOKS):
        run_at_once(judge.rule(frame))
    return LOOKS * len(text) / 1e6 / (time.process_time() - started)
