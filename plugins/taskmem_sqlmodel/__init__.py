"""Built-in store: SQLite or PostgreSQL. The hooks are in `hooks`."""
