"""The same spec on a local Docker engine: one container for each scope key, whose main process is the runner.

May import: `backends.base`, `backends.linux`, spec and below.
Must never enter: another backend, and containers or images that Crabpot did not make.
"""
