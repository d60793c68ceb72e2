"""Whether a home still has its database to itself.

A home that is given the database of another leaves word there. The other looks before
each pass: what it would mind for everybody until then may be on its way already.
"""

from __future__ import annotations

from typing import Final

from openclaw_taskmem.engine.shell import Shell
from taskmem_hookspecs import Bookmark, Change

BOOKMARK: Final = "shared"


def begin(shell: Shell) -> None:
    """Leave word that the database may be another's, or look whether there is any."""
    if shell.sole:
        look(shell)
    elif shell.store.read_bookmark(BOOKMARK) is None:
        mark = Bookmark(name=BOOKMARK, value=shell.home or "")
        shell.commit(Change(bookmarks=(mark,)))


def look(shell: Shell) -> None:
    """Mind what is of this home alone from now on, if another has come."""
    if shell.only is None and shell.store.read_bookmark(BOOKMARK) is not None:
        shell.shared.set()
