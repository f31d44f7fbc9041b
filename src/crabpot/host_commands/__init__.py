"""Elevated commands: planned, approved, confined and run on the host. May import what opens sandboxes.

Nothing here decides whether a command is elevated (`decide.elevation`), and no program of the host reads an agent's
files outside a guard.
"""
