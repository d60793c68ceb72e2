"""`python -m openclaw_taskmem` is `taskmem`."""

from openclaw_taskmem.cli.main import main

main()
