"""Conditions of waits and their targets: read, checked, and told back."""
