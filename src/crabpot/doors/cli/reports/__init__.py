"""A verification as files for others to read: HTML and JUnit XML.

May import: proof and below.
Must never enter: scripts, and anything loaded from elsewhere.
"""
