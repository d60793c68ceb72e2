"""Show tasks to people: overview, timeline, cards, chat commands."""
