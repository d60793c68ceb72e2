"""`python -m openclaw_taskmem` is `taskmem`."""

from openclaw_taskmem.faces.main import main

main()
