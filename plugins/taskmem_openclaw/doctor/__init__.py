"""`taskmem doctor`: OpenClaw's side, from the command to the gateway and back."""
