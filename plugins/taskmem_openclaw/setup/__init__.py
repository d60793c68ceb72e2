"""`taskmem setup`: moves into OpenClaw and other hosts, and out again."""
