"""What tool calls did to the world: programs, shell commands, checkpoints."""
