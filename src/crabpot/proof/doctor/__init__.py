"""Whether this machine can hold an agent: kernel, bwrap, Docker and Crabpot's own files, and what mends them.

May import: backends and below.
Must never enter: changes to the machine.
"""
