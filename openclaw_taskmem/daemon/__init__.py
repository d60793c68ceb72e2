"""The one process that owns the store and every loop."""
