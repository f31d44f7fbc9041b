"""The runner on a Unix socket of its own: its clients, its allow-list and its roots.

May import: `core`, `exec`, `files`.
Must never enter: a shell.
"""
