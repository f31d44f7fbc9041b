"""The same spec as a pod of a cluster: one for each scope key, whose runner is the process of one exec stream.

May import: `backends.base`, `backends.linux`, spec and below; aiohttp and yaml, of the extra `kubernetes`.
Must never enter: another backend, and objects of the cluster that Crabpot did not make.
"""
