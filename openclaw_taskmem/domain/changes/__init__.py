"""What a call, a turn's end, silence or a lost lease changes: each decision builds a `Change`."""
