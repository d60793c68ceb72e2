"""The use cases: read facts, decide, commit one change."""
