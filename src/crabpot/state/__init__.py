"""How Crabpot keeps files: written whole, owned by nobody else, opened without trust, removed however deep.

May import: errors only.
Must never enter: what the files mean.
"""
