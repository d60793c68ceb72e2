"""What people see of tasks: overview, timeline, cards, chat commands."""
