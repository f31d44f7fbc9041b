"""No sandbox: the same runner, unconfined, in the agent's workspace.

May import: `backends.base`, `backends.linux`, spec and below.
Must never enter: another backend, and sessions that were placed in a sandbox.
"""
