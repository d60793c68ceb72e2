"""Judges that ask a model."""
