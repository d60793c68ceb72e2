"""Gemini: asked for verdicts, within a budget."""
