"""Pages for people: the overview, tasks, waits, health and search, rendered by the daemon."""
