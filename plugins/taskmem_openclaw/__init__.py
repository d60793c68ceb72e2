"""Integration with OpenClaw. The hooks are in `hooks`, so that commands need not load them."""
