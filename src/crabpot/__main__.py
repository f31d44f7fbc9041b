"""`python -m crabpot`, and what the wrapper of a checkout starts without `site`."""

import os
import sys

if not __package__:
    # Behind the standard library: nothing of ours may stand for a part of it.
    sys.path.append(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from crabpot.doors.thin.client import main

main()
