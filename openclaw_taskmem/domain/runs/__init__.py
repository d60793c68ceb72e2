"""The machine of a run: its events, fields, claims and limits."""
