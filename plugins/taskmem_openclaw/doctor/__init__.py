"""OpenClaw's checks in `taskmem doctor`."""
