"""Thin translators between the daemon and people, hosts and programs."""
