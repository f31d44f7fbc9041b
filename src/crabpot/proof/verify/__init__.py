"""The attacks as claims, and the harness that carries them out against a session's own sandbox.

May import: everything below the doors.
Must never enter: walls; a claim only tests them.
"""
