"""Read text on screens, on this machine."""
