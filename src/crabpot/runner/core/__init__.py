"""The runner's start-up, its single thread, its wire, and the calls on it.

May import: the standard library.
Must never enter: what one tool does.
"""
