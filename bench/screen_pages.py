"""Pages as programs show them: HTML that Chromium renders, from titles and lines."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import Final

_STYLE: Final = """
body { margin: 0; font: 14px/1.5 "DejaVu Sans", sans-serif; color: #1f2328; background: #fff }
header { background: #24292f; color: #f0f6fc; padding: 10px 16px; font-size: 13px }
header span { margin-right: 18px } .split { display: flex }
nav { width: 200px; padding: 16px; font-size: 13px; color: #57606a;
border-right: 1px solid #d0d7de }
nav div { padding: 3px 0 } main { padding: 16px 28px; flex: 1 }
h1 { font-size: 22px; font-weight: 500 }
label { display: block; font-weight: 600; margin: 8px 0 2px }
.value { border: 1px solid #d0d7de; border-radius: 6px; padding: 5px 10px; width: 380px }
button { background: #1f883d; color: #fff; border: 0; border-radius: 6px; padding: 7px 14px;
margin: 12px 0 } p { margin: 8px 0 } td { border: 1px solid #d8dee4; padding: 5px 14px }
.dark { background: #101418; color: #d5dbe1; min-height: 640px; padding: 12px;
font: 14px/1.4 "DejaVu Sans Mono", monospace } .dark p { margin: 0; white-space: pre }
.said { background: #eaf3ff; border-radius: 10px; padding: 6px 12px; margin: 8px 0; width: 520px }
"""
_TOP: Final = {
    "settings": ("Overview", "Projects", "People", "Billing", "Help", "Sign out"),
    "docs": ("Home", "Documentation", "Blog", "Search", "Log in"),
    "table": ("File", "Edit", "View", "Insert", "Format", "Help"),
    "mail": ("Reply", "Forward", "Archive", "Junk", "Delete", "More"),
    "chat": ("Threads", "Mentions", "Drafts", "Channels", "Search"),
}
_SIDE: Final = {
    "settings": ("General", "Access", "Notifications", "Integrations", "Security", "Danger zone"),
    "docs": ("Getting started", "Guides", "Reference", "Changelog", "Community"),
    "table": ("Starred", "Recent", "Shared with me", "Trash"),
    "mail": ("Inbox 12", "Sent", "Drafts 3", "Archive", "Junk", "Trash"),
    "chat": ("general", "random", "standup", "support", "design"),
}
APPLICATIONS: Final = {
    "settings": "firefox",
    "docs": "chromium",
    "table": "firefox",
    "mail": "thunderbird",
    "chat": "slack",
    "terminal": "xterm",
}
"""The class of the window that shows a kind of page."""
BROWSERS: Final = frozenset({"firefox", "chromium"})


@dataclass(frozen=True, slots=True)
class ShownPage:
    """What one window shows."""

    kind: str
    title: str
    lines: Sequence[str]

    def render(self) -> str:
        """Return the page as HTML."""
        if self.kind == "terminal":
            body = "".join(f"<p>{escape(line)}</p>" for line in self.lines)
            return _wrap(f"<div class=dark>{body}</div>")
        top = "".join(f"<span>{word}</span>" for word in _TOP[self.kind])
        side = "".join(f"<div>{word}</div>" for word in _SIDE[self.kind])
        body = "".join(_render_line(self.kind, line) for line in self.lines)
        if self.kind == "table":
            body = f"<table>{body}</table>"
        main = f"<main><h1>{escape(self.title)}</h1>{body}</main>"
        return _wrap(f"<header>{top}</header><div class=split><nav>{side}</nav>{main}</div>")


def _wrap(body: str) -> str:
    return f"<!doctype html><meta charset=utf-8><style>{_STYLE}</style><body>{body}"


def _render_line(kind: str, line: str) -> str:
    text = escape(line.strip("[]"))
    if line.startswith("["):
        return f"<button>{text}</button>"
    if kind == "table":
        words, _, last = text.rpartition(" ")
        return f"<tr><td>{words}</td><td>{last}</td></tr>"
    label, colon, value = text.partition(": ")
    if kind == "settings" and colon:
        return f"<label>{label}</label><div class=value>{value}</div>"
    if kind == "chat":
        return f"<div class=said>{text}</div>"
    return f"<p>{text}</p>"
