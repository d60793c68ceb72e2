"""Waits for files, processes and instants. The hooks are in `hooks`."""
