"""The attacks: one function for each claim, whose name is the claim, and one module for each kind.

May import: the harness in `proof.verify`.
Must never enter: excuses; an attack that cannot run says so.
"""
