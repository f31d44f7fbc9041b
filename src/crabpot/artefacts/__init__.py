"""Files and commands for use without Crabpot, with the hardening of a live sandbox: pure, from spec to text.

May import: backends (their pure `render`), spec and below.
Must never enter: a second list of walls; they come from the code that opens live sandboxes.
"""
