"""Decide what a call, a turn's end, silence or a lost lease changes; each builds a `Change`."""
