"""The terminal: ask a person there, and hold output back meanwhile.

May import: approvals and below.
Must never enter: answers from standard input or output: a sandbox may own them.
"""
