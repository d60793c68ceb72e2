"""Detect changes of pictures, and decide which are worth a judgement."""
