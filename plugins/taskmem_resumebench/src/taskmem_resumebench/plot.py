"""Draw a report as an SVG picture, whose colours are readable on white and on black."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from html import escape
from typing import Any, Final

_TITLE: Final = "Tasks done right after interruptions, by what the agent is told"
_LABELS: Final = {
    "packet": "Task memory: packet",
    "packet_and_thread": "Task memory: packet and thread",
    "memory": "your memory",
    "notes_before_and_after": "notes, before and after each call",
    "openclaw_recovery": "a model of OpenClaw's recovery",
    "notes/careful": "notes, and a look at the next step",
    "notes": "notes, after each step",
    "nothing": "nothing",
}
_PARTS: Final = (
    ("conditions", "killed at every step", "#2f81f7"),
    ("few_kills", "killed three times at most", "#a371f7"),
)
_GREY: Final = "#7d8590"
_WIDTH, _LEFT, _BAR, _LINE = 720, 230, 260, 13
_ROW, _TOP = 40, 62


def draw_plot(report: Mapping[str, Any]) -> str:
    """Return the picture of a report: two bars for each memory, with what was done twice."""
    names = [name for name in _LABELS if all(name in report[part] for part, _, _ in _PARTS)]
    height = _TOP + _ROW * len(names)
    lines = (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}" role="img">',
        f'<g font-family="sans-serif" font-size="13" fill="{_GREY}">',
        f"<title>{_TITLE}</title>",
        f'<text x="8" y="20" font-size="15" font-weight="bold">{_TITLE}</text>',
        *_draw_legend(),
        *(line for row, name in enumerate(names) for line in _draw_row(report, name, row)),
        "</g></svg>",
        "",
    )
    return "\n".join(lines)


def _draw_legend() -> Iterator[str]:
    for place, (_, words, colour) in enumerate(_PARTS):
        x = _LEFT + 190 * place
        yield f'<rect x="{x}" y="34" width="10" height="10" fill="{colour}"/>'
        yield f'<text x="{x + 16}" y="44">{words}</text>'


def _draw_row(report: Mapping[str, Any], name: str, row: int) -> Iterator[str]:
    y = _TOP + _ROW * row
    yield f'<text x="8" y="{y + 18}">{escape(_LABELS[name], quote=False)}</text>'
    for place, (part, _, colour) in enumerate(_PARTS):
        found = report[part][name]
        top = y + (_LINE + 2) * place
        width = max(round(_BAR * found["success"]), 2)
        yield (
            f'<rect x="{_LEFT}" y="{top}" width="{_BAR}" height="{_LINE}" fill="{_GREY}"'
            ' fill-opacity="0.15"/>'
        )
        yield (f'<rect x="{_LEFT}" y="{top}" width="{width}" height="{_LINE}" fill="{colour}"/>')
        doubled, tasks = found["duplicated_effects"], found["tasks"]
        words = f"{found['success']:.0%}, {doubled:,} doubled in {tasks} tasks"
        yield f'<text x="{_LEFT + _BAR + 8}" y="{top + 11}" font-size="12">{words}</text>'
