"""Frameworks for agents, each in a module of its own and an extra of the package: their way in to a sandbox.

May import: the Python API, and the one framework that the module is for.
Must never enter: decisions, another framework, and shell text where a method for files would do.
"""
