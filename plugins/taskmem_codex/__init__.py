"""Wakes for threads of Codex. The hooks are in `hooks`."""
