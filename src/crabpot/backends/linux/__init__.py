"""The kernel's mechanisms that several backends share: control groups, processes, descriptors, limits.

May import: spec, state and below.
Must never enter: anything about one backend.
"""
