"""Capture of screens and windows."""
