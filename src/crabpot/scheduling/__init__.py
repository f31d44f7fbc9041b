"""Fair scheduling: shares of threads and slots that no agent can take from the others, and an event loop on demand.

May import: decide and below.
Must never enter: what the work is about.
"""
