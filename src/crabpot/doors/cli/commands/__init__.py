"""The commands, one module for each or for a few that belong together.

May import: everything.
Must never enter: a command that another command imports.
"""
