"""The promises that every backend keeps, in a form that any backend can be held to.

May import: everything below the doors.
Must never enter: what only one backend promises.
"""
