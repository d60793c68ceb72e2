"""Wakes and notices: the outbox, resume packets, and lines for people."""
