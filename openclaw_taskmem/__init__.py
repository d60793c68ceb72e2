"""The core of openclaw-taskmem: what an agent is to do, remembered for it.

Kept light on purpose: the console script imports this first, and `taskmem mcp`
must not pay for anything that it does not use.
"""

__version__ = "0.1.0"
