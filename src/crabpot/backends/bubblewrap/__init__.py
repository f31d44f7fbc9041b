"""The embedded default backend: a sandbox from user namespaces, with no daemon, no image and no root.

May import: `backends.base`, `backends.linux`, spec and below.
Must never enter: another backend, and a wall that is only asked for: each is read back from the kernel.
"""
