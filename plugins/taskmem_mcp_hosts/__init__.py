"""Claude Code, Codex and other MCP hosts: set-up and doctor. Its hooks: `hooks`."""
