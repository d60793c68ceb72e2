"""Format the status of the daemon and its readers for people."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import click

from openclaw_taskmem.domain.text.texts import to_one_line, to_printable

_THOUSAND: Final = 1000
_MIB: Final = 1024 * 1024
_FEW_TOKENS: Final = 100
"""Counts of tokens below this are printed exactly."""
_CENT_TENTH: Final = 0.001


def describe_reader(row: Any) -> str:  # noqa: ANN401 - JSON
    """Format a row of `readers` in `taskmem status --json` as one line."""
    state = row["state"]
    if state == "off":
        return f"{row['name']}: {row['detail']}"
    asked, limit = row["asked"], row["limit"]
    count = f"{asked}" if limit is None else f"{asked} of {limit}"
    one = asked == 1 and limit in (None, 1)
    model = f" ({row['model']})" if row["model"] else ""
    sentence = (
        f"{row['name']}{model}: {count} question{'' if one else 's'} today, "
        f"{_format_tokens(row['tokens_in'])} tokens in, {_format_tokens(row['tokens_out'])} out, "
        f"{_format_cost(row['cost_usd'])}"
    )
    return sentence if state == "ready" else f"{sentence}; {state}: {row['detail']}"


def _format_tokens(tokens: int) -> str:
    if tokens < _FEW_TOKENS:
        return str(tokens)
    thousands = round(tokens / _THOUSAND, 1)
    if thousands < _THOUSAND:
        return f"{thousands:.1f} k"
    return f"{thousands / _THOUSAND:.1f} M"


def _format_cost(dollars: float | None) -> str:
    if dollars is None:
        return "cost unknown"
    if dollars == 0:
        return "no cost yet"
    if dollars < _CENT_TENTH:
        return f"less than ${_CENT_TENTH}"
    return f"about ${dollars:.3f}" if dollars < 1 else f"about ${dollars:.2f}"


def _describe_retention(keeps: Mapping[str, Any]) -> str:
    """Say how large the database is, and how long ended rows are kept."""
    taken, most = keeps["bytes"], keeps["most_bytes"] / _MIB
    now = "" if taken is None else f"{taken / _MIB:,.1f} MiB, "
    bound = "shared by homes" if keeps.get("shared") else f"at most {most:,.0f} MiB"
    dropped = keeps.get("dropped")
    return (
        f"{now}{bound}; what has ended, for {keeps['days']:g} days"
        f"{'; only what is never dropped is left' if keeps['full'] else ''}"
        f"{f'; dropped since its start: {dropped}' if dropped else ''}"
    )


def print_status(found: Mapping[str, Any]) -> None:
    """Print the daemon's answer to `status`."""
    click.echo(
        f"taskmem {found['version']} runs as process {found['pid']}\n"
        f"home      {found['home']}\n"
        f"database  {found['database']}"
    )
    if keeps := found.get("keeps"):
        click.echo(f"keeps     {_describe_retention(keeps)}")
    for kind in ("tasks", "runs", "waits", "wakes"):
        states = [f"{n} {state}" for state, n in found.get(kind, {}).items() if n]
        click.echo(f"{kind:<9} {', '.join(states) or 'none'}")
    # A daemon of an older version reports neither these nor readers.
    if unsent := found.get("unsent"):
        wakes = f"{unsent} wake{'' if unsent == 1 else 's'}"
        click.echo(f"unsent    {wakes} found no way out; the cure: taskmem doctor")
    click.echo(f"plug-ins  {found['plugins']} on")
    if transport := found.get("transport"):
        why = f": {found['transport_note']}" if found["transport_note"] else ""
        click.echo(f"transport {_format_line(transport + why)}")
    for line in found.get("activity", ()):
        click.echo(f"activity  {_format_line(line)}")
    for row in found.get("readers", ()):
        click.echo(f"reader    {_format_line(describe_reader(row))}")
    for sentence in found.get("differences", ()):
        click.echo(f"setting   {_format_line(sentence)}")


def _format_line(text: str) -> str:
    """Return a text as one line without control characters."""
    return to_printable(to_one_line(text), "\ufffd")
