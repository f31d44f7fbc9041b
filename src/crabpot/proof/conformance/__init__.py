"""The promises that every backend keeps, as checks that any backend can be put through.

May import: everything below the doors.
Must never enter: what only one backend promises.
"""
