"""`taskmem setup openclaw`: install into OpenClaw, and remove."""
