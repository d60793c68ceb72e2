"""Sources of `memory_recall`: past tasks, the recorded screen, and other programs' recordings.

Each has a module of hooks of its own, `…_hooks`, so that each can be switched off alone.
"""
