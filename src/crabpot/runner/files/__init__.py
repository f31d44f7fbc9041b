"""The file tools, anchored beneath folders that are held open.

May import: `core`.
Must never enter: a path that is opened without an anchor.
"""
