"""Fair scheduling: shares of threads, slots and the event loop that no agent can take from the others.

May import: decide and below.
Must never enter: what the work is about.
"""
