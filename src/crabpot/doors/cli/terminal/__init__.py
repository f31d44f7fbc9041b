"""The terminal: asking a person there, and holding output back meanwhile.

May import: approvals and below.
Must never enter: standard input and output as a way to answer: a sandbox may own them.
"""
