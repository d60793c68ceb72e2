"""Reads conditions, and decides on them by rules for text."""
