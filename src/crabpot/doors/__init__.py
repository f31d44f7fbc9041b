"""The ways in: `python`, `cli`, `http`, `mcp`, and `local` for clients of a gateway that serves.

May import: everything.
Must never enter: decisions: a door states the session and the sender, and calls the gateway.
"""
