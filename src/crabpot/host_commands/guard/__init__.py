"""The guard: the confinement of an elevated command on the host. May import backends.

The mount namespace is the wall: the host's files are read-only, and what may be written is mounted over them. No list
of what programs obey belongs here.
"""
