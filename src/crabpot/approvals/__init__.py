"""Approval by a person: requests, answers and leases, where they are stored, and how they are displayed.

May import: decide, state and below.
Must never enter: running anything: a request is answered here, and carried out elsewhere.
"""
