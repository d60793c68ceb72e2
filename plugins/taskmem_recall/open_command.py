"""The command `taskmem open`: show what the screen showed, in a browser."""

from __future__ import annotations

import os
import webbrowser
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

if TYPE_CHECKING:
    from taskmem_hookspecs.command_line import CommandLine


@click.command("open")
@click.argument("url")
@click.option("--no-open", is_flag=True, help="Print the page's address; open no browser.")
def command(url: str, *, no_open: bool) -> None:
    """Show in the browser what the screen showed, at URL, which memory_recall gives.

    URL is a video_url such as memories://recordings/2026-02-10/segment-447#t=142; the page opens
    at its place, t in seconds. The page is a file of this machine; the next one, or
    taskmem record forget, removes it. Only a person may open it.
    """
    from taskmem_hookspecs import TaskmemError
    from taskmem_recall.recording_store import RecordingStore
    from taskmem_recall.strip_page import AddressUnclear, find_moment, parse_address, write_strip

    cast("CommandLine", click.get_current_context().find_root().obj).require_person()
    try:
        address = parse_address(url)
    except AddressUnclear as error:
        raise click.UsageError(str(error)) from None
    folder = Path(os.environ["TASKMEM_HOME"]) / "recordings"
    store = RecordingStore(folder)
    try:
        moments = store.list_moments(segment=address.segment)
    except TaskmemError as error:
        raise click.ClickException(str(error)) from error
    finally:
        store.close()
    if not moments or abs((moments[0].at.date() - address.day).days) > 1:
        raise click.ClickException(
            f"Segment {address.segment} of {address.day} is not in the recordings; it was "
            "forgotten, or dropped when it was too old. Search again with memory_recall."
        )
    asked = find_moment(moments, address.seconds)
    path = write_strip(folder, moments, asked, None)
    page = f"{path.as_uri()}#moment-{asked.id}"
    pictures = sum(each.picture is not None for each in moments)
    noun = "moment" if len(moments) == 1 else "moments"
    click.echo(f"{len(moments)} {noun}, {pictures} with a picture: {page}")
    if not no_open:
        webbrowser.open(page)
