"""Set-up and doctor for Claude Code, Codex and other MCP hosts. The hooks are in `hooks`."""
