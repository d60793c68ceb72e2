"""Transports that deliver wakes to agents."""
