"""The core of openclaw-taskmem: durable tasks, waits and wakes for AI agents.

This file imports nothing: the console script loads it first, and `taskmem mcp` must start fast.
"""

__version__ = "0.2.0"
