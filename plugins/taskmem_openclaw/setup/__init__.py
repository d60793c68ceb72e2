"""`taskmem setup openclaw`: install into OpenClaw, undo and remove."""
