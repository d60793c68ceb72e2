"""Terminals that can be watched, and a judge that reads them without any model.

The hooks are in `hooks`, and not here: `taskmem run` imports this package, and
should start as fast as the command that it runs.
"""
