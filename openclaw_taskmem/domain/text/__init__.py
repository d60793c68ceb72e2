"""Texts: sentences, safe characters, redaction, and paths that texts mention."""
