"""A person's word: requests, answers and leases, where they are kept, and how they are shown.

May import: decide, state and below.
Must never enter: running anything: who may leave is decided here, how it leaves is not.
"""
