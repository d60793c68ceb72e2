"""Show a segment of the recording as a page: its pictures in order, with times, titles and texts.

The page is a file beside the recordings. It has no script, and nothing on it is fetched from
elsewhere; what was on the screen is shown as text.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date, tzinfo
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

from jinja2 import Environment

from taskmem_recorder.database import STRIPS, clear_strips, make_private_folder
from taskmem_recorder.store import Moment
from taskmem_recorder.windows import STRIP_TITLE

_GREATEST_NUMBER: Final = (1 << 63) - 1
_EXAMPLE: Final = "memories://recordings/2026-02-10/segment-447#t=142"


class AddressUnclear(Exception):
    """An address is none of a segment; `str()` says what one looks like."""


@dataclass(frozen=True, slots=True)
class SegmentAddress:
    """Which segment to show, and where."""

    day: date
    """On which it began, in UTC."""
    segment: int
    seconds: float = 0.0
    """Time since the segment began."""


def parse_address(url: str) -> SegmentAddress:
    """Return what an address such as `memories://recordings/2026-02-10/segment-447#t=142` names.

    Raises:
        AddressUnclear: It is none.
    """
    try:
        parts = urlsplit(url.strip())
        day, _, name = parts.path.removeprefix("/").partition("/")
        number = name.removesuffix(".mp4").removeprefix("segment-")
        place = parts.fragment.removeprefix("t=").removesuffix("s") or "0"
        address = SegmentAddress(date.fromisoformat(day), int(number), float(place))
        is_ours = (parts.scheme, parts.netloc) == ("memories", "recordings")
        if is_ours and name.startswith("segment-") and 0 < address.segment <= _GREATEST_NUMBER:
            return address
    except ValueError:
        pass
    raise AddressUnclear(
        f"{url!r} is no address of a recording; memory_recall gives them as video_url, such as "
        f"{_EXAMPLE}, where t is the place in seconds."
    )


def find_moment(moments: Sequence[Moment], seconds: float) -> Moment:
    """Return the moment that was shown at a place of its segment; there is at least one moment."""
    before = [moment for moment in moments if moment.place_ms <= seconds * 1000]
    return before[-1] if before else moments[0]


def write_strip(
    folder: Path, moments: Sequence[Moment], asked: Moment, zone: tzinfo | None
) -> Path:
    """Write the page of a segment, readable by its owner only, and return its path.

    Pages that were written before are removed. `clear_strips` removes this one.

    Args:
        folder: The folder of recordings.
        moments: All moments of the segment, in order.
        asked: The moment at which the page opens.
        zone: In which times are told; None: this machine's.

    Raises:
        OSError: It cannot be written.
    """
    clear_strips(folder)
    make_private_folder(folder / STRIPS)
    path = folder / STRIPS / f"segment-{moments[0].segment}.html"
    page = _build_strip(moments, asked, zone, {m.id: _measure_picture(folder, m) for m in moments})
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        file.write(page)
    return path


def _build_strip(
    moments: Sequence[Moment],
    asked: Moment,
    zone: tzinfo | None,
    sizes: dict[int, tuple[int, int]],
) -> str:
    """Return the page as HTML; `sizes` has width and height of each picture that there is."""
    shown = [
        {
            "moment": moment,
            "clock": f"{moment.at.astimezone(zone):%H:%M:%S}",
            "place": f"{moment.place_ms // 60_000}:{moment.place_ms // 1000 % 60:02}",
            "size": sizes.get(moment.id),
            "is_asked": moment.id == asked.id,
        }
        for moment in moments
    ]
    day = f"{moments[0].at.astimezone(zone):%Y-%m-%d}"
    application = moments[0].application
    title = f"{STRIP_TITLE} {application}, {day} {shown[0]['clock']}"
    return _PAGE.render(shown=shown, day=day, application=application, title=title) + "\n"


def _measure_picture(folder: Path, moment: Moment) -> tuple[int, int]:
    """Return width and height of a moment's picture; zeros: there is none that can be shown."""
    from PIL import Image, UnidentifiedImageError

    try:
        with Image.open(folder / (moment.picture or "")) as image:
            return image.size
    except (OSError, UnidentifiedImageError, Image.DecompressionBombError):
        return (0, 0)


_PAGE: Final = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True).from_string(
    """\
<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy"
 content="default-src 'none'; img-src 'self' file:; style-src 'unsafe-inline'">
<meta name="referrer" content="no-referrer">
<meta name="viewport" content="width=device-width">
<title>{{ title }}</title>
<style>
:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 70rem; margin: 0 auto; padding: 1rem; }
article { margin: 1rem 0; padding: 1rem; border: 1px solid; border-radius: .5rem; }
article.asked { border-width: 3px; }
article:focus { outline: none; }
h2 { margin: 0 0 .5rem; font-size: 1rem; overflow-wrap: anywhere; }
h2 bdi { font-weight: normal; }
img { max-width: 100%; height: auto; max-height: 75vh; object-fit: contain; object-position: left; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; unicode-bidi: isolate; }
</style>
<h1>{{ application }}, {{ day }}</h1>
<p>What this screen showed, moment by moment. It is on this machine only.</p>
{% for each in shown %}
<article id="moment-{{ each.moment.id }}"
{%- if each.is_asked %} class="asked" tabindex="-1" autofocus{% endif %}>
<h2><time>{{ each.clock }}</time> ({{ each.place }}) \
<bdi>{{ each.moment.page or each.moment.window_title }}</bdi></h2>
{% if each.size and each.size[0] %}
<img src="../{{ each.moment.picture }}" width="{{ each.size[0] }}" height="{{ each.size[1] }}" \
alt="Picture of the screen at {{ each.clock }}">
{% else %}
<p>No picture was kept.</p>
{% endif %}
{% if each.moment.text %}
<details><summary>Text on it</summary><pre>{{ each.moment.text }}</pre></details>
{% endif %}
</article>
{% endfor %}
</html>"""
)
