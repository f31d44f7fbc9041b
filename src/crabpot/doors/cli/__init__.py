"""The command line: one program, whose commands are imported when they run.

May import: everything.
Must never enter: decisions, and slow imports on the way to `--help`.
"""
