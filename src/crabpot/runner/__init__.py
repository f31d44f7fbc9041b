"""The program inside every sandbox that executes tool calls. It ships alone.

May import: the standard library, from Python 3.9 on.
Must never enter: anything from the rest of Crabpot, and slow imports at start-up.
"""
