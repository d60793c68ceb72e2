"""Sensors, a rule-based judge and an evidence verifier for terminals.

The hooks are in `hooks`, because `taskmem run` imports this package and must start fast.
"""
