"""The command of this installation, for the core, its plug-ins and packages of their own.

It imports `sys` alone: the console script loads it first, and `taskmem mcp` must start fast.
"""

import sys

ISOLATION = ("-E", "-P", "-X", "utf8")
"""Options of Python for every process of ours: ignore Python's variables, import nothing from the
folder of a script or the working folder, and have file names be UTF-8 whatever the locale. `-I`
would also hide the user's own packages, where plug-ins may be."""
OWN_PROGRAM = (sys.executable, *ISOLATION, "-m", "openclaw_taskmem")
"""Runs `taskmem` of this installation; its arguments follow."""
