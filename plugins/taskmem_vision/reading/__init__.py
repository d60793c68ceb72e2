"""Text on screens, read on this machine."""
