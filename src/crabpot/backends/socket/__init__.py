"""A runner on a Unix socket that somebody else started, and confines.

May import: `backends.base`, spec and below.
Must never enter: another backend, and a promise about walls that Crabpot did not put up.
"""
