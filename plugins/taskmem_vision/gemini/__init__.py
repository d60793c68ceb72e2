"""Gemini as a reader."""
