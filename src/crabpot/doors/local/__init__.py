"""The door for the same user's programs: `crabpot serve` behind a Unix socket, and its clients.

May import: the gateway and below.
Must never enter: decisions.
"""
