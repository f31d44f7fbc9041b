"""The live sandboxes: finding or opening the one of a call, keeping, freezing and ending it, and its private folder.

May import: backends, wire, approvals and below.
Must never enter: policy, and the ways of one backend.
"""
