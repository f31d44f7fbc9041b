"""The guard: the confinement in which a command that left its sandbox runs on the host. May import backends.

The mount namespace is the wall: the host's files are there to read, and what may be written is mounted over them. No
list of what programs obey belongs here.
"""
