"""Screens and windows, and what is painted on them."""
