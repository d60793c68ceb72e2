"""The command line, the relay and the doctor: clients of the daemon."""
