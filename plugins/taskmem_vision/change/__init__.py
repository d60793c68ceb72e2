"""Looks at pictures, and what of them deserves a judgement."""
