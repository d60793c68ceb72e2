"""Decisions as pure functions: facts and an instant in, a value out."""
