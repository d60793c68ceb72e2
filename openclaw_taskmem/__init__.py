"""The core of openclaw-taskmem: durable tasks, waits and wakes for AI agents.

This file imports nothing: the console script loads it first, and `taskmem mcp` must start fast.
"""

__version__ = "0.2.0"

ISOLATION = ("-E", "-P", "-X", "utf8")
"""Options of Python for every process of ours: ignore Python's variables, import nothing from the
folder of a script or the working folder, and have file names be UTF-8 whatever the locale. `-I`
would also hide the user's own packages, where plug-ins may be."""
