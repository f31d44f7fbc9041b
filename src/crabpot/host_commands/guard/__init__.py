"""The guard: the confinement of an elevated command on the host. The mount namespace is its wall.

May import: backends, spec and below.
Must never enter: a list of what programs obey, in the place of a wall.
"""
