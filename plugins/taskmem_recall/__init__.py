"""Sources of `memory_recall`: past tasks, and what screenpipe recorded.

Each has a module of hooks of its own, `…_hooks`, so that each can be switched off alone.
"""
