"""`taskmem accept`: a person completes a task whose completion was refused."""

from __future__ import annotations

import sys
from collections.abc import Mapping

from openclaw_taskmem.cli import hosts


def explain_refusal(environ: Mapping[str, str]) -> str | None:
    """Return why no person seems to ask; None: one may.

    Who has a shell can make a terminal: this keeps out who acts by mistake, and the
    log names the process that asked.
    """
    host = hosts.find_host_variable(environ)
    if host is not None:
        return (
            f"{host} is set, so that an agent's host runs this. Only a person may "
            "accept: call it in a terminal of your own."
        )
    if not sys.stdin.isatty():
        return "Only a person at a terminal may accept; call it in one."
    return None
