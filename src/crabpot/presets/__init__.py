"""Owns what `crabpot run` knows about agent programs: the presets, finding a program, and the settings of its sandbox.

May import: config, spec, settings and below.
Must never enter: a value of a secret, and a process: what is found here is read from files.
"""
