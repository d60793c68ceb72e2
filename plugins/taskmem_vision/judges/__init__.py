"""Judges that ask a reader."""
