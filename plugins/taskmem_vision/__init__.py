"""Sensor for screens and windows, judges, and Gemini as a reader. The hooks are in `hooks`."""
