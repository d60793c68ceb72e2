"""Shells of a person: each its own session, with a terminal for the input of its commands."""

from __future__ import annotations

import os
import pty
import subprocess
from collections.abc import Mapping
from typing import Final

from tests.support.daemons import COMMAND
from tests.support.waiting import status_of

_END: Final = "-- ended with "


class Shell:
    """A bash in which `taskmem` runs."""

    def __init__(self, environ: Mapping[str, str]) -> None:
        self._ours, theirs = pty.openpty()
        self._process = subprocess.Popen(
            ["/bin/bash", "--norc", "--noprofile"],
            env={**environ, "TERMINAL": os.ttyname(theirs)},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        self._theirs = theirs

    def look_at_list(self) -> None:
        """Run `taskmem` alone, which prints on the terminal."""
        self.type(' >"$TERMINAL"')

    def type(self, words: str, answer: str = "") -> str:
        """Run `taskmem` with words of the shell's language; return what it prints.

        `answer`: what the person types when they are asked.
        """
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        os.write(self._ours, answer.encode())
        line = f'{COMMAND} {words} <"$TERMINAL"; echo; echo "{_END}$?"\n'
        self._process.stdin.write(line.encode())
        self._process.stdin.flush()
        printed = ""
        for read in self._process.stdout:
            if read.startswith(_END.encode()):
                return printed.rstrip()
            printed += read.decode()
        raise AssertionError(f"the shell has ended: {printed}")

    def close(self) -> None:
        """End the shell."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        status_of(self._process)
        self._process.stdout.close()
        os.close(self._ours)
        os.close(self._theirs)
