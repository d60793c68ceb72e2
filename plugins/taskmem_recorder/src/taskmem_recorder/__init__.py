"""The screen recorder: records this screen, and finds what it showed for `memory_recall`."""
