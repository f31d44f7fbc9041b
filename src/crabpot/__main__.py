"""`python -m crabpot`."""

from crabpot.doors.cli.main import main

main()
