"""The doors by which calls enter: `python`, `cli`, `http`, `mcp`, and `local` for clients of `crabpot serve`.

May import: everything.
Must never enter: decisions: a door states the session and the sender, and calls the gateway.
"""
