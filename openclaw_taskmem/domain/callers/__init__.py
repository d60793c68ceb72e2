"""Who calls and who can be reached: callers, their sessions, and registrars."""
