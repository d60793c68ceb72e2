"""The daemon: the one process of a home that owns the store and runs the background loops."""
