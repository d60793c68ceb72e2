"""The effects of tool calls: how they are judged, and the checkpoints that record them."""
