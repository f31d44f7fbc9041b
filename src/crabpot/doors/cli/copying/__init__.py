"""Both directions of `cp`.

May import: the gateway and below.
Must never enter: trust in names and sizes that a sandbox states.
"""
