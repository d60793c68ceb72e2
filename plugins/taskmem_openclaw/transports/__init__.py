"""The ways by which wakes get to an agent."""
