"""What leaves a sandbox for the host: planned, agreed to, confined and run. May import what opens sandboxes.

Nothing here decides whether a command may leave (`elevation`), and no program of the host's reads a file of an agent's
outside a guard.
"""
